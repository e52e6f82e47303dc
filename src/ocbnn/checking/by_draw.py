"""Rules that are judged draw by draw: which draws violate them, and where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ocbnn.checking.draws import (
    CheckOptions,
    Drawn,
    case_blocks,
    column_groups,
    draw_groups,
    finite,
    halves,
    margins_at,
    raw_point,
    rule_name,
    shaped,
)
from ocbnn.checking.figures import (
    Figure,
    clopper_pearson,
    jackknife,
    leave_one_out,
    mean_figure,
    share_figure,
    with_error,
)
from ocbnn.checking.results import GroupFigures, RuleCheck, Verdict, verdict
from ocbnn.checking.search import climb, searchable
from ocbnn.model.conditional import RuleTerm
from ocbnn.seeds import seed_for


class Violations(NamedTuple):
    """What the points of one rule say, draw by draw (over all chains, rejected draws included)."""

    points: Float[np.ndarray, "points Q"]
    share: Float[np.ndarray, "chains draws"]  # of cases violated
    anywhere: Float[np.ndarray, "chains draws"]  # 1 where a fresh or a found point is violated
    largest: Float[np.ndarray, "chains draws"]  # margin
    by_case: Bool[np.ndarray, "draws_all cases"]  # of all draws
    mass: Float[np.ndarray, "chains draws"] | None
    predicted: Bool[np.ndarray, " cases"]  # whether the point prediction violates
    predicted_without: Bool[np.ndarray, "groups cases"]  # the same, leaving out each group of draws
    found: int
    worst: np.ndarray | None  # the point; None where all points are one case
    worst_finding: float  # share of the finding half there
    worst_series: Float[np.ndarray, "chains draws"]
    worst_margins: Float[np.ndarray, "chains draws"]


def find_violations(drawn: Drawn, term: RuleTerm, options: CheckOptions) -> Violations:
    # Errors of a ratio need the rejected draws too.
    every = drawn.draws.reshape(-1, drawn.draws.shape[-1])
    shape = drawn.draws.shape[:2]
    fresh = term.fresh(options.points, options.key, options.purpose)
    finding = halves(drawn).finding
    at_fresh = _at_fresh(drawn, every, term, fresh, finding.ravel())
    single = searchable(term)
    candidates = fresh[at_fresh.worst][None] if single else fresh
    elsewhere = fresh[:0]
    if options.ascent and single:
        found = climb(drawn, term, drawn.draws[finding], seed_for(options.key, "finding half"))
        candidates = np.concatenate([candidates, found])
        elsewhere = climb(drawn, term, drawn.flat, seed_for(options.key, "all draws"), score="worst draw")
    there = margins_at(drawn, every, term, np.concatenate([candidates, elsewhere]))
    # The worst point is found and chosen by the finding half alone; what all draws found is tried besides.
    tried = len(candidates) if single else 1
    chosen = int(np.lexsort(_badness(there[finding.ravel(), :tried]))[-1])
    anywhere = at_fresh.violated.any(axis=1) | (there > 0).any(axis=1)
    return Violations(
        points=fresh,
        share=at_fresh.violated.mean(axis=1).reshape(shape),
        anywhere=anywhere.astype(float).reshape(shape),
        largest=np.maximum(at_fresh.largest, there.max(axis=1)).reshape(shape),
        by_case=at_fresh.violated,
        mass=None if at_fresh.mass is None else at_fresh.mass.reshape(shape),
        predicted=at_fresh.predicted,
        predicted_without=at_fresh.predicted_without,
        found=there.shape[1] - 1,
        worst=candidates[chosen] if single else None,
        worst_finding=float((there[finding.ravel(), chosen] > 0).mean()),
        worst_series=(there[:, chosen] > 0).astype(float).reshape(shape),
        worst_margins=there[:, chosen].reshape(shape),
    )


class _AtFresh(NamedTuple):
    """What all draws do at the fresh points; margins themselves are not kept, they would be many."""

    violated: np.ndarray  # draw × case
    largest: Float[np.ndarray, " draws"]  # margin of each draw
    worst: int  # the case that the finding half violates most
    mass: Float[np.ndarray, " draws"] | None  # class rules: probability outside
    predicted: np.ndarray
    predicted_without: Bool[np.ndarray, "groups cases"]


def _at_fresh(
    drawn: Drawn,
    every: Float[np.ndarray, "S size"],
    term: RuleTerm,
    fresh: Float[np.ndarray, "points Q"],
    finding: np.ndarray,
) -> _AtFresh:
    kept = drawn.mask.ravel()
    weights = leave_one_out(draw_groups(drawn))
    requirement = term.rule.requirement
    forced = requirement.is_pointwise and term.rule in drawn.rules_in_force
    violated, largest, masses, badness = [], np.full(kept.size, -np.inf), [], []
    predicted, without = [], []
    for at, flat in case_blocks(drawn, every, term, fresh):
        values = shaped(drawn, term, flat, at)
        margins = finite(requirement.margin(at.demand, values))
        violated.append(margins > 0)
        largest = np.maximum(largest, margins.max(axis=1))
        badness.append(_badness(margins[finding]))
        allowed = requirement.allowed(at.demand)
        if allowed is not None and allowed.classes is not None:
            masses.append(np.where(allowed.classes, 0.0, values).sum(axis=-1).sum(axis=-1))
        means = np.tensordot(weights, flat[kept], axes=1)
        points = np.concatenate([drawn.point_values(at.inputs, flat[kept])[None], means])
        wrong = finite(requirement.margin(at.demand, shaped(drawn, term, points, at))) > 0
        predicted.append(wrong[0])
        # Predictions that are made to obey do so whichever draws are left out.
        without.append(np.repeat(wrong[:1], len(means), axis=0) if forced else wrong[1:])
    return _AtFresh(
        np.concatenate(violated, axis=1),
        largest,
        int(np.lexsort(np.concatenate(badness, axis=1))[-1]),
        np.sum(masses, axis=0) / len(fresh) if masses else None,
        np.concatenate(predicted),
        np.concatenate(without, axis=1),
    )


def _badness(margins: Float[np.ndarray, "draws n"]) -> Float[np.ndarray, "2 n"]:
    """Keys to sort points by: the share of draws that violate, and among equals the largest margin."""
    return np.stack([margins.max(axis=0), (margins > 0).mean(axis=0)])


def check_draws(drawn: Drawn, term: RuleTerm, found: Violations, options: CheckOptions) -> RuleCheck:
    kept, split, confidence = drawn.mask, halves(drawn), options.confidence
    of_draws = _share_figure(drawn, found.share, kept, found.largest, confidence)
    by_point = found.by_case[kept.ravel()].mean(axis=0)
    error_of_points = float(by_point.std() / math.sqrt(len(by_point)))
    epsilon = with_error(of_draws, error_of_points, confidence)
    worst = _share_figure(drawn, found.worst_series, split.estimating, found.worst_margins, confidence)
    return RuleCheck(
        name=rule_name(term),
        text=term.rule.text(term.schema),
        tolerance=term.tolerance,
        verdict=verdict(epsilon, term.tolerance),
        points=len(found.points),
        points_found=found.found,
        epsilon_mean=epsilon,
        epsilon_worst=worst,
        draws_violating=_share_figure(drawn, found.anywhere, kept, found.largest, confidence),
        points_violating=_points_figure(found.predicted, found.predicted_without, epsilon, confidence),
        worst_point={} if found.worst is None else raw_point(term.schema, found.worst),
        worst_how=split.how,
        mass_outside=None if found.mass is None else _mass_figure(drawn, found.mass, confidence),
        groups=groups_of(drawn, [found], options) if searchable(term) else (),
        error=float(found.share[kept].std() / math.sqrt(max(epsilon.effective, 1.0))),
        error_of_points=error_of_points,
    )


def _share_figure(
    drawn: Drawn,
    share: Float[np.ndarray, "chains draws"],
    kept: Bool[np.ndarray, "chains draws"],
    margins: Float[np.ndarray, "chains draws"],
    confidence: float,
) -> Figure:
    """The figure of a share of each draw, with the margins behind it."""
    return share_figure(
        share, kept, has_chains=drawn.has_chains, instead=margins, draws=drawn.draws, confidence=confidence
    )


def _mass_figure(drawn: Drawn, mass: Float[np.ndarray, "chains draws"], confidence: float) -> Figure:
    figure = mean_figure(
        mass, drawn.mask, has_chains=drawn.has_chains, draws=drawn.draws, confidence=confidence
    )
    return figure._replace(low=max(figure.low, 0.0), high=min(figure.high, 1.0))


def _points_figure(
    predicted: Bool[np.ndarray, " points"],
    without: Bool[np.ndarray, "groups points"],
    epsilon: Figure,
    confidence: float,
) -> Figure:
    """Sampling of points, and the Monte Carlo error of the prediction at each, whichever is larger."""
    value = float(predicted.mean())
    low, high = clopper_pearson(value, len(predicted), confidence)
    half = jackknife(value, without.mean(axis=1), confidence) if len(without) > 1 else 0.0
    return Figure(
        value, min(low, max(value - half, 0.0)), max(high, min(value + half, 1.0)), epsilon.effective
    )


def groups_of(drawn: Drawn, seen: Sequence[Violations], options: CheckOptions) -> tuple[GroupFigures, ...]:
    """The four figures of each group of the fresh points of one rule, or of several rules together."""
    if options.by is None or not seen:
        return ()
    shape, kept, split = drawn.draws.shape[:2], drawn.mask, halves(drawn)
    columns = len(drawn.schema.columns)
    coded = np.concatenate([each.points[:, :columns] for each in seen])
    violated = np.concatenate([each.by_case for each in seen], axis=1)
    predicted = np.concatenate([each.predicted for each in seen])
    without = np.concatenate([each.predicted_without for each in seen], axis=1)
    largest = np.max([each.largest for each in seen], axis=0)

    def figure(series: np.ndarray, mask: np.ndarray) -> Figure:
        return _share_figure(drawn, series.astype(float).reshape(shape), mask, largest, options.confidence)

    result = []
    for label, members in column_groups(drawn.schema, options.by, coded):
        inside = violated[:, members]
        worst = int(np.argmax(inside[split.finding.ravel()].mean(axis=0)))
        epsilon = figure(inside.mean(axis=1), kept)
        of_points = _points_figure(predicted[members], without[:, members], epsilon, options.confidence)
        result.append(
            GroupFigures(
                group=label,
                points=int(members.sum()),
                epsilon_mean=epsilon,
                epsilon_worst=figure(inside[:, worst], split.estimating),
                draws_violating=figure(inside.max(axis=1), kept),
                points_violating=of_points,
            )
        )
    return tuple(result)


def check_all(
    drawn: Drawn, results: Sequence[RuleCheck], seen: Sequence[Violations], options: CheckOptions
) -> RuleCheck | None:
    """All rules together; figures are of those judged draw by draw, each with equal weight."""
    if not results:
        return None
    verdicts = {each.verdict for each in results}
    together: Verdict = (
        "unmet" if "unmet" in verdicts else "met" if verdicts == {"met"} else "not shown at this tolerance"
    )
    plain = RuleCheck(
        name="all rules",
        text="; ".join(each.text for each in results),
        tolerance=min(each.tolerance for each in results),
        verdict=together,
        points=sum(each.points for each in results),
        points_found=sum(each.points_found for each in results),
    )
    if not seen:
        return plain
    kept, confidence = drawn.mask, options.confidence
    share = np.mean([each.share for each in seen], axis=0)
    anywhere = np.max([each.anywhere for each in seen], axis=0)
    largest = np.max([each.largest for each in seen], axis=0)
    epsilon = _share_figure(drawn, share, kept, largest, confidence)
    deterministic = [each for each in results if each.epsilon_mean is not None]
    # The rule is chosen by the finding half too, as its point was.
    worst = deterministic[int(np.argmax([each.worst_finding for each in seen]))]
    predicted = np.concatenate([each.predicted for each in seen])
    without = np.concatenate([each.predicted_without for each in seen], axis=1)
    return replace(
        plain,
        epsilon_mean=epsilon,
        epsilon_worst=worst.epsilon_worst,
        draws_violating=_share_figure(drawn, anywhere, kept, largest, confidence),
        points_violating=_points_figure(predicted, without, epsilon, confidence),
        worst_point=worst.worst_point,
        worst_how=f"{worst.name}: {worst.worst_how}",
        groups=groups_of(drawn, [each for each in seen if each.worst is not None], options),
    )
