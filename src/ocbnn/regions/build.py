"""From a condition to the region it describes.

A condition becomes a union of conjunctions (negations pushed inwards, `or` multiplied out), each
conjunction a box where its comparisons speak of one column, half-spaces where they are affine in several, a
predicate for the rest. The region holds exactly the coded points at which `expressions.evaluate` gives
True.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from ocbnn.language.expressions import (
    Affine,
    Always,
    And,
    Arithmetic,
    Comparison,
    Condition,
    Expression,
    Membership,
    Not,
    Or,
    affine,
    columns,
    evaluate,
)
from ocbnn.regions.intervals import HalfSpace, Interval
from ocbnn.regions.sets import Box, Everywhere, HalfSpaces, Predicate, Region, Union
from ocbnn.schema import Schema

MOST_DISJUNCTS = 64
"""A condition that multiplies out to more conjunctions than this stays a predicate."""

NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "="}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True)
class Conjunction:
    """What has to hold at once: a box, half-spaces, and conditions that are neither."""

    box: Box = field(default_factory=Box)
    faces: tuple[HalfSpace, ...] = ()
    rest: tuple[Condition, ...] = ()

    def joined(self, other: Conjunction) -> Conjunction:
        return Conjunction(
            self.box.intersect(other.box),
            tuple(dict.fromkeys(self.faces + other.faces)),
            tuple(dict.fromkeys(self.rest + other.rest)),
        )

    def region(self) -> Region:
        if self.rest:
            return Predicate(self.box, self.faces, self.rest[0] if len(self.rest) == 1 else And(self.rest))
        if self.faces:
            return HalfSpaces(self.box, self.faces)
        return self.box if self.box.columns() else Everywhere()

    def is_impossible(self, schema: Schema) -> bool:
        """Whether some column is left without any value of its kind."""
        return any(not labels for labels in self.box.levels.values()) or any(
            _holds_nothing(interval, schema.column(name).kind)
            for name, interval in self.box.intervals.items()
        )


Disjunction = tuple[Conjunction, ...]
"""Any of these; of none, never."""


def region_of(condition: Condition, schema: Schema) -> Region:
    """The region where a condition on the columns holds."""
    found = tuple(dict.fromkeys(_disjunction(condition, schema, negated=False)))
    possible = tuple(part for part in found if not part.is_impossible(schema))
    # A contradiction keeps its conditions, so that an error can say which of them cannot hold together.
    kept = possible or found[:1]
    regions = tuple(dict.fromkeys(part.region() for part in kept))
    if Everywhere() in regions:
        return Everywhere()
    return regions[0] if len(regions) == 1 else Union(regions)


def _holds_nothing(interval: Interval, kind: str) -> bool:
    if interval.is_empty:
        return True
    if kind == "binary":
        interval = interval.intersect(Interval(0, 1))
    if kind == "continuous":
        return False
    low, high = interval.closed_ends(integer=True)
    return low > high


def _disjunction(condition: Condition, schema: Schema, *, negated: bool) -> Disjunction:
    match condition:
        case Always():
            return () if negated else (Conjunction(),)
        case Not(item):
            return _disjunction(item, schema, negated=not negated)
        case Membership(column, levels):
            known = frozenset(schema.column(column).levels)
            allowed = known - frozenset(levels) if negated else frozenset(levels)
            return (Conjunction(Box(levels={column: allowed})),)
        case And(items) | Or(items):
            parts = [_disjunction(item, schema, negated=negated) for item in items]
            if isinstance(condition, And) != negated:
                return _all_of(parts, [Not(item) if negated else item for item in items])
            together = tuple(part for choices in parts for part in choices)
            return together if len(together) <= MOST_DISJUNCTS else _as_it_is(condition, negated)
        case Comparison():
            return _comparison(condition, negated)


def _as_it_is(condition: Condition, negated: bool) -> Disjunction:
    return (Conjunction(rest=(Not(condition) if negated else condition,)),)


def _all_of(parts: Sequence[Disjunction], conditions: Sequence[Condition]) -> Disjunction:
    """Multiplies out; where that is too many, items with alternatives stay conditions as they are."""
    if math.prod(len(choices) for choices in parts) > MOST_DISJUNCTS:
        parts = [
            choices if len(choices) <= 1 else (Conjunction(rest=(condition,)),)
            for choices, condition in zip(parts, conditions, strict=True)
        ]
    return reduce(_product, parts, (Conjunction(),))


def _product(left: Disjunction, right: Disjunction) -> Disjunction:
    return tuple(first.joined(second) for first in left for second in right)


def _comparison(condition: Comparison, negated: bool) -> Disjunction:
    if not columns(condition):
        return (Conjunction(),) if bool(evaluate(condition, {}, None)) != negated else ()
    parts = [_pair(left, NEGATED[op] if negated else op, right) for left, op, right in condition.pairs()]
    # A comparison with nan is False either way round, so its negation is not the comparison turned round.
    if negated and any(part is None for part in parts):
        return _as_it_is(condition, negated)
    if negated:
        return tuple(choice for part in parts if part is not None for choice in part)
    known = [
        _as_it_is(Comparison((left, right), (op,)), False) if part is None else part
        for part, (left, op, right) in zip(parts, condition.pairs(), strict=True)
    ]
    return reduce(_product, known, (Conjunction(),))


def _pair(left: Expression, operator: str, right: Expression) -> Disjunction | None:
    """`left operator right` where both are affine, else None."""
    form = affine(Arithmetic("-", left, right))
    if form is None:
        return None
    if not form.coefficients:
        difference = Comparison((left, right), (operator,))
        zeros = dict.fromkeys(
            columns(difference), np.zeros(())
        )  # the columns cancel out: any value of theirs will do
        return (Conjunction(),) if bool(evaluate(difference, zeros, None)) else ()
    return tuple(_one_side(form, side) for side in (("<", ">") if operator == "!=" else (operator,)))


def _one_side(form: Affine, operator: str) -> Conjunction:
    """`form operator 0`, as an interval where it speaks of one column, else as half-spaces."""
    if len(form.coefficients) == 1:
        ((name, slope),) = form.coefficients.items()
        threshold = -form.constant / slope + 0.0
        if math.isfinite(threshold):
            return Conjunction(
                Box({name: _interval(threshold, operator if slope > 0 else MIRRORED[operator])})
            )
    return Conjunction(faces=tuple(_faces(form, operator)))


def _interval(threshold: float, operator: str) -> Interval:
    match operator:
        case "<" | "<=":
            return Interval(high=threshold, high_closed=operator == "<=")
        case ">" | ">=":
            return Interval(low=threshold, low_closed=operator == ">=")
        case _:
            return Interval(threshold, threshold)


def _faces(form: Affine, operator: str) -> Iterable[HalfSpace]:
    below = HalfSpace(form.coefficients, -form.constant, strict=operator == "<")
    if operator in ("<", "<=", "="):
        yield below
    if operator in (">", ">=", "="):
        above = HalfSpace({name: -slope for name, slope in form.coefficients.items()}, form.constant)
        yield HalfSpace(above.coefficients, above.bound, strict=operator == ">")
