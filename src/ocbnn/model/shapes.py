"""What bounds need to know of an activation, beyond how it is computed: how it bends, turns and rounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import jax.numpy as jnp
from jaxtyping import Array

from ocbnn.model.networks import ACTIVATIONS

ELEMENTARY = 32.0
"""Rounding of one activation, in units of the last place of 1 + |z|.

Derived from the formulas in `ACTIVATIONS`, where every operation rounds once and `exp` and `tanh` are off by
at most 8 units in the last place, which tests measure against mpmath: exp(−z²) is off by 8 + 1/e, as
t·exp(−t) ≤ 1/e; of gelu, z/2·(1 + tanh(g)) with g off by 6 units relatively, by 20·|z|.
"""


@dataclass(frozen=True)
class Shape:
    """The shape of one activation f.

    Attributes:
        derivative: f′, away from kinks.
        curvature: |f″| is nowhere more, away from kinks.
        steepest: |f′| is nowhere more.
        turns: where f may have an extreme.
        bends: where f′ may have an extreme.
        kinks: where f′ jumps: the place, f′ before and f′ after.
    """

    derivative: Callable[[Array], Array]
    curvature: float
    steepest: float
    turns: tuple[float, ...] = ()
    bends: tuple[float, ...] = ()
    kinks: tuple[tuple[float, float, float], ...] = ()


_CUBE, _FACTOR = 0.044715, math.sqrt(2.0 / math.pi)


def _gelu_slope(z: Array) -> Array:
    """Of z/2·(1 + tanh(√(2/π)·(z + 0.044715·z³))), what `jax.nn.gelu` computes."""
    t = jnp.tanh(_FACTOR * (z + _CUBE * z * z * z))
    # Far out 1 − t² is exactly 0, and z² times it would be infinity times 0.
    near = jnp.clip(z, -1e3, 1e3)
    return 0.5 * (1.0 + t) + 0.5 * near * (1.0 - t * t) * _FACTOR * (1.0 + 3.0 * _CUBE * near * near)


SHAPES: dict[str, Shape] = {
    "rbf": Shape(
        lambda z: -2.0 * z * jnp.exp(-(z * z)),
        curvature=2.0,
        steepest=math.sqrt(2.0 / math.e),
        turns=(0.0,),
        bends=(-math.sqrt(0.5), math.sqrt(0.5)),
    ),
    "tanh": Shape(
        lambda z: 1.0 - jnp.tanh(z) ** 2,
        curvature=4.0 / (3.0 * math.sqrt(3.0)),
        steepest=1.0,
        bends=(0.0,),
    ),
    "relu": Shape(
        lambda z: jnp.where(z > 0, 1.0, 0.0), curvature=0.0, steepest=1.0, kinks=((0.0, 0.0, 1.0),)
    ),
    "gelu": Shape(
        _gelu_slope,
        curvature=0.7979,
        steepest=1.13,
        turns=(-0.7524614220710162,),
        bends=(-1.4185040087908284, 1.4185040087908284),
    ),
}
"""By the names in `ACTIVATIONS`; an activation without a row cannot be bounded."""


def span(name: str, low: Array, high: Array) -> tuple[Array, Array]:
    """The least and the largest value of f between two ends, up to the rounding of f."""
    function, shape = ACTIVATIONS[name].function, SHAPES[name]
    values = [function(low), function(high), *(function(jnp.clip(turn, low, high)) for turn in shape.turns)]
    return _least(values), _largest(values)


def slope_span(name: str, low: Array, high: Array) -> tuple[Array, Array]:
    """The least and the largest value of f′ between two ends, up to its rounding."""
    shape = SHAPES[name]
    values = [shape.derivative(each) for each in (low, high)]
    values += [shape.derivative(jnp.clip(bend, low, high)) for bend in shape.bends]
    for place, before, after in shape.kinks:
        inside = (low <= place) & (high >= place)
        values += [jnp.where(inside, each, values[0]) for each in (before, after)]
    return _least(values), _largest(values)


def _least(values: list[Array]) -> Array:
    return reduce(jnp.minimum, values)


def _largest(values: list[Array]) -> Array:
    return reduce(jnp.maximum, values)
