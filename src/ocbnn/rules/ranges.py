"""What a rule asks at any x, as ranges whose ends are affine in x: what exact lint reasons about.

An affine function of the coded columns is an array (coefficients…, constant). `Ranges` are a union of
clauses; a clause holds ranges for y, or for the total probability of sets of classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ocbnn.language.expressions import (
    NEGATED,
    And,
    Comparison,
    Condition,
    Expression,
    Not,
    Or,
    affine,
    affine_in_output,
    minus,
)

if TYPE_CHECKING:
    from ocbnn.schema import Label, Schema

Floats = np.ndarray[Any, np.dtype[np.float64]]
LARGEST = 1e150
"""Sums and products of larger numbers overflow; a rule that has them is judged at points."""
MOST_CLAUSES = 32
"""A rule with more alternatives than this is judged at points."""


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
    """lowers ≤ quantity ≤ uppers. The quantity is y, or the total probability of some classes."""

    members: frozenset[int] | None
    lowers: tuple[Bound, ...] = ()
    uppers: tuple[Bound, ...] = ()


Clause = tuple[Range, ...]


@dataclass(frozen=True, eq=False)
class Ranges:
    """A union of clauses and, for class rules, the classes among which the most probable one must be.

    Attributes:
        clauses: the alternatives; all ranges of one hold together.
        winners: the most probable class is one of these.
        widened: the ranges are a target plus or minus the tolerance that the user accepts.
        pulls: the rule also pulls to the middle of its ranges, which no range does.
    """

    clauses: tuple[Clause, ...] = ((),)
    winners: frozenset[int] | None = None
    widened: bool = False
    pulls: bool = False


def constant(value: float, size: int) -> Floats:
    """An affine function of `size` columns that is the same everywhere."""
    return np.concatenate([np.zeros(size), [value]])


def class_indices(labels: Iterable[Label], schema: Schema) -> frozenset[int]:
    """The positions of these labels among the schema's classes."""
    assert schema.target is not None
    return frozenset(schema.target.classes.index(label) for label in labels)


def formula_ranges(formula: Condition, members: frozenset[int] | None, schema: Schema) -> Ranges | None:
    """The ranges of a formula about y, or about the total probability of some classes."""
    clauses = _clauses(formula, False, schema)
    if clauses is None or len(clauses) > MOST_CLAUSES:
        return None
    return Ranges(tuple((_range(members, lowers, uppers, schema),) for lowers, uppers in clauses))


def around(
    schema: Schema,
    alternatives: Sequence[Sequence[tuple[frozenset[int] | None, Expression]]],
    margin: float,
    *,
    widened: bool = False,
    pulls: bool = False,
) -> Ranges | None:
    """Ranges of this margin around values; None where one of them is not affine in x."""
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
    return Ranges(tuple(clauses), widened=widened, pulls=pulls)


def _range(
    members: frozenset[int] | None, lowers: Iterable[Bound], uppers: Iterable[Bound], schema: Schema
) -> Range:
    if members is None:
        return Range(None, tuple(lowers), tuple(uppers))
    return probability_range(members, lowers, uppers, len(schema.target.classes) if schema.target else 0)


def probability_range(
    members: frozenset[int], lowers: Iterable[Bound], uppers: Iterable[Bound], classes: int
) -> Range:
    """P(a) ≥ 0.3 and P(not a) ≤ 0.7 are one statement: both are told of the set without the first class."""
    told = Range(members, tuple(lowers), tuple(uppers))
    return of_the_rest(told, classes) if 0 in members else told


def of_the_rest(part: Range, classes: int) -> Range:
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
    return vector if np.abs(vector).max() < LARGEST else None


Sides = tuple[tuple[Bound, ...], tuple[Bound, ...]]


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
    if not np.abs(end).max() < LARGEST:
        return None
    if operator in ("=", "!="):
        closed, opened = Bound(end), Bound(end, open=True)
        return [((closed,), (closed,))] if operator == "=" else [((), (opened,)), ((opened,), ())]
    bound = Bound(end, open=len(operator) == 1)
    above = (operator[0] == ">") == (slope.constant > 0)
    return [((bound,), ())] if above else [((), (bound,))]
