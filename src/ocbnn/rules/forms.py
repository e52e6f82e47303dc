"""From a rule's tree to what it says of the output: which of the forms in `outputs.py` it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ocbnn.expressions import (
    And,
    Arithmetic,
    Comparison,
    Condition,
    Expression,
    Not,
    Number,
    Or,
    Output,
    Probability,
    affine_in_output,
    constant,
    label_text,
    minus,
    name_text,
    negative,
    over,
    plus,
    quantities,
    text,
)
from ocbnn.rules.intervals import pairs_of
from ocbnn.rules.outputs import (
    ClassProbabilities,
    Classes,
    Intervals,
    Normals,
    ProbabilityTarget,
    RuleOutput,
    Values,
)
from ocbnn.rules.reading import (
    Role,
    branches,
    name_of,
    parts_of,
    read_classes,
    read_constant,
    read_expression,
    read_label,
)
from ocbnn.rules.syntax import Sentence

if TYPE_CHECKING:
    from ocbnn.rules.reading import Branch
    from ocbnn.schema import Label, Target

MOST_COMPARISONS = 64
"""In one output: what is allowed is worked out at every point, over all of them at once."""

SUM_TOLERANCE = 1e-6


def read_output(sentence: Sentence, tree: Branch, target: Target) -> RuleOutput:
    """What stands after `then` or `always`."""
    kinds = {str(branch.data) for branch in tree.iter_subtrees()}
    if "component" in kinds:
        return _distribution(sentence, tree, target)
    if "probability" in kinds:
        return _numeric(sentence, tree, "probability")
    if target.task == "classification":
        return Classes(read_classes(sentence, tree))
    return _numeric(sentence, tree, "output")


def _alternatives(tree: Branch) -> list[Branch]:
    """What `or` joins, at the top; nested disjunctions are taken apart."""
    if tree.data != "disjunction":
        return [tree]
    return [item for branch in branches(tree) for item in _alternatives(branch)]


# Values and intervals ---------------------------------------------------------------------------------------


class _Equation(NamedTuple):
    """`y = value within margin (weight)`."""

    quantity: Output | Probability
    value: Expression
    margin: float | None
    weight: float | None
    tree: Branch


def _numeric(sentence: Sentence, tree: Branch, role: Role) -> RuleOutput:
    alternatives = _alternatives(tree)
    if all(_is_equation(item) for item in alternatives):
        equations = [equation for item in alternatives for equation in _equations(sentence, item, role)]
        if role == "output":
            return _values(sentence, equations)
        if len(equations) == 1 and equations[0].margin is None:
            return _probability_target(sentence, equations[0])
    formula = _formula(sentence, tree, role, negated=False)
    if len(pairs_of(formula)) > MOST_COMPARISONS:
        raise sentence.error(
            f"An output of more than {MOST_COMPARISONS} comparisons is too much for one rule. "
            "Split it into several rules.",
            tree,
        )
    found = quantities(formula)
    if len(found) > 1:
        raise sentence.error("One rule bounds one probability. Write a rule for each.", tree)
    return Intervals(next(iter(found)), formula)


def _is_equation(tree: Branch) -> bool:
    if tree.data == "member":
        return True
    return tree.data == "comparison" and set(parts_of(tree).operators) == {"="}


def _equations(sentence: Sentence, tree: Branch, role: Role) -> list[_Equation]:
    if tree.data == "member":
        subject, *elements = branches(tree)
        margin, weight = None, None
        sides = [(subject, element) for element in elements]
    else:
        terms, _, suffixes = parts_of(tree)
        if len(terms) != 2:
            raise sentence.error("Write one `=` at a time: `y = 2`.", tree)
        margin, weight = _suffixes(sentence, suffixes, role)
        sides = [(terms[0], terms[1])]
    return [
        _Equation(*_solved(sentence, left, right, role, tree), margin, weight, tree) for left, right in sides
    ]


def _solved(
    sentence: Sentence, left: Branch, right: Branch, role: Role, tree: Branch
) -> tuple[Output | Probability, Expression]:
    """The quantity and what it equals."""
    a, b = read_expression(sentence, left, role), read_expression(sentence, right, role)
    slope, intercept = _affine(sentence, a, b, tree)
    if isinstance(b, Output | Probability) and not quantities(a):
        a, b = b, a
    quantity = next(iter(quantities(minus(a, b))))
    solved = (
        b if isinstance(a, Output | Probability) and not quantities(b) else over(negative(intercept), slope)
    )
    value = constant(solved)
    if value is not None and not math.isfinite(value):
        raise sentence.error(f"`{text(solved)}` is not a finite number.", tree)
    return quantity, solved


def _affine(
    sentence: Sentence, left: Expression, right: Expression, tree: Branch
) -> tuple[Expression, Expression]:
    """left − right = slope·quantity + intercept, with a slope that is not zero everywhere."""
    name = _target_name(sentence)
    found = quantities(left) | quantities(right)
    if len(found) > 1:
        raise sentence.error("One rule bounds one probability. Write a rule for each.", tree)
    form = affine_in_output(minus(left, right))
    if found and form is None:
        raise sentence.error(
            f"`{text(left, name)}` against `{text(right, name)}` is not affine in the target: only sums of it, and "
            "products with numbers and columns, are understood, such as `x * y + 2`. "
            "(`abs(y) <= 2` is `-2 <= y <= 2`; for anything else there is `Constraint.from_functions`.)",
            tree,
        )
    if form is None or form[0] == Number(0.0):
        raise sentence.error(
            f"This says nothing about {name_text(name)}. What is said of inputs belongs between `if` and `then`.",
            tree,
        )
    return form


def _suffixes(sentence: Sentence, suffixes: list[Branch], role: Role) -> tuple[float | None, float | None]:
    found: dict[str, float] = {}
    for suffix in suffixes:
        kind = str(suffix.data)
        if kind in found:
            raise sentence.error(f"A value has one {kind if kind == 'weight' else '`within`'}.", suffix)
        if kind == "within":
            value = read_constant(sentence, branches(suffix)[0], role, "What follows `within`")
            if value <= 0:
                raise sentence.error("What follows `within` has to be above 0.", suffix)
        else:
            value = _weight(sentence, suffix)
        found[kind] = value
    return found.get("within"), found.get("weight")


def _weight(sentence: Sentence, suffix: Branch) -> float:
    if len(branches(suffix)) != 1:
        raise sentence.error("A weight is one number in parentheses: `y = 2 (0.7) or y = 3 (0.3)`.", suffix)
    weight = read_constant(sentence, branches(suffix)[0], "probability", "A weight")
    if weight <= 0:
        raise sentence.error("A weight has to be above 0; leave out what cannot be.", suffix)
    return weight


def _values(sentence: Sentence, equations: list[_Equation]) -> Values:
    margins = {equation.margin for equation in equations} - {None}
    if len(margins) > 1:
        raise sentence.error(
            "All values of a rule share one margin. Write one `within` for all.", equations[1].tree
        )
    if len(equations) > MOST_COMPARISONS:
        raise sentence.error(
            f"More than {MOST_COMPARISONS} values are too many for one rule.", equations[0].tree
        )
    weights = _normalised(sentence, [(equation.weight, equation.tree) for equation in equations])
    values = tuple((equation.value, weight) for equation, weight in zip(equations, weights, strict=True))
    return Values(values, next(iter(margins), None))


def _normalised(sentence: Sentence, weighted: list[tuple[float | None, Branch]]) -> list[float]:
    weights = [weight for weight, _ in weighted if weight is not None]
    missing = [tree for weight, tree in weighted if weight is None]
    if missing and weights:
        raise sentence.error("Either every value has a weight, or none has.", missing[0])
    if missing or len(set(weights)) == 1:
        return [1.0 / len(weighted)] * len(weighted)
    total = math.fsum(weights)
    # Weights that already sum to one are kept to the last digit, so that printing and parsing changes nothing.
    return weights if abs(total - 1) < 1e-9 else [weight / total for weight in weights]


def _probability_target(sentence: Sentence, equation: _Equation) -> ProbabilityTarget:
    if equation.weight is not None:
        raise sentence.error("A probability has no weight.", equation.tree)
    _require_probability(sentence, equation.value, equation.tree)
    assert isinstance(equation.quantity, Probability)
    return ProbabilityTarget(equation.quantity.classes, equation.value)


def _require_probability(sentence: Sentence, value: Expression, tree: Branch) -> None:
    number = constant(value)
    if number is not None and not 0 <= number <= 1:
        raise sentence.error(f"{number:g} is not a probability: probabilities are within [0, 1].", tree)


def _formula(sentence: Sentence, tree: Branch, role: Role, negated: bool) -> Condition:
    match str(tree.data):
        case "disjunction":
            return Or(_flat(sentence, tree, role, negated, Or))
        case "conjunction":
            return And(_flat(sentence, tree, role, negated, And))
        case "negated":
            return Not(_formula(sentence, branches(tree)[0], role, not negated))
        case "comparison" if "=" in parts_of(tree).operators or "!=" in parts_of(tree).operators:
            return _near_value(sentence, tree, role, negated)
        case "comparison":
            return _bounds(sentence, tree, role)
        case _:
            if (tree.data == "member") == negated:
                raise _vacuous(sentence, tree)
            raise sentence.error(
                "A set of values stands alone: join it with `or` to other values only.", tree
            )


def _flat(
    sentence: Sentence, tree: Branch, role: Role, negated: bool, kind: type[And] | type[Or]
) -> tuple[Condition, ...]:
    items: list[Condition] = []
    for branch in branches(tree):
        item = _formula(sentence, branch, role, negated)
        items += item.items if isinstance(item, kind) else (item,)
    return tuple(items)


def _bounds(sentence: Sentence, tree: Branch, role: Role) -> Comparison:
    terms, operators, suffixes = parts_of(tree)
    if suffixes:
        what = "`within` is for values" if suffixes[0].data == "within" else "Weights are for values"
        raise sentence.error(f"{what}, such as `y = 2`; this is a bound.", suffixes[0])
    formula = Comparison(tuple(read_expression(sentence, term, role) for term in terms), tuple(operators))
    for term, (left, _, right) in zip(terms, formula.pairs(), strict=True):
        slope, intercept = _affine(sentence, left, right, term)
        if role == "probability":
            _require_probability(sentence, over(negative(intercept), slope), term)
    return formula


def _near_value(sentence: Sentence, tree: Branch, role: Role, negated: bool) -> Condition:
    """`not y = 2 within 0.5`, `y = 2 within 0.5 or y > 3`: the margin makes an interval of the value."""
    terms, operators, _ = parts_of(tree)
    if len(terms) != 2:
        raise sentence.error("A chain has only `<`, `<=`, `>` and `>=`; write `=` and `!=` apart.", tree)
    (equation,) = _equations(sentence, tree, role)
    equal = operators[0] == "="
    if equation.weight is not None:
        raise sentence.error("Weights are for values that are joined by `or` alone.", tree)
    if equation.margin is None:
        if equal == negated:
            raise _vacuous(sentence, tree)
        raise sentence.error(
            "A value stands beside other statements here. Say how near it has to be met (`y = 2 within 0.1`), or "
            "join it with `or` to other values only.",
            tree,
        )
    if role == "probability":
        _require_probability(sentence, equation.value, tree)
    margin = Number(equation.margin)
    ends = minus(equation.value, margin), plus(equation.value, margin)
    inside = Comparison((ends[0], equation.quantity, ends[1]), ("<=", "<="))
    return inside if equal else Not(inside)


def _vacuous(sentence: Sentence, tree: Branch) -> Exception:
    name = name_text(_target_name(sentence))
    return sentence.error(
        "A number that varies continuously never meets a single value exactly, so forbidding one says nothing. "
        f"Say how far to stay away: `not {name} = 2 within 0.5`.",
        tree,
    )


def _target_name(sentence: Sentence) -> str:
    return "y" if sentence.schema.target is None else sentence.schema.target.name


# Distributions ----------------------------------------------------------------------------------------------


def _distribution(sentence: Sentence, tree: Branch, target: Target) -> RuleOutput:
    components = [
        _component(sentence, item, first=place == 0) for place, item in enumerate(_alternatives(tree))
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
            f"Say what is distributed like this: `{name_text(_target_name(sentence))} ~ …`.", tree
        )
    if tree.data != "distribution":
        raise sentence.error(
            "A distribution stands alone after `then`; only `or` between normals joins several.", tree
        )
    subject, component = branches(tree)
    if subject.data != "name" or not sentence.schema.is_target(name_of(subject)):
        raise sentence.error(
            f"A rule says how {name_text(_target_name(sentence))} is distributed, not {sentence.slice(subject)}.",
            subject,
        )
    return component


def _require_fitting(sentence: Sentence, kind: str, tree: Branch, target: Target) -> None:
    name = name_text(target.name)
    if kind == "Normal" and target.task == "classification":
        raise sentence.error(
            f"`Normal` is for numbers, but {name} has classes. Use `{name} ~ Bernoulli(p)` or `Categorical(…)`.",
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
        margin, weight = _suffixes(sentence, suffixes, "output")
        if margin is not None:
            raise sentence.error("`within` is for values; a normal has its standard deviation.", suffixes[0])
        weighted.append((weight, tree))
        pairs.append((mean, sd))
    weights = _normalised(sentence, weighted)
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
        label = read_label(sentence, left, target.classes, f"a class of {name_text(target.name)}")
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
    _require_probability(sentence, value, tree)


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
        return Number(max(rest.value, 0.0) / classes)
    return over(rest, Number(float(classes)))
