"""Stochastic gradient Langevin dynamics: chains that move by minibatch gradients and noise alone.

    w ← w + ε_t/2 · P ∇log p(w | D) + √(ε_t P) · N(0, I)          (Welling & Teh 2011)

Nothing is rejected, so the draws are those of a density that is off by O(ε); ε_t = a (b + t)^−γ falls. P is
1, or 1/(λ + √V) with V the running mean of squared gradients (Li et al. 2016, without their curvature term:
one more bias, small where V moves slowly).

Cyclical (Zhang et al. 2020): ε_t falls along half a cosine in every cycle. The first part of a cycle
explores, without noise; only the rest samples. `kept` in the state is the last position of a sampling phase,
and it is what `draws` gives: during exploration the draw before is repeated, which the effective sample size
sees, so no draw ever comes from an exploring chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.base import Info
from ocbnn.inference.engines.optimiser import slopes

PRECONDITIONED_STEP = 1e-3
POWER_ITERATIONS = 30


class SgldState(NamedTuple):
    """The chains; a; how many steps they made; squared gradients; the last position of a sampling phase."""

    positions: Float[Array, "chains size"]
    step_size: Float[Array, ""]
    iteration: Array
    squares: Float[Array, "chains size"]
    kept: Float[Array, "chains size"]


@dataclass(frozen=True)
class Sgld:
    """Settings of stochastic gradient Langevin dynamics.

    Attributes:
        warmup: steps that are not kept.
        step_size: a of ε_t = a (b + t)^−γ; with cycles, the first step size of each. Unless given, 1 over the
            largest curvature of the log-density at the start: twice that and the steepest direction
            overshoots further every time, which is how chains with too long steps break stiff rules.
        offset: b, positive.
        decay: γ; 0 keeps the step size constant.
        preconditioned: whether P follows the gradients' size.
        memory: share of V kept at each step.
        damping: λ.
        cycle: steps of one cycle; no cycles unless given.
        exploration: the share of each cycle that explores.
    """

    name: ClassVar[str] = "sgld"
    stochastic: ClassVar[bool] = True
    has_chains: ClassVar[bool] = True

    warmup: int = 2000
    step_size: float | None = None
    offset: float = 1.0
    decay: float = 0.33
    preconditioned: bool = False
    memory: float = 0.99
    damping: float = 1e-5
    cycle: int | None = None
    exploration: float = 0.5

    def __post_init__(self) -> None:
        if not ((self.step_size is None or self.step_size > 0) and self.offset > 0 and self.decay >= 0):
            raise InferenceError(
                "The step size a (b + t)^−γ needs step_size = a > 0, offset = b > 0 and decay = γ ≥ 0, not "
                f"a = {self.step_size}, b = {self.offset}, γ = {self.decay}."
            )
        if self.cycle is not None:
            if not (self.cycle >= 2 and 0 <= self.exploration < 1):
                raise InferenceError(
                    "A cycle has at least two steps, and explores for a share of it in [0, 1), not "
                    f"{self.cycle} steps and {self.exploration}."
                )
            if self.warmup <= self.exploring:
                raise InferenceError(
                    f"The first {self.exploring} steps explore, so that nothing can be kept before them; "
                    f"raise warmup from {self.warmup} to {self.exploring + 1} or more."
                )

    @property
    def exploring(self) -> int:
        """Steps at the start of each cycle that explore."""
        return 0 if self.cycle is None else min(math.ceil(self.exploration * self.cycle), self.cycle - 1)

    def groups(self, chains: int, cores: int) -> tuple[int, ...]:
        """Chains are spread over the cores."""
        cores = min(chains, cores)
        return tuple(chains // cores + (i < chains % cores) for i in range(cores))

    def step_size_at(self, iteration: Array, first: float | Array) -> Float[Array, ""]:
        """The step size ε_t, where a is `first`."""
        if self.cycle is None:
            return first * (self.offset + iteration) ** -self.decay
        # Half a step past the cosine's grid: the last step of a cycle still moves.
        within = (iteration % self.cycle + 0.5) / self.cycle
        return first * 0.5 * (1.0 + jnp.cos(jnp.pi * within))

    def samples_at(self, iteration: Array) -> Array:
        """Whether this step belongs to a sampling phase."""
        return jnp.asarray(True) if self.cycle is None else iteration % self.cycle >= self.exploring

    def init(
        self, density: Density, key: Array, positions: Float[Array, "chains size"], context: Context
    ) -> SgldState:
        squares = jnp.zeros_like(positions)
        if self.preconditioned:
            # Gradients of one chain are one number for each weight: their mean over chains starts V.
            gradient = slopes(density, positions, context).gradient
            squares = jnp.broadcast_to(jnp.mean(gradient * gradient, axis=0), positions.shape)
        return SgldState(
            positions,
            self._first(density, key, positions, context),
            jnp.zeros((), jnp.int32),
            squares,
            positions,
        )

    def _first(self, density: Density, key: Array, positions: Array, context: Context) -> Float[Array, ""]:
        if self.step_size is not None:
            return jnp.asarray(self.step_size, positions.dtype)
        if self.preconditioned:  # its steps are already in units of the gradients' own size
            return jnp.asarray(PRECONDITIONED_STEP, positions.dtype)
        curvature = jnp.max(largest_curvatures(density, key, positions, context))
        return 1.0 / jnp.maximum(curvature, 1.0)  # even the base prior alone has a curvature of about 1

    def step(
        self, density: Density, key: Array, state: SgldState, context: Context
    ) -> tuple[SgldState, Info]:
        """One move; the log-densities reported are those of where it starts from."""
        positions, first, iteration, squares, kept = state
        log_density, gradient, finite = slopes(density, positions, context)
        sampling = self.samples_at(iteration)
        step_size = self.step_size_at(iteration, first).astype(positions.dtype)
        if self.preconditioned:
            newer = self.memory * squares + (1.0 - self.memory) * gradient * gradient
            squares = jnp.where(finite[:, None], newer, squares)
            step_size = step_size / (self.damping + jnp.sqrt(squares))
        noise = jax.random.normal(key, positions.shape, positions.dtype)
        noise = jnp.where(sampling, jnp.sqrt(step_size) * noise, 0.0)
        moved = positions + 0.5 * step_size * gradient + noise
        positions = jnp.where(finite[:, None], moved, positions)
        kept = jnp.where(sampling, positions, kept)
        info = Info(log_density, jnp.ones_like(log_density), ~finite, jnp.ones((), jnp.int32))
        return SgldState(positions, first, iteration + 1, squares, kept), info

    def draws(self, key: Array, state: SgldState, count: int) -> Float[Array, "chains draws size"]:
        """The chains' last positions of a sampling phase."""
        return state.kept[:, None, :]


def largest_curvatures(
    density: Density, key: Array, positions: Float[Array, "chains size"], context: Context
) -> Float[Array, " chains"]:
    """The largest |eigenvalue| of the log-density's Hessian at every position, by power iteration."""
    gradient = jax.grad(lambda w: density.log_density(w, context))

    def one(w: Array) -> Array:
        def again(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            direction, _ = carry
            image = jnp.nan_to_num(jax.jvp(gradient, (w,), (direction,))[1])
            length = jnp.linalg.norm(image)
            return image / jnp.where(length > 0, length, 1.0), length

        start = jax.random.normal(key, w.shape, w.dtype)
        start = start / jnp.linalg.norm(start)
        return jax.lax.fori_loop(0, POWER_ITERATIONS, again, (start, jnp.zeros((), w.dtype)))[1]

    return jax.lax.map(one, positions)
