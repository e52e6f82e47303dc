"""The value of a node at points: IEEE arithmetic, without warnings and without exceptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ocbnn.language.expressions.nodes import (
    Always,
    And,
    Arithmetic,
    Array,
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
    columns,
    quantities,
)

if TYPE_CHECKING:
    from ocbnn.schema import Schema

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "^": np.power,
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
}
FOLDS: dict[str, Callable[[Any, Any], Any]] = {"min": np.minimum, "max": np.maximum}  # of two or more
CONSTANTS = {"pi": math.pi}


def _unequal(left: Array, right: Array) -> Array:
    return (left != right) & ~np.isnan(left) & ~np.isnan(right)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "!=": _unequal,
}


def evaluate(
    node: Node, values: Mapping[str, Array], schema: Schema | None, output: Array | None = None
) -> Array:
    """The node's value at every point: float64 for arithmetic, bool for conditions.

    Follows IEEE arithmetic without warnings or exceptions: 1/0 is inf, 0/0 is nan, and a comparison with nan
    is False. Values, and `output` (what `Output` or `Probability` stands for), broadcast against each other.

    Args:
        node: what to evaluate.
        values: coded columns by name, as `schema.values(coded)` gives them.
        schema: gives the levels of category columns; None will do where the node has no `Membership`.
        output: the target, or the probability, where the node speaks of one.
    """
    given = list(values.values()) if output is None else [*values.values(), output]
    shape = np.broadcast_shapes(*(np.shape(array) for array in given))
    with np.errstate(all="ignore"):
        result = _evaluate(node, values, schema, output)
    return np.array(np.broadcast_to(result, shape))


def _evaluate(node: Node, values: Mapping[str, Array], schema: Schema | None, output: Array | None) -> Any:
    def of(child: Node) -> Any:
        return _evaluate(child, values, schema, output)

    match node:
        case Number(value):
            return np.float64(value)
        case ColumnRef(name):
            return np.asarray(values[name], np.float64)
        case Output() | Probability():
            if output is None:
                raise ValueError("the expression speaks of the target; pass its values as `output`")
            return np.asarray(output, np.float64)
        case Negate(operand):
            return -of(operand)
        case Arithmetic(operator, left, right):
            return ARITHMETIC[operator](of(left), of(right))
        case Call(function, arguments) if function in FOLDS:
            result = of(arguments[0])
            for argument in arguments[1:]:
                result = FOLDS[function](result, of(argument))
            return result
        case Call(function, arguments):
            return FUNCTIONS[function](of(arguments[0]))
        case Always():
            return np.True_
        case Comparison():
            return _all(COMPARISONS[operator](of(a), of(b)) for a, operator, b in node.pairs())
        case Membership(column, levels):
            if schema is None:
                raise ValueError(f"the levels of `{column}` are in the schema; pass it")
            known = schema.column(column).levels
            return np.isin(values[column], [known.index(level) for level in levels])
        case And(items):
            return _all(of(item) for item in items)
        case Or(items):
            return ~_all(~of(item) for item in items)
        case Not(item):
            return ~of(item)


def _all(arrays: Any) -> Any:
    result: Any = np.True_
    for array in arrays:
        result = result & array
    return result


def constant(node: Expression) -> float | None:
    """The node's value where it depends on no column and no target, else None."""
    if columns(node) or quantities(node):
        return None
    return float(evaluate(node, {}, None))
