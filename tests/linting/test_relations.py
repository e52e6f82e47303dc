"""Rules that compare outputs at several inputs: what lint says of them, and of them beside others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from language_schemas import DOSES, number
from ocbnn import lint
from ocbnn.rules import parse_rule
from ocbnn.schema import Schema, Target

CLASSES = replace(DOSES, target=Target("label", "classification", classes=("no", "yes")))


def found(*rules, schema=DOSES):
    return [(each.kind, each.severity) for each in lint([parse_rule(rule, schema) for rule in rules], schema)]


CONTRADICTIONS = [
    ("always y with drug = a >= y with drug = b + 3", "always y with drug = b >= y with drug = a"),
    ("always y with dose = 1 >= y with dose = 5 + 9", "always y increases with dose"),
    ("always y with dose = 9 >= y with dose = 1 + 99", "always y changes by at most 2 per dose"),
    ("always y increases with dose", "if dose < 2 then y >= 5", "if dose > 8 then y <= 3"),
    ("always y increases with dose", "always y = -2 * dose within 1"),
    ("if age > 50 then y changes by at most 1 per dose", "if dose < 2 then y < 0", "if dose > 3 then y > 50"),
]


@pytest.mark.parametrize("rules", CONTRADICTIONS)
def test_rules_that_no_function_obeys_contradict_each_other(rules):
    assert ("contradiction", "error") in found(*rules)


NO_CONTRADICTION = [
    ("always y with drug = a >= y with drug = b + 3", "always y with drug = a >= y with drug = b"),
    ("always y with dose = 5 >= y with dose = 1 + 9", "always y increases with dose"),
    ("always y increases with dose", "if dose < 2 then y >= 5", "if dose > 8 then y <= 30"),
    ("always y increases with dose", "if dose < 2 then y <= 5", "if dose > 8 then y >= 3"),
    ("if age > 50 then y increases with dose", "if age < 40 then y decreases with dose"),
    ("always y increases with dose", "always y decreases with age"),
    (
        "if age > 50 then y increases with dose",
        "if age < 40 and dose < 2 then y > 5",
        "if dose > 8 then y < 3",
    ),
    ("always y increases with dose and y does not depend on drug", "if dose > 3 then y > 1"),
]


@pytest.mark.parametrize("rules", NO_CONTRADICTION)
def test_rules_that_go_together_are_left_alone(rules):
    assert found(*rules) == []


def test_rules_about_probabilities_contradict_each_other():
    rules = ("if dose < 3 then P(label = yes) >= 0.8", "if dose > 6 then P(label = yes) <= 0.3")
    assert found("always P(label = yes) increases with dose", *rules, schema=CLASSES) == [
        ("contradiction", "error")
    ]
    assert found("always P(label = yes) decreases with dose", *rules, schema=CLASSES) == []
    assert found("always P(label = no) increases with dose", *rules, schema=CLASSES) == []


def test_opposite_trends_leave_what_is_flat():
    (finding,) = lint(
        [parse_rule(f"always y {verb} with dose", DOSES) for verb in ("increases", "decreases")], DOSES
    )
    assert (finding.kind, finding.severity) == ("contradiction", "warning")
    assert "does not change with dose" in finding.text


def test_an_invariance_beside_a_rule_about_its_column():
    assert found("always y does not depend on drug", "if drug = a then y > 2") == [
        ("contradiction", "warning")
    ]
    assert found("always y does not depend on dose", "always y >= dose / 9") == [("contradiction", "warning")]
    assert found("always y does not depend on drug", "if age > 3 then y > 2") == []


def test_a_rule_that_compares_nothing():
    assert found("if dose = 3 then y increases with dose") == [("empty-output", "error")]
    assert found("if drug = a then y does not depend on drug") == [("empty-output", "error")]


def test_rows_that_contradict_each_other_are_counted_and_the_first_ten_named():
    schema = Schema((number("x"), number("z")), Target("y", "regression"))
    frame = pd.DataFrame({"x": np.tile([0.0, 1.0], 12), "z": np.repeat(np.arange(12.0), 2)})
    frame["y"] = -frame["x"]
    (finding,) = lint([parse_rule("always y increases with x", schema)], schema, frame)
    assert (finding.kind, finding.severity, finding.count) == ("data-conflict", "info", 12)
    assert finding.rows[:2] == ("0 and 1", "2 and 3")
    assert len(finding.rows) == 10
    assert lint([parse_rule("always y decreases with x", schema)], schema, frame) == ()


def test_groups_that_are_too_small_are_named():
    schema = Schema((number("x"), DOSES.column("drug")), Target("y", "regression"))
    frame = pd.DataFrame({"x": np.zeros(60), "drug": ["a"] * 40 + ["b"] * 20, "y": np.zeros(60)})
    rules = [parse_rule("always mean y is equal over drug within 1", schema)]
    (finding,) = lint(rules, schema, frame)
    assert (finding.kind, finding.severity, finding.count) == ("unobserved", "warning", 20)
    assert "b (20)" in finding.text
    (finding,) = lint(rules, schema, frame[:40])
    assert (finding.kind, finding.severity) == ("empty-output", "error")
    assert lint(rules, schema) == ()
