"""Where a rule speaks, as a network sees it: 1 in the rule's region, 0 outside or a short way outside.

With gates as further inputs a network can step at the edge of a region, so that what a rule demands inside
need not bend functions where it says nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ocbnn.errors import ModelError, SchemaError
from ocbnn.regions import HalfSpace, Region
from ocbnn.regions.limits import INSET, observed_width
from ocbnn.regions.sets import Single
from ocbnn.schema import Column, Schema

MOST_CELLS = 64
"""A region of more pieces than that has no gate: each is worked out at every row."""
LEAST_REACH = 1e-4
"""Shorter ones are steps: single precision cannot tell them from 0."""
ULPS = 4
"""By how many of the last digits' steps a row's value may miss that of an end it is on: logs are rounded."""


@dataclass(frozen=True)
class Edge:
    """The side Σ coefficientsᵢ · x[:, inputsᵢ] ≤ bound of a plane, in model units; < where it is open."""

    inputs: tuple[int, ...]
    coefficients: tuple[float, ...]
    bound: float
    is_open: bool = False

    def beyond(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """How far each row is on the other side."""
        return jnp.maximum(self._along(x) - self.bound, 0.0)

    def inside(self, x: Float[Array, "n d"]) -> Bool[Array, " n"]:
        """Which rows are on this side; one on the plane up to rounding is on it."""
        rounding = ULPS * float(np.finfo(x.dtype).eps) * abs(self.bound)
        if self.is_open:
            return self._along(x) < self.bound - rounding
        return self._along(x) <= self.bound + rounding

    def _along(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        terms = [
            coefficient * x[:, place]
            for place, coefficient in zip(self.inputs, self.coefficients, strict=True)
        ]
        return sum(terms[1:], terms[0])


Cell = tuple[Edge, ...]
"""A piece of a region: what lies on the inner side of all edges."""


@dataclass(frozen=True)
class Gate:
    """1 inside any of the cells, exp(−½ (distance / reach)²) outside of all, in model units.

    Without reach it is a step: 0 outside. With two edges that are not at right angles, the distance is that
    from both planes together.
    """

    reach: float
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        if self.reach != 0 and not LEAST_REACH <= self.reach < math.inf:
            raise ModelError(
                f"The reach of a gate is 0, or a number from {LEAST_REACH} on, not {self.reach!r}."
            )
        if not (self.cells and all(edge.inputs for cell in self.cells for edge in cell)):
            raise ModelError("A gate has at least one cell, and each of its edges at least one input.")

    @property
    def last_input(self) -> int:
        """The highest of the inputs it looks at."""
        return max((place for cell in self.cells for edge in cell for place in edge.inputs), default=0)

    def openness(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """How far it is open at each row: 1 in the region."""
        if self.reach == 0:
            every = jnp.ones(x.shape[0], bool)
            inside = [
                functools.reduce(jnp.logical_and, (edge.inside(x) for edge in cell), every)
                for cell in self.cells
            ]
            return functools.reduce(jnp.logical_or, inside).astype(x.dtype)
        none = jnp.zeros(x.shape[0], x.dtype)
        squared = [sum((edge.beyond(x) ** 2 for edge in cell), none) for cell in self.cells]
        return jnp.exp(-0.5 / self.reach**2 * functools.reduce(jnp.minimum, squared))


def gates_of(regions: Iterable[Region], schema: Schema, reach: float) -> tuple[Gate, ...]:
    """One gate for each of the regions, equal ones once; none where a region has no edge a gate could be at.

    Args:
        regions: of rules.
        schema: the table whose model units the gates are in.
        reach: how far outside a gate is still open, in model units; 0 for a step; math.inf: no gates at all.
    """
    if math.isinf(reach):
        return ()
    gates = (_gate(region, schema, reach) for region in regions)
    return tuple(dict.fromkeys(gate for gate in gates if gate is not None))


def _gate(region: Region, schema: Schema, reach: float) -> Gate | None:
    parts = region.components()
    if not 0 < len(parts) <= MOST_CELLS:
        return None
    # Whoever looks for points of a region stays clear of a box's open ends, but not of those within a union.
    found = [_cell(part, schema, step=reach == 0, open_ends=reach == 0 and len(parts) == 1) for part in parts]
    cells = tuple(cell for cell in found if cell is not None)
    return Gate(reach, cells) if cells and all(cells) else None


def _cell(part: Single, schema: Schema, *, step: bool, open_ends: bool) -> Cell | None:
    """The edges of a piece; a condition that is no edge is left out, so that the cell holds the piece.

    None where no row can be inside.
    """
    box, faces, _ = part.pieces
    first_inputs = dict(
        zip(schema.names, np.cumsum([0, *(column.width for column in schema.columns)]).tolist(), strict=False)
    )
    limits, inner = part.limits(schema), part.inner_limits(schema)
    edges: list[Edge | None] = []
    for name, interval in box.intervals.items():
        column, place, index = schema.column(name), first_inputs[name], schema.index(name)
        low, high = interval.closed_ends(integer=column.kind != "continuous")
        if math.isfinite(high) and _in_model_units(column, high) is None:
            return None
        if open_ends and inner.low[index] > limits.low[index]:
            edges.append(_open_end(column, place, interval.low, float(inner.low[index]), -1.0))
        else:
            edges.append(_end(column, place, low, -1.0))
        if open_ends and inner.high[index] < limits.high[index]:
            edges.append(_open_end(column, place, interval.high, float(inner.high[index]), 1.0))
        else:
            edges.append(_end(column, place, high, 1.0))
    for name, labels in box.levels.items():
        levels = schema.column(name).levels
        edges.append(_outside_levels([label in labels for label in levels], first_inputs[name]))
    edges += [_face(face, schema, first_inputs, step=step) for face in faces]
    return tuple(edge for edge in edges if edge is not None)


def _in_model_units(column: Column, value: float) -> float | None:
    """None where a log's domain has ended before."""
    try:
        return float(column.to_model(np.array([value]))[0, 0])
    except SchemaError:
        return None


def _end(column: Column, place: int, end: float, side: float) -> Edge | None:
    bound = _in_model_units(column, end) if math.isfinite(end) else None
    if bound is None or not math.isfinite(bound):  # no row is beyond
        return None
    return Edge((place,), (side,), side * bound)


def _open_end(column: Column, place: int, end: float, inside: float, side: float) -> Edge | None:
    """Open where single precision tells the end from the first point inside that anybody asks for."""
    edge, within = _end(column, place, end, side), _in_model_units(column, inside)
    if edge is None or within is None:
        return edge
    told_apart = edge.bound - side * within > 2 * ULPS * float(np.finfo(np.float32).eps) * abs(edge.bound)
    return replace(edge, is_open=told_apart)


def _outside_levels(allowed: list[bool], first: int) -> Edge | None:
    """Of inputs of which one is 1 and the others are 0; said of whichever are fewer."""
    inside = [first + index for index, good in enumerate(allowed) if good]
    outside = [first + index for index, good in enumerate(allowed) if not good]
    if not outside:
        return None
    if inside and len(inside) < len(outside):
        return Edge(tuple(inside), (-1.0,) * len(inside), -1.0)
    return Edge(tuple(outside), (1.0,) * len(outside), 0.0)


def _face(face: HalfSpace, schema: Schema, first_inputs: dict[str, int], *, step: bool) -> Edge | None:
    """A plane in raw units is one in model units where all of its columns are only moved and stretched.

    As a step it has to be clear of rounding: a row on the plane counts as inside.
    """
    columns = [schema.column(name) for name in face.coefficients]
    if not columns or any(column.transform not in ("none", "standardize") for column in columns):
        return None
    raw = list(face.coefficients.values())
    slopes = np.array([value * column.scale for value, column in zip(raw, columns, strict=True)])
    bound = face.bound - sum(value * column.center for value, column in zip(raw, columns, strict=True))
    length = float(np.linalg.norm(slopes))
    inputs = tuple(first_inputs[column.name] for column in columns)
    widths = np.array([observed_width(column) / column.scale for column in columns])
    slack = INSET * float(np.abs(slopes / length) @ widths) if step else 0.0
    return Edge(inputs, tuple((slopes / length).tolist()), float(bound / length) + slack)
