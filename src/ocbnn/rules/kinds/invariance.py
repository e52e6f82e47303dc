"""`y does not depend on race`, `P(hired = 1) does not depend on age by more than 0.01`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.expressions import name_text, number_text
from ocbnn.language.syntax import branches
from ocbnn.regions.lines import moved, off_axis, on_axis, stretch
from ocbnn.rules.bounding import Boxes, Case, MarginBound, at_value, between, joined, shifted
from ocbnn.rules.kinds.relations import (
    SCALE_OF_SLACK,
    SLACK,
    Quantity,
    Relation,
    raw,
    read_amount,
    read_column,
    read_quantity,
)
from ocbnn.rules.margins import largest, smallest
from ocbnn.rules.requirement import Array, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.regions import Region
    from ocbnn.schema import Label, Schema, Target

NUMBERS = 4
"""Values of a number that are compared at once: the point's own, and three more anywhere in the region."""


STRETCHES = 8
"""Of a number's range in the region: a value is compared with each of them, where differences are bounded."""


class Spread(NamedTuple):
    """The largest answer less the smallest one is at most this."""

    quantity: Quantity
    allowed: Array  # (m,) raw


@dataclass(frozen=True)
class Invariance(Relation):
    """The quantity is the same whatever the column is, all else equal.

    Attributes:
        levels: how many levels the column has, all of which are compared; 0 for numbers.
        most: the largest difference that is accepted, raw; default: 1% of the unit.
    """

    levels: int
    most: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", self.levels or NUMBERS)
        object.__setattr__(self, "coordinates", 0 if self.levels else NUMBERS - 1)

    def cases(self, points: Array, schema: Schema, region: Region) -> Array:
        inputs, column = points[:, : len(schema.columns)], schema.column(self.column)
        if self.levels:
            # A level outside of the region is not compared: the point stands for it.
            codes = range(self.levels)
            return np.stack([moved(inputs, self.column, code, region, schema) for code in codes], axis=1)
        ends = on_axis(column, np.concatenate(stretch(inputs, self.column, region, schema))).reshape(2, -1)
        others = [
            off_axis(column, ends[0] + share * (ends[1] - ends[0]))
            for share in points[:, len(schema.columns) :].T
        ]
        return np.stack(
            [inputs, *(moved(inputs, self.column, value, region, schema) for value in others)], axis=1
        )

    def demand(self, cases: Array, schema: Schema, units: Units) -> Spread:
        allowed = SLACK * self.unit(schema) if self.most is None else self.most
        return Spread(self.quantity(cases, schema, units), np.full(len(cases), allowed))

    def margin(self, demand: Spread, values: Array) -> Array:
        """The spread of the answers, less what is accepted."""
        answers = raw(demand.quantity, values)
        return largest(answers) - smallest(answers) - demand.allowed

    def scale(self, demand: Spread) -> float:
        """The wall of the default term begins within what is accepted."""
        return SCALE_OF_SLACK * float(np.median(demand.allowed))

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound | None:
        """Every two levels, in both directions.

        Of a number, the value in the box and any other in the region. Of two values that are compared, one
        lies in some box, so that all boxes together bound all differences.
        """
        if self.levels:
            cases = tuple(at_value(boxes, self.column, code) for code in range(self.levels))
            ends = list(permutations(range(self.levels), 2))
        else:
            cases = self._stretches(boxes, schema)
            ends = [pair for other in range(1, len(cases)) for pair in ((0, other), (other, 0))]
        bound = MarginBound(boxes, np.zeros((0, len(cases), self.outputs(schema))), cases)
        pairs = [self.difference(bound, pair, schema, units) for pair in ends]
        spread = joined(pairs, together=True)
        allowed = SLACK * self.unit(schema) if self.most is None else self.most
        margin = shifted(spread, -allowed)
        return None if margin is None else replace(bound, margin=margin)

    def _stretches(self, boxes: Boxes, schema: Schema) -> tuple[Case, ...]:
        """The box, and beside it all values of the number in the region, a stretch at a time."""
        column, index = schema.column(self.column), schema.index(self.column)
        whole = boxes.whole or (boxes.low.min(axis=0), boxes.high.max(axis=0))
        low, high = (end[index] for end in whole)
        first, last = on_axis(column, np.array([low, high]))
        inner = off_axis(column, np.linspace(first, last, STRETCHES + 1)[1:-1])
        cuts = [low, *np.clip(inner, low, high), high]
        own = Case(boxes, np.ones(boxes.low.shape[1], dtype=bool))
        return (own, *(between(boxes, self.column, *ends) for ends in pairwise(cuts)))

    def differences(
        self, column: str, first: float, second: float, schema: Schema
    ) -> dict[tuple[Label, ...], tuple[float, float]]:
        most = SLACK * self.unit(schema) if self.most is None else self.most
        return {self.classes: (-most, most)} if column == self.column else {}

    def ignores(self) -> frozenset[str]:
        return frozenset({self.column})

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        most = "" if self.most is None else f" by more than {number_text(self.most)}"
        return f"{self.what(target_name, names)} does not depend on {name_text(self.column)}{most}"


def read(sentence: Sentence, tree: Branch, target: Target) -> Invariance | None:
    """`… does not depend on …`."""
    if tree.data != "invariance":
        return None
    quantity, named, *amount = branches(tree)
    classes = read_quantity(sentence, quantity, target)
    column = read_column(sentence, named)
    levels = len(column.levels) or (2 if column.kind == "binary" else 0)
    if levels == 1:
        raise sentence.error(
            f"{name_text(column.name)} has one level, so nothing can depend on it. Declare all its levels: "
            f"columns={{{column.name!r}: {{'levels': […]}}}}.",
            named,
        )
    most = read_amount(sentence, amount[0], target, "The accepted difference") if amount else None
    return Invariance(classes, column.name, levels, most)
