"""What samplers share: drawing until enough points are inside, unions, and points of the ruled columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ocbnn.errors import RegionError
from ocbnn.regions.blame import too_thin, unreachable
from ocbnn.regions.intervals import FloatArray
from ocbnn.regions.limits import Limits
from ocbnn.regions.polytope import equalities
from ocbnn.regions.sets import PROBES, Predicate, Region, Single
from ocbnn.regions.walking import walker
from ocbnn.schema import Schema

Key = Any
"""Anything `numpy.random.default_rng` takes."""
Draw = Callable[[int], FloatArray]

TRIES = 1_000_000
"""The most points tried before a region counts as too thin, or 200 for each point wanted if that is more."""
WALK_TRIES = 50_000
THIN = 0.01
"""Half-spaces that hold less of their bounding box than this are walked in rather than hit by chance."""


class Sampler(Protocol):
    """Draws n coded points (n, Q) inside the region; the same key gives the same points."""

    def __call__(
        self, key: Key, region: Region, schema: Schema, data: FloatArray | None, n: int, /
    ) -> FloatArray: ...


class ComponentSampler(Protocol):
    """Draws n points inside one region that is no union."""

    def __call__(
        self,
        generator: np.random.Generator,
        region: Single,
        schema: Schema,
        data: FloatArray | None,
        n: int,
        /,
    ) -> FloatArray: ...


def reachable_limits(region: Region, schema: Schema) -> Limits:
    """The region's limits, or the error that says which condition leaves a column without values."""
    limits = region.limits(schema)
    if len(limits.empty_columns()):
        raise unreachable(region, schema)
    return limits


def kept_inside(draw: Draw, region: Region, schema: Schema, n: int, tries: int = TRIES) -> FloatArray:
    """The first n drawn points that are inside; an error, not an endless loop, where too few are."""
    most = max(tries, 200 * n)
    kept: list[FloatArray] = []
    inside = tried = 0
    wanted = n
    while inside < n:
        if tried >= most:
            raise too_thin(region, schema, inside, tried)
        drawn = draw(wanted)
        points = drawn[region.contains(drawn, schema)]
        kept.append(points)
        tried, inside = tried + len(drawn), inside + len(points)
        rate = max(inside, 1) / tried
        wanted = int(min(max(1.2 * (n - inside) / rate, 256), 65_536))
    return np.concatenate(kept)[:n] if kept else np.empty((0, len(schema.columns)))


def acceptance(region: Region, schema: Schema, limits: Limits) -> float:
    """The share of the bounding box that the region holds, from a fixed set of probes."""
    probes = limits.from_unit(np.random.default_rng(1).random((PROBES, len(schema.columns))))
    return float(region.contains(probes, schema).mean())


def is_thin(region: Region, schema: Schema) -> bool:
    """Whether half-spaces of the region are too thin for rejection."""
    for part in region.components():
        hull = part.hull if isinstance(part, Predicate) else part
        if not hull.pieces.faces:
            continue
        limits = hull.limits(schema)
        if not len(limits.empty_columns()) and acceptance(hull, schema, limits) < THIN:
            return True
    return False


def uniform_inside(generator: np.random.Generator, region: Single, schema: Schema, n: int) -> FloatArray:
    """Uniform points of one region, by rejection where it is roomy, by walking where it is thin."""
    if is_thin(region, schema):
        return walked_inside(generator, region, schema, n)
    limits = reachable_limits(region, schema)
    return kept_inside(
        lambda count: limits.from_unit(generator.random((count, len(schema.columns)))), region, schema, n
    )


def walked_inside(generator: np.random.Generator, region: Single, schema: Schema, n: int) -> FloatArray:
    """Uniform points of one region by hit-and-run in its half-spaces."""
    limits = reachable_limits(region, schema)
    draw = walker(generator, limits, region.pieces.faces, schema)
    if draw is None:
        raise unreachable(region, schema)
    return kept_inside(draw, region, schema, n, WALK_TRIES)


def over_components(sampler: ComponentSampler) -> Sampler:
    """A sampler of any region from one for regions that are no union.

    Components of a union get points in proportion to their volume; a point that lies in k of them is kept
    with probability 1/k, so that overlaps are not drawn more often than the rest.
    """

    def drawn(key: Key, region: Region, schema: Schema, data: FloatArray | None, n: int, /) -> FloatArray:
        generator = np.random.default_rng(key)
        parts = region.components()
        if len(parts) == 1:
            return sampler(generator, parts[0], schema, data, n)
        shares = component_shares(parts, schema)
        if not shares.sum() > 0:
            raise unreachable(region, schema)
        kept: list[FloatArray] = []
        missing = n
        while missing > 0:
            counts = generator.multinomial(missing, shares)
            for index in np.flatnonzero(counts):
                try:
                    points = sampler(generator, parts[index], schema, data, int(counts[index]))
                except RegionError:
                    if shares[index] == shares.sum():
                        raise
                    shares = np.where(np.arange(len(shares)) == index, 0.0, shares)
                    shares = shares / shares.sum()
                    continue
                overlap = np.sum([part.contains(points, schema) for part in parts], axis=0)
                points = points[generator.random(len(points)) * overlap < 1.0]
                kept.append(points)
                missing -= len(points)
        points = np.concatenate(kept) if kept else np.empty((0, len(schema.columns)))
        return points[generator.permutation(len(points))]

    return drawn


def component_shares(parts: tuple[Single, ...], schema: Schema) -> FloatArray:
    """Each component's share of points: its volume's, or an equal one if it has none (`x = 2 or x > 3`)."""
    limits = [part.limits(schema) for part in parts]
    found = np.array([not len(each.empty_columns()) for each in limits], dtype=bool)
    if not found.any():
        return np.zeros(len(parts))
    sizes = np.array([each.sizes() for each in limits])
    largest = sizes[found].max(axis=0)
    relative = np.where(largest > 0, sizes / np.where(largest > 0, largest, 1.0), 1.0)
    volumes = np.zeros(len(parts))
    for index in np.flatnonzero(found):
        if not equalities(parts[index].pieces.faces)[0]:
            share = acceptance(parts[index], schema, limits[index])
            volumes[index] = math.prod(relative[index]) * max(share, 0.5 / PROBES)
    flat = found & (volumes == 0)
    shares = np.where(flat, 1.0 / found.sum(), 0.0)
    if volumes.sum() > 0:
        shares += volumes / volumes.sum() * (1.0 - shares.sum())
    return shares / shares.sum()
