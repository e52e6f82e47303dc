"""What happens before any draw is kept: starting positions, warm start, found points, nodes, strengths.

All of it is frozen afterwards and shared by every chain; with a folder it is also kept on disk, so that a
resumed run samples the very same density.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.inference.density import (
    Context,
    Density,
    Prepared,
    Strengths,
    check_finite,
    density_of,
    fixed_context,
)
from ocbnn.inference.feed import Feed
from ocbnn.inference.loop import RunOptions
from ocbnn.inference.strength import StrengthSearch
from ocbnn.inference.surrogate import candidate_nodes
from ocbnn.inference.warmstart import Start, WarmStart, starting_positions
from ocbnn.model import Model
from ocbnn.model.conditional import RulePoints
from ocbnn.progress import Tick
from ocbnn.seeds import seed_for
from ocbnn.storage.runs import RunFolder

BRIEF = 1500
"""Steps of a warm start at the most before engines that climb by minibatches themselves."""
NODE_ERROR = 0.1  # of a log-density: what acceptance does not notice


@dataclass(frozen=True)
class Settings:
    """How a run is prepared.

    Attributes:
        warm: the warm start; None goes on from where chains start.
        strength: the search for the strength of rules that were given none; None keeps the terms' own.
        nodes: whether gradients of exact engines may use fewer nodes than there are points.
        start: "prior" at draws of the prior, "base" at draws of what a learnt prior was before it learnt
            rules, "small" at N(0, 1/fan-in); unless given, "small" for engines that optimise under a prior
            that has learnt nothing, "prior" otherwise.
    """

    warm: WarmStart | None = field(default_factory=WarmStart)
    strength: StrengthSearch | None = field(default_factory=StrengthSearch)
    nodes: bool = True
    start: Start | None = None

    def __post_init__(self) -> None:
        if self.start not in (None, *get_args(Start)):
            known = ", ".join(get_args(Start))
            raise InferenceError(f"start is one of {known}, or None, not {self.start!r}.")

    def frozen(self) -> Settings:
        """The same without the search for further points: keeps the current points."""
        warm = None if self.warm is None else replace(self.warm, searches=0)
        strength = None if self.strength is None else replace(self.strength, found=0)
        return replace(self, warm=warm, strength=strength)


def prepare(
    model: Model,
    run: RunOptions,
    settings: Settings,
    store: RunFolder | None,
    report: Callable[[Tick], None],
) -> Prepared:
    """Everything up to the first kept draw, or what an earlier run has stored of it."""
    began = time.perf_counter()
    stored = None if store is None else store.load("prepared")
    if stored is not None:
        return Prepared.restored(model, stored)
    density = density_of(model)
    positions = starting_positions(model, run.chains, run.seed, run.engine, settings.start)
    check_finite(density, positions, _context(model, run, run.batch))
    seconds: dict[str, float] = {}
    if settings.warm is not None:
        report(Tick("warm start", 0, 0, 0.0))
        model, positions = _warmed(settings, density, model, run, positions)
        seconds["warm start"] = time.perf_counter() - began
    few = settings.nodes and getattr(run.engine, "few_nodes", False)
    nodes = choose_nodes(density, model, positions) if few else None
    prepared = Prepared(
        density,
        model,
        positions,
        fixed_context(model, nodes),
        Strengths.given(model),
        seconds=seconds,
    )
    if settings.strength is not None:
        prepared = settings.strength.find(prepared, run, report)
        # What pilots compiled is told apart.
        spent = time.perf_counter() - began - sum(prepared.seconds.values())
        prepared = replace(prepared, seconds={**prepared.seconds, "strength": spent})
    if store is not None:
        store.save("prepared", prepared.arrays())
    return prepared


def _context(model: Model, run: RunOptions, rows: int | None) -> Context:
    if not run.engine.stochastic:
        return fixed_context(model)
    return Feed(model, seed_for(run.seed, "warm start"), rows).one(0)


def _warmed(
    settings: Settings, density: Density, model: Model, run: RunOptions, positions: np.ndarray
) -> tuple[Model, np.ndarray]:
    warm, engine, seed = settings.warm, run.engine, run.seed
    assert warm is not None
    if engine.stochastic:
        warm = replace(warm, steps=min(warm.steps, BRIEF))
    density = density.held
    rows = None if run.batch is None else max(run.batch, warm.affordable_rows(positions.size))
    model = warm.reserved(model)
    model = replace(model, terms=tuple(rule.cut(positions) for rule in model.terms))
    context, guide = _context(model, run, rows), density.guide
    climb = partial(warm.optimise, density, guide=guide, cores=run.cores, executor=run.executor)
    optimised = climb(positions, context)

    def again(attempt: int) -> np.ndarray:
        restart = seed_for(seed, "restart", attempt)
        fresh = starting_positions(model, len(positions), restart, engine, settings.start)
        return climb(fresh, context)

    if not engine.stochastic:
        optimised = warm.without_stragglers(density, optimised, context, again)
    for search in range(warm.searches if model.terms else 0):
        extended = warm.add_found_points(seed_for(seed, "found points", search), model, optimised)
        if extended is model:
            break
        model = extended
        context = _context(model, run, rows)
        optimised = climb(optimised, context, annealed=False)
    return model, optimised


def choose_nodes(
    density: Density, model: Model, positions: Float[np.ndarray, "chains size"]
) -> tuple[RulePoints, ...] | None:
    """For each rule the fewest nodes whose log-density follows that of all points around the start."""
    if not model.terms:
        return None
    around = np.random.default_rng(0).normal(0.0, 0.03, (8, *positions.shape))
    weights = jnp.asarray((positions + around).reshape(-1, model.size)[:, : model.network.size])
    chosen = list(model.points)
    for index, rule in enumerate(model.terms):
        if rule.rule.is_strict:  # nodes follow a mean over points, not the worst of them
            continue
        scores = density.program(_scores, index)
        exact = np.asarray(scores(weights, rule.points))
        for nodes in candidate_nodes(rule, rule.points):
            error = np.std(np.asarray(scores(weights, nodes)) - exact)
            if error <= NODE_ERROR + 0.01 * np.std(exact):
                chosen[index] = nodes
                break
    return tuple(chosen)


def _scores(index: int, density: Density, weights: Array, points: RulePoints) -> Array:
    """What one rule adds to the log-density at every row of weights."""
    model = density.model
    rule = model.terms[index]

    def one(w: Array) -> Array:
        return rule.log_density(model.likelihood.function(model.network.apply(w, points.inputs)), points)

    return jax.vmap(one)(weights)
