"""Formulas about the target: read from a sentence, and solved for what they allow at points.

Every comparison in a formula is affine in y, slope·y + intercept compared with 0, so it changes its truth
only at its breakpoint −intercept / slope. Between sorted breakpoints, and at them, the whole formula is
constant: it is enough to look once into each of these cells.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocbnn.errors import RuleError
from ocbnn.language.expressions import (
    COMPARISONS,
    And,
    Array,
    Comparison,
    Condition,
    Expression,
    Not,
    Number,
    Or,
    Output,
    Probability,
    affine_in_output,
    columns,
    constant,
    evaluate,
    minus,
    name_text,
    negative,
    number_text,
    over,
    plus,
    quantities,
    text,
    undefined,
)
from ocbnn.language.reading import Role, read_expression, read_suffixes, require_probability, tidy
from ocbnn.language.syntax import Sentence, alternatives_of, branches, parts_of, target_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocbnn.language.syntax import Branch
    from ocbnn.schema import Label, Schema, Target

MOST_COMPARISONS = 64
"""In one rule: what is allowed is worked out at every point, over all of them at once."""
ROUNDING = 1e-9

# Reading ----------------------------------------------------------------------------------------------------


class Equation(NamedTuple):
    """`y = value within margin (weight)`."""

    quantity: Output | Probability
    value: Expression
    margin: float | None
    weight: float | None
    tree: Branch


def read_equations(sentence: Sentence, tree: Branch, role: Role) -> list[Equation] | None:
    """Equations joined by `or` alone; None where anything else is stated."""
    alternatives = alternatives_of(tree)
    if not all(_is_equation(item) for item in alternatives):
        return None
    return [equation for item in alternatives for equation in _equations(sentence, item, role)]


def read_formula(sentence: Sentence, tree: Branch, role: Role) -> tuple[Output | Probability, Condition]:
    """A formula of comparisons, and the one quantity that it is about."""
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
    return next(iter(found)), formula


def _is_equation(tree: Branch) -> bool:
    if tree.data == "member":
        return True
    return tree.data == "comparison" and set(parts_of(tree).operators) == {"="}


def _equations(sentence: Sentence, tree: Branch, role: Role) -> list[Equation]:
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
    return [Equation(quantity, value, margin, weight, tree) for quantity, value in solved]


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
            "Statements about inputs belong between `if` and `then`.",
            tree,
        )
    return form


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
    lower, upper = (
        _tidied(end, role) for end in (minus(equation.value, margin), plus(equation.value, margin))
    )
    if undefined(lower) or undefined(upper):
        raise sentence.error("The ends of this interval are too large for a number.", tree)
    inside = Comparison((lower, equation.quantity, upper), ("<=", "<="))
    return inside if equal else Not(inside)


def _tidied(end: Expression, role: Role) -> Expression:
    value = constant(end)
    if value is None or not math.isfinite(value):
        return end
    return Number(tidy(min(max(value, 0.0), 1.0) if role == "probability" else value))


def _vacuous(sentence: Sentence, tree: Branch, role: Role) -> RuleError:
    name = name_text(target_name(sentence))
    example = f"{name} = 2 within 0.5" if role == "output" else "P(…) = 0.5 within 0.1"
    return sentence.error(
        "A number that varies continuously never meets a single value exactly, so forbidding one "
        f"says nothing. Say how far to stay away: `not {example}`.",
        tree,
    )


# Solving ----------------------------------------------------------------------------------------------------

_LARGEST = np.finfo(np.float64).max
BLOCK = 2**21
"""Comparisons at breakpoints that are held in memory together."""


class _Atom(NamedTuple):
    """One comparison of neighbours in a chain, slope·y + intercept ⋛ 0, at every point."""

    operator: str
    slope: Array  # (n, 1)
    intercept: Array  # (n, 1)
    breakpoint: Array  # (n, 1)

    def holds(self, y: Array) -> Array:
        # The sign of y − breakpoint is exact where slope·y + intercept would round.
        sign = np.where(
            self.slope == 0, np.sign(self.intercept), np.sign(self.slope) * np.sign(y - self.breakpoint)
        )
        return COMPARISONS[self.operator](sign, 0.0)


def allowed_intervals(formula: Condition, values: dict[str, Array], points: int) -> tuple[Array, Array]:
    """Lower and upper ends (n, K) of what the formula allows; K depends on the formula alone.

    Ends count as allowed, whether the formula includes them or not: for a continuous y it is the same.
    Unused slots are (+inf, −inf). Every comparison is tried between all breakpoints, so points are taken in
    blocks: memory does not grow with points × comparisons².
    """
    pairs = pairs_of(formula)
    most = max(BLOCK // len(pairs) ** 2, 1)
    if points > most:
        parts = []
        for start in range(0, points, most):
            block = {name: array[start : start + most] for name, array in values.items()}
            parts.append(allowed_intervals(formula, block, min(most, points - start)))
        return np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])
    with np.errstate(all="ignore"):
        atoms = {pair: _atom(pair, values, points) for pair in pairs}
        edges = _distinct(np.concatenate([atom.breakpoint for atom in atoms.values()], axis=1))
        ends = np.full((points, 1), np.inf)
        below, above = np.hstack([-ends, edges]), np.hstack([edges, ends])
        # Cells and breakpoints alternate: (−inf, e1), e1, (e1, e2), e2, …, (eB, inf).
        lower, upper = _interleave(below, edges), _interleave(above, edges)
        inside = np.where(lower == upper, lower, lower / 2 + upper / 2)
        allowed = _truth(formula, atoms, inside)
    allowed[:, 1::2] |= allowed[:, :-1:2] & allowed[:, 2::2]
    return _runs(allowed, lower, upper, _most_intervals(formula, negated=False))


def pairs_of(formula: Condition) -> list[tuple[Expression, str, Expression]]:
    """Every comparison of two neighbours in the formula."""
    match formula:
        case Comparison():
            return list(formula.pairs())
        case And(items) | Or(items):
            return [pair for item in items for pair in pairs_of(item)]
        case Not(item):
            return pairs_of(item)
        case _:
            raise TypeError(f"{formula!r} says nothing about the target")


def _atom(pair: tuple[Expression, str, Expression], values: dict[str, Array], points: int) -> _Atom:
    left, operator, right = pair
    form = affine_in_output(minus(left, right))
    if form is None:
        raise TypeError(f"{left!r} {operator} {right!r} is not affine in the target")
    slope, intercept = (np.broadcast_to(evaluate(part, values, None), (points,)) for part in form)
    breakpoint = np.where(slope == 0, _LARGEST, np.clip(-intercept / slope, -_LARGEST, _LARGEST))
    unknown = np.isnan(slope) | np.isnan(intercept) | np.isnan(breakpoint)
    require(~unknown, values, f"`{text(left)} {operator} {text(right)}` is not a number")
    return _Atom(operator, slope[:, None], intercept[:, None], breakpoint[:, None])


class UndefinedError(RuleError):
    """What a rule asks is not defined at some of the points; `defined` says at which it is."""

    def __init__(self, message: str, defined: Array) -> None:
        super().__init__(message)
        self.defined = defined


def require(fine: Array, values: dict[str, Array], complaint: str) -> None:
    """Raise an `UndefinedError` that shows the first point that is not fine."""
    if not np.all(fine):
        first = int(np.argmin(fine))
        point = ", ".join(f"{name} = {float(array[first]):.6g}" for name, array in values.items())
        raise UndefinedError(
            f"{complaint} at {point or 'every point'}. "
            "Narrow the rule's condition to inputs where it is defined.",
            fine,
        )


def _distinct(breakpoints: Array) -> Array:
    """Sorted along each row; repeats become the largest number, beyond which nothing is looked at."""
    edges = np.sort(breakpoints, axis=1)
    again = np.pad(edges[:, 1:] == edges[:, :-1], ((0, 0), (1, 0)))
    edges[again] = _LARGEST
    return np.sort(edges, axis=1)


def _interleave(cells: Array, edges: Array) -> Array:
    result = np.empty((len(cells), cells.shape[1] + edges.shape[1]))
    result[:, ::2], result[:, 1::2] = cells, edges
    return result


def _truth(formula: Condition, atoms: dict[tuple[Expression, str, Expression], _Atom], y: Array) -> Array:
    match formula:
        case Comparison():
            return np.logical_and.reduce([atoms[pair].holds(y) for pair in formula.pairs()])
        case And(items):
            return np.logical_and.reduce([_truth(item, atoms, y) for item in items])
        case Or(items):
            return np.logical_or.reduce([_truth(item, atoms, y) for item in items])
        case Not(item):
            return ~_truth(item, atoms, y)
        case _:
            raise TypeError(f"{formula!r} says nothing about the target")


def _runs(allowed: Array, lower: Array, upper: Array, slots: int) -> tuple[Array, Array]:
    """Each run of allowed cells as one interval."""
    # Breakpoints beyond the largest number stand for infinity: nothing lies outside of them.
    allowed = allowed & (lower < _LARGEST) & (upper > -_LARGEST)
    beside = np.pad(allowed, ((0, 0), (1, 1)))
    starts, stops = allowed & ~beside[:, :-2], allowed & ~beside[:, 2:]
    lows, highs = np.full((len(allowed), slots), np.inf), np.full((len(allowed), slots), -np.inf)
    for source, marks, slot in ((lower, starts, lows), (upper, stops, highs)):
        rows, cells = np.nonzero(marks)
        slot[rows, np.cumsum(marks, axis=1)[rows, cells] - 1] = source[rows, cells]
    lows[lows <= -_LARGEST] = -np.inf
    highs[highs >= _LARGEST] = np.inf
    return lows, highs


def _most_intervals(formula: Condition, negated: bool) -> int:
    """How many intervals the allowed set can have at most, at any point."""
    match formula:
        case Comparison(operators=operators):
            together, counts = not negated, [1] * len(operators)
        case And(items):
            together, counts = not negated, [_most_intervals(item, negated) for item in items]
        case Or(items):
            together, counts = negated, [_most_intervals(item, negated) for item in items]
        case Not(item):
            return _most_intervals(item, not negated)
        case _:
            raise TypeError(f"{formula!r} says nothing about the target")
    return sum(counts) - (len(counts) - 1 if together else 0)


# At points --------------------------------------------------------------------------------------------------


def target_of(schema: Schema) -> Target:
    """The target that rules speak of."""
    if schema.target is None:
        raise RuleError("The schema has no target. Infer it with `Schema.infer(frame, target=…)`.")
    return schema.target


def class_members(classes: Sequence[Label], cases: int, schema: Schema) -> Array:
    """Which classes of the target are these, at every case: `(m, C)`."""
    return np.tile([label in classes for label in target_of(schema).classes], (cases, 1))


def at_points(expressions: Sequence[Expression], coded: Array, schema: Schema, what: str) -> Array:
    """Each expression at each coded input `(n, K)`, all finite; `what` names it in errors."""
    values = schema.values(coded)
    found = np.stack([evaluate(expression, values, schema) for expression in expressions], axis=1)
    finite = np.isfinite(found)
    if not finite.all():
        wrong = expressions[int(np.argmin(finite[np.argmin(finite.all(axis=1))]))]
        require(finite.all(axis=1), values, f"{what} `{text(wrong)}` is not a finite number")
    return found


def beyond_probabilities(expressions: Sequence[Expression], coded: Array, schema: Schema) -> str | None:
    """Where a probability that is computed from columns leaves [0, 1] among these inputs, in words."""
    values = schema.values(coded)
    for expression in expressions:
        found = at_points([expression], coded, schema, "the probability")[:, 0]
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


# Words ------------------------------------------------------------------------------------------------------


def bounds_text(quantity: str, lower: Array, upper: Array) -> str:
    """`1 <= y <= 2 or y >= 3`, from the ends of intervals."""
    shown = [
        _interval_text(quantity, low, high) for low, high in zip(lower, upper, strict=True) if low < np.inf
    ]
    return " or ".join(shown) or f"no {quantity} at all"


def _interval_text(quantity: str, low: float, high: float) -> str:
    if low == -np.inf:
        return f"any {quantity}" if high == np.inf else f"{quantity} <= {shown_number(high)}"
    if high == np.inf:
        return f"{quantity} >= {shown_number(low)}"
    if low == high:
        return f"{quantity} = {shown_number(low)}"
    return f"{shown_number(low)} <= {quantity} <= {shown_number(high)}"


def shown_number(value: Any) -> str:
    """A number in few digits."""
    return number_text(float(f"{float(value):.6g}"))


def weight_texts(weights: Sequence[float]) -> list[str]:
    """Weights in parentheses, where they are not all the same."""
    if len(set(weights)) == 1:
        return [""] * len(weights)
    return [f" ({number_text(weight)})" for weight in weights]
