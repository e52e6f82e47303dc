"""From text to a tree with positions, or to a `RuleError` that says in words what was expected where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ocbnn.errors import RuleError
from ocbnn.language.expressions import FOLDS, FUNCTIONS
from ocbnn.language.messages import did_you_mean, listed, quoted

if TYPE_CHECKING:
    from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedToken

    from ocbnn.schema import Schema

LONGEST_RULE = 10_000
DEEPEST_NESTING = 100
"""Trees are walked by recursion; this keeps them far from the end of the stack."""

DISTRIBUTIONS = ("Normal", "Bernoulli", "Categorical")
KNOWN_FUNCTIONS = (*FUNCTIONS, *FOLDS)


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
    deepest = list(accumulate((letter == "(") - (letter == ")") for letter in text))
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
        message = (
            f"The {letter} opened here is not closed: what stands between such marks has to be closed by one."
        )
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
            return f"Expected a distribution after `~`: {known} are known.{_near(str(token), DISTRIBUTIONS)}"
    return None


def unknown_function(name: str) -> str:
    known = listed(f"`{function}`" for function in KNOWN_FUNCTIONS)
    near = _near(name, (*KNOWN_FUNCTIONS, "P", *DISTRIBUTIONS))
    return f"{quoted(name)} is not a function; {known} are known.{near}"


def _near(name: str, known: tuple[str, ...]) -> str:
    return did_you_mean(name, known, quoted)
