"""Adaptation of step size and diagonal metric, shared by the chains of a group.

A schedule after Stan's, shortened because chains start warm: the metric is re-estimated at the ends of
windows, from the positions of all chains of the group since the last end; the step size follows the pooled
acceptance by dual averaging throughout and is frozen, averaged, when warm-up ends. Both are BlackJAX's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.adaptation.mass_matrix import welford_algorithm
from blackjax.adaptation.step_size import dual_averaging_adaptation
from jaxtyping import Array, Float

SMALLEST_STEP, LARGEST_STEP = 1e-6, 1.0
SETTLING = 0.3  # the last share of the warm-up, in which only the step size still adapts


class Tuning(NamedTuple):
    """What adapts, and how far adaptation is."""

    iteration: Array
    step_size: Float[Array, ""]
    inverse_mass: Float[Array, " size"]
    averaging: Any
    moments: Any

    def settling(self, warmup: int) -> Tuning:
        """The same metric and step size at the beginning of the last part of the warm-up.

        What was learnt of the step size was learnt of another density: averaging begins anew, from its end.
        """
        averaging = _averaging(_kept_sane(self.step_size))
        return self._replace(iteration=first_settling(warmup), averaging=averaging)


@dataclass(frozen=True)
class Schedule:
    """When the metric is renewed, as fractions of the warm-up.

    Attributes:
        warmup: steps in all.
        target: acceptance the step size aims at.
        first: until here the step size alone adapts, while chains leave their optima.
        windows: the metric is renewed at each of these; after the last the step size settles.
    """

    warmup: int
    target: float
    first: float = 0.1
    windows: tuple[float, ...] = (0.2, 0.4, 1.0 - SETTLING)

    def init(self, size: int, step_size: float, dtype: Any) -> Tuning:
        """Unit metric, the given first guess of the step size."""
        moments, _, _ = welford_algorithm(is_diagonal_matrix=True)
        first = jnp.asarray(step_size, dtype)
        return Tuning(
            jnp.zeros((), jnp.int32), first, jnp.ones(size, dtype), _averaging(first), moments(size)
        )

    def update(
        self, tuning: Tuning, positions: Float[Array, "chains size"], acceptance: Float[Array, ""]
    ) -> Tuning:
        """Learn from one step; after the warm-up only the count goes on."""
        if self.warmup == 0:
            return tuning._replace(iteration=tuning.iteration + 1)
        adapted = jax.lax.cond(
            tuning.iteration < self.warmup,
            lambda: self._adapt(tuning, positions, acceptance),
            lambda: tuning,
        )
        return adapted._replace(iteration=tuning.iteration + 1)

    def _adapt(self, tuning: Tuning, positions: Array, acceptance: Array) -> Tuning:
        _, learn, final = dual_averaging_adaptation(self.target)
        empty, add, close = welford_algorithm(is_diagonal_matrix=True)
        averaging = learn(tuning.averaging, acceptance)
        done = tuning.iteration + 1
        begun = done > int(self.first * self.warmup)
        pooled, _ = jax.lax.scan(lambda m, p: (add(m, p), None), tuning.moments, positions)
        moments = jax.tree.map(lambda new, old: jnp.where(begun, new, old), pooled, tuning.moments)
        ends = jnp.asarray([int(end * self.warmup) for end in self.windows])

        def renewed() -> tuple[Array, Any, Any]:
            variance, count, _ = close(moments)
            metric = (count * variance + 5e-3) / (count + 5.0)  # Stan's shrinkage
            return metric, _averaging(_kept_sane(final(averaging))), empty(positions.shape[1])

        inverse_mass, averaging, moments = jax.lax.cond(
            jnp.any(done == ends), renewed, lambda: (tuning.inverse_mass, averaging, moments)
        )
        step_size = jnp.where(done == self.warmup, final(averaging), jnp.exp(averaging.log_step_size))
        step_size = _kept_sane(step_size).astype(tuning.step_size.dtype)
        return Tuning(tuning.iteration, step_size, inverse_mass, averaging, moments)


def _averaging(step_size: Float[Array, ""]) -> Any:
    """Dual averaging that begins at this step size; what it aims at plays no part yet."""
    start, _, _ = dual_averaging_adaptation(0.5)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, step_size.dtype), start(step_size))


def _kept_sane(step_size: Float[Array, ""]) -> Float[Array, ""]:
    # Dual averaging answers ten rejections in a row with a step 10¹⁰ times smaller, and takes long to return.
    return jnp.clip(step_size, SMALLEST_STEP, LARGEST_STEP)


def first_settling(warmup: int) -> Array:
    """The iteration at which the last part of the warm-up begins."""
    return jnp.asarray(warmup - int(SETTLING * warmup), jnp.int32)
