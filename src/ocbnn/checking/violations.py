"""How far draws violate one rule: draw by draw, or by all of them together, as its kind says.

A rule that is judged draw by draw has four figures; one that is judged by all draws together has divergences
between the predictive and D_y.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ocbnn.checking.draws import (
    CheckOptions,
    Drawn,
    case_blocks,
    case_margins,
    case_noise,
    column_groups,
    draw_groups,
    evenly,
    halves,
    margins_at,
    raw_case,
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
    with_row_errors,
)
from ocbnn.checking.results import (
    LEVELS,
    Attempt,
    Divergence,
    GroupFigures,
    Level,
    RuleCheck,
    Verdict,
    together,
    verdict,
)
from ocbnn.checking.search import climb, farthest, searchable
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.outputs import shown_by_form
from ocbnn.rules.constraint import Holds
from ocbnn.rules.margins import Placed
from ocbnn.seeds import seed_for

INTEGRAL_POINTS, INTEGRAL_DRAWS = 64, 500
"""Points and draws at which a predictive of Y, noise included, is compared with D_y: by integrals."""
OVER_ROWS = ", over rows of the table with the ruled columns drawn anew"


def judge(drawn: Drawn, term: RuleTerm, options: CheckOptions) -> tuple[RuleCheck, Violations | None]:
    """How far draws keep one rule, and what a rule that is judged draw by draw was judged by."""
    if term.rule.is_predictive:
        return check_predictive(drawn, term, options), None
    shown = shown_by_form(drawn.model, term.rule, drawn.every)
    if shown is None or not shown.all():
        found = find_violations(drawn, term, options)
        return check_draws(drawn, term, found, options), found
    # No input needs to be searched for; the fresh points are those of point predictions and of groups.
    found = find_violations(drawn, term, replace(options, ascent=False))
    return _by_construction(check_draws(drawn, term, found, options)), found


def _by_construction(check: RuleCheck) -> RuleCheck:
    """The check of a rule that the weights of every draw show to hold at all inputs."""
    zero = Figure(0.0, 0.0, 0.0, check.violation.effective)
    return replace(
        check,
        verdict="met",
        levels=dict.fromkeys(LEVELS, "met"),
        epsilon_mean=zero,
        epsilon_worst=zero,
        draws_violating=zero,
        draws_unproved=zero,
        worst_point={},
        worst_others=(),
        worst_how="",
        by_construction=True,
        error=0.0,
        error_of_points=0.0,
    )


# Draw by draw -----------------------------------------------------------------------------------------------


class AtFresh(NamedTuple):
    """What all draws do at the fresh points; margins themselves are not kept, they would be many."""

    points: Float[np.ndarray, "points Q"]
    violated: Bool[np.ndarray, "draws_all cases"]  # of all draws
    largest: Float[np.ndarray, " draws_all"]  # margin of each draw
    worst: int  # the case that the finding half violates most
    mass: Float[np.ndarray, " draws_all"] | None  # class rules: probability outside
    predicted: Bool[np.ndarray, " cases"]  # whether the point prediction violates
    predicted_without: Bool[np.ndarray, "groups cases"]  # the same, leaving out each group of draws
    # Of a population: whether each draw violates by more than its rows may be off, and by less.
    by_rows: Bool[np.ndarray, "2 resamples draws_all"] | None = None


class Violations(NamedTuple):
    """What the points of one rule say, draw by draw (over all chains, rejected draws included)."""

    fresh: AtFresh
    anywhere: Float[np.ndarray, "chains draws"]  # 1 where a fresh or a found point is violated
    largest: Float[np.ndarray, "chains draws"]  # margin
    found: int
    worst: np.ndarray | None  # the point; None where all points are one case
    worst_margins: Float[np.ndarray, "chains draws"]
    tried: Float[np.ndarray, "tried Q"]  # besides the fresh points: the worst of these, and those found
    shares: Float[np.ndarray, " tried"]  # of all draws, that violate there

    @property
    def share(self) -> Float[np.ndarray, "chains draws"]:
        """Of the fresh cases, those that each draw violates."""
        return self.fresh.violated.mean(axis=1).reshape(self.largest.shape)

    @property
    def at_worst(self) -> Float[np.ndarray, "chains draws"]:
        """1 where a draw violates at the worst point."""
        return (self.worst_margins > 0).astype(float)


def find_violations(drawn: Drawn, term: RuleTerm, options: CheckOptions) -> Violations:
    """What all draws do at fresh points of a rule, and at those that an ascent finds."""
    shape = drawn.draws.shape[:2]
    points = term.fresh(options.points, options.key, options.purpose)
    finding = halves(drawn).finding
    fresh = _at_fresh(drawn, term, points, seed_for(options.key, "errors of rows"))
    single = searchable(term)
    candidates = points[fresh.worst][None] if single else points
    elsewhere = points[:0]
    if _is_searched(term, options):
        found = climb(drawn, term, drawn.draws[finding], seed_for(options.key, "finding half"))
        candidates = np.concatenate([candidates, found])
        elsewhere = climb(drawn, term, drawn.flat, seed_for(options.key, "all draws"), score="worst draw")
    tried_points = np.concatenate([candidates, elsewhere])
    there = margins_at(drawn, drawn.every, term, tried_points)
    # The worst point is found and chosen by the finding half alone; what all draws found is tried besides.
    tried = len(candidates) if single else 1
    chosen = int(np.lexsort(_badness(there[finding.ravel(), :tried]))[-1])
    anywhere = fresh.violated.any(axis=1) | (there > 0).any(axis=1)
    return Violations(
        fresh=fresh,
        anywhere=anywhere.astype(float).reshape(shape),
        largest=np.maximum(fresh.largest, there.max(axis=1)).reshape(shape),
        found=there.shape[1] - 1,
        worst=candidates[chosen] if single else None,
        worst_margins=there[:, chosen].reshape(shape),
        tried=tried_points if single else points[:0],
        shares=(there > 0).mean(axis=0),
    )


def _is_searched(term: RuleTerm, options: CheckOptions) -> bool:
    """Whether the worst point is looked for by ascent; always where the tolerance is about it."""
    return searchable(term) and (options.ascent or term.rule.is_everywhere)


def _at_fresh(drawn: Drawn, term: RuleTerm, points: Float[np.ndarray, "points Q"], key: int) -> AtFresh:
    kept, finding = drawn.mask.ravel(), halves(drawn).finding.ravel()
    weights = leave_one_out(draw_groups(drawn))
    requirement = term.rule.requirement
    forced = requirement.is_pointwise and term.rule in drawn.rules_in_force
    violated, largest, masses, badness = [], np.full(kept.size, -np.inf), [], []
    predicted, without, by_rows = [], [], None
    # Errors of a ratio need the rejected draws too.
    for at, flat in case_blocks(drawn, drawn.every, term, points):
        margins = case_margins(drawn, term, at, flat)
        violated.append(margins > 0)
        largest = np.maximum(largest, margins.max(axis=1))
        badness.append(_badness(margins[finding]))
        if requirement.inputs is None:
            by_rows = _by_rows(drawn, term, at, flat, margins, key)
        allowed = requirement.allowed(at.demand)
        if allowed is not None and allowed.classes is not None:
            outside = np.where(allowed.classes, 0.0, shaped(drawn, term, at, flat))
            masses.append(outside.sum(axis=-1).sum(axis=-1))
        means = np.tensordot(weights, flat[kept], axes=1)
        point = drawn.point_values(at.inputs, flat[kept])[None]
        wrong = case_margins(drawn, term, at, np.concatenate([point, means])) > 0
        predicted.append(wrong[0])
        # Predictions that are made to obey do so whichever draws are left out.
        without.append(np.repeat(wrong[:1], len(means), axis=0) if forced else wrong[1:])
    return AtFresh(
        points,
        np.concatenate(violated, axis=1),
        largest,
        int(np.lexsort(np.concatenate(badness, axis=1))[-1]),
        np.sum(masses, axis=0) / len(points) if masses else None,
        np.concatenate(predicted),
        np.concatenate(without, axis=1),
        by_rows,
    )


def _by_rows(
    drawn: Drawn, term: RuleTerm, at: Placed, flat: np.ndarray, margins: np.ndarray, key: int
) -> Bool[np.ndarray, "2 resamples draws_all"] | None:
    """Whether each draw violates a rule about a population, were its margins off by an error of the rows."""
    values, generator = shaped(drawn, term, at, flat), np.random.default_rng(key)
    errors = term.rule.requirement.row_errors(at.demand, values, generator)
    if errors is None:
        return None
    with np.errstate(invalid="ignore"):
        # What is not a number violates.
        return np.stack([~(margins + sign * errors <= 0.0).all(axis=-1) for sign in (-1.0, 1.0)])


def _badness(margins: Float[np.ndarray, "draws n"]) -> Float[np.ndarray, "2 n"]:
    """Keys to sort points by: the share of draws that violate, and among equals the largest margin."""
    return np.stack([margins.max(axis=0), (margins > 0).mean(axis=0)])


def check_draws(drawn: Drawn, term: RuleTerm, found: Violations, options: CheckOptions) -> RuleCheck:
    """The four figures of one rule."""
    kept, split = drawn.mask, halves(drawn)
    by_point = found.fresh.violated[kept.ravel()].mean(axis=0)
    error_of_points = float(by_point.std() / math.sqrt(len(by_point)))
    figures = _figures(drawn, [found.fresh], found.share, found.anywhere, found.largest, options)
    epsilon = with_error(figures["epsilon_mean"], error_of_points, options.confidence)
    worst = _share_figure(drawn, found.at_worst, split.estimating, found.worst_margins, options)
    by_rows, confidence = found.fresh.by_rows, options.confidence
    if by_rows is not None:  # all rows are one case, on average and at worst
        shares, halved = (by_rows[..., mask.ravel()].mean(axis=-1) for mask in (kept, split.estimating))
        epsilon = with_row_errors(epsilon, shares, confidence)
        figures["draws_violating"] = with_row_errors(figures["draws_violating"], shares, confidence)
        worst = with_row_errors(worst, halved, confidence)
    searched = _is_searched(term, options) or not searchable(term)
    average, at_worst = verdict(epsilon, term.tolerance), verdict(worst, term.tolerance)
    if average == "unmet":  # no mean is above its maximum
        at_worst = "unmet"
    asked: Level = ASKED[term.rule.holds]
    if asked != "on average":
        spread, effective, error_of_points = found.at_worst[split.estimating].std(), worst.effective, 0.0
    else:
        spread, effective = found.share[kept].std(), epsilon.effective
    return RuleCheck(
        name=rule_name(term),
        text=term.rule.text(term.schema),
        tolerance=term.tolerance,
        verdict=_verdict(asked, average, at_worst),
        asked=asked,
        levels=_levels(average, at_worst if searched else "not attempted"),
        points=len(found.fresh.points),
        points_found=found.found,
        epsilon_worst=worst,
        **({} if found.worst is None else raw_case(term, found.worst)),
        worst_how=split.how + OVER_ROWS * term.rule.is_over_rows,
        mass_outside=None if found.fresh.mass is None else _mass_figure(drawn, found.fresh.mass, options),
        groups=groups_of(drawn, [found], options) if searchable(term) else (),
        error=float(spread / math.sqrt(max(effective, 1.0))),
        error_of_points=error_of_points,
        counts_rows=by_rows is not None,
        **figures | {"epsilon_mean": epsilon},
    )


ASKED: dict[Holds, Level] = {
    "on average": "on average",
    "everywhere": "worst case found",
    "over rows": "worst case found",
    "proved": "proved",
}


def _verdict(asked: Level, average: Verdict, worst: Verdict) -> Verdict:
    """Points can only refute what is to be proved."""
    if asked == "proved":
        return "unmet" if worst == "unmet" else "not shown at this tolerance"
    return average if asked == "on average" else worst


def _levels(average: Attempt, worst: Attempt) -> dict[Level, Attempt]:
    return {"on average": average, "worst case found": worst, "proved": "not attempted"}


def _figures(
    drawn: Drawn,
    seen: Sequence[AtFresh],
    share: np.ndarray,
    anywhere: np.ndarray,
    largest: Float[np.ndarray, "chains draws"],
    options: CheckOptions,
    members: np.ndarray | slice = slice(None),
) -> dict[str, Any]:
    """The figures that do not speak of a worst point, of some of the cases that were seen, by name.

    `share` and `anywhere` are of each draw: the share of those cases that it violates, and whether it
    violates any; `largest` are the margins behind them.
    """
    epsilon = _share_figure(drawn, share, drawn.mask, largest, options)
    predicted = np.concatenate([each.predicted for each in seen])[members]
    without = np.concatenate([each.predicted_without for each in seen], axis=1)[:, members]
    # Sampling of points, and the Monte Carlo error of the prediction at each, whichever is larger.
    value = float(predicted.mean())
    low, high = clopper_pearson(value, len(predicted), options.confidence)
    half = jackknife(without.mean(axis=1), options.confidence) if len(without) > 1 else 0.0
    low, high = min(low, max(value - half, 0.0)), max(high, min(value + half, 1.0))
    return {
        "epsilon_mean": epsilon,
        "draws_violating": _share_figure(drawn, anywhere, drawn.mask, largest, options),
        "points_violating": Figure(value, low, high, epsilon.effective),
    }


def _share_figure(
    drawn: Drawn, share: np.ndarray, kept: np.ndarray, margins: np.ndarray, options: CheckOptions
) -> Figure:
    """The figure of a share of each draw, with the margins behind it."""
    series, chains = share.astype(float).reshape(kept.shape), drawn.has_chains
    return share_figure(
        series, kept, has_chains=chains, instead=margins, draws=drawn.draws, confidence=options.confidence
    )


def _mass_figure(drawn: Drawn, mass: np.ndarray, options: CheckOptions) -> Figure:
    series, kept, chains = mass.reshape(drawn.mask.shape), drawn.mask, drawn.has_chains
    figure = mean_figure(series, kept, has_chains=chains, draws=drawn.draws, confidence=options.confidence)
    return figure._replace(low=max(figure.low, 0.0), high=min(figure.high, 1.0))


def groups_of(drawn: Drawn, seen: Sequence[Violations], options: CheckOptions) -> tuple[GroupFigures, ...]:
    """The four figures of each group of the fresh points of one rule, or of several rules together."""
    if options.by is None or not seen:
        return ()
    split, fresh = halves(drawn), [each.fresh for each in seen]
    coded = np.concatenate([each.points[:, : len(drawn.schema.columns)] for each in fresh])
    violated = np.concatenate([each.violated for each in fresh], axis=1)
    largest = np.max([each.largest for each in seen], axis=0)
    result = []
    for label, members in column_groups(drawn.schema, options.by, coded):
        inside = violated[:, members]
        worst = inside[:, int(np.argmax(inside[split.finding.ravel()].mean(axis=0)))]
        share, anywhere = inside.mean(axis=1), inside.max(axis=1)
        result.append(
            GroupFigures(
                group=label,
                points=int(members.sum()),
                epsilon_worst=_share_figure(drawn, worst, split.estimating, largest, options),
                **_figures(drawn, fresh, share, anywhere, largest, options, members),
            )
        )
    return tuple(result)


def check_all(
    drawn: Drawn, results: Sequence[RuleCheck], seen: Sequence[Violations], options: CheckOptions
) -> RuleCheck | None:
    """All rules together; figures are of those judged draw by draw, each with equal weight."""
    if not results:
        return None
    verdicts = [each.verdict for each in results]
    asked = {each.asked for each in results}
    figures: dict[str, Any] = {}
    if seen:
        share = np.mean([each.share for each in seen], axis=0)
        anywhere = np.max([each.anywhere for each in seen], axis=0)
        largest = np.max([each.largest for each in seen], axis=0)
        # The rule is chosen by the finding half too, as its point was.
        finding = halves(drawn).finding
        by_draw = [each for each in results if each.epsilon_mean is not None]
        worst = by_draw[int(np.argmax([each.at_worst[finding].mean() for each in seen]))]
        figures = _figures(drawn, [each.fresh for each in seen], share, anywhere, largest, options)
        figures |= _counting_rows(drawn, seen, figures, options) | {
            "epsilon_worst": worst.epsilon_worst,
            "worst_point": worst.worst_point,
            "worst_others": worst.worst_others,
            "worst_how": f"{worst.name}: {worst.worst_how}",
            "groups": groups_of(drawn, [each for each in seen if each.worst is not None], options),
        }
    return RuleCheck(
        name="all rules",
        text="; ".join(each.text for each in results),
        tolerance=min(each.tolerance for each in results),
        verdict=together(verdicts),  # type: ignore[arg-type]
        asked=asked.pop() if len(asked) == 1 else "on average",
        levels={level: together(each.at(level) for each in results) for level in LEVELS},
        points=sum(each.points for each in results),
        points_found=sum(each.points_found for each in results),
        **figures,
    )


def _counting_rows(
    drawn: Drawn, seen: Sequence[Violations], figures: dict[str, Figure], options: CheckOptions
) -> dict[str, Any]:
    """The figures of all rules together whose intervals count rows, where a rule is about groups of them."""
    samples = [each.fresh.by_rows.shape[1] for each in seen if each.fresh.by_rows is not None]
    if not samples:
        return {}
    share, anywhere = np.zeros((2, 2, min(samples), drawn.mask.size))
    for each in seen:
        by_rows = each.fresh.by_rows
        one, any_ = (
            (each.share.ravel(), each.anywhere.ravel())
            if by_rows is None
            else (by_rows[:, : share.shape[1]],) * 2
        )
        share, anywhere = share + one / len(seen), np.maximum(anywhere, any_)
    kept, found = drawn.mask.ravel(), {"epsilon_mean": share, "draws_violating": anywhere}
    return {"counts_rows": True} | {
        name: with_row_errors(figures[name], values[..., kept].mean(axis=-1), options.confidence)
        for name, values in found.items()
    }


# By all draws together --------------------------------------------------------------------------------------


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
    found = _distances(drawn, term, candidates, weights)
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
    at_worst = found["total_variation"][:, int(np.argmax(found["total_variation"][1]))]
    searched = options.ascent or not searchable(term)
    average = verdict(variation.mean, term.tolerance)
    # The half that estimates has half of the draws, so twice the variance.
    spread = math.sqrt(2.0) * _half_width(at_worst[3:], options.confidence)
    there = Figure(variation.worst, variation.worst - spread, variation.worst + spread, np.nan)
    half = variation.mean.high - variation.mean.value
    return RuleCheck(
        name=rule_name(term),
        text=term.rule.text(term.schema),
        tolerance=term.tolerance,
        verdict=average,
        levels=_levels(average, verdict(there, term.tolerance) if searched else "not attempted"),
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
    value, half = float(mean[0]), _half_width(mean[3:], confidence)
    return Figure(value, max(value - half, 0.0), value + half, np.nan)


def _half_width(without: Float[np.ndarray, " groups"], confidence: float) -> float:
    return jackknife(without, confidence) if len(without) > 1 else np.inf


def _distances(
    drawn: Drawn,
    term: RuleTerm,
    points: Float[np.ndarray, "n Q"],
    weights: Float[np.ndarray, "rows S"],
) -> dict[str, Float[np.ndarray, "rows n"]]:
    """Each divergence by name, for each row of weights of the kept draws."""
    requirement, flat = term.rule.requirement, drawn.flat
    if requirement.speaks_of_noise:
        stands_for = _stands_for(drawn)
        some = np.flatnonzero(stands_for)
        flat, weights = flat[some], weights[:, some] * stands_for[some]
        weights = weights / weights.sum(axis=1, keepdims=True)
    parts = []
    for at, values in case_blocks(drawn, flat, term, points):
        noise = case_noise(drawn, flat, term, at)
        parts.append(requirement.distances(at.demand, shaped(drawn, term, at, values), noise, weights))
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}


def _stands_for(drawn: Drawn) -> Float[np.ndarray, " S"]:
    """For how many kept draws each of the `INTEGRAL_DRAWS` stands that integrals are over; 0 for the others.

    They are evenly spaced within each half: spaced over all draws they could leave one half out, whose draws
    are every other one.
    """
    kept, split = drawn.mask, halves(drawn)
    result = np.zeros(int(kept.sum()))
    for half in (split.finding, split.estimating):
        inside = np.flatnonzero(half[kept])
        some = inside[evenly(len(inside), INTEGRAL_DRAWS // 2)]
        result[some] = len(inside) / len(some)
    return result
