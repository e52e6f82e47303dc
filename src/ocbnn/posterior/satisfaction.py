"""How far draws obey rules, on fresh points: four figures with distinct names, each with an interval.

| figure | meaning |
| --- | --- |
| epsilon_mean | share of draw-point pairs that violate; what the tolerance speaks of |
| epsilon_worst | share of draws that violate at the worst point (paper, Definition 4.2): found on half of the chains by sampling and ascent, estimated on the other half |
| draws_violating | share of draws that violate at any of the points tried: a lower bound |
| points_violating | share of points whose point prediction violates (the paper's tables) |

Probabilistic rules have named divergences between the predictive and D_y instead. All of it holds for draws of
a prior as for those of a posterior.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ocbnn import violation
from ocbnn.model.conditional import RuleTerm
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.figures import (
    CONFIDENCE,
    Figure,
    clopper_pearson,
    draw_groups,
    halves,
    jackknife,
    leave_one_out,
    mean_figure,
    require_confidence,
    share_figure,
)
from ocbnn.posterior.functions import function_blocks
from ocbnn.posterior.predict import point_values
from ocbnn.posterior.satisfied import (
    GroupFigures,
    Satisfaction,
    SatisfactionReport,
    Verdict,
    column_groups,
    raw_point,
    verdict,
)
from ocbnn.posterior.search import Rule, as_rule_terms, climb, require_points, rule_name
from ocbnn.posterior.targets import target_satisfaction
from ocbnn.rules.located import AllowedClasses

__all__ = ["Figure", "Satisfaction", "SatisfactionReport", "satisfaction", "verdict"]

POINTS = 1000


def satisfaction(
    posterior: Posterior,
    rules: Sequence[Rule] | None = None,
    *,
    points: int = POINTS,
    key: int = 0,
    ascent: bool = True,
    by: str | None = None,
    confidence: float = CONFIDENCE,
) -> SatisfactionReport:
    """How far the draws obey each rule, and all of them.

    Args:
        posterior: draws of a posterior, or of a prior.
        rules: in words, constraints, or rules of a model; the model's own unless given.
        points: fresh points of each rule's region.
        key: seed of the points and of the ascent.
        ascent: look for the worst point by ascent too, and not by sampling alone.
        by: a column by whose values, or quarters of its range, figures are given too.
        confidence: of the intervals.
    """
    require_confidence(confidence)
    require_points(points, key)
    terms = as_rule_terms(posterior, rules)
    if by is not None:
        posterior.schema.index(by)
    measured: list[_Measured] = []
    results = []
    for term in terms:
        if term.rule.output.is_probabilistic:
            results.append(target_satisfaction(posterior, term, points, key, ascent, by, confidence))
            continue
        found = _measured(posterior, term, points, key, ascent)
        measured.append(found)
        results.append(_deterministic(posterior, term, found, by, confidence))
    return SatisfactionReport(tuple(results), _overall(posterior, results, measured, by, confidence))


class _Measured(NamedTuple):
    """What one deterministic rule's points say, draw by draw (over all chains, rejected draws included)."""

    coded: Float[np.ndarray, "points Q"]
    share: Float[np.ndarray, "chains draws"]  # of fresh points violated
    anywhere: Float[np.ndarray, "chains draws"]  # 1 where a fresh or a found point is violated
    largest: Float[np.ndarray, "chains draws"]  # margin
    by_point: Float[np.ndarray, "draws_all points"]  # violations, bool, of all draws
    mass: Float[np.ndarray, "chains draws"] | None
    point_breaks: np.ndarray  # of every fresh point
    point_breaks_without: Bool[np.ndarray, "groups points"]  # the same, leaving out each group of draws
    found: int
    worst: np.ndarray  # coded
    worst_finding: float  # share of the finding half there
    worst_series: Float[np.ndarray, "chains draws"]
    worst_margins: Float[np.ndarray, "chains draws"]


def _measured(posterior: Posterior, term: RuleTerm, points: int, key: int, ascent: bool) -> _Measured:
    every = _all_draws(posterior)
    shape = posterior.draws.shape[:2]
    fresh = term.fresh(points, key)
    finding = halves(posterior).finding
    at_fresh = _at_fresh(posterior, every, term, fresh, finding.ravel())
    candidates = fresh[at_fresh.worst][None]
    elsewhere = fresh[:0]
    if ascent:
        candidates = np.concatenate([candidates, climb(posterior, term, posterior.draws[finding], (key, 1))])
        elsewhere = climb(posterior, term, posterior.flat, (key, 2), score="worst draw")
    there = _margins(every, term, np.concatenate([candidates, elsewhere]))
    # The worst point is found and chosen by the finding half alone; what all draws found is tried besides.
    chosen = int(np.lexsort(_badness(there[finding.ravel(), : len(candidates)]))[-1])
    violated = at_fresh.violated
    anywhere = violated.any(axis=1) | (there > 0).any(axis=1)
    return _Measured(
        coded=fresh,
        share=violated.mean(axis=1).reshape(shape),
        anywhere=anywhere.astype(float).reshape(shape),
        largest=np.maximum(at_fresh.largest, there.max(axis=1)).reshape(shape),
        by_point=violated,
        mass=None if at_fresh.mass is None else at_fresh.mass.reshape(shape),
        point_breaks=at_fresh.point_breaks,
        point_breaks_without=at_fresh.point_breaks_without,
        found=there.shape[1] - 1,
        worst=candidates[chosen],
        worst_finding=float((there[finding.ravel(), chosen] > 0).mean()),
        worst_series=(there[:, chosen] > 0).astype(float).reshape(shape),
        worst_margins=there[:, chosen].reshape(shape),
    )


def _all_draws(posterior: Posterior) -> Posterior:
    """The same without rejection: errors of a ratio need the rejected draws too."""
    return Posterior(posterior.draws, posterior.model, posterior.provenance)


class _AtFresh(NamedTuple):
    """What all draws do at the fresh points; margins themselves are not kept, they would be many."""

    violated: np.ndarray  # draw × point
    largest: Float[np.ndarray, " draws"]  # margin of each draw
    worst: int  # the point that the finding half violates most
    mass: Float[np.ndarray, " draws"] | None  # class rules: probability outside
    point_breaks: np.ndarray  # whether each point's prediction violates
    point_breaks_without: Bool[np.ndarray, "groups points"]  # the same without each group of draws


def _at_fresh(
    posterior: Posterior,
    every: Posterior,
    term: RuleTerm,
    fresh: Float[np.ndarray, "points Q"],
    finding: np.ndarray,
) -> _AtFresh:
    kept = posterior.mask.ravel()
    weights = leave_one_out(draw_groups(posterior))
    forced = term.rule in posterior.rules_in_force
    violated = np.empty((kept.size, len(fresh)), dtype=bool)
    largest = np.full(kept.size, -np.inf)
    breaks, without, masses, badness = [], [], [], []
    for block, values in function_blocks(every, fresh):
        located = term.rule.locate(fresh[block], term.schema)
        margins = _finite(violation.margin(term.rule.output, located, values))
        violated[:, block] = margins > 0
        largest = np.maximum(largest, margins.max(axis=1))
        badness.append(_badness(margins[finding]))
        if isinstance(located, AllowedClasses):
            masses.append(np.where(located.allowed, 0.0, values).sum(axis=-1).sum(axis=-1))
        means = np.tensordot(weights, values[kept], axes=1)
        predicted = np.concatenate([point_values(posterior, fresh[block], values[kept])[None], means])
        broken = _finite(violation.margin(term.rule.output, located, predicted)) > 0
        breaks.append(broken[0])
        # Predictions that are made to obey do so whichever draws are left out.
        without.append(np.repeat(broken[:1], len(means), axis=0) if forced else broken[1:])
    return _AtFresh(
        violated,
        largest,
        int(np.lexsort(np.concatenate(badness, axis=1))[-1]),
        np.sum(masses, axis=0) / len(fresh) if masses else None,
        np.concatenate(breaks),
        np.concatenate(without, axis=1),
    )


def _finite(margin: object) -> np.ndarray:
    """Margins; an output that is not a number breaks every rule."""
    values = np.asarray(margin)
    return np.where(np.isnan(values), np.inf, values)


def _margins(posterior: Posterior, term: RuleTerm, coded: Float[np.ndarray, "n Q"]) -> np.ndarray:
    parts = [
        _finite(violation.margin(term.rule.output, term.rule.locate(coded[block], term.schema), values))
        for block, values in function_blocks(posterior, coded)
    ]
    return np.concatenate(parts, axis=1)


def _badness(margins: Float[np.ndarray, "draws n"]) -> Float[np.ndarray, "2 n"]:
    """Keys to sort points by: the share of draws that violate, and among equals the largest margin."""
    return np.stack([margins.max(axis=0), (margins > 0).mean(axis=0)])


def _deterministic(
    posterior: Posterior, term: RuleTerm, found: _Measured, by: str | None, confidence: float
) -> Satisfaction:
    kept, split = posterior.mask, halves(posterior)
    epsilon = _share_figure(posterior, found.share, kept, found.largest, confidence)
    return Satisfaction(
        name=rule_name(term),
        text=term.rule.text(term.schema),
        tolerance=term.tolerance,
        verdict=verdict(epsilon, term.tolerance),
        points=len(found.coded),
        points_found=found.found,
        epsilon_mean=epsilon,
        epsilon_worst=_share_figure(
            posterior, found.worst_series, split.estimating, found.worst_margins, confidence
        ),
        draws_violating=_share_figure(posterior, found.anywhere, kept, found.largest, confidence),
        points_violating=_points_figure(found.point_breaks, found.point_breaks_without, epsilon, confidence),
        worst_point=raw_point(term.schema, found.worst),
        worst_how=split.how,
        mass_outside=None if found.mass is None else _mass_figure(posterior, found.mass, confidence),
        groups=() if by is None else _groups(posterior, [found], by, confidence),
    )


def _share_figure(
    posterior: Posterior,
    share: Float[np.ndarray, "chains draws"],
    kept: Bool[np.ndarray, "chains draws"],
    margins: Float[np.ndarray, "chains draws"],
    confidence: float,
) -> Figure:
    """The figure of a share of each draw, with the margins behind it."""
    return share_figure(
        share,
        kept,
        chains=posterior.has_chains,
        instead=margins,
        draws=posterior.draws,
        confidence=confidence,
    )


def _mass_figure(posterior: Posterior, mass: Float[np.ndarray, "chains draws"], confidence: float) -> Figure:
    figure = mean_figure(
        mass, posterior.mask, chains=posterior.has_chains, draws=posterior.draws, confidence=confidence
    )
    return figure._replace(low=max(figure.low, 0.0), high=min(figure.high, 1.0))


def _points_figure(
    breaks: Bool[np.ndarray, " points"],
    without: Bool[np.ndarray, "groups points"],
    epsilon: Figure,
    confidence: float,
) -> Figure:
    """Sampling of points, and the Monte Carlo error of the prediction at each, whichever is larger."""
    value = float(breaks.mean())
    low, high = clopper_pearson(value, len(breaks), confidence)
    half = jackknife(value, without.mean(axis=1), confidence) if len(without) > 1 else 0.0
    return Figure(
        value, min(low, max(value - half, 0.0)), max(high, min(value + half, 1.0)), epsilon.effective
    )


def _groups(
    posterior: Posterior, measured: list[_Measured], by: str, confidence: float
) -> tuple[GroupFigures, ...]:
    """The four figures of each group of the fresh points of one rule, or of several rules together."""
    shape, kept, split = posterior.draws.shape[:2], posterior.mask, halves(posterior)
    coded = np.concatenate([each.coded for each in measured])
    violated = np.concatenate([each.by_point for each in measured], axis=1)
    breaks = np.concatenate([each.point_breaks for each in measured])
    without = np.concatenate([each.point_breaks_without for each in measured], axis=1)
    largest = np.max([each.largest for each in measured], axis=0)

    def figure(series: np.ndarray, mask: np.ndarray) -> Figure:
        return _share_figure(posterior, series.astype(float).reshape(shape), mask, largest, confidence)

    result = []
    for label, members in column_groups(posterior.schema, by, coded):
        inside = violated[:, members]
        worst = int(np.argmax(inside[split.finding.ravel()].mean(axis=0)))
        epsilon = figure(inside.mean(axis=1), kept)
        result.append(
            GroupFigures(
                group=label,
                points=int(members.sum()),
                epsilon_mean=epsilon,
                epsilon_worst=figure(inside[:, worst], split.estimating),
                draws_violating=figure(inside.max(axis=1), kept),
                points_violating=_points_figure(breaks[members], without[:, members], epsilon, confidence),
            )
        )
    return tuple(result)


def _overall(
    posterior: Posterior,
    results: list[Satisfaction],
    measured: list[_Measured],
    by: str | None,
    confidence: float,
) -> Satisfaction | None:
    """All rules together; figures are of the deterministic ones, each with equal weight."""
    if not results:
        return None
    verdicts = {each.verdict for each in results}
    worst_verdict: Verdict = (
        "unmet" if "unmet" in verdicts else "met" if verdicts == {"met"} else "not shown at this tolerance"
    )
    common = {
        "name": "all rules",
        "text": "; ".join(each.text for each in results),
        "tolerance": min(each.tolerance for each in results),
        "points": sum(each.points for each in results),
        "points_found": sum(each.points_found for each in results),
    }
    if not measured:
        return Satisfaction(verdict=worst_verdict, **common)  # type: ignore[arg-type]
    kept = posterior.mask
    share = np.mean([each.share for each in measured], axis=0)
    anywhere = np.max([each.anywhere for each in measured], axis=0)
    largest = np.max([each.largest for each in measured], axis=0)
    epsilon = _share_figure(posterior, share, kept, largest, confidence)
    deterministic = [each for each in results if each.epsilon_mean is not None]
    # The rule is chosen by the finding half too, as its point was.
    worst = deterministic[int(np.argmax([each.worst_finding for each in measured]))]
    breaks = np.concatenate([each.point_breaks for each in measured])
    without = np.concatenate([each.point_breaks_without for each in measured], axis=1)
    return Satisfaction(
        verdict=worst_verdict,
        epsilon_mean=epsilon,
        epsilon_worst=worst.epsilon_worst,
        draws_violating=_share_figure(posterior, anywhere, kept, largest, confidence),
        points_violating=_points_figure(breaks, without, epsilon, confidence),
        worst_point=worst.worst_point,
        worst_how=f"{worst.name}: {worst.worst_how}",
        groups=() if by is None else _groups(posterior, measured, by, confidence),
        **common,  # type: ignore[arg-type]
    )
