"""The protocol of base priors: a log-density over a flat weight vector that can be sampled."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Array, Float

from ocbnn.networks import Key


@runtime_checkable
class Prior(Protocol):
    """Belief about a network's weights before rules and data.

    A new one is a class with these members; it can carry rules (`ConditionalPrior`) and enter a `Model`:

        @dataclass(frozen=True)
        class Laplace:
            size: int
            def log_density(self, w): return -jnp.sum(jnp.abs(w)) - self.size * jnp.log(2.0)
            def sample(self, key): return jax.random.laplace(as_key(key), (self.size,))
    """

    @property
    def size(self) -> int:
        """Length of the weight vector."""
        ...

    def log_density(self, w: Float[Array, " size"]) -> Float[Array, ""]:
        """Log-density of the weights."""
        ...

    def sample(self, key: Key) -> Float[Array, " size"]:
        """One draw."""
        ...
