"""Why a region cannot be hit: the condition to blame, and what to do about it."""

from __future__ import annotations

import numpy as np

from ocbnn.errors import RegionError
from ocbnn.language.expressions import name_text, number_text
from ocbnn.regions.intervals import Interval
from ocbnn.regions.polytope import interior_point, polytope_of
from ocbnn.regions.sets import PROBES, Region, Single
from ocbnn.schema import Column, Schema


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


def _is_reachable(region: Single, schema: Schema) -> bool:
    limits = region.limits(schema)
    if len(limits.empty_columns()):
        return False
    if region.pieces.faces:
        polytope = polytope_of(limits, region.pieces.faces, schema)
        if polytope is None or interior_point(polytope) is None:
            return False
    if region.pieces.condition is None:
        return True
    probes = limits.from_unit(np.random.default_rng(0).random((4 * PROBES, len(schema.columns))))
    return bool(region.contains(probes, schema).any())


def _cause(region: Region, schema: Schema) -> str:
    if not region.components():
        return "its condition is false for every input. Correct the condition, or drop the rule."
    conditions = list(region.conditions())
    for part in region.components():
        for column in np.array(schema.columns, dtype=object)[part.pieces.box.limits(schema).empty_columns()]:
            words = _column_cause(column, part)
            if words:
                return words
    guilty = [words for words, rest in conditions if is_reachable(rest, schema)]
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
