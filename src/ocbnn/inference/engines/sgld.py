"""Stochastic gradient Langevin dynamics: chains that move by minibatch gradients and noise alone.

    w ← w + ε_t/2 · P ∇log p(w | D) + √(ε_t P) · N(0, I)          (Welling & Teh 2011)

Nothing is rejected, so the draws are those of a density that is off by O(ε); ε_t = a (b + t)^−γ falls. P is
1, or 1/(λ + √V) with V the running mean of squared gradients (Li et al. 2016, without their curvature term:
one more bias, small where V moves slowly).

A minibatch's gradient has noise of its own, of covariance C, which adds to what is injected: on a Gaussian
posterior variances are (1 + ε c/4) times too large along a direction whose noise has the variance c. So no
step that samples is longer than ε = 4 · `NOISE_SHARE` / c, c being the largest eigenvalue of √P C √P. It is
followed by Oja's rule (1982) along the differences of gradients one step apart. These hold the drift between
the two positions too, of up to (ε A)²/8 in terms of ε c/4 for a curvature A, which errs on the safe side.

Cyclical (Zhang et al. 2020): ε_t falls along half a cosine in every cycle. The first part of a cycle
explores, without noise; only the rest samples. `kept` in the state is the last position of a sampling phase,
and it is what `draws` gives: during exploration the draw before is repeated, which the effective sample size
sees, so no draw ever comes from an exploring chain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.base import Bias, Info, spread
from ocbnn.inference.engines.optimiser import slopes
from ocbnn.model.outputs import Precision

PRECONDITIONED_STEP = 1e-3
POWER_ITERATIONS = 30
NOISE_SHARE = 0.1
"""The largest variance of the gradient's own noise in a step, as a share of the noise injected: 5% in sd."""
MOST_WIDENING = 0.1
"""By which share minibatches may widen standard deviations in draws that count as settled."""
NOISE_MEMORY, TURNING = 0.99, 0.05
"""How much of the known noise level stays, and how far its direction turns, with each pair of gradients."""


class GradientNoise(NamedTuple):
    """What is known of the noise of minibatch gradients.

    Attributes:
        before: the gradients of the step before.
        direction: in which the noise is largest.
        level: c, its variance there, in the metric of the steps; 0 while it is unknown.
        pairs: of gradients that went into it.
        widest: the largest ε c/4 of all steps after the warm-up.
    """

    before: Float[Array, "chains size"]
    direction: Float[Array, " size"]
    level: Float[Array, ""]
    pairs: Array
    widest: Float[Array, ""]


class SgldState(NamedTuple):
    """The chains; a; steps made; squared gradients; last position of a sampling phase; gradient noise."""

    positions: Float[Array, "chains size"]
    step_size: Float[Array, ""]
    iteration: Array
    squares: Float[Array, "chains size"]
    kept: Float[Array, "chains size"]
    noise: GradientNoise


@dataclass(frozen=True)
class Sgld:
    """Settings of stochastic gradient Langevin dynamics.

    Attributes:
        warmup: steps that are not kept.
        step_size: a of ε_t = a (b + t)^−γ; with cycles, the first step size of each. Unless given, 1 over the
            largest curvature of the log-density at the start: twice that and the steepest direction
            overshoots further every time, which is how chains with too long steps break stiff rules. Unless
            given, steps are also kept short enough for the noise of minibatches.
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
    precision: ClassVar[Precision] = "float32"
    exact: ClassVar[bool] = False

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
        return spread(chains, cores)

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
            _unknown_noise(positions, key),
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
        positions, first, iteration, squares, kept, noise = state
        log_density, gradient, finite = slopes(density, positions, context)
        sampling = self.samples_at(iteration)
        metric = jnp.ones_like(positions)
        if self.preconditioned:
            newer = self.memory * squares + (1.0 - self.memory) * gradient * gradient
            squares = jnp.where(finite[:, None], newer, squares)
            metric = 1.0 / (self.damping + jnp.sqrt(squares))
        noise = _learnt_noise(noise, gradient, metric, iteration)
        length = self.step_size_at(iteration, first).astype(positions.dtype)
        if self.step_size is None:
            known = sampling & (noise.level > 0)
            longest = 4.0 * NOISE_SHARE / jnp.where(known, noise.level, 1.0)
            length = jnp.where(known, jnp.minimum(length, longest), length)
        counted = sampling & (iteration >= self.warmup)
        widest = jnp.maximum(noise.widest, jnp.where(counted, length * noise.level / 4.0, 0.0))
        step_size = length * metric
        injected = jax.random.normal(key, positions.shape, positions.dtype)
        injected = jnp.where(sampling, jnp.sqrt(step_size) * injected, 0.0)
        moved = positions + 0.5 * step_size * gradient + injected
        positions = jnp.where(finite[:, None], moved, positions)
        kept = jnp.where(sampling, positions, kept)
        info = Info(log_density, jnp.ones_like(log_density), ~finite, jnp.ones((), jnp.int32))
        noise = noise._replace(widest=widest)
        return SgldState(positions, first, iteration + 1, squares, kept, noise), info

    def widening(self, state: SgldState) -> float:
        """By which share gradient noise widened standard deviations at most, in its largest direction."""
        return math.sqrt(1.0 + float(state.noise.widest)) - 1.0

    def bias(self, states: Sequence[SgldState]) -> Bias | None:
        """The widening by gradient noise.

        Not known with preconditioning: its missing term is a further bias, of 15% in a test with much noise.
        """
        if self.preconditioned:
            return None
        share = max(self.widening(state) for state in states)
        words = f"the noise of minibatches makes standard deviations up to {share:.1%} too large"
        if share > MOST_WIDENING:
            return Bias(words, f"{words}; lower the step size, or take larger minibatches")
        return Bias(f"{words}, and steps of finite length add to that")

    def draws(self, key: Array, state: SgldState, count: int) -> Float[Array, "chains draws size"]:
        """The chains' last positions of a sampling phase."""
        return state.kept[:, None, :]


def _unknown_noise(positions: Float[Array, "chains size"], key: Array) -> GradientNoise:
    direction = jax.random.normal(jax.random.fold_in(key, 1), positions.shape[1:], positions.dtype)
    none = jnp.zeros((), positions.dtype)
    unit = direction / jnp.linalg.norm(direction)
    return GradientNoise(jnp.zeros_like(positions), unit, none, jnp.zeros((), jnp.int32), none)


def _learnt_noise(
    noise: GradientNoise, gradient: Float[Array, "chains size"], metric: Array, iteration: Array
) -> GradientNoise:
    """The same after one more step; every second step ends a pair, so that no gradient is in two of them."""
    difference = jnp.sqrt(0.5 * metric) * (gradient - noise.before)
    along = difference @ noise.direction
    seen = jnp.mean(along * along)
    pairs = noise.pairs + 1
    share = jnp.maximum(1.0 / pairs, 1.0 - NOISE_MEMORY).astype(seen.dtype)
    level = noise.level + share * (seen - noise.level)
    pull = jnp.mean(along[:, None] * difference, axis=0)
    turned = noise.direction + TURNING * pull / jnp.where(level > 0, level, 1.0)
    newer = (turned / jnp.linalg.norm(turned), level, pairs)
    ends = (iteration % 2 == 1) & jnp.isfinite(seen) & jnp.isfinite(turned).all() & (seen > 0)
    known = (noise.direction, noise.level, noise.pairs)
    direction, level, pairs = jax.tree.map(lambda new, old: jnp.where(ends, new, old), newer, known)
    return GradientNoise(gradient, direction, level, pairs, noise.widest)


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
