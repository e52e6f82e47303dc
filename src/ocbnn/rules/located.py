"""What an output asks for at n given points: NamedTuples of NumPy arrays, hence JAX pytrees; y in raw units.

Every array's first axis is the point, so that points can be picked or stacked leaf by leaf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ocbnn.schema import Target

Array = np.ndarray[Any, np.dtype[Any]]


class AllowedIntervals(NamedTuple):
    """Sorted, merged, disjoint closed intervals of y; unused slots are (+inf, −inf)."""

    lower: Array  # (n, K)
    upper: Array  # (n, K)


class AllowedValues(NamedTuple):
    """y within a margin of one of these values; weights sum to one."""

    values: Array  # (n, K)
    weights: Array  # (n, K)
    margin: Array  # (n,)


class AllowedClasses(NamedTuple):
    """The most probable class is one of these."""

    allowed: Array  # (n, C) bool


class ProbabilityIntervals(NamedTuple):
    """The members' total probability is in one of these parts of [0, 1]; unused slots are (+inf, −inf)."""

    members: Array  # (n, C) bool
    lower: Array  # (n, K)
    upper: Array  # (n, K)


class TargetProbability(NamedTuple):
    """The members' total probability is this."""

    members: Array  # (n, C) bool
    probability: Array  # (n,)


class NormalMixture(NamedTuple):
    """y is distributed as this mixture of normals."""

    weight: Array  # (n, K)
    mean: Array  # (n, K)
    sd: Array  # (n, K)


class TargetClassProbabilities(NamedTuple):
    """The class is distributed like this."""

    probability: Array  # (n, C)


class LocatedFunctions(NamedTuple):
    """The columns that functions g(x, y) from Python take; they take y in raw units, `scale`·y + `center`."""

    columns: dict[str, Array]  # (n,) each, coded: a category is the index of its level
    center: Array  # (n,), for classification (n, 1)
    scale: Array  # (n,), for classification (n, 1)


Located = (
    AllowedIntervals
    | AllowedValues
    | AllowedClasses
    | ProbabilityIntervals
    | TargetProbability
    | NormalMixture
    | TargetClassProbabilities
    | LocatedFunctions
)


def in_model_units(located: Located, target: Target) -> Located:
    """The same demands on the standardised target, (y − center) / scale; on classes they are unchanged."""
    if target.task == "classification":
        return located
    center, scale = target.center, target.scale
    match located:
        case AllowedIntervals(lower, upper):
            return AllowedIntervals((lower - center) / scale, (upper - center) / scale)
        case AllowedValues(values, weights, margin):
            return AllowedValues((values - center) / scale, weights, margin / scale)
        case NormalMixture(weight, mean, sd):
            return NormalMixture(weight, (mean - center) / scale, sd / scale)
        case LocatedFunctions(columns, center_before, scale_before):
            return LocatedFunctions(columns, center_before + scale_before * center, scale_before * scale)
        case _:
            return located


def unused_slots(points: int, slots: int) -> tuple[Array, Array]:
    """Interval slots that hold nothing yet."""
    return np.full((points, slots), np.inf), np.full((points, slots), -np.inf)
