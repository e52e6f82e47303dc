"""Arithmetic and conditions over columns, as frozen trees: evaluate, print, take apart.

A tree says nothing about where it came from; positions in a rule's text are the parser's business.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ocbnn.schema import Label, Schema

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
class OneOf:
    """`subject in {elements}`, for numbers."""

    subject: Expression
    elements: tuple[Expression, ...]


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
Condition = Always | Comparison | Membership | OneOf | And | Or | Not
Node = Expression | Condition


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below this one."""
    fields = [getattr(node, name) for name in node.__match_args__]
    parts = [part for field in fields for part in (field if isinstance(field, tuple) else (field,))]
    return tuple(part for part in parts if isinstance(part, Node))


def node_count(node: Node) -> int:
    """How many nodes the tree has."""
    return 1 + sum(map(node_count, children(node)))


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


# Values: IEEE arithmetic, without warnings and without exceptions -------------------------------------------

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "^": np.power,
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    name: getattr(np, name) for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "abs")
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


NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "="}


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
        case Negate() | Arithmetic() | Call():
            return _applied(node, [of(child) for child in children(node)])
        case Always():
            return np.True_
        case Comparison():
            return reduce(np.logical_and, (COMPARISONS[sign](of(a), of(b)) for a, sign, b in node.pairs()))
        case OneOf(subject, elements):
            numbers = [element.value for element in elements if isinstance(element, Number)]
            others = (of(subject) == of(each) for each in elements if not isinstance(each, Number))
            return reduce(np.logical_or, others, np.isin(of(subject), numbers))
        case Membership(column, levels):
            if schema is None:
                raise ValueError(f"the levels of `{column}` are in the schema; pass it")
            known = schema.column(column).levels
            return np.isin(values[column], [known.index(level) for level in levels])
        case And(items):
            return reduce(np.logical_and, map(of, items))
        case Or(items):
            return reduce(np.logical_or, map(of, items))
        case Not(item):
            return ~of(item)


def _applied(node: Negate | Arithmetic | Call, values: list[Any]) -> Any:
    match node:
        case Negate():
            return -values[0]
        case Arithmetic(operator, _, _):
            return ARITHMETIC[operator](*values)
        case Call(function, _):
            return reduce(FOLDS[function], values) if function in FOLDS else FUNCTIONS[function](values[0])


def constant(node: Expression) -> float | None:
    """The node's value where it depends on no column and no target, else None."""
    if columns(node) or quantities(node):
        return None
    return float(evaluate(node, {}, None))


def undefined(node: Expression) -> Expression | None:
    """The first part that is the same everywhere and not a finite number, such as `10 ^ 400`; else None."""

    def look(part: Any) -> tuple[Any, Expression | None]:
        if not isinstance(part, Negate | Arithmetic | Call):
            return (np.float64(part.value) if isinstance(part, Number) else None), None
        values, found = zip(*map(look, children(part)), strict=True)
        if any(found) or None in values:
            return None, next(filter(None, found), None)
        result = _applied(part, list(values))
        return result, None if np.isfinite(result) else part

    with np.errstate(all="ignore"):
        return look(node)[1]


# Canonical text: what the parser reads back as the same -----------------------------------------------------

KEYWORDS = frozenset({"if", "then", "always", "and", "or", "not", "in", "within"})
WORDS = {"p", "normal", "bernoulli", "categorical", "true", "false"}
RESERVED = KEYWORDS | FUNCTIONS.keys() | FOLDS.keys() | CONSTANTS.keys() | WORDS
# The lexer ignores case as `re` does, for which `ı` is an `i`.
_BARE = re.compile(rf"(?!(?:{'|'.join(sorted(RESERVED))})\Z)[^\W\d]\w*(?:\.\w+)*", re.IGNORECASE)
_OR, _AND, _CONDITION, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(8)
_PRECEDENCE = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "^": _POWER}


def text(node: Node, target_name: str = "y", names: Collection[str] = ()) -> str:
    """Canonical text of the node; parsing it gives the same node.

    Args:
        node: what to print.
        target_name: what the target is called.
        names: names of columns; a label that is also one of them is quoted, as the parser demands.
    """

    def at_least(precedence: int, child: Node) -> str:
        inner = text(child, target_name, names)
        return inner if _precedence(child) >= precedence else f"({inner})"

    def joined(separator: str, precedence: int, items: Iterable[Node]) -> str:
        return separator.join(at_least(precedence, item) for item in items)

    match node:
        case Always():
            return "always"
        case Comparison(terms, operators):
            signs = zip(operators, terms[1:], strict=True)
            rest = (f" {operator} {at_least(_SUM, term)}" for operator, term in signs)
            return at_least(_SUM, terms[0]) + "".join(rest)
        case Membership(column, levels):
            return f"{name_text(column)} {one_of(levels, names)}"
        case OneOf(subject, elements):
            return f"{at_least(_SUM, subject)} in {{{joined(', ', _SUM, elements)}}}"
        case And(items):
            return joined(" and ", _CONDITION, items)
        case Or(items):
            return joined(" or ", _AND, items)
        case Not(item):
            return f"not {at_least(_CONDITION, item)}"
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
            return f"{function}({joined(', ', _SUM, arguments)})"


def _precedence(node: Node) -> int:
    match node:
        case Arithmetic(operator=operator):
            return _PRECEDENCE[operator]
        case Negate():
            return _UNARY
        case Number(value) if value < 0:
            return _UNARY
        case Or():
            return _OR
        case And():
            return _AND
        case Always() | Comparison() | Membership() | OneOf() | Not():
            return _CONDITION
        case _:
            return _ATOM


def number_text(value: float) -> str:
    """`3` rather than `3.0`; otherwise the shortest text that reads back as the same number."""
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def name_text(name: str) -> str:
    """A column's name as a rule writes it: bare where it can be, else in backticks."""
    return name if _BARE.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def label_text(label: Label, names: Collection[str] = ()) -> str:
    """A label as a rule writes it: bare where it can be, else in single quotes."""
    if isinstance(label, bool | np.bool_):
        return str(bool(label))
    if not isinstance(label, str):
        return number_text(label)
    if _BARE.fullmatch(label) and label not in names:
        return label
    return "'" + label.replace("\\", "\\\\").replace("'", "\\'") + "'"


def one_of(labels: tuple[Label, ...], names: Collection[str] = ()) -> str:
    """`= green`, or `in {green, blue}`."""
    shown = [label_text(label, names) for label in labels]
    return f"= {shown[0]}" if len(shown) == 1 else f"in {{{', '.join(shown)}}}"


# Affine forms, over columns and in the target ---------------------------------------------------------------


@dataclass(frozen=True)
class Affine:
    """Σ coefficients[c]·c + constant; coefficients of zero are left out."""

    coefficients: dict[str, float]
    constant: float

    def plus(self, other: Affine) -> Affine:
        one, two = self.coefficients, other.coefficients
        sums = {name: one.get(name, 0.0) + two.get(name, 0.0) for name in sorted(one.keys() | two.keys())}
        return Affine({name: a for name, a in sums.items() if a != 0}, self.constant + other.constant)

    def times(self, factor: float) -> Affine:
        scaled = {name: a * factor for name, a in self.coefficients.items()}
        return Affine({name: a for name, a in scaled.items() if a != 0}, self.constant * factor)

    @property
    def is_constant(self) -> bool:
        return not self.coefficients

    @property
    def is_finite(self) -> bool:
        return all(map(math.isfinite, (*self.coefficients.values(), self.constant)))


def affine(node: Expression) -> Affine | None:
    """The node as an affine function of the columns; None if it is not affine with finite coefficients."""
    with np.errstate(all="ignore"):
        form = _affine(node)
    return form if form is not None and form.is_finite else None


def _affine(node: Expression) -> Affine | None:
    match node:
        case Number(value):
            return Affine({}, value)
        case ColumnRef(name):
            return Affine({name: 1.0}, 0.0)
        case Negate() | Arithmetic() | Call():
            forms = [form for child in children(node) if (form := _affine(child)) is not None]  # type: ignore[arg-type]
            if len(forms) < len(children(node)):
                return None
            if all(form.is_constant for form in forms):
                return Affine({}, float(_applied(node, [np.float64(form.constant) for form in forms])))
            return _combined(node, *forms)
        case _:
            return None


def _combined(node: Negate | Arithmetic | Call, first: Affine, *others: Affine) -> Affine | None:
    match node, others:
        case Negate(), _:
            return first.times(-1.0)
        case Arithmetic("+" | "-" as operator), (second,):
            return first.plus(second if operator == "+" else second.times(-1.0))
        case Arithmetic("*"), (second,) if first.is_constant:
            return second.times(first.constant)
        case Arithmetic("*"), (second,) if second.is_constant:
            return first.times(second.constant)
        case Arithmetic("/"), (second,) if second.is_constant and second.constant != 0:
            return first.times(1.0 / second.constant)
        case Arithmetic("^"), (second,) if second.is_constant and second.constant == 1:
            return first
    return None


def affine_in_output(node: Expression) -> tuple[Expression, Expression] | None:
    """slope(x) and intercept(x) with node = slope·y + intercept, or None if it is not such a function of y.

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
            if operator in ("+", "-"):
                return simplified(operator, first[0], second[0]), simplified(operator, first[1], second[1])
            if operator == "*" and not quantities(left):
                return times(left, second[0]), times(left, second[1])
            if quantities(right):
                return None
            return simplified(operator, first[0], right), simplified(operator, first[1], right)
        case _:
            return None


# Constructors that leave out what changes nothing ----------------------------------------------------------


def negative(operand: Expression) -> Expression:
    match operand:
        case Number(value):
            return Number(-value)
        case Negate(inner):
            return inner
        case _:
            return Negate(operand)


def simplified(operator: str, left: Expression, right: Expression) -> Expression:
    """The arithmetic without what changes nothing, such as `0 + x`; two numbers become one."""
    match operator, left, right:
        case ("*", Number(0), _) | ("*", _, Number(0)):
            return Number(0.0)
        case ("+", Number(0), kept) | ("*", Number(1), kept):
            return kept
        case ("+" | "-", kept, Number(0)) | ("*" | "/", kept, Number(1)):
            return kept
        case ("-", Number(0), _):
            return negative(right)
        case ("/", Number(0), _) if right != Number(0):
            return left
    node = Arithmetic(operator, left, right)
    if isinstance(left, Number) and isinstance(right, Number):
        value = float(evaluate(node, {}, None))
        return Number(value) if math.isfinite(value) else node
    return node


plus, minus, times, over = (partial(simplified, operator) for operator in "+-*/")
