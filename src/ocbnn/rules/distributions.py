"""From a rule's tree to how it says that the target is distributed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ocbnn.language.amounts import normalised, read_suffixes, require_probability, tidy
from ocbnn.language.expressions import (
    Arithmetic,
    Expression,
    Number,
    constant,
    label_text,
    minus,
    name_text,
    over,
    plus,
    quantities,
)
from ocbnn.language.labels import read_label
from ocbnn.language.reading import Role, read_expression
from ocbnn.language.syntax import Sentence
from ocbnn.language.trees import alternatives_of, branches, name_of, target_name
from ocbnn.rules.outputs import ClassProbabilities, Normals, RuleOutput

if TYPE_CHECKING:
    from ocbnn.language.trees import Branch
    from ocbnn.schema import Label, Target

SUM_TOLERANCE = 1e-6


def read_distribution(sentence: Sentence, tree: Branch, target: Target) -> RuleOutput:
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
    return [read_expression(sentence, branches(argument)[0], role) for argument in arguments]


def _no_target(sentence: Sentence, values: list[Expression], tree: Branch) -> None:
    if any(quantities(value) for value in values):
        raise sentence.error("The distribution of the target cannot depend on the target itself.", tree)


def _normals(sentence: Sentence, components: list[Branch]) -> Normals:
    weighted: list[tuple[float | None, Branch]] = []
    pairs: list[tuple[Expression, Expression]] = []
    for tree in components:
        if str(tree.children[0]).capitalize() != "Normal":
            raise sentence.error("Only normals are mixed by `or`.", tree)
        arguments = [branch for branch in branches(tree) if branch.data == "argument"]
        suffixes = [branch for branch in branches(tree) if branch.data != "argument"]
        mean, sd = _plain_arguments(sentence, tree, arguments, "Normal(mean, sd)", "output")
        _no_target(sentence, [mean, sd], tree)
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
    return Normals(tuple((weight, mean, sd) for weight, (mean, sd) in zip(weights, pairs, strict=True)))


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
    _no_target(sentence, [probability], tree)
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
        what = f"a class of {name_text(target.name)}"
        label = read_label(sentence, left, target.classes, what, target.name)
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
