import doctest
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ocbnn
from lint_cases import CLINIC, COLOURS, LINE, linted, rules_of
from ocbnn.linting import lint, worst_severity
from ocbnn.regions import Box, Interval
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.kinds.classes import Classes
from ocbnn.schema import Column, Schema, Target


def test_no_rules_have_no_findings():
    assert lint((), LINE) == ()
    assert worst_severity(lint((), LINE)) is None


def test_the_public_function_is_this_one():
    assert ocbnn.lint is lint


def test_a_sound_set_of_rules_on_a_mixed_table_has_no_findings():
    assert (
        linted(
            "if creatinine > 2 and urine < 30 then action = 1",
            "if lactate < 1 and creatinine < 1 and urine > 100 and ventilated = 0 then action = 0",
            "if lactate > 4 and ward = ICU then P(action = 1) >= 0.95",
            "if age < 35 and visits > 3 and sex = female and lactate < 3 then P(action = 1) <= 0.6",
            "if age + 2 * visits > 100 and ventilated = 1 and ward in {medicine, surgery} then action = 1",
            schema=CLINIC,
        )
        == ()
    )


def test_each_kind_is_found_in_one_set_on_a_mixed_table():
    rng = np.random.default_rng(0)
    rows = 60
    data = pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "lactate": rng.uniform(0.5, 8, rows),
            "creatinine": rng.uniform(0.4, 4, rows),
            "urine": rng.uniform(0, 200, rows),
            "visits": rng.integers(0, 12, rows),
            "ventilated": rng.integers(0, 2, rows),
            "ward": rng.choice(["ICU", "medicine", "surgery"], rows),
            "sex": rng.choice(["female", "male"], rows),
            "action": 0,
        }
    )
    texts = (
        "if creatinine > 2 and urine < 30 then action = 1",
        "if creatinine > 3 and urine < 20 and ward = ICU then action = 1",
        "if urine < 10 and sex = male then action = 0",
        "if lactate > 5 and lactate < 4 then action = 1",
        "if age > 150 then action = 1",
        "if lactate > 20 then action = 1",
        "if visits > 3 then P(action = 1) >= 0.5 and P(action = 1) <= 0.4",
    )
    found = linted(*texts, schema=CLINIC, data=data)
    by_kind = {kind: [f for f in found if f.kind == kind] for kind in {f.kind for f in found}}
    assert by_kind["empty-region"][0].rules == (texts[3],)
    assert by_kind["out-of-bounds"][0].rules == (texts[4],)
    assert by_kind["unobserved"][0].rules == (texts[5],)
    assert by_kind["empty-output"][0].rules == (texts[6],)
    assert [f.rules for f in by_kind["implied"]] == [(texts[1], texts[0])]
    assert {f.rules for f in by_kind["contradiction"]} == {(texts[0], texts[2]), (texts[1], texts[2])} | {
        (texts[2], texts[5])
    }
    assert texts[0] in {f.rules[0] for f in by_kind["data-conflict"]}
    assert worst_severity(found) == "error"
    order = ["error", "warning", "info"]
    assert [f.severity for f in found] == sorted((f.severity for f in found), key=order.index)


def test_the_same_rules_give_the_same_findings():
    texts = (
        "if sin(x) > 0.5 then y >= x * z",
        "if x * z > 1 then y <= 0",
        "always x * y >= 0",
        "if x > 3 then y > 1",
    )
    assert linted(*texts) == linted(*texts)


def test_a_schema_without_a_target_lints_regions_and_intervals():
    rules = rules_of(("if x > 3 and x < 2 then y > 0", "if x > 0 then y >= 1", "if x > 1 then y <= 0"), LINE)
    bare = Schema(LINE.columns)
    assert [finding.kind for finding in lint(rules, bare)] == ["empty-region", "contradiction"]
    (finding,) = lint(rules_of(("if x > 0 then y = 1",), LINE), bare)
    assert (finding.kind, finding.severity) == ("empty-output", "error")
    assert "The schema has no target" in finding.text


def test_one_class_alone_is_no_obstacle():
    schema = Schema(COLOURS.columns, Target("label", "classification", classes=("red",)))
    rule = Constraint(Box({"x": Interval(0, 1)}), Classes(("red",)))
    frame = pd.DataFrame({"x": [0.5], "z": [0.0], "label": ["red"]})
    assert lint([rule], schema, frame) == ()


def test_unions_and_negations_are_taken_apart():
    texts = ("if not (x > 1 or z > 1) then y >= 1", "if x < 0 or x > 2 then y <= 0")
    (finding,) = linted(*texts)
    assert finding.kind == "contradiction"
    assert finding.witness["x"] < 0
    assert linted("if not (x > 1 or z > 1) then y >= 1", "if x > 1 and z < 0 or x > 2 then y <= 0") == ()


@pytest.mark.slow
def test_two_hundred_rules_on_twenty_columns_take_seconds():
    rng = np.random.default_rng(1)
    columns = [Column(f"c{i}", "continuous", (-3.0, 3.0)) for i in range(14)]
    columns += [Column(f"k{i}", "integer", (0.0, 50.0)) for i in range(3)]
    columns += [Column(f"g{i}", "category", (0.0, 3.0), levels=tuple("abcd")) for i in range(3)]
    schema = Schema(tuple(columns), Target("y", "regression", observed=(-3.0, 3.0)))

    def random_rule():
        one, other, third = rng.choice(14, size=3, replace=False)
        where = (
            f"c{one} > {rng.normal():.3f} and k{rng.integers(3)} > {rng.integers(40)} and g0 in {{a, b}}",
            f"c{one} + {rng.normal():.3f} * c{other} > {rng.normal():.3f} and g{rng.integers(3)} = c",
        )[rng.integers(2)]
        low, high = rng.normal(-4, 1), rng.normal(4, 1)
        what = (f"{low:.3f} <= y <= {high:.3f}", f"y >= {low:.3f} + 0.01 * c{third}")[rng.integers(2)]
        return f"if {where} then {what}"

    rules = rules_of(tuple(dict.fromkeys(random_rule() for _ in range(200))), schema)
    findings = lint(rules, schema)
    assert len(rules) == 200
    assert all(finding.rules for finding in findings)


def test_the_example_of_the_documentation_runs():
    page = Path(__file__).parents[2] / "docs" / "lint.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
