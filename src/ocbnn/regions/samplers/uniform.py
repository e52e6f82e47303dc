"""Samplers that spread points evenly over the region, unruled columns over all of their range."""

from __future__ import annotations

import numpy as np

from ocbnn.regions.intervals import FloatArray
from ocbnn.regions.samplers.common import (
    kept_inside,
    over_components,
    reachable_limits,
    rejected_inside,
    walked_inside,
)
from ocbnn.regions.sets import Single
from ocbnn.schema import Schema


@over_components
def uniform(
    generator: np.random.Generator, region: Single, schema: Schema, data: FloatArray | None, n: int
) -> FloatArray:
    """Independent uniform points: drawn in the bounding box, kept where they are inside."""
    return rejected_inside(generator, region, schema, n)


@over_components
def sobol(
    generator: np.random.Generator, region: Single, schema: Schema, data: FloatArray | None, n: int
) -> FloatArray:
    """Scrambled Sobol' points: uniform too, but with fewer gaps and clumps than independent ones."""
    from scipy.stats import qmc  # slow to import, and only needed here

    limits = reachable_limits(region, schema)
    sequence = qmc.Sobol(len(schema.columns), scramble=True, rng=generator)

    def following(count: int) -> FloatArray:
        # The sequence is balanced at powers of two, so it is doubled, up to pieces that fit in memory.
        power = max(int(np.ceil(np.log2(max(count, sequence.num_generated, 1)))), 6)
        return limits.from_unit(sequence.random(2 ** min(power, 16)))

    return kept_inside(following, region, schema, limits, n)


@over_components
def walk(
    generator: np.random.Generator, region: Single, schema: Schema, data: FloatArray | None, n: int
) -> FloatArray:
    """Uniform points by hit-and-run: for equalities, and half-spaces too thin for rejection."""
    return walked_inside(generator, region, schema, n)
