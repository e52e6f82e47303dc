"""Convex pieces of regions, and exact questions about them.

A `Cell` is a box with category levels, cut by half-spaces, over coded columns; integer, binary and category
columns take whole numbers only. Whether one is empty, lies inside others, or has a point where some affine
functions are positive is answered in closed form for boxes, else by (mixed-integer) linear programming.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from ocbnn.schema import Schema

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SMALLEST_SLACK = 1e-9
"""In units of the columns' ranges; below it a strict inequality counts as met only if evaluation says so."""
FARTHEST = 1e15
"""In the same units; what lies further away the solver takes for infinite."""
POLISHED = 1e-5
"""Where a program's slack is below this, it is solved again in units this much smaller."""


class Space:
    """The columns as lint sees them.

    Attributes:
        schema: the table.
        integral: which columns take whole numbers only.
        low, high: the ends of what the kinds of the columns permit.
        declared: the ends of what is declared as possible.
        observed_low, observed_high: the ends of what was observed.
        sizes: the number of levels of each category column; 0 for the others.
        width: a positive unit of length for every column.
    """

    def __init__(self, schema: Schema) -> None:
        columns = schema.columns
        self.schema = schema
        self.integral: Bools = np.array([column.kind != "continuous" for column in columns], dtype=bool)
        self.sizes = tuple(len(column.levels) if column.kind == "category" else 0 for column in columns)
        self.low, self.high = np.array([_ends(column.kind, len(column.levels)) for column in columns]).T
        low, high = np.array([column.bounds for column in columns], dtype=float).T
        self.declared: tuple[Floats, Floats] = low, high
        self.observed_low, self.observed_high = np.array(
            [column.observed for column in columns], dtype=float
        ).T
        width = self.observed_high - self.observed_low
        usable = np.isfinite(width) & (width > 0)
        fallback = np.maximum(1.0, np.abs(np.nan_to_num(self.observed_high)))
        self.width: Floats = np.where(usable, np.where(usable, width, 1.0), fallback)

    @property
    def classes(self) -> int:
        """How many classes there are; 0 for regression."""
        return len(self.schema.target.classes) if self.schema.target is not None else 0

    def possible(self, points: Floats) -> Bools:
        """Which coded points lie within the declared bounds."""
        low, high = self.declared
        return np.all((points >= low) & (points <= high), axis=1)


def _ends(kind: str, levels: int) -> tuple[float, float]:
    if kind == "binary":
        return 0.0, 1.0
    if kind == "category":
        return 0.0, float(levels - 1)
    return -np.inf, np.inf


@dataclass(frozen=True, eq=False)
class Cell:
    """{x : low ≤ x ≤ high, codes, faces @ x ≤ limits}, each end open or closed, each face strict or not.

    `conditions` are further conditions that are neither bounds nor affine: a cell that has some is only an
    outer approximation, and `exact` is False. They are compared, never evaluated.
    """

    low: Floats
    high: Floats
    low_open: Bools
    high_open: Bools
    codes: Mapping[int, frozenset[int]]
    faces: Floats
    limits: Floats
    strict: Bools
    conditions: tuple[object, ...] = ()

    @property
    def exact(self) -> bool:
        return not self.conditions

    @property
    def is_box(self) -> bool:
        return len(self.limits) == 0


def box_cell(low: Floats, high: Floats) -> Cell:
    """{x : low ≤ x ≤ high}."""
    closed = np.zeros(len(low), dtype=bool)
    return Cell(low, high, closed, closed, {}, np.zeros((0, len(low))), np.zeros(0), closed[:0])


def whole_space(space: Space) -> Cell:
    """Every input the kinds of the columns permit."""
    return box_cell(space.low, space.high)


def tightened(cell: Cell, space: Space) -> Cell:
    """The same cell with the ends of whole-number columns moved to the outermost whole numbers inside."""
    whole = space.integral
    above = np.where(cell.low_open & (cell.low > -np.inf), np.nextafter(cell.low, np.inf), cell.low)
    below = np.where(cell.high_open & (cell.high < np.inf), np.nextafter(cell.high, -np.inf), cell.high)
    low, high = np.where(whole, np.ceil(above), cell.low), np.where(whole, np.floor(below), cell.high)
    return replace(
        cell, low=low, high=high, low_open=cell.low_open & ~whole, high_open=cell.high_open & ~whole
    )


def bounded(cell: Cell, low: Floats, high: Floats, space: Space) -> Cell:
    """The part of a cell between two closed bounds per column."""
    return intersection(cell, tightened(box_cell(low, high), space))


def intersection(one: Cell, other: Cell) -> Cell:
    """What two cells have in common."""
    codes = dict(one.codes)
    for index, allowed in other.codes.items():
        codes[index] = codes[index] & allowed if index in codes else allowed
    low, high = np.maximum(one.low, other.low), np.minimum(one.high, other.high)
    common = replace(
        one,
        low=low,
        high=high,
        low_open=(one.low_open & (one.low == low)) | (other.low_open & (other.low == low)),
        high_open=(one.high_open & (one.high == high)) | (other.high_open & (other.high == high)),
        codes=codes,
        conditions=one.conditions + tuple(c for c in other.conditions if c not in one.conditions),
    )
    return common if other.is_box else with_faces(common, other.faces, other.limits, other.strict)


def with_faces(cell: Cell, faces: Floats, limits: Floats, strict: Bools) -> Cell:
    """A cell cut by further half-spaces."""
    return replace(
        cell,
        faces=np.concatenate([cell.faces, faces]),
        limits=np.concatenate([cell.limits, limits]),
        strict=np.concatenate([cell.strict, strict]),
    )


def box_is_empty(cell: Cell) -> bool:
    """Whether the bounds and levels alone leave no point."""
    if any(not allowed for allowed in cell.codes.values()):
        return True
    reversed_ends = (cell.low > cell.high) | (cell.low == np.inf) | (cell.high == -np.inf)
    pinched = (cell.low == cell.high) & (cell.low_open | cell.high_open)
    return bool(np.any(reversed_ends | pinched | np.isnan(cell.low) | np.isnan(cell.high)))


def is_empty(cell: Cell, space: Space) -> bool:
    """Whether no point satisfies the bounds, levels and faces (conditions are not looked at)."""
    return box_is_empty(cell) or (not cell.is_box and interior_point(cell, space) is None)


def opposite_faces_exclude(cell: Cell) -> bool:
    """Whether two parallel faces leave nothing between them, like `x + z > 2` and `x + z < 1`."""
    size = np.linalg.norm(cell.faces, axis=1)
    normals = cell.faces / np.where(size > 0, size, 1.0)[:, None]
    limits = cell.limits / np.where(size > 0, size, 1.0)
    opposite = normals @ normals.T < -1 + 1e-12
    room = limits[:, None] + limits[None, :]
    return bool(np.any(opposite & (room < -1e-9 * (1 + np.abs(limits)))))


def is_flat(cell: Cell, space: Space) -> bool:
    """Whether a cell that has points has no volume in its continuous columns, like `x = 2`."""
    return interior_point(cell, space, everywhere=True) is None


def largest(cell: Cell, affine: Floats) -> float:
    """The supremum of an affine function (coefficients…, constant) over the box around a cell."""
    coefficients = affine[:-1]
    used = coefficients != 0
    ends = np.where(coefficients[used] > 0, cell.high[used], cell.low[used])
    return float(coefficients[used] @ ends + affine[-1]) if used.any() else float(affine[-1])


@dataclass(frozen=True, eq=False)
class Depth:
    """A point, and the least slack of the inequalities there; a slack of 0 is on a boundary."""

    point: Floats
    slack: float

    @property
    def is_inside(self) -> bool:
        return self.slack > SMALLEST_SLACK


def interior_point(cell: Cell, space: Space, *, everywhere: bool = False) -> Floats | None:
    """A point deep inside the cell; None where it is empty. See `deepest`."""
    found = deepest(cell, space, everywhere=everywhere)
    return found.point if found is not None and found.is_inside else None


def deepest(
    cell: Cell,
    space: Space,
    positive: Sequence[Floats] = (),
    *,
    nonnegative: Sequence[Floats] = (),
    everywhere: bool = False,
) -> Depth | None:
    """The point of the cell that lies deepest where affine functions (coefficients…, constant) are positive.

    Maximises t ≤ 1 such that every strict inequality holds with slack t, in units of the columns' ranges;
    with `everywhere`, so must every other one over continuous columns: then only points in the interior have
    any slack. None where there is no point even with a slack of 0.
    """
    if box_is_empty(cell) or any(largest(cell, row) <= 0 for row in positive):
        return None
    if any(largest(cell, row) < 0 for row in nonnegative):
        return None
    strict, loose = ([row for row in rows if row[:-1].any()] for rows in (positive, nonnegative))
    above = np.array([*strict, *loose]).reshape(-1, len(cell.low) + 1)
    cell = with_faces(cell, -above[:, :-1], above[:, -1], np.arange(len(above)) < len(strict))
    point = _centre(cell, space)
    pinched = bool(np.any((cell.low == cell.high) & ~space.integral))
    if cell.is_box:
        return Depth(point, 0.0 if everywhere and pinched else 1.0)
    if everywhere:
        inner = ~space.integral
        across = (cell.faces[:, inner] != 0).any(axis=1)
        cell = replace(
            cell,
            low_open=cell.low_open | inner,
            high_open=cell.high_open | inner,
            strict=cell.strict | across,
        )
    found = _program(cell, space, point)
    return replace(found, slack=0.0) if found is not None and everywhere and pinched else found


def _program(cell: Cell, space: Space, point: Floats) -> Depth | None:
    if not cell.faces.any():  # faces without columns, like 1 < 2
        return Depth(point, float(np.all(np.where(cell.strict, cell.limits > 0, cell.limits >= 0))))
    unit = _units(cell, space)
    found = _maximise(cell, space, np.where(space.integral, 0.0, point), unit, point)
    if found is None or not 0 < found.slack < POLISHED:
        return found
    # The solver's tolerance is of the order of this slack: solve again in units that fit the sliver.
    finer = np.where(space.integral, 1.0, unit * POLISHED)
    fixed = replace(
        cell,
        low=np.where(space.integral, found.point, cell.low),
        high=np.where(space.integral, found.point, cell.high),
    )
    again = _maximise(fixed, space, np.where(space.integral, 0.0, found.point), finer, found.point)
    if again is None or not _holds(cell, again.point):
        return Depth(found.point, 0.0)
    return Depth(again.point, max(again.slack * POLISHED, float(np.nextafter(SMALLEST_SLACK, 1.0))))


def _maximise(cell: Cell, space: Space, origin: Floats, unit: Floats, point: Floats) -> Depth | None:
    """Max t ≤ 1 with faces @ x + t ≤ limits where strict, and x between open ends by t, in these units."""
    used = np.flatnonzero((cell.faces != 0).any(axis=0))
    scaled, room = cell.faces[:, used] * unit[used], cell.limits - cell.faces @ origin
    norm = np.linalg.norm(scaled, axis=1)
    norm = np.where(norm > 0, norm, 1.0)
    low, high = (cell.low - origin)[used] / unit[used], (cell.high - origin)[used] / unit[used]
    open_low = cell.low_open[used] & np.isfinite(low)
    open_high = cell.high_open[used] & np.isfinite(high)
    identity = np.eye(len(used))
    matrix = np.concatenate([scaled / norm[:, None], -identity[open_low], identity[open_high]])
    right = np.concatenate([room / norm, -low[open_low], high[open_high]])
    slacks = np.append(cell.strict, np.ones(open_low.sum() + open_high.sum())).astype(float)
    if np.any(right < -FARTHEST):  # the solver would call it infeasible; evaluation has to tell
        return Depth(point, 1.0)
    solution = milp(
        np.append(np.zeros(len(used)), -1.0),
        integrality=np.append(space.integral[used], False).astype(int),
        bounds=Bounds(np.append(low, 0.0), np.append(high, 1.0)),
        constraints=LinearConstraint(np.column_stack([matrix, slacks]), -np.inf, right),
    )
    if solution.x is None:
        return None
    found = point.copy()
    found[used] = origin[used] + unit[used] * solution.x[:-1]
    found[space.integral] = np.round(found[space.integral])
    return Depth(found, float(solution.x[-1]) if slacks.any() else 1.0)


def _holds(cell: Cell, point: Floats) -> bool:
    """Whether a point meets every inequality as evaluated."""
    room = cell.limits - cell.faces @ point
    above = np.where(cell.low_open, point > cell.low, point >= cell.low)
    below = np.where(cell.high_open, point < cell.high, point <= cell.high)
    return bool(np.all(np.where(cell.strict, room > 0, room >= 0)) and np.all(above & below))


def _units(cell: Cell, space: Space) -> Floats:
    """Units in which the cell is neither huge nor tiny; whole numbers stay whole."""
    extent = cell.high - cell.low
    narrow = np.isfinite(extent) & (extent > 0)
    unit = np.where(narrow, np.minimum(np.where(narrow, extent, 1.0), space.width), space.width)
    return np.where(space.integral, 1.0, unit)


def _centre(cell: Cell, space: Space) -> Floats:
    """A point well inside the bounds and levels, within the observed range where they meet."""
    first, last = np.maximum(cell.low, space.observed_low), np.minimum(cell.high, space.observed_high)
    meets = (first < last) & np.isfinite(space.observed_high - space.observed_low)
    low, high = np.where(meets, first, cell.low), np.where(meets, last, cell.high)
    step = space.width / 4
    low, high = (
        np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - step, 0.0)),
        np.where(np.isfinite(high), high, np.where(np.isfinite(low), low + step, 0.0)),
    )
    middle = low + (high - low) / 2
    whole = np.minimum(np.maximum(np.round(middle), np.ceil(cell.low)), np.floor(cell.high))
    point = np.where(space.integral, whole, middle)
    for index, allowed in cell.codes.items():
        point[index] = min(allowed)
    return point


def simplest(point: Floats, space: Space, holds: Callable[[Floats], bool]) -> Floats | None:
    """The point, continuous columns rounded to as few digits as `holds` permits; None if it never holds."""
    with np.errstate(divide="ignore"):
        leading = np.floor(np.log10(space.width))
    for digits in range(1, 13):
        unit = 10.0 ** (leading - digits)
        with np.errstate(over="ignore"):
            rounded = np.where(space.integral, point, np.round(point / unit) / 10.0 ** (digits - leading))
        if np.isfinite(rounded).all() and holds(rounded):
            return rounded
    return point if holds(point) else None


def covered(cell: Cell, covers: Sequence[Cell], space: Space, budget: list[int]) -> bool:
    """Whether every point of a cell lies in one of `covers`; False also where the budget runs out."""
    if is_empty(cell, space):
        return True
    if not covers:
        return False
    first, rest = covers[0], covers[1:]
    if any(condition not in cell.conditions for condition in first.conditions):
        return covered(cell, rest, space, budget)
    for outside in _outside(cell, first, space):
        budget[0] -= 1
        if budget[0] < 0 or not covered(outside, rest, space, budget):
            return False
    return True


def _outside(cell: Cell, other: Cell, space: Space) -> Iterator[Cell]:
    """The part of a cell outside another, as disjoint cells: one for each constraint, the first broken."""
    inside = cell
    for within, beyond in _cuts(cell, other):
        yield tightened(intersection(inside, beyond), space)
        inside = tightened(intersection(inside, within), space)
    for column, allowed in other.codes.items():
        present = inside.codes.get(column, frozenset(range(space.sizes[column])))
        yield replace(inside, codes={**inside.codes, column: present - allowed})
        inside = replace(inside, codes={**inside.codes, column: present & allowed})
    for face, limit, strict in zip(other.faces, other.limits, other.strict, strict=True):
        yield with_faces(inside, -face[None], -np.array([limit]), np.array([not strict]))
        inside = with_faces(inside, face[None], np.array([limit]), np.array([strict]))


def _cuts(cell: Cell, other: Cell) -> Iterator[tuple[Cell, Cell]]:
    """Each end of the other cell that cuts this one, as the half-space within it and the one beyond it."""
    size = len(cell.low)
    lower = (other.low > cell.low) | ((other.low == cell.low) & other.low_open & ~cell.low_open)
    upper = (other.high < cell.high) | ((other.high == cell.high) & other.high_open & ~cell.high_open)
    for index in np.flatnonzero(lower):
        end, opened = other.low[index], bool(other.low_open[index])
        yield _half(size, index, low=end, opened=opened), _half(size, index, high=end, opened=not opened)
    for index in np.flatnonzero(upper):
        end, opened = other.high[index], bool(other.high_open[index])
        yield _half(size, index, high=end, opened=opened), _half(size, index, low=end, opened=not opened)


def _half(size: int, index: Any, *, low: float = -np.inf, high: float = np.inf, opened: bool) -> Cell:
    """{x : x_index between low and high}, the finite end open or closed."""
    lows, highs = np.full(size, -np.inf), np.full(size, np.inf)
    lows[index], highs[index] = low, high
    return replace(
        box_cell(lows, highs), low_open=opened & np.isfinite(lows), high_open=opened & np.isfinite(highs)
    )
