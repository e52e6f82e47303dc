"""Affine forms, over columns and in the target."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ocbnn.language.expressions.evaluation import constant, evaluate
from ocbnn.language.expressions.nodes import (
    Arithmetic,
    ColumnRef,
    Expression,
    Negate,
    Number,
    Output,
    Probability,
    quantities,
)


@dataclass(frozen=True)
class Affine:
    """Σ coefficients[c]·c + constant; coefficients of zero are left out."""

    coefficients: dict[str, float]
    constant: float

    def plus(self, other: Affine) -> Affine:
        names = self.coefficients.keys() | other.coefficients.keys()
        sums = {
            name: self.coefficients.get(name, 0.0) + other.coefficients.get(name, 0.0)
            for name in sorted(names)
        }
        return Affine({name: a for name, a in sums.items() if a != 0}, self.constant + other.constant)

    def times(self, factor: float) -> Affine:
        scaled = {name: a * factor for name, a in self.coefficients.items()}
        return Affine({name: a for name, a in scaled.items() if a != 0}, self.constant * factor)

    @property
    def is_finite(self) -> bool:
        return all(map(math.isfinite, (*self.coefficients.values(), self.constant)))


def affine(node: Expression) -> Affine | None:
    """The node as an affine function of the columns with finite coefficients, or None where it is none."""
    form = _affine(node)
    return form if form is not None and form.is_finite else None


def _affine(node: Expression) -> Affine | None:
    value = constant(node)
    if value is not None:
        return Affine({}, value)
    match node:
        case ColumnRef(name):
            return Affine({name: 1.0}, 0.0)
        case Negate(operand):
            inner = affine(operand)
            return inner and inner.times(-1.0)
        case Arithmetic("^", left, right):
            return affine(left) if constant(right) == 1 else None
        case Arithmetic(operator, left, right):
            first, second = affine(left), affine(right)
            if first is None or second is None:
                return None
            if operator in "+-":
                return first.plus(second if operator == "+" else second.times(-1.0))
            if operator == "*" and not first.coefficients:
                first, second = second, first
            if second.coefficients or (operator == "/" and second.constant == 0):
                return None
            return first.times(second.constant if operator == "*" else 1.0 / second.constant)
        case _:
            return None


def affine_in_output(node: Expression) -> tuple[Expression, Expression] | None:
    """slope(x) and intercept(x) with node = slope·y + intercept, or None where it is no such function of y.

    y is the node's `Output` or `Probability`.
    """
    if not quantities(node):
        return Number(0.0), node
    match node:
        case Output() | Probability():
            return Number(1.0), Number(0.0)
        case Negate(operand):
            inner = affine_in_output(operand)
            return inner and (negative(inner[0]), negative(inner[1]))
        case Arithmetic("^", left, right):
            return affine_in_output(left) if constant(right) == 1 else None
        case Arithmetic(operator, left, right):
            first, second = affine_in_output(left), affine_in_output(right)
            if first is None or second is None:
                return None
            if operator == "+":
                return plus(first[0], second[0]), plus(first[1], second[1])
            if operator == "-":
                return minus(first[0], second[0]), minus(first[1], second[1])
            if operator == "*" and not quantities(left):
                return times(left, second[0]), times(left, second[1])
            if quantities(right):
                return None
            combine = times if operator == "*" else over
            return combine(first[0], right), combine(first[1], right)
        case _:
            return None


# Constructors that leave out what changes nothing -----------------------------------------------------------


def _is(node: Expression, value: float) -> bool:
    return isinstance(node, Number) and node.value == value


def negative(operand: Expression) -> Expression:
    match operand:
        case Number(value):
            return Number(-value)
        case Negate(inner):
            return inner
        case _:
            return Negate(operand)


def plus(left: Expression, right: Expression) -> Expression:
    if _is(left, 0):
        return right
    return left if _is(right, 0) else _folded("+", left, right)


def minus(left: Expression, right: Expression) -> Expression:
    if _is(right, 0):
        return left
    return negative(right) if _is(left, 0) else _folded("-", left, right)


def times(left: Expression, right: Expression) -> Expression:
    if _is(left, 0) or _is(right, 0):
        return Number(0.0)
    if _is(left, 1):
        return right
    return left if _is(right, 1) else _folded("*", left, right)


def over(left: Expression, right: Expression) -> Expression:
    if _is(right, 1) or (_is(left, 0) and not _is(right, 0)):
        return left
    return _folded("/", left, right)


def _folded(operator: str, left: Expression, right: Expression) -> Expression:
    node = Arithmetic(operator, left, right)
    if isinstance(left, Number) and isinstance(right, Number):
        value = float(evaluate(node, {}, None))
        return Number(value) if math.isfinite(value) else node
    return node
