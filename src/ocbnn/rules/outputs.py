"""What a rule says about the output: one frozen class per form, each of which can be located and printed.

`locate(coded, schema)` gives the demands at n points as arrays; `text(target_name, names)` gives canonical
text, in which labels that are also one of `names` are quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ocbnn.errors import RuleError
from ocbnn.language.expressions import (
    Arithmetic,
    Array,
    Condition,
    Expression,
    Number,
    Probability,
    columns,
    evaluate,
    label_text,
    name_text,
    number_text,
    text,
)
from ocbnn.language.expressions import (
    Output as Target,
)
from ocbnn.rules.intervals import allowed_intervals, require
from ocbnn.rules.located import (
    AllowedClasses,
    AllowedIntervals,
    AllowedValues,
    LocatedFunctions,
    NormalMixture,
    ProbabilityIntervals,
    TargetClassProbabilities,
    TargetProbability,
)

if TYPE_CHECKING:
    from ocbnn.schema import Label, Schema

ROUNDING = 1e-9
MARGIN = 0.1
"""How near a value has to be met unless said, in standard deviations of the target."""


@dataclass(frozen=True)
class Intervals:
    """`2.5 <= y <= 3`, `x * y >= 0`, `P(action = 1) >= 0.95`: the quantity obeys the formula."""

    quantity: Target | Probability
    formula: Condition
    is_probabilistic: ClassVar[bool] = False

    def locate(self, coded: Array, schema: Schema) -> AllowedIntervals | ProbabilityIntervals:
        lower, upper = allowed_intervals(self.formula, schema.values(coded), len(coded))
        if isinstance(self.quantity, Target):
            return AllowedIntervals(lower, upper)
        lower, upper = np.maximum(lower, 0.0), np.minimum(upper, 1.0)
        empty = lower > upper
        lower, upper = np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)
        # An interval below 0 empties the first slot, so that slots have to be put in order again.
        order = np.argsort(lower, axis=1, kind="stable")
        lower, upper = (np.take_along_axis(ends, order, axis=1) for ends in (lower, upper))
        return ProbabilityIntervals(_members(self.quantity.classes, len(coded), schema), lower, upper)

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return text(self.formula, target_name, names)


@dataclass(frozen=True)
class Values:
    """`y = 2 (0.7) or y = 3 (0.3)`: y meets one of the values within the margin.

    A margin of None is a tenth of the target's standard deviation.
    """

    values: tuple[tuple[Expression, float], ...]
    margin: float | None = None
    is_probabilistic: ClassVar[bool] = False

    def locate(self, coded: Array, schema: Schema) -> AllowedValues:
        values = _located([value for value, _ in self.values], coded, schema, "the value")
        weights = np.tile([weight for _, weight in self.values], (len(coded), 1))
        margin = MARGIN * _target(schema).scale if self.margin is None else self.margin
        return AllowedValues(
            values, weights / weights.sum(axis=1, keepdims=True), np.full(len(coded), float(margin))
        )

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        within = "" if self.margin is None else f" within {number_text(self.margin)}"
        weights = _weight_texts([weight for _, weight in self.values])
        return " or ".join(
            f"{name_text(target_name)} = {text(value)}{within}{weight}"
            for (value, _), weight in zip(self.values, weights, strict=True)
        )


@dataclass(frozen=True)
class Classes:
    """`label in {green, blue}`: the most probable class is one of these, in the schema's order of classes."""

    allowed: tuple[Label, ...]
    is_probabilistic: ClassVar[bool] = False

    def locate(self, coded: Array, schema: Schema) -> AllowedClasses:
        return AllowedClasses(_members(self.allowed, len(coded), schema))

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return text(Probability(self.allowed), target_name, names)[2:-1]


@dataclass(frozen=True)
class ProbabilityTarget:
    """`P(hired = 1) = skill`: the classes' total probability is this value, clipped to [0, 1]."""

    classes: tuple[Label, ...]
    value: Expression
    is_probabilistic: ClassVar[bool] = True

    def locate(self, coded: Array, schema: Schema) -> TargetProbability:
        value = _located([self.value], coded, schema, "the probability")[:, 0]
        return TargetProbability(_members(self.classes, len(coded), schema), np.clip(value, 0.0, 1.0))

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return f"{text(Probability(self.classes), target_name, names)} = {text(self.value)}"


@dataclass(frozen=True)
class Normals:
    """`y ~ Normal(2, 0.3) (0.7) or y ~ Normal(3, 0.3) (0.3)`: components as (weight, mean, sd)."""

    components: tuple[tuple[float, Expression, Expression], ...]
    is_probabilistic: ClassVar[bool] = True

    def locate(self, coded: Array, schema: Schema) -> NormalMixture:
        weight = np.tile([weight for weight, _, _ in self.components], (len(coded), 1))
        mean = _located([mean for _, mean, _ in self.components], coded, schema, "the mean")
        sd = _located([sd for _, _, sd in self.components], coded, schema, "the standard deviation")
        require(np.all(sd > 0, axis=1), schema.values(coded), "the standard deviation is not above 0")
        return NormalMixture(weight / weight.sum(axis=1, keepdims=True), mean, sd)

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        weights = _weight_texts([weight for weight, _, _ in self.components])
        return " or ".join(
            f"{name_text(target_name)} ~ Normal({text(mean)}, {text(sd)}){weight}"
            for (_, mean, sd), weight in zip(self.components, weights, strict=True)
        )


@dataclass(frozen=True)
class ClassProbabilities:
    """`y ~ Bernoulli(p)`, `label ~ Categorical(green: 0.5, blue: 0.5)`: a probability for each class.

    Where they are expressions that leave [0, 1], they are clipped to it and divided by their sum.
    """

    values: tuple[Expression, ...]
    classes: tuple[Label, ...]
    is_probabilistic: ClassVar[bool] = True

    def locate(self, coded: Array, schema: Schema) -> TargetClassProbabilities:
        values = np.clip(_located(list(self.values), coded, schema, "the probability"), 0.0, 1.0)
        total = values.sum(axis=1, keepdims=True)
        require(total[:, 0] > 0, schema.values(coded), "no class has a probability above 0")
        order = [self.classes.index(label) for label in _target(schema).classes]
        return TargetClassProbabilities((values / total)[:, order])

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        shown = [text(value) for value in self.values]
        if len(self.values) == 2 and self.values[0] == Arithmetic("-", Number(1.0), self.values[1]):
            return f"{name_text(target_name)} ~ Bernoulli({shown[1]})"
        labels = [label_text(label, names) for label in self.classes]
        pairs = ", ".join(f"{label}: {value}" for label, value in zip(labels, shown, strict=True))
        return f"{name_text(target_name)} ~ Categorical({pairs})"


def beyond_probabilities(output: RuleOutput, coded: Array, schema: Schema) -> str | None:
    """Where a probability that the rule computes from columns leaves [0, 1] among these points, in words."""
    if isinstance(output, ProbabilityTarget):
        expressions: tuple[Expression, ...] = (output.value,)
    elif isinstance(output, ClassProbabilities):
        expressions = output.values[::-1]  # of `Bernoulli(p)` first p, which was written, then 1 − p
    else:
        return None
    values = schema.values(coded)
    for expression in expressions:
        found = _located([expression], coded, schema, "the probability")[:, 0]
        outside = (found < -ROUNDING) | (found > 1 + ROUNDING)
        if outside.any():
            first = int(np.argmax(outside))
            named = sorted(columns(expression))
            point = " and ".join(f"{name_text(name)} = {float(values[name][first]):.6g}" for name in named)
            return (
                f"`{text(expression)}` lies outside of [0, 1] at {int(outside.sum())} of {len(coded)} points "
                f"of the rule: it is {float(found[first]):.6g} at {point or 'every one'}"
            )
    return None


Inequality = Callable[[dict[str, Any], Any], Any]
"""g(x, y): x has the coded columns by name, y the target in raw units (or class probabilities, (…, n, C))."""


@dataclass(frozen=True)
class Functions:
    """Any g_i(x, y) from Python: allowed where all are ≤ 0; `negative`: forbidden there (paper eq. 6)."""

    inequalities: tuple[Inequality, ...]
    negative: bool = False
    is_probabilistic: ClassVar[bool] = False

    def locate(self, coded: Array, schema: Schema) -> LocatedFunctions:
        # For classification y has one more axis, the class; nothing is standardised there.
        shape = (len(coded),) if _target(schema).task == "regression" else (len(coded), 1)
        return LocatedFunctions(schema.values(coded), np.zeros(shape), np.ones(shape))

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        """What a report shows; it cannot be parsed."""
        called = (getattr(function, "__name__", type(function).__name__) for function in self.inequalities)
        bounds = " and ".join(f"{name}(x, {name_text(target_name)}) <= 0" for name in called)
        return f"not ({bounds})" if self.negative else bounds


RuleOutput = Intervals | Values | Classes | ProbabilityTarget | Normals | ClassProbabilities | Functions


def _target(schema: Schema) -> Any:
    if schema.target is None:
        raise RuleError("The schema has no target. Infer it with `Schema.infer(frame, target=…)`.")
    return schema.target


def _members(classes: tuple[Label, ...], points: int, schema: Schema) -> Array:
    return np.tile([label in classes for label in _target(schema).classes], (points, 1))


def _located(expressions: list[Expression], coded: Array, schema: Schema, what: str) -> Array:
    """Each expression at each point, (n, K), all finite."""
    values = schema.values(coded)
    located = []
    for expression in expressions:
        column = np.broadcast_to(evaluate(expression, values, schema), (len(coded),))
        require(np.isfinite(column), values, f"{what} `{text(expression)}` is not a finite number")
        located.append(column)
    return np.stack(located, axis=1)


def _weight_texts(weights: list[float]) -> list[str]:
    if len(set(weights)) == 1:
        return [""] * len(weights)
    return [f" ({number_text(weight)})" for weight in weights]
