"""A rule's tree taken apart, and the names in it looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ocbnn.errors import RuleError
from ocbnn.language.expressions import name_text
from ocbnn.language.messages import did_you_mean, listed, quoted
from ocbnn.language.syntax import Sentence, unknown_function

if TYPE_CHECKING:
    from lark import Token, Tree

    from ocbnn.schema import Column

    Branch = Tree[Token]

_COMPARATORS = {"≤": "<=", "⩽": "<=", "≥": ">=", "⩾": ">=", "==": "=", "≠": "!=", "<>": "!="}


class Parts(NamedTuple):
    """A comparison taken apart: terms, the operators between them, and `within …` and `(weight)` after it."""

    terms: list[Branch]
    operators: list[str]
    suffixes: list[Branch]


def parts_of(tree: Branch) -> Parts:
    parts = Parts([], [], [])
    for child in branches(tree):
        if child.data == "comparator":
            sign = str(child.children[0])
            parts.operators.append(_COMPARATORS.get(sign, sign))
        elif child.data in ("within", "weight"):
            parts.suffixes.append(child)
        else:
            parts.terms.append(child)
    return parts


def branches(tree: Branch) -> list[Branch]:
    """The children that are trees themselves."""
    return [child for child in tree.children if not isinstance(child, str)]


def name_of(tree: Branch) -> str:
    """The name, without the backticks around it."""
    written = str(tree.children[0])
    return written[1:-1].replace("``", "`") if written.startswith("`") else written


def column_of(sentence: Sentence, term: Branch) -> Column | None:
    """The column that the term names, where it is nothing but a name."""
    if term.data != "name":
        return None
    name = name_of(term)
    return sentence.schema.column(name) if name in sentence.schema.names else None


def unknown_name(sentence: Sentence, tree: Branch, name: str) -> RuleError:
    if sentence.text[tree.meta.end_pos :].lstrip().startswith("(") and name.isidentifier():
        return sentence.error(unknown_function(name), tree)
    schema = sentence.schema
    known = [*schema.names, *([schema.target.name] if schema.target else [])]
    near = did_you_mean(name, known, lambda name: f"`{name.replace('`', '``')}`")
    others = "" if near else f" The columns are {listed(map(name_text, schema.names))}."
    if not near and schema.target is not None and schema.target.name == "y":
        others += (
            " The target is called `y`, as one that comes without a name is; pass a Series named as in the "
            "rule, or write `y`."
        )
    return sentence.error(f"There is no column {quoted(name)}.{near}{others}", tree)


def alternatives_of(tree: Branch) -> list[Branch]:
    """What `or` joins, at the top; nested disjunctions are taken apart."""
    if tree.data != "disjunction":
        return [tree]
    return [item for branch in branches(tree) for item in alternatives_of(branch)]


def target_name(sentence: Sentence) -> str:
    return "y" if sentence.schema.target is None else sentence.schema.target.name
