"""From a rule's tree to conditions, arithmetic and labels: names get their meaning from the schema."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ocbnn.language.expressions import (
    CONSTANTS,
    FOLDS,
    And,
    Arithmetic,
    Call,
    ColumnRef,
    Comparison,
    Condition,
    Expression,
    Membership,
    Not,
    Number,
    OneOf,
    Or,
    Output,
    Probability,
    columns,
    constant,
    label_text,
    name_text,
    negative,
    number_text,
    text,
    undefined,
)
from ocbnn.language.syntax import Sentence, branches, column_of, listed, name_of, no_column, parts_of, quoted
from ocbnn.schema import Column, Target
from ocbnn.schema.reading import did_you_mean

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch
    from ocbnn.schema import Label


Role = Literal["condition", "output", "probability"]
"""Where arithmetic stands: after `if`, after `then`, or where a probability is meant (there, 60% is 0.6)."""


# Conditions -------------------------------------------------------------------------------------------------


def read_condition(sentence: Sentence, tree: Branch) -> Condition:
    """What stands between `if` and `then`."""
    match str(tree.data):
        case "disjunction":
            return Or(_flat(sentence, tree, Or))
        case "conjunction":
            return And(_flat(sentence, tree, And))
        case "negated":
            return Not(read_condition(sentence, branches(tree)[0]))
        case "comparison":
            return _comparison(sentence, tree)
        case "member":
            return _membership(sentence, tree)
        case "not_member":
            return Not(_membership(sentence, tree))
        case "relation":
            raise sentence.error("A relation between outputs belongs after `then`.", tree)
        case _:
            raise sentence.error("`~` says how the target is distributed; it belongs after `then`.", tree)


def _flat(sentence: Sentence, tree: Branch, kind: type[And] | type[Or]) -> tuple[Condition, ...]:
    items: list[Condition] = []
    for branch in branches(tree):
        item = read_condition(sentence, branch)
        items += item.items if isinstance(item, kind) else (item,)
    return tuple(items)


def _comparison(sentence: Sentence, tree: Branch) -> Condition:
    terms, operators, suffixes = parts_of(tree)
    if suffixes:
        what = "`within`" if suffixes[0].data == "within" else "A weight in parentheses"
        raise sentence.error(
            f"{what} is for what the target has to meet; it belongs after `then`.", suffixes[0]
        )
    for place, term in enumerate(terms):
        column = column_of(sentence, term)
        if column is not None and column.kind == "category":
            return _category_comparison(sentence, tree, column, terms[:place] + terms[place + 1 :], operators)
    read = [_term(sentence, term, terms) for term in terms]
    for left, right, term in zip(read[:-1], read[1:], terms[:-1], strict=True):
        if not columns(left) and not columns(right):
            raise sentence.error("This compares two numbers; a condition is about a column.", term)
    return Comparison(tuple(read), tuple(operators))


def _term(sentence: Sentence, term: Branch, terms: list[Branch]) -> Expression:
    """A term of a comparison; beside a binary column, True and False are numbers."""
    truth = _truth(sentence, term)
    if truth is not None:
        others = [column_of(sentence, other) for other in terms if other is not term]
        if any(other is not None and other.kind == "binary" for other in others):
            return Number(float(truth))
    return read_expression(sentence, term, "condition")


def _truth(sentence: Sentence, term: Branch) -> bool | None:
    if term.data != "name" or str(term.children[0]) in sentence.schema.names:
        return None
    return {"true": True, "false": False}.get(str(term.children[0]).lower())


def _category_comparison(
    sentence: Sentence, tree: Branch, column: Column, others: list[Branch], operators: list[str]
) -> Condition:
    if len(others) != 1 or operators[0] not in ("=", "!="):
        why = "a condition names levels" if column.has_order else "its levels have no order"
        raise sentence.error(
            f"{name_text(column.name)} is a category: {why}. "
            f"Compare it with one of them by `=` or `!=`, or write `{name_text(column.name)} in {{…}}`.",
            tree,
        )
    member = Membership(column.name, (read_label(sentence, others[0], column),))
    return member if operators[0] == "=" else Not(member)


def _membership(sentence: Sentence, tree: Branch) -> Condition:
    subject, *elements = branches(tree)
    column = column_of(sentence, subject)
    if column is not None and column.kind == "category":
        found = {read_label(sentence, element, column) for element in elements}
        return Membership(column.name, tuple(level for level in column.levels if level in found))
    left = read_expression(sentence, subject, "condition")
    if not columns(left):
        raise sentence.error("This compares two numbers; a condition is about a column.", subject)
    items = tuple(dict.fromkeys(_term(sentence, element, [subject, element]) for element in elements))
    return Comparison((left, items[0]), ("=",)) if len(items) == 1 else OneOf(left, items)


# Arithmetic -------------------------------------------------------------------------------------------------


def read_expression(sentence: Sentence, tree: Branch, role: Role) -> Expression:
    """Arithmetic over columns, and, where the role is not that of a condition, over the target."""
    node = _expression(sentence, tree, role)
    endless = undefined(node)
    if endless is not None:
        raise sentence.error(f"{quoted(text(endless))} is not a finite number.", tree)
    return node


def _expression(sentence: Sentence, tree: Branch, role: Role) -> Expression:
    match str(tree.data):
        case "number":
            return Number(_number(sentence, tree))
        case "percent":
            return Number(_percent(sentence, tree, role))
        case "name":
            return _name(sentence, tree, role)
        case "quoted":
            raise sentence.error(
                f"{sentence.slice(tree)} is text where a number is needed. Only a category, or a target with "
                "classes, is compared with text; a column's name goes in backticks.",
                tree,
            )
        case "minus":
            return negative(_expression(sentence, branches(tree)[0], role))
        case "plus":
            return _expression(sentence, branches(tree)[0], role)
        case "arithmetic":
            left, right = (_expression(sentence, branch, role) for branch in branches(tree))
            sign = next(str(child) for child in tree.children if isinstance(child, str))
            operator = {"**": "^", "×": "*", "·": "*", "−": "-"}.get(sign, sign)
            return Arithmetic(operator, left, right)
        case "call":
            return _call(sentence, tree, role)
        case _:  # a probability
            return _probability(sentence, tree, role)


def read_constant(sentence: Sentence, tree: Branch, role: Role, what: str) -> float:
    """Arithmetic over numbers alone, with a finite value."""
    value = constant(read_expression(sentence, tree, role))
    if value is None:
        raise sentence.error(f"{what} is a number, not {sentence.slice(tree)}.", tree)
    return value


def _number(sentence: Sentence, tree: Branch, scale: float = 1.0) -> float:
    value = float(str(tree.children[0]).rstrip("%").rstrip()) / scale
    if not math.isfinite(value):
        raise sentence.error(f"{sentence.slice(tree)} is too large for a number.", tree)
    return value


def _percent(sentence: Sentence, tree: Branch, role: Role) -> float:
    if role != "probability":
        digits = str(tree.children[0]).rstrip("%").rstrip()
        share = number_text(_number(sentence, tree, 100.0))
        raise sentence.error(
            "`%` is understood for probabilities only. "
            f"Write {share} or {digits[:40]}, whichever is the unit here.",
            tree,
        )
    return _number(sentence, tree, 100.0)


def _name(sentence: Sentence, tree: Branch, role: Role) -> Expression:
    name, schema = name_of(tree), sentence.schema
    if name in schema.names:
        column = schema.column(name)
        if column.kind == "category":
            levels = [label_text(level, schema.names) for level in column.levels]
            raise sentence.error(
                f"{name_text(name)} is a category ({listed(levels, limit=6)}), not a number: "
                f"compare it with a level, as in `{name_text(name)} = {levels[0]}`.",
                tree,
            )
        return ColumnRef(name)
    if schema.is_target(name):
        return _target(sentence, tree, role)
    if name.lower() in CONSTANTS:
        return Number(CONSTANTS[name.lower()])
    raise no_column(sentence, tree)


def _target(sentence: Sentence, tree: Branch, role: Role) -> Expression:
    if role == "condition":
        raise sentence.error(
            f"{quoted(name_of(tree))} is the target: a condition is about inputs. "
            "What the target has to be belongs after `then`.",
            tree,
        )
    target = sentence.schema.target
    if target is not None and target.task == "classification":
        name = name_text(target.name)
        if role == "probability":
            raise sentence.error(
                f"{quoted(name_of(tree))} is a class, not a number, and stands beside a probability here. "
                "Say it in a rule of its own.",
                tree,
            )
        raise sentence.error(
            f"{quoted(name_of(tree))} is a class, not a number. "
            f"Write `{name} = …`, `{name} in {{…}}`, or a probability, `P({name} = …) >= 0.9`.",
            tree,
        )
    return Output()


def _call(sentence: Sentence, tree: Branch, role: Role) -> Expression:
    function = str(tree.children[0]).lower()
    arguments = tuple(_expression(sentence, branch, role) for branch in branches(tree))
    if function in FOLDS and len(arguments) < 2:
        raise sentence.error(f"`{function}` takes two or more numbers, as in `{function}(a, b)`.", tree)
    if function not in FOLDS and len(arguments) != 1:
        raise sentence.error(f"`{function}` takes one number, as in `{function}(x)`.", tree)
    return Call(function, arguments)


def _probability(sentence: Sentence, tree: Branch, role: Role) -> Expression:
    if role == "condition":
        raise sentence.error("`P(…)` speaks of the target; it belongs after `then`.", tree)
    target = sentence.schema.target
    if target is None or target.task == "regression":
        name = "y" if target is None else target.name
        raise sentence.error(
            f"`P(…)` is for targets with classes; {name_text(name)} is a number. "
            "Bound it, as in `2 <= y <= 3`, or say how it is distributed, as in `y ~ Normal(3, 0.5)`.",
            tree,
        )
    return Probability(read_classes(sentence, branches(tree)[0]))


def read_suffixes(
    sentence: Sentence, suffixes: list[Branch], role: Role
) -> tuple[float | None, float | None]:
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
            value = read_weight(sentence, suffix)
        found[kind] = value
    return found.get("within"), found.get("weight")


def read_weight(sentence: Sentence, suffix: Branch) -> float:
    if len(branches(suffix)) != 1:
        raise sentence.error("A weight is one number in parentheses: `y = 2 (0.7) or y = 3 (0.3)`.", suffix)
    weight = read_constant(sentence, branches(suffix)[0], "probability", "A weight")
    if weight <= 0:
        raise sentence.error("A weight has to be above 0; leave out what cannot be.", suffix)
    return weight


def normalised(sentence: Sentence, weighted: list[tuple[float | None, Branch]]) -> list[float]:
    weights = [weight for weight, _ in weighted if weight is not None]
    missing = [tree for weight, tree in weighted if weight is None]
    if missing and weights:
        raise sentence.error("Either every value has a weight, or none has.", missing[0])
    if missing or len(set(weights)) == 1:
        return [1.0 / len(weighted)] * len(weighted)
    total = math.fsum(weights)
    # Weights that sum to one already are kept to the last digit: printing and parsing changes nothing.
    return weights if abs(total - 1) < 1e-9 else [weight / total for weight in weights]


def require_probability(sentence: Sentence, value: Expression, tree: Branch) -> None:
    number = constant(value)
    if number is not None and not 0 <= number <= 1:
        raise sentence.error(f"{number:g} is not a probability: probabilities are within [0, 1].", tree)


def tidy(value: float) -> float:
    """0.2 rather than 0.19999999999999998: without what arithmetic on decimals adds in the last digit."""
    return float(f"{value:.15g}")


# Labels of categories, and classes of the target ------------------------------------------------------------

_NUMBER = re.compile(r"-?[0-9.]+([eE][-+]?[0-9]+)?")


def read_label(sentence: Sentence, tree: Branch, owner: Column | Target) -> Label:
    """The level of a column, or the class of a target, that a bare, quoted or numeric text stands for."""
    labels, sort = (owner.classes, "class") if isinstance(owner, Target) else (owner.levels, "level")
    what = f"a {sort} of {name_text(owner.name)}"
    found = _find_label(sentence, tree, labels, what)
    if found is not None:
        return found
    names = sentence.schema.names
    known = listed([label_text(label, names) for label in labels])
    if str(tree.data) in ("number", "minus") and all(isinstance(label, str) for label in labels):
        raise sentence.error(f"{sentence.slice(tree)} is a number; expected {what}: {known}.", tree)
    near = did_you_mean(_written(tree), labels, lambda near: f"`{near}`")
    # A part of a table, such as a fold, need not show all labels.
    remedy = (
        f" If the data do not show it, declare all labels: columns={{{owner.name!r}: {{'levels': […]}}}}."
    )
    raise sentence.error(f"{sentence.slice(tree)} is not {what}; known are {known}.{near}{remedy}", tree)


def _find_label(sentence: Sentence, tree: Branch, labels: Sequence[Label], what: str) -> Label | None:
    written = _written(tree)
    match str(tree.data):
        case "quoted":
            return next((a for a in labels if a == written), _same_text(written, labels))
        case "number" | "minus" if _NUMBER.fullmatch(written):
            numbers = (a for a in labels if not isinstance(a, str) and a == float(written))
            return next(numbers, _same_text(written, labels))
        case "name" if not str(tree.children[0]).startswith("`"):
            _refuse_column_as_label(sentence, tree, written)
            truth = {"true": True, "false": False}.get(written.lower())
            same = (a for a in labels if a == written or (not isinstance(a, str) and a == truth))
            return next(same, None)
        case "name":
            raise sentence.error(
                f"Backticks are for columns; expected {what}. Labels go in quotes: '…'.", tree
            )
        case _:
            raise sentence.error(f"Expected {what}, not {sentence.slice(tree)}.", tree)


def _written(tree: Branch) -> str:
    if tree.data == "quoted":
        return re.sub(r"\\(.)", r"\1", str(tree.children[0])[1:-1], flags=re.DOTALL)
    if tree.data == "minus":
        return f"-{_written(branches(tree)[0])}"
    return str(tree.children[0]) if isinstance(tree.children[0], str) else "?"


def _same_text(written: str, labels: Sequence[Label]) -> Label | None:
    return next((a for a in labels if label_text(a) == written or str(a) == written), None)


def _refuse_column_as_label(sentence: Sentence, tree: Branch, written: str) -> None:
    if written in sentence.schema.names or sentence.schema.is_target(written):
        raise sentence.error(
            f"{quoted(written)} is the name of a column. If the label is meant, quote it: '{written}'.", tree
        )


def read_classes(sentence: Sentence, tree: Branch) -> tuple[Label, ...]:
    """The classes that a statement about the target allows: some, but neither none nor all of them."""
    target = sentence.schema.target
    if target is None:
        raise sentence.error("The schema has no target.", tree)
    chosen = _class_indices(sentence, tree, target)
    if not chosen:
        raise sentence.error(f"No class of {name_text(target.name)} is left: nothing can obey this.", tree)
    if len(chosen) == len(target.classes):
        raise sentence.error(
            f"This allows every class of {name_text(target.name)}, so it says nothing. (Classes that do not "
            f"occur in the data are declared with `columns={{{target.name!r}: {{'levels': […]}}}}`.)",
            tree,
        )
    return tuple(target.classes[index] for index in sorted(chosen))


def _class_indices(sentence: Sentence, tree: Branch, target: Target) -> frozenset[int]:
    def index(label: Branch) -> int:
        return target.classes.index(read_label(sentence, label, target))

    every = frozenset(range(len(target.classes)))
    match str(tree.data):
        case "disjunction":
            return frozenset().union(*(_class_indices(sentence, b, target) for b in branches(tree)))
        case "conjunction":
            return every.intersection(*(_class_indices(sentence, b, target) for b in branches(tree)))
        case "negated":
            return every - _class_indices(sentence, branches(tree)[0], target)
        case "comparison":
            terms, operators, suffixes = parts_of(tree)
            if suffixes:
                raise sentence.error("A class is met or not: no `within`, and no weights.", suffixes[0])
            if len(terms) == 2 and not _is_target(sentence, terms[0]) and _is_target(sentence, terms[1]):
                terms = terms[::-1]
            _require_target(sentence, terms[0])
            if len(terms) != 2 or operators[0] not in ("=", "!="):
                raise sentence.error(
                    "Classes have no order: compare with `=` or `!=`, write `in {…}`, "
                    "or bound a probability, `P(…) >= 0.9`.",
                    tree,
                )
            found = frozenset({index(terms[1])})
            return found if operators[0] == "=" else every - found
        case "member" | "not_member":
            subject, *elements = branches(tree)
            _require_target(sentence, subject)
            found = frozenset(map(index, elements))
            return found if tree.data == "member" else every - found
        case _:
            raise sentence.error("A distribution stands alone after `then`.", tree)


def _is_target(sentence: Sentence, tree: Branch) -> bool:
    return tree.data == "name" and sentence.schema.is_target(name_of(tree))


def _require_target(sentence: Sentence, tree: Branch) -> None:
    if not _is_target(sentence, tree):
        target = sentence.schema.target
        name = "the target" if target is None else name_text(target.name)
        if tree.data == "name" and name_of(tree) not in sentence.schema.names:
            raise no_column(sentence, tree)
        raise sentence.error(
            f"After `then` a rule speaks of {name}, a class, not of {sentence.slice(tree)}. "
            "Statements about inputs belong in the condition.",
            tree,
        )
