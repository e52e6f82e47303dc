"""Any text is a constraint or a `RuleError`, soon; whatever is accepted can be printed, linted and sampled.

Texts are written by a grammar that knows the schema, mutated from such sentences, or random. The quick run takes a
few thousand; the slow one a million, on all cores (about 550 texts a second on each).
"""  # noqa: E501

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from ocbnn.errors import RegionError, RuleError, SchemaError
from ocbnn.language.expressions import label_text, name_text
from ocbnn.language.syntax import LONGEST_RULE
from ocbnn.linting import lint
from ocbnn.model.conditional import rule_points
from ocbnn.rules import parse_rule
from ocbnn.rules.margins import margins
from ocbnn.schema import Column, Schema, Target

SECONDS = 2.0
"""What reading, printing, linting or sampling one rule may take of a processor."""
MEGABYTES = 500


def number(name, low=-3.0, high=3.0, **more):
    return Column(name, "continuous", (low, high), **more)


COLUMNS = (
    *(number(name) for name in ("a", "b", "c", "d", "e", "f")),
    number("odd `name` (mg", bounds=(-5.0, 5.0)),
    number("amount", 1.0, 90.0, bounds=(0.0, np.inf), transform="log", offset=0.5, unit="mg/dL"),
    number("ıf"),  # `re` takes the dotless i for an i, where case is ignored
    Column("k", "integer", (0.0, 1900.0)),
    Column("flag", "binary", (0.0, 1.0)),
    Column("ward", "category", (0.0, 3.0), levels=("ICU", "long stay", "it's", "a")),
)
NUMBERS = Schema(COLUMNS, Target("y", "regression", center=1.0, scale=2.0, unit="mm"))
CLASSES = Schema(COLUMNS, Target("label", "classification", classes=("blue", "green", "red", "in")))
BINARY = Schema(COLUMNS, Target("hired", "classification", classes=(0, 1)))
SCHEMAS = (NUMBERS, CLASSES, BINARY)


class Writer:
    """Writes sentences whose pieces fit together most of the time, and spoils some of them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.schema = self.random.choice(SCHEMAS)
        target = self.schema.target
        self.target = self.random.choice([name_text(target.name), "y"])
        self.labels = [label_text(label, self.schema.names) for label in target.classes] or ["1"]
        self.names = [name_text(column.name) for column in COLUMNS if column.kind != "category"]

    def pick(self, *choices):
        return self.random.choice(choices)

    def text(self):
        stated = self.pick(self.output, self.output, self.relations)()
        always = self.pick(*[f"always {stated}"] * 4, f"never {self.output()}")
        sentence = self.pick(always, f"if {self.condition()} then {stated}")
        chance = self.random.random()
        if chance < 0.6:
            return sentence
        return self.spoiled(sentence) if chance < 0.9 else self.noise()

    def many(self, write, joint, most=24):
        count = self.pick(1, 2, 3, self.random.randint(1, most))
        return joint.join(write() for _ in range(count))

    def number(self):
        if self.random.random() < 0.05:
            return self.pick("1e308", "-1e308", "1e-320", "5e-324", "9" * 400, "10 ^ 400", "0/0", "50%")
        return self.pick(str(self.random.randint(-5, 5)), f"{self.random.uniform(0, 4):.3g}", "pi", "1e-3")

    def expression(self, leaf, depth=0):
        chance = self.random.random()
        if depth > 3 or chance < 0.6:
            return self.pick(leaf, leaf, self.pick(*self.names), self.number())
        inner = self.expression(leaf, depth + 1)
        if chance < 0.85:
            return f"{inner} {self.pick(*'+-*/^')} {self.expression(leaf, depth + 1)}"
        function = self.pick("sin", "exp", "log", "sqrt", "abs", "-", "")
        return self.pick(f"{function}({inner})", f"max({inner}, {self.pick(*self.names)})")

    def comparison(self, leaf):
        sign = self.pick("<", "<=", ">", ">=", "=", "!=")
        left, right = self.pick(leaf, self.expression(leaf)), self.expression(self.number())
        chain = self.many(lambda: self.pick(leaf, *self.names), f" {sign} ")
        return self.pick(
            f"{left} {sign} {right}", f"{right} <= {left} < {self.number()}", f"{chain} {sign} {right}"
        )

    def condition(self, depth=0):
        if depth < 3 and self.random.random() < 0.4:
            joint = self.pick(" and ", " or ", ") or (", ") and not (")
            return f"{self.pick('', 'not ')}({self.many(lambda: self.condition(depth + 1), joint, 6)})"
        leaf, unit = self.pick(*self.names), self.pick("mg/dL", "mg/dL", "mg/dL", "mg/dL", "mg")
        return self.pick(
            self.comparison(leaf),
            f"{leaf} {self.pick('', 'not ')}in {{{self.many(self.number, ', ', 90)}}}",
            f"{self.expression(leaf)} in {{{self.many(lambda: self.expression(leaf), ', ', 9)}}}",
            f"ward {self.pick('', 'not ')}in {{ICU, 'it\\'s', {self.pick('a', '`a`', QUOTED_A)}}}",
            f"ward {self.pick('=', '!=')} 'long stay'",
            f"flag = {self.pick('True', 'false', '1')}",
            f"{leaf} {self.pick('', 'is ')}between {self.expression(leaf)} and {self.expression(leaf)}",
            f"amount {self.pick('is above', '<=', 'at least')} {self.number()} {unit}",
        )

    def output(self):
        label, value, suffix = (
            self.pick(*self.labels),
            self.expression(self.number()),
            self.pick("", "", " within 0.5", " (0.7)"),
        )
        joint = self.pick(" and ", " or ", " and not ", " or not ")
        some = ", ".join(self.random.choices(self.labels, k=2))
        near = f"{self.target} = {value}{suffix}"
        numbers = [
            self.many(lambda: self.comparison(self.target), joint, 5),
            self.many(lambda: f"{self.target} = {self.number()}{suffix}", " or ", 70),
            f"{self.target} in {{{self.many(self.number, ', ', 9)}}}",
            f"not {near}",
            f"{self.target} is between {value} and {self.number()} {self.pick('mm', '', '', 'm')}",
            f"{near} and {self.comparison(self.target)}",
            self.many(lambda: f"{self.target} ~ Normal({value}, {self.expression('1')}){suffix}", " or ", 5),
        ]
        shares = self.pick(
            f"P({self.target} = {label})",
            f"P({self.target} in {{{some}}})",
            f"P(not {self.target} = {label})",
        )
        classes = [
            self.many(lambda: self.comparison(shares), joint, 5),
            f"{shares} = {value}",
            f"not {shares} = 0.{self.random.randint(0, 9)} within 0.2",
            f"{self.target} {self.pick('=', '!=')} {label}",
            f"{self.target} in {{{some}}}",
            f"{self.target} ~ Bernoulli({value})",
            f"{self.target} ~ Categorical({label}: {value}, {self.pick(*self.labels)}: 0.2)",
        ]
        fitting = numbers if self.schema.target.task == "regression" else classes
        return self.pick(self.pick(*fitting), self.pick(*fitting), self.pick(*numbers, *classes))

    def relations(self):
        return " and ".join(self.relation() for _ in range(self.pick(1, 1, 1, 1, 2, 3)))

    def relation(self):
        """Compares outputs at several inputs."""
        some = ", ".join(self.random.choices(self.labels, k=2))
        share = f"P({self.target} = {self.pick(*self.labels)})"
        share = self.pick(share, share, share, f"P({self.target} in {{{some}}})")
        fitting = self.target if self.schema.target.task == "regression" else share
        what = self.pick(*[fitting] * 18, self.target, share)
        column = self.pick(*self.names, *self.names, "ward")
        sizes = [self.number(), *(f"{self.random.uniform(0, 1):.2g}" for _ in range(4)), self.expression("1")]
        size, other, last = (self.pick(*sizes) for _ in range(3))
        levels = ("ICU", "'long stay'", "'it\\'s'", "`a`", "nobody")
        values = levels if column == "ward" else (self.number(), self.number())
        setting, against = (f"{column} = {self.pick(*values)}" for _ in range(2))
        if self.random.random() < 0.05:
            setting, against = f"{setting}, flag = 0", f"{against}, flag = 1"
        groups = self.pick("flag", "ward", "ward", column)
        sign = self.pick("<=", ">=", "<=", "=", "<", ">", "!=", "is at least")
        return self.pick(
            f"{what} {self.pick('increases', 'falls', 'decreases', 'grows')} with {column}",
            f"{what} changes by at most {size} per {self.pick(other, '', '', f'{other} mg/dL')} {column}",
            f"{what} does not depend on {column} {self.pick('', f'by more than {size}')}",
            f"{what} with {setting} {sign} {what} with {against} "
            f"{self.pick('', f'+ {size}', f'- {other}')} {self.pick('', f'within {last}')}",
            f"mean {what} is equal over {groups} {self.pick('', f'within {size}', 'within 5%')}",
            f"share {what} {self.pick('>', '>', 'is above', sign)} {self.pick('0.5', size)} is equal over "
            f"{groups} {self.pick('', 'within 5%', f'within {size}')}",
            f"{what} is {self.pick('convex', 'concave')} in {column}",
        )

    def spoiled(self, text):
        for _ in range(self.random.randint(1, 4)):
            place, length = self.random.randrange(len(text) + 1), self.random.randint(0, 6)
            piece = self.pick(
                "", "(", ")", " != a", " or ", "not ", "{", "'", "`", "^", "e9", "\ud800", "\x00", "∞", "%"
            )
            again = text[place : place + length] * self.pick(0, 1, 2, 30)
            text = text[:place] + self.pick(piece, again) + text[place + length :]
        return text

    def noise(self):
        letters = [
            chr(self.random.choice([self.random.randrange(32, 127), self.random.randrange(0x110000)]))
            for _ in range(20)
        ]
        words = [
            "if",
            "then",
            "always",
            "y",
            "a",
            "ward",
            "(",
            ")",
            "!=",
            "<",
            "1",
            "in",
            "{",
            "}",
            ",",
            "P(",
            "~",
            "not",
        ]
        return self.pick(
            "".join(letters),
            " ".join(self.random.choices(words, k=12)),
            "a" + " != a" * self.random.randint(1, 2_500),
        )


QUOTED_A = "'a'"


def within_time(what, text, call):
    """The call's result; it takes at most `SECONDS` of a processor."""
    begun = time.process_time()
    try:
        return call()
    finally:
        spent = time.process_time() - begun
        assert spent < SECONDS, f"{what} took {spent:.1f} s: {text!r}"


def try_text(text, schema, thoroughly):
    """Whether the text is a rule; then it prints as itself and, if asked, is linted, sampled and judged."""
    try:
        rule = within_time("reading", text, lambda: parse_rule(text, schema))
    except RuleError as error:
        rule = error
    if isinstance(rule, RuleError):
        assert rule.message
        assert rule.position is None or 0 <= rule.position <= len(text)
        str(rule).encode("utf-8")
        return False
    written = rule.text(schema)
    assert len(written) <= LONGEST_RULE, text
    assert within_time("reading again", written, lambda: parse_rule(written, schema)) == rule, text
    if thoroughly:
        within_time("linting", text, lambda: lint([rule], schema))
        judge(rule, schema, text)
    return True


def judge(rule, schema, text):
    try:
        points = within_time("sampling", text, lambda: rule_points(0, rule, schema, None, 32))
    except RegionError:  # what cannot be hit says which condition is to blame
        return
    assert points.shape == (32, len(schema.columns) + rule.requirement.coordinates)
    assert rule.region.contains(points[:, : len(schema.columns)], schema).all(), text
    within_time("looking for corners", text, lambda: rule.region.vertices(schema))
    classes = len(schema.target.classes)

    def function(coded):
        return np.full((len(coded), classes), 1 / classes) if classes else np.linspace(-3, 5, len(coded))

    try:
        found = rule.demand(points, schema) if rule.is_predictive else margins(rule, schema, points, function)
    except RuleError:  # what is asked is not defined at one of the points, and the error says so
        return
    assert rule.is_predictive or not np.isnan(found).any(), text


def try_many(seeds):
    """How many of these texts are rules."""
    understood = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in seeds:
            writer = Writer(seed)
            text = writer.text()
            try:
                understood += try_text(text, writer.schema, thoroughly=seed % 20 == 0)
            except Exception as error:
                raise AssertionError(f"Text {seed}, {text!r}: {error}") from error
    return understood


FOUND = {
    "a value that rounding makes infinite": (NUMBERS, "if f = -1e308 then y increases with f"),
    "a change without `per`": (NUMBERS, "always y changes by at most 1 not a"),
    "a mean without `is equal over`": (NUMBERS, "always mean y != a within 2"),
    "a contrast with two signs": (NUMBERS, "always y with a = 1 = 2 <= y with a = 2"),
    "equalities that leave nothing free": (
        BINARY,
        "if flag = amount = c = e = max(1e-3, flag) then y ~ Bernoulli(`odd ``name`` (mg` / 2 / "
        "max(`odd ``name`` (mg`, c))",
    ),
    "an overflow": (CLASSES, "always y ~ Categorical('in': b + -1e308, blue: 0.2)"),
    "a slow search": (
        CLASSES,
        "if (not (not (`\u0131f` <= e <= d <= 2 * 2 * 1e-3 + 2 ^ 2 or e < a < log(3)) and a < "
        "max(-(1e-3), f) and c in {log(c), k, c, c, c, `odd ``name`` (mg`, max(c * 1 * c / c ^ c "
        "* c - c, f)}) and max(k, k) in {`\u0131f`, `\u0131f`, `\u0131f`, 1e-3, e, pi * pi + "
        "`\u0131f` - c + max(`\u0131f`, `odd ``name`` (mg`)} and ward != 'long stay') then label "
        "!= green",
    ),
    "half of a surrogate pair, quoted in a message": (
        BINARY,
        "if (not (`odd ``name`` (mg` in {d, max(`odd ``name``\u221e`, a)}) and not (d not in "
        "{0.`513, 2.79}\ud800d not (ward = 'long stay')) and not (ward in {ICU, 'it\\'s', `a`}) "
        "then y in {0, 1}",
    ),
    "a unit that reads as a name": (
        NUMBERS,
        "always y = 1e-3 "
        "w0.50.50.50.50.50.50.50.50.50.50.50.50.50.50.50.50.50.50.50."
        "50.50.50.50.50.50.\x000.50.50.50.5",
    ),
    "listed values that are too far apart to be subtracted": (
        BINARY,
        "if (k in {0, 1e-3, 5e-324, pi, -4, 0.964, 2.38, 3, 1e-3, 2, pi, -3, 0.955, 1e-3, pi, "
        "1e308, 3.85, pi, -2, -4, -1e308, 1.65, 3, pi}) then y = 0",
    ),
}
"""Texts of the slow test that failed once, with their schemas."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("which", FOUND)
def test_a_text_that_failed_once(which):
    schema, text = FOUND[which]
    try_text(text, schema, thoroughly=True)


def test_thousands_of_texts_are_rules_or_errors_and_rules_print_as_themselves():
    assert try_many(range(1_000)) > 230


@pytest.mark.slow
def test_a_million_texts_are_rules_or_errors_and_rules_print_as_themselves():
    shares = [range(begin, begin + 1_000) for begin in range(0, 1_000_000, 1_000)]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        assert sum(pool.imap_unordered(try_many, shares)) > 250_000


# Long rules -------------------------------------------------------------------------------------------------

NAMES = tuple(column.name for column in COLUMNS[:6])


def filled(write, joint, head="if ", tail=" then y > 0"):
    """A sentence that is nearly as long as one may be."""
    pieces, length = [], len(head) + len(tail)
    while length + len(write(len(pieces))) + len(joint) <= LONGEST_RULE:
        pieces.append(write(len(pieces)))
        length += len(pieces[-1]) + len(joint)
    return head + joint.join(pieces) + tail


def joined(joint, count, write):
    return f"if {joint.join(map(write, range(count)))} then y > 0"


def name(place):
    return NAMES[place % len(NAMES)]


def tree(depth, place=0):
    if not depth:
        return f"{name(place)} > {place}"
    joint = "and" if depth % 2 else "or"
    return f"({tree(depth - 1, 2 * place)} {joint} {tree(depth - 1, 2 * place + 1)})"


def face(place):
    return " + ".join(f"{(7 * place + 3 * j) % 11 + 1} * {name(place * j + 5 * j + place)}" for j in range(3))


LONG = {
    "a chain of unequal columns": filled(name, " != "),
    "16 unequal signs": "if " + " != ".join(name(i) for i in range(17)) + " then y > 0",
    "no chain of equal columns": filled(name, " = ", head="if not "),
    "a chain of smaller columns": filled(name, " < "),
    "unequal numbers": filled(lambda i: f"a != {i}", " and "),
    "a set of whole numbers": filled(str, ", ", "if k in {", "} then y > 0"),
    "all but a set": filled(str, ", ", "if k not in {", "} then y > 0"),
    "a set for a continuous column": filled(str, ", ", "if a in {", "} then y > 0"),
    "a set of expressions": filled(lambda i: f"{name(i)} + {i}", ", ", "if a * b in {", "} then y > 0"),
    "a sum in a set": filled(str, ", ", f"if {' + '.join(['a'] * 90)} in {{", "} then y > 0"),
    "or of and": filled(lambda i: f"({name(i)} > {i} and {name(i + 1)} < {i})", " or "),
    "and of or": filled(lambda i: f"({name(i)} > {i} or {name(i + 1)} < {i})", " and "),
    "half-spaces": filled(lambda i: f"{face(i)} < {i % 13 + 1}", " and "),
    "half-spaces or half-spaces": joined(" or ", 64, lambda i: f"{face(i)} < {i % 13} and {face(i + 1)} > 0"),
    "six times one of two": joined(" and ", 6, lambda i: f"({face(i)} > {i} or {face(i + 6)} < {i})"),
    "one of many equalities": joined(" or ", 64, lambda i: f"{name(i)} + 2 * {name(i + 1)} = {i / 7:.3g}"),
    "half-spaces that exclude each other": filled(lambda i: f"{face(i)} < -{i % 13 + 60}", " and "),
    "half-spaces that exclude each other, or others": joined(
        " or ", 64, lambda i: f"{face(i)} > {i + 1} and {face(i)} < {i} and {name(i)} < 5"
    ),
    "thin curves": filled(lambda i: f"abs({name(i)} - {i / 1000}) < 0.01", " and "),
    "any of many curves": filled(lambda i: f"sin({name(i)} * {i}) > 0.99", " or "),
    "a tree": f"if {tree(8)} then y > 0",
    "not a tree": f"if not {tree(8)} then y > 0",
    "many long sums": filled(lambda i: f"{' + '.join(['a'] * 90)} > {i}", " or "),
    "parentheses": f"if {'(' * 99}a > 1{')' * 99} then y > 0",
    "many outputs": "always " + " or ".join(f"{2 * i} + {name(i)} <= y <= {2 * i + 1}" for i in range(32)),
    "many gaps": "always " + " and ".join(f"not y = {2 * i} + {name(i)} within 0.5" for i in range(32)),
    "many values": "always " + " or ".join(f"y = {i} * a" for i in range(64)),
    "many relations": filled(
        lambda i: f"y {('increases', 'decreases')[i % 2]} with {name(i // 2)}", " and ", "always ", ""
    ),
    "many changes": filled(
        lambda i: f"y changes by at most {i + 1} per {i + 2} {name(i)}", " and ", "if a > 0 then ", ""
    ),
    "many contrasts": filled(
        lambda i: f"y with {name(i)} = {i} >= y with {name(i)} = {i + 1} - {i}", " and ", "always ", ""
    ),
    "many invariances": filled(
        lambda i: f"y does not depend on {name(i)} by more than {i + 1}", " and ", "always ", ""
    ),
    "many shapes": filled(lambda i: f"y is convex in {name(i)}", " and ", "always ", ""),
    "all but between": filled(lambda i: f"not {name(i)} between {i} and {i + 1}", " and "),
    "never many": "never " + " or ".join(f"{2 * i} <= y <= {2 * i + 1}" for i in range(32)),
    "a parity in a long region": filled(
        lambda i: f"{name(i)} < {i}", " and ", tail=" then mean y is equal over flag within 1"
    ),
    "many normals": filled(lambda i: f"y ~ Normal({i}, 1)", " or ", "always ", ""),
}  # fmt: skip


LIKE_ANOTHER = {
    "a chain of smaller columns": "a chain of unequal columns",
    "unequal numbers": "16 unequal signs",
    "all but a set": "a set of whole numbers",
    "a sum in a set": "a set of expressions",
    "or of and": "and of or",
    "half-spaces that exclude each other": "half-spaces that exclude each other, or others",
    "any of many curves": "thin curves",
    "not a tree": "a tree",
    "many gaps": "many outputs",
    "never many": "many outputs",
    "many changes": "many relations",
    "many invariances": "many contrasts",
    "many shapes": "many relations",
}
"""Long rules for the slow run, and the one of the quick run that takes the same way."""
LONG_OR_SLOW = [
    pytest.param(which, marks=pytest.mark.slow) if which in LIKE_ANOTHER else which for which in LONG
]


def test_a_long_rule_left_to_the_slow_run_is_like_a_quick_one():
    assert set(LIKE_ANOTHER) < set(LONG)
    assert set(LIKE_ANOTHER.values()) <= set(LONG) - set(LIKE_ANOTHER)


@pytest.mark.parametrize("which", LONG_OR_SLOW)
def test_a_long_rule_is_read_linted_and_sampled_in_time(which):
    assert try_text(LONG[which], NUMBERS, thoroughly=True)


def test_many_classes_are_linted_in_time():
    schema = Schema(COLUMNS, Target("y", "classification", classes=tuple(f"c{i}" for i in range(30))))
    assert try_text(
        "always y ~ Categorical(" + ", ".join(f"c{i}: a * {i}" for i in range(30)) + ")", schema, True
    )


MEMORY = """
import resource
from test_rule_texts import *
for text in LONG.values():
    try_text(text, NUMBERS, thoroughly=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_long_rules_take_little_memory():
    paths = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", MEMORY],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(run.stdout) < MEGABYTES


# Names and labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["\ud800", "a\x00", "\x1b[31m", "\udfff x", "\x85", "\uffff"])
def test_names_and_labels_that_no_file_can_hold_are_refused_by_the_schema(wrong):
    for make in (
        lambda: number(wrong),
        lambda: Target(wrong, "regression"),
        lambda: Column("ward", "category", (0.0, 1.0), levels=("a", wrong)),
        lambda: Target("y", "classification", classes=("a", wrong)),
    ):
        with pytest.raises(SchemaError, match="files and reports cannot hold"):
            make()


ODD = [
    "ıf",
    "İN",
    "ſin",
    "p",
    "a\nb",
    "a\tb",
    "((((",
    "`",
    "``",
    "'",
    "\\",
    "#",
    "{}",
    "1",
    " ",
    "é.1",
    "\u200b",
]


@pytest.mark.parametrize("odd", ODD)
def test_any_name_and_label_that_is_accepted_prints_and_reads_back(odd):
    for other in ("", odd, "x" + odd):
        columns = (number(odd), Column("ward", "category", (0.0, 1.0), levels=(odd, "other")))
        target = Target("y" + other, "classification", classes=(odd, "b"))
        schema = Schema(columns, target)
        quoted = label_text(odd, (*schema.names, target.name, "y"))
        for condition in (
            f"{name_text(odd)} > 1",
            f"ward = {quoted}",
            " or ".join([f"{name_text(odd)} > 1"] * 120),
        ):
            assert try_text(
                f"if {condition} then {name_text(target.name)} = {quoted}", schema, thoroughly=True
            )
