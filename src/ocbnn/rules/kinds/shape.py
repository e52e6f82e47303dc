"""`y is convex in dose`, `P(action = 1) is concave in age`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.expressions import name_text
from ocbnn.language.syntax import branches
from ocbnn.regions.lines import moved
from ocbnn.rules.kinds.relations import (
    SCALE_OF_SLACK,
    SLACK,
    SMALLEST_SHARE,
    Quantity,
    Relation,
    pairs_along,
    raw,
    read_ordered,
    read_quantity,
)
from ocbnn.rules.requirement import Array, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.regions import Region
    from ocbnn.schema import Schema, Target

SHORTEST = 0.1
"""The shortest triple, as a share of the stretch: second differences over less are mostly rounding."""


class Triples(NamedTuple):
    """How long the chord is, where on it the middle lies, and how far that may be on the wrong side of it."""

    quantity: Quantity
    share: Array  # (m,) of the column's range
    place: Array  # (m,) from 0 to 1
    allowed: Array  # (m,) raw


@dataclass(frozen=True)
class Shape(Relation):
    """The quantity lies nowhere above its chords along the column (`convex`), or nowhere below them.

    Over the column's whole range it may lie on the wrong side by 1% of its unit, over a part of the range by
    the square of that share, as curves with a constant second derivative do.
    """

    convex: bool

    inputs = 3
    coordinates = 1

    def cases(self, points: Array, schema: Schema, region: Region) -> Array:
        ends = pairs_along(points, self.column, region, schema, SHORTEST)
        index = schema.index(self.column)
        middle = ends[:, :, index].mean(axis=1)
        if schema.column(self.column).kind != "continuous":
            middle = np.round(middle)
        between = moved(ends[:, 0], self.column, middle, region, schema)
        return np.stack([ends[:, 0], between, ends[:, 1]], axis=1)

    def demand(self, cases: Array, schema: Schema, units: Units) -> Triples:
        low, high = schema.column(self.column).observed
        first, middle, last = cases[..., schema.index(self.column)].T
        length = last - first
        share = np.maximum(length / (high - low if high > low else 1.0), SMALLEST_SHARE)
        place = (middle - first) / np.where(length > 0, length, 1.0)
        allowed = np.full(len(cases), SLACK * self.unit(schema))
        return Triples(self.quantity(cases, schema, units), share, place, allowed)

    def margin(self, demand: Triples, values: Array) -> Array:
        """How far the middle lies on the wrong side of the chord, over the column's range, less the slack."""
        ends = raw(demand.quantity, values)
        chord = (1.0 - demand.place) * ends[..., 0] + demand.place * ends[..., 2]
        above = ends[..., 1] - chord
        return (above if self.convex else -above) / demand.share**2 - demand.allowed

    def scale(self, demand: Triples) -> float:
        """The wall of the default term begins within the slack."""
        return SCALE_OF_SLACK * float(np.median(demand.allowed))

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        form = "convex" if self.convex else "concave"
        return f"{self.what(target_name, names)} is {form} in {name_text(self.column)}"


def read(sentence: Sentence, tree: Branch, target: Target) -> Shape | None:
    """`… is convex in …`, `… is concave in …`."""
    if tree.data != "shape":
        return None
    quantity, named = branches(tree)
    classes = read_quantity(sentence, quantity, target)
    example = sentence.text[quantity.meta.start_pos : quantity.meta.end_pos]
    column = read_ordered(sentence, named, example, distances=True)
    if column.kind == "binary":
        raise sentence.error(
            f"{name_text(column.name)} has two values, between which nothing can be bent.", named
        )
    word = next(str(child) for child in tree.children if isinstance(child, str))
    return Shape(classes, column.name, "convex" in word.lower())
