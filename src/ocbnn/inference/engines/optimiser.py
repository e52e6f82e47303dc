"""What the engines that follow gradients share: an optimiser with its learning rate, and safe gradients.

Minibatches and fresh points make gradients noisy, so the learning rate has to fall for the last iterates to
settle: by default it follows half a cosine down to zero over the engine's steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Context, Density

# Adagrad as Duchi et al. (2011) and the paper have it: nothing in the accumulator at the start.
OPTIMIZERS: dict[str, Callable[[Any], optax.GradientTransformation]] = {
    "adam": optax.adam,
    "adagrad": lambda rate: optax.adagrad(rate, initial_accumulator_value=0.0, eps=1e-10),
    "rmsprop": optax.rmsprop,
    "sgd": optax.sgd,
}

LAST_RATE = 1e-5
"""Of an exponential decay, as a share of the first: a hundredth is left after two fifths, so that the others
show whether the objective still changes (`diagnostics.plateau`)."""

DECAYS: dict[str, Callable[[float, int], optax.Schedule]] = {
    "cosine": lambda rate, steps: optax.cosine_decay_schedule(rate, max(steps, 1)),
    "exponential": lambda rate, steps: optax.exponential_decay(rate, max(steps, 1), LAST_RATE),
    "constant": lambda rate, steps: optax.constant_schedule(rate),
}

# Rows times weights of one particle from which on particles are evaluated in two halves, which XLA may run
# on two cores, and from which on one after the other.
HALVED_WORK, LOOPED_WORK = 200_000, 5_000_000


@dataclass(frozen=True)
class Ascent:
    """An optimiser by name, its learning rate, how that falls, and over how many steps."""

    optimizer: str
    learning_rate: float
    decay: str
    steps: int

    def __post_init__(self) -> None:
        for what, name, table in (("optimizer", self.optimizer, OPTIMIZERS), ("decay", self.decay, DECAYS)):
            if name not in table:
                raise InferenceError(f"There is no {what} {name!r}; choose one of {', '.join(table)}.")
        if not self.learning_rate > 0:
            raise InferenceError(f"learning_rate must be positive, not {self.learning_rate}.")
        if self.steps < 1:
            raise InferenceError(f"An optimisation needs at least one step, not {self.steps}.")

    @property
    def transform(self) -> optax.GradientTransformation:
        """The optimiser as Optax knows it."""
        return OPTIMIZERS[self.optimizer](DECAYS[self.decay](self.learning_rate, self.steps))

    def init(self, parameters: Any) -> Any:
        """The optimiser's state at the given parameters."""
        return self.transform.init(parameters)

    def climb(self, parameters: Any, direction: Any, state: Any) -> tuple[Any, Any]:
        """One step up the direction: new parameters and the optimiser's state."""
        updates, state = self.transform.update(jax.tree.map(jnp.negative, direction), state, parameters)
        return optax.apply_updates(parameters, updates), state


class Climbing:
    """Engines whose particles climb together, in one group, for a fixed number of steps."""

    steps: int
    optimizer: str
    learning_rate: float
    decay: str

    @property
    def ascent(self) -> Ascent:
        return Ascent(self.optimizer, self.learning_rate, self.decay, self.steps)

    @property
    def warmup(self) -> int:
        return self.steps

    def groups(self, particles: int, cores: int) -> tuple[int, ...]:
        """One group: particles feel each other, or are one large product that occupies all cores."""
        return (particles,)


class Slopes(NamedTuple):
    """Log-densities and their gradients; a particle whose own are not finite has gradient 0, and says so."""

    log_density: Float[Array, " particles"]
    gradient: Float[Array, "particles size"]
    finite: Array


def slopes(density: Density, positions: Float[Array, "particles size"], context: Context) -> Slopes:
    """Log-density and gradient at every particle's position.

    A particle stays where it is finite rather than become NaN: one bad minibatch does not end the run, and if
    it goes on, the position is there to ask which part of the density is to blame.
    """
    value_and_gradient = jax.value_and_grad(lambda w: density.log_density(w, context))

    def one(w: Array) -> Slopes:
        log_density, gradient = value_and_gradient(w)
        # The sum is not finite if any part of the gradient is, and far cheaper than asking each.
        finite = jnp.isfinite(log_density) & jnp.isfinite(jnp.sum(gradient))
        return Slopes(log_density, jnp.where(finite, gradient, 0.0), finite)

    inputs = [each.inputs for each in (context.data, *context.points) if each is not None]
    work = sum(len(each) for each in inputs) * positions.shape[1]
    if work > LOOPED_WORK:
        return jax.lax.map(one, positions)
    if work <= HALVED_WORK or len(positions) < 2:
        return jax.vmap(one)(positions)
    # XLA's CPU runs a product over a batch of matrices on one core.
    halves = [jax.vmap(one)(half) for half in jnp.array_split(positions, 2)]
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *halves)
