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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from ocbnn import violation
from ocbnn.errors import OCBNNError
from ocbnn.posterior.divergences import class_divergences, normal_divergences
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.figures import (
    CONFIDENCE,
    Figure,
    clopper_pearson,
    draw_groups,
    halves,
    jackknife,
    mean_figure,
    share_figure,
)
from ocbnn.posterior.functions import function_blocks
from ocbnn.posterior.predict import predict
from ocbnn.posterior.search import Rule, as_rule_terms, climb, fresh_points, rule_name
from ocbnn.priors.conditional import RuleTerm
from ocbnn.rules.located import AllowedClasses, Located, NormalMixture
from ocbnn.schema import Schema

POINTS = 1000
NORMAL_POINTS, NORMAL_DRAWS = 64, 500
"""Points and draws at which a predictive of Y is compared with `y ~ Normal(…)`: integrals, not counts."""

Verdict = Literal["met", "unmet", "not shown at this tolerance"]


class Divergence(NamedTuple):
    """A divergence between predictive and D_y: its mean over points, and its largest value with the place.

    The worst point is found on half of the chains, and `worst` is the value there on the other half.
    """

    mean: Figure
    worst: float
    worst_point: dict[str, object]


class GroupFigures(NamedTuple):
    """The figures of one group of points."""

    group: str
    points: int
    epsilon_mean: Figure
    points_violating: float


@dataclass(frozen=True, eq=False)
class Satisfaction:
    """How far draws obey one rule, or all of them.

    Attributes:
        name: the rule's name, or its text; "all rules".
        text: the rule in words.
        tolerance: what its author accepts.
        verdict: of `epsilon_mean` (probabilistic: mean total variation) against the tolerance; "met" only
            where the whole interval lies within it.
        points: fresh points tried.
        points_found: points found by ascent and tried too, for `draws_violating` and `epsilon_worst`.
        epsilon_mean, epsilon_worst, draws_violating, points_violating: as the module says; None for
            probabilistic rules.
        worst_point: where `epsilon_worst` is, in raw units.
        worst_how: on which draws it was found and estimated.
        mass_outside: class rules: mean predictive probability outside the allowed classes.
        divergences: probabilistic rules: by name.
        groups: figures by group, where a column was named.
    """

    name: str
    text: str
    tolerance: float
    verdict: Verdict
    points: int
    points_found: int = 0
    epsilon_mean: Figure | None = None
    epsilon_worst: Figure | None = None
    draws_violating: Figure | None = None
    points_violating: Figure | None = None
    worst_point: dict[str, object] = field(default_factory=dict)
    worst_how: str = ""
    mass_outside: Figure | None = None
    divergences: dict[str, Divergence] = field(default_factory=dict)
    groups: tuple[GroupFigures, ...] = ()

    def __str__(self) -> str:
        head = f"{self.name}: {self.verdict} (tolerance {self.tolerance:g}, {self.points:,} fresh points"
        head += f" and {self.points_found} found by ascent)" if self.points_found else ")"
        lines = [head]
        for label in ("epsilon_mean", "epsilon_worst", "draws_violating", "points_violating", "mass_outside"):
            figure = getattr(self, label)
            if figure is not None:
                lines.append(f"  {label} {figure}")
        lines += [f"  {name} {each.mean}, worst {each.worst:.3g}" for name, each in self.divergences.items()]
        if self.worst_point:
            where = ", ".join(f"{name} = {value}" for name, value in self.worst_point.items())
            lines.append(f"  worst at {where} ({self.worst_how})")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class SatisfactionReport:
    """The satisfaction of every rule, and of all together; iterates over the rules."""

    rules: tuple[Satisfaction, ...]
    overall: Satisfaction | None

    def __iter__(self) -> Iterator[Satisfaction]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, rule: int | str) -> Satisfaction:
        if isinstance(rule, int):
            return self.rules[rule]
        for each in self.rules:
            if rule in (each.name, each.text):
                return each
        raise KeyError(rule)

    @property
    def met(self) -> bool:
        """Whether every rule is shown to be met."""
        return all(each.verdict == "met" for each in self.rules)

    def __str__(self) -> str:
        return "\n".join(str(each) for each in (*self.rules, *([self.overall] if self.overall else [])))


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
    terms = as_rule_terms(posterior, rules)
    if points < 1:
        raise OCBNNError(f"Satisfaction needs at least one point, not {points}.")
    if by is not None:
        posterior.schema.index(by)
    measured: list[_Measured] = []
    results = []
    for term in terms:
        if term.rule.output.is_probabilistic:
            results.append(_probabilistic(posterior, term, points, key, ascent, confidence))
            continue
        found = _measured(posterior, term, points, key, ascent)
        measured.append(found)
        results.append(_deterministic(posterior, term, found, by, confidence))
    return SatisfactionReport(tuple(results), _overall(posterior, results, measured, confidence))


def verdict(figure: Figure, tolerance: float) -> Verdict:
    """Met where the whole interval is within the tolerance, unmet where all of it is beyond."""
    if figure.high <= tolerance:
        return "met"
    return "unmet" if figure.low > tolerance else "not shown at this tolerance"


class _Measured(NamedTuple):
    """What one deterministic rule's points say, draw by draw (over all chains, rejected draws included)."""

    coded: Float[np.ndarray, "points Q"]
    share: Float[np.ndarray, "chains draws"]  # of fresh points violated
    anywhere: Float[np.ndarray, "chains draws"]  # 1 where a fresh or a found point is violated
    largest: Float[np.ndarray, "chains draws"]  # margin
    by_point: Float[np.ndarray, "draws_all points"]  # violations, bool, of all draws
    mass: Float[np.ndarray, "chains draws"] | None
    point_breaks: np.ndarray  # of every fresh point
    point_breaks_without: Float[np.ndarray, " groups"]  # share, leaving out each group of draws
    found: int
    worst: np.ndarray  # coded
    worst_finding: float  # share of the finding half there
    worst_series: Float[np.ndarray, "chains draws"]
    worst_margins: Float[np.ndarray, "chains draws"]


def _measured(posterior: Posterior, term: RuleTerm, points: int, key: int, ascent: bool) -> _Measured:
    every = _all_draws(posterior)
    shape = posterior.draws.shape[:2]
    fresh = fresh_points(term, points, key)
    margins, mass, point_breaks, without = _at_fresh(posterior, every, term, fresh)
    finding = halves(posterior).finding
    candidates = fresh[_most_violated(margins[finding.ravel()])]
    if ascent:
        found = climb(posterior, term, posterior.draws[finding], (key, 1))
        extreme = climb(posterior, term, posterior.flat, (key, 2), score="worst draw")
        candidates = np.concatenate([candidates, found, extreme])
    there = _margins(every, term, candidates)
    # The worst point is chosen by the finding half alone.
    chosen = _most_violated(there[finding.ravel()])[0]
    violated = margins > 0
    anywhere = violated.any(axis=1) | (there > 0).any(axis=1)
    return _Measured(
        coded=fresh,
        share=violated.mean(axis=1).reshape(shape),
        anywhere=anywhere.astype(float).reshape(shape),
        largest=np.maximum(margins.max(axis=1), there.max(axis=1)).reshape(shape),
        by_point=violated,
        mass=None if mass is None else mass.reshape(shape),
        point_breaks=point_breaks,
        point_breaks_without=without,
        found=len(candidates) - 1 if ascent else 0,
        worst=candidates[chosen],
        worst_finding=float((there[finding.ravel(), chosen] > 0).mean()),
        worst_series=(there[:, chosen] > 0).astype(float).reshape(shape),
        worst_margins=there[:, chosen].reshape(shape),
    )


def _all_draws(posterior: Posterior) -> Posterior:
    """The same without rejection: errors of a ratio need the rejected draws too."""
    return Posterior(posterior.draws, posterior.model, posterior.provenance, None, posterior.prior_correction)


def _at_fresh(
    posterior: Posterior, every: Posterior, term: RuleTerm, fresh: Float[np.ndarray, "points Q"]
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, np.ndarray]:
    """Margins of all draws, mass outside by draw, which points' predictions violate, and without groups."""
    kept = posterior.mask.ravel()
    groups = draw_groups(posterior)
    weights = _leave_one_out(groups)
    margins = np.empty((kept.size, len(fresh)))
    breaks, without, masses = [], [], []
    for block, values in function_blocks(every, fresh):
        located = term.rule.locate(fresh[block], term.schema)
        margins[:, block] = _finite(violation.margin(term.rule.output, located, values))
        if isinstance(located, AllowedClasses):
            masses.append(np.where(located.allowed, 0.0, values).sum(axis=-1))
        means = np.tensordot(weights, values[kept], axes=1)
        predicted = np.concatenate([_point_values(posterior, fresh[block], values[kept])[None], means])
        broken = _finite(violation.margin(term.rule.output, located, predicted)) > 0
        breaks.append(broken[0])
        without.append(broken[1:])
    mass = np.concatenate(masses, axis=1).mean(axis=1) if masses else None
    return margins, mass, np.concatenate(breaks), np.concatenate(without, axis=1).mean(axis=1)


def _point_values(posterior: Posterior, coded: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The point prediction as rules judge it: y, or class probabilities."""
    if not posterior.enforced:
        return values.mean(axis=0)
    prediction = predict(posterior, coded, levels=(), coverage=None)
    return prediction.point if prediction.probabilities is None else prediction.probabilities


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


def _most_violated(margins: Float[np.ndarray, "draws n"]) -> np.ndarray:
    """The one point that most draws violate; among equals the one with the largest margin."""
    share = (margins > 0).mean(axis=0)
    return np.lexsort((margins.max(axis=0), share))[-1:]


def _leave_one_out(groups: np.ndarray) -> Float[np.ndarray, "groups S"]:
    """Weights of means without each group."""
    weights = (groups != np.unique(groups)[:, None]).astype(float)
    weights = weights[weights.any(axis=1)]
    return weights / weights.sum(axis=1, keepdims=True)


def _deterministic(
    posterior: Posterior, term: RuleTerm, found: _Measured, by: str | None, confidence: float
) -> Satisfaction:
    kept, chains = posterior.mask, posterior.has_chains
    epsilon = share_figure(found.share, kept, chains=chains, instead=found.largest, confidence=confidence)
    split = halves(posterior)
    return Satisfaction(
        name=rule_name(term),
        text=term.rule.text(term.schema),
        tolerance=term.tolerance,
        verdict=verdict(epsilon, term.tolerance),
        points=len(found.coded),
        points_found=found.found,
        epsilon_mean=epsilon,
        epsilon_worst=share_figure(
            found.worst_series,
            split.estimating,
            chains=chains,
            instead=found.worst_margins,
            confidence=confidence,
        ),
        draws_violating=share_figure(
            found.anywhere, kept, chains=chains, instead=found.largest, confidence=confidence
        ),
        points_violating=_points_figure(found.point_breaks, found.point_breaks_without, epsilon, confidence),
        worst_point=raw_point(term.schema, found.worst),
        worst_how=split.how,
        mass_outside=None if found.mass is None else _mass_figure(posterior, found.mass, confidence),
        groups=() if by is None else _groups(posterior, found, by, confidence),
    )


def _mass_figure(posterior: Posterior, mass: Float[np.ndarray, "chains draws"], confidence: float) -> Figure:
    figure = mean_figure(mass, posterior.mask, chains=posterior.has_chains, confidence=confidence)
    return figure._replace(low=max(figure.low, 0.0), high=min(figure.high, 1.0))


def _points_figure(
    breaks: np.ndarray, without: Float[np.ndarray, " groups"], epsilon: Figure, confidence: float
) -> Figure:
    """Sampling of points, and the Monte Carlo error of the prediction at each, whichever is larger."""
    value = float(breaks.mean())
    low, high = clopper_pearson(value, len(breaks), confidence)
    half = jackknife(value, without, confidence) if len(without) > 1 else 0.0
    return Figure(
        value, min(low, max(value - half, 0.0)), max(high, min(value + half, 1.0)), epsilon.effective
    )


def raw_point(schema: Schema, coded: Float[np.ndarray, " Q"]) -> dict[str, object]:
    """A point in raw units, by column."""
    return {str(name): value for name, value in schema.decode(coded[None]).iloc[0].to_dict().items()}


def _groups(posterior: Posterior, found: _Measured, by: str, confidence: float) -> tuple[GroupFigures, ...]:
    shape = posterior.draws.shape[:2]
    result = []
    for label, members in column_groups(posterior.schema, by, found.coded):
        share = found.by_point[:, members].mean(axis=1).reshape(shape)
        epsilon = share_figure(
            share,
            posterior.mask,
            chains=posterior.has_chains,
            instead=found.largest,
            confidence=confidence,
        )
        result.append(
            GroupFigures(label, int(members.sum()), epsilon, float(found.point_breaks[members].mean()))
        )
    return tuple(result)


def column_groups(
    schema: Schema, by: str, coded: Float[np.ndarray, "n Q"]
) -> Iterator[tuple[str, np.ndarray]]:
    """Groups of points by a column: its values where they are few, else quarters of the points."""
    column, values = schema.column(by), coded[:, schema.index(by)]
    distinct = np.unique(values)
    if column.kind in ("category", "binary") or len(distinct) <= 6:
        for value in distinct:
            raw = column.levels[int(value)] if column.levels else f"{value:g}"
            yield f"{by} = {raw}", values == value
        return
    ends = np.quantile(values, [0.25, 0.5, 0.75])
    quarter = np.searchsorted(ends, values, side="left")
    for index in np.unique(quarter):
        inside = quarter == index
        yield f"{values[inside].min():.3g} <= {by} <= {values[inside].max():.3g}", inside


def _overall(
    posterior: Posterior, results: list[Satisfaction], measured: list[_Measured], confidence: float
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
    kept, chains = posterior.mask, posterior.has_chains
    share = np.mean([each.share for each in measured], axis=0)
    anywhere = np.max([each.anywhere for each in measured], axis=0)
    largest = np.max([each.largest for each in measured], axis=0)
    epsilon = share_figure(share, kept, chains=chains, instead=largest, confidence=confidence)
    deterministic = [each for each in results if each.epsilon_mean is not None]
    # The rule is chosen by the finding half too, as its point was.
    worst = deterministic[int(np.argmax([each.worst_finding for each in measured]))]
    breaks = np.concatenate([each.point_breaks for each in measured])
    without = np.mean([each.point_breaks_without for each in measured], axis=0)
    return Satisfaction(
        verdict=worst_verdict,
        epsilon_mean=epsilon,
        epsilon_worst=worst.epsilon_worst,
        draws_violating=share_figure(anywhere, kept, chains=chains, instead=largest, confidence=confidence),
        points_violating=_points_figure(breaks, without, epsilon, confidence),
        worst_point=worst.worst_point,
        worst_how=f"{worst.name}: {worst.worst_how}",
        **common,  # type: ignore[arg-type]
    )


def _probabilistic(
    posterior: Posterior, term: RuleTerm, points: int, key: int, ascent: bool, confidence: float
) -> Satisfaction:
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
    weights = np.concatenate([np.stack([row / row.sum() for row in rows]), _leave_one_out(groups)])
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
