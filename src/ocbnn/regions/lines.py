"""Along a column: the other inputs of a region that differ from a point in one column only."""

from __future__ import annotations

import numpy as np

from ocbnn.regions.intervals import FloatArray
from ocbnn.regions.sets import Region
from ocbnn.schema import Column, Schema

HALVINGS = 30
"""How often the way to an input outside of the region is halved."""


def moved(
    points: FloatArray, name: str, to: FloatArray | float, region: Region, schema: Schema
) -> FloatArray:
    """The points with one column at other values, pulled back as far as the region asks.

    A number ends at the last value inside on its way, found by halving; a level that is not inside is not
    taken at all. The points themselves are inside.
    """
    index, column = schema.index(name), schema.column(name)
    end = points.copy()
    end[:, index] = to
    outside = np.flatnonzero(~region.contains(end, schema))
    if not len(outside):
        return end
    start, far = points[outside, index], end[outside, index]
    kept, lost = np.zeros(len(outside)), np.ones(len(outside))
    tried = points[outside].copy()
    values = start.copy()
    for _ in range(HALVINGS if column.kind in ("continuous", "integer") else 0):
        share = (kept + lost) / 2
        tried[:, index] = start + share * (far - start)
        if column.kind == "integer":
            tried[:, index] = start + np.trunc(tried[:, index] - start)
        inside = region.contains(tried, schema)
        values = np.where(inside, tried[:, index], values)
        kept, lost = np.where(inside, share, kept), np.where(inside, lost, share)
    end[outside, index] = values
    return end


def stretch(points: FloatArray, name: str, region: Region, schema: Schema) -> tuple[FloatArray, FloatArray]:
    """How far down and up one column reaches around each point inside the region: `(m,)` each."""
    index, limits = schema.index(name), region.limits(schema)
    # A row may lie beyond what is drawn: then it is an end itself.
    low = np.minimum(limits.low[index], points[:, index])
    high = np.maximum(limits.high[index], points[:, index])
    return tuple(moved(points, name, end, region, schema)[:, index] for end in (low, high))  # type: ignore[return-value]


def on_axis(column: Column, values: FloatArray) -> FloatArray:
    """Values of a column on its axis in the model, such as that of logarithms; levels by their codes."""
    if column.kind == "category":
        return np.asarray(values, dtype=np.float64)
    return np.asarray(column.to_model(values)[:, 0])


def off_axis(column: Column, positions: FloatArray) -> FloatArray:
    """The inverse of `on_axis`; whole numbers are rounded."""
    further = np.zeros((len(positions), column.width - 1))
    return np.asarray(column.to_raw(np.column_stack([positions, further])))
