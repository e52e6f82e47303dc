"""Points of a region. A new sampler is one function and one row in `SAMPLERS`; contract tests pick it up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ocbnn.errors import RegionError
from ocbnn.regions.intervals import FloatArray
from ocbnn.regions.samplers.rows import brownian, hull, rows
from ocbnn.regions.samplers.uniform import Key, Sampler, is_thin, sobol, uniform, walk
from ocbnn.regions.sets import Region
from ocbnn.resources import require_memory
from ocbnn.schema import Schema

SAMPLERS: dict[str, Sampler] = {
    "uniform": uniform,
    "sobol": sobol,
    "rows": rows,
    "hull": hull,
    "brownian": brownian,
    "walk": walk,
}
WITHOUT_ROWS = frozenset({"uniform", "sobol", "walk"})
"""Samplers whose points are the same with and without rows of the data; all others may depend on them."""
FEW_COLUMNS = 3
"""Up to here even points cover the inputs; beyond, nearly all of them are like no case that occurs."""

__all__ = ["FEW_COLUMNS", "SAMPLERS", "WITHOUT_ROWS", "Key", "Sampler", "default_sampler", "sample"]


def default_sampler(region: Region, schema: Schema, data: FloatArray | None) -> str:
    """The sampler a region gets unless one is named.

    - `rows` where there are data and more than three columns: a rule about two columns of a wide table
      should be held on cases that look like cases in the others.
    - `walk` where half-spaces are too thin to be hit by chance, equalities above all.
    - `sobol` otherwise: uniform, and fewer gaps between points is fewer places to break the rule unseen.
    """
    if data is not None and len(data) and len(schema.columns) > FEW_COLUMNS:
        return "rows"
    return "walk" if is_thin(region, schema) else "sobol"


def sample(
    key: Key, region: Region, schema: Schema, data: FloatArray | None, n: int, sampler: str | None = None
) -> FloatArray:
    """Coded points (n, Q) inside the region; the same key gives the same points.

    Args:
        key: anything `numpy.random.default_rng` takes.
        region: where the points should be.
        schema: the table's columns, their kinds and ranges.
        data: coded rows (m, Q), where there are some; those with a missing value (NaN) are not used.
        n: how many points.
        sampler: a name in `SAMPLERS`; default: by `default_sampler`.

    Raises:
        RegionError: the region cannot be hit; the message says which condition is to blame.
    """
    if data is not None and (np.ndim(data) != 2 or np.shape(data)[1] != len(schema.columns)):
        raise RegionError(
            f"Data of shape {np.shape(data)} do not fit a schema of {len(schema.columns)} columns; "
            "pass coded rows (m, Q), as `schema.encode(frame)` gives them."
        )
    if data is not None:
        data = np.asarray(data)[schema.complete(data)]
    name = default_sampler(region, schema, data) if sampler is None else sampler
    if name not in SAMPLERS:
        raise RegionError(f"There is no sampler {name!r}; use one of {', '.join(SAMPLERS)}.")
    if n < 0:
        raise RegionError(f"Cannot draw {n} points; ask for 0 or more.")
    require_memory(2 * 8 * int(n) * len(schema.columns), f"{n:,} points of a region", "Ask for fewer points.")
    # By name, so that points do not depend on the order in which the columns stand.
    order = sorted(range(len(schema.columns)), key=lambda index: schema.columns[index].name)
    by_name = replace(schema, columns=tuple(schema.columns[index] for index in order))
    points = SAMPLERS[name](key, region, by_name, None if data is None else np.asarray(data)[:, order], n)
    return points[:, np.argsort(order)]
