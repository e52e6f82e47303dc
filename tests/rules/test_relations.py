"""Relations in words: what they mean, canonical text, and words that are keywords in their place only."""

from __future__ import annotations

import pytest

from language_schemas import COLOURS, DOSES
from ocbnn.rules import parse_rule
from ocbnn.rules.kinds.contrast import Contrast
from ocbnn.rules.kinds.invariance import Invariance
from ocbnn.rules.kinds.parity import Parity
from ocbnn.rules.kinds.shape import Shape
from ocbnn.rules.kinds.slope import Limit, Trend
from ocbnn.rules.kinds.together import Together

UP = Trend((), "dose", True)
MEANINGS = [
    (DOSES, "always y increases with dose", UP),
    (DOSES, "always pressure RISES  with dose", UP),
    (DOSES, "always y grows with `dose`", UP),
    (DOSES, "always y decreases with visits", Trend((), "visits", False)),
    (DOSES, "always y falls with smoker", Trend((), "smoker", False)),
    (DOSES, "always y changes by at most 2 per dose", Limit((), "dose", 2.0)),
    (DOSES, "always y changes by at most 2 mmHg per 10 mg dose", Limit((), "dose", 2.0, 10.0)),
    (DOSES, "always y changes by at most 1 + 1 per 10 mmol/L lactate", Limit((), "lactate", 2.0, 10.0)),
    (DOSES, "always y does not depend on drug", Invariance((), "drug", 3)),
    (DOSES, "always y does not depend on smoker", Invariance((), "smoker", 2)),
    (DOSES, "always y does not depend on age by more than 0.5", Invariance((), "age", 0, 0.5)),
    (DOSES, "always y with drug = a >= y with drug = b", Contrast((), "drug", "a", "b", ">=")),
    (
        DOSES,
        "always y with drug = a is below y with drug = b - 3",
        Contrast((), "drug", "a", "b", "<=", -3.0),
    ),
    (DOSES, "always y with dose = 8 mg > y with dose = 2 + 3", Contrast((), "dose", 8.0, 2.0, ">=", 3.0)),
    (
        DOSES,
        "always y with age = -1 = y with age = 1 within 2",
        Contrast((), "age", -1.0, 1.0, "=", 0.0, 2.0),
    ),
    (DOSES, "always y with smoker = True > y with smoker = 0", Contrast((), "smoker", 1.0, 0.0, ">=")),
    (
        DOSES,
        "always y increases with dose and y does not depend on smoker",
        Together((UP, Invariance((), "smoker", 2))),
    ),
    (
        DOSES,
        "always y rises with with and y falls with per",
        Together((Trend((), "with", True), Trend((), "per", False))),
    ),
    (DOSES, "always y changes by at most 2 per per", Limit((), "per", 2.0)),
    (DOSES, "always y changes by at most 2 per 3 per", Limit((), "per", 2.0, 3.0)),
    (DOSES, "always y with with = 1 >= y with with = 0", Contrast((), "with", 1.0, 0.0, ">=")),
    (DOSES, "always y is convex in dose", Shape((), "dose", True)),
    (DOSES, "always y is concave in mean", Shape((), "mean", False)),
    (DOSES, "if mean is above 3 then mean y is equal over drug within 2 mmHg", Parity((), "drug", 2.0)),
    (COLOURS, "always mean P(label = green) is equal over smoker", Parity(("green",), "smoker")),
    (
        COLOURS,
        "always share P(label in {green, blue}) > 50% is equal over ward within 2%",
        Parity(("blue", "green"), "ward", 0.02, 0.5),
    ),
    (
        DOSES,
        "if mean is above 3 then share y is above 90 mmHg is equal over drug",
        Parity((), "drug", None, 90.0),
    ),
    (COLOURS, "always P(label = green) increases with x1", Trend(("green",), "x1", True)),
    (
        COLOURS,
        "always P(label in {red, blue}) falls with x1".replace("red", "'red'"),
        Trend(("blue", "red"), "x1", False),
    ),
    (
        COLOURS,
        "always P(label = green) does not depend on ward by more than 1%",
        Invariance(("green",), "ward", 3, 0.01),
    ),
    (
        COLOURS,
        "always P(label = green) with ward = ICU = P(label = green) with ward = 'long stay' within 5%",
        Contrast(("green",), "ward", "ICU", "long stay", "=", 0.0, 0.05),
    ),
]


@pytest.mark.parametrize(("schema", "rule", "expected"), MEANINGS)
def test_a_relation_means_this_and_its_canonical_text_means_the_same(schema, rule, expected):
    constraint = parse_rule(rule, schema)
    assert constraint.requirement == expected
    assert parse_rule(constraint.text(schema), schema) == constraint


SAME = [
    ("never pressure < 0", "always not pressure < 0"),
    ("if dose between 3 and 4 then y > 1", "if 3 <= dose <= 4 then y > 1"),
    ("if dose is between 3 and 4 mg and age > 3 then y > 1", "if 3 <= dose <= 4 and age > 3 then y > 1"),
    ("always y between 90 mmHg and 120 mmHg", "always 90 <= y <= 120"),
    ("if dose is above 3 mg then y is at least 2", "if dose > 3 then y >= 2"),
    ("if dose is below 3 then y is at most 2", "if dose < 3 then y <= 2"),
    ("if dose at least 3 then y at most 2 mmHg", "if dose >= 3 then y <= 2"),
    ("if lactate > 4 mmol/L then y > 1", "if lactate > 4 then y > 1"),
    ("if humidity > 40% then y > 1", "if humidity > 40 then y > 1"),
    (
        "if mean > 1 and rises > 2 and per < 3 then y > with",
        "if `mean` > 1 and `rises` > 2 and `per` < 3 then y > `with`",
    ),
    ("if mean is above 1 then y > 1", "if mean > 1 then y > 1"),
    ("if mean between per and with then y > 1", "if per <= mean <= with then y > 1"),
]


@pytest.mark.parametrize(("rule", "plain"), SAME)
def test_words_and_signs_say_the_same(rule, plain):
    assert parse_rule(rule, DOSES) == parse_rule(plain, DOSES)
