"""From a condition to the region it describes.

A condition becomes a union of conjunctions (negations pushed inwards, `or` multiplied out), each
conjunction a box where its comparisons speak of one column, half-spaces where they are affine in several, a
predicate for the rest. The region holds exactly the coded points at which `expressions.evaluate` gives
True; its form depends on that set, not on the words (`canonical.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise, product

import numpy as np

from ocbnn.language.expressions import (
    COMPARISONS,
    NEGATED,
    Affine,
    Always,
    And,
    Arithmetic,
    Comparison,
    Condition,
    Membership,
    Not,
    OneOf,
    Or,
    affine,
    columns,
    evaluate,
)
from ocbnn.regions.canonical import canonical
from ocbnn.regions.intervals import HalfSpace, Interval
from ocbnn.regions.limits import codes_of
from ocbnn.regions.sets import Box, Pieces, Region
from ocbnn.schema import Schema

MOST_DISJUNCTS = 64
"""A condition that multiplies out to more conjunctions than this stays a predicate."""

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


Disjunction = tuple[Pieces, ...]
"""Any of these; of none, never."""


def region_of(condition: Condition, schema: Schema) -> Region:
    """The region where a condition on the columns holds."""
    found = tuple(dict.fromkeys(_disjunction(condition, schema, negated=False)))
    possible = tuple(part for part in found if not _is_impossible(part.box, schema))
    # A contradiction keeps its conditions, so that an error can say which of them cannot hold together.
    kept = possible or found[:1]
    return canonical((part.region() for part in kept), schema)


def _is_impossible(box: Box, schema: Schema) -> bool:
    """Whether some column is left without any value of its kind."""
    for name in box.columns():
        column, interval = schema.column(name), box.intervals.get(name, Interval())
        codes = codes_of(column, interval, box.levels.get(name))
        low, high = interval.closed_ends(integer=column.kind == "integer")
        if (interval.is_empty or low > high) if codes is None else not len(codes):
            return True
    return False


def _disjunction(condition: Condition, schema: Schema, *, negated: bool) -> Disjunction:
    match condition:
        case Always():
            return () if negated else (Pieces(),)
        case Not(item):
            return _disjunction(item, schema, negated=not negated)
        case Membership(column, levels):
            known = frozenset(schema.column(column).levels)
            allowed = known - frozenset(levels) if negated else frozenset(levels)
            return (Pieces(Box(levels={column: allowed})),)
        case OneOf():
            return _set(condition, schema, negated)
        case And(items) | Or(items):
            parts = [_disjunction(item, schema, negated=negated) for item in items]
            if isinstance(condition, And) != negated:
                return _all_of(parts, [Not(item) if negated else item for item in items])
            return _any_of(parts, condition, negated)
        case Comparison():
            return _comparison(condition, negated)


def _as_it_is(condition: Condition, negated: bool) -> Disjunction:
    return (Pieces(rest=(Not(condition) if negated else condition,)),)


def _any_of(parts: Iterable[Disjunction], condition: Condition, negated: bool) -> Disjunction:
    """All alternatives; where they are too many, the condition as it is."""
    together = tuple(dict.fromkeys(part for choices in parts for part in choices))
    return together if len(together) <= MOST_DISJUNCTS else _as_it_is(condition, negated)


def _all_of(parts: Sequence[Disjunction], conditions: Sequence[Condition]) -> Disjunction:
    """Multiplies out; where that is too many, items with alternatives stay conditions as they are."""
    if math.prod(len(choices) for choices in parts) > MOST_DISJUNCTS:
        parts = [
            choices if len(choices) <= 1 else (Pieces(rest=(condition,)),)
            for choices, condition in zip(parts, conditions, strict=True)
        ]
    return tuple(reduce(Pieces.joined, choice, Pieces()) for choice in product(*parts))


def _set(condition: OneOf, schema: Schema, negated: bool) -> Disjunction:
    """`k in {1, 2, 5}` leaves a column these values, its negation the gaps between them."""
    form = affine(condition.subject)
    others = [affine(element) for element in condition.elements]
    if form is not None and len(form.coefficients) == 1 and all(each and each.is_constant for each in others):
        ((name, slope),) = form.coefficients.items()
        values = {-(form.constant - each.constant) / slope + 0.0 for each in others if each is not None}
        ends = sorted(value for value in values if math.isfinite(value))
        if not negated:
            return (Pieces(Box(levels={name: frozenset(ends)})),)
        gaps = (Interval(*gap, False, False) for gap in pairwise([-math.inf, *ends, math.inf]))
        return _any_of([(Pieces(Box({name: gap})),) for gap in gaps], condition, negated)
    if len(condition.elements) > MOST_DISJUNCTS:
        return _as_it_is(condition, negated)
    equations = (Comparison((condition.subject, each), ("=",)) for each in condition.elements)
    return _disjunction(Or(tuple(equations)), schema, negated=negated)


def _comparison(condition: Comparison, negated: bool) -> Disjunction:
    if not columns(condition):
        return (Pieces(),) if bool(evaluate(condition, {}, None)) != negated else ()
    pairs = [Comparison((left, right), (sign,)) for left, sign, right in condition.pairs()]
    parts = [_pair(pair, negated) for pair in pairs]
    # A comparison with nan is False either way round, so its negation is not the comparison turned round.
    if negated and None in parts:
        return _as_it_is(condition, negated)
    known = [
        _as_it_is(pair, negated) if part is None else part for pair, part in zip(pairs, parts, strict=True)
    ]
    return _any_of(known, condition, negated) if negated else _all_of(known, pairs)


def _pair(pair: Comparison, negated: bool) -> Disjunction | None:
    """`left operator right`, or its negation, where both are affine, else None."""
    (left, right), (operator,) = pair.terms, pair.operators
    operator = NEGATED[operator] if negated else operator
    form = affine(Arithmetic("-", left, right))
    if form is None:
        return None
    if form.is_constant:  # the columns cancel out: any value of theirs will do
        zeros = dict.fromkeys(columns(pair), np.zeros(()))
        return (Pieces(),) if bool(evaluate(Comparison(pair.terms, (operator,)), zeros, None)) else ()
    return tuple(
        side
        for sign in (("<", ">") if operator == "!=" else (operator,))
        if (side := _one_side(_scaled(form), sign)) is not None
    )


def _scaled(form: Affine) -> Affine:
    """The form with coefficients that can be squared and summed: `1e308 * a` is scaled by a power of two."""
    _, exponent = math.frexp(max(map(abs, form.coefficients.values())))
    return form if abs(exponent) < 300 else form.times(2.0 ** -max(min(exponent, 1000), -1000))


def _one_side(form: Affine, operator: str) -> Pieces | None:
    """`form operator 0`, as an interval where it speaks of one column, else as half-spaces."""
    largest = max(map(abs, form.coefficients.values()))
    if math.isinf(form.constant / largest):  # no number is large enough to change the sign
        return Pieces() if COMPARISONS[operator](form.constant, 0.0) else None
    if len(form.coefficients) == 1:
        ((name, slope),) = form.coefficients.items()
        threshold = -form.constant / slope + 0.0
        return Pieces(Box({name: _interval(threshold, operator if slope > 0 else MIRRORED[operator])}))
    return Pieces(faces=tuple(_faces(form, operator)))


def _interval(threshold: float, operator: str) -> Interval:
    match operator:
        case "<" | "<=":
            return Interval(high=threshold, high_closed=operator == "<=")
        case ">" | ">=":
            return Interval(low=threshold, low_closed=operator == ">=")
        case _:
            return Interval(threshold, threshold)


def _faces(form: Affine, operator: str) -> Iterable[HalfSpace]:
    if operator in ("<", "<=", "="):
        yield HalfSpace(form.coefficients, -form.constant, strict=operator == "<")
    if operator in (">", ">=", "="):
        reversed_ = {name: -slope for name, slope in form.coefficients.items()}
        yield HalfSpace(reversed_, form.constant, strict=operator == ">")
