"""From text to a tree with positions, or to a `RuleError` that says in words what was expected where."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from ocbnn.errors import RuleError
from ocbnn.language.expressions import FOLDS, FUNCTIONS, name_text
from ocbnn.schema.reading import did_you_mean

if TYPE_CHECKING:
    from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedToken

    from ocbnn.schema import Column, Schema

    Branch = Tree[Token]


LONGEST_RULE = 10_000
DEEPEST_NESTING = 100
"""Trees are walked by recursion; this keeps them far from the end of the stack."""

_MARKED = re.compile(r"""#[^\n]*|`([^`]|``)*`|'(\\.|[^'\\])*'|"(\\.|[^"\\])*\"""", re.DOTALL)
"""Comments, names in backticks and labels in quotes, whose parentheses do not nest anything."""

DISTRIBUTIONS = ("Normal", "Bernoulli", "Categorical")
KNOWN_FUNCTIONS = (*FUNCTIONS, *FOLDS)


LONGEST_SHOWN = 60
"""Of what a user wrote, this many characters are shown in an error."""


def quoted(given: str) -> str:
    """What the user wrote, in backticks; shortened, and with what cannot be printed replaced."""
    printable = "".join(letter if letter.isprintable() else "·" for letter in given[: LONGEST_SHOWN + 1])
    return f"`{printable}`" if len(given) <= LONGEST_SHOWN else f"`{printable[:LONGEST_SHOWN]}…`"


def listed(items: Iterable[str], last: str = "and", limit: int = 12) -> str:
    """`a, b and c`, cut off after `limit`."""
    words = list(items)
    if len(words) > limit:
        return ", ".join(words[:limit]) + f", … ({len(words)} in all)"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


@dataclass(frozen=True)
class Sentence:
    """The rule being read: its text, what it is about, and where errors have to point."""

    text: str
    schema: Schema
    line: int | None = None

    def error(self, message: str, at: Tree[Token] | Token | int) -> RuleError:
        """An error with the caret under the start of `at`."""
        return RuleError(message, rule=self.text, position=position(at), line=self.line)

    def slice(self, tree: Tree[Token]) -> str:
        """What the user wrote there, in backticks."""
        return quoted(self.text[tree.meta.start_pos : tree.meta.end_pos])


def position(at: Any) -> int:
    if isinstance(at, int):
        return at
    meta = getattr(at, "meta", at)
    return int(meta.start_pos or 0)


def parse(sentence: Sentence) -> Tree[Token]:
    """The rule's tree."""
    from lark import UnexpectedCharacters, UnexpectedToken

    text = sentence.text
    if len(text) > LONGEST_RULE:
        message = f"The rule has {len(text):,} characters, more than {LONGEST_RULE:,}. Split it into several."
        raise sentence.error(message, LONGEST_RULE)
    unquoted = _MARKED.sub(lambda marked: " " * len(marked[0]), text)
    deepest = list(accumulate((letter == "(") - (letter == ")") for letter in unquoted))
    if max(deepest, default=0) > DEEPEST_NESTING:
        raise sentence.error(_TOO_DEEP, deepest.index(DEEPEST_NESTING + 1))
    try:
        tree = _parser().parse(text)
    except UnexpectedCharacters as error:
        raise _unexpected_character(sentence, error) from None
    except UnexpectedToken as error:
        raise _unexpected_token(sentence, error) from None
    _refuse_deep(sentence, tree)
    return tree


_TOO_DEEP = (
    f"The rule is nested more than {DEEPEST_NESTING} levels deep (each `+` of a long sum is one more). "
    "Split it into several rules, or compute a column first."
)


@cache
def _parser() -> Lark:
    from lark import Lark

    grammar = resources.files("ocbnn.language").joinpath("grammar.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", propagate_positions=True)


def _refuse_deep(sentence: Sentence, tree: Tree[Token]) -> None:
    level: list[Any] = [tree]
    for _ in range(DEEPEST_NESTING):
        level = [child for node in level for child in node.children if hasattr(child, "children")]
        if not level:
            return
    raise sentence.error(_TOO_DEEP, level[0])


# Errors in words --------------------------------------------------------------------------------------------

_MEANT_CHARACTERS = {
    "&": "`and`",
    "|": "`or`",
    "!": "`not`, or `!=`",
    "[": "`{…}` for a set, or `2 <= y <= 3` for a range",
}

_EXPECTED = (  # the most helpful first
    ({"_IF", "_ALWAYS"}, "`if` or `always`"),
    ({"_THEN"}, "`then`"),
    ({"LE", "LT", "EQ"}, "a comparison such as `<=`"),
    ({"NAME"}, "a column"),
    ({"NUMBER"}, "a number"),
    ({"RPAR"}, "`)`"),
    ({"RBRACE"}, "`}`"),
    ({"LBRACE"}, "`{`"),
    ({"_IN"}, "`in`"),
    ({"COMMA"}, "`,`"),
    ({"_AND"}, "`and`"),
    ({"_OR"}, "`or`"),
    ({"TIMES"}, "an operator such as `+`"),
    ({"$END"}, "the end of the rule"),
)


def _unexpected_character(sentence: Sentence, error: UnexpectedCharacters) -> RuleError:
    at = error.pos_in_stream or 0
    letter = sentence.text[at]
    if letter in "'\"`":
        message = f"The {letter} opened here is not closed."
    elif letter in _MEANT_CHARACTERS:
        message = f"{quoted(letter)} has no meaning in a rule; write {_MEANT_CHARACTERS[letter]}."
    else:
        shown = quoted(letter) if letter.isprintable() else f"The character U+{ord(letter):04X}"
        message = f"{shown} has no meaning in a rule. Odd names of columns go in backticks, labels in quotes."
    return sentence.error(message, at)


def _unexpected_token(sentence: Sentence, error: UnexpectedToken) -> RuleError:
    token, before = error.token, _token_before(sentence.text, error.token)
    ended = token.type == "$END"
    at = len(sentence.text.rstrip()) if ended else position(token)
    if before is None and ended:
        return sentence.error("The rule is empty. Write `if … then …` or `always …`.", 0)
    hint = _hint(token, before)
    if hint is not None:
        return sentence.error(*hint if isinstance(hint, tuple) else (hint, at))
    accepted = error.accepts or error.expected
    expected = [words for terminals, words in _EXPECTED if terminals & set(accepted)]
    found = "the rule ends" if ended else f"there is {quoted(str(token))}"
    wanted = f"Expected {listed(expected[:5], 'or')} here, but {found}."
    if before is None:
        wanted = f"A rule begins with `if … then …` or `always …`, but this one with {quoted(str(token))}."
    return sentence.error(wanted, at)


def _token_before(text: str, token: Token) -> Token | None:
    before = None
    for other in _parser().lex(text):
        if token.type != "$END" and position(other) >= position(token):
            break
        before = other
    return before


def _hint(token: Token, before: Token | None) -> str | tuple[str, Token] | None:
    """What was probably meant, for mistakes that people make."""
    pair = (None if before is None else before.type, token.type)
    match pair:
        case ("NAME", "LPAR"):
            return unknown_function(str(before)), before or token
        case ("EQ", "GT" | "LT"):
            return f"Write `{token}=` rather than `={token}`."
        case ("NUMBER", "NAME" | "BACKTICKED" | "FUNCTION"):
            return f"A product is written out: `{before} * {str(token)[:40]}`."
        case ("NAME", "NAME" | "NUMBER"):
            return (
                f"{quoted(str(before))} and {quoted(str(token))} stand side by side. "
                "A column's name with blanks goes in backticks, a label with blanks in quotes."
            )
        case ("TILDE", _):
            known = listed(f"`{name}(…)`" for name in DISTRIBUTIONS)
            near = did_you_mean(str(token), DISTRIBUTIONS, quoted)
            return f"Expected a distribution after `~`: {known} are known.{near}"
    return None


def unknown_function(name: str) -> str:
    known = listed(f"`{function}`" for function in KNOWN_FUNCTIONS)
    near = did_you_mean(name, (*KNOWN_FUNCTIONS, "P", *DISTRIBUTIONS), quoted)
    return f"{quoted(name)} is not a function; {known} are known.{near}"


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


def no_column(sentence: Sentence, tree: Branch) -> RuleError:
    """The error for a name that is neither a column's nor the target's."""
    name = name_of(tree)
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
