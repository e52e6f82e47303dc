"""`P(action = 1) >= 0.95`, `P(hired = 1) = skill`: the total probability of classes, bounded or stated."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.enclosures import enclose
from ocbnn.language.expressions import (
    Condition,
    Expression,
    Probability,
    affine_in_output,
    columns,
    minus,
    text,
)
from ocbnn.language.reading import require_probability
from ocbnn.rules.bounding import (
    Boxes,
    MarginBound,
    Reading,
    Upper,
    formula_reading,
    share,
    share_readings,
)
from ocbnn.rules.formulas import (
    allowed_intervals,
    at_points,
    beyond_probabilities,
    bounds_text,
    class_members,
    read_equations,
    read_formula,
    shown_number,
    target_of,
)
from ocbnn.rules.margins import outside, total
from ocbnn.rules.ranges import Ranges, around, class_indices, formula_ranges
from ocbnn.rules.requirement import Allowed, Array, Asked, Requirement, Shares, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.schema import Label, Schema, Target

SMALLEST_SCALE = 0.01
"""`P(…) >= 1` allows a set of width zero, which nothing can be divided by."""


@dataclass(frozen=True)
class ProbabilityBounds(Requirement):
    """The classes' total probability satisfies the formula."""

    classes: tuple[Label, ...]
    formula: Condition

    def demand(self, cases: Array, schema: Schema, units: Units) -> Shares:
        lower, upper = allowed_intervals(self.formula, schema.values(cases[:, 0]), len(cases))
        lower, upper = np.maximum(lower, 0.0), np.minimum(upper, 1.0)
        empty = lower > upper
        lower, upper = np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)
        # An interval below 0 empties the first slot, so that slots have to be put in order again.
        order = np.argsort(lower, axis=1, kind="stable")
        lower, upper = (np.take_along_axis(ends, order, axis=1) for ends in (lower, upper))
        return Shares(class_members(self.classes, len(cases), schema), lower, upper)

    def margin(self, demand: Shares, values: Array) -> Array:
        """Distance of the total probability to the nearest allowed interval, negative inside one."""
        return outside(total(values, demand.members), demand.lower, demand.upper)

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return text(self.formula, target_name, names)

    def columns(self) -> frozenset[str]:
        return columns(self.formula)

    def impossible(self, demand: Shares) -> np.ndarray:
        lower, upper = demand.lower, demand.upper
        return ~np.any((lower <= upper) & (lower <= 1.0) & (upper >= 0.0), axis=-1)

    def scale(self, demand: Shares) -> float:
        """The median width of the allowed part of [0, 1], at least 0.01."""
        width = np.clip(demand.upper, 0.0, 1.0) - np.clip(demand.lower, 0.0, 1.0)
        return max(float(np.median(np.sum(np.maximum(width, 0.0), axis=-1))), SMALLEST_SCALE)

    def allowed(self, demand: Shares) -> Allowed:
        return Allowed(shares=demand)

    def against(self, demand: Shares, observed: np.ndarray) -> None:
        """One row has an outcome, not a probability: it cannot contradict a bound on one."""
        return

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound | None:
        """From the least and the largest total probability."""
        known = target_of(schema).classes
        bound = MarginBound(boxes, np.zeros((0, 1, len(known))))
        members = [index for index, label in enumerate(known) if label in self.classes]
        odds = share_readings(bound, members)

        def atom(left: Expression, sign: str, right: Expression) -> Reading | None:
            form = None if sign in ("=", "!=") else affine_in_output(minus(left, right))
            if form is None:
                return None
            turn = 1.0 if sign in ("<", "<=") else -1.0
            slope, intercept = (enclose(part, boxes.columns) for part in form)
            slopes = [bound.given(turn * end) for end in slope]
            rest = bound.given(intercept[1] if turn > 0 else -intercept[0])

            def margin(upper: Upper) -> Array:
                steep, added = [each(upper) for each in slopes], rest(upper)
                xp = added.__array_namespace__()

                def most(shares: list[Array]) -> Array:
                    # Affine in the slope and in P: the largest value is at the ends of both.
                    return reduce(xp.maximum, [each * p for each in steep for p in shares]) + added

                whole = most([xp.zeros_like(added), xp.ones_like(added)])
                if odds is None:  # of all classes together it is 1
                    return whole if members else most([xp.zeros_like(added)])
                ends = [each(upper) for each in odds]
                found = most([share(end) for end in ends])
                # Where a bound says nothing, P is flat: what is violated counts by its log-odds too.
                beyond = xp.maximum(xp.maximum(ends[1], -ends[0]), 0.0)
                found = found + xp.maximum(found, 0.0) * beyond
                # `P <= 1` and `P >= 0` hold however P is rounded.
                return xp.where(whole <= 0, -1.0, found)

            return margin

        margin = formula_reading(self.formula, atom)
        return None if margin is None else replace(bound, margin=margin)

    def ranges(self, schema: Schema, tolerance: float) -> Ranges | None:
        return formula_ranges(self.formula, class_indices(self.classes, schema), schema)

    def words(self, demand: Shares, schema: Schema) -> str | None:
        if not self.columns():
            return None
        return bounds_text(
            text(Probability(self.classes), target_of(schema).name, schema.names),
            np.where(demand.lower[0] <= 0, -np.inf, demand.lower[0]),
            np.where(demand.upper[0] >= 1, np.inf, demand.upper[0]),
        )


class StatedProbability(NamedTuple):
    """The total probability of these classes."""

    members: Array  # (m, C) bool
    probability: Array  # (m,)


@dataclass(frozen=True)
class ProbabilityTarget(Requirement):
    """The classes' total probability, over all draws, is this value, clipped to [0, 1]."""

    classes: tuple[Label, ...]
    value: Expression

    judged = "predictive"
    default_tolerance = 0.05
    default_term = "target-probability"

    def demand(self, cases: Array, schema: Schema, units: Units) -> StatedProbability:
        value = at_points([self.value], cases[:, 0], schema, "the probability")[:, 0]
        return StatedProbability(class_members(self.classes, len(cases), schema), np.clip(value, 0.0, 1.0))

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return f"{text(Probability(self.classes), target_name, names)} = {text(self.value)}"

    def columns(self) -> frozenset[str]:
        return columns(self.value)

    def impossible(self, demand: StatedProbability) -> np.ndarray:
        return ~((demand.probability >= 0.0) & (demand.probability <= 1.0))

    def asked(self, demand: StatedProbability) -> Asked:
        members, probability = demand
        xp = probability.__array_namespace__()
        events = members.__array_namespace__().stack([members, ~members], axis=-2)
        return Asked(xp.stack([probability, 1.0 - probability], axis=-1), events)

    def ranges(self, schema: Schema, tolerance: float) -> Ranges | None:
        members = class_indices(self.classes, schema)
        return around(schema, [((members, self.value),)], tolerance, widened=True)

    def words(self, demand: StatedProbability, schema: Schema) -> str:
        name = text(Probability(self.classes), target_of(schema).name, schema.names)
        return f"{name} = {shown_number(demand.probability[0])}"

    def clipped(self, points: np.ndarray, schema: Schema) -> str | None:
        return beyond_probabilities((self.value,), points, schema)


def read(sentence: Sentence, tree: Branch, target: Target) -> ProbabilityBounds | ProbabilityTarget | None:
    """Statements that name a probability, `P(…)`."""
    if "probability" not in {str(branch.data) for branch in tree.iter_subtrees()}:
        return None
    equations = read_equations(sentence, tree, "probability")
    if equations is not None and len(equations) == 1 and equations[0].margin is None:
        (equation,) = equations
        if equation.weight is not None:
            raise sentence.error("A probability has no weight.", equation.tree)
        require_probability(sentence, equation.value, equation.tree)
        assert isinstance(equation.quantity, Probability)
        return ProbabilityTarget(equation.quantity.classes, equation.value)
    quantity, formula = read_formula(sentence, tree, "probability")
    assert isinstance(quantity, Probability)
    return ProbabilityBounds(quantity.classes, formula)
