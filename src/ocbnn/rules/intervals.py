"""The set of y that a formula allows, at each of n points, as sorted, merged, disjoint intervals.

Every comparison in the formula is affine in y, slope·y + intercept compared with 0, so it changes its truth
only at its breakpoint −intercept / slope. Between sorted breakpoints, and at them, the whole formula is
constant: it is enough to look once into each of these cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ocbnn.errors import RuleError
from ocbnn.language.expressions import (
    COMPARISONS,
    And,
    Array,
    Comparison,
    Condition,
    Expression,
    Not,
    Or,
    affine_in_output,
    evaluate,
    minus,
    text,
)
from ocbnn.rules.located import unused_slots

_LARGEST = np.finfo(np.float64).max


class _Atom(NamedTuple):
    """One comparison of neighbours in a chain, slope·y + intercept ⋛ 0, at every point."""

    operator: str
    slope: Array  # (n, 1)
    intercept: Array  # (n, 1)
    breakpoint: Array  # (n, 1)

    def holds(self, y: Array) -> Array:
        # The sign of y − breakpoint is exact where slope·y + intercept would round.
        sign = np.where(
            self.slope == 0, np.sign(self.intercept), np.sign(self.slope) * np.sign(y - self.breakpoint)
        )
        return COMPARISONS[self.operator](sign, 0.0)


def allowed_intervals(formula: Condition, values: dict[str, Array], points: int) -> tuple[Array, Array]:
    """Lower and upper ends (n, K) of what the formula allows; K depends on the formula alone.

    Ends count as allowed, whether the formula includes them or not: for a continuous y it is the same.
    Unused slots are (+inf, −inf).
    """
    with np.errstate(all="ignore"):
        atoms = {pair: _atom(pair, values, points) for pair in pairs_of(formula)}
        edges = _distinct(np.concatenate([atom.breakpoint for atom in atoms.values()], axis=1))
        ends = np.full((points, 1), np.inf)
        below, above = np.hstack([-ends, edges]), np.hstack([edges, ends])
        # Cells and breakpoints alternate: (−inf, e1), e1, (e1, e2), e2, …, (eB, inf).
        lower, upper = _interleave(below, edges), _interleave(above, edges)
        inside = np.where(lower == upper, lower, lower / 2 + upper / 2)
        allowed = _truth(formula, atoms, inside)
    allowed[:, 1::2] |= allowed[:, :-1:2] & allowed[:, 2::2]
    return _runs(allowed, lower, upper, _most_intervals(formula, negated=False))


def pairs_of(formula: Condition) -> list[tuple[Expression, str, Expression]]:
    """Every comparison of two neighbours in the formula."""
    match formula:
        case Comparison():
            return list(formula.pairs())
        case And(items) | Or(items):
            return [pair for item in items for pair in pairs_of(item)]
        case Not(item):
            return pairs_of(item)
        case _:
            raise TypeError(f"{formula!r} says nothing about the target")


def _atom(pair: tuple[Expression, str, Expression], values: dict[str, Array], points: int) -> _Atom:
    left, operator, right = pair
    form = affine_in_output(minus(left, right))
    if form is None:
        raise TypeError(f"{left!r} {operator} {right!r} is not affine in the target")
    slope, intercept = (np.broadcast_to(evaluate(part, values, None), (points,)) for part in form)
    breakpoint = np.where(slope == 0, _LARGEST, np.clip(-intercept / slope, -_LARGEST, _LARGEST))
    unknown = np.isnan(slope) | np.isnan(intercept) | np.isnan(breakpoint)
    require(~unknown, values, f"`{text(left)} {operator} {text(right)}` is not a number")
    return _Atom(operator, slope[:, None], intercept[:, None], breakpoint[:, None])


def require(fine: Array, values: dict[str, Array], complaint: str) -> None:
    """Raise a `RuleError` that shows the first point that is not fine."""
    if not np.all(fine):
        first = int(np.argmin(fine))
        point = ", ".join(f"{name} = {float(array[first]):.6g}" for name, array in values.items())
        raise RuleError(
            f"{complaint} at {point or 'every point'}. "
            "Narrow the rule's condition to inputs where it is defined."
        )


def _distinct(breakpoints: Array) -> Array:
    """Sorted along each row; repeats become the largest number, beyond which nothing is looked at."""
    edges = np.sort(breakpoints, axis=1)
    again = np.pad(edges[:, 1:] == edges[:, :-1], ((0, 0), (1, 0)))
    edges[again] = _LARGEST
    return np.sort(edges, axis=1)


def _interleave(cells: Array, edges: Array) -> Array:
    result = np.empty((len(cells), cells.shape[1] + edges.shape[1]))
    result[:, ::2], result[:, 1::2] = cells, edges
    return result


def _truth(formula: Condition, atoms: dict[tuple[Expression, str, Expression], _Atom], y: Array) -> Array:
    match formula:
        case Comparison():
            return np.logical_and.reduce([atoms[pair].holds(y) for pair in formula.pairs()])
        case And(items):
            return np.logical_and.reduce([_truth(item, atoms, y) for item in items])
        case Or(items):
            return np.logical_or.reduce([_truth(item, atoms, y) for item in items])
        case Not(item):
            return ~_truth(item, atoms, y)
        case _:
            raise TypeError(f"{formula!r} says nothing about the target")


def _runs(allowed: Array, lower: Array, upper: Array, slots: int) -> tuple[Array, Array]:
    """Each run of allowed cells as one interval."""
    # Breakpoints beyond the largest number stand for infinity: nothing lies outside of them.
    allowed = allowed & (lower < _LARGEST) & (upper > -_LARGEST)
    beside = np.pad(allowed, ((0, 0), (1, 1)))
    starts, stops = allowed & ~beside[:, :-2], allowed & ~beside[:, 2:]
    lows, highs = unused_slots(len(allowed), slots)
    for source, marks, slot in ((lower, starts, lows), (upper, stops, highs)):
        rows, cells = np.nonzero(marks)
        slot[rows, np.cumsum(marks, axis=1)[rows, cells] - 1] = source[rows, cells]
    lows[lows <= -_LARGEST] = -np.inf
    highs[highs >= _LARGEST] = np.inf
    return lows, highs


def _most_intervals(formula: Condition, negated: bool) -> int:
    """How many intervals the allowed set can have at most, at any point."""
    match formula:
        case Comparison(operators=operators):
            together, counts = not negated, [1] * len(operators)
        case And(items):
            together, counts = not negated, [_most_intervals(item, negated) for item in items]
        case Or(items):
            together, counts = negated, [_most_intervals(item, negated) for item in items]
        case Not(item):
            return _most_intervals(item, not negated)
        case _:
            raise TypeError(f"{formula!r} says nothing about the target")
    return sum(counts) - (len(counts) - 1 if together else 0)
