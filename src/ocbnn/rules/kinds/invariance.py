"""`y does not depend on race`, `P(hired = 1) does not depend on age by more than 0.01`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.expressions import name_text, number_text
from ocbnn.language.syntax import branches
from ocbnn.regions.lines import moved, off_axis, on_axis, stretch
from ocbnn.rules.bounding import Boxes, MarginBound, at_value, joined, shifted
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
        """Every two levels, in both directions; of a number's values there are too many."""
        if not self.levels:
            return None
        cases = tuple(at_value(boxes, self.column, code) for code in range(self.levels))
        bound = MarginBound(boxes, np.zeros((0, self.levels, self.outputs(schema))), cases)
        pairs = [self.difference(bound, ends, schema, units) for ends in permutations(range(self.levels), 2)]
        spread = joined(pairs, together=True)
        allowed = SLACK * self.unit(schema) if self.most is None else self.most
        margin = shifted(spread, -allowed)
        return None if margin is None else replace(bound, margin=margin)

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
