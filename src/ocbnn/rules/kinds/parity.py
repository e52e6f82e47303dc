"""`mean P(hired = 1) is equal over sex within 0.02`, `share P(hired = 1) > 0.5 is equal over sex`.

Groups have the same mean, or the same share of rows above a number, over rows of the table. A share is a step
function of the weights. The density therefore counts each row by a sigmoid; whoever judges counts rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.expressions import name_text, number_text
from ocbnn.language.reading import read_constant
from ocbnn.language.syntax import branches, sign_of
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
from ocbnn.rules.requirement import Array, Groups, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.schema import Schema, Target

ROWS = 2000
"""The most rows of the table that a mean is over; as many of each group as there are, or equally many."""
RESAMPLES = 400
"""Bootstrap samples of the rows: twenty of them lie beyond the 95% quantile."""


WIDTH = 0.04
"""Of the quantity's unit (0.02 of a probability, 4% of sd(y)): rows this near to the number count in part.

Narrower, hardly any row has a slope; wider, the smooth share is another one than that of rows.
"""
UNIT_OF_SHARES = 0.5
"""The largest standard deviation of an event."""


class Threshold(NamedTuple):
    """Rows above this count. Both in raw units, up to the constant that `raw` leaves out."""

    above: Array  # (1, 1)
    width: Array  # (1, 1): of the sigmoid


class Compared(NamedTuple):
    """Means, or shares, of groups may differ by at most this.

    `shares` are each row's part in the mean of each group.
    """

    quantity: Quantity
    shares: Array  # (1, N, G)
    allowed: Array  # (1,)
    threshold: Threshold | None


@dataclass(frozen=True)
class Parity(Relation):
    """The groups of a column have the same mean, over the rows of the table in the region.

    Attributes:
        most: the largest difference of two groups that is accepted: of means raw, of shares a probability;
            default: 1% of the unit.
        above: compared are the shares of rows above this number, raw; None: means.
    """

    most: float | None = None
    above: float | None = None

    inputs = None

    def population(self, rows: Array, schema: Schema, generator: np.random.Generator) -> Array:
        """All rows, or where they are many, equally many of each group."""
        groups = rows[:, schema.index(self.column)]
        known, counts = np.unique(groups, return_counts=True)
        if len(rows) <= ROWS:
            return rows
        each = np.minimum(counts, ROWS // len(known))
        chosen = [
            generator.choice(np.flatnonzero(groups == group), size=count, replace=False)
            for group, count in zip(known, each.tolist(), strict=True)
        ]
        return rows[np.sort(np.concatenate(chosen))]

    def demand(self, cases: Array, schema: Schema, units: Units) -> Compared:
        groups = cases[0, :, schema.index(self.column)]
        members = (groups[:, None] == np.unique(groups)).astype(float)
        unit = self.unit(schema) if self.above is None else UNIT_OF_SHARES
        allowed = SLACK * unit if self.most is None else self.most
        return Compared(
            self.quantity(cases, schema, units),
            (members / members.sum(axis=0))[None],
            np.full(1, allowed),
            self._threshold(schema, units),
        )

    def _threshold(self, schema: Schema, units: Units) -> Threshold | None:
        if self.above is None:
            return None
        left_out = 0.0 if self.classes or units.log else units.center
        above, width = self.above - left_out, WIDTH * self.unit(schema)
        return Threshold(np.full((1, 1), above), np.full((1, 1), width))

    def margin(self, demand: Compared, values: Array) -> Array:
        """The largest difference of two groups, less what is accepted; rows count by a sigmoid."""
        answers = raw(demand.quantity, values)
        if demand.threshold is not None:
            distance = (answers - demand.threshold.above) / demand.threshold.width
            answers = 0.5 + 0.5 * answers.__array_namespace__().tanh(0.5 * distance)
        return _apart(demand, answers)

    def violation(self, demand: Compared, values: Array) -> np.ndarray:
        """The same, with rows that count or do not."""
        with np.errstate(all="ignore"):
            found = np.asarray(_apart(demand, _counted(demand, values)))
        return np.where(np.isnan(found), np.inf, found)

    def row_errors(self, demand: Compared, values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """The largest error of a difference of two groups' means, in bootstrap samples of each group's rows.

        No largest difference is off by more. (Errors of the largest difference itself would mislead: noise
        alone makes groups differ.) n − 1 of n rows are drawn with replacement: their mean varies by s² / n,
        with the unbiased s². A group of one row shows no error. All draws see the same rows.
        """
        answers = _counted(demand, values)
        low, high = np.array(np.inf), np.array(-np.inf)
        for shares in demand.shares[0].T:
            members = np.flatnonzero(shares)
            weights = resampling_weights(len(members), generator) - 1.0 / len(members)
            error = answers[..., members] @ weights.T
            low, high = np.minimum(low, error), np.maximum(high, error)
        return np.moveaxis(high - low, -1, 0)

    def scale(self, demand: Compared) -> float:
        """The wall of the default term begins within what is accepted."""
        return SCALE_OF_SLACK * float(demand.allowed[0])

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        what = self.what(target_name, names)
        compared = f"mean {what}" if self.above is None else f"share {what} > {number_text(self.above)}"
        within = "" if self.most is None else f" within {number_text(self.most)}"
        return f"{compared} is equal over {name_text(self.column)}{within}"

    def along(self) -> tuple[()]:
        return ()

    def groups(self) -> Groups:
        return Groups(self.column, self.classes, self.above)


def _counted(demand: Compared, values: Array) -> np.ndarray:
    """What means are over: the quantity, or 1 for rows above the number and 0 for others."""
    answers = np.asarray(raw(demand.quantity, values), dtype=float)
    if demand.threshold is None:
        return answers
    # What is not a number is neither above nor below.
    return np.where(np.isnan(answers), np.nan, answers > demand.threshold.above)


def _apart(demand: Compared, answers: Array) -> Array:
    """The largest difference of two groups' means, less what is accepted."""
    xp = answers.__array_namespace__()
    means = xp.sum(answers[..., None] * xp.asarray(demand.shares, dtype=answers.dtype), axis=-2)
    return largest(means) - smallest(means) - demand.allowed


def resampling_weights(count: int, generator: np.random.Generator) -> np.ndarray:
    """Weights `(RESAMPLES, count)` of the rows of a group in means over rows that are drawn anew."""
    drawn = max(count - 1, 1)
    rows = generator.integers(count, size=(RESAMPLES, drawn))
    places = (rows + count * np.arange(RESAMPLES)[:, None]).ravel()
    return np.bincount(places, minlength=RESAMPLES * count).reshape(RESAMPLES, count) / drawn


def read(sentence: Sentence, tree: Branch, target: Target) -> Parity | None:
    """`mean … is equal over …`, `share … > … is equal over …`."""
    if tree.data != "parity":
        return None
    quantity, *parts = branches(tree)
    classes = read_quantity(sentence, quantity, target)
    above = None
    if str(tree.children[0]).lower() == "share":
        above, parts = _read_threshold(sentence, quantity, parts, target), parts[2:]
    elif parts[0].data == "comparator":
        raise sentence.error(
            "A mean is not compared with a number here. How many rows lie above it is a share: "
            f"`share {sentence.slice(quantity)[1:-1]} > … is equal over …`.",
            parts[0],
        )
    named, *amount = parts
    column = read_column(sentence, named)
    if column.kind not in ("category", "binary"):
        raise sentence.error(
            f"{name_text(column.name)} is a number and has no groups. Cut it into a column of groups first, "
            "such as `pandas.cut(…)`.",
            named,
        )
    most = _read_most(sentence, amount[0], target, above) if amount else None
    return Parity(classes, column.name, most, above)


def _read_threshold(sentence: Sentence, quantity: Branch, parts: list[Branch], target: Target) -> float:
    """The number above which rows count."""
    if parts[0].data != "comparator":
        raise sentence.error(
            "A share is of rows above a number: "
            f"`share {sentence.slice(quantity)[1:-1]} > … is equal over …`.",
            quantity,
        )
    sign, number = parts[:2]
    if sign_of(sign) not in (">", ">="):
        raise sentence.error(
            "Write `>`: where groups have equal shares above a number, they have equal shares below it.", sign
        )
    above = read_constant(sentence, number, "probability" if target.classes else "output", "What follows `>`")
    if target.classes and not 0 < above < 1:
        raise sentence.error("A probability is compared with a number between 0 and 1.", number)
    return above


def _read_most(sentence: Sentence, tree: Branch, target: Target, above: float | None) -> float:
    what = "What follows `within`"
    if above is None:
        return read_amount(sentence, tree, target, what)
    most = read_constant(sentence, tree, "probability", what)
    if not 0 < most < 1:
        raise sentence.error("A difference of two shares lies between 0 and 1.", tree)
    return most
