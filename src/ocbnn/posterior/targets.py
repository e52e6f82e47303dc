"""How far draws meet a probabilistic rule: divergences between the predictive and D_y, on fresh points."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from ocbnn.posterior.divergences import class_divergences, normal_divergences
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.figures import Figure, draw_groups, halves, jackknife, leave_one_out
from ocbnn.posterior.functions import function_blocks
from ocbnn.posterior.satisfied import Divergence, Satisfaction, raw_point, verdict
from ocbnn.posterior.search import climb, fresh_points, rule_name
from ocbnn.priors.conditional import RuleTerm
from ocbnn.rules.located import Located, NormalMixture

NORMAL_POINTS, NORMAL_DRAWS = 64, 500
"""Points and draws at which a predictive of Y is compared with `y ~ Normal(…)`: integrals, not counts."""


def target_satisfaction(
    posterior: Posterior, term: RuleTerm, points: int, key: int, ascent: bool, confidence: float
) -> Satisfaction:
    """The divergences of one probabilistic rule; arguments as in `satisfaction`."""
    fresh = fresh_points(term, points, key)
    located = term.rule.locate(fresh[:1], term.schema)
    if isinstance(located, NormalMixture):
        fresh = fresh[: min(points, NORMAL_POINTS)]
    split = halves(posterior)
    found = 0
    if ascent and not isinstance(located, NormalMixture):
        extra = climb(
            posterior, term, posterior.draws[split.finding], (key, 1), score="worst draw", of_mean=True
        )
        found = len(extra)
        candidates = np.concatenate([fresh, extra])
    else:
        candidates = fresh
    divergences: dict[str, Divergence] = {}
    # Rows of weights: all kept draws, without each group, the finding half, the estimating half.
    kept = posterior.mask
    groups = draw_groups(posterior)
    rows = [np.ones(int(kept.sum())), split.finding[kept].astype(float), split.estimating[kept].astype(float)]
    weights = np.concatenate([np.stack([row / row.sum() for row in rows]), leave_one_out(groups)])
    for name, values in _divergences(posterior, term, candidates, weights).items():
        mean = values[:, : len(fresh)].mean(axis=1)
        half = jackknife(float(mean[0]), mean[3:], confidence) if len(mean) > 4 else np.inf
        figure = Figure(
            float(mean[0]), max(float(mean[0] - half), 0.0), float(mean[0] + half), float(kept.sum())
        )
        worst = int(np.argmax(values[1]))
        divergences[name] = Divergence(
            figure, float(values[2, worst]), raw_point(term.schema, candidates[worst])
        )
    variation = divergences["total_variation"]
    return Satisfaction(
        name=rule_name(term),
        text=term.rule.text(term.schema),
        tolerance=term.tolerance,
        verdict=verdict(variation.mean, term.tolerance),
        points=len(fresh),
        points_found=found,
        worst_point=variation.worst_point,
        worst_how=split.how,
        divergences=divergences,
    )


def _divergences(
    posterior: Posterior, term: RuleTerm, coded: Float[np.ndarray, "n Q"], weights: np.ndarray
) -> dict[str, Float[np.ndarray, "rows n"]]:
    """Each divergence by name, for each row of weights of the kept draws."""
    parts: list[dict[str, np.ndarray]] = []
    for block, values in function_blocks(posterior, coded):
        located: Located = term.rule.locate(coded[block], term.schema)
        if not isinstance(located, NormalMixture):
            parts.append(class_divergences(located, np.tensordot(weights, values, axes=1)))
            continue
        some = np.unique(np.linspace(0, len(values) - 1, min(NORMAL_DRAWS, len(values))).astype(int))
        few = weights[:, some]
        few = few / few.sum(axis=1, keepdims=True)
        parts.append(normal_divergences(located, values[some], posterior.noise[some], few))
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
