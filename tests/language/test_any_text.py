"""No text whatsoever gives anything but a constraint or a `RuleError`."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from language_schemas import CLINIC, COLOURS, HIRING, LINE, coded
from ocbnn.errors import RuleError
from ocbnn.language.expressions import label_text, name_text
from ocbnn.rules import Constraint, parse_rule

SCHEMAS = (LINE, COLOURS, CLINIC, HIRING)

TOKENS = [
    "if", "then", "always", "and", "or", "not", "in", "within", "x", "y", "x1", "ward", "ICU", "label",
    "green", "'red'", "red", "action", "age", "hired", "skill", "smoker", "True", "P(", "sin(", "max(",
    "Normal(", "Bernoulli(", "Categorical(", "(", ")", "{", "}", ",", ":", "~", "+", "-", "*", "/", "^",
    "**", "<", "<=", ">", ">=", "=", "==", "!=", "<>", "≤", "≥", "≠", "0", "1", "2", "0.5", ".3", "1e999",
    "1e308", "60%", "(0.7)", "pi", '"1"', "foo", '\x00', "`", "'", "−", "0/0",
    "`odd ``name```", "# c\n", "\n",
]  # fmt: skip


class Writer:
    """Writes sentences whose pieces fit together, so that many get past the grammar and into meaning."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.schema = self.random.choice(SCHEMAS)
        target = self.schema.target
        self.target = self.random.choice([target.name, "y"])
        self.classes = [label_text(label, self.schema.names) for label in target.classes] or ["1"]
        self.names = [name_text(column.name) for column in self.schema.columns]

    def pick(self, *choices):
        return self.random.choice(choices)

    def number(self):
        return self.pick("0", "1", "-2", "0.5", "3", "1e308", "pi", "50%", "1e-3", "0/0")

    def term(self, leaf, depth=0):
        choice = self.random.random()
        if depth > 3 or choice < 0.6:
            return self.pick(leaf, self.pick(*self.names), self.number(), self.number())
        inner = self.term(leaf, depth + 1)
        if choice < 0.8:
            return f"{inner} {self.pick(*'+-*/^')} {self.term(leaf, depth + 1)}"
        return self.pick(f"-{inner}", f"({inner})", f"sin({inner})", f"log({inner})", f"max({inner}, 1)")

    def comparison(self, leaf):
        sign = self.pick("<", "<=", ">", ">=", "=", "!=", "≥")
        left, right = self.pick(leaf, self.term(leaf)), self.term(self.number())
        return self.pick(f"{left} {sign} {right}", f"{right} <= {left} < {self.term(self.number())}")

    def condition(self):
        ward = self.pick("ward = ICU", "ward in {ICU, 'long stay'}", "smoker = True", "visits in {1, 2}")
        return self.joined(lambda: self.pick(self.comparison(self.pick(*self.names)), ward))

    def joined(self, statement):
        first = self.pick(
            statement(), statement(), f"not {statement()}", f"not ({statement()} or {statement()})"
        )
        return self.pick(first, first, f"{first} {self.pick('and', 'or')} {statement()}")

    def output(self):
        suffix = self.pick("", "", " within 0.5", " (0.7)", " within 2 (0.3)")
        label, value = self.pick(*self.classes), self.term(self.number())
        of_numbers = [
            self.joined(lambda: self.comparison(self.target)),
            f"{self.target} = {value}{suffix}",
            f"{self.target} = {value}{suffix} or {self.target} = 2{suffix}",
            f"{self.target} ~ Normal({value}, {self.term(self.number())})",
        ]
        of_classes = [
            self.joined(lambda: self.comparison(f"P({self.target} = {label})")),
            f"P({self.target} != {label}) = {value}",
            self.joined(lambda: f"{self.target} {self.pick('=', '!=')} {self.pick(*self.classes)}"),
            f"{self.target} ~ Bernoulli({value})",
            f"{self.target} ~ Categorical({label}: {value})",
        ]
        fitting = of_numbers if self.schema.target.task == "regression" else of_classes
        return self.pick(*fitting, self.pick(*fitting), self.pick(*of_numbers, *of_classes))

    def sentence(self):
        return self.pick(f"always {self.output()}", f"if {self.condition()} then {self.output()}")


def check(text, schema):
    """A constraint that prints and reads back, or a `RuleError` whose message can be shown."""
    try:
        constraint = parse_rule(text, schema)
    except RuleError as error:
        refusal = error
    else:
        assert isinstance(constraint, Constraint)
        assert parse_rule(constraint.text(schema), schema) == constraint
        with contextlib.suppress(RuleError):  # what is not defined at a point says so
            constraint.demand(coded(schema, **{schema.names[0]: [-1.0, 0.0, 0.5]}), schema)
        return True
    assert refusal.message
    assert refusal.position is None or 0 <= refusal.position <= len(text)
    str(refusal).encode("utf-8")
    return False


many = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])


@given(st.text(st.characters(codec=None), max_size=40), st.sampled_from(SCHEMAS))
@settings(many, max_examples=2_000)
def test_arbitrary_text(text, schema):
    check(text, schema)


@given(st.binary(max_size=14), st.sampled_from(SCHEMAS))
@settings(many, max_examples=1_500)
def test_words_of_the_language_in_any_order(drawn, schema):
    words = [TOKENS[byte % len(TOKENS)] for byte in drawn]
    check(" ".join(words), schema)


def test_sentences_with_any_meaning():
    understood = 0
    for seed in range(2_000):
        writer = Writer(seed)
        understood += check(writer.sentence(), writer.schema)
    assert understood > 500


BOMBS = {
    "parentheses": "if " + "(" * 10_000 + "x > 1" + ")" * 10_000 + " then y > 2",
    "parentheses that are not closed": "if " + "(" * 9_000,
    "parentheses in arithmetic": "always y > " + "(" * 4_000 + "x" + ")" * 4_000,
    "not": "if " + "not " * 2_400 + "x > 1 then y > 2",
    "minus": "always y > " + "-" * 9_000 + "x",
    "sums": "always y > 1" + "+1" * 4_900,
    "powers": "always y > " + "2^" * 4_900 + "x",
    "calls": "always y > " + "sin(" * 2_000 + "x" + ")" * 2_000,
    "braces": "if x in " + "{" * 9_000,
    "length": "always y > 1 " + "# and so on" * 10_000,
    "a long name": "if " + "x" * 9_900 + " > 1 then y > 2",
    "a long number": "if x > " + "9" * 9_900 + " then y > 2",
    "values": "always y = 1" + " or y = 1" * 900,
    "bounds": "always y > 1" + " or y > 1" * 900,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_quickly_rather_than_exhausting_the_stack(bomb):
    with pytest.raises(RuleError):
        parse_rule(BOMBS[bomb], LINE)


def test_long_flat_chains_are_read():
    conditions = " and ".join(f"x < {bound}" for bound in range(1, 500))
    assert len(parse_rule(f"if {conditions} then y > 2", LINE).condition.items) == 499
    total = " + ".join(f"{weight} * x" for weight in range(1, 90))
    assert check(f"if {total} > 3 then y > 2", LINE)
    assert check("if " + "not " * 90 + "x > 1 then y > 2", LINE)


def test_conditions_that_would_unfold_to_millions_of_boxes_are_read_or_refused_quickly():
    check("if " + " and ".join(["(x > 1 or x < 0)"] * 60) + " then y > 2", LINE)
    check("if " + " and ".join(f"(x1 > {k} or x2 < {k})" for k in range(40)) + " then label = green", COLOURS)
    check(
        "if not (" + " or ".join(f"(x1 > {k} and x2 < {k})" for k in range(40)) + ") then label = green",
        COLOURS,
    )
