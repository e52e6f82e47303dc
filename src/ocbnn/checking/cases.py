"""A rule at fresh points: what all checks share."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ocbnn.checking.draws import Drawn
from ocbnn.checking.figures import CONFIDENCE, require_confidence
from ocbnn.errors import OCBNNError
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.outputs import block_rows
from ocbnn.rules.margins import Placed, by_case, margins, placed
from ocbnn.schema import Schema

POINTS = 1000


@dataclass(frozen=True)
class CheckOptions:
    """How a check is made.

    Attributes:
        points: fresh points of each rule's region.
        key: seed of the points and of the ascent.
        ascent: look for the worst point by ascent too, and not by sampling alone.
        by: a column by whose values, or quarters of its range, figures are given too.
        confidence: of the intervals.
        purpose: whose points these are: other purposes see other points, whatever their seeds.
    """

    points: int = POINTS
    key: int = 0
    ascent: bool = True
    by: str | None = None
    confidence: float = CONFIDENCE
    purpose: str = "fresh points"

    def __post_init__(self) -> None:
        require_confidence(self.confidence)
        require_points(self.points, self.key)


def require_points(points: int, key: int) -> None:
    """Refuse a number of points below 1, or a seed below 0, or either that is not a whole number."""
    if not is_whole(points) or points < 1:
        raise OCBNNError(f"points is a whole number, at least one point; got {points!r}.")
    if not is_whole(key) or key < 0:
        raise OCBNNError(f"key is the seed of the points, a whole number from 0 on; got {key!r}.")


def is_whole(number: object) -> bool:
    """Whether it is a whole number, of Python or NumPy; True and False are none."""
    return isinstance(number, numbers.Integral) and not isinstance(number, bool)


def rule_name(term: RuleTerm) -> str:
    """What people call it, or its text."""
    return term.rule.name or term.rule.text(term.schema)


def case_blocks(
    drawn: Drawn,
    draws: Float[np.ndarray, "S size"],
    term: RuleTerm,
    points: Float[np.ndarray, "points Q"],
) -> Iterator[tuple[Placed, np.ndarray]]:
    """A rule at some of the points at a time, with what the draws say at the inputs of its cases, raw."""
    for some in _point_blocks(drawn, len(draws), term, points):
        at = placed(term.rule, term.schema, some)
        yield at, drawn.values(at.inputs, draws)


def margins_at(
    drawn: Drawn,
    draws: Float[np.ndarray, "S size"],
    term: RuleTerm,
    points: Float[np.ndarray, "points Q"],
) -> Float[np.ndarray, "S cases"]:
    """By how much each draw violates a rule at the cases of these points, raw; above 0 violates."""
    parts = [
        finite(margins(term.rule, term.schema, some, lambda coded: drawn.values(coded, draws)))
        for some in _point_blocks(drawn, len(draws), term, points)
    ]
    return np.concatenate(parts, axis=1)


def _point_blocks(
    drawn: Drawn, draws: int, term: RuleTerm, points: Float[np.ndarray, "points Q"]
) -> Iterator[Float[np.ndarray, "some Q"]]:
    """Points a few at a time, so that little is held; a population as a whole."""
    inputs = term.rule.requirement.inputs
    step = max(len(points), 1) if inputs is None else max(block_rows(drawn.model, draws) // inputs, 1)
    for begin in range(0, len(points), step):
        yield points[begin : begin + step]


def shaped(drawn: Drawn, term: RuleTerm, values: np.ndarray, at: Placed) -> np.ndarray:
    """Values at the inputs of cases, case by case."""
    return np.asarray(by_case(term.rule, values, at.cases, bool(drawn.classes)))


def finite(margin: object) -> np.ndarray:
    """Margins; an output that is not a number violates every rule."""
    values = np.asarray(margin)
    return np.where(np.isnan(values), np.inf, values)


def raw_point(schema: Schema, point: Float[np.ndarray, " Q"]) -> dict[str, object]:
    """A point in raw units, by column."""
    row = schema.decode(point[None, : len(schema.columns)]).iloc[0]
    return {str(name): value for name, value in row.to_dict().items()}


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
