"""`y with drug = a >= y with drug = b + 3`, `y with drug = a = y with drug = b within 2`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from ocbnn.errors import RuleError
from ocbnn.language.expressions import Number, label_text, name_text, number_text
from ocbnn.language.reading import read_expression, read_label
from ocbnn.language.syntax import branches, sign_of
from ocbnn.rules.bounding import Boxes, MarginBound, Reading, at_value, joined, shifted
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
from ocbnn.rules.requirement import Array, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.regions import Region
    from ocbnn.schema import Column, Label, Schema, Target


class Difference(NamedTuple):
    """The first answer less the second is at least this, or this within a margin."""

    quantity: Quantity
    least: Array  # (m,) raw
    allowed: Array  # (m,) raw


@dataclass(frozen=True)
class Contrast(Relation):
    """The quantity with one value of the column against the quantity with another, all else equal.

    Attributes:
        first, second: the two values of the column.
        more: by how much the first answer exceeds the second, in raw units.
        sign: at least (`>=`), at most (`<=`) or as much (`=`) as that.
        within: for `=`: how near.
    """

    first: Label
    second: Label
    sign: Literal[">=", "<=", "="]
    more: float = 0.0
    within: float | None = None

    inputs = 2

    def require_region(self, region: Region) -> None:
        """Refuse a condition about the column that the rule itself sets."""
        if self.column in region.columns():
            name = name_text(self.column)
            raise RuleError(
                f"The rule compares two values of {name}, so its condition cannot be about {name}. "
                f"Leave {name} out of the condition."
            )

    def cases(self, points: Array, schema: Schema, region: Region) -> Array:
        column, index = schema.column(self.column), schema.index(self.column)
        both = np.stack([points[:, : len(schema.columns)]] * 2, axis=1)
        both[:, :, index] = [_code(column, self.first), _code(column, self.second)]
        return both

    def demand(self, cases: Array, schema: Schema, units: Units) -> Difference:
        within = SLACK * self.unit(schema) if self.within is None else self.within
        least, allowed = (np.full(len(cases), value) for value in (self.more, within))
        return Difference(self.quantity(cases, schema, units), least, allowed)

    def margin(self, demand: Difference, values: Array) -> Array:
        """By how much the difference misses what is asked, less what is allowed."""
        ends = raw(demand.quantity, values)
        missed = demand.least - (ends[..., 0] - ends[..., 1])
        if self.sign == "<=":
            missed = -missed
        elif self.sign == "=":
            missed = missed.__array_namespace__().abs(missed)
        return missed - demand.allowed

    def scale(self, demand: Difference) -> float:
        """How near the difference has to be met; for inequalities, that of the slack."""
        allowed = float(np.median(demand.allowed))
        return allowed if self.sign == "=" else SCALE_OF_SLACK * allowed

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound | None:
        """The difference of both answers, bounded as a whole."""
        column = schema.column(self.column)
        cases = tuple(at_value(boxes, self.column, _code(column, end)) for end in (self.first, self.second))
        bound = MarginBound(boxes, np.zeros((0, 2, self.outputs(schema))), cases)
        within = SLACK * self.unit(schema) if self.within is None else self.within
        parts: list[Reading | None] = []
        if self.sign != "<=":
            parts.append(shifted(self.difference(bound, (1, 0), schema, units), self.more - within))
        if self.sign != ">=":
            parts.append(shifted(self.difference(bound, (0, 1), schema, units), -self.more - within))
        margin = joined(parts, together=True)
        return None if margin is None else replace(bound, margin=margin)

    def differences(
        self, column: str, first: float, second: float, schema: Schema
    ) -> dict[tuple[Label, ...], tuple[float, float]]:
        ends = [_code(schema.column(self.column), label) for label in (self.first, self.second)]
        if column != self.column or {first, second} != set(ends):
            return {}
        within = SLACK * self.unit(schema) if self.within is None else self.within
        low = -np.inf if self.sign == "<=" else self.more - within
        high = np.inf if self.sign == ">=" else self.more + within
        return {self.classes: (low, high) if first == ends[0] else (-high, -low)}

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        ends = (
            f"{self.what(target_name, names)} with {name_text(self.column)} = {label_text(label, names)}"
            for label in (self.first, self.second)
        )
        more = f" {'+' if self.more > 0 else '-'} {number_text(abs(self.more))}" if self.more else ""
        within = "" if self.within is None else f" within {number_text(self.within)}"
        return f" {self.sign} ".join(ends) + more + within

    def against_rows(self, coded: np.ndarray, observed: np.ndarray, schema: Schema) -> np.ndarray | None:
        if self.classes:
            return None
        column, index = schema.column(self.column), schema.index(self.column)
        others = np.delete(coded, index, axis=1)
        _, group = np.unique(others, axis=0, return_inverse=True)
        at = [np.flatnonzero(coded[:, index] == _code(column, label)) for label in (self.first, self.second)]
        # For each row with the second value, the first row with the other that agrees in all else.
        known, place = np.unique(group.ravel()[at[0]], return_index=True)
        found = np.searchsorted(known, group.ravel()[at[1]])
        matched = (found < len(known)) & (known[np.minimum(found, len(known) - 1)] == group.ravel()[at[1]])
        pairs = np.stack([at[0][place[found[matched]]], at[1][matched]], axis=1)
        return self._broken_pairs(pairs, coded, observed, schema)


def _code(column: Column, label: Label) -> float:
    """The coded value of a column: the index of a level, or the number itself."""
    return float(column.levels.index(label) if column.levels else label)


def read(sentence: Sentence, tree: Branch, target: Target) -> Contrast | None:
    """`… with column = value >= … with column = value`."""
    if tree.data != "contrast":
        return None
    one, comparator, other, *further = branches(tree)
    (quantity, *settings), (compared, *others) = branches(one), branches(other)
    classes = read_quantity(sentence, quantity, target)
    if read_quantity(sentence, compared, target) != classes:
        raise sentence.error("Both sides of a contrast speak of the same: y, or one probability.", compared)
    for further_setting in (*settings[1:], *others[1:]):
        raise sentence.error("A contrast sets one column; write a rule for each.", further_setting)
    column, first = _setting(sentence, settings[0])
    same, second = _setting(sentence, others[0])
    if same != column or first == second:
        raise sentence.error(
            f"A contrast compares two values of one column: `… with {name_text(column.name)} = … >= … with "
            f"{name_text(column.name)} = …`.",
            others[0],
        )
    sign = sign_of(comparator)
    shifts = [branch for branch in further if branch.data == "shift"]
    margins = [branch for branch in further if branch.data != "shift"]
    if sign == "!=" or (sign == "=" and not margins):
        raise sentence.error(
            "Two answers that vary continuously are never exactly equal. Say how near they have to be: "
            "`… = … within 2`.",
            comparator,
        )
    if sign != "=" and margins:
        raise sentence.error("`within` is for `=`; this is a bound.", margins[0])
    more = 0.0
    for shift in shifts:
        more = read_amount(sentence, branches(shift)[0], target, "What is added", positive=False)
        more = -more if str(shift.children[0]) in "-−" else more
    within = read_amount(sentence, margins[0], target, "What follows `within`") if margins else None
    plain: Literal[">=", "<=", "="] = "=" if sign == "=" else ">=" if sign in (">", ">=") else "<="
    return Contrast(classes, column.name, first, second, plain, more, within)


def _setting(sentence: Sentence, tree: Branch) -> tuple[Column, Label]:
    """`drug = a`: a column and one of its values."""
    named, value = branches(tree)
    column = read_column(sentence, named)
    if column.kind == "category":
        return column, read_label(sentence, value, column)
    truth = {"true": 1.0, "false": 0.0}.get(str(value.children[0]).lower()) if value.data == "name" else None
    if column.kind == "binary" and truth is not None:
        return column, truth
    found = read_expression(sentence, value, "condition")
    assert isinstance(found, Number)
    low, high = (0.0, 1.0) if column.kind == "binary" else column.bounds
    whole = column.kind == "continuous" or found.value.is_integer()
    if not (low <= found.value <= high and whole):
        raise sentence.error(f"{name_text(column.name)} cannot be {number_text(found.value)}.", value)
    return column, found.value
