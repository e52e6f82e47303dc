"""`mean P(hired = 1) is equal over sex within 0.02`: groups have the same mean, over rows of the table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.expressions import name_text, number_text
from ocbnn.language.syntax import branches
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
    from ocbnn.schema import Label, Schema, Target

ROWS = 2000
"""The most rows of the table that a mean is over; as many of each group as there are, or equally many."""
RESAMPLES = 400
"""Bootstrap samples of the rows: twenty of them lie beyond the 95% quantile."""


class Groups(NamedTuple):
    """Means of groups may differ by at most this; `shares` are each row's part in the mean of each group."""

    quantity: Quantity
    shares: Array  # (1, N, G)
    allowed: Array  # (1,) raw


@dataclass(frozen=True)
class Parity(Relation):
    """The groups of a column have the same mean, over the rows of the table in the region.

    Attributes:
        most: the largest difference of two groups' means that is accepted, raw; default: 1% of the unit.
    """

    most: float | None = None

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

    def demand(self, cases: Array, schema: Schema, units: Units) -> Groups:
        groups = cases[0, :, schema.index(self.column)]
        members = (groups[:, None] == np.unique(groups)).astype(float)
        allowed = SLACK * self.unit(schema) if self.most is None else self.most
        quantity = self.quantity(cases, schema, units)
        return Groups(quantity, (members / members.sum(axis=0))[None], np.full(1, allowed))

    def margin(self, demand: Groups, values: Array) -> Array:
        """The largest difference of two groups' means, less what is accepted."""
        answers = raw(demand.quantity, values)
        xp = answers.__array_namespace__()
        means = xp.sum(answers[..., None] * xp.asarray(demand.shares, dtype=answers.dtype), axis=-2)
        return largest(means) - smallest(means) - demand.allowed

    def row_errors(self, demand: Groups, values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """The largest error of a difference of two groups' means, in bootstrap samples of each group's rows.

        No largest difference is off by more. (Errors of the largest difference itself would mislead: noise
        alone makes groups differ.) n − 1 of n rows are drawn with replacement: their mean varies by s² / n,
        with the unbiased s². A group of one row shows no error. All draws see the same rows.
        """
        answers = np.asarray(raw(demand.quantity, values), dtype=float)
        low, high = np.array(np.inf), np.array(-np.inf)
        for shares in demand.shares[0].T:
            members = np.flatnonzero(shares)
            weights = resampling_weights(len(members), generator) - 1.0 / len(members)
            error = answers[..., members] @ weights.T
            low, high = np.minimum(low, error), np.maximum(high, error)
        return np.moveaxis(high - low, -1, 0)

    def scale(self, demand: Groups) -> float:
        """The wall of the default term begins within what is accepted."""
        return SCALE_OF_SLACK * float(demand.allowed[0])

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        within = "" if self.most is None else f" within {number_text(self.most)}"
        return f"mean {self.what(target_name, names)} is equal over {name_text(self.column)}{within}"

    def along(self) -> tuple[()]:
        return ()

    def groups(self) -> tuple[str, tuple[Label, ...]]:
        return self.column, self.classes


def resampling_weights(count: int, generator: np.random.Generator) -> np.ndarray:
    """Weights `(RESAMPLES, count)` of the rows of a group in means over rows that are drawn anew."""
    drawn = max(count - 1, 1)
    rows = generator.integers(count, size=(RESAMPLES, drawn))
    places = (rows + count * np.arange(RESAMPLES)[:, None]).ravel()
    return np.bincount(places, minlength=RESAMPLES * count).reshape(RESAMPLES, count) / drawn


def read(sentence: Sentence, tree: Branch, target: Target) -> Parity | None:
    """`mean … is equal over …`."""
    if tree.data != "parity":
        return None
    quantity, named, *amount = branches(tree)
    classes = read_quantity(sentence, quantity, target)
    column = read_column(sentence, named)
    if column.kind not in ("category", "binary"):
        raise sentence.error(
            f"{name_text(column.name)} is a number and has no groups. Cut it into a column of groups first, "
            "such as `pandas.cut(…)`.",
            named,
        )
    most = read_amount(sentence, amount[0], target, "What follows `within`") if amount else None
    return Parity(classes, column.name, most)
