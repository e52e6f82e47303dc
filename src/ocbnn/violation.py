"""Does an output obey a rule, and by what margin: the one definition that all other rooms share.

A violation is an event of one draw at one point. The margin is signed: positive where the output breaks the
rule, zero or negative where it obeys. The same code serves NumPy and JAX arrays, also under `jit`.

| what is asked | margin |
| --- | --- |
| intervals | distance to the nearest allowed interval, negative inside one |
| values within a margin | distance to the nearest value, less the margin |
| classes | largest forbidden probability less the largest allowed one |
| probability bounds | as intervals, on the total probability of the classes named |
| probability targets | total variation between the predicted and the asked probabilities |
| functions g_i | max g_i; for the negative form −max g_i |

Ends of intervals obey: a single point has no probability, and closedness is not something floats can keep.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ocbnn.errors import OCBNNError
from ocbnn.rules.located import (
    AllowedClasses,
    AllowedIntervals,
    AllowedValues,
    Located,
    LocatedFunctions,
    NormalMixture,
    ProbabilityIntervals,
    TargetClassProbabilities,
    TargetProbability,
)

Array = Any  # a NumPy or a JAX array


def margin(output: Any, located: Located, outputs: Array) -> Array:
    """Signed margin `(…, n)`: positive where `outputs` break the rule, ≤ 0 where they obey.

    Args:
        output: what the rule says of outputs (`rules.outputs`); only rules given as functions need it.
        located: what it asks for at n points.
        outputs: y `(…, n)` in the units of `located`, or class probabilities `(…, n, C)`.
    """
    outputs = outputs if hasattr(outputs, "__array_namespace__") else np.asarray(outputs, dtype=float)
    xp = outputs.__array_namespace__()
    match located:
        case AllowedIntervals(lower, upper):
            return _outside(xp, outputs, lower, upper)
        case AllowedValues(values, weights, accepted):
            return smallest(xp.where(weights > 0, xp.abs(outputs[..., None] - values), xp.inf)) - accepted
        case AllowedClasses(allowed):
            allowed_best = largest(xp.where(allowed, outputs, -xp.inf))
            return largest(xp.where(allowed, -xp.inf, outputs)) - allowed_best
        case ProbabilityIntervals(members, lower, upper):
            return _outside(xp, _total(xp, outputs, members), lower, upper)
        case TargetProbability(members, probability):
            return xp.abs(_total(xp, outputs, members) - probability)
        case TargetClassProbabilities(probability):
            return 0.5 * xp.sum(xp.abs(outputs - probability), axis=-1)
        case LocatedFunctions():
            most = largest(xp.stack(inequalities(output, located, outputs), axis=-1))
            return -most if output.negative else most
        case NormalMixture():
            raise OCBNNError(
                "`y ~ Normal(…)` says how outputs are distributed: one output alone can neither obey nor "
                "break it. Compare the predictive distribution with it (total variation) instead."
            )
    raise OCBNNError(f"There is no definition of a violation for {type(located).__name__}.")


def violates(output: Any, located: Located, outputs: Array, tolerance: float = 0.0) -> Array:
    """Whether each output breaks the rule `(…, n)`, by more than `tolerance` in the margin's own unit.

    An output that is not a number obeys nothing.
    """
    return ~(margin(output, located, outputs) <= tolerance)


def inequalities(output: Any, located: LocatedFunctions, y: Array) -> list[Array]:
    """The values g_i(x, y) of a rule given as functions, y `(…, n)` in the units of `located`.

    For classification y is probabilities `(…, n, C)`, and `located.center` and `located.scale` are `(n, 1)`.
    """
    raw = located.center + located.scale * y
    xp = raw.__array_namespace__()
    shape = raw.shape[: raw.ndim + 1 - located.center.ndim]
    return [xp.broadcast_to(xp.asarray(g(located.columns, raw)), shape) for g in output.inequalities]


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


def _outside(xp: Any, value: Array, lower: Array, upper: Array) -> Array:
    # Unused slots are (+inf, −inf): infinitely far, so the minimum never takes them.
    below, above = lower - value[..., None], value[..., None] - upper
    return smallest(xp.where(below > above, below, above))


def _total(xp: Any, probabilities: Array, members: Array) -> Array:
    # Rounding can carry a sum past 1, and `P(…) <= 1` must not break for that.
    total = xp.sum(xp.where(members, probabilities, 0.0), axis=-1)
    return xp.where(total < 1.0, total, 1.0)
