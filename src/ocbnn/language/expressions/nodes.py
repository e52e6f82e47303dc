"""The nodes of arithmetic and of conditions, and what is right below each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ocbnn.schema import Label

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class ColumnRef:
    name: str


@dataclass(frozen=True)
class Output:
    """The target, y."""


@dataclass(frozen=True)
class Probability:
    """P(target in classes)."""

    classes: tuple[Label, ...]


@dataclass(frozen=True)
class Negate:
    operand: Expression


@dataclass(frozen=True)
class Arithmetic:
    operator: str  # + - * / ^
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Always:
    """The condition that holds everywhere."""


@dataclass(frozen=True)
class Comparison:
    """A chain such as `-0.3 <= x < 0.3`: every neighbouring pair has to hold."""

    terms: tuple[Expression, ...]
    operators: tuple[str, ...]  # < <= > >= = !=

    def pairs(self) -> tuple[tuple[Expression, str, Expression], ...]:
        return tuple(zip(self.terms[:-1], self.operators, self.terms[1:], strict=True))


@dataclass(frozen=True)
class Membership:
    """A category column is one of these levels."""

    column: str
    levels: tuple[Label, ...]


@dataclass(frozen=True)
class And:
    items: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    items: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    item: Condition


Expression = Number | ColumnRef | Output | Probability | Negate | Arithmetic | Call
Condition = Always | Comparison | Membership | And | Or | Not
Node = Expression | Condition


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below this one."""
    match node:
        case Negate(operand):
            return (operand,)
        case Arithmetic(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case Comparison(terms, _):
            return terms
        case And(items) | Or(items):
            return items
        case Not(item):
            return (item,)
        case _:
            return ()


def columns(node: Node) -> frozenset[str]:
    """The names of all columns the node speaks of."""
    match node:
        case ColumnRef(name) | Membership(name, _):
            return frozenset({name})
        case _:
            return frozenset().union(*map(columns, children(node)))


def quantities(node: Node) -> frozenset[Output | Probability]:
    """What the node says about the target: `Output`, or probabilities of classes."""
    if isinstance(node, Output | Probability):
        return frozenset({node})
    return frozenset().union(*map(quantities, children(node)))
