"""Expressions and conditions over whole boxes: intervals that hold every value, rounded outwards.

    low, high = enclose(expression, {"x": (lows, highs)})     # one interval for each box
    surely, never = decided(condition, {"x": (lows, highs)})  # holds at every point, holds at none

An operation that is not defined somewhere in a box gives the endless interval: nothing is known there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ocbnn.language.expressions import (
    FUNCTIONS,
    Always,
    And,
    Arithmetic,
    Call,
    ColumnRef,
    Comparison,
    Condition,
    Expression,
    Membership,
    Negate,
    Not,
    Number,
    OneOf,
    Or,
)

if TYPE_CHECKING:
    from ocbnn.schema import Schema

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ends = tuple[Floats, Floats]
"""The least and the largest value on each box."""
Columns = Mapping[str, Ends]
ROUNDING = 8 * 2.0**-53
"""NumPy's functions are within four units of the last place; twice that is added outwards."""
LARGEST_ANGLE = 1e8
"""Beyond it sine and cosine are bounded by −1 and 1 alone."""


def enclose(node: Expression, columns: Columns) -> Ends:
    """An interval that holds every value of the expression on each box, as NumPy computes it or exactly."""
    with np.errstate(all="ignore"):
        return _enclose(node, columns)


def _enclose(node: Expression, columns: Columns) -> Ends:
    match node:
        case Number(value):
            return np.float64(value), np.float64(value)  # type: ignore[return-value]
        case ColumnRef(name):
            return columns[name]
        case Negate(operand):
            low, high = _enclose(operand, columns)
            return -high, -low
        case Arithmetic(operator, left, right):
            return _arithmetic(operator, _enclose(left, columns), _enclose(right, columns), right)
        case Call(function, arguments):
            values = [_enclose(each, columns) for each in arguments]
            if function in ("min", "max"):
                fold = np.minimum if function == "min" else np.maximum
                return tuple(reduce(fold, ends) for ends in zip(*values, strict=True))
            return _function(function, *values[0])
    raise ValueError("the expression speaks of the target, which has no interval here")


def outwards(low: Any, high: Any, rounding: float = ROUNDING) -> Ends:
    """Ends that rounding cannot have moved in; what is not a number becomes endless."""
    low = np.nextafter(low - rounding * np.abs(low), -np.inf)
    high = np.nextafter(high + rounding * np.abs(high), np.inf)
    unknown = np.isnan(low) | np.isnan(high)
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def _arithmetic(operator: str, left: Ends, right: Ends, exponent: Expression) -> Ends:
    (a, b), (c, d) = left, right
    match operator:
        case "+":
            return outwards(a + c, b + d)
        case "-":
            return outwards(a - d, b - c)
        case "*":
            return outwards(*_extremes(a * c, a * d, b * c, b * d))
        case "/":
            low, high = _extremes(a / c, a / d, b / c, b / d)
            low, high = outwards(low, high)
            through_zero = (c <= 0) & (d >= 0)
            return np.where(through_zero, -np.inf, low), np.where(through_zero, np.inf, high)
    if isinstance(exponent, Number) and exponent.value == round(exponent.value):
        low, high = _extremes(a**exponent.value, b**exponent.value)
        if exponent.value % 2 == 0:
            low = np.where((a <= 0) & (b >= 0), np.minimum(low, 0.0), low)
        if exponent.value < 0:
            inside = (a <= 0) & (b >= 0)
            low, high = np.where(inside, -np.inf, low), np.where(inside, np.inf, high)
        return outwards(low, high)
    # a^c is monotone in each argument for a > 0, so that its extremes are at corners.
    low, high = _extremes(a**c, a**d, b**c, b**d)
    fine = (a > 0) | ((a == 0) & (c > 0))
    low, high = outwards(low, high)
    return np.where(fine, low, -np.inf), np.where(fine, high, np.inf)


def _extremes(*values: Any) -> Ends:
    return reduce(np.minimum, values), reduce(np.maximum, values)


def _function(name: str, low: Any, high: Any) -> Ends:
    function = FUNCTIONS[name]
    if name in ("exp", "log", "sqrt"):
        least, most = outwards(function(low), function(high))
        if name != "log":  # none of these is below 0
            least = np.maximum(least, 0.0)
        defined = np.isfinite(low) if name == "exp" else low > 0 if name == "log" else low >= 0
        defined = defined | (name == "exp")
        return np.where(defined, least, -np.inf), np.where(defined, most, np.inf)
    if name == "abs":
        through = (low <= 0) & (high >= 0)
        least, most = _extremes(np.abs(low), np.abs(high))
        return np.where(through, 0.0, least), most
    if name == "tan":
        # Between two of its poles it rises; half of the box's width tells whether there is one.
        count_low, count_high = (np.floor(end / np.pi + 0.5) for end in outwards(low, high))
        rises = (count_low == count_high) & (np.abs(low) < LARGEST_ANGLE) & (np.abs(high) < LARGEST_ANGLE)
        near = np.minimum(np.abs(np.cos(low)), np.abs(np.cos(high))) > 1e-6  # else rounding is amplified
        least, most = outwards(function(low), function(high), 1e-9)
        return np.where(rises & near, least, -np.inf), np.where(rises & near, most, np.inf)
    return _wave(function, 0.0 if name == "cos" else np.pi / 2, low, high)


def _wave(function: Any, peak: float, low: Any, high: Any) -> Ends:
    """Cosine or sine: 1 at `peak` and every 2π from it, −1 half-way between."""
    slack = ROUNDING * (1.0 + np.maximum(np.abs(low), np.abs(high)))
    first, last = low - slack, high + slack
    least, most = _extremes(function(low), function(high))
    least, most = least - slack, most + slack

    def reaches(place: float) -> Any:
        return np.floor((last - place) / (2 * np.pi)) >= np.ceil((first - place) / (2 * np.pi))

    wide = (np.abs(low) > LARGEST_ANGLE) | (np.abs(high) > LARGEST_ANGLE) | (last - first >= 2 * np.pi)
    most = np.where(wide | reaches(peak) | np.isnan(most), 1.0, np.minimum(most, 1.0))
    least = np.where(wide | reaches(peak + np.pi) | np.isnan(least), -1.0, np.maximum(least, -1.0))
    return least, most


# Conditions -------------------------------------------------------------------------------------------------


def decided(condition: Condition, columns: Columns, schema: Schema) -> tuple[Any, Any]:
    """On which boxes a condition holds at every point, and on which it holds at none.

    A box of codes of a category holds all levels between its ends.
    """
    with np.errstate(all="ignore"):
        return _decided(condition, columns, schema)


def _decided(condition: Condition, columns: Columns, schema: Schema) -> tuple[Any, Any]:
    match condition:
        case Always():
            return np.True_, np.False_
        case Not(item):
            surely, never = _decided(item, columns, schema)
            return never, surely
        case And(items) | Or(items):
            parts = [_decided(item, columns, schema) for item in items]
            surely, never = zip(*parts, strict=True)
            if isinstance(condition, And):
                return reduce(np.logical_and, surely), reduce(np.logical_or, never)
            return reduce(np.logical_or, surely), reduce(np.logical_and, never)
        case Comparison():
            parts = [_compared(left, sign, right, columns) for left, sign, right in condition.pairs()]
            surely, never = zip(*parts, strict=True)
            return reduce(np.logical_and, surely), reduce(np.logical_or, never)
        case Membership(column, levels):
            known = schema.column(column).levels
            codes = [known.index(level) for level in levels]
            low, high = columns[column]
            inside = sum(((low <= code) & (high >= code)).astype(int) for code in codes)
            return inside == high - low + 1, inside == 0
        case OneOf(subject, elements):
            parts = [_compared(subject, "=", each, columns) for each in elements]
            surely, never = zip(*parts, strict=True)
            return reduce(np.logical_or, surely), reduce(np.logical_and, never)


def _compared(left: Expression, sign: str, right: Expression, columns: Columns) -> tuple[Any, Any]:
    """`left sign right`; where a side may not be a number nothing is certain."""
    (a, b), (c, d) = _enclose(left, columns), _enclose(right, columns)
    known = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & np.isfinite(d)
    match sign:
        case "<" | "<=":
            surely, never = (b < c, a >= d) if sign == "<" else (b <= c, a > d)
        case ">" | ">=":
            surely, never = (a > d, b <= c) if sign == ">" else (a >= d, b < c)
        case _:
            same, apart = (a == b) & (c == d) & (a == c), (b < c) | (a > d)
            surely, never = (same, apart) if sign == "=" else (apart, same)
    return surely & known, never & known
