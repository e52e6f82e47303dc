"""Samplers that spread points evenly, what all samplers share, and why a region cannot be hit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from ocbnn.errors import RegionError
from ocbnn.language.expressions import name_text, node_count, number_text
from ocbnn.regions.intervals import FloatArray, Interval
from ocbnn.regions.limits import Limits
from ocbnn.regions.polytope import equalities, polytope_of, walker
from ocbnn.regions.sets import PROBES, Region, Single
from ocbnn.schema import Column, Schema

Key = Any
"""Anything `numpy.random.default_rng` takes."""
Draw = Callable[[int], FloatArray]

TRIES = 1_000_000
"""The most points tried before a region counts as too thin, or 200 for each point wanted if that is more."""
FEW_NODES = 16
"""A condition of more nodes than this costs more for each point, and is tried at fewer points."""
WALKS = 50_000
"""The most walks before a region counts as too thin, or 20 for each point wanted if that is more."""
MOST_BLAMED = 32
"""How many conditions are given up in turn to see which one makes a region empty."""
THIN = 0.01
"""Half-spaces that hold less of their bounding box than this are walked in rather than hit by chance."""


Sampler = Callable[[Key, Region, Schema, FloatArray | None, int], FloatArray]
"""(key, region, schema, data, n) → n coded points (n, Q) inside; the same key gives the same points."""
ComponentSampler = Callable[[np.random.Generator, Single, Schema, FloatArray | None, int], FloatArray]
"""The same for one region other than a union."""


def reachable_limits(region: Region, schema: Schema) -> Limits:
    """The region's limits, or the error that says which condition leaves a column without values."""
    limits = region.limits(schema)
    if len(limits.empty_columns()):
        raise unreachable(region, schema)
    return limits


def kept_inside(
    draw: Draw, region: Single, schema: Schema, limits: Limits, n: int, *, walking: bool = False
) -> FloatArray:
    """The first n drawn points that are inside; an error, not an endless loop, where too few are."""
    cost = 1 + sum(map(node_count, region.pieces.rest)) // FEW_NODES
    most = max(WALKS, 20 * n) if walking else max(max(TRIES, 200 * n) // cost, 20 * n)
    kept, tried, wanted = np.empty((0, len(schema.columns))), 0, max(n, 256) if walking else n
    while len(kept) < n:
        if walking and tried and not len(kept):
            raise unreachable(region, schema)
        if tried >= most:
            raise too_thin(region, schema, len(kept), tried, walking=walking)
        points = draw(wanted)
        kept = np.concatenate([kept, points[region.contains(points, schema) & limits.contains(points)]])
        tried += len(points)
        missing = 1.2 * (n - len(kept)) * tried / max(len(kept), 1)
        wanted = int(min(max(missing, 256), 8_192 if walking else 65_536))
    return kept[:n]


def acceptance(region: Region, schema: Schema, limits: Limits) -> float:
    """The share of the bounding box that the region holds, from a fixed set of probes."""
    probes = limits.from_unit(np.random.default_rng(1).random((PROBES, len(schema.columns))))
    return float(region.contains(probes, schema).mean())


@lru_cache(maxsize=256)
def is_thin(region: Region, schema: Schema) -> bool:
    """Whether half-spaces of the region are too thin for rejection."""
    for part in region.components():
        limits = part.hull.limits(schema) if part.pieces.faces else None
        if limits is None or len(limits.empty_columns()):
            continue
        if acceptance(part.hull, schema, limits) < THIN:
            return True
    return False


def uniform_inside(generator: np.random.Generator, region: Single, schema: Schema, n: int) -> FloatArray:
    """Uniform points of one region, by rejection where it is roomy, by walking where it is thin."""
    inside = walked_inside if is_thin(region, schema) else rejected_inside
    return inside(generator, region, schema, None, n)


def rejected_inside(
    generator: np.random.Generator, region: Single, schema: Schema, data: FloatArray | None, n: int
) -> FloatArray:
    """Uniform points of one region: drawn in the bounding box, kept where they are inside."""
    limits = reachable_limits(region, schema)
    columns = len(schema.columns)
    return kept_inside(
        lambda count: limits.from_unit(generator.random((count, columns))), region, schema, limits, n
    )


def walked_inside(
    generator: np.random.Generator, region: Single, schema: Schema, data: FloatArray | None, n: int
) -> FloatArray:
    """Uniform points of one region by hit-and-run in its half-spaces; what walks outside is walked again."""
    if not region.pieces.faces:
        return rejected_inside(generator, region, schema, data, n)
    limits = reachable_limits(region, schema)
    draw = walker(generator, limits, region.pieces.faces, schema)
    if draw is None:
        raise unreachable(region, schema)
    return kept_inside(draw, region, schema, limits, n, walking=True)


def over_components(sampler: ComponentSampler) -> Sampler:
    """A sampler of any region from one for regions that are no union.

    Components of a union get points in proportion to their volume; a point that lies in k of them is kept
    with probability 1/k, so that overlaps are not drawn more often than the rest.
    """

    def sampled(key: Key, region: Region, schema: Schema, data: FloatArray | None, n: int, /) -> FloatArray:
        generator = np.random.default_rng(key)
        parts = region.components()
        if len(parts) == 1:
            return sampler(generator, parts[0], schema, data, n)
        shares = component_shares(parts, schema)
        if not shares.any():
            raise unreachable(region, schema)
        kept, tried, wanted = np.empty((0, len(schema.columns))), 0, n
        while len(kept) < n:
            counts = generator.multinomial(wanted, shares)
            drawn, chances = [kept[:0]], [np.zeros(0)]
            for part, count in zip(parts, counts.tolist(), strict=True):
                if count:
                    drawn.append(sampler(generator, part, schema, data, count))
                    chances.append(generator.random(count))
            points = np.concatenate(drawn)
            overlap = np.sum([part.contains(points, schema) for part in parts], axis=0)
            kept = np.concatenate([kept, points[np.concatenate(chances) * overlap < 1.0]])
            tried += wanted
            wanted = (n - len(kept)) * max(tried // max(len(kept), 1), 1)
        return kept[generator.permutation(len(kept))[:n]]

    return sampled


uniform = over_components(rejected_inside)
walk = over_components(walked_inside)


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


def component_shares(parts: tuple[Single, ...], schema: Schema) -> FloatArray:
    """Each component's share of points: its volume's, or an equal one if it has none (`x = 2 or x > 3`)."""
    limits = [part.limits(schema) for part in parts]
    found = np.array([is_reachable(part, schema) for part in parts], dtype=bool)
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


def unreachable(region: Region, schema: Schema) -> RegionError:
    """The error for a region no point was found in."""
    return RegionError(f"No input was found where {_shown(region.text())}: {_cause(region, schema)}")


def too_thin(
    region: Region, schema: Schema, inside: int, tried: int, *, walking: bool = False
) -> RegionError:
    """The error for a region that is there, but that points fall in too rarely."""
    if not inside and not is_reachable(region, schema):
        return unreachable(region, schema)
    remedy = (
        "use sampler='walk', which moves inside half-spaces instead of looking for them"
        if not walking and any(part.pieces.faces for part in region.components())
        else "widen its condition, or declare bounds for its columns that enclose it more tightly"
    )
    return RegionError(
        f"Only {inside:,} of {tried:,} points tried fell where {_shown(region.text())}. "
        f"The region is too thin to be hit by chance: {remedy}."
    )


def is_reachable(region: Region, schema: Schema) -> bool:
    """Whether some point is known to be inside; predicates are judged by a fixed set of probes."""
    return any(_is_reachable(part, schema) for part in region.components())


@lru_cache(maxsize=256)
def _is_reachable(region: Single, schema: Schema) -> bool:
    limits = region.limits(schema)
    if len(limits.empty_columns()):
        return False
    if region.pieces.faces and polytope_of(limits, region.pieces.faces, schema) is None:
        return False
    if not region.pieces.rest:
        return True
    probes = limits.from_unit(np.random.default_rng(0).random((4 * PROBES, len(schema.columns))))
    return bool(region.contains(probes, schema).any())


def _cause(region: Region, schema: Schema) -> str:
    if not region.components():
        return "its condition is false for every input. Correct the condition, or drop the rule."
    conditions = list(islice(region.conditions(), MOST_BLAMED))
    for part in region.components():
        for column in np.array(schema.columns, dtype=object)[part.pieces.box.limits(schema).empty_columns()]:
            words = _column_cause(column, part)
            if words:
                return words
    guilty = [words for words, rest in conditions if is_reachable(rest, schema)]
    if not guilty and len(conditions) == MOST_BLAMED:
        return f"none of its first {MOST_BLAMED} conditions alone is to blame. Split the rule, or loosen it."
    if not guilty:
        return (
            "no single condition is to blame, they contradict each other together. "
            "Loosen several of them, or declare wider bounds for their columns."
        )
    if len(conditions) == 1:
        return f"`{_shown(guilty[0])}` holds nowhere that was tried. Correct it, or declare wider bounds."
    others = f" (or one of {', '.join(f'`{_shown(words)}`' for words in guilty[1:])})" if guilty[1:] else ""
    return (
        f"`{_shown(guilty[0])}` is to blame{others}: without it there are such inputs. Loosen it, or drop it."
    )


def _column_cause(column: Column, region: Single) -> str | None:
    interval = region.pieces.box.intervals.get(column.name)
    name = name_text(column.name)
    if column.name in region.pieces.box.levels:
        return f"no level of {name} is allowed by all conditions on it. Loosen one of them."
    if interval is None:
        return None
    words = interval.text(column.name)
    if interval.is_empty:
        return f"`{words}` contradict each other. Correct one of the two ends."
    low, high = interval.closed_ends(integer=column.kind in ("integer", "binary"))
    if low > high:
        return (
            f"{name} holds whole numbers, and `{words}` leaves none. Widen it, or declare {name} continuous."
        )
    if column.kind == "binary":
        return f"{name} is 0 or 1, and `{words}` holds for neither. Correct it."
    if column.transform == "log" and high <= -column.offset:
        return (
            f"{name} enters as log({name} + {number_text(column.offset)}), which needs larger values than "
            f"`{words}` leaves. Declare a larger offset or another transform for it."
        )
    bounds = Interval(*column.bounds).text(column.name)
    return f"`{words}` is outside the declared bounds `{bounds}`. Correct the condition or the bounds."


def _shown(words: str, longest: int = 200) -> str:
    return words if len(words) <= longest else words[: longest - 1] + "…"
