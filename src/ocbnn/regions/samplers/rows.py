"""Samplers that start from rows of the data: realistic in many columns, where uniform points are not."""

from __future__ import annotations

import numpy as np

from ocbnn.errors import RegionError
from ocbnn.regions.intervals import FloatArray
from ocbnn.regions.limits import coded_labels, observed_width, possible_ends
from ocbnn.regions.samplers.uniform import over_components, uniform_inside
from ocbnn.regions.sets import Single
from ocbnn.schema import Schema

NEAREST = 100
"""Donors come from the rows inside the region, or from this many nearest to it where fewer are inside."""
HULL_ROUNDS = 20
BROWNIAN_STEPS = 16
BROWNIAN_STEP = 0.25
"""Standard deviation of a step, as a share of the observed range: a full walk strays about one range."""


@over_components
def rows(
    generator: np.random.Generator, region: Single, schema: Schema, data: FloatArray | None, n: int
) -> FloatArray:
    """Random rows among those nearest to the region, their ruled columns redrawn jointly inside it."""
    pool = nearest_rows(_usable(data, schema, "rows"), region, schema)
    points = pool[generator.integers(len(pool), size=n)]
    return redrawn(generator, points, region, schema)


@over_components
def hull(
    generator: np.random.Generator, region: Single, schema: Schema, data: FloatArray | None, n: int
) -> FloatArray:
    """Dirichlet(1) combinations of Q + 1 random rows; discrete columns are copied from one of them.

    The rows are those inside the region, or the nearest to it where fewer than Q + 1 are inside. A
    combination that is outside all the same is drawn again a few times; then its ruled columns are redrawn
    inside, as `rows` does.
    """
    known = _usable(data, schema, "hull")
    inside = known[region.contains(known, schema)]
    pool = inside if len(inside) > len(schema.columns) else nearest_rows(known, region, schema)
    points = combinations(generator, pool, schema, n)
    outside = np.flatnonzero(~region.contains(points, schema))
    for _ in range(HULL_ROUNDS if pool is inside else 0):
        if not len(outside):
            break
        points[outside] = combinations(generator, pool, schema, len(outside))
        outside = outside[~region.contains(points[outside], schema)]
    if len(outside):
        points[outside] = redrawn(generator, points[outside], region, schema)
    return points


@over_components
def brownian(
    generator: np.random.Generator, region: Single, schema: Schema, data: FloatArray | None, n: int
) -> FloatArray:
    """Brownian walks from inside the region, from rows where there are data, that leave the observed range.

    For unbounded regions (paper, section on inference with COCPs). A step that would leave the region or
    the declared bounds is not taken; each walk ends after a random number of steps. Binary columns and
    categories stay as they started.
    """
    if data is None:
        points = uniform_inside(generator, region, schema, n)
    else:
        pool = nearest_rows(_usable(data, schema, "brownian"), region, schema)
        points = redrawn(generator, pool[generator.integers(len(pool), size=n)], region, schema)
    moving = np.array([column.kind in ("continuous", "integer") for column in schema.columns])
    whole = np.array([column.kind == "integer" for column in schema.columns])
    width = np.array([observed_width(column) for column in schema.columns]) * moving
    limits = region.limits(schema)
    ruled = np.isin(schema.names, list(region.columns()))
    width[ruled & (limits.low == limits.high)] = 0.0
    low, high = np.array([possible_ends(column) for column in schema.columns]).T
    lengths = generator.integers(1, BROWNIAN_STEPS + 1, size=n)
    for step in range(BROWNIAN_STEPS):
        going = np.flatnonzero(lengths > step)
        tried = points[going] + BROWNIAN_STEP * width * generator.standard_normal((len(going), len(width)))
        tried[:, whole] = np.round(tried[:, whole])
        taken = (tried >= low) & (tried <= high) | ~moving
        taken[:, ruled] = (region.contains(tried, schema) & taken[:, ruled].all(axis=1))[:, None]
        points[going] = np.where(taken, tried, points[going])
    return points


def redrawn(generator: np.random.Generator, points: FloatArray, region: Single, schema: Schema) -> FloatArray:
    """The points with their ruled columns drawn anew, jointly and uniformly inside the region."""
    ruled = [schema.index(name) for name in sorted(region.columns())]
    result = points.copy()
    if ruled:
        result[:, ruled] = uniform_inside(generator, region, schema, len(points))[:, ruled]
    return result


def combinations(generator: np.random.Generator, pool: FloatArray, schema: Schema, n: int) -> FloatArray:
    """Convex combinations of Q + 1 random rows; discrete columns from one of those, chosen by its weight."""
    count = len(schema.columns) + 1
    chosen = generator.integers(len(pool), size=(n, count))
    weights = generator.dirichlet(np.ones(count), size=n)
    points = np.zeros((n, count - 1))
    for place in range(count):
        points += weights[:, place, None] * pool[chosen[:, place]]
    discrete = np.array([column.kind != "continuous" for column in schema.columns])
    heir = (weights.cumsum(axis=1) < generator.random((n, 1))).sum(axis=1).clip(max=count - 1)
    donors = pool[chosen[np.arange(n), heir]]
    points[:, discrete] = donors[:, discrete]
    return np.clip(points, pool.min(axis=0), pool.max(axis=0))  # the sum of weights is 1 only up to rounding


def nearest_rows(known: FloatArray, region: Single, schema: Schema) -> FloatArray:
    """The rows inside the region; where they are fewer than `NEAREST`, those at most as far as that many."""
    distance = distances(known, region, schema)
    furthest = np.sort(distance)[min(NEAREST, len(known)) - 1]
    return known[distance <= furthest]


def distances(known: FloatArray, region: Single, schema: Schema) -> FloatArray:
    """How far rows are from a region, in observed ranges; a level or condition that does not hold is 1."""
    box, faces, rest = region.pieces
    total = np.zeros(len(known))
    for name, interval in box.intervals.items():
        column, values = schema.column(name), known[:, schema.index(name)]
        missed = np.maximum(interval.low - values, 0) + np.maximum(values - interval.high, 0)
        total += missed / observed_width(column)
    for name, labels in box.levels.items():
        total += ~np.isin(known[:, schema.index(name)], coded_labels(schema.column(name), labels))
    for face in faces:
        slopes = face.coefficients.items()
        width = sum(abs(slope) * observed_width(schema.column(name)) for name, slope in slopes)
        total += np.maximum(face.value(schema.values(known)) - face.bound, 0) / (width or 1.0)
    if rest:
        total += ~region.contains(known, schema)
    return total


def _usable(data: FloatArray | None, schema: Schema, sampler: str) -> FloatArray:
    """The rows within the declared bounds; an error where there are none."""
    if data is None:
        raise RegionError(
            f"The sampler {sampler!r} starts from rows of the data, and none were given: "
            "pass data, or use sampler='sobol'."
        )
    known = np.asarray(data, dtype=np.float64)
    low, high = np.array([possible_ends(column) for column in schema.columns]).T
    known = known[np.all((known >= low) & (known <= high), axis=1)]
    if not len(known):
        raise RegionError(
            f"The sampler {sampler!r} starts from rows of the data, and none is complete and within the "
            "declared bounds: correct the bounds, or use sampler='sobol'."
        )
    return known
