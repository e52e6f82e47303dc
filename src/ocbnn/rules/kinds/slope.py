"""`y increases with dose`, `P(action = 1) decreases with MAP`, `y changes by at most 2 per 10 dose`.

Both compare pairs of inputs that differ in one column, at distances from 1% to 100% of the stretch of it that
lies in the region. (No derivatives: margins see values of functions alone, and in float32 differences over
tiny steps are noise. A fall within less than 1% of the stretch is seen as far as it is left after 1%.)

Of a category whose levels are declared ordered, the pairs are neighbouring levels of the region. The slack of
a trend is by steps, so a function that obeys at all of these obeys at every pair of levels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.expressions import name_text, number_text
from ocbnn.language.syntax import branches
from ocbnn.regions.lines import on_axis
from ocbnn.rules.bounding import Boxes, Case, MarginBound, Reading, at_value, joined
from ocbnn.rules.formulas import target_of
from ocbnn.rules.kinds.relations import (
    SCALE_OF_SLACK,
    SLACK,
    SMALLEST_SHARE,
    Quantity,
    Relation,
    neighbours_along,
    pairs_along,
    raw,
    read_amount,
    read_ordered,
    read_quantity,
    step_share,
)
from ocbnn.rules.requirement import Array, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.regions import Region
    from ocbnn.schema import Label, Schema, Target


class Steps(NamedTuple):
    """How far apart the two inputs are, and what the difference over the column's whole range may be."""

    quantity: Quantity
    share: Array  # (m,) of the column's range
    allowed: Array  # (m,) raw


@dataclass(frozen=True)
class _Pairs(Relation):
    """What the two kinds share: pairs along the column."""

    inputs = 2
    coordinates = 1

    def cases(self, points: Array, schema: Schema, region: Region) -> Array:
        if schema.column(self.column).levels:
            return neighbours_along(points, self.column, region, schema)
        return pairs_along(points, self.column, region, schema)

    def _bounded(
        self, boxes: Boxes, signs: tuple[float, ...], schema: Schema, units: Units
    ) -> tuple[MarginBound, Reading] | None:
        """By the Jacobian: between two inputs the quantity changes by its slope somewhere between them.

        A whole number is bounded up to the next one, as the way between them leads through both boxes.
        """
        column, index = schema.column(self.column), schema.index(self.column)
        high, same = boxes.high.copy(), np.ones(boxes.low.shape[1], dtype=bool)
        if column.kind != "continuous":
            high[:, index] = 1.0 if column.kind == "binary" else high[:, index] + 1.0
            same[index] = False
        cases = (Case(Boxes(boxes.low, high, schema), same),)
        bound = MarginBound(boxes, np.zeros((0, 1, self.outputs(schema))), cases)
        climbs = [self.climb(bound, sign, schema, units) for sign in signs]
        steepest = joined(climbs, together=True)
        return None if steepest is None else (bound, steepest)


@dataclass(frozen=True)
class Trend(_Pairs):
    """The quantity does not decrease with the column (`rises`), or does not increase with it.

    Over the column's whole range it may run against the trend by 1% of its unit, over a part of the range by
    that share.
    """

    rises: bool

    def demand(self, cases: Array, schema: Schema, units: Units) -> Steps:
        share = step_share(cases, self.column, schema)
        allowed = np.full(len(cases), SLACK * self.unit(schema))
        return Steps(self.quantity(cases, schema, units), share, allowed)

    def margin(self, demand: Steps, values: Array) -> Array:
        """The slope against the trend, over the column's range, less the slack."""
        ends = raw(demand.quantity, values)
        change = ends[..., 1] - ends[..., 0]
        return (-change if self.rises else change) / demand.share - demand.allowed

    def scale(self, demand: Steps) -> float:
        """The wall of the default term begins within the slack."""
        return SCALE_OF_SLACK * float(np.median(demand.allowed))

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound | None:
        column = schema.column(self.column)
        if column.levels:
            return self._bounded_levels(boxes, len(column.levels), schema, units)
        found = self._bounded(boxes, (-1.0 if self.rises else 1.0,), schema, units)
        if found is None:
            return None
        length = _length(on_axis(column, np.asarray(column.observed)))
        allowed = SLACK * self.unit(schema)
        return replace(found[0], margin=lambda upper: found[1](upper) * length - allowed)

    def _bounded_levels(self, boxes: Boxes, levels: int, schema: Schema, units: Units) -> MarginBound | None:
        """By the difference of every two neighbours, also of levels that the region leaves out."""
        cases = tuple(at_value(boxes, self.column, code) for code in range(levels))
        bound = MarginBound(boxes, np.zeros((0, levels, self.outputs(schema))), cases)
        steps = [(code, code + 1) if self.rises else (code + 1, code) for code in range(levels - 1)]
        steepest = joined([self.difference(bound, ends, schema, units) for ends in steps], together=True)
        if steepest is None:
            return None
        allowed = SLACK * self.unit(schema)
        return replace(bound, margin=lambda upper: steepest(upper) * (levels - 1) - allowed)

    def form(self, schema: Schema) -> Mapping[str, int] | None:
        """Columns enter by increasing functions, and P(second of two classes) rises with its logit."""
        column, labels = schema.column(self.column), target_of(schema).classes
        if column.kind == "category" or (labels and (len(labels), len(self.classes)) != (2, 1)):
            return None
        of_first = bool(labels) and self.classes[0] == labels[0]
        return {self.column: 1 if self.rises != of_first else -1}

    def differences(
        self, column: str, first: float, second: float, schema: Schema
    ) -> dict[tuple[Label, ...], tuple[float, float]]:
        if column != self.column:
            return {}
        ends = (-SLACK * self.unit(schema), np.inf)
        return {self.classes: ends if self.rises == (first > second) else (-ends[1], -ends[0])}

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        verb = "increases" if self.rises else "decreases"
        return f"{self.what(target_name, names)} {verb} with {name_text(self.column)}"


@dataclass(frozen=True)
class Limit(_Pairs):
    """The quantity changes by at most `most` over each `per` of the column."""

    most: float
    per: float = 1.0

    def demand(self, cases: Array, schema: Schema, units: Units) -> Steps:
        index = schema.index(self.column)
        length = _length(schema.column(self.column).observed)
        share = np.maximum((cases[:, 1, index] - cases[:, 0, index]) / length, SMALLEST_SHARE)
        allowed = np.full(len(cases), self.most / self.per * length)
        return Steps(self.quantity(cases, schema, units), share, allowed)

    def margin(self, demand: Steps, values: Array) -> Array:
        """The steepness, over the column's range, less what is allowed over it."""
        ends = raw(demand.quantity, values)
        change = ends[..., 1] - ends[..., 0]
        return change.__array_namespace__().abs(change) / demand.share - demand.allowed

    def scale(self, demand: Steps) -> float:
        """What is allowed over the column's range."""
        return float(np.median(demand.allowed))

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound | None:
        found = self._bounded(boxes, (-1.0, 1.0), schema, units)
        if found is None:
            return None
        column, index = schema.column(self.column), schema.index(self.column)
        low, high = boxes.low[:, index], boxes.high[:, index]
        # Model units by raw ones: 1 / scale, times the slope of the column's transform where it is steepest.
        rate = np.full(len(boxes), 1.0 / column.scale)
        if column.transform == "log":
            rate = rate / (low + column.offset)
        elif column.transform == "asinh":
            nearest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
            rate = rate / np.hypot(nearest, column.offset)
        fastest = found[0].given(rate * (1 + 1e-12))
        allowed, length = self.most / self.per, _length(column.observed)
        return replace(found[0], margin=lambda upper: length * (found[1](upper) * fastest(upper) - allowed))

    def differences(
        self, column: str, first: float, second: float, schema: Schema
    ) -> dict[tuple[Label, ...], tuple[float, float]]:
        most = self.most / self.per * abs(first - second)
        return {self.classes: (-most, most)} if column == self.column else {}

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        per = "" if self.per == 1.0 else f"{number_text(self.per)} "
        return (
            f"{self.what(target_name, names)} changes by at most {number_text(self.most)} "
            f"per {per}{name_text(self.column)}"
        )


def _length(ends: Array) -> float:
    """Of a column's range; 1 where it has a single value."""
    return float(ends[1] - ends[0]) if ends[1] > ends[0] else 1.0


def read(sentence: Sentence, tree: Branch, target: Target) -> Trend | Limit | None:
    """`… increases with …`, and `… changes by at most … per …`."""
    if tree.data not in ("trend", "limit"):
        return None
    quantity, *further = branches(tree)
    classes = read_quantity(sentence, quantity, target)
    example = sentence.text[quantity.meta.start_pos : quantity.meta.end_pos]
    column = read_ordered(sentence, further[-1], example, distances=tree.data == "limit").name
    if tree.data == "trend":
        verb = next(str(child) for child in tree.children if isinstance(child, str)).split()[0].lower()
        return Trend(classes, column, verb in ("increases", "rises", "grows"))
    per = 1.0
    for child in tree.children:
        number = child if isinstance(child, str) else child.children[0]
        if isinstance(number, str) and (number is child or child.data == "step"):  # type: ignore[union-attr]
            per = float(number)
            if not 0 < per < np.inf:
                raise sentence.error("The step after `per` has to be above 0.", child)
    return Limit(classes, column, read_amount(sentence, further[0], target, "The most it may change by"), per)
