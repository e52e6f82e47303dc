"""What terms measure: a rule's own scale, the gaps between allowed intervals, total probabilities."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array

from ocbnn.rules.located import (
    AllowedClasses,
    AllowedIntervals,
    AllowedValues,
    Located,
    LocatedFunctions,
    ProbabilityIntervals,
)

SMALLEST_PROBABILITY_SCALE = 0.01
"""`P(…) >= 1` allows a set of width zero, which nothing can be divided by."""


def rule_scale(located: Located) -> float:
    """The rule's own length, in model units, that distances are divided by.

    Intervals: the median finite width of the allowed intervals, at most sd(y) (1 in model units), which is
    also the answer where none is finite. Values: the median margin. Probability bounds: the median width of
    the allowed part of [0, 1], at least 0.01. Classes and functions: 1.
    """
    match located:
        case AllowedIntervals(lower, upper):
            with np.errstate(invalid="ignore"):
                width = np.asarray(upper) - np.asarray(lower)
            finite = width[np.isfinite(width) & (width > 0)]
            return min(float(np.median(finite)), 1.0) if finite.size else 1.0
        case AllowedValues(_, _, margin):
            return float(np.median(margin))
        case ProbabilityIntervals(_, lower, upper):
            width = np.clip(upper, 0.0, 1.0) - np.clip(lower, 0.0, 1.0)
            total = np.sum(np.maximum(width, 0.0), axis=-1)
            return max(float(np.median(total)), SMALLEST_PROBABILITY_SCALE)
    return 1.0


def forbidden_intervals(located: AllowedIntervals) -> list[tuple[Any, Any]]:
    """Ends of the gaps between allowed intervals at each point; None for an end infinite at all of them.

    A gap that is empty at one point only (errata C5) has an end there that is infinite the other way, so that
    the soft indicator of its inside is zero.
    """
    lower, upper = located
    after = upper.__array_namespace__().where(lower <= upper, upper, np.inf)
    slots = lower.shape[-1]
    gaps: list[tuple[Any, Any]] = []
    for k in range(slots + 1):
        left = None if k == 0 else after[..., k - 1]
        right = None if k == slots else lower[..., k]
        if _always(left, np.inf) or _always(right, -np.inf):
            continue
        gaps.append((left, None if _always(right, np.inf) else right))
    return gaps


def plain_outputs(located: Located, value: Array) -> Array:
    """The value as `violation` takes it: y, or probabilities rather than their logarithms."""
    of_classes = isinstance(located, AllowedClasses | ProbabilityIntervals) or (
        isinstance(located, LocatedFunctions) and jnp.ndim(located.center) == 2
    )
    return jnp.exp(value) if of_classes else value


def log_total(log_probabilities: Array, members: Array) -> Array:
    """Log of the total probability of `members`; −inf, without a NaN gradient, where there are none."""
    some = jnp.any(members, axis=-1)
    total = logsumexp(jnp.where(members | ~some[..., None], log_probabilities, -jnp.inf), axis=-1)
    return jnp.where(some, jnp.where(total < 0.0, total, 0.0), -jnp.inf)


def _always(end: Any, infinity: float) -> bool:
    # Points that are constants let gaps that never occur go before compilation; traced points keep them all.
    return isinstance(end, np.ndarray) and bool(np.all(end == infinity))
