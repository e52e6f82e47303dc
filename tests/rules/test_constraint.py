"""Constraints: what they carry, and those made from Python functions."""

from __future__ import annotations

import numpy as np
import pytest

from language_schemas import COLOURS, HIRING, LINE, coded
from ocbnn.errors import RuleError
from ocbnn.regions import Everywhere
from ocbnn.rules import Constraint, parse_rule
from ocbnn.rules.kinds.functions import Functions
from ocbnn.schema import Column, Schema

GROUPS = Schema((Column("sex", "category", (0.0, 1.0), levels=("f", "m")),), HIRING.target)


def above(x, y):
    return x["x"] - y


def test_a_rule_carries_name_source_reason_and_tolerance():
    rule = parse_rule(
        "always y > 0", LINE, name="positive", source="KDIGO 2012, section 3", reason="a mass", tolerance=0
    )
    assert (rule.name, rule.source, rule.reason) == ("positive", "KDIGO 2012, section 3", "a mass")
    assert rule.tolerance == rule.effective_tolerance == 0.0


@pytest.mark.parametrize(
    ("text", "schema", "tolerance"),
    [
        ("always y > 0", LINE, 0.01),
        ("always y = 2", LINE, 0.01),
        ("always label = green", COLOURS, 0.01),
        ("always P(hired = 1) >= 0.9", HIRING, 0.01),
        ("always P(hired = 1) = skill", HIRING, 0.05),
        ("always hired ~ Bernoulli(0.5)", HIRING, 0.05),
        ("always y ~ Normal(0, 1)", LINE, 0.05),
    ],
)
def test_the_tolerance_unless_said_is_larger_for_probabilistic_rules(text, schema, tolerance):
    rule = parse_rule(text, schema)
    assert rule.effective_tolerance == tolerance
    assert rule.is_predictive is (tolerance == 0.05)


@pytest.mark.parametrize("tolerance", [-0.01, 1, 1.5, float("nan"), float("inf"), "0.1", True])
def test_a_tolerance_outside_zero_to_one_is_refused(tolerance):
    with pytest.raises(RuleError, match="tolerance") as caught:
        parse_rule("always y > 0", LINE, tolerance=tolerance, line=7)
    assert caught.value.line == 7


@pytest.mark.parametrize("field", ["name", "source", "reason"])
@pytest.mark.parametrize("value", ["", "  ", 3, "half a pair \ud800", "\udc9f\ud83d"])
def test_names_sources_and_reasons_are_text(field, value):
    with pytest.raises(RuleError, match=f"{field} is text") as caught:
        parse_rule("always y > 0", LINE, **{field: value})
    str(caught.value).encode()


def test_constraints_are_compared_by_what_they_say():
    assert parse_rule("if x>1 then y>2", LINE) == parse_rule("IF x > 1.0 THEN y > 2.0  # the same", LINE)
    assert parse_rule("if x>1 then y>2", LINE) != parse_rule("if x>1 then y>=2", LINE)
    assert hash(parse_rule("if x>1 then y>2", LINE)) == hash(parse_rule("if (x>1) then (y>2)", LINE))


def test_functions_from_python_take_one_or_several():
    one = Constraint.from_functions(Everywhere(), above, name="above", tolerance=0.02)
    assert one.requirement == Functions((above,), negative=False)
    assert (one.name, one.effective_tolerance) == ("above", 0.02)
    several = Constraint.from_functions(Everywhere(), [above, np.subtract], negative=True)
    assert several.requirement == Functions((above, np.subtract), negative=True)
    assert one.text(LINE).endswith("above(x, y) <= 0")
    assert "not (above(x, y) <= 0 and subtract(x, y) <= 0)" in several.text(LINE)


@pytest.mark.parametrize("inequalities", [[], "y < 2", [above, 3]])
def test_what_is_no_function_is_refused(inequalities):
    with pytest.raises(RuleError, match=r"functions g\(x, y\)"):
        Constraint.from_functions(Everywhere(), inequalities)


def test_functions_about_classes_see_one_more_axis():
    rule = Constraint.from_functions(Everywhere(), lambda x, p: p[..., 1] - x["skill"])
    demand = rule.demand(coded(HIRING, skill=[0.2, 0.9]), HIRING)
    assert demand.scale.shape == demand.center.shape == (2, 1)


@pytest.mark.parametrize("holds", ["on average", "everywhere", "over rows", "proved"])
def test_a_rule_says_where_its_tolerance_holds(holds):
    assert parse_rule("always y > 0", LINE).holds == "on average"
    rule = parse_rule("always y > 0", LINE, holds=holds)
    assert rule.is_strict is (holds != "on average")
    assert rule.is_everywhere is (holds in ("everywhere", "over rows"))
    assert rule.is_over_rows is (holds == "over rows")
    assert Constraint.from_functions(Everywhere(), above, holds=holds).holds == holds


def test_only_these_words_are_known():
    with pytest.raises(RuleError, match="`everywhere`, `over rows` or `proved`; got 'always'"):
        parse_rule("always y > 0", LINE, holds="always")


@pytest.mark.parametrize(
    ("text", "schema"),
    [("always y ~ Normal(0, 1)", LINE), ("always mean P(hired = 1) is equal over sex within 0.02", GROUPS)],
)
def test_what_draws_or_rows_satisfy_together_has_no_worst_input(text, schema):
    with pytest.raises(RuleError, match="can hold everywhere"):
        parse_rule(text, schema, holds="everywhere")
