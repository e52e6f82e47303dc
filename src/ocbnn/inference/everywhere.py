"""Points and strength of rules that are to hold everywhere: found while chains run, then frozen.

Chains run in short bursts; an engine that optimises runs with few steps. After each, a search climbs to where
the draws of each chain violate a rule most, and what it finds joins the rule's points. Points come first:
strength does not mend a rule that is violated where it is not scored, and a thin wall stops the chains. So a
rule gets more strength only where draws violate it at points that it was scored at already, and little at a
time.

A rule takes so many points at the most: those that draws come closest to violating. So the work of a gradient
is bounded, and points at which all draws obey by far give way to others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ocbnn.checking.draws import DrawSet, margins_at
from ocbnn.checking.search import climb, distinct
from ocbnn.inference.density import Prepared
from ocbnn.inference.engines.base import State
from ocbnn.inference.engines.tuning import first_settling
from ocbnn.inference.loop import Loop, RunOptions
from ocbnn.inference.warmstart import found_points, with_pool, with_room
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.progress import Tick
from ocbnn.seeds import seed_for

BURST = 25
"""Draws of each chain between two searches."""
DRAWS = 200
"""Draws of what a short optimisation ends with, for the same."""
GROUPS = 8
"""Parts of the draws of a single chain, or of an engine without chains, that are searched for themselves."""
EACH, TOGETHER = 8, 8
"""Points that the draws of each chain, and those of all chains together, give at the most after a burst."""
FEW, SOME = 8, 64
"""Draws of each chain, and of all together, that are searched among."""
CLOSEST = 0.98
"""Points are ranked by this quantile of the draws' margins: how close draws come to violating the rule."""
GROWTH, HIGHEST = 2.0, 32.0
"""Factors of strength: of one step, and at the most. Points do the rest: no engine follows a thinner wall."""


def hold_everywhere(
    prepared: Prepared,
    run: RunOptions,
    report: Callable[[Tick], None],
    *,
    bursts: int,
    most: int,
    aim: float,
) -> Prepared:
    """The same density with points and strengths at which rules hold everywhere, or nearly so.

    Args:
        prepared: where chains start.
        run: engine, with as many steps as a burst has where it optimises, chains and seed.
        report: who looks on.
        bursts: at the most.
        most: points that may be found for a rule.
        aim: the share of its tolerance that a rule may use up.
    """
    ruled = [index for index, term in enumerate(prepared.model.terms) if term.rule.is_everywhere]
    if not ruled:
        return prepared
    terms = list(prepared.model.terms)
    for index in ruled:
        terms[index] = with_room(terms[index], most)
    prepared = prepared.with_points(terms)
    strengths = np.array(prepared.strengths.values, dtype=float)
    highest = HIGHEST * strengths
    along = run.engine.has_chains
    # The metric is renewed when all is done, from the draws of all bursts, and then the step size settles.
    last = int(first_settling(run.engine.warmup)) - 1 if along else 0
    for number in range(bursts):
        report(Tick("strength", number, bursts, 0.0))
        burst = replace(run, seed=seed_for(run.seed, "burst", number))
        draws, loop, prepared = (_along_chains if along else _optimised)(prepared, burst)
        warmed, quiet = number * BURST >= last - BURST, True
        terms = list(prepared.model.terms)
        for index in ruled:
            key = seed_for(run.seed, f"burst {number}", index)
            allowed = aim * terms[index].tolerance
            pool, known, worst = _searched(prepared.model, terms[index], draws, key, most, allowed)
            quiet &= worst <= allowed
            if warmed and known > allowed and terms[index].strength_is_free:
                strengths[index] = min(GROWTH * strengths[index], highest[index])
            terms[index] = with_pool(terms[index], pool)
        ended = (warmed and quiet) or number == bursts - 1
        if along:
            held = [_held(state, last if ended else last - BURST, ended) for state in loop.states]
            prepared = replace(prepared, tunings=held)
        compiling = prepared.seconds.get("compile", 0.0) + loop.compile_seconds
        prepared = replace(prepared, seconds={**prepared.seconds, "compile": compiling})
        if ended:  # what chains have adapted to
            return prepared
        prepared = prepared.with_points(terms).with_strengths(strengths.copy())
    return prepared


def _along_chains(
    prepared: Prepared, run: RunOptions
) -> tuple[Float[np.ndarray, "chains draws size"], Loop, Prepared]:
    """The latter draws of a burst of the chains, which first leave what was added before, and its end."""
    loop = replace(Loop.start(prepared, run), length=BURST)
    chunk = loop.advance()
    assert chunk.positions is not None
    ended = replace(prepared, positions=chunk.positions[:, -1], work=prepared.work + chunk.work)
    return chunk.positions[:, BURST // 2 :], loop, ended


def _optimised(
    prepared: Prepared, run: RunOptions
) -> tuple[Float[np.ndarray, "chains draws size"], Loop, Prepared]:
    """Draws of a short run of an engine that optimises: each begins where the first one did."""
    loop = Loop.start(prepared, run)
    work = sum(loop.advance().work for _ in range(loop.warm_chunks))
    return loop.final_draws(DRAWS), loop, replace(prepared, work=prepared.work + work)


def _searched(
    model: Model,
    term: RuleTerm,
    draws: Float[np.ndarray, "chains draws size"],
    key: int,
    most: int,
    allowed: float,
) -> tuple[Float[np.ndarray, "pool Q"], float, float]:
    """The points that a rule is to have, and the largest shares of draws that violate it at one point.

    The first share is of the points that it has been scored at, the second of all that are known.
    """
    drawn, flat = DrawSet(draws, model, has_chains=True), draws.reshape(-1, draws.shape[-1])
    among = [climb(drawn, term, flat, key, starts=1000, rounds=10, most=SOME)[:TOGETHER]]
    groups = draws if len(draws) > 1 else np.array_split(flat, GROUPS)  # chains differ, draws of one do not
    for group, own in enumerate(groups):
        own_key = seed_for(key, "group", group)
        among.append(climb(drawn, term, own, own_key, starts=400, rounds=8, most=FEW)[:EACH])
    known, new = found_points(term), np.concatenate(among)
    points = np.concatenate([known, new])
    margins = margins_at(drawn, flat, term, points)
    shares = (margins > 0).mean(axis=0)
    kept = (np.arange(len(points)) < len(known)) | (shares > allowed)
    closest = np.quantile(margins[:, kept], CLOSEST, axis=0)
    pool = distinct(term, points[kept], closest, most)
    return pool, float(shares[: len(known)].max(initial=0.0)), float(shares.max())


def _held(state: State, iteration: int, ended: bool) -> list[Any]:
    """What a group has adapted, as it was at that iteration of the warm-up: later ones settle for good."""
    tuning: Any = state.tuning
    iteration = iteration if ended else min(int(tuning.iteration), iteration)
    return jax.tree.leaves(tuning._replace(iteration=jnp.asarray(iteration, jnp.int32)))
