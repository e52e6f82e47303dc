import numpy as np
import pandas as pd
import pytest

from lint_cases import CLINIC, COLOURS, LINE, applies, kinds, linted, row_of, rules_of
from ocbnn.linting import lint
from ocbnn.regions import Box, Everywhere, Interval
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Column, Schema


@pytest.mark.parametrize(
    "condition",
    ["x > 3 and x < 2", "x < 2 and x > 2", "x + z < 2 and x + z > 2", "x < 0 and x > 0 or z < 1 and z > 2"],
)
def test_a_region_without_inputs_is_an_error(condition):
    (finding,) = linted(f"if {condition} then y > 0")
    assert (finding.kind, finding.severity, finding.witness) == ("empty-region", "error", None)
    assert "applies nowhere" in finding.text


@pytest.mark.parametrize("condition", ["x <= 2 and x >= 2", "x > 2 and x < 2.001", "x = 1", "x + z = 2"])
def test_a_region_with_inputs_is_no_finding(condition):
    assert linted(f"if {condition} then y > 0") == ()


def test_gaps_between_whole_numbers_and_between_labels_are_empty_regions():
    for condition in ("2 < age < 3", "ward = ICU and ward = surgery", "ventilated > 1"):
        assert kinds(f"if {condition} then action = 1", schema=CLINIC) == [("empty-region", "error")]
    assert "age: whole numbers only" in linted("if 2 < age < 3 then action = 1", schema=CLINIC)[0].text
    for condition in ("2 < age < 4", "ward = ICU or ward = surgery", "ventilated > 0"):
        assert all(
            kind != "empty-region" for kind, _ in kinds(f"if {condition} then action = 1", schema=CLINIC)
        )


def test_an_alternative_without_inputs_is_a_warning_that_shows_it():
    (finding,) = linted("if x > 3 and x < 2 or z > 0 then y > 0")
    assert (finding.kind, finding.severity) == ("empty-region", "warning")
    assert "x > 3 and x < 2" in finding.text


def test_a_predicate_region_is_searched_and_the_finding_says_so():
    (finding,) = linted("if sin(x) > 2 then y > 0")
    assert (finding.kind, finding.severity) == ("empty-region", "warning")
    assert "not a proof" in finding.text
    assert linted("if sin(x) > 0.9 then y > 0") == ()


def test_a_predicate_region_whose_bounds_exclude_each_other_is_an_error():
    assert kinds("if sin(x) > 0 and z < 0 and z > 1 then y > 0") == [("empty-region", "error")]


def test_a_region_beyond_declared_bounds_is_an_error():
    (finding,) = linted("if age > 130 then action = 1", schema=CLINIC)
    assert (finding.kind, finding.severity) == ("out-of-bounds", "error")
    assert "age is declared to lie in [0, 120]" in finding.text
    assert kinds("if age + visits < -3 then action = 1", schema=CLINIC) == [("out-of-bounds", "error")]
    assert kinds("if lactate < 0 then action = 1", schema=CLINIC) == [("out-of-bounds", "error")]
    assert kinds("if lactate <= 0 then action = 1", schema=CLINIC) == [("unobserved", "warning")]


def test_a_region_partly_beyond_declared_bounds_is_a_warning():
    assert kinds("if 60 < age < 130 then action = 1", schema=CLINIC) == [("out-of-bounds", "warning")]
    (finding,) = linted("if age > 60 or age > 130 then action = 1", schema=CLINIC)
    assert (finding.kind, finding.severity) == ("out-of-bounds", "warning")
    assert "age > 130" in finding.text
    assert linted("if age > 60 then action = 1", schema=CLINIC) == ()
    assert linted("if 60 < age <= 120 then action = 1", schema=CLINIC) == ()


def test_a_region_beyond_what_was_observed_is_a_warning_with_an_input_inside():
    text = "if lactate > 9 and creatinine < 3 then action = 1"
    (finding,) = linted(text, schema=CLINIC)
    assert (finding.kind, finding.severity) == ("unobserved", "warning")
    assert "lactate was observed from 0.5 to 8" in finding.text
    assert applies(finding, (text,), CLINIC)
    assert linted("if lactate > 7.9 then action = 1", schema=CLINIC) == ()


def test_half_spaces_beyond_the_observed_ranges_are_seen_jointly():
    assert kinds("if x + z > 6.5 then y > 0") == [("unobserved", "warning")]
    assert linted("if x + z > 5.5 then y > 0") == ()


def test_rows_beyond_the_quantiles_are_counted_in_an_unobserved_region():
    frame = pd.DataFrame({"x": [0.0, 1.0, 5.0], "z": 0.0, "y": [1.0, 1.0, 2.0]}, index=["a", "b", "c"])
    (finding,) = linted("if x > 4 then y > 0", data=frame)
    assert (finding.kind, finding.count, finding.rows) == ("unobserved", 1, ("c",))


@pytest.mark.parametrize(
    "output",
    ["y > 2 and y < 1", "y < 1 and y > 1", "y >= x + 3 and y <= x", "2 < y < 1", "not (y < 1 or y > 0)"],
)
def test_a_rule_that_allows_nothing_is_an_error_with_an_input(output):
    text = f"if x > 0 then {output}"
    (finding,) = linted(text)
    assert (finding.kind, finding.severity) == ("empty-output", "error")
    assert applies(finding, (text,), LINE)


def test_a_rule_that_allows_nothing_only_somewhere_is_found_there():
    text = "if 0 <= x <= 1 then y >= x and y <= 0.999"
    (finding,) = linted(text)
    assert finding.kind == "empty-output"
    assert finding.witness["x"] > 0.999
    assert linted("if 0 <= x <= 1 then y >= x and y <= 1") == ()
    assert linted("if 0 <= x <= 1 then y >= 1 and y <= 1") == ()


def test_a_curved_rule_that_allows_nothing_somewhere_is_found_by_trying_points():
    (finding,) = linted("if 0 <= x <= 3 then y >= sin(x) and y <= 0.5")
    assert finding.kind == "empty-output"
    assert np.sin(finding.witness["x"]) > 0.5
    assert linted("if 0 <= x <= 3 then y >= sin(x) and y <= 1.5") == ()


def test_an_output_that_is_not_defined_in_the_region_is_an_error():
    (finding,) = linted("if x > 0 then y = log(x - 1) within 0.1")
    assert (finding.kind, finding.severity) == ("empty-output", "error")
    assert finding.witness["x"] <= 1
    assert "not defined" in finding.text
    assert linted("if x > 1.1 then y = log(x - 1) within 0.1") == ()


def test_a_probability_that_no_class_can_have_is_an_empty_output():
    text = "if x > 0 then P(label = red) >= 1 + x"
    (finding,) = linted(text, schema=COLOURS)
    assert (finding.kind, finding.severity) == ("empty-output", "error")
    assert applies(finding, (text,), COLOURS)
    assert linted("if 0 <= x <= 1 then P(label = red) >= x", schema=COLOURS) == ()


@pytest.mark.parametrize(
    "output",
    [
        "label ~ Categorical(red: x ^ 2 / 9, blue: x / 9)",
        "P(label = red) = x ^ 2 / 9",
        "P(label != red) = x ^ 2 / 9",
    ],
)
def test_probabilities_that_are_to_be_met_exactly_can_be(output):
    rule = parse_rule(f"if x > 0 then {output}", COLOURS, tolerance=0)
    assert lint([rule], COLOURS) == ()


def test_functions_from_python_that_allow_nothing_are_a_warning_that_says_it_was_a_search():
    region = Box({"x": Interval(0, 1)})
    nothing = Constraint.from_functions(region, lambda x, y: y**2 + 1, name="nothing")
    narrow = Constraint.from_functions(region, lambda x, y: abs(y - 1234.5 * x["x"]) - 1e-3, name="narrow")
    (finding,) = lint([nothing], LINE)
    assert (finding.kind, finding.severity, finding.rules) == ("empty-output", "warning", ("nothing",))
    assert "not a proof" in finding.text
    assert lint([narrow], LINE) == ()


def test_names_stand_for_rules_that_have_them():
    (rule,) = rules_of(("if x > 3 and x < 2 then y > 0",), LINE)
    named = Constraint(rule.region, rule.requirement, rule.condition, name="impossible")
    assert lint([named], LINE)[0].rules == ("impossible",)
    assert lint([rule], LINE)[0].rules == ("if x > 3 and x < 2 then y > 0",)


def test_a_column_without_a_spread_is_no_obstacle():
    schema = Schema((Column("x", "continuous", (2.0, 2.0)),), LINE.target)
    assert kinds("if x > 5 then y > 0", schema=schema) == [("unobserved", "warning")]
    assert linted("if x > 1 then y > 0", schema=schema) == ()
    everywhere = Constraint(Everywhere(), rules_of(("always y > 0",), schema)[0].requirement)
    assert lint([everywhere], schema) == ()
    assert row_of({"x": 2.0}, schema).tolist() == [[2.0]]


def test_conditions_that_no_stored_number_meets_or_no_solver_reaches_are_warnings():
    for condition in ("0 < x < 5e-324", "x + z > 1e300"):
        (finding,) = linted(f"if {condition} then y > 0")
        assert (finding.kind, finding.severity) == ("empty-region", "warning")
        assert "stores" in finding.text
