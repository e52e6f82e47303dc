"""A rule prepared for linting: its region as convex cells, the ranges it asks for, and points to try."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ocbnn.errors import RegionError, RuleError
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
from ocbnn.regions import Box, Everywhere, HalfSpace, HalfSpaces, Predicate, Region, sample
from ocbnn.regions.limits import coded_labels
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
        parts: the regions it is the union of.
        cells: these, cut by the declared bounds, that have points; exact ones, or outer approximations.
        ranges: what it asks for at any x; None where that is not affine in x.
        points: coded points inside the region and the declared bounds.
    """

    rule: Constraint
    label: str
    parts: tuple[Region, ...]
    cells: tuple[Cell, ...]
    ranges: Ranges | None
    points: Floats

    @property
    def is_exact(self) -> bool:
        return self.ranges is not None and all(cell.exact for cell in self.cells)

    @property
    def is_pointwise(self) -> bool:
        """Whether it asks something of each input alone, so that rules can be compared at an input."""
        return self.rule.requirement.is_pointwise


def prepare(rule: Constraint, schema: Schema, space: Space, data: Floats | None) -> Subject:
    """Take a rule apart."""
    parts = rule.region.components()
    low, high = declared_bounds(schema)
    inside = (bounded(cell, low, high, space) for part in parts for cell in cells_of(part, schema, space))
    cells = tuple(cell for cell in inside if not is_empty(cell, space))
    subject = Subject(
        rule, rule.name or rule.text(schema), parts, cells, _ranges(rule, schema), np.empty((0, len(low)))
    )
    return replace(subject, points=_points_inside(subject, schema, space, data)) if cells else subject


def _ranges(rule: Constraint, schema: Schema) -> Ranges | None:
    try:
        return rule.requirement.ranges(schema, rule.effective_tolerance)
    except RuleError:  # the schema lacks what the rule needs, which is a finding
        return None


def declared_bounds(schema: Schema) -> tuple[Floats, Floats]:
    """The ends of what is possible in every column."""
    bounds = np.array([column.bounds for column in schema.columns], dtype=float)
    return bounds[:, 0], bounds[:, 1]


# Regions as cells -------------------------------------------------------------------------------------------


def cells_of(region: Region, schema: Schema, space: Space) -> tuple[Cell, ...]:
    """One part of a region as cells; a condition that is not affine is carried along."""
    match region:
        case Everywhere():
            return (whole_space(space),)
        case Box():
            return _box_cells(region, schema, space)
        case HalfSpaces(box, faces):
            return tuple(_cut(cell, faces, schema) for cell in _box_cells(box, schema, space))
        case Predicate(box, faces, condition):
            return tuple(
                replace(_cut(cell, faces, schema), conditions=(*cell.conditions, condition))
                for cell in _box_cells(box, schema, space)
            )
    return (replace(whole_space(space), conditions=(region,)),)


def _box_cells(box: Box, schema: Schema, space: Space) -> tuple[Cell, ...]:
    whole = whole_space(space)
    low, high = whole.low.copy(), whole.high.copy()
    low_open, high_open = whole.low_open.copy(), whole.high_open.copy()
    for name, interval in box.intervals.items():
        index = schema.index(name)
        if interval.low >= low[index]:
            low[index], low_open[index] = interval.low, not interval.low_closed
        if interval.high <= high[index]:
            high[index], high_open[index] = interval.high, not interval.high_closed
    cell = tightened(Cell(low, high, low_open, high_open, faces=whole.faces), space)
    codes, runs = _levels(box.levels, schema, space)
    cell = replace(cell, codes=codes)
    if math.prod(len(options) for options in runs.values()) > MOST_RUNS:
        hull = {index: (options[0][0], options[-1][1]) for index, options in runs.items()}
        return (replace(_within(cell, hull), conditions=(box,)),)
    return tuple(_within(cell, dict(zip(runs, choice, strict=True))) for choice in product(*runs.values()))


def _levels(
    levels: Mapping[str, frozenset], schema: Schema, space: Space
) -> tuple[dict[int, frozenset[int]], dict[int, list[tuple[float, float]]]]:
    """Allowed codes of category columns; for numeric ones the runs of allowed numbers."""
    codes, runs = {}, {}
    for name, labels in levels.items():
        index, column = schema.index(name), schema.column(name)
        allowed = coded_labels(column, labels).tolist()
        if column.kind == "category":
            codes[index] = frozenset(int(value) for value in allowed)
        else:
            runs[index] = _runs(allowed, whole=bool(space.integral[index])) or [(1.0, 0.0)]
    return codes, runs


def _runs(values: Iterable[float], *, whole: bool) -> list[tuple[float, float]]:
    runs: list[tuple[float, float]] = []
    for value in values:
        if runs and whole and value == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    return runs


def _within(cell: Cell, runs: Mapping[int, tuple[float, float]]) -> Cell:
    if not runs:
        return cell
    low, high = np.full(len(cell.low), -np.inf), np.full(len(cell.low), np.inf)
    for index, (first, last) in runs.items():
        low[index], high[index] = first, last
    return intersection(cell, box_cell(low, high))


def _cut(cell: Cell, faces: Iterable[HalfSpace], schema: Schema) -> Cell:
    faces = tuple(faces)
    rows = np.zeros((len(faces), len(schema.columns)))
    for row, face in zip(rows, faces, strict=True):
        for name, coefficient in face.coefficients.items():
            row[schema.index(name)] = coefficient
    limits = np.array([face.bound for face in faces], dtype=float)
    return with_faces(cell, rows, limits, np.array([face.strict for face in faces], dtype=bool))


# Points to try ----------------------------------------------------------------------------------------------


def draws(cell: Cell, space: Space, n: int) -> Floats:
    """A cell's centre, and n points spread over its box, near the observed range where it has no end."""
    low, high = window(cell, space)
    unit = np.random.default_rng(0).random((n, len(low)))
    points = low + unit * (high - low)
    whole = np.floor(low + unit * (high - low + 1))
    points = np.where(space.integral, np.clip(whole, low, high), points)
    for index, allowed in cell.codes.items():
        options = np.array(sorted(allowed), dtype=float)
        points[:, index] = options[(unit[:, index] * len(options)).astype(int)]
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


def possible(points: Floats, schema: Schema) -> Bools:
    """Which coded points lie within the declared bounds."""
    low, high = declared_bounds(schema)
    inside: Bools = np.all((points >= low) & (points <= high), axis=1)
    return inside


def _points_inside(subject: Subject, schema: Schema, space: Space, data: Floats | None) -> Floats:
    region = subject.rule.region
    count = TRIED if any(not cell.exact for cell in subject.cells) else 4 * KEPT
    share = -(-count // len(subject.cells))
    tried = [draws(cell, space, share) for cell in subject.cells]
    if data is not None:
        tried.append(data[:: max(1, len(data) // count)])
    candidates = np.concatenate(tried)
    inside = candidates[region.contains(candidates, schema) & possible(candidates, schema)]
    if not len(inside):
        try:
            inside = sample(0, region, schema, data, KEPT)
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
            return View(
                rule, demand, rule.requirement.allowed(demand), rule.requirement.asked(demand)
            ), defined
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
