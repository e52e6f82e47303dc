"""Points of half-spaces too thin for rejection: hit-and-run over their polytope, whole numbers included."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ocbnn.regions.intervals import FloatArray, HalfSpace
from ocbnn.regions.limits import Limits
from ocbnn.regions.polytope import (
    Indices,
    Polytope,
    equalities,
    extreme_points,
    hit_and_run,
    interior_point,
    polytope_of,
    spread_points,
)
from ocbnn.schema import Schema

INSET = 1e-6
"""How far corners are moved towards the centre, as a share of the way."""
SWEEPS = 6
"""Rounds over all columns, one at a time, that make a rounded point whole and leave it uniform again."""


def walker(
    generator: np.random.Generator, limits: Limits, faces: Sequence[HalfSpace], schema: Schema
) -> Callable[[int], FloatArray] | None:
    """A function that draws that many points inside limits and faces; None where there are none.

    Columns no face names are independent of the rest and uniform. Equalities are met by solving for one of
    their columns. Integer columns walk as if continuous, are rounded, and are then redrawn column by
    column, each uniform over what the others leave it, which brings nearly all points back inside; the
    caller keeps those.
    """
    polytope = polytope_of(limits, faces, schema)
    centre = None if polytope is None else interior_point(polytope)
    if polytope is None or centre is None:
        return None
    extremes = extreme_points(polytope)

    def draw(count: int) -> FloatArray:
        moved = hit_and_run(generator, polytope, spread_points(generator, extremes, centre, count))
        if limits.discrete[polytope.free].any():
            moved = _whole(generator, polytope, moved, limits)
        others = limits.from_unit(generator.random((count, len(schema.columns))))
        return _placed(moved, polytope, others, limits, faces, schema)

    return draw


def corners(
    limits: Limits, faces: Sequence[HalfSpace], schema: Schema, boxed: FloatArray, directions: int
) -> FloatArray:
    """Corners of the half-spaces themselves, moved in a little; other columns as in the box's corners."""
    polytope = polytope_of(limits, faces, schema)
    centre = None if polytope is None else interior_point(polytope)
    if polytope is None or centre is None:
        return boxed[:0]
    extremes = np.unique(extreme_points(polytope, directions).round(12), axis=0)
    moved = (1 - INSET) * extremes + INSET * centre
    count = max(len(moved), len(boxed))
    return _placed(
        np.resize(moved, (count, moved.shape[1])),
        polytope,
        np.resize(boxed, (count, boxed.shape[1])),
        limits,
        faces,
        schema,
    )


def _placed(
    moved: FloatArray,
    polytope: Polytope,
    others: FloatArray,
    limits: Limits,
    faces: Sequence[HalfSpace],
    schema: Schema,
) -> FloatArray:
    """Coded points: scaled free columns put in their places among the others, solved columns after them."""
    points = others.copy()
    free, pivots, size = polytope.free, polytope.pivots, limits.high - limits.low
    solved = polytope.pivot_constant - moved @ polytope.pivot_matrix.T
    points[:, free] = np.clip(limits.low[free] + size[free] * moved, limits.low[free], limits.high[free])
    points[:, pivots] = limits.low[pivots] + size[pivots] * solved
    whole = np.array([index for index in (*free, *pivots) if limits.discrete[index]], dtype=np.intp)
    points[:, whole] = np.round(points[:, whole])
    return _met_exactly(points, pivots, faces, schema)


def _whole(
    generator: np.random.Generator, polytope: Polytope, moved: FloatArray, limits: Limits
) -> FloatArray:
    free = polytope.free
    size, discrete = (limits.high - limits.low)[free], limits.discrete[free]
    moved = np.where(discrete, np.round(moved * size) / size, moved)
    for _ in range(SWEEPS):
        for index in np.argsort(~discrete, kind="stable"):
            below, above = _room(polytope, moved, int(index))
            if discrete[index]:
                first, last = np.ceil(below * size[index] - 1e-9), np.floor(above * size[index] + 1e-9)
                drawn = (first + np.floor(generator.random(len(moved)) * (last - first + 1))) / size[index]
                fits = last >= first
            else:
                drawn = below + generator.random(len(moved)) * (above - below)
                fits = above >= below
            moved[:, index] = np.where(fits, drawn, moved[:, index])
    return moved


def _room(polytope: Polytope, moved: FloatArray, index: int) -> tuple[FloatArray, FloatArray]:
    """The least and the largest value of one column that the faces leave, given the others."""
    slopes = polytope.matrix[:, index]
    rest = polytope.bound - moved @ polytope.matrix.T + np.outer(moved[:, index], slopes)
    upward, downward = slopes > 1e-14, slopes < -1e-14
    above = (rest[:, upward] / slopes[upward]).min(axis=1, initial=np.inf)
    below = (rest[:, downward] / slopes[downward]).max(axis=1, initial=-np.inf)
    return below, above


def _met_exactly(
    points: FloatArray, pivots: Indices, faces: Sequence[HalfSpace], schema: Schema
) -> FloatArray:
    """Solves the equalities again in raw units: they leave no room for the rounding of scaled ones."""
    equal, _ = equalities(faces)
    names = [schema.names[index] for index in pivots]
    for face in equal:
        mine = [name for name in names if name in face.coefficients]
        if len(mine) != 1:
            continue
        index = schema.index(mine[0])
        values = schema.values(points)
        slope = face.coefficients[mine[0]]
        rest = HalfSpace({n: c for n, c in face.coefficients.items() if n != mine[0]}, 0.0).value(values)
        points[:, index] = (face.bound - rest) / slope
    return points
