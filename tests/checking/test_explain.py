"""Why a rule is not met: the rows, the other rule or the network that stands against it."""

from __future__ import annotations

import pandas as pd

from ocbnn.checking.explain import contradicting_rows, unmet_reason
from ocbnn.model import Model
from ocbnn.schema import Schema
from rule_checks import checked, line


def test_rows_that_contradict_a_rule_are_counted() -> None:
    model, rule = line("if 1 <= x <= 3 then y <= 2.5", [9.0, 1.0, 2.0, 3.0])
    assert contradicting_rows(model, rule) == (3, 1, ("x = 3: y = 3",), 0)
    assert contradicting_rows(*line("if x > 5 then y <= 2.5")) == (0, 0, (), 0)


def test_rows_against_a_rule_about_classes_are_named_by_their_labels() -> None:
    frame = pd.DataFrame(
        {"x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "label": ["no", "yes", "no", "no", "no", "no"]}
    )
    model = Model.build(frame=frame, target="label", rules=["if x >= 1 then label = yes"], hidden=())
    found = contradicting_rows(model, model.terms[0])
    assert (found.inside, found.against) == (5, 4)
    assert found.some[:2] == ("x = 2: label = no", "x = 3: label = no")
    assert str(found) == "4 of the 5 rows in its region"


def test_another_rule_without_a_common_output_is_named_with_a_place() -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0.0, 1.0, 2.0, 3.0]})
    rules = ["if 1 <= x <= 3 then y >= 5", "if x >= 2 then y <= 4"]
    model = Model.build(frame=frame, target="y", rules=rules, hidden=(), noise=0.5, standardize=False)
    much = checked(0.4, 0.1, 10.0)
    reason = unmet_reason(model, model.terms[0], much, None, found=True)
    assert "it and 'if x >= 2 then y <= 4' have no output in common where x = " in reason
    where = float(reason.split("where x = ")[1].split(":")[0])
    assert 2 <= where <= 3


def test_reasons_name_the_cause_that_was_shown() -> None:
    much, none = checked(0.4, 0.1, 10.0), checked(0.0, 0.0, 8.0)
    model, rule = line("if 1 <= x <= 3 then y <= 2.5")
    assert "conflicts with 1 of the 3 rows" in unmet_reason(model, rule, much, none, found=True)
    model, rule = line("if 1 <= x <= 3 then y <= 5")
    assert "too small" in unmet_reason(model, rule, much, much, found=True)
    assert "it was given" in unmet_reason(model, rule, much, none, found=False)
    assert "the network can obey it" in unmet_reason(model, rule, much, none, found=True)


def test_no_single_row_contradicts_a_rule_about_probabilities_or_distributions() -> None:
    model, rule = line("if 1 <= x <= 3 then y ~ Normal(9, 0.1)")
    assert contradicting_rows(model, rule) == (3, None, (), 0)
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "label": ["no", "yes", "no", "no"]})
    rules = ["always P(label = yes) >= 0.99", "if x >= 1 then P(label = yes) = 0.99"]
    model = Model.build(frame=frame, target="label", rules=rules, hidden=())
    assert [contradicting_rows(model, rule)[:2] for rule in model.terms] == [(4, None), (3, None)]


def test_rows_without_a_value_that_a_rule_needs_are_counted_apart() -> None:
    frame = pd.DataFrame({"x": [1.0, None, 3.0, None], "z": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 5.0, 5.0, 5.5]})
    schema = Schema.infer(frame, target="y", task="regression", missing="indicator")
    rules = ["if x >= 1 then y <= 1", "if z >= 1 then y <= x", "if z >= 1 then y <= 1"]
    model = Model.build(frame=frame, target="y", schema=schema, rules=rules, hidden=())
    found = [contradicting_rows(model, rule) for rule in model.terms]
    assert [(each.inside, each.against, each.unknown) for each in found] == [(2, 1, 2), (2, 1, 2), (4, 3, 0)]
    assert str(found[0]).endswith("(it does not apply to 2 rows without a value that it needs)")
    assert found[2].some[0] == "x = nan, z = 2: y = 5"
