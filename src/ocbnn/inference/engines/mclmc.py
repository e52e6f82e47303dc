"""Microcanonical Langevin dynamics (Robnik et al. 2023): quick draws for tables of hundreds of rows and more.

A chain moves at constant speed; the gradient turns its direction, and a little noise turns it at random, by
about a right angle over the length L. Draws are not corrected: they come from a density that is slightly off.
How far is told by the error in energy: its variance in one step, per dimension. The step size is chosen for a
given error, and moves ever less; what the kept steps really had is in the state, and in the status.

The integrator and its noise are BlackJAX's. The adaptation is not: BlackJAX's own ends at a step of 0 when
chains start at optima, where gradients are large beside the spread.

Adaptation, by the chains of a group together:

- The squared energy error grows with the sixth power of the step size. So the mean of ΔE²/ε⁶ over the latest
  steps says which ε has the error asked for. A mean, not a median: rare large errors are what biases draws.
- A step with an energy error of more than 10 is not made: at a stiff rule the chain turns back. A tenth
  of the draws take smaller steps, so that no chain is caught where the usual step is too long.
- The metric is diagonal: the variance of each weight within chains, renewed at the ends of windows. Between
  chains weights differ by permutations of units as well, which says nothing of how far a step may go.
- L = √dimension in the units of the metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.mcmc import integrators, mclmc
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.base import Bias, Info, spread
from ocbnn.inference.engines.tuning import first_settling
from ocbnn.model.outputs import Precision

MEMORY = 0.99
"""Share of the known error that stays with each step while the step size adapts; later all count alike."""
MOST_ERROR = 10.0
"""Energy error in nats beyond which a step is not made: a chain that runs into a wall turns back instead."""
CAREFUL, CAREFUL_STEP = 0.1, 0.2
"""Share of the draws that take a fifth of the step size: where the usual one is too long, they move on."""
TINY = 1e-30
FASTEST = 1.02
"""The largest factor by which a step size grows in one step."""
MOST_BEYOND = 4.0
"""Times the energy error asked for: what kept steps may have in draws that count as settled."""
WINDOWS = (0.2, 0.4, 0.7)
"""Shares of the warm-up at whose ends the metric is renewed; after the last, the step size settles."""


class Adapted(NamedTuple):
    """What adapts, and what is known of the error.

    Attributes:
        iteration: draws made, those of the warm-up included.
        step_size: ε, in units of the metric.
        variances: the metric.
        level: running mean of ΔE² per dimension at this ε, and how much of a whole mean it is.
        moments: count, and for each chain mean and sum of squares of the positions in this window.
        errors: sum of ΔE² per dimension over the usual steps after the warm-up, and their number.
    """

    iteration: Array
    step_size: Float[Array, ""]
    variances: Float[Array, " size"]
    level: Float[Array, " 2"]
    moments: tuple[Array, Array, Array]
    errors: Float[Array, " 2"]

    def settling(self, warmup: int) -> Adapted:
        """The same metric and step size at the beginning of the last part of the warm-up.

        What is known of the error was that of another density, with other strengths: it counts as the latest
        steps alone. Without it the step would grow until the first large error.
        """
        known = self.level / jnp.maximum(self.level[1], 1.0)
        return self._replace(iteration=first_settling(warmup), level=known)


class MclmcState(NamedTuple):
    """BlackJAX's states, stacked over the chains of the group, and what adapts."""

    chains: Any
    tuning: Adapted


@dataclass(frozen=True)
class Mclmc:
    """Settings of microcanonical Langevin dynamics.

    Attributes:
        steps: from one draw to the next.
        warmup: draws that are not kept.
        energy_error: variance of the energy error of a step, per dimension, that the step size aims at.
        step_size: where adaptation starts, as a share of L.
    """

    name: ClassVar[str] = "mclmc"
    stochastic: ClassVar[bool] = False
    has_chains: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    precision: ClassVar[Precision] = "float32"

    steps: int = 40
    warmup: int = 150
    energy_error: float = 5e-4
    step_size: float = 0.01

    def __post_init__(self) -> None:
        if not (self.steps >= 1 and self.warmup >= 1 and self.energy_error > 0 and self.step_size > 0):
            raise InferenceError(
                "mclmc needs at least one step and one warm-up draw, and a positive energy_error and "
                f"step_size, not {self}."
            )

    def groups(self, chains: int, cores: int) -> tuple[int, ...]:
        """Chains are spread over the cores."""
        return spread(chains, cores)

    def init(
        self, density: Density, key: Array, positions: Float[Array, "chains size"], context: Context
    ) -> MclmcState:
        count, size = positions.shape
        if size < 2:
            raise InferenceError("mclmc needs at least two weights to turn in; give engine='hmc'.")
        keys = jax.random.split(key, count)
        chains = jax.vmap(lambda w, own: mclmc.init(w, lambda v: density.log_density(v, context), own))(
            positions, keys
        )
        kind = positions.dtype
        moments = (jnp.zeros((), jnp.int32), jnp.zeros_like(positions), jnp.zeros_like(positions))
        tuning = Adapted(
            jnp.zeros((), jnp.int32),
            jnp.asarray(self.step_size * math.sqrt(size), kind),
            jnp.full(size, _first_variance(positions), kind),
            jnp.zeros(2, kind),
            moments,
            jnp.zeros(2, kind),
        )
        return MclmcState(chains, tuning)

    def step(
        self, density: Density, key: Array, state: MclmcState, context: Context
    ) -> tuple[MclmcState, Info]:
        """`steps` steps of all chains."""
        few = density.for_few(len(state.chains.position))
        length = math.sqrt(state.chains.position.shape[1])
        adapting = state.tuning.iteration < self.warmup
        careful = jax.random.bernoulli(jax.random.fold_in(key, self.steps), CAREFUL)

        def move(own: Array, chain: Any, tuning: Adapted) -> tuple[Any, Array]:
            integrate = integrators.with_isokinetic_maruyama(
                integrators.isokinetic_mclachlan(lambda w: few.log_density(w, context), tuning.variances)
            )
            step_size = (
                jnp.where(careful, CAREFUL_STEP, 1.0).astype(tuning.step_size.dtype) * tuning.step_size
            )
            moved, kinetic = integrate(chain, step_size, length, own)
            return moved, kinetic - moved.logdensity + chain.logdensity

        def one(carry: tuple[Any, Adapted], number: Array) -> tuple[tuple[Any, Adapted], Any]:
            chains, tuning = carry
            keys = jax.random.split(jax.random.fold_in(key, number), len(chains.position))
            moved, error = jax.vmap(move, (0, 0, None))(keys, chains, tuning)
            finite = jnp.isfinite(error) & jnp.isfinite(moved.position).all(axis=1)
            finite &= jnp.isfinite(moved.logdensity_grad).all(axis=1)
            error = jnp.where(finite, jnp.clip(error, -MOST_ERROR, MOST_ERROR), MOST_ERROR)
            made = jnp.abs(error) < MOST_ERROR
            squares = error * error / error.dtype.type(length**2)
            turned = chains._replace(momentum=-chains.momentum)
            chains = jax.tree.map(
                lambda new, old: jnp.where(made.reshape(-1, *[1] * (new.ndim - 1)), new, old), moved, turned
            )
            return (chains, self._learnt(tuning, squares, adapting, careful)), (made, ~finite)

        (chains, tuning), (made, lost) = jax.lax.scan(one, tuple(state), jnp.arange(self.steps))
        tuning = self._windowed(tuning, chains.position)
        share = jnp.mean(made.astype(chains.logdensity.dtype), axis=0)
        info = Info(chains.logdensity, share, lost.any(axis=0), jnp.asarray(2 * self.steps, jnp.int32))
        return MclmcState(chains, tuning), info

    def _learnt(
        self, tuning: Adapted, squares: Float[Array, " chains"], adapting: Array, careful: Array
    ) -> Adapted:
        """The step size for the error asked for, by the latest errors; after the warm-up errors are counted.

        Once the metric is known, all errors since then count alike, so that the step moves ever less.
        Careful steps say nothing about the usual one, so they are not counted either.
        """
        seen = jnp.mean(squares)
        settles = tuning.iteration >= int(WINDOWS[-1] * self.warmup)
        memory = jnp.where(settles, 1.0, MEMORY).astype(seen.dtype)
        level = memory * tuning.level + (1.0 - MEMORY) * jnp.stack([seen, jnp.ones_like(seen)])
        known = jnp.maximum(level[0] / level[1], TINY)
        factor = jnp.minimum((self.energy_error / known) ** (1 / 6), FASTEST)
        following = factor * tuning.step_size
        level = level * jnp.stack([factor**6, jnp.ones_like(factor)])  # what it is at the following step size
        counted = tuning.errors + jnp.where(careful, 0.0, jnp.stack([seen, jnp.ones_like(seen)]))
        return tuning._replace(
            step_size=jnp.where(careful, tuning.step_size, following),
            level=jnp.where(careful, tuning.level, level),
            errors=jnp.where(adapting, jnp.zeros_like(counted), counted),
        )

    def _windowed(self, tuning: Adapted, positions: Float[Array, "chains size"]) -> Adapted:
        """One more draw; at the end of a window its variances are the metric, and a new window begins."""
        count, mean, squares = tuning.moments
        count = count + 1
        difference = positions - mean
        mean = mean + difference / count
        squares = squares + difference * (positions - mean)
        done = tuning.iteration + 1
        ends = jnp.any(done == jnp.asarray([max(int(share * self.warmup), 1) for share in WINDOWS]))
        found = jnp.mean(squares, axis=0) / jnp.maximum(count - 1, 1)
        # Where little is known, weights are taken to be alike.
        typical = jnp.exp(jnp.mean(jnp.log(jnp.maximum(found, 1e-12))))
        variances = (count * found + 5.0 * typical) / (count + 5.0)
        # A step of the same length where weights were alike.
        ratio = jnp.sqrt(jnp.exp(jnp.mean(jnp.log(tuning.variances) - jnp.log(variances))))
        empty = (jnp.zeros_like(count), jnp.zeros_like(mean), jnp.zeros_like(squares))
        moments = jax.tree.map(lambda new, old: jnp.where(ends, new, old), empty, (count, mean, squares))
        return tuning._replace(
            iteration=done,
            moments=moments,
            variances=jnp.where(ends, variances, tuning.variances),
            step_size=jnp.where(ends, jnp.minimum(ratio, 1.0) * tuning.step_size, tuning.step_size),
            level=jnp.where(ends, jnp.zeros_like(tuning.level), tuning.level),
        )

    def bias(self, states: Sequence[MclmcState]) -> Bias:
        """The energy error that the kept steps had, of the group where it is largest."""
        errors = [
            float(state.tuning.errors[0] / jnp.maximum(state.tuning.errors[1], 1.0)) for state in states
        ]
        words = f"the energy error of a step has the variance {max(errors):.1e} per dimension"
        if max(errors) <= MOST_BEYOND * self.energy_error:
            return Bias(words)
        asked = f"{self.energy_error:.1e} is asked for"
        return Bias(words, f"{words}, and {asked}; run a longer warm-up, or give engine='hmc'")

    def draws(self, key: Array, state: MclmcState, count: int) -> Float[Array, "chains draws size"]:
        return state.chains.position[:, None, :]


def _first_variance(positions: Float[Array, "chains size"]) -> Float[Array, ""]:
    """Of weights before anything is known of them: a hundredth of their mean square."""
    return 0.01 * jnp.mean(positions * positions) + TINY
