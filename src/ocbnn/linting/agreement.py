"""Whether several rules leave an output in common, judged at given points by what each asks for there.

Used where endpoints are not affine in x, where rules are functions from Python, and to verify every witness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy.stats import norm

from ocbnn.linting.demands import class_count, demand_at, ways_to_fail
from ocbnn.linting.geometry import Bools, Floats
from ocbnn.linting.subjects import Subject, located
from ocbnn.rules.located import AllowedIntervals, AllowedValues, LocatedFunctions, NormalMixture
from ocbnn.rules.outputs import Intervals, Values
from ocbnn.schema import Schema
from ocbnn.violation import margin

MOST_POINTS = 32
"""How many points are looked at one by one where no array formula compares two kinds of rules."""
TOUCHING = 1e-12
POOLED = 2048
"""How many points are pooled over all rules."""
ENOUGH_POINTS = 16
"""With fewer points in common, two rules are given fresh ones."""

Ends = tuple[Floats, Floats]


def without_output(
    subjects: Sequence[Subject], points: Floats, schema: Schema, *, touching: bool = False
) -> Bools:
    """At which points no output obeys all rules; False where one of them is not defined.

    Args:
        subjects: the rules, all of which apply at the points.
        points: coded points.
        schema: the table.
        touching: whether ranges that share nothing but an end count as having nothing in common.
    """
    result = np.zeros(len(points), dtype=bool)
    asked = [located(subject.rule, points, schema) for subject in subjects]
    defined = np.logical_and.reduce([where for _, where in asked])
    if not defined.any():
        return result
    demands = [demand for demand, _ in asked]
    if not defined.all():
        demands = [subject.rule.locate(points[defined], schema) for subject in subjects]
    result[defined] = _nothing_in_common(subjects, demands, schema, touching)
    return result


def _nothing_in_common(
    subjects: Sequence[Subject], demands: Sequence[Any], schema: Schema, touching: bool
) -> Bools:
    if all(isinstance(demand, AllowedIntervals | AllowedValues) for demand in demands):
        lower, upper = reduce(_common_ends, (_ends(demand) for demand in demands))
        slack = TOUCHING * max(1.0, schema.target.scale) if touching and schema.target is not None else 0.0
        return np.all(lower + slack >= upper if touching else lower > upper, axis=1)
    if any(isinstance(demand, LocatedFunctions) for demand in demands):
        return _none_found(subjects, demands, schema)
    if any(isinstance(demand, NormalMixture) for demand in demands):
        return _apart(subjects, demands)
    return _one_by_one(subjects, demands, schema, touching)


def _length(demand: Any) -> int:
    return len(demand.center if isinstance(demand, LocatedFunctions) else demand[0])


def _ends(demand: AllowedIntervals | AllowedValues) -> Ends:
    if isinstance(demand, AllowedIntervals):
        return demand.lower, demand.upper
    reach = np.where(demand.weights > 0, demand.margin[:, None], -np.inf)
    return demand.values - reach, demand.values + reach


def _common_ends(one: Ends, other: Ends) -> Ends:
    """Every pairwise intersection of two unions of intervals, (n, K·L)."""
    lower = np.maximum(one[0][:, :, None], other[0][:, None, :])
    upper = np.minimum(one[1][:, :, None], other[1][:, None, :])
    return lower.reshape(len(lower), -1), upper.reshape(len(upper), -1)


def _one_by_one(subjects: Sequence[Subject], demands: Sequence[Any], schema: Schema, touching: bool) -> Bools:
    count = _length(demands[0])
    result = np.zeros(count, dtype=bool)
    classes = class_count(schema)
    for row in range(0, count, -(-count // MOST_POINTS)):
        here = [
            demand_at(demand, row, classes, open_ends=touching, tolerance=subject.rule.effective_tolerance)
            for subject, demand in zip(subjects, demands, strict=True)
        ]
        known = [demand for demand in here if demand is not None]
        fails = ways_to_fail(known, classes, lambda affine: float(affine[-1]), TOUCHING if touching else 0.0)
        result[row] = len(known) == len(here) and bool(fails)
    return result


def _none_found(subjects: Sequence[Subject], demands: Sequence[Any], schema: Schema) -> Bools:
    """Where no y was found that obeys: a search for the least of the largest margins, by zooming in."""
    count = _length(demands[0])
    target = schema.target
    if target is None or target.task != "regression" or any(isinstance(d, NormalMixture) for d in demands):
        return np.zeros(count, dtype=bool)
    best = np.full(count, target.center)
    reach = 10.0
    steps = target.scale * np.sinh(np.linspace(-reach, reach, 801))
    for _ in range(4):
        outputs = best + steps[:, None]
        margins = [
            np.broadcast_to(margin(subject.rule.output, demand, outputs), outputs.shape)
            for subject, demand in zip(subjects, demands, strict=True)
        ]
        worst = np.nan_to_num(np.max(margins, axis=0), nan=np.inf)
        best = np.take_along_axis(outputs, np.argmin(worst, axis=0)[None], axis=0)[0]
        steps = steps / 50
    return np.min(worst, axis=0) > 0


def _apart(subjects: Sequence[Subject], demands: Sequence[Any]) -> Bools:
    """Where distributions differ by more than is tolerated, or one gives what is allowed next to no mass."""
    count = _length(demands[0])
    if len(demands) != 2:
        return np.zeros(count, dtype=bool)
    accepted = sum(s.rule.effective_tolerance for s in subjects if s.rule.output.is_probabilistic)
    if all(isinstance(demand, NormalMixture) for demand in demands):
        return _total_variation(demands[0], demands[1]) > accepted
    mixture, other = demands if isinstance(demands[0], NormalMixture) else demands[::-1]
    if not isinstance(other, AllowedIntervals | AllowedValues):
        return np.zeros(count, dtype=bool)
    lower, upper = (ends[:, :, None] for ends in _ends(other))
    mean, sd = mixture.mean[:, None, :], mixture.sd[:, None, :]
    below, above = norm.cdf((lower - mean) / sd), norm.cdf((upper - mean) / sd)
    mass = np.sum(mixture.weight[:, None, :] * np.maximum(above - below, 0.0), axis=(1, 2))
    return mass < accepted


def _total_variation(one: NormalMixture, other: NormalMixture) -> Floats:
    """½ ∫ |p − q| by quadrature, at each point."""
    mean, sd = (np.concatenate([a, b], axis=1) for a, b in ((one.mean, other.mean), (one.sd, other.sd)))
    low, high = (mean - 8 * sd).min(axis=1), (mean + 8 * sd).max(axis=1)
    # Fine around every component, however different their widths.
    local = (mean[:, :, None] + sd[:, :, None] * np.linspace(-8, 8, 161)).reshape(len(mean), -1)
    y = np.sort(np.concatenate([local, np.linspace(low, high, 161, axis=1)], axis=1), axis=1)
    difference = np.abs(_density(one, y) - _density(other, y))
    return 0.5 * np.trapezoid(difference, y, axis=1)


def _density(mixture: NormalMixture, y: Floats) -> Floats:
    z = (y[:, :, None] - mixture.mean[:, None, :]) / mixture.sd[:, None, :]
    return np.sum(mixture.weight[:, None, :] * norm.pdf(z) / mixture.sd[:, None, :], axis=2)


# Many rules at once -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PooledEnds:
    """Where a rule on y applies among the pooled points, and the ends (N, K) of what it allows there."""

    applies: Bools
    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False)
class Pool:
    """Points of all rules together: each rule is evaluated once, not once for every pair it is in."""

    points: Floats
    ends: tuple[PooledEnds | None, ...]

    def failing(self, one: int, other: int) -> Floats | None:
        """The points at which two rules leave no y in common; None where too few points can tell."""
        mine, yours = self.ends[one], self.ends[other]
        if mine is None or yours is None:
            return None
        common = np.flatnonzero(mine.applies & yours.applies)
        if len(common) < ENOUGH_POINTS:
            return None
        lower, upper = _common_ends(
            (mine.lower[common], mine.upper[common]), (yours.lower[common], yours.upper[common])
        )
        return self.points[common[np.all(lower > upper, axis=1)]]


def pooled(subjects: Sequence[Subject], schema: Schema) -> Pool:
    """The pool of these rules."""
    each = max(4, POOLED // max(1, len(subjects)))
    some = [subject.points[:: max(1, len(subject.points) // each)][:each] for subject in subjects]
    points = np.concatenate([np.empty((0, len(schema.columns))), *some])
    return Pool(points, tuple(_pooled_ends(subject, points, schema) for subject in subjects))


def _pooled_ends(subject: Subject, points: Floats, schema: Schema) -> PooledEnds | None:
    if not isinstance(subject.rule.output, Intervals | Values):
        return None
    inside = np.flatnonzero(subject.rule.region.contains(points, schema))
    demand, defined = located(subject.rule, points[inside], schema)
    if not isinstance(demand, AllowedIntervals | AllowedValues):
        return None
    ends = _ends(demand)
    applies = np.zeros(len(points), dtype=bool)
    applies[inside[defined]] = True
    lower, upper = np.full((2, len(points), ends[0].shape[1]), np.nan)
    lower[applies], upper[applies] = ends
    return PooledEnds(applies, lower, upper)
