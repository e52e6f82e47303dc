"""Half-spaces over a box: growing and tightening the box, interior points, corners, and hit-and-run.

Points of half-spaces too thin for rejection are walked to, whole numbers included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocbnn.regions.intervals import BoolArray, FloatArray, HalfSpace, Interval
from ocbnn.regions.limits import REACH, Limits, growable_sides, grown, observed_width
from ocbnn.schema import Schema

Indices = NDArray[np.intp]
MOST_ROWS = 10_000
"""Rows of the linear program that looks for corners in all directions at once."""
INSET = 1e-6
"""How far corners are moved towards the centre, as a share of the way."""
SWEEPS = 6
"""Rounds over all columns, one at a time, that make a rounded point whole and leave it uniform again."""
FLAT = 1e-12
"""A polytope this thin, in scaled units, has no inside."""


def faces_matrix(faces: Sequence[HalfSpace], names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """A (faces, columns) and b (faces,) of A x ≤ b over the named columns."""
    matrix = np.array(
        [[face.coefficients.get(name, 0.0) for name in names] for face in faces], dtype=np.float64
    )
    return matrix.reshape(len(faces), len(names)), np.array([face.bound for face in faces], dtype=np.float64)


def equalities(faces: Sequence[HalfSpace]) -> tuple[tuple[HalfSpace, ...], tuple[HalfSpace, ...]]:
    """The faces that come with their reverse, one of each pair, and the remaining inequalities."""
    closed = {face.normalised() for face in faces if not face.strict}
    paired = [face for face in faces if not face.strict and face.reversed().normalised() in closed]
    kept: dict[HalfSpace, HalfSpace] = {}
    for face in paired:
        if face.reversed().normalised() not in kept:
            kept.setdefault(face.normalised(), face)
    return tuple(kept.values()), tuple(face for face in faces if face not in paired)


def linear_program(
    objective: FloatArray,
    matrix: Any,
    bound: FloatArray,
    ends: Sequence[tuple[float | None, float | None]],
) -> FloatArray | None:
    """The x of least objective · x with matrix x ≤ bound, each entry between its ends; None where none is."""
    from scipy.optimize import linprog  # slow to import, and boxes never need it

    solution = linprog(objective, A_ub=matrix, b_ub=bound, bounds=list(ends), method="highs")
    return np.asarray(solution.x, dtype=np.float64) if solution.status == 0 else None


def grown_to_faces(
    limits: Limits, faces: Sequence[HalfSpace], schema: Schema, sides: tuple[BoolArray, BoolArray]
) -> Limits:
    """The limits grown, on the given sides, until the region goes on by `REACH` past its faces.

    The several-column counterpart of the rule for one threshold: the least share t of the observed ranges
    such that some point of the grown box clears every face by `REACH`; where faces lie too close for that,
    such that some point meets them all.
    """
    if not faces or len(limits.empty_columns()):
        return limits
    matrix, bound = faces_matrix(faces, schema.names)
    sides = sides[0] & (matrix > 0).any(axis=0), sides[1] & (matrix < 0).any(axis=0)
    if not (sides[0].any() or sides[1].any()):
        return limits
    width = np.array([observed_width(column) for column in schema.columns])
    cleared = _least_growth(limits, matrix, bound - REACH * np.abs(matrix) @ width, width, sides)
    if cleared is not None:
        return grown(limits, schema, sides, cleared) if cleared > 0 else limits
    met = _least_growth(limits, matrix, bound, width, sides)
    return grown(limits, schema, sides, met + REACH) if met is not None and met > 0 else limits


def _least_growth(
    limits: Limits,
    matrix: FloatArray,
    bound: FloatArray,
    width: FloatArray,
    sides: tuple[BoolArray, BoolArray],
) -> float | None:
    used = np.flatnonzero((matrix != 0).any(axis=0))
    low, size = limits.low[used], width[used]
    scaled, scaled_bound = _normalised(matrix[:, used] * size, bound - matrix[:, used] @ low)
    count, identity = len(used), np.eye(len(used))
    growth = [
        np.zeros((len(matrix), 1)),
        -sides[0][used, None].astype(float),
        -sides[1][used, None].astype(float),
    ]
    rows = np.hstack([np.vstack([scaled, -identity, identity]), np.vstack(growth)])
    ends = np.concatenate([scaled_bound, np.zeros(count), (limits.high[used] - low) / size])
    objective = np.append(np.zeros(count), 1.0)
    solution = linear_program(objective, rows, ends, [(None, None)] * count + [(0.0, None)])
    return None if solution is None else float(np.where(solution[-1] > 1e-9, solution[-1], 0.0))


def _normalised(matrix: FloatArray, bound: FloatArray) -> tuple[FloatArray, FloatArray]:
    largest = np.max(np.abs(matrix), axis=1, initial=0.0)  # whose square may be no number any more
    largest = np.where(largest > 0, largest, 1.0)
    norm = np.linalg.norm(matrix / largest[:, None], axis=1)
    norm = np.where(norm > 0, norm, 1.0) * largest
    return matrix / norm[:, None], bound / norm


def tightened(limits: Limits, faces: Sequence[HalfSpace], schema: Schema, passes: int = 8) -> Limits:
    """The limits cut back to what the faces leave: each face bounds each of its columns, given the others."""
    if not faces or len(limits.empty_columns()):
        return limits
    matrix, bound = faces_matrix(faces, schema.names)
    low, high = limits.low.copy(), limits.high.copy()
    for _ in range(passes):
        before = low.copy(), high.copy()
        for row, end in zip(matrix, bound, strict=True):
            used = np.flatnonzero(row)
            least = np.where(row > 0, row * low, row * high)[used]
            # Rounding must not cut a point off, so the ends stay a little further out than computed.
            spare = 1e-12 * (np.abs(least).sum() + abs(end))
            reach = (end - (least.sum() - least) + spare) / row[used]
            upward = row[used] > 0
            high[used[upward]] = np.minimum(high[used[upward]], reach[upward])
            low[used[~upward]] = np.maximum(low[used[~upward]], reach[~upward])
        whole = limits.discrete
        low[whole], high[whole] = np.ceil(low[whole] - 1e-9), np.floor(high[whole] + 1e-9)
        if np.any(low > high) or (np.array_equal(low, before[0]) and np.array_equal(high, before[1])):
            break
    codes = tuple(
        None if values is None else values[(values >= low[index]) & (values <= high[index])]
        for index, values in enumerate(limits.codes)
    )
    return Limits(low, high, limits.discrete, codes)


def face_limits(
    limits: Limits, faces: Sequence[HalfSpace], schema: Schema, intervals: Mapping[str, Interval]
) -> Limits:
    """The limits of a box under half-spaces: grown to reach past them, then cut back to what they leave."""
    sides = growable_sides(schema, intervals, limits)
    return tightened(grown_to_faces(limits, faces, schema, sides), faces, schema)


@dataclass(frozen=True)
class Polytope:
    """{z : matrix z ≤ bound} over the free columns, z = (x − low) / size; equalities are solved for others.

    The pivots are pivot_constant − pivot_matrix z, in their own scaled units. The centre is a point inside.
    """

    limits: Limits
    schema: Schema
    equal: tuple[HalfSpace, ...]
    matrix: FloatArray
    bound: FloatArray
    free: Indices
    pivots: Indices
    pivot_matrix: FloatArray
    pivot_constant: FloatArray
    centre: FloatArray


def polytope_of(limits: Limits, faces: Sequence[HalfSpace], schema: Schema) -> Polytope | None:
    """The half-spaces over those of their columns that can vary; None where there is no point in them."""
    equal, unequal = equalities(faces)
    size = limits.high - limits.low
    used = {schema.index(name) for face in faces for name in face.coefficients}
    columns = np.array(sorted(index for index in used if size[index] > 0), dtype=np.intp)

    def scaled(some: Sequence[HalfSpace]) -> tuple[FloatArray, FloatArray]:
        matrix, bound = faces_matrix(some, schema.names)
        return _normalised(matrix[:, columns] * size[columns], bound - matrix @ limits.low)

    solved = _eliminate(*scaled(equal), last=limits.discrete[columns])
    if solved is None:
        return None
    pivots, free, pivot_matrix, pivot_constant = solved
    count = len(columns)
    matrix, bound = scaled(unequal)
    matrix = np.vstack([matrix, np.eye(count), -np.eye(count)])
    bound = np.concatenate([bound, np.ones(count), np.zeros(count)])
    bound = bound - matrix[:, pivots] @ pivot_constant
    matrix = matrix[:, free] - matrix[:, pivots] @ pivot_matrix
    strict = np.append([face.strict for face in unequal], np.zeros(2 * count)).astype(bool)
    kept = np.abs(matrix).max(axis=1, initial=0.0) > 1e-14
    if np.any(np.where(strict, bound <= FLAT, bound < -1e-9)[~kept]):
        return None
    matrix, bound = _normalised(matrix[kept], bound[kept])
    centre = interior_point(matrix, bound, strict[kept])
    if centre is None:
        return None
    free, pivots = columns[free], columns[pivots]
    return Polytope(limits, schema, equal, matrix, bound, free, pivots, pivot_matrix, pivot_constant, centre)


def _eliminate(
    matrix: FloatArray, bound: FloatArray, last: BoolArray
) -> tuple[Indices, Indices, FloatArray, FloatArray] | None:
    """Gauss–Jordan: z[pivots] = constant − rest @ z[free]; columns in `last` are pivots only if need be."""
    rows = np.hstack([matrix, bound[:, None]])
    count = matrix.shape[1]
    pivots: list[int] = []
    for place in range(len(rows)):
        size = np.abs(rows[place, :count])
        if size.max(initial=0.0) < 1e-12:
            if abs(rows[place, count]) > 1e-9:
                return None
            continue
        pivot = int(np.argmax(np.where(last, 1e-3 * size, size)))
        rows[place] /= rows[place, pivot]
        others = np.arange(len(rows)) != place
        rows[others] -= rows[others, pivot, None] * rows[place]
        pivots.append(pivot)
    kept = np.abs(rows[:, :count]).max(axis=1, initial=0.0) > 1e-12
    free = np.setdiff1d(np.arange(count), pivots)
    return np.array(pivots, dtype=np.intp), free, rows[kept][:, free], rows[kept][:, count]


def interior_point(matrix: FloatArray, bound: FloatArray, strict: BoolArray) -> FloatArray | None:
    """The Chebyshev centre of {z : matrix z ≤ bound}, farthest from every face; None where it is empty."""
    centre, distance = _deepest(matrix, bound, np.ones(len(matrix), dtype=bool))
    if distance <= FLAT and strict.any():  # a flat polytope may still be clear of its open faces
        distance = _deepest(matrix, bound, strict)[1] - 2 * FLAT
    return centre if distance >= -FLAT else None


def _deepest(matrix: FloatArray, bound: FloatArray, faces: BoolArray) -> tuple[FloatArray, float]:
    """The point farthest from some of the faces, and that distance; −inf where there is no point at all."""
    count = matrix.shape[1]
    if not count:
        return np.empty(0), 0.0
    rows = np.hstack([matrix, faces[:, None].astype(float)])
    objective = np.append(np.zeros(count), -1.0)
    solution = linear_program(objective, rows, bound, [(None, None)] * count + [(None, 1.0)])
    return (np.empty(0), -np.inf) if solution is None else (solution[:-1], float(solution[-1]))


def extreme_points(polytope: Polytope, directions: int = 48) -> FloatArray:
    """Corners (k, free): the farthest along each column, both ways, and along fixed random directions.

    All directions are blocks of one linear program; of many faces fewer directions are looked at.
    """
    from scipy.sparse import csr_array, eye_array, kron

    rows, count = polytope.matrix.shape
    some = np.random.default_rng(0).standard_normal((min(4 * count, max(directions - 2 * count, 0)), count))
    wanted = np.vstack([np.eye(count), -np.eye(count), some])
    if not wanted.size:
        return np.empty((0, count))
    wanted = wanted[:: max(1, -(-len(wanted) * rows // MOST_ROWS))]
    blocks = kron(eye_array(len(wanted)), csr_array(polytope.matrix), format="csr")
    ends = [(None, None)] * wanted.size
    found = linear_program(wanted.ravel(), blocks, np.tile(polytope.bound, len(wanted)), ends)
    return np.empty((0, count)) if found is None else found.reshape(-1, count)


def spread_points(
    generator: np.random.Generator, extremes: FloatArray, centre: FloatArray, n: int
) -> FloatArray:
    """Points (n, free) inside, spread out: random convex combinations of extreme points and the centre.

    A walk that starts at the centre of a wedge a thousand times longer than wide would need a million steps
    to get from end to end; one that starts spread, and steps in the shape of that spread, needs a few.
    """
    known = np.vstack([extremes, centre])
    weights = generator.dirichlet(np.full(len(known), 0.5), size=n)
    return 0.95 * (weights @ known) + 0.05 * centre


def hit_and_run(
    generator: np.random.Generator, polytope: Polytope, points: FloatArray, rounds: int = 3
) -> FloatArray:
    """Moves every point by hit-and-run until the points are uniform on the polytope, one chain for each.

    A step draws a direction, then a uniform place on the chord through the point. Directions follow the
    covariance of the points themselves, taken anew each round, so that thin polytopes are as easy as round
    ones.
    """
    count = points.shape[1]
    for _ in range(rounds if count else 0):
        covariance = (
            np.cov(points, rowvar=False).reshape(count, count) if len(points) > count + 1 else np.eye(count)
        )
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 1e-24))
        room = polytope.bound - points @ polytope.matrix.T
        for _ in range(12 + 6 * count):
            direction = generator.standard_normal(points.shape) @ root.T
            speed = direction @ polytope.matrix.T
            share = speed / np.maximum(room, 1e-100)  # one step as a share of the distance to each face
            with np.errstate(divide="ignore", invalid="ignore"):
                forward, backward = 1 / share.max(axis=1), 1 / share.min(axis=1)
                place = backward + generator.random(len(points)) * (forward - backward)
            place = np.where(np.isfinite(place), place, 0.0)[:, None]
            points, room = points + place * direction, room - place * speed
    return points


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
    if polytope is None:
        return None
    extremes = extreme_points(polytope)

    def draw(count: int) -> FloatArray:
        moved = hit_and_run(generator, polytope, spread_points(generator, extremes, polytope.centre, count))
        if limits.discrete[polytope.free].any():
            moved = _whole(generator, polytope, moved)
        others = limits.from_unit(generator.random((count, len(schema.columns))))
        return _placed(moved, polytope, others)

    return draw


def corners(
    limits: Limits, faces: Sequence[HalfSpace], schema: Schema, boxed: FloatArray, directions: int
) -> FloatArray:
    """Corners of the half-spaces themselves, moved in a little; other columns as in the box's corners."""
    polytope = polytope_of(limits, faces, schema)
    if polytope is None:
        return boxed[:0]
    extremes = np.unique(extreme_points(polytope, directions).round(12), axis=0)
    moved = (1 - INSET) * extremes + INSET * polytope.centre
    count = max(len(moved), len(boxed))
    moved, others = (np.resize(some, (count, some.shape[1])) for some in (moved, boxed))
    return _placed(moved, polytope, others)


def _placed(moved: FloatArray, polytope: Polytope, others: FloatArray) -> FloatArray:
    """Coded points: scaled free columns put in their places among the others, solved columns after them."""
    points, limits = others.copy(), polytope.limits
    free, pivots, size = polytope.free, polytope.pivots, limits.high - limits.low
    solved = polytope.pivot_constant - moved @ polytope.pivot_matrix.T
    points[:, free] = np.clip(limits.low[free] + size[free] * moved, limits.low[free], limits.high[free])
    points[:, pivots] = limits.low[pivots] + size[pivots] * solved
    whole = np.array([index for index in (*free, *pivots) if limits.discrete[index]], dtype=np.intp)
    points[:, whole] = np.round(points[:, whole])
    return _met_exactly(points, polytope)


def _whole(generator: np.random.Generator, polytope: Polytope, moved: FloatArray) -> FloatArray:
    """The points with whole numbers in discrete columns, each column redrawn given the others."""
    free, limits = polytope.free, polytope.limits
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


def _met_exactly(points: FloatArray, polytope: Polytope) -> FloatArray:
    """Solves the equalities again in raw units: they leave no room for the rounding of scaled ones."""
    names = {polytope.schema.names[index] for index in polytope.pivots}
    for face in polytope.equal:
        solved, *others = names.intersection(face.coefficients) or [None]
        if solved is None or others:
            continue
        rest = HalfSpace({name: slope for name, slope in face.coefficients.items() if name != solved}, 0.0)
        value = (face.bound - rest.value(polytope.schema.values(points))) / face.coefficients[solved]
        points[:, polytope.schema.index(solved)] = value
    return points
