"""A rule prepared for linting: its region as convex cells, the ranges it asks for, and points to try."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ocbnn.errors import RegionError, RuleError
from ocbnn.linting.findings import Finding, Kind, Severity
from ocbnn.linting.geometry import (
    Bools,
    Cell,
    Floats,
    Space,
    bounded,
    box_cell,
    interior_point,
    intersection,
    is_empty,
    tightened,
    whole_space,
    with_faces,
)
from ocbnn.regions import Box, Interval, Region, sample
from ocbnn.regions.limits import Limits, coded_labels
from ocbnn.regions.polytope import faces_matrix
from ocbnn.regions.sets import Single
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.formulas import UndefinedError
from ocbnn.rules.ranges import Ranges
from ocbnn.rules.requirement import Allowed, Asked, Normals
from ocbnn.schema import Schema

TRIED = 4096
"""How many points are tried where a region or an output can only be searched."""
KEPT = 128
"""How many points inside its region are kept for each rule."""
MOST_RUNS = 64


@dataclass(frozen=True, eq=False)
class Subject:
    """A rule under examination.

    Attributes:
        label: the rule's name, or its canonical text.
        cells: the pieces of its region, cut by the declared bounds, that have points: exact, or outer
            approximations.
        ranges: what it asks for at any x; None where that is not affine in x.
        points: coded points inside the region and the declared bounds.
    """

    rule: Constraint
    label: str
    cells: tuple[Cell, ...]
    ranges: Ranges | None
    points: Floats

    @property
    def is_exact(self) -> bool:
        return self.ranges is not None and all(cell.exact for cell in self.cells)

    def finding(self, kind: Kind, severity: Severity, text: str, **more: Any) -> Finding:
        """A finding about this rule; `more` are further fields of `Finding`."""
        return Finding(kind, severity, (self.label,), text, **more)


def prepare(rule: Constraint, space: Space, data: Floats | None) -> Subject:
    """Take a rule apart."""
    pieces = (cell for part in rule.region.components() for cell in cells_of(part, space))
    inside = (bounded(cell, *space.declared, space) for cell in pieces)
    cells = tuple(cell for cell in inside if not is_empty(cell, space))
    points = _points_inside(rule.region, cells, space, data) if cells else np.empty((0, len(space.low)))
    label = rule.name or rule.text(space.schema)
    return Subject(rule, label, cells, _ranges(rule, space.schema), points)


def _ranges(rule: Constraint, schema: Schema) -> Ranges | None:
    try:
        return rule.requirement.ranges(schema, rule.effective_tolerance)
    except RuleError:  # the schema lacks what the rule needs, which is a finding
        return None


# Regions as cells -------------------------------------------------------------------------------------------


def cells_of(region: Single, space: Space) -> tuple[Cell, ...]:
    """One part of a region as cells; a condition that is not affine is carried along."""
    box, faces, rest = region.pieces
    matrix, limits = faces_matrix(faces, space.schema.names)
    strict = np.array([face.strict for face in faces], dtype=bool)
    return tuple(
        replace(with_faces(cell, matrix, limits, strict), conditions=cell.conditions + rest)
        for cell in _box_cells(box, space)
    )


def _box_cells(box: Box, space: Space) -> tuple[Cell, ...]:
    """One cell for each choice of runs, where numeric columns are allowed a list of numbers."""
    codes, runs = {}, {}
    for name, labels in box.levels.items():
        column = space.schema.column(name)
        allowed = coded_labels(column, labels).tolist()
        if column.kind == "category":
            codes[space.schema.index(name)] = frozenset(map(int, allowed))
        else:
            runs[name] = _runs(allowed, whole=column.kind != "continuous") or [Interval(1.0, 0.0)]
    cell = replace(tightened(_within(whole_space(space), box.intervals, space), space), codes=codes)
    if math.prod(map(len, runs.values())) > MOST_RUNS:
        hull = {name: Interval(options[0].low, options[-1].high) for name, options in runs.items()}
        return (replace(_within(cell, hull, space), conditions=(box,)),)
    choices = product(*runs.values())
    return tuple(_within(cell, dict(zip(runs, choice, strict=True)), space) for choice in choices)


def _runs(values: Iterable[float], *, whole: bool) -> list[Interval]:
    runs: list[Interval] = []
    for value in values:
        if runs and whole and value == runs[-1].high + 1:
            runs[-1] = Interval(runs[-1].low, value)
        else:
            runs.append(Interval(value, value))
    return runs


def _within(cell: Cell, intervals: Mapping[str, Interval], space: Space) -> Cell:
    """The part of a cell that has some columns in given intervals."""
    ends = [intervals.get(name, Interval()) for name in space.schema.names]
    low, high = np.array([(each.low, each.high) for each in ends]).T
    opened = np.array([(not each.low_closed, not each.high_closed) for each in ends]).T
    low_open, high_open = opened & np.isfinite([low, high])
    return intersection(cell, replace(box_cell(low, high), low_open=low_open, high_open=high_open))


# Points to try ----------------------------------------------------------------------------------------------


def draws(cell: Cell, space: Space, n: int) -> Floats:
    """A cell's centre, and n points spread over its box, near the observed range where it has no end."""
    options = (cell.codes.get(index) for index in range(len(cell.low)))
    codes = tuple(None if some is None else np.array(sorted(some), dtype=float) for some in options)
    limits = Limits(*window(cell, space), space.integral, codes)
    points = limits.from_unit(np.random.default_rng(0).random((n, len(codes))))
    deepest = interior_point(cell, space)
    return points if deepest is None else np.concatenate([deepest[None], points])


def window(cell: Cell, space: Space) -> tuple[Floats, Floats]:
    """Finite ends of every column: the cell's own, else the observed range's or a quarter of it further."""
    width = space.width / 4
    width = np.where(space.integral, np.ceil(width), width)
    seen_low = np.where(np.isfinite(space.observed_low), space.observed_low, 0.0)
    seen_high = np.where(np.isfinite(space.observed_high), space.observed_high, 0.0)
    seen_low = np.where(space.integral, np.floor(seen_low), seen_low)
    seen_high = np.where(space.integral, np.ceil(seen_high), seen_high)
    low = np.where(np.isfinite(cell.low), cell.low, np.minimum(seen_low, cell.high - width))
    high = np.where(np.isfinite(cell.high), cell.high, np.maximum(seen_high, low + width))
    return np.where(np.isfinite(low), low, seen_low), high


def near_by(cell: Cell, space: Space) -> Cell:
    """The part of a cell in its `window`, where a witness is easiest to believe."""
    return bounded(cell, *window(cell, space), space)


def _points_inside(region: Region, cells: Sequence[Cell], space: Space, data: Floats | None) -> Floats:
    count = 4 * KEPT if all(cell.exact for cell in cells) else TRIED
    tried = [draws(cell, space, -(-count // len(cells))) for cell in cells]
    if data is not None:
        tried.append(data[:: max(1, len(data) // count)])
    candidates = np.concatenate(tried)
    inside = candidates[region.contains(candidates, space.schema) & space.possible(candidates)]
    if not len(inside):
        try:
            inside = sample(0, region, space.schema, data, KEPT)
        except RegionError:
            return inside
    return inside[:: max(1, len(inside) // KEPT)][:KEPT]


# What a rule asks at points ---------------------------------------------------------------------------------


class View(NamedTuple):
    """What a rule asks at points, and how much of it can be listed there."""

    rule: Constraint
    demand: Any
    allowed: Allowed | None
    asked: Asked | None

    @property
    def is_unlisted(self) -> bool:
        """Whether outputs can only be tried one after the other."""
        return self.allowed is None and self.asked is None

    @property
    def normals(self) -> Normals | None:
        """The distribution of y that is asked for."""
        return None if self.asked is None else self.asked.normals

    def words(self, schema: Schema) -> str:
        """What is asked at the first point: `y >= 1`, `label in {green, blue}`."""
        asked, target = self.rule.requirement, "y" if schema.target is None else schema.target.name
        return asked.words(self.demand, schema) or asked.text(target, schema.names)


def view(rule: Constraint, points: Floats, schema: Schema) -> tuple[View | None, Bools]:
    """What a rule asks at those of its points where that is defined, and which these are."""
    defined = np.ones(len(points), dtype=bool)
    if not len(points):
        return None, defined
    while defined.any():
        try:
            demand = rule.demand(points[defined], schema)
        except UndefinedError as error:
            defined[defined] = error.defined
        except RuleError:
            defined[:] = False
        else:
            asks = rule.requirement
            return View(rule, demand, asks.allowed(demand), asks.asked(demand)), defined
    return None, defined


def stated_events(asked: Asked) -> Iterator[tuple[Bools, Floats]]:
    """Each set of classes (m, C) with the probability (m,) that a rule states of it.

    Of sets that a rule names, the last one is what the others leave.
    """
    if asked.probability is None:
        return
    count, events = asked.probability.shape[1], asked.events
    for index in range(count if events is None else count - 1):
        one = np.broadcast_to(np.arange(count) == index, asked.probability.shape)
        yield one if events is None else events[:, index], asked.probability[:, index]
