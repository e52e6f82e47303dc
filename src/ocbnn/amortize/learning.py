"""Learning λ = (μ, σ): among the priors that meet the rules, the one closest to the base prior.

    minimise KL(q_λ ‖ base)   subject to   shortfall_r(λ) ≤ budget_r   for every rule r

The paper's objectives alone (eq. 8, 9) are best met by a point: run to the end, every σ shrinks (errata D8).
Here σ stays as wide as the rules let it. KL between weights hardly sees how wide functions are (one bias,
made certain, narrows them everywhere for a few nats), so functions themselves count, too: the KL between the
learnt and the base prior's Φ(x), averaged over inputs far and wide, times `function_weight`.

Constraints are log(shortfall_r / budget_r) ≤ 0: a multiplier is in nats per e-fold of violation, whatever the
tolerance. Multipliers follow the violation (dual ascent, damped by the violation of the step itself, as in an
augmented Lagrangian). Every step sees fresh points (errata D5).
"""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.amortize.objectives import Objective, divergence, shortfall
from ocbnn.amortize.predictive import SMALLEST_VARIANCE, Predictive, linearized, sampled
from ocbnn.errors import ModelError
from ocbnn.inference.engines.optimiser import Ascent
from ocbnn.inference.feed import Feed
from ocbnn.model.conditional import RulePoints
from ocbnn.model.networks import Network, as_key
from ocbnn.model.priors import DiagonalGaussian, kl_divergence
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.margins import by_case
from ocbnn.seeds import seed_for

CHUNK = 100
"""Steps whose points are drawn at once."""
LARGE_NETWORK = 2000
PROPORTIONAL_FROM = 10.0
"""Nats from which on multipliers move in proportion to themselves."""
LAST = 0.25
"""Share of the steps, the last ones, over which λ is averaged and starts are compared."""


@dataclass(frozen=True)
class Learning:
    """How λ is learnt.

    Attributes:
        steps: of the optimiser.
        points: fresh ones for each rule and step.
        samples: of the hidden layers at each point, for the Monte Carlo objective.
        learning_rate: at the start; in units of the base prior's standard deviations.
        optimizer: a name in `inference.optimiser.OPTIMIZERS`.
        decay: of the learning rate.
        constrained: False follows the paper: the objective alone, stopped after `steps`.
        function_weight: how much the KL between functions at an average input counts, beside that of weights.
        aim: share of each tolerance that learning aims for; the rest is for what Monte Carlo cannot tell.
        dual_rate: how fast multipliers move: nats per step and e-fold of violation.
        first_multiplier: where multipliers begin, in nats per e-fold.
        damping: how much a multiplier leans on the violation of the step itself.
        candidates: draws of the base prior among which learning chooses its starts.
        start: log of the standard deviations that learning starts from, relative to the base prior's.
        starts: how many; the one that meets the rules closest to the base prior is taken.
    """

    steps: int = 2000
    points: int = 64
    samples: int = 32
    learning_rate: float = 0.03
    optimizer: str = "adam"
    decay: str = "cosine"
    constrained: bool = True
    function_weight: float = 10.0
    aim: float = 0.5
    dual_rate: float = 0.03
    first_multiplier: float = 5.0
    damping: float = 1.0
    candidates: int = 512
    start: float = -1.5
    starts: int = 2

    def __post_init__(self) -> None:
        for name in ("steps", "points", "samples", "starts"):
            if getattr(self, name) < 1:
                raise ModelError(f"{name} is a positive whole number, not {getattr(self, name)!r}.")
        if not 0.0 < self.aim <= 1.0:
            raise ModelError(f"aim is a share of the tolerance, above 0 and at most 1, not {self.aim!r}.")

    @property
    def ascent(self) -> Ascent:
        """The optimiser, whose learning rate falls over the steps."""
        return Ascent(self.optimizer, self.learning_rate, self.decay, self.steps)

    @classmethod
    def for_network(cls, network: Network) -> Learning:
        """The defaults; networks of thousands of weights learn from one start, with fewer samples."""
        return cls() if network.size <= LARGE_NETWORK else cls(points=30, samples=16, starts=1)

    @classmethod
    def paper(cls, steps: int = 50, scale: float = 1.0) -> Learning:
        """The paper's way: AdaGrad at 0.1 from σ = 1, 30 points a step, stopped early (appendix C).

        The authors' code starts from a `scale` of softplus(0) = 0.693 (errata I3).
        """
        return cls(
            steps=steps,
            points=30,
            learning_rate=0.1,
            optimizer="adagrad",
            decay="constant",
            constrained=False,
            start=math.log(scale),
            starts=1,
        )


class Parameters(NamedTuple):
    """λ relative to the base prior: mean = base mean + base sd · shift, sd = base sd · exp(log_ratio)."""

    shift: Float[Array, " size"]
    log_ratio: Float[Array, " size"]


class Progress(NamedTuple):
    """What carries over from step to step."""

    parameters: Parameters
    optimizer: Any
    multipliers: Float[Array, " rules"]
    average: Parameters
    averaged: Float[Array, ""]


class Learnt(NamedTuple):
    """λ, the multiplier of every rule, and what each step saw: shortfalls, distance to the base prior."""

    gaussian: DiagonalGaussian
    multipliers: Float[np.ndarray, " rules"]
    shortfalls: Float[np.ndarray, "steps rules"]
    distance: Float[np.ndarray, " steps"]


class Elsewhere(NamedTuple):
    """Inputs far and wide, and mean and standard deviation of Φ there under the base prior."""

    inputs: Float[np.ndarray, "n D"]
    mean: Float[np.ndarray, "n k"]
    sd: Float[np.ndarray, "n k"]


@dataclass(frozen=True, eq=False)
class Problem:
    """All that learning needs to know besides its own settings.

    Attributes:
        network: Φ_w.
        base: what the learnt prior stays close to.
        rules: what is to be learnt.
        budgets: the shortfall that each rule's tolerance allows.
        objective: how shortfalls are measured.
        elsewhere: where functions are to stay as wide as those of the base prior.
    """

    network: Network
    base: DiagonalGaussian
    rules: tuple[Constraint, ...]
    budgets: tuple[float, ...]
    objective: Objective
    elsewhere: Elsewhere

    def gaussian(self, parameters: Parameters) -> tuple[Array, Array]:
        """Mean and standard deviation of every weight."""
        scale = jnp.asarray(self.base.sd, parameters.shift.dtype)
        mean = jnp.asarray(self.base.mean, parameters.shift.dtype) + scale * parameters.shift
        return mean, scale * jnp.exp(parameters.log_ratio)

    def predictive(self, mean: Array, sd: Array, inputs: Array, key: Array, samples: int) -> Predictive:
        """The predictive of Φ_W at each of these inputs."""
        if self.objective.linearized:
            return linearized(self.network, mean, sd, inputs)
        return sampled(self.network, mean, sd, inputs, key, samples)

    def shortfalls(
        self, mean: Array, sd: Array, points: tuple[RulePoints, ...], key: Array, samples: int
    ) -> Float[Array, " rules"]:
        """Each rule's shortfall, averaged over its cases.

        Rules that look at one input at a time share one predictive; rules that compare inputs share draws
        of w.
        """
        shared_key, own_keys = jax.random.split(key)
        inputs = [jnp.asarray(each.inputs, mean.dtype) for each in points]
        single = [rule.requirement.inputs == 1 for rule in self.rules]
        if any(single):
            together = jnp.concatenate(list(itertools.compress(inputs, single)))
            shared = self.predictive(mean, sd, together, shared_key, samples)
        found, first = [], 0
        for number, (rule, each) in enumerate(zip(self.rules, points, strict=True)):
            if single[number]:
                own = slice(first, first + len(inputs[number]))
                first = own.stop
                there = Predictive(shared.mean[:, own], shared.variance[:, own])
            else:
                joint = sampled(self.network, mean, sd, inputs[number], shared_key, samples, jointly=True)
                cases = each.weights.shape[-1]
                # The last axis is that of the outputs, where `by_case` expects classes.
                there = Predictive(*(by_case(rule, part, cases, classes=True) for part in joint))
            own_key = jax.random.fold_in(own_keys, number)
            found.append(jnp.mean(shortfall(rule.requirement, each.demand, there, own_key, self.objective)))
        return jnp.stack(found)

    def function_kl(self, mean: Array, sd: Array, key: Array, points: int, samples: int) -> Float[Array, ""]:
        """KL between Φ(x) under q and under the base prior, both taken as Gaussian, at an average input."""
        places, draws = jax.random.split(key)
        chosen = jax.random.randint(places, (points,), 0, len(self.elsewhere.inputs))
        inputs, base_mean, base_sd = (jnp.asarray(each, mean.dtype)[chosen] for each in self.elsewhere)
        now = sampled(self.network, mean, sd, inputs, draws, samples)
        variance = jnp.mean(now.variance, axis=0) + jnp.var(now.mean, axis=0)
        ratio = (variance + SMALLEST_VARIANCE) / base_sd**2
        shift = (jnp.mean(now.mean, axis=0) - base_mean) / base_sd
        return 0.5 * jnp.mean(jnp.sum(ratio + shift * shift - 1.0 - jnp.log(ratio), axis=-1))


def claims(
    problem: Problem, gaussian: DiagonalGaussian, points: tuple[RulePoints, ...], samples: int, seed: int
) -> Float[np.ndarray, " rules"]:
    """What the objective says of each rule: mass outside, or total variation from D_y."""
    objective = problem.objective._replace(divergence=divergence("total-variation"), tangent=False)
    plain = replace(problem, objective=objective)
    mean, sd = (jnp.asarray(each, jnp.float32) for each in (gaussian.mean, gaussian.sd))
    key = as_key(seed_for(seed, "claims"))
    found = jax.jit(plain.shortfalls, static_argnums=4)(mean, sd, points, key, samples)
    return np.asarray(found, dtype=float)


def closest(problem: Problem, found: tuple[Learnt, ...]) -> Learnt:
    """Of those that meet the rules the closest to the base prior; if none does, the one that misses least."""

    def badness(each: Learnt) -> tuple[float, float]:
        last = slice(-max(int(LAST * len(each.distance)), 1), None)
        ratio = (each.shortfalls[last].mean(axis=0) / np.array(problem.budgets)).max()
        return max(float(ratio), 1.0), float(each.distance[last].mean())

    return min(found, key=badness)


def learn(problem: Problem, feed: Feed, learning: Learning, seed: int) -> tuple[Learnt, ...]:
    """λ from each of several starts, all of which see the same points.

    λ is averaged over the last quarter of the steps: single steps are noisy.
    """
    keys = jax.random.split(as_key(seed_for(seed, "learning steps")), learning.starts)
    starts_key = as_key(seed_for(seed, "learning starts"))
    first = jax.tree.map(operator.itemgetter(0), feed.chunk(0, 1).points)
    progress = jax.vmap(partial(_started, problem, learning))(_starts(problem, learning, first, starts_key))
    shortfalls, distances = [], []
    for number in range(-(-learning.steps // CHUNK)):
        steps = min(CHUNK, learning.steps - number * CHUNK)
        points = jax.tree.map(operator.itemgetter(slice(steps)), feed.chunk(number, CHUNK).points)
        first_step = jnp.asarray(number * CHUNK)
        progress, (seen, distance) = _chunk(problem, learning, progress, points, keys, first_step)
        shortfalls.append(np.asarray(seen))
        distances.append(np.asarray(distance))
    seen, distance = np.concatenate(shortfalls), np.concatenate(distances)
    final = progress.average if learning.constrained else progress.parameters
    return tuple(
        Learnt(_finite_gaussian(problem, final, start), multipliers, seen[:, start], distance[:, start])
        for start, multipliers in enumerate(np.asarray(progress.multipliers, dtype=float))
    )


@partial(jax.jit, static_argnums=(0, 1))
def _starts(
    problem: Problem, learning: Learning, points: tuple[RulePoints, ...], key: Array
) -> Float[Array, "starts size"]:
    """Draws of the base prior around which rules are kept best, of many; for the paper's way any draws.

    At the mean itself a network is symmetric: all hidden units have the same gradient, and the linearised
    objective none at all. The paper's text starts there, its code at such draws (errata I3).
    """
    if not learning.constrained:
        return jax.random.normal(key, (learning.starts, problem.network.size))
    shifts_key, rules_key = jax.random.split(key)
    shifts = jax.random.normal(shifts_key, (learning.candidates, problem.network.size))
    budgets = jnp.asarray(problem.budgets)

    def excess(shift: Array) -> Array:
        mean, sd = problem.gaussian(Parameters(shift, jnp.full_like(shift, learning.start)))
        seen = problem.shortfalls(mean, sd, points, rules_key, learning.samples)
        return jnp.max(jnp.log(seen + 1e-12) - jnp.log(budgets))

    return shifts[jnp.argsort(jax.lax.map(excess, shifts))[: learning.starts]]


def _started(problem: Problem, learning: Learning, shift: Float[Array, " size"]) -> Progress:
    parameters = Parameters(shift, jnp.full_like(shift, learning.start))
    return Progress(
        parameters,
        learning.ascent.init(parameters),
        jnp.full(len(problem.rules), learning.first_multiplier if learning.constrained else 0.0),
        jax.tree.map(jnp.zeros_like, parameters),
        jnp.zeros(()),
    )


def _finite_gaussian(problem: Problem, final: Parameters, start: int) -> DiagonalGaussian:
    own = Parameters(final.shift[start], final.log_ratio[start])
    mean, sd = (np.asarray(each, dtype=float) for each in problem.gaussian(own))
    if not (np.isfinite(mean).all() and np.isfinite(sd).all()):
        raise ModelError(
            "Learning the amortized prior diverged: its parameters are not finite. Lower learning_rate, or "
            "check the values that the rules ask for."
        )
    return DiagonalGaussian(mean, sd)


@partial(jax.jit, static_argnums=(0, 1))
def _chunk(
    problem: Problem,
    learning: Learning,
    progress: Progress,
    points: tuple[RulePoints, ...],
    keys: Array,
    first: Array,
) -> tuple[Progress, tuple[Array, Array]]:
    def one(progress: Progress, each: tuple[Array, tuple[RulePoints, ...]]) -> tuple[Progress, Any]:
        number, there = each
        own_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
        of_start = partial(step, problem, learning, points=there, number=number)
        return jax.vmap(lambda own, key: of_start(own, key=key))(progress, own_keys)

    numbers = first + jnp.arange(len(points[0].inputs))
    return jax.lax.scan(one, progress, (numbers, points))


def step(
    problem: Problem,
    learning: Learning,
    progress: Progress,
    points: tuple[RulePoints, ...],
    key: Array,
    number: Array,
) -> tuple[Progress, tuple[Array, Array]]:
    """One step down the Lagrangian in λ, one up in the multipliers."""
    budgets = learning.aim * jnp.asarray(problem.budgets)
    rules_key, functions_key = jax.random.split(key)

    def lagrangian(parameters: Parameters) -> tuple[Array, tuple[Array, Array]]:
        mean, sd = problem.gaussian(parameters)
        seen = problem.shortfalls(mean, sd, points, rules_key, learning.samples)
        distance = kl_divergence(mean, sd, problem.base)
        if not learning.constrained:
            return jnp.sum(seen), (seen, distance)
        of_functions = problem.function_kl(mean, sd, functions_key, learning.points, learning.samples)
        distance = distance + learning.function_weight * of_functions
        excess = jnp.log(seen + 1e-12) - jnp.log(budgets)
        lean = jnp.exp(learning.damping * jnp.clip(excess, -1.0, 1.0))
        pressure = jax.lax.stop_gradient(progress.multipliers * lean)
        return distance + jnp.sum(pressure * excess), (seen, distance)

    slope, (seen, distance) = jax.grad(lagrangian, has_aux=True)(progress.parameters)
    downhill = jax.tree.map(lambda leaf: -jnp.where(jnp.isfinite(leaf), leaf, 0.0), slope)
    parameters, optimizer = learning.ascent.climb(progress.parameters, downhill, progress.optimizer)
    excess = jnp.clip(jnp.log(seen + 1e-12) - jnp.log(budgets), -1.0, 1.0)
    # In proportion to itself a multiplier reaches any size it needs; a small one does not wait for that.
    reach = learning.dual_rate * (1.0 + progress.multipliers / PROPORTIONAL_FROM)
    multipliers = progress.multipliers
    if learning.constrained:
        multipliers = jnp.maximum(multipliers + reach * excess, 0.0)
    last = (number >= int((1.0 - LAST) * learning.steps)).astype(progress.averaged.dtype)
    averaged = progress.averaged + last
    share = last / jnp.maximum(averaged, 1.0)
    average = jax.tree.map(lambda old, new: old + share * (new - old), progress.average, parameters)
    return Progress(parameters, optimizer, multipliers, average, averaged), (seen, distance)
