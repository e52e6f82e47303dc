import itertools

import numpy as np
import pytest

from lint_cases import CLINIC, COLOURS, LINE, linted, rules_of
from ocbnn.linting import lint
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Column, Schema, Target


def redundant(*texts, schema=None):
    findings = linted(*texts, schema=schema) if schema is not None else linted(*texts)
    return [finding.rules for finding in findings if finding.kind == "implied"]


IMPLIED = [
    ("if x > 0 then y >= 1", "if x > 1 then y >= 0.5"),
    ("if x > 0 then y > 1", "if x > 0 then y >= 1"),
    ("if x >= 0 then y >= 1", "if x > 0 then y >= 1"),
    ("if x + z > 0 then 1 <= y <= 2", "if x > 0 and z > 0 then y >= 1"),
    ("always y >= x", "if x > 2 then y >= 2"),
    ("if x > 0 then y >= x + z", "if x > 0 and z > 1 then y >= x"),
    ("if x > 0 then not 0 <= y <= 3", "if x > 0 then not 1 <= y <= 2"),
    ("if x > 0 then not 0 <= y <= 3", "if x > 1 then y < 1 or y > 2"),
    ("if x > 0 or x < -1 then y >= 1", "if x > 2 then y >= 1"),
    ("if x > 0 or x <= 1 then y >= 1", "if -1 < x < 2 then y >= 1"),
    ("if x > 0 then y = 2 within 0.1", "if x > 0 then 1 <= y <= 3"),
    ("if x > 0 then y = 2 within 0.1", "if x > 1 then y = 2 within 0.2"),
]
NOT_IMPLIED = [
    ("if x > 0 then y >= 1", "if x >= 0 then y >= 1"),
    ("if x > 0 then y >= 1", "if x > 0 then y > 1.5 or y < 0.5"),
    ("if x + z > 0 then 1 <= y <= 2", "if x > 0 and z > -0.001 then y >= 1"),
    ("always y >= x", "if x > 2 then y >= 2.001"),
    ("if x > 0 then y >= x + z", "if x > 0 and z > -0.1 then y >= x"),
    ("if x > 0 or x > 2 then y >= 1", "if x > -1 then y >= 1"),
    ("if x > 0 then 1 <= y <= 3", "if x > 0 then y = 2 within 1"),
    ("if x > 0 then y <= 1", "if x > 0 then y >= -1"),
]


@pytest.mark.parametrize(("strong", "weak"), IMPLIED)
def test_a_rule_inside_another_that_allows_no_more_is_redundant(strong, weak):
    assert redundant(strong, weak) == [(weak, strong)]
    assert redundant(weak, strong) == [(weak, strong)]


@pytest.mark.parametrize(("strong", "weak"), NOT_IMPLIED)
def test_a_rule_that_says_something_more_is_not(strong, weak):
    assert (weak, strong) not in redundant(strong, weak)


def test_classes_and_probabilities_imply_each_other():
    def whole(*texts):
        return redundant(*(f"if x > 0 then {text}" for text in texts), schema=COLOURS)

    assert len(whole("label = red", "label in {blue, red}")) == 1
    assert whole("label in {blue, red}", "label in {green, red}") == []
    assert len(whole("P(label = red) >= 0.9", "P(label = red) >= 0.5")) == 1
    assert len(whole("P(label = red) >= 0.9", "P(label in {blue, green}) <= 0.2")) == 1
    assert len(whole("P(label = red) >= 0.5", "label = red")) == 1
    assert whole("P(label = red) >= 0.45", "label = red") == []
    assert len(whole("P(label in {red, blue}) >= 0.67", "not label = green")) == 1
    assert whole("P(label in {red, blue}) >= 0.66", "not label = green") == []
    assert whole("label = red", "P(label = red) >= 0.4") == []
    assert len(whole("P(label = green) <= 0.3", "not label = green")) == 1


def test_whole_numbers_and_labels_decide_what_is_inside():
    texts = ("if 3 <= age <= 4 then action = 1", "if 2 < age < 5 and ward = ICU then action = 1")
    assert redundant(*texts, schema=CLINIC) == [(texts[1], texts[0])]


def test_of_two_rules_that_mean_the_same_the_later_is_redundant_and_told_once():
    one, other = "if x > 1 then y >= 2", "if 2 * x > 2 then -y <= -2"
    assert redundant(one, other) == [(other, one)]
    assert redundant(other, one) == [(one, other)]


def test_copies_are_told_once_as_a_warning():
    text = "if x > 1 then y >= 2"
    (rule,) = rules_of((text,), LINE)
    named = [Constraint(rule.region, rule.requirement, rule.condition, name=name) for name in ("a", "b", "c")]
    (finding,) = lint(named, LINE)
    assert (finding.kind, finding.severity, finding.rules) == ("implied", "warning", ("a", "b", "c"))


def test_in_a_chain_every_redundant_rule_is_told_once():
    texts = ("if x > 0 then y >= 3", "if x > 1 then y >= 2", "if x > 2 then y >= 1")
    assert sorted(rules[0] for rules in redundant(*texts)) == sorted(texts[1:])


def test_rules_on_targets_and_functions_imply_nothing():
    assert (
        redundant("always P(label = red) = 0.9", "if x > 0 then P(label = red) >= 0.5", schema=COLOURS) == []
    )


def test_curved_regions_imply_only_where_the_same_condition_is_written():
    assert len(redundant("if sin(x) > 0 then y >= 2", "if sin(x) > 0 and z > 0 then y >= 1")) == 1
    assert redundant("if sin(x) > 0 then y >= 2", "if 1 < x < 2 then y >= 1") == []
    assert len(redundant("if z > 0 then y >= 2", "if sin(x) > 0 and z > 0 then y >= 1")) == 1


def test_whole_number_tables_agree_with_enumeration():
    schema = Schema(
        (
            Column("a", "integer", (0.0, 4.0), bounds=(0.0, 4.0)),
            Column("b", "integer", (0.0, 4.0), bounds=(0.0, 4.0)),
        ),
        Target("y", "regression", observed=(-5.0, 5.0)),
    )
    points = np.array(list(itertools.product(range(5), range(5))), dtype=float)
    rng = np.random.default_rng(4)

    def random_rule():
        p, q, r = rng.integers(-2, 3, size=3)
        s, t = rng.integers(0, 2, size=2)
        return f"if {p} * a + {q} * b >= {r} then y >= {s} * a + {t} * b + {rng.integers(-3, 4)}"

    def implies(strong, weak):
        inside = points[weak.region.contains(points, schema)]
        covered = strong.region.contains(inside, schema).all()
        tighter = strong.demand(inside, schema).lower >= weak.demand(inside, schema).lower
        return bool(covered and tighter.all())

    seen = []
    for _ in range(70):
        texts = (random_rule(), random_rule())
        one, other = rules_of(texts, schema)
        if not one.region.contains(points, schema).any() or not other.region.contains(points, schema).any():
            continue
        expected = implies(one, other) or implies(other, one)
        found = any(finding.kind == "implied" for finding in lint((one, other), schema))
        seen.append(expected)
        assert found is expected, texts
    assert 7 < sum(seen) < len(seen) - 7


def test_rules_that_allow_nothing_where_nothing_was_found_imply_nothing():
    assert redundant("if sin(x) > 2 then y > 2 and y < 1", "if sin(x) > 2 and z > 0 then y > 0") == []
    assert redundant("if sin(x) > 2 then y > 0", "if sin(x) > 2 and z > 0 then y > 2 and y < 1") == []


def test_many_alternatives_are_counted_before_they_are_listed():
    allowed = " or ".join(f"{3 * k} <= y <= {3 * k + 1}" for k in range(30))
    assert redundant(f"if x > 0 then {allowed}", f"if x > 1 then {allowed}") == []
