"""Whether rules leave an output in common: by ranges with ends affine in x, or at given points.

Where rules cannot all be met there is a `Gap`: an affine function, positive only where one clause of each
leaves nothing in common. Points are used where ends are not affine in x, where the allowed outputs cannot be
listed, and to verify every witness.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce
from itertools import chain, combinations, islice, product

import numpy as np
from scipy.stats import norm

from ocbnn.linting.geometry import Bools, Floats, Space
from ocbnn.linting.subjects import Subject, View, stated_events, view
from ocbnn.rules.ranges import Bound, Clause, Range, Ranges, constant, of_the_rest, probability_range
from ocbnn.rules.requirement import Allowed, Normals
from ocbnn.schema import Schema, Target

MOST_COMBINATIONS = 256
"""Rules that have more combinations of alternatives together are judged at points."""
MOST_WAYS = 256
MOST_SHARES = 4
"""How many sets of classes are looked at together."""
MOST_FAMILIES = 512
"""How many such families are looked at, small ones first."""
MOST_POINTS = 32
"""How many points are looked at one by one where no array formula compares two rules."""
TOUCHING = 1e-12
ROUNDING = 1e-9
"""How much further than its tolerance a stated probability reaches: probabilities sum to 1 up to rounding."""
POOLED = 2048
"""How many points are pooled over all rules."""
ENOUGH_POINTS = 16
"""With fewer points in common, two rules are given fresh ones."""

Gap = Bound
Ends = tuple[Floats, Floats]


# By ranges --------------------------------------------------------------------------------------------------


def ways_to_fail(
    ranges: Sequence[Ranges], classes: int, ceiling: Callable[[Floats], float], slack: float = 0.0
) -> list[tuple[Gap, ...]] | None:
    """The ways in which no output lies in all ranges: sets of gaps that must all be positive (open: ≥ 0).

    None where there are too many to list.

    Args:
        ranges: what each rule asks for.
        classes: how many classes there are; 0 for regression.
        ceiling: an upper bound of an affine function over the inputs concerned, to leave out what cannot be.
        slack: how far below 0 an open gap may be for rounding.
    """
    chosen = [each.winners for each in ranges if each.winners is not None]
    winners = frozenset.intersection(*chosen) if chosen else None
    if math.prod(len(each.clauses) for each in ranges) > MOST_COMBINATIONS:
        return None
    options: list[list[Gap]] = []
    for choice in product(*(each.clauses for each in ranges)):
        gaps = [gap for gap in _gaps(choice, winners, classes) if _can_open(gap, ceiling, slack)]
        if any(gap.is_constant for gap in gaps):
            continue
        if not gaps:
            return []
        options.append(gaps)
    if math.prod(len(gaps) for gaps in options) > MOST_WAYS:
        return None
    return [tuple(way) for way in product(*options)]


def _can_open(gap: Gap, ceiling: Callable[[Floats], float], slack: float) -> bool:
    highest = float(gap.affine[-1]) if gap.is_constant else ceiling(gap.affine)
    return highest > 0 or (gap.open and highest >= -slack)


def _gaps(clauses: Sequence[Clause], winners: frozenset[int] | None, classes: int) -> list[Gap]:
    """Affine functions, each positive only where this choice of clauses leaves no output."""
    ranges = _merged([part for clause in clauses for part in clause])
    if winners is not None and not winners:
        return [Bound(constant(1.0, 0))]
    gaps = [between(low, high) for part in ranges for low in part.lowers for high in part.uppers]
    shares = [part for part in ranges if part.members is not None]
    told_twice = [*shares, *(of_the_rest(part, classes) for part in shares)]
    families = chain.from_iterable(combinations(told_twice, size) for size in range(1, MOST_SHARES + 1))
    for family in islice(families, MOST_FAMILIES):
        gaps += _family_gaps(family, classes)
    if winners is not None:
        gaps += [gap for part in shares for gap in _winner_gaps(part, winners, classes)]
    return gaps


def _merged(ranges: Sequence[Range]) -> list[Range]:
    merged: dict[frozenset[int] | None, Range] = {}
    for part in ranges:
        known = merged.get(part.members, Range(part.members))
        merged[part.members] = Range(part.members, known.lowers + part.lowers, known.uppers + part.uppers)
    return list(merged.values())


def between(low: Bound, high: Bound) -> Gap:
    """low(x) − high(x), without what rounding leaves of terms that cancel out."""
    difference = low.affine - high.affine
    rounding = 4 * np.finfo(float).eps * (np.abs(low.affine) + np.abs(high.affine))
    return Bound(np.where(np.abs(difference) <= rounding, 0.0, difference), low.open or high.open)


def _family_gaps(family: Sequence[Range], classes: int) -> Iterator[Gap]:
    """Disjoint sets of classes whose least probabilities exceed 1, or a cover of all that cannot reach 1.

    Told of sets and of their complements this says all there is about two sets: P(A) ≤ P(B) for A ⊂ B is
    P(A) + P(not B) ≤ 1.
    """
    members = [part.members or frozenset() for part in family]
    union = frozenset().union(*members)
    if len(union) == sum(map(len, members)):
        yield from (_excess(lows, 1.0) for lows in product(*(part.lowers for part in family)))
    if len(union) == classes and len(family) > 2:
        yield from (_excess(highs, -1.0) for highs in product(*(part.uppers for part in family)))


def _excess(bounds: Sequence[Bound], sign: float) -> Gap:
    """±(Σ bounds − 1)."""
    total = np.sum([bound.affine for bound in bounds], axis=0)
    return Bound(sign * (total - constant(1.0, len(total) - 1)), any(bound.open for bound in bounds))


def _winner_gaps(part: Range, winners: frozenset[int], classes: int) -> list[Gap]:
    """A winner outside A leaves A at most |A| / (|A| + 1); one inside leaves it at least 1 / (1 + |rest|)."""
    if part.members is None:
        return []
    inside, outside = len(part.members), classes - len(part.members)
    if not winners & part.members:
        most = inside / (inside + 1)
        return [Bound(low.affine - constant(most, len(low.affine) - 1), low.open) for low in part.lowers]
    if winners <= part.members:
        least = 1 / (1 + outside)
        return [Bound(constant(least, len(high.affine) - 1) - high.affine, high.open) for high in part.uppers]
    return []


# At points --------------------------------------------------------------------------------------------------


def without_output(
    subjects: Sequence[Subject], points: Floats, space: Space, *, touching: bool = False
) -> Bools:
    """At which points no output obeys all rules; False where one of them is not defined.

    Args:
        subjects: the rules, all of which apply at the points.
        points: coded points.
        space: the columns.
        touching: whether ranges that share nothing but an end count as having nothing in common.
    """
    result = np.zeros(len(points), dtype=bool)
    found = [view(subject.rule, points, space.schema) for subject in subjects]
    defined = np.logical_and.reduce([where for _, where in found])
    if not defined.any():
        return result
    if not defined.all():
        found = [view(subject.rule, points[defined], space.schema) for subject in subjects]
    views = [each for each, _ in found if each is not None]
    result[defined] = _nothing_in_common(views, int(defined.sum()), space, touching)
    return result


def _nothing_in_common(views: Sequence[View], count: int, space: Space, touching: bool) -> Bools:
    target = space.schema.target
    ends = [each.allowed.outputs for each in views if each.allowed and each.allowed.outputs]
    if len(ends) == len(views):
        slack = TOUCHING * max(1.0, target.raw_scale) if target is not None else 0.0
        return np.all(_are_empty(reduce(_common_ends, ends), slack if touching else None), axis=1)
    if any(each.is_unlisted for each in views):
        return _none_found(views, count, target)
    if any(each.normals is not None for each in views):
        return _apart(views, count)
    return _one_by_one(views, count, space.classes, touching)


def _common_ends(one: Ends, other: Ends) -> Ends:
    """Every pairwise intersection of two unions of intervals, (n, K·L)."""
    lower = np.maximum(one[0][:, :, None], other[0][:, None, :])
    upper = np.minimum(one[1][:, :, None], other[1][:, None, :])
    return lower.reshape(len(lower), -1), upper.reshape(len(upper), -1)


def _are_empty(ends: Ends, slack: float | None = None) -> Bools:
    """Which intervals hold nothing; with a slack also those that are no wider than it."""
    lower, upper = (end / 2 for end in ends)  # halves: the distance of two large numbers overflows
    half_width = upper - lower
    if slack is not None:
        return half_width <= slack / 2
    # Ends that are meant to be equal differ by rounding.
    size = np.where(np.isfinite(half_width), np.abs(lower) + np.abs(upper), 0.0)
    return half_width < -8 * np.finfo(float).eps * size


def _one_by_one(views: Sequence[View], count: int, classes: int, touching: bool) -> Bools:
    result = np.zeros(count, dtype=bool)
    for row in range(0, count, -(-count // MOST_POINTS)):
        here = [ranges_at(each, row, classes, open_ends=touching) for each in views]
        fails = ways_to_fail(here, classes, lambda affine: float(affine[-1]), TOUCHING if touching else 0.0)
        result[row] = bool(fails)
    return result


def ranges_at(view: View, row: int, classes: int, *, open_ends: bool = False) -> Ranges:
    """What a rule asks for at one point, as evaluated there: every affine function is a constant."""

    def bound(value: float) -> Bound:
        return Bound(np.array([float(value)]), open_ends)

    def indices(mask: Bools) -> frozenset[int]:
        return frozenset(np.flatnonzero(mask[row]).tolist())

    def share(members: Bools, low: float, high: float) -> Range:
        return probability_range(indices(members), [bound(low)], [bound(high)], classes)

    allowed, parts = view.allowed or Allowed(), list[Sequence[Clause]]()
    if view.asked is not None:
        reach = view.rule.effective_tolerance + ROUNDING
        stated = [(members, float(probability[row])) for members, probability in stated_events(view.asked)]
        parts.append([tuple(share(of, max(p - reach, 0.0), min(p + reach, 1.0)) for of, p in stated)])
    if allowed.outputs is not None:
        ends = zip(allowed.outputs[0][row], allowed.outputs[1][row], strict=True)
        parts.append([(Range(None, (bound(a),), (bound(b),)),) for a, b in ends if a <= b])
    if allowed.shares is not None:
        members, lower, upper = allowed.shares
        ends = zip(lower[row], upper[row], strict=True)
        parts.append([(share(members, a, b),) for a, b in ends if a <= b])
    clauses = tuple(tuple(chain.from_iterable(choice)) for choice in product(*parts))
    return Ranges(clauses, None if allowed.classes is None else indices(allowed.classes))


def _none_found(views: Sequence[View], count: int, target: Target | None) -> Bools:
    """Where no y was found that obeys: a search for the least of the largest margins, by zooming in."""
    if target is None or target.task != "regression" or any(each.rule.is_predictive for each in views):
        return np.zeros(count, dtype=bool)
    best = np.zeros(count)
    reach = 10.0
    steps = np.sinh(np.linspace(-reach, reach, 801))
    for _ in range(4):
        places = best + steps[:, None]
        outputs = target.to_raw(places)
        margins = [
            np.broadcast_to(each.rule.requirement.violation(each.demand, outputs), outputs.shape)
            for each in views
        ]
        worst = np.max(margins, axis=0)
        best = np.take_along_axis(places, np.argmin(worst, axis=0)[None], axis=0)[0]
        steps = steps / 50
    return np.min(worst, axis=0) > 0


def _apart(views: Sequence[View], count: int) -> Bools:
    """Where distributions differ by more than is tolerated, or one gives what is allowed next to no mass."""
    normals = [each.normals for each in views if each.normals is not None]
    ends = [each.allowed.outputs for each in views if each.allowed and each.allowed.outputs]
    accepted = sum(each.rule.effective_tolerance for each in views if each.rule.is_predictive)
    if len(views) == len(normals) == 2:
        return _total_variation(*normals) > accepted
    if len(views) != 2 or not ends:
        return np.zeros(count, dtype=bool)
    weight, mean, sd = (part[:, None, :] for part in normals[0])
    lower, upper = (end[:, :, None] for end in ends[0])
    below, above = norm.cdf((lower - mean) / sd), norm.cdf((upper - mean) / sd)
    mass = np.sum(weight * np.maximum(above - below, 0.0), axis=(1, 2))
    return mass < accepted


def _total_variation(one: Normals, other: Normals) -> Floats:
    """½ ∫ |p − q| by quadrature, at each point."""
    mean, sd = (np.concatenate([a, b], axis=1) for a, b in ((one.mean, other.mean), (one.sd, other.sd)))
    low, high = (mean - 8 * sd).min(axis=1), (mean + 8 * sd).max(axis=1)
    # Fine around every component, however different their widths.
    local = (mean[:, :, None] + sd[:, :, None] * np.linspace(-8, 8, 161)).reshape(len(mean), -1)
    y = np.sort(np.concatenate([local, np.linspace(low, high, 161, axis=1)], axis=1), axis=1)
    difference = np.abs(_density(one, y) - _density(other, y))
    return 0.5 * np.trapezoid(difference, y, axis=1)


def _density(normals: Normals, y: Floats) -> Floats:
    weight, mean, sd = (part[:, None, :] for part in normals)
    return np.sum(weight * norm.pdf((y[:, :, None] - mean) / sd) / sd, axis=2)


# Many rules at once -----------------------------------------------------------------------------------------


def pooled(subjects: Sequence[Subject], schema: Schema) -> Callable[[int, int], Floats | None]:
    """Two rules, by position → points at which they leave no y in common; None where too few can tell.

    The points of all rules are pooled: each rule is evaluated once, not once for every pair it is in.
    """
    each = max(4, POOLED // max(1, len(subjects)))
    some = [subject.points[:: max(1, len(subject.points) // each)][:each] for subject in subjects]
    points = np.concatenate([np.empty((0, len(schema.columns))), *some])
    evaluated = cache(lambda position: _pooled_ends(subjects[position], points, schema))

    def failing(one: int, other: int) -> Floats | None:
        mine, yours = evaluated(one), evaluated(other)
        if mine is None or yours is None:
            return None
        common = np.flatnonzero(mine[0] & yours[0])
        if len(common) < ENOUGH_POINTS:
            return None
        ends = _common_ends(*((lower[common], upper[common]) for _, (lower, upper) in (mine, yours)))
        return points[common[np.all(_are_empty(ends), axis=1)]]

    return failing


def _pooled_ends(subject: Subject, points: Floats, schema: Schema) -> tuple[Bools, Ends] | None:
    """Where a rule applies among the points, and the ends (N, K) of the y that it allows there."""
    inside = np.flatnonzero(subject.rule.region.contains(points, schema))
    found, defined = view(subject.rule, points[inside], schema)
    if found is None or found.allowed is None or found.allowed.outputs is None:
        return None
    applies = np.zeros(len(points), dtype=bool)
    applies[inside[defined]] = True
    lower, upper = np.full((2, len(points), found.allowed.outputs[0].shape[1]), np.nan)
    lower[applies], upper[applies] = found.allowed.outputs
    return applies, (lower, upper)
