"""`y = 2`, `y = 2 (0.7) or y = 3 (0.3)`, `y = x ^ 2 within 0.5`: y meets a value within a margin."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ocbnn.language.expressions import (
    Expression,
    Number,
    Output,
    columns,
    minus,
    name_text,
    number_text,
    plus,
    text,
)
from ocbnn.language.reading import normalised
from ocbnn.rules.bounding import Boxes, MarginBound, compared, joined
from ocbnn.rules.formulas import (
    MOST_COMPARISONS,
    at_points,
    read_equations,
    shown_number,
    target_of,
    weight_texts,
)
from ocbnn.rules.margins import smallest
from ocbnn.rules.ranges import Ranges, around
from ocbnn.rules.requirement import Allowed, Array, Peaks, Requirement, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.schema import Schema, Target

MARGIN = 0.1
"""Default of how near a value has to be met, in standard deviations of the target."""


@dataclass(frozen=True)
class Values(Requirement):
    """Y meets one of the values within the margin; default: a tenth of the target's standard deviation."""

    values: tuple[tuple[Expression, float], ...]
    within: float | None = None

    default_term = "gaussian-mixture"

    def demand(self, cases: Array, schema: Schema, units: Units) -> Peaks:
        values = at_points([value for value, _ in self.values], cases[:, 0], schema, "the value")
        weights = np.tile([weight for _, weight in self.values], (len(cases), 1))
        margin = np.full(len(cases), self._within(schema))
        return Peaks(units.of(values), weights / weights.sum(axis=1, keepdims=True), margin / units.scale)

    def margin(self, demand: Peaks, values: Array) -> Array:
        """Distance to the nearest value, less the margin."""
        xp = values.__array_namespace__()
        distance = xp.abs(values[..., None] - demand.values)
        return smallest(xp.where(demand.weights > 0, distance, xp.inf)) - demand.margin

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        within = "" if self.within is None else f" within {number_text(self.within)}"
        weights = weight_texts([weight for _, weight in self.values])
        return " or ".join(
            f"{name_text(target_name)} = {text(value)}{within}{weight}"
            for (value, _), weight in zip(self.values, weights, strict=True)
        )

    def columns(self) -> frozenset[str]:
        return frozenset().union(*(columns(value) for value, _ in self.values))

    def impossible(self, demand: Peaks) -> np.ndarray:
        used = demand.weights > 0
        met = np.isfinite(np.where(used, demand.values, 0.0)).all(axis=-1)
        return ~(met & np.any(used, axis=-1) & (demand.margin > 0))

    def scale(self, demand: Peaks) -> float:
        """The median margin."""
        return float(np.median(demand.margin))

    def peaks(self, demand: Peaks) -> Peaks:
        return demand

    def allowed(self, demand: Peaks) -> Allowed:
        """The values with what lies within their margins, as disjoint intervals."""
        xp = demand.values.__array_namespace__()
        values = xp.sort(xp.where(demand.weights > 0, demand.values, xp.inf), axis=-1)
        used = xp.isfinite(values)
        half = demand.margin[..., None]
        # A value at the very end of the margin must still be within it after rounding.
        rounding = 4 * np.finfo(half.dtype).eps * (xp.abs(xp.where(used, values, 0.0)) + half)
        half = xp.where(half > rounding, half - rounding, 0.0)
        lower = xp.where(used, values - half, xp.inf)
        upper = xp.where(used, values + half, -xp.inf)
        following = xp.concat([lower[..., 1:], xp.full_like(lower[..., :1], xp.inf)], axis=-1)
        return Allowed(outputs=(lower, xp.where(upper < following, upper, following)))

    def ranges(self, schema: Schema, tolerance: float) -> Ranges | None:
        alternatives = [((None, expression),) for expression, _ in self.values]
        return around(schema, alternatives, self._within(schema), pulls=True)

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound | None:
        """Between the ends of the margin around one of the values."""
        bound, margin = MarginBound(boxes, np.ones((1, 1, 1))), Number(self._within(schema))
        near = [
            joined(
                [
                    compared(bound, 0, units, Output(), "<=", plus(value, margin)),
                    compared(bound, 0, units, Output(), ">=", minus(value, margin)),
                ],
                together=True,
            )
            for value, weight in self.values
            if weight > 0
        ]
        nearest = joined(near, together=False)
        return None if nearest is None else replace(bound, margin=nearest)

    def words(self, demand: Peaks, schema: Schema) -> str:
        name = name_text(target_of(schema).name)
        within = f" within {shown_number(demand.margin[0])}"
        return " or ".join(f"{name} = {shown_number(value)}{within}" for value in demand.values[0])

    def _within(self, schema: Schema) -> float:
        """How near a value has to be met, in raw units."""
        return float(MARGIN * target_of(schema).scale if self.within is None else self.within)


def read(sentence: Sentence, tree: Branch, target: Target) -> Values | None:
    """Values joined by `or` alone."""
    if target.task == "classification":
        return None
    equations = read_equations(sentence, tree, "output")
    if equations is None:
        return None
    margins = {equation.margin for equation in equations} - {None}
    if len(margins) > 1:
        raise sentence.error(
            "All values of a rule share one margin. Write one `within` for all.", equations[1].tree
        )
    if len(equations) > MOST_COMPARISONS:
        raise sentence.error(
            f"More than {MOST_COMPARISONS} values are too many for one rule.", equations[0].tree
        )
    weights = normalised(sentence, [(equation.weight, equation.tree) for equation in equations])
    values = tuple((equation.value, weight) for equation, weight in zip(equations, weights, strict=True))
    return Values(values, next(iter(margins), None))
