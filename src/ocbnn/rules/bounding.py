"""What a proof asks of a kind: over a whole box of inputs, how large can the margin be?

A kind answers with a `MarginBound`: quantities that are affine in what the network says and in the columns, and how
an upper bound of the margin follows from upper bounds of these. The proof bounds each quantity as a whole, so that a
limit which moves with x is compared with the function at the same x.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocbnn.language.enclosures import Columns, Ends, enclose, outwards
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
    from ocbnn.rules.requirement import Units
    from ocbnn.schema import Schema

Floats = np.ndarray[Any, np.dtype[np.float64]]
Array = Any  # a NumPy or a JAX array
Upper = Sequence[Array]
"""An upper bound of each quantity on every box."""
Reading = Callable[[Upper], Array]
"""From upper bounds of the quantities to an upper bound of a margin, on every box.

Of NumPy and JAX arrays alike, as terms on bounds take gradients of it. What depends on the boxes themselves
reaches it as a quantity too (`given`), so that it is the same function on other boxes.
"""


@dataclass(frozen=True)
class Boxes:
    """Boxes of coded inputs; a category's codes are those between its ends."""

    low: Floats  # (B, Q)
    high: Floats
    schema: Schema
    whole: tuple[Floats, Floats] | None = None  # ends (Q,) of the whole region

    def __len__(self) -> int:
        return len(self.low)

    @property
    def columns(self) -> Columns:
        """The ends of every column, by name."""
        return {name: (self.low[:, i], self.high[:, i]) for i, name in enumerate(self.schema.names)}


class Case(NamedTuple):
    """One input of a case, over each box of cases.

    Attributes:
        boxes: where it lies.
        same: which of its columns have the value that they have in the box of the case itself, so that
            inputs can be compared value by value.
    """

    boxes: Boxes
    same: np.ndarray  # (Q,) bool


class Quantity(NamedTuple):
    """factor · (a row of what the network says) + slopes · x + constant.

    Attributes:
        row: which of the bound's rows.
        factor: on every box (B,).
        slopes: of the coded columns (B, Q).
        constant: (B,).
        gap: by how much the constant may be larger than it had to be, as a limit is known as an interval.
        derivative: of the row by this column, in model units of both, instead of the row itself; the row is
            about one input, and slopes are 0.
        exact: whether it is the constant alone, which needs no allowance for rounding.
        drifts: how many roundings of an output are to be added to a derivative, as margins are made of
            differences of outputs that are divided by a step.
    """

    row: int
    factor: Floats
    slopes: Floats
    constant: Floats
    gap: Floats
    derivative: int | None = None
    exact: bool = False
    drifts: float = 0.0


@dataclass
class MarginBound:
    """How large a margin can be on each of some boxes.

    Attributes:
        boxes: the boxes.
        rows: of what the network says at the k inputs of a case, (R, k, C): y in model units, or one logit
            for each class.
        cases: the inputs of a case where they are not the box itself.
        quantities: what has to be bounded.
        margin: the bound of the margin.
    """

    boxes: Boxes
    rows: Floats
    cases: tuple[Case, ...] = ()
    quantities: list[Quantity] = field(default_factory=list)
    margin: Reading = lambda upper: np.full_like(upper[0], np.inf)  # nothing is known

    def reading(
        self, row: int, factor: float | Floats, limit: Expression | Ends | None = None, scale: float = 1.0
    ) -> Reading:
        """The upper bound of a new quantity, factor · row + scale · limit."""
        shape = len(self.boxes)
        slopes, constant, gap = np.zeros_like(self.boxes.low), np.zeros(shape), np.zeros(shape)
        form = None if limit is None or isinstance(limit, tuple) else affine(limit)
        if form is not None:
            constant = np.full(shape, scale * form.constant)
            for name, slope in form.coefficients.items():
                slopes[:, self.boxes.schema.index(name)] = scale * slope
        elif limit is not None:
            low, high = limit if isinstance(limit, tuple) else enclose(limit, self.boxes.columns)
            ends = [np.broadcast_to(scale * end, (shape,)) for end in (low, high)]
            _, constant = outwards(np.minimum(*ends), np.maximum(*ends))
            gap = np.abs(ends[1] - ends[0])
        self.quantities.append(
            Quantity(row, np.broadcast_to(np.asarray(factor, float), (shape,)), slopes, constant, gap)
        )
        place = len(self.quantities) - 1
        return lambda upper: upper[place]

    def given(self, values: float | Floats) -> Reading:
        """A number that is known on every box, from above."""
        row = 0 if len(self.rows) else self.row(np.zeros(self.rows.shape[1:]))
        known = np.broadcast_to(np.asarray(values, float), (len(self.boxes),))
        reading = self.reading(row, 0.0)
        self.quantities[-1] = self.quantities[-1]._replace(constant=known, exact=True)
        return reading

    def row(self, weights: Floats) -> int:
        """A further row, with its weights (k, C)."""
        self.rows = np.concatenate([self.rows, weights[None]])
        return len(self.rows) - 1

    def steepness(self, row: int, factor: float, column: str, drifts: float = 0.0) -> Reading:
        """The upper bound of factor · ∂row/∂column, and so of differences along the column, by their length.

        In model units. Any two points of the region between which the column alone changes are joined by
        points of the region, or this says nothing of them.
        """
        reading = self.reading(row, factor)
        place = self.boxes.schema.index(column)
        self.quantities[-1] = self.quantities[-1]._replace(derivative=place, drifts=drifts)
        return reading


def share_readings(
    bound: MarginBound, classes: Sequence[int], place: int = 0
) -> tuple[Reading, Reading] | None:
    """The least and the largest log-odds of some classes at one input of a case.

    From differences of logits: log-odds = −log Σ_others 1 / Σ_members exp(member − other). None where there
    are no classes, or all of them.
    """
    inputs, known = bound.rows.shape[1:]
    others = [index for index in range(known) if index not in classes]
    pairs = []
    for other in others:
        for member in classes:
            weights = np.zeros((inputs, known))
            weights[place, [member, other]] = 1.0, -1.0
            row = bound.row(weights)
            pairs.append((bound.reading(row, -1.0), bound.reading(row, 1.0)))
    if not pairs:
        return None

    def odds(upper: Upper, end: int) -> Array:
        sign = (-1.0, 1.0)[end]
        ahead = [sign * pair[end](upper) for pair in pairs]
        step = len(classes)
        return -_log_total([-_log_total(ahead[i : i + step]) for i in range(0, len(ahead), step)])

    return partial(odds, end=0), partial(odds, end=1)


def _log_total(logs: Sequence[Array]) -> Array:
    """The log of Σ exp, without overflow."""
    if len(logs) == 1:
        return logs[0]
    xp = logs[0].__array_namespace__()
    most = xp.clip(reduce(xp.maximum, logs), -1e30, 1e30)
    with np.errstate(over="ignore", divide="ignore"):
        return most + xp.log(sum(xp.exp(each - most) for each in logs))


def share(odds: Array) -> Array:
    """The probability of log-odds."""
    return 0.5 * (1.0 + odds.__array_namespace__().tanh(0.5 * odds))


Atom = Callable[[Expression, str, Expression], Reading | None]


def formula_reading(formula: Condition, atom: Atom, *, negated: bool = False) -> Reading | None:
    """The margin of a formula from those of its comparisons; None where one of them has none.

    `atom` is given comparisons that have to hold: those below a `not` are turned round.
    """
    match formula:
        case Not(item):
            return formula_reading(item, atom, negated=not negated)
        case Comparison():
            parts = [
                atom(left, NEGATED[sign] if negated else sign, right) for left, sign, right in formula.pairs()
            ]
            together = not negated
        case And(items) | Or(items):
            parts = [formula_reading(item, atom, negated=negated) for item in items]
            together = isinstance(formula, And) != negated
        case _:
            return None
    return joined(parts, together=together)


def shifted(reading: Reading | None, amount: float) -> Reading | None:
    """A margin with an amount added."""
    return None if reading is None else lambda upper: reading(upper) + amount


def at_value(boxes: Boxes, name: str, value: float) -> Case:
    """The boxes with one column at one value."""
    return between(boxes, name, value, value)


def between(boxes: Boxes, name: str, first: float | Floats, last: float | Floats) -> Case:
    """The boxes with one column between other ends, whatever it is in the box."""
    index = boxes.schema.index(name)
    low, high, same = boxes.low.copy(), boxes.high.copy(), np.ones(boxes.low.shape[1], dtype=bool)
    low[:, index], high[:, index] = first, last
    same[index] = False
    return Case(Boxes(low, high, boxes.schema), same)


def joined(parts: Sequence[Reading | None], *, together: bool) -> Reading | None:
    """The margin of several: the largest where all have to hold, the smallest where one is enough."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None

    def fold(first: Array, second: Array) -> Array:
        xp = first.__array_namespace__()
        return xp.maximum(first, second) if together else xp.minimum(first, second)

    return lambda upper: reduce(fold, [part(upper) for part in known])


def compared(
    bound: MarginBound, row: int, units: Units, left: Expression, sign: str, right: Expression
) -> Reading | None:
    """The margin of a comparison that is affine in the row's output, y, in the given units.

    slope(x)·y + intercept(x) <= 0, with a slope between two numbers on a box, holds wherever it holds for
    both: it is affine in the slope.
    """
    form = None if sign in ("=", "!=") else affine_in_output(minus(left, right))
    if form is None:
        return None
    slope, intercept = form
    turn = 1.0 if sign in ("<", "<=") else -1.0
    number = affine(slope)
    constant = number.constant if number is not None and number.is_constant else None
    if constant == 0:
        return None
    if units.log:
        return None if constant is None else _compared_logs(bound, row, units, constant, intercept, turn)
    if constant is not None:
        side = turn if constant > 0 else -turn
        scale = turn / abs(constant) / units.scale
        shifted = _shifted(bound, row, side, intercept, scale, side * units.center / units.scale)
        return shifted
    ends = enclose(slope, bound.boxes.columns)
    # In units of y at the steepest slope: only the sign matters.
    parts: list[Reading | None] = [
        _shifted(
            bound, row, turn * end, intercept, turn / units.scale, turn * end * units.center / units.scale
        )
        for end in (np.broadcast_to(each, (len(bound.boxes),)) for each in ends)
    ]
    return joined(parts, together=True)


def _shifted(
    bound: MarginBound,
    row: int,
    factor: float | Floats,
    limit: Expression,
    scale: float,
    shift: float | Floats,
) -> Reading:
    reading = bound.reading(row, factor, limit, scale)
    last = bound.quantities[-1]
    bound.quantities[-1] = last._replace(constant=last.constant + shift)
    return reading


def _compared_logs(
    bound: MarginBound, row: int, units: Units, slope: float, intercept: Expression, turn: float
) -> Reading:
    """The comparison of logarithms; no y is at most a limit that is not above 0."""
    low, high = enclose(intercept, bound.boxes.columns)
    first, last = outwards(np.minimum(-low / slope, -high / slope), np.maximum(-low / slope, -high / slope))
    side = turn if slope > 0 else -turn
    ends = units.of(np.broadcast_to(first if side > 0 else last, (len(bound.boxes),)))
    other = units.of(np.broadcast_to(last if side > 0 else first, (len(bound.boxes),)))
    reading = bound.reading(row, side, (-side * ends, -side * ends))
    with np.errstate(invalid="ignore"):
        gap = np.nan_to_num(np.abs(other - ends), nan=0.0, posinf=0.0)
    bound.quantities[-1] = bound.quantities[-1]._replace(gap=gap)
    return reading


def together(parts: Sequence[MarginBound]) -> MarginBound:
    """The bound of several margins at once: the largest of them."""
    boxes = parts[0].boxes
    whole = Case(boxes, np.ones(boxes.low.shape[1], dtype=bool))
    cases = [part.cases or (whole,) for part in parts]
    rows, quantities, margins = list[Floats](), list[Quantity](), list[Reading]()
    for number, part in enumerate(parts):
        before = sum(len(each) for each in cases[:number])
        after = sum(len(each) for each in cases[number + 1 :])
        first, start = sum(len(each) for each in rows), len(quantities)
        rows.append(np.pad(part.rows, ((0, 0), (before, after), (0, 0))))
        quantities += [each._replace(row=each.row + first) for each in part.quantities]
        stop, margin = len(quantities), part.margin
        margins.append(lambda upper, m=margin, a=start, b=stop: m(upper[a:b]))  # type: ignore[misc]
    found = MarginBound(
        boxes, np.concatenate(rows), tuple(case for each in cases for case in each), quantities
    )
    largest = joined(margins, together=True)
    assert largest is not None
    found.margin = largest
    return found
