"""Adaptation of step size and diagonal metric, shared by the chains of a group.

A schedule after Stan's, shortened because chains start warm: the metric is re-estimated at the ends of
windows, from the positions of all chains of the group since the last end; the step size follows the pooled
acceptance by dual averaging throughout and is frozen, averaged, when warm-up ends. Both updates are BlackJAX's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.adaptation.mass_matrix import welford_algorithm
from blackjax.adaptation.step_size import dual_averaging_adaptation
from jaxtyping import Array, Float


class Tuning(NamedTuple):
    """What adapts, and how far adaptation is."""

    iteration: Array
    step_size: Float[Array, ""]
    inverse_mass: Float[Array, " size"]
    averaging: Any
    moments: Any


@dataclass(frozen=True)
class Schedule:
    """When the metric is renewed; the fields are fractions of the warm-up.

    Attributes:
        warmup: steps in all.
        target: acceptance the step size aims at.
        first: the step size alone, from the warm-started positions.
        windows: ends of the windows after each of which the metric is renewed.
    """

    warmup: int
    target: float
    first: float = 0.15
    windows: tuple[float, ...] = (0.3, 0.55, 0.85)

    def init(self, size: int, step_size: float, dtype: Any) -> Tuning:
        """Unit metric, the given first guess of the step size."""
        start, _, _ = dual_averaging_adaptation(self.target)
        moments, _, _ = welford_algorithm(is_diagonal_matrix=True)
        one = jnp.asarray(step_size, dtype)
        return Tuning(
            jnp.zeros((), jnp.int32),
            one,
            jnp.ones(size, dtype),
            jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), start(one)),
            moments(size),
        )

    def update(
        self, tuning: Tuning, positions: Float[Array, "members size"], acceptance: Float[Array, ""]
    ) -> Tuning:
        """Learn from one step; after the warm-up only the count goes on."""
        adapting = tuning.iteration < self.warmup
        adapted = jax.lax.cond(
            adapting, lambda: self._adapt(tuning, positions, acceptance), lambda: tuning
        )
        return adapted._replace(iteration=tuning.iteration + 1)

    def _adapt(self, tuning: Tuning, positions: Array, acceptance: Array) -> Tuning:
        start, learn, final = dual_averaging_adaptation(self.target)
        fresh, add, close = welford_algorithm(is_diagonal_matrix=True)
        averaging = learn(tuning.averaging, acceptance)
        begun = tuning.iteration >= int(self.first * self.warmup)
        pooled, _ = jax.lax.scan(lambda m, p: (add(m, p), None), tuning.moments, positions)
        moments = jax.tree.map(lambda new, old: jnp.where(begun, new, old), pooled, tuning.moments)
        done = tuning.iteration + 1
        ends = jnp.asarray([int(end * self.warmup) for end in self.windows])
        closes = jnp.any(done == ends)

        def renewed() -> tuple[Any, Any, Any]:
            variance, count, _ = close(moments)
            shrunk = (count * variance + 5e-3) / (count + 5.0)
            again = jax.tree.map(
                lambda leaf, like: jnp.asarray(leaf, like.dtype), start(final(averaging)), averaging
            )
            return shrunk, again, fresh(positions.shape[1])

        inverse_mass, averaging, moments = jax.lax.cond(
            closes, renewed, lambda: (tuning.inverse_mass, averaging, moments)
        )
        step_size = jnp.where(done == self.warmup, final(averaging), jnp.exp(averaging.log_step_size))
        return Tuning(tuning.iteration, step_size.astype(tuning.step_size.dtype), inverse_mass, averaging, moments)
