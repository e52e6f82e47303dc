"""From a rule's tree to labels of categories and classes of the target."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ocbnn.language.expressions import label_text, name_text
from ocbnn.language.messages import did_you_mean, listed, quoted
from ocbnn.language.syntax import Sentence, branches, name_of, parts_of, unknown_name

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch
    from ocbnn.schema import Label

_NUMBER = re.compile(r"-?[0-9.]+([eE][-+]?[0-9]+)?")


def read_label(sentence: Sentence, tree: Branch, labels: Sequence[Label], what: str, column: str) -> Label:
    """The label that a bare, quoted or numeric text stands for; `what` names it in errors."""
    found = _find_label(sentence, tree, labels, what)
    if found is not None:
        return found
    names = sentence.schema.names
    known = listed([label_text(label, names) for label in labels])
    if str(tree.data) in ("number", "minus") and all(isinstance(label, str) for label in labels):
        raise sentence.error(f"{sentence.slice(tree)} is a number, but needed is {what}: {known}.", tree)
    near = did_you_mean(_written(tree), [str(label) for label in labels], lambda near: f"`{near}`")
    # A part of a table, such as a fold, need not show all labels.
    remedy = f" Where the data do not show it, declare all: columns={{{column!r}: {{'levels': […]}}}}."
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
                f"Backticks are for columns; needed is {what}. Labels go in quotes: '…'.", tree
            )
        case _:
            raise sentence.error(f"Needed is {what}, not {sentence.slice(tree)}.", tree)


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
    chosen = _class_indices(sentence, tree, target.classes)
    if not chosen:
        raise sentence.error(f"No class of {name_text(target.name)} is left: nothing can obey this.", tree)
    if len(chosen) == len(target.classes):
        raise sentence.error(
            f"This allows every class of {name_text(target.name)}, so it says nothing. (Classes that do not "
            f"occur in the data are declared with `columns={{{target.name!r}: {{'levels': […]}}}}`.)",
            tree,
        )
    return tuple(target.classes[index] for index in sorted(chosen))


def _class_indices(sentence: Sentence, tree: Branch, classes: tuple[Label, ...]) -> frozenset[int]:
    every = frozenset(range(len(classes)))
    match str(tree.data):
        case "disjunction":
            return frozenset().union(*(_class_indices(sentence, b, classes) for b in branches(tree)))
        case "conjunction":
            return every.intersection(*(_class_indices(sentence, b, classes) for b in branches(tree)))
        case "negated":
            return every - _class_indices(sentence, branches(tree)[0], classes)
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
            found = _class_index(sentence, terms[1], classes)
            return found if operators[0] == "=" else every - found
        case "member" | "not_member":
            subject, *elements = branches(tree)
            _require_target(sentence, subject)
            found = frozenset().union(*(_class_index(sentence, e, classes) for e in elements))
            return found if tree.data == "member" else every - found
        case _:
            raise sentence.error("A distribution stands alone after `then`.", tree)


def _class_index(sentence: Sentence, tree: Branch, classes: tuple[Label, ...]) -> frozenset[int]:
    target = sentence.schema.target
    column = "y" if target is None else target.name
    what = f"a class of {name_text(column)}"
    return frozenset({classes.index(read_label(sentence, tree, classes, what, column))})


def _is_target(sentence: Sentence, tree: Branch) -> bool:
    return tree.data == "name" and sentence.schema.is_target(name_of(tree))


def _require_target(sentence: Sentence, tree: Branch) -> None:
    if not _is_target(sentence, tree):
        target = sentence.schema.target
        name = "the target" if target is None else name_text(target.name)
        if tree.data == "name" and name_of(tree) not in sentence.schema.names:
            raise unknown_name(sentence, tree, name_of(tree))
        raise sentence.error(
            f"After `then` a rule speaks of {name}, a class, not of {sentence.slice(tree)}. "
            "What is said of inputs belongs into the condition.",
            tree,
        )
