"""Small operations on NumPy and JAX arrays alike that several kinds of rules share."""

from __future__ import annotations

from typing import Any

Array = Any


def largest(values: Array) -> Array:
    """The maximum over the last axis, by selection.

    JAX's own maximum finds by equality where its gradient belongs. XLA may compute a value twice with
    different rounding, and then nothing is equal and the gradient is silently 0.
    """
    xp = values.__array_namespace__()
    best = values[..., 0]
    for k in range(1, values.shape[-1]):
        best = xp.where(values[..., k] > best, values[..., k], best)
    return best


def smallest(values: Array) -> Array:
    """The minimum over the last axis, by selection as in `largest`."""
    return -largest(-values)


def outside(value: Array, lower: Array, upper: Array) -> Array:
    """Distance `(…, m)` to the nearest of the intervals `(m, K)`, negative inside one."""
    xp = value.__array_namespace__()
    # Unused slots are (+inf, −inf): infinitely far, so the minimum never takes them.
    below, above = lower - value[..., None], value[..., None] - upper
    return smallest(xp.where(below > above, below, above))


def total(probabilities: Array, members: Array) -> Array:
    """The total probability of the members `(m, C)`."""
    xp = probabilities.__array_namespace__()
    # Rounding can carry a sum past 1, and `P(…) <= 1` must not break for that.
    found = xp.sum(xp.where(members, probabilities, 0.0), axis=-1)
    return xp.where(found < 1.0, found, 1.0)
