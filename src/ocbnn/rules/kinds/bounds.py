"""`2.5 <= y <= 3`, `not 1 <= y <= 2`, `x * y >= 0`: y satisfies the formula."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocbnn.language.expressions import Condition, columns, name_text, text
from ocbnn.rules.bounding import Boxes, MarginBound, compared, formula_reading
from ocbnn.rules.formulas import allowed_intervals, bounds_text, read_formula
from ocbnn.rules.margins import outside
from ocbnn.rules.ranges import Ranges, formula_ranges
from ocbnn.rules.requirement import Allowed, Array, Requirement, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.schema import Schema, Target


class Ends(NamedTuple):
    """Sorted, merged, disjoint closed intervals of y; unused slots are (+inf, −inf)."""

    lower: Array  # (m, K)
    upper: Array  # (m, K)


@dataclass(frozen=True)
class Bounds(Requirement):
    """Y satisfies the formula. Ends of intervals satisfy it: a single point has no probability."""

    formula: Condition

    monotone = True
    lists_forbidden = True

    def demand(self, cases: Array, schema: Schema, units: Units) -> Ends:
        lower, upper = allowed_intervals(self.formula, schema.values(cases[:, 0]), len(cases))
        return Ends(*units.ends(lower, upper))

    def margin(self, demand: Ends, values: Array) -> Array:
        """Distance to the nearest allowed interval, negative inside one."""
        return outside(values, *demand)

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return text(self.formula, target_name, names)

    def columns(self) -> frozenset[str]:
        return columns(self.formula)

    def impossible(self, demand: Ends) -> np.ndarray:
        return ~np.any(demand.lower <= demand.upper, axis=-1)

    def scale(self, demand: Ends) -> float:
        """The median finite width of the allowed intervals, at most sd(y) (1 in model units)."""
        with np.errstate(invalid="ignore"):
            width = np.asarray(demand.upper) - np.asarray(demand.lower)
        finite = width[np.isfinite(width) & (width > 0)]
        return min(float(np.median(finite)), 1.0) if finite.size else 1.0

    def allowed(self, demand: Ends) -> Allowed:
        return Allowed(outputs=tuple(demand))

    def forbidden(self, demand: Ends, values: Array) -> list[list[Array]]:
        """The gaps between allowed intervals.

        A gap that is empty at one point only (errata C5) has an end there that is infinite the other way, so
        that the soft indicator of its inside is zero.
        """
        lower, upper = demand
        after = upper.__array_namespace__().where(lower <= upper, upper, np.inf)
        slots = lower.shape[-1]
        gaps = []
        for k in range(slots + 1):
            left = None if k == 0 else after[..., k - 1]
            right = None if k == slots else lower[..., k]
            if _always(left, np.inf) or _always(right, -np.inf):
                continue
            gap = [] if left is None else [left - values]
            gaps.append(gap if right is None or _always(right, np.inf) else [*gap, values - right])
        return gaps or [[values.__array_namespace__().full(values.shape, np.inf)]]

    def ranges(self, schema: Schema, tolerance: float) -> Ranges | None:
        return formula_ranges(self.formula, None, schema)

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound | None:
        """Comparison by comparison: the largest of all that have to hold, the smallest of alternatives."""
        bound = MarginBound(boxes, np.ones((1, 1, 1)))
        margin = formula_reading(self.formula, lambda *pair: compared(bound, 0, units, *pair))
        return None if margin is None else replace(bound, margin=margin)

    def words(self, demand: Ends, schema: Schema) -> str | None:
        if not self.columns():
            return None
        target = "y" if schema.target is None else schema.target.name
        return bounds_text(name_text(target), demand.lower[0], demand.upper[0])


def _always(end: Any, infinity: float) -> bool:
    # Points that are constants let gaps that never occur go before compilation; traced points keep them all.
    return isinstance(end, np.ndarray) and bool(np.all(end == infinity))


def read(sentence: Sentence, tree: Branch, target: Target) -> Bounds | None:
    """Any formula about a number."""
    if target.task == "classification":
        return None
    return Bounds(read_formula(sentence, tree, "output")[1])
