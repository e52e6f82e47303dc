"""How far draws meet a probabilistic rule: divergences between the predictive and D_y, on fresh points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from ocbnn.checking.search import highest_points
from ocbnn.model.conditional import RuleTerm
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.figures import Figure, Halves, draw_groups, halves, jackknife, leave_one_out
from ocbnn.posterior.functions import function_blocks
from ocbnn.posterior.satisfied import (
    Divergence,
    GroupFigures,
    Satisfaction,
    column_groups,
    raw_point,
    verdict,
)
from ocbnn.posterior.search import SEARCHED_DRAWS, climb, evenly, outputs_at, rule_name
from ocbnn.rules.divergences import class_divergences, moment_gaps, normal_divergences
from ocbnn.rules.located import Located, NormalMixture, in_model_units

NORMAL_POINTS, NORMAL_DRAWS = 64, 500
"""Points and draws at which a predictive of Y is compared with `y ~ Normal(…)`: integrals, not counts."""


def target_satisfaction(
    posterior: Posterior,
    term: RuleTerm,
    points: int,
    key: int,
    ascent: bool,
    by: str | None,
    confidence: float,
) -> Satisfaction:
    """The divergences of one probabilistic rule; arguments as in `satisfaction`."""
    fresh = term.fresh(points, key)
    if isinstance(term.rule.locate(fresh[:1], term.schema), NormalMixture):
        fresh = fresh[: min(points, NORMAL_POINTS)]
    split = halves(posterior)
    extra = _farthest(posterior, term, split.finding, key) if ascent else fresh[:0]
    candidates = np.concatenate([fresh, extra])
    # Rows of weights: all kept draws, the finding half, the estimating half, all without each group.
    kept = posterior.mask
    rows = [np.ones(int(kept.sum())), split.finding[kept].astype(float), split.estimating[kept].astype(float)]
    weights = np.concatenate(
        [np.stack([row / row.sum() for row in rows]), leave_one_out(draw_groups(posterior))]
    )
    found = _divergences(posterior, term, candidates, weights, _stands_for(split, kept))

    def figures(members: np.ndarray) -> dict[str, Figure]:
        means = {name: values[:, : len(fresh)][:, members].mean(axis=1) for name, values in found.items()}
        return {name: _figure(mean, confidence) for name, mean in means.items()}

    divergences: dict[str, Divergence] = {}
    for name, figure in figures(np.ones(len(fresh), dtype=bool)).items():
        worst = int(np.argmax(found[name][1]))
        place = raw_point(term.schema, candidates[worst])
        divergences[name] = Divergence(figure, float(found[name][2, worst]), place)
    groups = () if by is None else tuple(column_groups(term.schema, by, fresh))
    variation = divergences["total_variation"]
    return Satisfaction(
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
    )


def _figure(mean: Float[np.ndarray, " rows"], confidence: float) -> Figure:
    """The mean divergence of all kept draws, its interval from leaving out groups of them in turns.

    That interval counts groups: how many independent draws there are was never asked, so it is not a number.
    """
    value, without = float(mean[0]), mean[3:]
    half = jackknife(value, without, confidence) if len(without) > 1 else np.inf
    return Figure(value, max(value - half, 0.0), value + half, np.nan)


def _farthest(
    posterior: Posterior, term: RuleTerm, finding: Bool[np.ndarray, "chains draws"], key: int
) -> Float[np.ndarray, "m Q"]:
    """Points found by ascent at which the predictive of these draws is farthest from what is asked."""
    draws = posterior.draws[finding]
    if not isinstance(term.rule.locate(term.fresh(1, key), term.schema), NormalMixture):
        return climb(posterior, term, draws, (key, 1), score="worst draw", of_mean=True)
    some = evenly(len(draws), SEARCHED_DRAWS)
    outputs = outputs_at(posterior, draws[some])
    noise = replace(posterior, kept=finding).noise[some] / posterior.target.scale

    def gaps(coded: Float[np.ndarray, "n Q"]) -> tuple[np.ndarray, np.ndarray]:
        located = in_model_units(term.rule.locate(coded, term.schema), posterior.target)
        assert isinstance(located, NormalMixture)
        gap = moment_gaps(located, outputs(term.schema.to_model(coded)), noise)
        return gap, gap

    return highest_points((key, 1), term, gaps, count=8, starts=1000, rounds=20).coded


def _stands_for(split: Halves, kept: Bool[np.ndarray, "chains draws"]) -> Float[np.ndarray, " S"]:
    """For how many kept draws each of the `NORMAL_DRAWS` stands that integrals are over; 0 for the others.

    They are evenly spaced within each half: spaced over all draws they could leave one half out, whose draws
    are every other one.
    """
    result = np.zeros(int(kept.sum()))
    for half in (split.finding, split.estimating):
        inside = np.flatnonzero(half[kept])
        some = inside[evenly(len(inside), NORMAL_DRAWS // 2)]
        result[some] = len(inside) / len(some)
    return result


def _divergences(
    posterior: Posterior,
    term: RuleTerm,
    coded: Float[np.ndarray, "n Q"],
    weights: Float[np.ndarray, "rows S"],
    stands_for: Float[np.ndarray, " S"],
) -> dict[str, Float[np.ndarray, "rows n"]]:
    """Each divergence by name, for each row of weights of the kept draws."""
    some = np.flatnonzero(stands_for)
    few = weights[:, some] * stands_for[some]
    few = few / few.sum(axis=1, keepdims=True)
    parts: list[dict[str, np.ndarray]] = []
    for block, values in function_blocks(posterior, coded):
        located: Located = term.rule.locate(coded[block], term.schema)
        if not isinstance(located, NormalMixture):
            parts.append(class_divergences(located, np.tensordot(weights, values, axes=1)))
            continue
        parts.append(normal_divergences(located, values[some], posterior.noise[some], few))
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
