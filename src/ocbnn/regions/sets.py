"""WHERE a rule applies: sets of inputs, frozen, hashable and comparable, over coded points (n, Q).

A rule's bounding box is where samplers look for its points: `limits.py` and `polytope.py` say how far it
goes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ocbnn.language.expressions import And, Condition, columns, evaluate, name_text, one_of, text
from ocbnn.regions.intervals import BoolArray, FloatArray, FrozenMapping, HalfSpace, Interval
from ocbnn.regions.limits import Limits, coded_labels, growable_sides, grown, limits_of
from ocbnn.regions.polytope import corners, equalities, face_limits
from ocbnn.schema import Label, Schema

PROBES = 4096
"""How many fixed points of the bounding box are tried to see whether a predicate holds anywhere in it."""
GROWTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The shares of the observed ranges by which a predicate's box is grown, in turn, until it holds a point."""


class Region(ABC):
    """A set of inputs.

    >>> region = Box({"age": Interval(high=35, high_closed=False)})
    >>> region.columns()
    frozenset({'age'})
    """

    @abstractmethod
    def contains(self, coded: FloatArray, schema: Schema) -> BoolArray:
        """Which of the coded points (n, Q) lie inside; where a ruled column is missing (NaN), none does."""

    @abstractmethod
    def columns(self) -> frozenset[str]:
        """The ruled columns: those that decide membership."""

    @abstractmethod
    def limits(self, schema: Schema) -> Limits:
        """Where each column is drawn from: the bounding box, with the values of discrete columns."""

    @abstractmethod
    def conditions(self) -> Iterator[tuple[str, Region]]:
        """Each single condition in words, with the region that is left when it is given up."""

    @abstractmethod
    def text(self) -> str:
        """The region as a condition, for messages."""

    @abstractmethod
    def components(self) -> tuple[Single, ...]:
        """The regions this one is the union of, none of them a union."""

    def bounding_box(self, schema: Schema) -> tuple[FloatArray, FloatArray]:
        """The finite low and high end (Q,) of every column; they cross where a column has no value left."""
        limits = self.limits(schema)
        return limits.low.copy(), limits.high.copy()

    @abstractmethod
    def vertices(self, schema: Schema, limit: int = 64) -> FloatArray:
        """At most `limit` corners (k, Q): those of the bounding box over the ruled columns that are inside.

        Half-spaces add corners of their own; a union has those of its components.
        Ruled discrete columns are at their ends too, ruled categories at each of their levels; columns the
        rule does not name are in the middle of their range. Ends, open or closed, are moved in by a millionth
        of the range.
        """


def _corners(region: Region, limits: Limits, schema: Schema, most: int) -> FloatArray:
    """The corners of the bounding box (k, Q); where they are too many, some of them at random."""
    ruled = region.columns()
    choices: list[tuple[float, ...]] = []
    for index, column in enumerate(schema.columns):
        low, high, codes = limits.low[index], limits.high[index], limits.codes[index]
        if column.name not in ruled:
            middle = (low + high) / 2 if not limits.discrete[index] else np.floor((low + high) / 2)
            choices.append((middle,) if codes is None else (codes[len(codes) // 2],))
        elif codes is not None:
            choices.append(tuple(codes))
        else:
            step = 0.0 if limits.discrete[index] else 1e-6 * (high - low)
            choices.append((low + step, high - step) if high > low else (low,))
    sizes = np.array([len(options) for options in choices])
    several = np.flatnonzero(sizes > 1)
    if math.prod(sizes.tolist()) > most:
        picks = np.random.default_rng(0).integers(sizes, size=(most, len(sizes)))
    else:
        picks = np.zeros((math.prod(sizes.tolist()), len(sizes)), dtype=np.intp)
        if len(several):
            picks[:, several] = np.indices(sizes[several].tolist()).reshape(len(several), -1).T
    return np.stack([np.asarray(options)[picks[:, i]] for i, options in enumerate(choices)], axis=1)


class Single(Region):
    """A region other than a union."""

    @property
    @abstractmethod
    def pieces(self) -> Pieces:
        """The box, the half-spaces and the conditions it is the intersection of."""

    @property
    def hull(self) -> Single:
        """The region without conditions that are neither a box nor half-spaces."""
        return self.pieces._replace(rest=()).region()

    def contains(self, coded: FloatArray, schema: Schema) -> BoolArray:
        box, faces, rest = self.pieces
        inside, values = box.contains(coded, schema), schema.values(coded)
        for face in faces:
            inside &= face.contains(values)
        for condition in rest:
            inside &= evaluate(condition, values, schema)
            for name in columns(condition):
                inside &= ~np.isnan(values[name])  # `x != 3` says nothing of a case without x
        return inside

    def columns(self) -> frozenset[str]:
        box, faces, rest = self.pieces
        return box.columns().union(*(face.coefficients for face in faces), *map(columns, rest))

    def limits(self, schema: Schema) -> Limits:
        return _limits(self, schema)

    def conditions(self) -> Iterator[tuple[str, Single]]:
        box, faces, rest = self.pieces
        for condition in rest:
            yield text(condition), Pieces(box, faces, tuple(c for c in rest if c != condition)).region()
        for words, smaller in box.conditions():
            yield words, Pieces(smaller.pieces.box, faces, rest).region()
        equal, unequal = equalities(faces)
        normalised = [(face, face.normalised()) for face in faces]
        for face in (*equal, *unequal):
            dropped = {face.normalised()} | ({face.reversed().normalised()} if face in equal else set())
            kept = tuple(other for other, form in normalised if form not in dropped)
            yield face.equality_text() if face in equal else face.text(), Pieces(box, kept, rest).region()

    def components(self) -> tuple[Single, ...]:
        return (self,)

    def text(self) -> str:
        return " and ".join(words for words, _ in self.conditions()) or "always"

    def vertices(self, schema: Schema, limit: int = 64) -> FloatArray:
        limits = self.limits(schema)
        if len(limits.empty_columns()):
            return np.empty((0, len(schema.columns)))
        found = _corners(self, limits, schema, 64 * limit)
        _, faces, rest = self.pieces
        if faces and not rest:
            found = np.vstack([found, corners(limits, faces, schema, found, directions=min(8 * limit, 48))])
        found = found[self.contains(found, schema) & limits.contains(found)]
        width = limits.high / 2 - limits.low / 2  # halves do not overflow
        scaled = (found / 2 - limits.low / 2) / np.where(width > 0, width, 1.0)
        _, first = np.unique(scaled.round(5), axis=0, return_index=True)
        return found[np.sort(first)][:limit]


@dataclass(frozen=True)
class Everywhere(Single):
    """All inputs."""

    @property
    def pieces(self) -> Pieces:
        return Pieces()


@dataclass(frozen=True)
class Box(Single):
    """An interval for each of some numeric columns, and allowed levels for each of some categories."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    levels: Mapping[str, frozenset[Label]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {name: ends for name, ends in self.intervals.items() if not ends.is_everything}
        object.__setattr__(self, "intervals", FrozenMapping(kept))
        levels = {name: frozenset(labels) for name, labels in self.levels.items()}
        object.__setattr__(self, "levels", FrozenMapping(levels))

    def contains(self, coded: FloatArray, schema: Schema) -> BoolArray:
        inside = np.ones(len(coded), dtype=bool)
        for name, interval in self.intervals.items():
            inside &= interval.contains(coded[:, schema.index(name)])
        for name, labels in self.levels.items():
            inside &= np.isin(coded[:, schema.index(name)], coded_labels(schema.column(name), labels))
        return inside

    def columns(self) -> frozenset[str]:
        return frozenset(self.intervals) | frozenset(self.levels)

    def limits(self, schema: Schema) -> Limits:
        return limits_of(schema, self.intervals, self.levels)

    def intersect(self, other: Box) -> Box:
        """What both hold."""
        intervals, levels = dict(self.intervals), dict(self.levels)
        for name, interval in other.intervals.items():
            intervals[name] = intervals.get(name, Interval()).intersect(interval)
        for name, labels in other.levels.items():
            levels[name] = levels.get(name, labels) & labels
        return Box(intervals, levels)

    def conditions(self) -> Iterator[tuple[str, Single]]:
        for name, interval in self.intervals.items():
            rest = {other: ends for other, ends in self.intervals.items() if other != name}
            yield interval.text(name), Box(rest, self.levels)
        for name, labels in self.levels.items():
            kept = {other: values for other, values in self.levels.items() if other != name}
            yield _levels_text(name, labels), Box(self.intervals, kept)

    @property
    def pieces(self) -> Pieces:
        return Pieces(self)


@dataclass(frozen=True)
class HalfSpaces(Single):
    """A box cut by half-spaces over several columns; an equality is a half-space and its reverse."""

    box: Box
    faces: tuple[HalfSpace, ...]

    @property
    def pieces(self) -> Pieces:
        return Pieces(self.box, self.faces)


@dataclass(frozen=True)
class Predicate(Single):
    """A box cut by half-spaces, where a condition that is neither holds too."""

    box: Box
    faces: tuple[HalfSpace, ...]
    condition: Condition

    @property
    def pieces(self) -> Pieces:
        return Pieces(self.box, self.faces, (self.condition,))


class Pieces(NamedTuple):
    """What has to hold at once in a region other than a union: a box, half-spaces, and what is neither."""

    box: Box = Box()
    faces: tuple[HalfSpace, ...] = ()
    rest: tuple[Condition, ...] = ()

    def joined(self, other: Pieces) -> Pieces:
        """What both hold."""
        return Pieces(
            self.box.intersect(other.box),
            tuple(dict.fromkeys(self.faces + other.faces)),
            tuple(dict.fromkeys(self.rest + other.rest)),
        )

    def region(self) -> Single:
        """The simplest region that has these pieces."""
        if self.rest:
            return Predicate(self.box, self.faces, self.rest[0] if len(self.rest) == 1 else And(self.rest))
        if self.faces:
            return HalfSpaces(self.box, self.faces)
        return self.box if self.box.columns() else Everywhere()


@dataclass(frozen=True)
class Union(Region):
    """The inputs in any of several regions; of none, where there are none."""

    regions: tuple[Region, ...]

    def contains(self, coded: FloatArray, schema: Schema) -> BoolArray:
        inside = np.zeros(len(coded), dtype=bool)
        for region in self.regions:
            inside |= region.contains(coded, schema)
        return inside

    def columns(self) -> frozenset[str]:
        return frozenset().union(*(region.columns() for region in self.regions))

    def limits(self, schema: Schema) -> Limits:
        found = [region.limits(schema) for region in self.regions]
        kept = [limits for limits in found if not len(limits.empty_columns())] or found
        if not kept:
            everything = limits_of(schema, {}, {})
            return replace(everything, low=np.ones_like(everything.low), high=np.zeros_like(everything.high))
        low = np.min([limits.low for limits in kept], axis=0)
        high = np.max([limits.high for limits in kept], axis=0)
        codes = tuple(
            None if any(values is None for values in column) else np.unique(np.concatenate(column))
            for column in zip(*(limits.codes for limits in kept), strict=True)
        )
        return Limits(low, high, kept[0].discrete, codes)

    def conditions(self) -> Iterator[tuple[str, Region]]:
        for index, region in enumerate(self.regions):
            for words, rest in region.conditions():
                yield words, Union((*self.regions[:index], rest, *self.regions[index + 1 :]))

    def vertices(self, schema: Schema, limit: int = 64) -> FloatArray:
        parts = self.components()
        each = max(limit // max(len(parts), 1), 1)
        found = [part.vertices(schema, each) for part in parts]
        return np.concatenate([np.empty((0, len(schema.columns))), *found])[:limit]

    def components(self) -> tuple[Single, ...]:
        return tuple(part for region in self.regions for part in region.components())

    def text(self) -> str:
        return " or ".join(f"({region.text()})" for region in self.regions) or "never"


def _levels_text(name: str, labels: frozenset[Label]) -> str:
    by_kind = sorted(labels, key=lambda label: (isinstance(label, str), label))
    return f"{name_text(name)} {one_of(tuple(by_kind))}"


# Minibatch engines draw from the same few regions at every step: what costs linear programs is kept.


@lru_cache(maxsize=256)
def _limits(region: Single, schema: Schema) -> Limits:
    """The limits of box and faces, grown step by step while no probe of theirs meets the conditions."""
    box, faces, rest = region.pieces
    first = limits = face_limits(box.limits(schema), faces, schema, box.intervals)
    if not rest or len(first.empty_columns()):
        return first
    named = np.isin(schema.names, list(frozenset().union(*map(columns, rest))))
    low_sides, high_sides = growable_sides(schema, box.intervals, limits)
    sides = low_sides & named, high_sides & named
    unit = np.random.default_rng(0).random((PROBES, len(schema.columns)))
    for share in GROWTHS:
        if region.contains(limits.from_unit(unit), schema).any():
            return limits
        limits = grown(first, schema, sides, share)
    return limits if region.contains(limits.from_unit(unit), schema).any() else first
