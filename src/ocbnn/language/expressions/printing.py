"""Canonical text of nodes, names and labels: what the parser reads back as the same."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from ocbnn.language.expressions.evaluation import CONSTANTS, FOLDS, FUNCTIONS
from ocbnn.language.expressions.nodes import (
    Always,
    And,
    Arithmetic,
    Call,
    ColumnRef,
    Comparison,
    Expression,
    Membership,
    Negate,
    Node,
    Not,
    Number,
    Or,
    Output,
    Probability,
)

if TYPE_CHECKING:
    from ocbnn.schema import Label

KEYWORDS = frozenset({"if", "then", "always", "and", "or", "not", "in", "within"})
RESERVED = (
    KEYWORDS
    | FUNCTIONS.keys()
    | FOLDS.keys()
    | CONSTANTS.keys()
    | {
        "p",
        "normal",
        "bernoulli",
        "categorical",
        "true",
        "false",
    }
)
IDENTIFIER = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(5)
_PRECEDENCE = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "^": _POWER}


def text(node: Node, target_name: str = "y", names: Collection[str] = ()) -> str:
    """Canonical text of the node; parsing it gives the same node.

    Args:
        node: what to print.
        target_name: what the target is called.
        names: names of columns; a label that is also one of them is quoted, as the parser demands.
    """

    def of(child: Node) -> str:
        return text(child, target_name, names)

    match node:
        case Always():
            return "always"
        case Comparison(terms, operators):
            rest = (f" {operator} {of(term)}" for operator, term in zip(operators, terms[1:], strict=True))
            return of(terms[0]) + "".join(rest)
        case Membership(column, levels):
            return f"{name_text(column)} {one_of(levels, names)}"
        case And(items):
            return " and ".join(f"({of(item)})" if isinstance(item, And | Or) else of(item) for item in items)
        case Or(items):
            return " or ".join(f"({of(item)})" if isinstance(item, Or) else of(item) for item in items)
        case Not(item):
            return f"not ({of(item)})" if isinstance(item, And | Or) else f"not {of(item)}"
        case _:
            return _arithmetic_text(node, target_name, names)


def _arithmetic_text(node: Expression, target_name: str, names: Collection[str]) -> str:
    def at_least(precedence: int, child: Expression) -> str:
        inner = _arithmetic_text(child, target_name, names)
        return inner if _precedence(child) >= precedence else f"({inner})"

    match node:
        case Number(value):
            return number_text(value)
        case ColumnRef(name):
            return name_text(name)
        case Output():
            return name_text(target_name)
        case Probability(classes):
            return f"P({name_text(target_name)} {one_of(classes, names)})"
        case Negate(operand):
            return f"-{at_least(_UNARY, operand)}"
        case Arithmetic("^", left, right):
            return f"{at_least(_ATOM, left)} ^ {at_least(_UNARY, right)}"
        case Arithmetic(operator, left, right):
            precedence = _PRECEDENCE[operator]
            return f"{at_least(precedence, left)} {operator} {at_least(precedence + 1, right)}"
        case Call(function, arguments):
            return f"{function}({', '.join(at_least(_SUM, argument) for argument in arguments)})"


def _precedence(node: Expression) -> int:
    match node:
        case Arithmetic(operator=operator):
            return _PRECEDENCE[operator]
        case Negate():
            return _UNARY
        case Number(value) if value < 0:
            return _UNARY
        case _:
            return _ATOM


def number_text(value: float) -> str:
    """`3` rather than `3.0`; otherwise the shortest text that reads back as the same number."""
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def name_text(name: str) -> str:
    """A column's name as a rule writes it: bare where it can be, else in backticks."""
    bare = IDENTIFIER.fullmatch(name) is not None and name.lower() not in RESERVED
    return name if bare else "`" + name.replace("`", "``") + "`"


def label_text(label: Label, names: Collection[str] = ()) -> str:
    """A label as a rule writes it: bare where it can be, else in single quotes."""
    if isinstance(label, bool | np.bool_):
        return str(bool(label))
    if not isinstance(label, str):
        return number_text(label)
    bare = IDENTIFIER.fullmatch(label) is not None and label.lower() not in RESERVED and label not in names
    return label if bare else "'" + label.replace("\\", "\\\\").replace("'", "\\'") + "'"


def one_of(labels: tuple[Label, ...], names: Collection[str] = ()) -> str:
    """`= green`, or `in {green, blue}`."""
    shown = [label_text(label, names) for label in labels]
    return f"= {shown[0]}" if len(shown) == 1 else f"in {{{', '.join(shown)}}}"
