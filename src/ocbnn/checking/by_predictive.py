"""Rules that are judged by all draws together: divergences between the predictive and D_y."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from ocbnn.checking.draws import (
    CheckOptions,
    Drawn,
    Halves,
    case_blocks,
    column_groups,
    draw_groups,
    evenly,
    halves,
    raw_point,
    rule_name,
    shaped,
)
from ocbnn.checking.figures import Figure, jackknife, leave_one_out
from ocbnn.checking.results import Divergence, GroupFigures, RuleCheck, verdict
from ocbnn.checking.search import farthest, searchable
from ocbnn.model.conditional import RuleTerm
from ocbnn.seeds import seed_for

INTEGRAL_POINTS, INTEGRAL_DRAWS = 64, 500
"""Points and draws at which a predictive of Y, noise included, is compared with D_y: by integrals."""


def check_predictive(drawn: Drawn, term: RuleTerm, options: CheckOptions) -> RuleCheck:
    """The divergences of one rule between the predictive and what is asked."""
    fresh = term.fresh(options.points, options.key, options.purpose)
    if term.rule.requirement.speaks_of_noise and searchable(term):
        fresh = fresh[:INTEGRAL_POINTS]
    split, kept = halves(drawn), drawn.mask
    extra = fresh[:0]
    if options.ascent and searchable(term):
        extra = farthest(drawn, term, drawn.draws[split.finding], seed_for(options.key, "finding half"))
    candidates = np.concatenate([fresh, extra]) if searchable(term) else fresh
    # Rows of weights: all kept draws, the finding half, the estimating half, all without each group.
    rows = [np.ones(int(kept.sum())), split.finding[kept].astype(float), split.estimating[kept].astype(float)]
    weights = np.concatenate([np.stack([row / row.sum() for row in rows]), leave_one_out(draw_groups(drawn))])
    found = _distances(drawn, term, candidates, weights, split)
    cases = next(iter(found.values())).shape[1] - len(extra)

    def figures(members: np.ndarray) -> dict[str, Figure]:
        means = {name: values[:, :cases][:, members].mean(axis=1) for name, values in found.items()}
        return {name: _jackknifed(mean, options.confidence) for name, mean in means.items()}

    divergences: dict[str, Divergence] = {}
    for name, figure in figures(np.ones(cases, dtype=bool)).items():
        worst = int(np.argmax(found[name][1]))
        place = raw_point(term.schema, candidates[worst]) if searchable(term) else {}
        divergences[name] = Divergence(figure, float(found[name][2, worst]), place)
    groups: Sequence[tuple[str, np.ndarray]] = ()
    if options.by is not None and searchable(term):
        groups = tuple(column_groups(term.schema, options.by, fresh))
    variation = divergences["total_variation"]
    half = variation.mean.high - variation.mean.value
    return RuleCheck(
        name=rule_name(term),
        text=term.rule.text(term.schema),
        tolerance=term.tolerance,
        verdict=verdict(variation.mean, term.tolerance),
        points=len(fresh),
        points_found=len(extra),
        worst_point=variation.worst_point,
        worst_how=split.how,
        divergences=divergences,
        groups=tuple(
            GroupFigures(label, int(members.sum()), divergences=figures(members)) for label, members in groups
        ),
        error=half / 2.0 if math.isfinite(half) else 0.0,
    )


def _jackknifed(mean: Float[np.ndarray, " rows"], confidence: float) -> Figure:
    """The mean divergence of all kept draws, its interval from leaving out groups of them in turns.

    That interval counts groups: how many independent draws there are was never asked, so it is not a number.
    """
    value, without = float(mean[0]), mean[3:]
    half = jackknife(value, without, confidence) if len(without) > 1 else np.inf
    return Figure(value, max(value - half, 0.0), value + half, np.nan)


def _distances(
    drawn: Drawn,
    term: RuleTerm,
    points: Float[np.ndarray, "n Q"],
    weights: Float[np.ndarray, "rows S"],
    split: Halves,
) -> dict[str, Float[np.ndarray, "rows n"]]:
    """Each divergence by name, for each row of weights of the kept draws."""
    requirement, flat = term.rule.requirement, drawn.flat
    noise = None
    if requirement.speaks_of_noise:
        stands_for = _stands_for(split, drawn.mask)
        some = np.flatnonzero(stands_for)
        flat, weights = flat[some], weights[:, some] * stands_for[some]
        weights = weights / weights.sum(axis=1, keepdims=True)
        noise = drawn.noise_of(flat)
    parts = [
        requirement.distances(at.demand, shaped(drawn, term, values, at), noise, weights)
        for at, values in case_blocks(drawn, flat, term, points)
    ]
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}


def _stands_for(split: Halves, kept: Bool[np.ndarray, "chains draws"]) -> Float[np.ndarray, " S"]:
    """For how many kept draws each of the `INTEGRAL_DRAWS` stands that integrals are over; 0 for the others.

    They are evenly spaced within each half: spaced over all draws they could leave one half out, whose draws
    are every other one.
    """
    result = np.zeros(int(kept.sum()))
    for half in (split.finding, split.estimating):
        inside = np.flatnonzero(half[kept])
        some = inside[evenly(len(inside), INTEGRAL_DRAWS // 2)]
        result[some] = len(inside) / len(some)
    return result
