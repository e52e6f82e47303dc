"""`y ~ Normal(2, 0.3)`, `label ~ Categorical(green: 0.5, blue: 0.5)`: how the target is distributed."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.expressions import (
    Arithmetic,
    Expression,
    Number,
    columns,
    constant,
    label_text,
    minus,
    name_text,
    over,
    plus,
    quantities,
    text,
)
from ocbnn.language.reading import (
    Role,
    normalised,
    read_expression,
    read_label,
    read_suffixes,
    require_probability,
    tidy,
)
from ocbnn.language.syntax import Sentence, alternatives_of, branches, name_of, target_name
from ocbnn.rules.formulas import (
    at_points,
    beyond_probabilities,
    require,
    shown_number,
    target_of,
    weight_texts,
)
from ocbnn.rules.ranges import Ranges, around, class_indices
from ocbnn.rules.requirement import Array, Asked, Normals, Requirement, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch
    from ocbnn.schema import Label, Schema, Target


@dataclass(frozen=True)
class NormalDistribution(Requirement):
    """`y ~ Normal(2, 0.3) (0.7) or y ~ Normal(3, 0.3) (0.3)`: components as (weight, mean, sd).

    It is about observations of Y, noise included. More strength would only make functions narrower than what
    is asked, so its strength is not searched for.
    """

    components: tuple[tuple[float, Expression, Expression], ...]

    judged = "predictive"
    default_tolerance = 0.05
    default_term = "output-density"
    strength_is_found = False
    speaks_of_noise = True

    def demand(self, cases: Array, schema: Schema, units: Units) -> Normals:
        coded = cases[:, 0]
        weight = np.tile([weight for weight, _, _ in self.components], (len(cases), 1))
        mean = at_points([mean for _, mean, _ in self.components], coded, schema, "the mean")
        sd = at_points([sd for _, _, sd in self.components], coded, schema, "the standard deviation")
        require(np.all(sd > 0, axis=1), schema.values(coded), "the standard deviation is not above 0")
        return Normals(weight / weight.sum(axis=1, keepdims=True), units.of(mean), sd / units.scale)

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        weights = weight_texts([weight for weight, _, _ in self.components])
        return " or ".join(
            f"{name_text(target_name)} ~ Normal({text(mean)}, {text(sd)}){weight}"
            for (_, mean, sd), weight in zip(self.components, weights, strict=True)
        )

    def columns(self) -> frozenset[str]:
        return frozenset().union(*(columns(mean) | columns(sd) for _, mean, sd in self.components))

    def impossible(self, demand: Normals) -> np.ndarray:
        weight, mean, sd = demand
        return ~np.all((weight <= 0) | (np.isfinite(mean) & (sd > 0)), axis=-1)

    def asked(self, demand: Normals) -> Asked:
        return Asked(normals=demand)

    def words(self, demand: Normals, schema: Schema) -> str:
        name, parts = name_text(target_of(schema).name), zip(demand.mean[0], demand.sd[0], strict=True)
        return " or ".join(f"{name} ~ Normal({shown_number(m)}, {shown_number(s)})" for m, s in parts)


class StatedClasses(NamedTuple):
    """The class is distributed like this."""

    probability: Array  # (m, C)


@dataclass(frozen=True)
class ClassProbabilities(Requirement):
    """`y ~ Bernoulli(p)`, `label ~ Categorical(green: 0.5, blue: 0.5)`: a probability for each class.

    Where they are expressions that leave [0, 1], they are clipped to it and divided by their sum.
    """

    values: tuple[Expression, ...]
    classes: tuple[Label, ...]

    judged = "predictive"
    default_tolerance = 0.05
    default_term = "target-probability"

    def demand(self, cases: Array, schema: Schema, units: Units) -> StatedClasses:
        coded = cases[:, 0]
        values = np.clip(at_points(self.values, coded, schema, "the probability"), 0.0, 1.0)
        total = values.sum(axis=1, keepdims=True)
        require(total[:, 0] > 0, schema.values(coded), "no class has a probability above 0")
        order = [self.classes.index(label) for label in target_of(schema).classes]
        return StatedClasses((values / total)[:, order])

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        shown = [text(value) for value in self.values]
        if len(self.values) == 2 and self.values[0] == Arithmetic("-", Number(1.0), self.values[1]):
            return f"{name_text(target_name)} ~ Bernoulli({shown[1]})"
        labels = [label_text(label, names) for label in self.classes]
        pairs = ", ".join(f"{label}: {value}" for label, value in zip(labels, shown, strict=True))
        return f"{name_text(target_name)} ~ Categorical({pairs})"

    def columns(self) -> frozenset[str]:
        return frozenset().union(*(columns(value) for value in self.values))

    def impossible(self, demand: StatedClasses) -> np.ndarray:
        return ~np.all((demand.probability >= 0.0) & (demand.probability <= 1.0), axis=-1)

    def asked(self, demand: StatedClasses) -> Asked:
        return Asked(demand.probability)

    def ranges(self, schema: Schema, tolerance: float) -> Ranges | None:
        pairs = zip(self.classes, self.values, strict=True)
        targets = [(class_indices((label,), schema), value) for label, value in pairs]
        return around(schema, [targets], tolerance, widened=True)

    def clipped(self, points: np.ndarray, schema: Schema) -> str | None:
        # Of `Bernoulli(p)` first p, which was written, then 1 − p.
        return beyond_probabilities(self.values[::-1], points, schema)


# Reading ----------------------------------------------------------------------------------------------------

SUM_TOLERANCE = 1e-6


def read(sentence: Sentence, tree: Branch, target: Target) -> NormalDistribution | ClassProbabilities | None:
    """How the target is distributed: `y ~ …`."""
    if "component" not in {str(branch.data) for branch in tree.iter_subtrees()}:
        return None
    components = [
        _component(sentence, item, first=place == 0) for place, item in enumerate(alternatives_of(tree))
    ]
    kinds = [str(component.children[0]).capitalize() for component in components]
    for kind, component in zip(kinds, components, strict=True):
        _require_fitting(sentence, kind, component, target)
    if kinds[0] == "Normal":
        return _normals(sentence, components)
    if len(components) > 1:
        raise sentence.error(f"`{kinds[0]}(…)` stands alone; only normals are mixed by `or`.", components[1])
    suffix = [b for b in branches(components[0]) if b.data in ("within", "weight")]
    if suffix:
        raise sentence.error(f"Nothing follows `{kinds[0]}(…)`.", suffix[0])
    arguments = branches(components[0])
    if kinds[0] == "Bernoulli":
        return _bernoulli(sentence, components[0], arguments, target)
    return _categorical(sentence, components[0], arguments, target)


def _component(sentence: Sentence, tree: Branch, first: bool) -> Branch:
    if tree.data == "component" and not first:
        return tree
    if tree.data == "component":
        raise sentence.error(
            f"Say what is distributed like this: `{name_text(target_name(sentence))} ~ …`.", tree
        )
    if tree.data != "distribution":
        raise sentence.error(
            "A distribution stands alone after `then`; only `or` between normals joins several.", tree
        )
    subject, component = branches(tree)
    if subject.data != "name" or not sentence.schema.is_target(name_of(subject)):
        raise sentence.error(
            f"A rule says how {name_text(target_name(sentence))} is distributed, "
            f"not {sentence.slice(subject)}.",
            subject,
        )
    return component


def _require_fitting(sentence: Sentence, kind: str, tree: Branch, target: Target) -> None:
    name = name_text(target.name)
    if kind == "Normal" and target.task == "classification":
        raise sentence.error(
            f"`Normal` is for numbers, but {name} has classes. "
            f"Use `{name} ~ Bernoulli(p)` or `{name} ~ Categorical(…)`.",
            tree,
        )
    if kind != "Normal" and target.task == "regression":
        raise sentence.error(
            f"`{kind}` is for classes, but {name} is a number. Use `{name} ~ Normal(mean, sd)`.", tree
        )


def _plain_arguments(
    sentence: Sentence, tree: Branch, arguments: list[Branch], shape: str, role: Role
) -> list[Expression]:
    count = shape.count(",") + 1
    if len(arguments) != count or any(len(branches(argument)) != 1 for argument in arguments):
        raise sentence.error(f"Write `{shape}`.", tree)
    values = [read_expression(sentence, branches(argument)[0], role) for argument in arguments]
    _no_target(sentence, values, tree)
    return values


def _no_target(sentence: Sentence, values: list[Expression], tree: Branch) -> None:
    if any(quantities(value) for value in values):
        raise sentence.error("The distribution of the target cannot depend on the target itself.", tree)


def _normals(sentence: Sentence, components: list[Branch]) -> NormalDistribution:
    weighted: list[tuple[float | None, Branch]] = []
    pairs: list[tuple[Expression, Expression]] = []
    for tree in components:
        if str(tree.children[0]).capitalize() != "Normal":
            raise sentence.error("Only normals are mixed by `or`.", tree)
        arguments = [branch for branch in branches(tree) if branch.data == "argument"]
        suffixes = [branch for branch in branches(tree) if branch.data != "argument"]
        mean, sd = _plain_arguments(sentence, tree, arguments, "Normal(mean, sd)", "output")
        for value, what in ((constant(mean), "mean"), (constant(sd), "standard deviation")):
            if value is not None and not math.isfinite(value):
                raise sentence.error(f"The {what} is not a finite number.", tree)
        spread = constant(sd)
        if spread is not None and spread <= 0:
            raise sentence.error(f"The standard deviation {spread:g} has to be above 0.", arguments[1])
        margin, weight = read_suffixes(sentence, suffixes, "output")
        if margin is not None:
            raise sentence.error("`within` is for values; a normal has its standard deviation.", suffixes[0])
        weighted.append((weight, tree))
        pairs.append((mean, sd))
    weights = normalised(sentence, weighted)
    return NormalDistribution(
        tuple((weight, mean, sd) for weight, (mean, sd) in zip(weights, pairs, strict=True))
    )


def _bernoulli(
    sentence: Sentence, tree: Branch, arguments: list[Branch], target: Target
) -> ClassProbabilities:
    if len(target.classes) != 2:
        raise sentence.error(
            f"`Bernoulli` is for two classes, but {name_text(target.name)} has {len(target.classes)}. "
            "Use `Categorical(…)`.",
            tree,
        )
    (probability,) = _plain_arguments(sentence, tree, arguments, "Bernoulli(p)", "probability")
    _require_finite_probability(sentence, probability, arguments[0])
    return ClassProbabilities((Arithmetic("-", Number(1.0), probability), probability), target.classes)


def _categorical(
    sentence: Sentence, tree: Branch, arguments: list[Branch], target: Target
) -> ClassProbabilities:
    """Classes that are not named share what is left, equally."""
    given: dict[Label, Expression] = {}
    for argument in arguments:
        if len(branches(argument)) != 2:
            raise sentence.error("Name the class: `Categorical(green: 0.5, blue: 0.5)`.", argument)
        left, right = branches(argument)
        label = read_label(sentence, left, target)
        if label in given:
            raise sentence.error(f"The class {label_text(label)} has a probability already.", argument)
        given[label] = read_expression(sentence, right, "probability")
        _require_finite_probability(sentence, given[label], argument)
    if not given:
        raise sentence.error("Name the classes: `Categorical(green: 0.5, blue: 0.5)`.", tree)
    _no_target(sentence, list(given.values()), tree)
    missing = [label for label in target.classes if label not in given]
    _require_sum(sentence, tree, list(given.values()), missing)
    rest = _remainder(list(given.values()), len(missing)) if missing else Number(0.0)
    return ClassProbabilities(tuple(given.get(label, rest) for label in target.classes), target.classes)


def _require_finite_probability(sentence: Sentence, value: Expression, tree: Branch) -> None:
    number = constant(value)
    if number is not None and not math.isfinite(number):
        raise sentence.error("The probability is not a number.", tree)
    require_probability(sentence, value, tree)


def _require_sum(sentence: Sentence, tree: Branch, values: list[Expression], missing: list[Label]) -> None:
    numbers = [constant(value) for value in values]
    total = math.fsum(number for number in numbers if number is not None)
    if total > 1 + SUM_TOLERANCE:
        raise sentence.error(f"The probabilities sum to {total:g}, more than 1.", tree)
    if None not in numbers and not missing and total < 1 - SUM_TOLERANCE:
        raise sentence.error(
            f"The probabilities sum to {total:g}, and no class is left to take the rest up to 1.", tree
        )


def _remainder(values: list[Expression], classes: int) -> Expression:
    total: Expression = Number(0.0)
    for value in values:
        total = plus(total, value)
    rest = minus(Number(1.0), total)
    if isinstance(rest, Number):
        return Number(tidy(max(rest.value, 0.0) / classes))
    return over(rest, Number(float(classes)))
