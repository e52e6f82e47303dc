"""What rules ask of outputs, with endpoints affine in x, and when several of them leave no output at all.

An affine function of the coded columns is an array (coefficients…, constant). A `Demand` is a union of
clauses; a clause holds ranges for y, or for the total probability of sets of classes. Where rules cannot all
be met there is a `Gap`: an affine function, positive only where one clause of each leaves nothing in common.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np

from ocbnn.language.expressions import (
    And,
    Comparison,
    Condition,
    Expression,
    Not,
    Or,
    Probability,
    affine,
    affine_in_output,
    minus,
)
from ocbnn.linting.geometry import Floats
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.located import (
    AllowedClasses,
    AllowedIntervals,
    AllowedValues,
    ProbabilityIntervals,
    TargetClassProbabilities,
    TargetProbability,
)
from ocbnn.rules.outputs import MARGIN, Classes, ClassProbabilities, Intervals, ProbabilityTarget, Values
from ocbnn.schema import Label, Schema

MOST_CLAUSES = 32
"""A rule with more alternatives than this is judged at points; as are, together, rules with more of these:"""
MOST_COMBINATIONS = 256
MOST_WAYS = 256
MOST_SHARES = 4
"""How many sets of classes are looked at together."""


@dataclass(frozen=True, eq=False)
class Bound:
    """One end of a range, or the gap between two of them; `open` where the end itself is not allowed."""

    affine: Floats
    open: bool = False

    @cached_property
    def is_constant(self) -> bool:
        return not self.affine[:-1].any()


@dataclass(frozen=True, eq=False)
class Range:
    """lowers ≤ quantity ≤ uppers. The quantity is y, or the total probability of the member classes."""

    members: frozenset[int] | None
    lowers: tuple[Bound, ...] = ()
    uppers: tuple[Bound, ...] = ()


Clause = tuple[Range, ...]


@dataclass(frozen=True, eq=False)
class Demand:
    """A union of clauses and, for class rules, the classes among which the most probable one must be.

    `widened` says that the ranges are a target plus or minus the tolerance the user accepts.
    """

    clauses: tuple[Clause, ...] = ((),)
    winners: frozenset[int] | None = None
    widened: bool = False


def constant(value: float, size: int) -> Floats:
    """An affine function of `size` columns that is the same everywhere."""
    return np.concatenate([np.zeros(size), [value]])


# From a rule to its demand ----------------------------------------------------------------------------------


def demand_of(rule: Constraint, schema: Schema) -> Demand | None:
    """What a rule asks for at any x; None where its endpoints are not affine in x."""
    match rule.output:
        case Classes(allowed=allowed):
            return Demand(winners=class_indices(allowed, schema))
        case Intervals(quantity=quantity, formula=formula):
            members = class_indices(quantity.classes, schema) if isinstance(quantity, Probability) else None
            clauses = _clauses(formula, False, schema)
            if clauses is None or len(clauses) > MOST_CLAUSES:
                return None
            return Demand(tuple((_range(members, lowers, uppers, schema),) for lowers, uppers in clauses))
        case Values(values=values):
            alternatives = [((None, expression),) for expression, _ in values]
            return _around(schema, alternatives, value_margin(rule.output, schema), widened=False)
        case ProbabilityTarget(classes=classes, value=value):
            members = class_indices(classes, schema)
            return _around(schema, [((members, value),)], rule.effective_tolerance, widened=True)
        case ClassProbabilities(values=values, classes=classes):
            targets = [
                (class_indices((label,), schema), value) for label, value in zip(classes, values, strict=True)
            ]
            return _around(schema, [targets], rule.effective_tolerance, widened=True)
    return None


def class_indices(labels: Iterable[Label], schema: Schema) -> frozenset[int]:
    """The positions of these labels among the schema's classes."""
    assert schema.target is not None
    return frozenset(schema.target.classes.index(label) for label in labels)


def class_count(schema: Schema) -> int:
    """How many classes there are; 0 for regression."""
    return len(schema.target.classes) if schema.target is not None else 0


def value_margin(output: Values, schema: Schema) -> float:
    """How near a value has to be met, in raw units of the target."""
    scale = schema.target.scale if schema.target is not None else 1.0
    return MARGIN * scale if output.margin is None else output.margin


def _around(
    schema: Schema,
    alternatives: Sequence[Sequence[tuple[frozenset[int] | None, Expression]]],
    margin: float,
    *,
    widened: bool,
) -> Demand | None:
    clauses = []
    for targets in alternatives:
        ranges = []
        for members, expression in targets:
            center = _vector(expression, schema)
            if center is None:
                return None
            reach = constant(margin, len(center) - 1)
            ranges.append(_range(members, [Bound(center - reach)], [Bound(center + reach)], schema))
        clauses.append(tuple(ranges))
    return Demand(tuple(clauses), widened=widened)


def _range(
    members: frozenset[int] | None, lowers: Iterable[Bound], uppers: Iterable[Bound], schema: Schema
) -> Range:
    if members is None:
        return Range(None, tuple(lowers), tuple(uppers))
    return probability_range(members, lowers, uppers, class_count(schema))


def probability_range(
    members: frozenset[int], lowers: Iterable[Bound], uppers: Iterable[Bound], classes: int
) -> Range:
    """P(a) ≥ 0.3 and P(not a) ≤ 0.7 are one statement: both are told of the set without the first class."""
    told = Range(members, tuple(lowers), tuple(uppers))
    return _of_the_rest(told, classes) if 0 in members else told


def _of_the_rest(part: Range, classes: int) -> Range:
    """The same statement about the other classes: P(rest) = 1 − P(members)."""

    def reflected(bound: Bound) -> Bound:
        return Bound(constant(1.0, len(bound.affine) - 1) - bound.affine, bound.open)

    rest = frozenset(range(classes)) - (part.members or frozenset())
    return Range(rest, tuple(map(reflected, part.uppers)), tuple(map(reflected, part.lowers)))


def _vector(expression: Expression, schema: Schema) -> Floats | None:
    form = affine(expression)
    if form is None:
        return None
    vector = constant(form.constant, len(schema.columns))
    for name, coefficient in form.coefficients.items():
        vector[schema.index(name)] = coefficient
    return vector


Sides = tuple[tuple[Bound, ...], tuple[Bound, ...]]
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "="}


def _clauses(formula: Condition, negated: bool, schema: Schema) -> list[Sides] | None:
    """The formula, or its negation, as a union of (lowers, uppers); None where a side is not affine in x."""
    match formula:
        case Not(item):
            return _clauses(item, not negated, schema)
        case And(items) | Or(items):
            parts = [_clauses(item, negated, schema) for item in items]
            return _joined(parts, union=isinstance(formula, Or) != negated)
        case Comparison():
            atoms = [
                _atom(minus(left, right), NEGATED[operator] if negated else operator, schema)
                for left, operator, right in formula.pairs()
            ]
            return _joined(atoms, union=negated)
    return None


def _joined(parts: Sequence[list[Sides] | None], *, union: bool) -> list[Sides] | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if union:
        return [sides for part in known for sides in part]
    clauses: list[Sides] = [((), ())]
    for part in known:
        pairs = ((have[0] + more[0], have[1] + more[1]) for have, more in product(clauses, part))
        clauses = [sides for sides in pairs if not _plainly_empty(sides)]
        if len(clauses) > MOST_CLAUSES:
            return None
    return clauses


def _plainly_empty(sides: Sides) -> bool:
    """Whether two constant ends exclude each other: such clauses would double with every `not`."""
    low = max((bound.affine[-1] for bound in sides[0] if bound.is_constant), default=-np.inf)
    high = min((bound.affine[-1] for bound in sides[1] if bound.is_constant), default=np.inf)
    return bool(low > high)


def _atom(difference: Expression, operator: str, schema: Schema) -> list[Sides] | None:
    """slope·y + intercept(x) `operator` 0 as ends of y."""
    form = affine_in_output(difference)
    slope = affine(form[0]) if form is not None else None
    intercept = _vector(form[1], schema) if form is not None else None
    if slope is None or intercept is None or slope.coefficients or slope.constant == 0:
        return None
    end = -intercept / slope.constant
    if not np.isfinite(end).all():
        return None
    if operator in ("=", "!="):
        closed, opened = Bound(end), Bound(end, open=True)
        return [((closed,), (closed,))] if operator == "=" else [((), (opened,)), ((opened,), ())]
    bound = Bound(end, open=len(operator) == 1)
    above = (operator[0] == ">") == (slope.constant > 0)
    return [((bound,), ())] if above else [((), (bound,))]


def demand_at(
    located: Any, row: int, classes: int, *, open_ends: bool = False, tolerance: float = 0.0
) -> Demand | None:
    """What a rule asks for at one point, as evaluated there: every affine function is a constant."""

    def bound(value: float) -> Bound:
        return Bound(np.array([float(value)]), open_ends)

    def members(mask: Any) -> frozenset[int]:
        return frozenset(int(index) for index in np.flatnonzero(mask[row]))

    def near(of: frozenset[int], value: float) -> Range:
        return probability_range(
            of, [bound(max(value - tolerance, 0.0))], [bound(min(value + tolerance, 1.0))], classes
        )

    match located:
        case AllowedClasses(allowed):
            return Demand(winners=members(allowed))
        case AllowedIntervals(lower, upper):
            ends = zip(lower[row], upper[row], strict=True)
            return Demand(tuple((Range(None, (bound(a),), (bound(b),)),) for a, b in ends if a <= b))
        case AllowedValues(values, weights, margin):
            reach = margin[row]
            kept = values[row][weights[row] > 0]
            return Demand(tuple((Range(None, (bound(v - reach),), (bound(v + reach),)),) for v in kept))
        case ProbabilityIntervals(mask, lower, upper):
            ends = zip(lower[row], upper[row], strict=True)
            of = members(mask)
            return Demand(
                tuple((probability_range(of, [bound(a)], [bound(b)], classes),) for a, b in ends if a <= b)
            )
        case TargetProbability(mask, probability):
            return Demand(((near(members(mask), float(probability[row])),),))
        case TargetClassProbabilities(probability):
            targets = enumerate(probability[row])
            return Demand((tuple(near(frozenset({index}), float(p)) for index, p in targets),))
    return None


# When demands leave nothing in common -----------------------------------------------------------------------

Gap = Bound


def ways_to_fail(
    demands: Sequence[Demand], classes: int, ceiling: Callable[[Floats], float], slack: float = 0.0
) -> list[tuple[Gap, ...]] | None:
    """The ways in which no output meets all demands: sets of gaps that must all be positive (open: ≥ 0).

    None where there are too many to list.

    Args:
        demands: one per rule.
        classes: how many classes there are; 0 for regression.
        ceiling: an upper bound of an affine function over the inputs concerned, to leave out what cannot be.
        slack: how far below 0 an open gap may be for rounding.
    """
    chosen = [demand.winners for demand in demands if demand.winners is not None]
    winners = frozenset.intersection(*chosen) if chosen else None
    if math.prod(len(demand.clauses) for demand in demands) > MOST_COMBINATIONS:
        return None
    options: list[list[Gap]] = []
    for choice in product(*(demand.clauses for demand in demands)):
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
    gaps = [_between(low, high) for part in ranges for low in part.lowers for high in part.uppers]
    shares = [part for part in ranges if part.members is not None]
    told_twice = [*shares, *(_of_the_rest(part, classes) for part in shares)]
    for size in range(1, MOST_SHARES + 1):
        gaps += [gap for family in combinations(told_twice, size) for gap in _family_gaps(family, classes)]
    if winners is not None:
        gaps += [gap for part in shares for gap in _winner_gaps(part, winners, classes)]
    return gaps


def _merged(ranges: Sequence[Range]) -> list[Range]:
    merged: dict[frozenset[int] | None, Range] = {}
    for part in ranges:
        known = merged.get(part.members, Range(part.members))
        merged[part.members] = Range(part.members, known.lowers + part.lowers, known.uppers + part.uppers)
    return list(merged.values())


def _between(low: Bound, high: Bound) -> Gap:
    return Bound(low.affine - high.affine, low.open or high.open)


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
