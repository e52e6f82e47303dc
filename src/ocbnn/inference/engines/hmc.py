"""Hamiltonian Monte Carlo with simple trajectories: the fast exact engine for small and medium networks.

Each step draws momenta, a trajectory time τ ~ U(0, T) (in units of the metric; jitter avoids periodic
orbits) shared by the chains of a group, takes ceil(τ/ε) leapfrog steps, and accepts the end point with
probability min(1, exp(−ΔH)) (Neal 2011).

Leapfrog with *any* deterministic gradient function is reversible and volume-preserving, since each kick and
each drift is a shear; accepting with the exact density therefore keeps the chain exact. So gradients use
`density.surrogate`, where a few weighted nodes stand for all points of a rule, in float32, and acceptance
uses `density.log_density` in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.base import Info, spread
from ocbnn.inference.engines.tuning import Schedule, Tuning
from ocbnn.model.outputs import Precision

MAX_ENERGY_ERROR = 1000.0
CAREFUL_STEP = 0.2
"""The step size of careful trajectories, as a share of the usual one."""


class HmcState(NamedTuple):
    """Positions with their exact log-density and the surrogate's gradient there."""

    positions: Float[Array, "chains size"]
    log_density: Float[Array, " chains"]
    gradient: Float[Array, "chains size"]
    tuning: Tuning


@dataclass(frozen=True)
class Hmc:
    """Settings of Hamiltonian Monte Carlo.

    Attributes:
        trajectory: T, the longest trajectory in units of the metric.
        jitter: τ ~ U(0, T); without it every trajectory has length T.
        target_acceptance: what the step size aims at.
        warmup: steps of adaptation.
        step_size: where adaptation starts, and where it stays with `adapt=False` (errata I2).
        adapt: whether step size and metric adapt at all.
        max_steps: leapfrog steps of one trajectory at the most.
        gradients: precision of the gradients alone: positions, momenta and the density that accepts are
            always in that of the run, so chains are as exact with "float32", and half again as fast.
        careful: share of the trajectories that take a fifth of the step size, as many steps as otherwise.
            Where the density bends so sharply that the usual step is rejected again and again, these move on.
            None without adaptation.
        leapfrog_steps: as many for every trajectory, whatever the step size (the paper's L); `trajectory`,
            `jitter`, `careful` and `max_steps` then mean nothing.
    """

    name: ClassVar[str] = "hmc"
    stochastic: ClassVar[bool] = False
    has_chains: ClassVar[bool] = True
    precision: ClassVar[Precision] = "float64"
    few_nodes: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    trajectory: float = 2.0
    jitter: bool = True
    target_acceptance: float = 0.85
    warmup: int = 400
    step_size: float = 1e-3
    adapt: bool = True
    max_steps: int = 5_000
    gradients: Precision = "float32"
    careful: float = 0.03
    leapfrog_steps: int | None = None

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.warmup if self.adapt else 0, self.target_acceptance)

    def groups(self, chains: int, cores: int) -> tuple[int, ...]:
        """Chains of one core move together: they share the number of steps and fill the vector units."""
        return spread(chains, cores)

    def init(
        self, density: Density, key: Array, positions: Float[Array, "chains size"], context: Context
    ) -> HmcState:
        log_density = jax.vmap(lambda w: density.log_density(w, context))(positions)
        gradient = force_of(density, context, self.gradients)(positions)
        tuning = self.schedule.init(positions.shape[1], self.step_size, positions.dtype)
        return HmcState(positions, log_density, gradient, tuning)

    def step(self, density: Density, key: Array, state: HmcState, context: Context) -> tuple[HmcState, Info]:
        time_key, momentum_key, accept_key = jax.random.split(key, 3)
        step_size, inverse_mass = state.tuning.step_size, state.tuning.inverse_mass
        steps = self._steps(time_key, step_size)
        careful = self._careful(time_key)
        step_size = jnp.where(careful, CAREFUL_STEP * step_size, step_size)
        momenta = jax.random.normal(momentum_key, state.positions.shape, state.positions.dtype)
        momenta = momenta / jnp.sqrt(inverse_mass)
        positions, ends, gradient = leapfrog(
            density,
            context,
            state.positions,
            momenta,
            state.gradient,
            step_size,
            inverse_mass,
            steps,
            self.gradients,
        )
        log_density = jax.vmap(lambda w: density.log_density(w, context))(positions)
        gain = log_density - state.log_density + kinetic(momenta, inverse_mass) - kinetic(ends, inverse_mass)
        gain = jnp.where(jnp.isfinite(gain) & jnp.isfinite(gradient).all(-1), gain, -jnp.inf)
        acceptance = jnp.exp(jnp.minimum(gain, 0.0))
        accept = jax.random.uniform(accept_key, gain.shape, gain.dtype) < acceptance
        moved = HmcState(
            jnp.where(accept[:, None], positions, state.positions),
            jnp.where(accept, log_density, state.log_density),
            jnp.where(accept[:, None], gradient, state.gradient),
            state.tuning,
        )
        # Careful trajectories say nothing about the usual step size.
        learnt = jnp.where(careful, self.target_acceptance, jnp.mean(acceptance))
        tuning = self.schedule.update(state.tuning, moved.positions, learnt)
        info = Info(moved.log_density, acceptance, gain < -MAX_ENERGY_ERROR, steps)
        return moved._replace(tuning=tuning), info

    def _steps(self, key: Array, step_size: Float[Array, ""]) -> Array:
        if self.leapfrog_steps is not None:
            return jnp.asarray(self.leapfrog_steps, jnp.int32)
        fraction = jax.random.uniform(key) if self.jitter else jnp.ones(())
        steps = fraction * self.trajectory / step_size
        steps = jnp.ceil(steps * (1.0 - 1e-6))  # 30.000002 steps are 30
        return jnp.clip(steps, 1, self.max_steps).astype(jnp.int32)

    def _careful(self, key: Array) -> Array:
        if self.leapfrog_steps is not None or not self.adapt:
            return jnp.asarray(False)
        return jax.random.bernoulli(jax.random.fold_in(key, 1), self.careful)

    def draws(self, key: Array, state: HmcState, count: int) -> Float[Array, "chains draws size"]:
        return state.positions[:, None, :]


def kinetic(momenta: Float[Array, "chains size"], inverse_mass: Float[Array, " size"]) -> Array:
    """Kinetic energy of every chain."""
    return 0.5 * jnp.sum(momenta * momenta * inverse_mass, axis=-1)


def force_of(density: Density, context: Context, kind: Precision) -> Callable[[Array], Array]:
    """The surrogate's gradient at every chain's position, computed in that precision."""
    if kind == "float32":
        context = jax.tree.map(_single, context)

    def force(positions: Array) -> Array:
        few = density.for_few(len(positions))
        gradient = jax.vmap(jax.grad(lambda w: few.surrogate(w, context)))
        return gradient(_single(positions) if kind == "float32" else positions).astype(positions.dtype)

    return force


def _single(leaf: Array) -> Array:
    leaf = jnp.asarray(leaf)
    return leaf.astype(jnp.float32) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def leapfrog(
    density: Density,
    context: Context,
    positions: Float[Array, "chains size"],
    momenta: Float[Array, "chains size"],
    gradient: Float[Array, "chains size"],
    step_size: Float[Array, ""],
    inverse_mass: Float[Array, " size"],
    steps: Array,
    kind: Precision = "float64",
) -> tuple[Array, Array, Array]:
    """Positions, momenta and gradients after so many kick-drift-kick steps; inner half kicks are joined."""
    force = force_of(density, context, kind)
    drift = step_size * inverse_mass

    def one(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        positions, momenta, _ = carry
        positions = positions + drift * momenta
        gradient = force(positions)
        return positions, momenta + step_size * gradient, gradient

    momenta = momenta + 0.5 * step_size * gradient
    positions, momenta, gradient = jax.lax.fori_loop(0, steps, one, (positions, momenta, gradient))
    return positions, momenta - 0.5 * step_size * gradient, gradient
