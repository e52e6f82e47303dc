"""Rules that are understood: what they mean, how they print, and that both agree."""

from __future__ import annotations

import pytest

from language_schemas import CLINIC, COLOURS, CREDIT, HIRING, LINE, number
from ocbnn.language.expressions import (
    Always,
    And,
    Arithmetic,
    Call,
    ColumnRef,
    Comparison,
    Membership,
    Negate,
    Not,
    Number,
    Or,
    Output,
    Probability,
)
from ocbnn.regions import Box, Everywhere, HalfSpaces
from ocbnn.rules import parse_rule
from ocbnn.rules.kinds.bounds import Bounds
from ocbnn.rules.kinds.classes import Classes
from ocbnn.rules.kinds.distribution import ClassProbabilities, NormalDistribution
from ocbnn.rules.kinds.probability import ProbabilityBounds, ProbabilityTarget
from ocbnn.rules.kinds.values import Values
from ocbnn.schema import Column, Schema, Target

x, y = ColumnRef("x"), Output()


def condition(text, schema=COLOURS, output="label = green"):
    return parse_rule(f"if {text} then {output}", schema).condition


def requirement(text, schema=LINE):
    return parse_rule(f"always {text}", schema).requirement


# The examples of the design, with their canonical text.
EXAMPLES = [
    (LINE, "if -0.3 <= x <= 0.3 then 2.5 <= y <= 3", None),
    (LINE, "if -1 <= x <= 1 then not 1 <= y <= 2.5", None),
    (LINE, "always x * y >= 0", None),
    (LINE, "if 3.39 <= x <= 4.39 then y = 5 * cos(x / 1.7) within 0.5", None),
    (LINE, "if 4 <= x <= 5 then y = 2 (0.7) or y = 3 (0.3)", None),
    (COLOURS, "if 1 < x1 < 3 and -2 < x2 < 0 then label = green", None),
    (COLOURS, "if x1 > 3 then label in {green, blue}", "if x1 > 3 then label in {blue, green}"),
    (COLOURS, "if x1 > 3 then not label = 'red'", "if x1 > 3 then label in {blue, green}"),
    (CLINIC, "if creatinine > 2 and BUN > 40 and urine < 30 then action = 1", None),
    (
        CREDIT,
        "if age < 35 and `RevolvingUtilizationOfUnsecuredLines` > 0.6 then SeriousDlqin2yrs = 0",
        "if age < 35 and RevolvingUtilizationOfUnsecuredLines > 0.6 then SeriousDlqin2yrs = 0",
    ),
    (HIRING, "always P(hired = 1) = skill", None),
    (CLINIC, "if lactate > 4 then P(action = 1) >= 0.95", None),
    (LINE, "if x > 2 then y ~ Normal(3, 0.5)", None),
]

# Everything else that people type.
MORE = [
    (
        LINE,
        "IF x ≥ 1 AND x ≤ 2 Then y ≠ 2 within .5 # why not",
        "if x >= 1 and x <= 2 then not 1.5 <= y <= 2.5",
    ),
    (LINE, "always y == 1e-3", "always y = 0.001"),
    (LINE, "if x <> 2 or x != 3 then y > -.5", "if x != 2 or x != 3 then y > -0.5"),
    (LINE, "if x**2 > 4 then y > 2 ^ -x", "if x ^ 2 > 4 then y > 2 ^ -x"),
    (LINE, "if x > pi then y ≥ −2 × x", "if x > 3.141592653589793 then y >= -2 * x"),
    (LINE, "always y in {1, 2}", "always y = 1 or y = 2"),
    (LINE, "always y = x (3) or y = -x (1)", "always y = x (0.75) or y = -x (0.25)"),
    (LINE, "always y = 1 within 0.5 (2) or y = 2 (2)", "always y = 1 within 0.5 or y = 2 within 0.5"),
    (LINE, "always 2 = y", "always y = 2"),
    (LINE, "always 2 * y = x + 1", "always y = (x + 1) / 2"),
    (
        LINE,
        "always y ~ Normal(2, .3) (0.7) or Normal(3, .3) (0.3)",
        "always y ~ Normal(2, 0.3) (0.7) or y ~ Normal(3, 0.3) (0.3)",
    ),
    (
        LINE,
        "if not (x > 1 or (x < 0 and x > -1)) then (y > 1 and y < 2) or y > 3",
        "if not (x > 1 or x < 0 and x > -1) then y > 1 and y < 2 or y > 3",
    ),
    (
        LINE,
        "if min(x, 1, 2) > Max(x, 0) then y > exp(log(sqrt(abs(tan(sin(x))))))",
        "if min(x, 1, 2) > max(x, 0) then y > exp(log(sqrt(abs(tan(sin(x))))))",
    ),
    (COLOURS, "always label != 'red'", "always label in {blue, green}"),
    (COLOURS, 'always y = "red"', "always label = 'red'"),
    (COLOURS, "always green = label", "always label = green"),
    (COLOURS, "always label = green or label = blue", "always label in {blue, green}"),
    (COLOURS, "always P(not label = green) <= 10%", "always P(label in {blue, 'red'}) <= 0.1"),
    (
        COLOURS,
        "always 0.2 <= P(label in {green, blue}) <= 0.4",
        "always 0.2 <= P(label in {blue, green}) <= 0.4",
    ),
    (COLOURS, "always P(label = green) = 0.3 within 0.1", "always 0.2 <= P(label = green) <= 0.4"),
    (
        COLOURS,
        "always label ~ Categorical(green: 0.5, 'red': 0.3)",
        "always label ~ Categorical(blue: 0.2, green: 0.5, 'red': 0.3)",
    ),
    (COLOURS, "if ward = 'long stay' then label = green", None),
    (
        COLOURS,
        "if ward not in {ICU, surgery} then label = green",
        "if not ward in {ICU, surgery} then label = green",
    ),
    (COLOURS, "if `odd ``name``` > 2 then label = green", None),
    (
        COLOURS,
        "if smoker = true and visits in {1, 2} then label = green",
        "if smoker = 1 and visits in {1, 2} then label = green",
    ),
    (CLINIC, "always action = '1'", "always action = 1"),
    (CLINIC, "always action = True", "always action = 1"),
    (
        HIRING,
        "always hired ~ bernoulli(1 / (1 + exp(-skill)))",
        "always hired ~ Bernoulli(1 / (1 + exp(-skill)))",
    ),
    (HIRING, "always hired ~ Categorical(0: skill)", "always hired ~ Categorical(0: skill, 1: 1 - skill)"),
    (HIRING, "always p(hired = 1) + 0.1 >= skill", "always P(hired = 1) + 0.1 >= skill"),
]


@pytest.mark.parametrize(("schema", "rule", "canonical"), EXAMPLES + MORE)
def test_a_rule_prints_as_canonical_text_that_parses_to_the_same_constraint(schema, rule, canonical):
    constraint = parse_rule(rule, schema)
    printed = constraint.text(schema)
    assert printed == (canonical or rule)
    assert parse_rule(printed, schema) == constraint
    assert parse_rule(printed, schema).text(schema) == printed


def test_conditions_are_trees_of_comparisons_and_memberships():
    x1, x2 = ColumnRef("x1"), ColumnRef("x2")
    chain = Comparison((Number(1.0), x1, Number(3.0)), ("<", "<"))
    assert condition("1 < x1 < 3") == chain
    assert condition("1 < x1 < 3 and (x2 > 1 and x1 + x2 > 0)") == And(
        (
            chain,
            Comparison((x2, Number(1.0)), (">",)),
            Comparison((Arithmetic("+", x1, x2), Number(0.0)), (">",)),
        )
    )
    assert condition("not x1 > 1 or 1 < x1 < 3") == Or((Not(Comparison((x1, Number(1.0)), (">",))), chain))
    assert condition("ward = ICU") == Membership("ward", ("ICU",))
    assert condition("ward in {surgery, 'ICU', ICU}") == Membership("ward", ("ICU", "surgery"))
    assert condition("ward != ICU") == Not(Membership("ward", ("ICU",)))
    assert condition("smoker = False") == Comparison((ColumnRef("smoker"), Number(0.0)), ("=",))
    assert parse_rule("always label = green", COLOURS).condition == Always()


def test_signs_and_powers_bind_as_in_mathematics():
    two = Number(2.0)
    assert condition("-x^2 > 2", LINE, "y > 0").terms[0] == Negate(Arithmetic("^", x, two))
    assert condition("2^x^2 > 2", LINE, "y > 0").terms[0] == Arithmetic("^", two, Arithmetic("^", x, two))
    assert condition("-2 * x > 2", LINE, "y > 0").terms[0] == Arithmetic("*", Number(-2.0), x)
    assert condition("x - 2 - x > 2", LINE, "y > 0").terms[0] == Arithmetic("-", Arithmetic("-", x, two), x)
    assert condition("+x > --2", LINE, "y > 0") == Comparison((x, two), (">",))


def test_regions_come_from_the_condition():
    assert isinstance(parse_rule("if 0 < x < 1 then y > 0", LINE).region, Box)
    assert isinstance(parse_rule("if x1 + x2 < 1 then label = green", COLOURS).region, HalfSpaces)
    assert isinstance(parse_rule("always y > 0", LINE).region, Everywhere)


def test_requirements_are_of_the_kind_that_fits_what_is_said():
    assert requirement("y > 2") == Bounds(Comparison((y, Number(2.0)), (">",)))
    assert requirement("y = 2") == Values(((Number(2.0), 1.0),), None)
    assert requirement("y = 2 (1) or y = x (3) within 0.5") == Values(((Number(2.0), 0.25), (x, 0.75)), 0.5)
    assert requirement("y ~ Normal(x, 2)") == NormalDistribution(((1.0, x, Number(2.0)),))
    assert requirement("label != green", COLOURS) == Classes(("blue", "red"))
    assert requirement("not (label = green or label = blue)", COLOURS) == Classes(("red",))
    skill = ColumnRef("skill")
    assert requirement("skill = P(hired = 1)", HIRING) == ProbabilityTarget((1,), skill)
    assert requirement("hired ~ Bernoulli(skill)", HIRING) == ClassProbabilities(
        (Arithmetic("-", Number(1.0), skill), skill), (0, 1)
    )
    bound = Comparison((Probability((1,)), Number(0.6)), (">=",))
    assert requirement("P(hired = 1) >= 60%", HIRING) == ProbabilityBounds((1,), bound)


def test_the_target_is_also_called_y_unless_a_column_is():
    assert parse_rule("always y = 1", CLINIC) == parse_rule("always action = 1", CLINIC)
    schema = Schema((number("y"),), Target("z", "regression"))
    assert requirement("z > y", schema) == Bounds(Comparison((y, ColumnRef("y")), (">",)))
    assert condition("y > 1", schema, "z > 0") == Comparison((ColumnRef("y"), Number(1.0)), (">",))


@pytest.mark.parametrize(
    ("classes", "written", "label"),
    [
        ((0, 1), "1", 1),
        ((0, 1), "1.0", 1),
        ((-1, 1), "-1", -1),
        ((-1, 1), "'-1'", -1),
        ((0, 1), "false", 0),
        ((False, True), "True", True),
        ((False, True), "true", True),
        ((False, True), "1", True),
        ((False, True), "'True'", True),
        (("0", "1"), "1", "1"),
        (("0", "1"), "'1'", "1"),
        (("no", "yes"), "yes", "yes"),
        (("no", "yes"), '"yes"', "yes"),
        (("False", "True"), "True", "True"),
        ((0.5, 1.5), ".5", 0.5),
        (("y", "n"), "'y'", "y"),
        (("x", "n"), "'x'", "x"),
        (("in", "not"), "'not'", "not"),
        (("it's", 'say "a\\b"'), r"'it\'s'", "it's"),
        (("it's", 'say "a\\b"'), r"""'say "a\\b"'""", 'say "a\\b"'),
        (("a#b", "c"), "'a#b'", "a#b"),
        (("größer", "c"), "größer", "größer"),
        (("", "c"), "''", ""),
    ],
)
def test_labels_are_found_however_they_are_written(classes, written, label):
    schema = Schema((number("x"),), Target("action", "classification", classes=classes))
    constraint = parse_rule(f"always action = {written}", schema)
    assert constraint.requirement == Classes((label,))
    assert parse_rule(constraint.text(schema), schema) == constraint


@pytest.mark.parametrize(
    "name", ["größe.cm", "P", "log", "pi", "then", "a b", "`", "x + y", "1st", "True", "#", "年齢"]
)
def test_any_column_name_can_be_written_and_read_back(name):
    schema = Schema((number(name), number("other")), Target("always", "regression"))
    bracketed = name.replace("`", "``")
    constraint = parse_rule(f"if `{bracketed}` > 1 then `always` > `{bracketed}` * other", schema)
    assert constraint.condition == Comparison((ColumnRef(name), Number(1.0)), (">",))
    assert parse_rule(constraint.text(schema), schema) == constraint


def test_a_column_called_pi_is_a_column():
    schema = Schema((number("pi"),), Target("y", "regression"))
    assert condition("pi > 1", schema, "y > 0") == Comparison((ColumnRef("pi"), Number(1.0)), (">",))


def test_numeric_levels_are_levels():
    ward = Column("ward", "category", (0.0, 1.0), levels=(1, 2))
    schema = Schema((ward,), Target("y", "regression"))
    assert condition("ward = 2", schema, "y > 0") == Membership("ward", (2,))
    assert condition("2 != ward", schema, "y > 0") == Not(Membership("ward", (2,)))


def test_functions_are_found_whatever_their_case():
    assert condition("SIN(x) > 0", LINE, "y > 0").terms[0] == Call("sin", (x,))
