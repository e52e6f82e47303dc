"""From a rule's tree to what it says of the output: which of the forms in `outputs.py` it is."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ocbnn.errors import RuleError
from ocbnn.language.amounts import normalised, read_suffixes, require_probability, tidy
from ocbnn.language.expressions import (
    And,
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
    minus,
    name_text,
    negative,
    over,
    plus,
    quantities,
    text,
)
from ocbnn.language.labels import read_classes
from ocbnn.language.reading import Role, read_expression
from ocbnn.language.syntax import Sentence
from ocbnn.language.trees import alternatives_of, branches, parts_of, target_name
from ocbnn.rules.distributions import read_distribution
from ocbnn.rules.intervals import pairs_of
from ocbnn.rules.outputs import Classes, Intervals, ProbabilityTarget, RuleOutput, Values

if TYPE_CHECKING:
    from ocbnn.language.trees import Branch
    from ocbnn.schema import Target

MOST_COMPARISONS = 64
"""In one output: what is allowed is worked out at every point, over all of them at once."""


def read_output(sentence: Sentence, tree: Branch, target: Target) -> RuleOutput:
    """What stands after `then` or `always`."""
    kinds = {str(branch.data) for branch in tree.iter_subtrees()}
    if "component" in kinds:
        return read_distribution(sentence, tree, target)
    if "probability" in kinds:
        return _numeric(sentence, tree, "probability")
    if target.task == "classification":
        return Classes(read_classes(sentence, tree))
    return _numeric(sentence, tree, "output")


# Values and intervals ---------------------------------------------------------------------------------------


class _Equation(NamedTuple):
    """`y = value within margin (weight)`."""

    quantity: Output | Probability
    value: Expression
    margin: float | None
    weight: float | None
    tree: Branch


def _numeric(sentence: Sentence, tree: Branch, role: Role) -> RuleOutput:
    alternatives = alternatives_of(tree)
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
        suffixes: list[Branch] = []
        sides = [(subject, element) for element in elements]
    else:
        terms, _, suffixes = parts_of(tree)
        if len(terms) != 2:
            raise sentence.error("Write one `=` at a time: `y = 2`.", tree)
        sides = [(terms[0], terms[1])]
    solved = [_solved(sentence, left, right, role, tree) for left, right in sides]
    margin, weight = read_suffixes(sentence, suffixes, role)
    return [_Equation(quantity, value, margin, weight, tree) for quantity, value in solved]


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
    """Left − right = slope·quantity + intercept, with a slope that is not zero everywhere."""
    name = target_name(sentence)
    found = quantities(left) | quantities(right)
    if len(found) > 1:
        raise sentence.error("One rule bounds one probability. Write a rule for each.", tree)
    form = affine_in_output(minus(left, right))
    if found and form is None:
        raise sentence.error(
            f"`{text(left, name)}` compared with `{text(right, name)}` is not affine in the target: only its "
            "sums, and products with numbers and columns, are understood, such as `x * y + 2`. "
            "(`abs(y) <= 2` is `-2 <= y <= 2`; for anything else there is `Constraint.from_functions`.)",
            tree,
        )
    if form is None or form[0] == Number(0.0):
        raise sentence.error(
            f"This says nothing about {name_text(name)}. "
            "What is said of inputs belongs between `if` and `then`.",
            tree,
        )
    return form


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
    weights = normalised(sentence, [(equation.weight, equation.tree) for equation in equations])
    values = tuple((equation.value, weight) for equation, weight in zip(equations, weights, strict=True))
    return Values(values, next(iter(margins), None))


def _probability_target(sentence: Sentence, equation: _Equation) -> ProbabilityTarget:
    if equation.weight is not None:
        raise sentence.error("A probability has no weight.", equation.tree)
    require_probability(sentence, equation.value, equation.tree)
    assert isinstance(equation.quantity, Probability)
    return ProbabilityTarget(equation.quantity.classes, equation.value)


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
                raise _vacuous(sentence, tree, role)
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
    for (first, second), (left, _, right) in zip(pairwise(terms), formula.pairs(), strict=True):
        slope, intercept = _affine(sentence, left, right, first)
        if role == "probability":
            bound = second if quantities(left) else first
            require_probability(sentence, over(negative(intercept), slope), bound)
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
            raise _vacuous(sentence, tree, role)
        raise sentence.error(
            "A value stands beside other statements here. Say how near it has to be met "
            "(`y = 2 within 0.1`), or join it with `or` to other values only.",
            tree,
        )
    if role == "probability":
        require_probability(sentence, equation.value, tree)
    margin = Number(equation.margin)
    lower, upper = (_tidied(end) for end in (minus(equation.value, margin), plus(equation.value, margin)))
    inside = Comparison((lower, equation.quantity, upper), ("<=", "<="))
    return inside if equal else Not(inside)


def _tidied(end: Expression) -> Expression:
    return Number(tidy(end.value)) if isinstance(end, Number) else end


def _vacuous(sentence: Sentence, tree: Branch, role: Role) -> RuleError:
    name = name_text(target_name(sentence))
    example = f"{name} = 2 within 0.5" if role == "output" else "P(…) = 0.5 within 0.1"
    return sentence.error(
        "A number that varies continuously never meets a single value exactly, so forbidding one "
        f"says nothing. Say how far to stay away: `not {example}`.",
        tree,
    )
