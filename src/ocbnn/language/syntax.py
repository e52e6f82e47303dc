"""From text to a tree with positions, or to a `RuleError` that says in words what was expected where."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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
    return _plain(sentence, tree)


_TOO_DEEP = (
    f"The rule is nested more than {DEEPEST_NESTING} levels deep (each `+` of a long sum is one more). "
    "Split it into several rules, or compute a column first."
)


@cache
def _parser(lexer: Literal["contextual", "basic"] = "contextual") -> Lark:
    from lark import Lark

    grammar = resources.files("ocbnn.language").joinpath("grammar.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer=lexer, propagate_positions=True)


def _refuse_deep(sentence: Sentence, tree: Tree[Token]) -> None:
    level: list[Any] = [tree]
    for _ in range(DEEPEST_NESTING):
        level = [child for node in level for child in node.children if hasattr(child, "children")]
        if not level:
            return
    raise sentence.error(_TOO_DEEP, level[0])


# Other words for the same -----------------------------------------------------------------------------------

STATEMENTS = ("comparison", "member", "not_member", "distribution", "relation")
"""Trees within which a unit after a number has to be that of a column, or of the target."""


def _plain(sentence: Sentence, tree: Branch) -> Branch:
    """The tree with `never …` and `between …` in their plain form, and units of numbers looked at."""
    from lark import Token, Tree

    for branch in tree.iter_subtrees():
        if branch.data == "never":
            inner = Tree("negated", branch.children, branch.meta)
            branch.data, branch.children = Token("RULE", "everywhere"), [inner]
        elif branch.data == "between":
            subject, low, high, *suffixes = branch.children
            signs = (Tree("comparator", [Token("LE", "<=")], branch.meta) for _ in range(2))
            branch.data = Token("RULE", "comparison")
            branch.children = [low, next(signs), subject, next(signs), high, *suffixes]
        if branch.data in STATEMENTS:
            _read_units(sentence, branch)
    return tree


def _read_units(sentence: Sentence, statement: Branch) -> None:
    """Refuse a unit that nothing in this statement is measured in; a unit `%` does not mean a share."""
    units = _units_in(sentence, statement)
    for number in statement.iter_subtrees():
        if number.data == "percent" and "%" in units.values():
            number.data = "number"
        if number.data not in ("number", "step") or len(number.children) < 2:
            continue
        value, last = number.children
        unit = "".join(map(str, getattr(last, "children", [last])))
        if unit in units.values():
            continue
        at: Any = last
        if unit in sentence.schema.names or sentence.schema.is_target(unit) or "^" in unit:
            raise sentence.error(f"A product is written out: `{value} * {unit[:40]}`.", at)
        known = [f"{name_text(name)} is in {given}" for name, given in units.items() if given]
        if known:
            raise sentence.error(f"{quoted(unit)} is not the unit here: {listed(known)}.", at)
        name = next(iter(units), None)
        declare = "" if name is None else f", or declare it: columns={{{name!r}: {{'unit': {unit[:40]!r}}}}}"
        raise sentence.error(
            f"{quoted(unit)} after a number is a unit, but no unit is declared here. Leave it out{declare}. "
            f"(A product is written out: `{value} * {unit[:40]}`.)",
            at,
        )


def _units_in(sentence: Sentence, statement: Branch) -> dict[str, str | None]:
    """The columns of a statement, and the target, with their units."""
    schema, units = sentence.schema, dict[str, str | None]()
    for branch in statement.iter_subtrees():
        if branch.data == "name" and (name := name_of(branch)) in schema.names:
            units[name] = schema.column(name).unit
        elif branch.data == "name" and schema.target is not None and schema.is_target(name_of(branch)):
            units[schema.target.name] = schema.target.unit
    return units


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
    ({"_PER"}, "`per`"),
    ({"_EQUAL"}, "`is equal over`"),
    ({"_WITH"}, "`with`"),
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
    from lark import UnexpectedCharacters

    before = None
    read = text if token.type == "$END" else text[: position(token)]
    # Without its place in a rule a word may be another token, after which nothing can be read.
    with suppress(UnexpectedCharacters):
        for other in _parser("basic").lex(read):
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
        case ("NAME" | "BACKTICKED" | "RPAR", "NAME") if _near_relation(str(token)):
            near = did_you_mean(str(token), _RELATING, quoted) if str(token).lower() not in _RELATING else ""
            return f"{quoted(str(token))} is not understood here.{near} Relations are written {RELATIONS}."
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


RELATIONS = (
    "`y increases with x` (rises, grows; decreases, falls), `y changes by at most 2 per x`, "
    "`y does not depend on x`, `y with x = 1 >= y with x = 0`, "
    "`y is convex in x` (concave), `mean y is equal over x within 2`, `share y > 3 is equal over x within 5%`"
)
_RELATING = (
    *("increases", "rises", "grows", "decreases", "falls", "changes", "does", "depends", "with"),
    *("is", "equal", "convex", "concave"),
)


def _near_relation(word: str) -> bool:
    """Whether a word is one of those that relate outputs, or nearly so."""
    return bool(did_you_mean(word, _RELATING))


def unknown_function(name: str) -> str:
    known = listed(f"`{function}`" for function in KNOWN_FUNCTIONS)
    near = did_you_mean(name, (*KNOWN_FUNCTIONS, "P", *DISTRIBUTIONS), quoted)
    return f"{quoted(name)} is not a function; {known} are known.{near}"


_COMPARATORS = {"≤": "<=", "⩽": "<=", "≥": ">=", "⩾": ">=", "==": "=", "≠": "!=", "<>": "!="} | {
    "at most": "<=",
    "at least": ">=",
    "below": "<",
    "above": ">",
}


class Parts(NamedTuple):
    """A comparison taken apart: terms, the operators between them, and `within …` and `(weight)` after it."""

    terms: list[Branch]
    operators: list[str]
    suffixes: list[Branch]


def parts_of(tree: Branch) -> Parts:
    parts = Parts([], [], [])
    for child in branches(tree):
        if child.data == "comparator":
            parts.operators.append(sign_of(child))
        elif child.data in ("within", "weight"):
            parts.suffixes.append(child)
        else:
            parts.terms.append(child)
    return parts


def sign_of(comparator: Branch) -> str:
    """`<=` for whatever way it was written."""
    sign = " ".join(str(comparator.children[0]).lower().removeprefix("is").split())
    return _COMPARATORS.get(sign, sign)


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
