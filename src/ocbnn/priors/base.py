"""The protocol of base priors: a log-density over a flat weight vector that can be sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jaxtyping import Array, Float

from ocbnn.networks import Key, Network
from ocbnn.schema import Schema

if TYPE_CHECKING:
    from ocbnn.priors.conditional import RuleTerm


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


@runtime_checkable
class LearntPrior(Prior, Protocol):
    """A base prior that has learnt rules, for one network and in the units of one table."""

    @property
    def learnt(self) -> tuple[RuleTerm, ...]:
        """Its rules, as posteriors check and enforce them."""
        ...

    @property
    def schema(self) -> Schema:
        """The table, in whose units it was learnt."""
        ...

    @property
    def network(self) -> Network:
        """Whose weights it is about."""
        ...

    def check(self, network: Network, schema: Schema) -> None:
        """Refuse another network, or a table in other units."""
        ...


def base_of(prior: Any) -> Prior:
    """The prior before conditional terms."""
    return prior if isinstance(prior, Prior) else prior.base


def learnt_rules(prior: Any) -> tuple[RuleTerm, ...]:
    """The rules that a model's prior has learnt, besides those it is conditioned on."""
    base = base_of(prior)
    return base.learnt if isinstance(base, LearntPrior) else ()
