"""Warm start: every chain is optimised with the rules' strength annealed from zero.

Rules are stiff. From a prior draw a chain may reject for ever, and an optimiser that meets a strong rule at
once is thrown far from the data. So the strength grows from nothing while the data are already there. Learnt
noise is held, small and the same everywhere, and so are learnt scales of the prior: a joint optimum would
drive them off. Chains leave noise that is too small at once, but stay long at functions that left to noise
what they could have learnt.

Afterwards points where the networks still break a rule are looked for by ascent (rules are broken between
points and in corners); they join the rule's points, for all chains alike, before anything is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from ocbnn.checking.search import searchable, worst_points
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.base import Engine
from ocbnn.inference.loop import Job, side_by_side
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.likelihoods import Noisy
from ocbnn.model.networks import as_key
from ocbnn.model.outputs import model_outputs
from ocbnn.model.priors import LearntPrior
from ocbnn.model.programs import QUICKLY
from ocbnn.seeds import seed_for

MOST_WORK = 500_000_000_000
"""Steps times rows times weights of a warm start on minibatches: about half a minute."""
ROOM = 128
"""Places for points that a rule is given at a time: each time the shapes change, and all is compiled anew."""
TOGETHER = 4
"""Chains that climb in one program."""
HELD_NOISE = 0.1
"""Share of sd(y) at which learnt noise is held."""
FOUND_SHARE = 0.5
"""Of a rule's weight: what all points that a search has found share, and what is left for the others."""

Start = Literal["small", "prior", "base"]
"""Where chains start: as networks usually do, or at draws of the prior, or of what it was before rules."""


@dataclass(frozen=True)
class WarmStart:
    """Settings of the warm start.

    Attributes:
        steps: of Adam.
        learning_rate: of Adam, falling to a tenth at the end.
        annealing: the share of the steps over which strength grows from 0, with the third power.
        searches: how often violating points are looked for, each followed by the steps after the annealing.
        found: how many of them may join each rule's points in one search.
        retries: how often chains that ended far below the best start anew.
        rows: maximum number of rows per warm-start step, for engines that take minibatches; fewer where many
            chains of many weights would take longer over them than the engine does.
    """

    steps: int = 5000
    learning_rate: float = 0.02
    annealing: float = 0.7
    searches: int = 2
    found: int = 8
    rows: int = 4096
    retries: int = 2

    def affordable_rows(self, weights: int) -> int:
        """Rows with which the steps of so many weights, of all chains together, stay within `MOST_WORK`."""
        return min(self.rows, MOST_WORK // max(self.steps * weights, 1))

    def reserved(self, model: Model) -> Model:
        """The model with room in its rules for points yet to be found, so that shapes stay what they are."""
        return replace(
            model, terms=tuple(with_room(rule, self.searches * self.found) for rule in model.terms)
        )

    def optimise(
        self,
        density: Density,
        positions: Float[np.ndarray, "chains size"],
        context: Context,
        *,
        annealed: bool = True,
        guide: Density | None = None,
        cores: int = 1,
        executor: Executor | None = None,
    ) -> Float[np.ndarray, "chains size"]:
        """Positions of high density, one for each chain; `guide` is climbed while strength grows.

        Chains climb in groups of the same size, side by side on the cores, or on an executor's workers.
        """
        begin = jnp.asarray(0 if annealed else int(self.annealing * self.steps))
        together = min(TOGETHER, len(positions))
        count = -(-len(positions) // together)
        settings = (self, None if guide is density else guide)
        groups = np.split(np.resize(positions, (count * together, density.size)), count)
        jobs = [Job(density, _optimise, settings, (begin, jnp.asarray(group), context)) for group in groups]
        return np.concatenate(side_by_side(jobs, cores, executor))[: len(positions)]

    def without_stragglers(
        self,
        density: Density,
        positions: Float[np.ndarray, "chains size"],
        context: Context,
        again: Callable[[int], Float[np.ndarray, "chains size"]],
    ) -> Float[np.ndarray, "chains size"]:
        """The positions with those replaced whose density is negligible beside the best one's.

        Their basins have no mass worth a chain, but a chain that starts there may never leave. `again` gives
        other optimised positions; where that fails too, a chain starts where a better one does.
        """
        positions = np.array(positions)
        log_density = density.program(_log_densities)
        for attempt in range(1, self.retries + 1):
            heights = np.asarray(log_density(jnp.asarray(positions), context))
            lost = ~(heights >= np.nanmax(heights) - density.size - 100.0)
            if not lost.any() or lost.all():
                return positions
            others = again(attempt) if attempt < self.retries else positions[~lost]
            positions[lost] = np.resize(others, (lost.sum(), density.size))
        return positions

    def add_found_points(self, key: int, model: Model, positions: Float[np.ndarray, "chains size"]) -> Model:
        """The model with points added where these networks break a rule; the same model where none do.

        Boxes of rules that are to be proved are cut anew, for these networks.
        """
        rules = list(model.terms)
        for index, rule in enumerate(rules):
            worst = worst_points(
                seed_for(key, "rule", index),
                rule,
                partial(model_outputs, model, np.asarray(positions)),
                count=self.found,
            )
            coded = worst.coded[worst.margin > 0]
            rule = rule.cut(positions)
            rules[index] = with_found(rule, coded) if len(coded) else rule
        if all(new is old for new, old in zip(rules, model.terms, strict=True)):
            return model
        return replace(model, terms=tuple(rules))


def starting_positions(
    model: Model, chains: int, seed: int, engine: Engine | None = None, start: Start | None = None
) -> Float[np.ndarray, "chains size"]:
    """Draws of the base prior for chains, and of one that has learnt rules for all, unless `start` is given.

    Optimisers start smaller otherwise, where no layer is saturated.
    """
    keys = jax.random.split(as_key(seed_for(seed, "start")), chains)
    prior = model.base
    if start is None:
        optimised = engine is None or engine.stochastic
        start = "small" if optimised and not isinstance(prior, LearntPrior) else "prior"
    if start == "base":  # a learnt prior knows what it was before
        prior = getattr(prior, "base", prior)

    def one(key: Array) -> Array:
        small, drawn = jax.random.split(key)
        position = model.initial(small)
        if start == "small":
            return position
        weights = prior.sample(drawn)
        return jnp.concatenate([weights, position[model.network.size :]])

    return np.asarray(jax.jit(jax.vmap(one), compiler_options=QUICKLY)(keys))


def with_room(rule: RuleTerm, room: int) -> RuleTerm:
    """The rule with so many further points that count for nothing yet."""
    if not searchable(rule):
        return rule
    points = rule.points
    coded = np.concatenate([points.coded, np.repeat(points.coded[:1], room, axis=0)])
    weights = np.concatenate([points.weights, np.zeros(room)])
    return replace(rule, points=rule.at(coded, weights=weights, strength=points.strength))


def found_points(rule: RuleTerm) -> Float[np.ndarray, "found Q"]:
    """The points of a rule that a search has found."""
    own = rule.drawn + rule.corners
    return np.asarray(rule.points.coded)[own:][np.asarray(rule.points.weights)[own:] > 0]


def with_found(rule: RuleTerm, found: Float[np.ndarray, "found Q"]) -> RuleTerm:
    """The rule with more points that a search has found."""
    return with_pool(rule, np.concatenate([found_points(rule), found]))


def with_pool(rule: RuleTerm, pool: Float[np.ndarray, "found Q"]) -> RuleTerm:
    """The rule with these points as all that a search has found, with more places where they need them.

    With `reduction="mean"` all found points together have half of the rule's weight, however many they are:
    what a search finds moves the points that count, and never makes the rule count for more. With "sum" each
    counts 1, as in the paper's equation.
    """
    own = rule.drawn + rule.corners
    missing = len(pool) - (len(rule.points.coded) - own)
    if missing > 0:
        rule = with_room(rule, max(missing, ROOM))
    coded, weights = np.array(rule.points.coded), np.array(rule.points.weights)
    joined = slice(own, own + len(pool))
    coded[own:], weights[own:] = coded[:1], 0.0
    coded[joined], weights[joined] = pool, 1.0
    if rule.reduction == "mean":
        share = FOUND_SHARE if len(pool) else 0.0
        weights[:own], weights[joined] = (1.0 - share) / own, share / max(len(pool), 1)
    return replace(rule, points=rule.at(coded, weights=weights, strength=rule.points.strength))


def _log_densities(density: Density, positions: Array, context: Context) -> Array:
    return jax.vmap(lambda w: density.log_density(w, context))(positions)


def _optimise(
    settings: WarmStart,
    guide: Density | None,
    density: Density,
    begin: Array,
    positions: Array,
    context: Context,
) -> Array:
    """From step `begin` of the schedule on: later ones have full strength and a smaller learning rate."""
    steps, model = settings.steps, density.model
    held = model.likelihood.constant(model.network, HELD_NOISE) if isinstance(model.likelihood, Noisy) else {}
    places = np.array(list(held), dtype=int)
    positions = positions.at[:, places].set(jnp.asarray(list(held.values()), positions.dtype))
    moving = jnp.ones(density.size, bool).at[places].set(False)
    optimiser = optax.adam(optax.cosine_decay_schedule(settings.learning_rate, steps, alpha=0.1))

    annealed = int(settings.annealing * steps)

    def climb(climbed: Density, first: Array | int, last: int, carry: Any) -> Any:
        def loss(w: Array, strength: Array) -> Array:
            softened = tuple(p._replace(strength=p.strength * strength) for p in context.points)
            value = -climbed.log_density(w, context._replace(points=softened))
            return jnp.where(jnp.isfinite(value), value, 0.0)

        def one(step: Array, carry: tuple[Array, optax.OptState]) -> tuple[Array, optax.OptState]:
            w, state = carry
            grown = jnp.minimum(step / max(annealed, 1), 1.0) ** 3
            gradient = jnp.where(moving, jnp.nan_to_num(jax.grad(loss)(w, grown)), 0.0)
            updates, state = optimiser.update(gradient, state)
            return optax.apply_updates(w, updates), state

        return jax.lax.fori_loop(first, last, one, carry)

    def chain(w: Array) -> Array:
        carry = (w, optimiser.init(w))
        if guide is not None:
            carry = climb(guide, begin, annealed, carry)
            return climb(density, annealed, steps, carry)[0]
        return climb(density, begin, steps, carry)[0]

    return jax.vmap(chain)(positions)
