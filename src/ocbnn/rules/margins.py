"""From a rule and functions to margins: its cases, what functions say there, and `Requirement.violation`.

Below it are small operations on NumPy and JAX arrays alike, by which kinds compute their margins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocbnn.errors import RuleError
from ocbnn.rules.requirement import RAW, Array, Units

if TYPE_CHECKING:
    from ocbnn.rules.constraint import Constraint
    from ocbnn.schema import Schema


class Placed(NamedTuple):
    """A rule at points: the inputs of all its cases, one after the other, and what it asks at each case."""

    inputs: Array  # coded, (m·k, Q)
    demand: Any  # first axis m
    cases: int  # m


def placed(rule: Constraint, schema: Schema, points: np.ndarray, units: Units = RAW) -> Placed:
    """The cases of these points, and the demand there; y in the given units."""
    inputs = rule.requirement.inputs
    cases = rule.requirement.cases(np.asarray(points, dtype=float), schema, rule.region)
    expected = (1, len(points)) if inputs is None else (len(points), inputs)
    if cases.shape != (*expected, len(schema.columns)):
        raise RuleError(
            f"{type(rule.requirement).__name__}.cases gave the shape {cases.shape} for {len(points)} points; "
            f"cases of this kind have the shape {(*expected, len(schema.columns))}: one case for each point, "
            "or one of all points for a population."
        )
    demand = rule.requirement.demand(cases, schema, units)
    return Placed(cases.reshape(-1, cases.shape[-1]), demand, len(cases))


def by_case(rule: Constraint, values: Array, cases: int, classes: bool) -> Array:
    """Values at the inputs of cases, `(…, m·k)` or `(…, m·k, C)`, with an axis of their own for k inputs.

    Where a case has one input they are left as they are.
    """
    if rule.requirement.inputs == 1:
        return values
    tail = values.shape[-1:] if classes else ()
    return values.reshape(*values.shape[: values.ndim - 1 - len(tail)], cases, -1, *tail)


def margins(
    rule: Constraint,
    schema: Schema,
    points: np.ndarray,
    function: Callable[[np.ndarray], Array],
    units: Units = RAW,
) -> np.ndarray:
    """By how much functions violate a rule at the cases of these points, `(…, m)`; above 0 violates.

    Args:
        rule: of any kind that is judged draw by draw.
        schema: the table.
        points: of the rule's region, with the further coordinates of its kind.
        function: coded inputs `(n, Q)` → y `(…, n)` in the given units, or class probabilities `(…, n, C)`.
        units: of y; default: raw.
    """
    at = placed(rule, schema, points, units)
    values = function(at.inputs)
    classes = schema.target is not None and bool(schema.target.classes)
    return rule.requirement.violation(at.demand, by_case(rule, values, at.cases, classes))


# What kinds compute margins with ----------------------------------------------------------------------------


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
    """The total probability of some classes, a mask `(m, C)`."""
    xp = probabilities.__array_namespace__()
    # Rounding can carry a sum past 1, and `P(…) <= 1` must not break for that.
    found = xp.sum(xp.where(members, probabilities, 0.0), axis=-1)
    return xp.where(found > 1.0, 1.0, found)
