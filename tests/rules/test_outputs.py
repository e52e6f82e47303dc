"""What outputs ask for at points, in raw and in model units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from language_schemas import CLINIC, COLOURS, HIRING, LINE, coded
from ocbnn.errors import RuleError
from ocbnn.language.expressions import (
    And,
    Arithmetic,
    ColumnRef,
    Comparison,
    Not,
    Number,
    Or,
    Output,
    evaluate,
)
from ocbnn.regions import Everywhere
from ocbnn.rules import Constraint, parse_rule
from ocbnn.rules.located import AllowedIntervals, LocatedFunctions, in_model_units
from ocbnn.rules.outputs import Intervals, beyond_probabilities

INF = np.inf


def located(rule, schema, **values):
    return parse_rule(rule, schema).locate(coded(schema, **values), schema)


def intervals(rule, x):
    """The allowed intervals at each x, unused slots left out."""
    lower, upper = located(rule, LINE, x=x)
    return [
        [(low, high) for low, high in zip(*row, strict=True) if low <= high]
        for row in zip(lower, upper, strict=True)
    ]


@pytest.mark.parametrize(
    ("rule", "x", "expected"),
    [
        ("always 2.5 <= y <= 3", [0], [[(2.5, 3)]]),
        ("always y > 1", [0], [[(1, INF)]]),
        ("always not 1 <= y <= 2.5", [0], [[(-INF, 1), (2.5, INF)]]),
        ("always x * y >= 0", [-2, 0, 3], [[(-INF, 0)], [(-INF, INF)], [(0, INF)]]),
        ("always x * y >= 1", [-2, 0, 4], [[(-INF, -0.5)], [], [(0.25, INF)]]),
        ("always y >= x and y <= 2 * x", [1, -1], [[(1, 2)], []]),
        ("always 1 <= y <= 2 or 2 <= y <= 3", [0], [[(1, 3)]]),
        ("always y < 2 or y > 2", [0], [[(-INF, INF)]]),
        ("always 3 <= y <= 4 or 0 <= y <= 1", [0], [[(0, 1), (3, 4)]]),
        ("always 0 <= y <= 2 or 1 <= y <= x", [1.5, 5], [[(0, 2)], [(0, 5)]]),
        ("always y >= 2 and y <= 2", [0], [[(2, 2)]]),
        ("always x <= y <= x", [0.1, 0.3], [[(0.1, 0.1)], [(0.3, 0.3)]]),
        ("always y <= 1 / x", [0, 2], [[(-INF, INF)], [(-INF, 0.5)]]),
        ("always y >= 1 / x", [0, 2], [[], [(0.5, INF)]]),
        ("always y / x >= 1", [-2, 0, 2], [[(-INF, -2)], [(0, INF)], [(2, INF)]]),
        ("always not (y > 1 and not y > 2)", [0], [[(-INF, 1), (2, INF)]]),
        ("always not y = 2 within 0.5", [0], [[(-INF, 1.5), (2.5, INF)]]),
        ("always y = x within 0.5 or y > 3", [0, 3], [[(-0.5, 0.5), (3, INF)], [(2.5, INF)]]),
    ],
)
def test_the_allowed_set_is_sorted_merged_and_disjoint(rule, x, expected):
    assert intervals(rule, x) == expected


def test_unused_slots_are_infinitely_far_and_their_number_depends_on_the_formula_alone():
    for x in ([1.0], [-1.0, 1.0, 2.0]):
        lower, upper = located("always 0 <= y <= 2 or x <= y <= 5", LINE, x=x)
        assert lower.shape == upper.shape == (len(x), 2)
    assert lower.tolist() == [[-1, INF], [0, INF], [0, INF]]
    assert upper.tolist() == [[5, -INF], [5, -INF], [5, -INF]]


atoms = st.builds(
    lambda slope, bound, operator: Comparison(
        (Arithmetic("*", Arithmetic("+", ColumnRef("x"), Number(slope)), Output()), Number(bound)),
        (operator,),
    ),
    st.sampled_from([-2.0, -1.0, 0.0, 1.0]),
    st.sampled_from([-2.0, -1.0, 0.0, 1.5]),
    st.sampled_from(["<", "<=", ">", ">="]),
)
formulas = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda items: And(tuple(items))),
        st.lists(inner, min_size=2, max_size=3).map(lambda items: Or(tuple(items))),
        inner.map(Not),
    ),
    max_leaves=8,
)


@given(formulas)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_intervals_agree_with_the_formula_asked_at_every_y(formula):
    x = np.array([-1.0, 0.0, 1.0, 2.0, 0.3])
    lower, upper = Intervals(Output(), formula).locate(coded(LINE, x=x), LINE)
    y = np.linspace(-4, 4, 161) + 1e-3  # off every end, where closed and open would differ
    asked = evaluate(formula, {"x": x[:, None]}, LINE, np.broadcast_to(y, (5, 161)))
    found = ((lower[..., None] <= y) & (y <= upper[..., None])).any(axis=1)
    np.testing.assert_array_equal(found, asked)
    used = lower <= upper
    assert np.all(used[:, :-1] >= used[:, 1:])
    both = used[:, :-1] & used[:, 1:]
    assert np.all(upper[:, :-1][both] < lower[:, 1:][both])


def test_a_bound_that_is_no_number_names_the_point():
    with pytest.raises(RuleError, match=r"`y >= log\(x\)` is not a number at x = -1\. Narrow"):
        located("always y >= log(x)", LINE, x=[1, -1])
    with pytest.raises(RuleError, match=r"value `log\(x\)` is not a finite number at x = 0"):
        located("always y = log(x)", LINE, x=[0])


def test_values_have_weights_that_sum_to_one_and_a_margin():
    values, weights, margin = located("always y = 2 * x (7) or y = 3 (3)", LINE, x=[1, 2])
    assert values.tolist() == [[2, 3], [4, 3]]
    np.testing.assert_allclose(weights, [[0.7, 0.3]] * 2, rtol=1e-15)
    assert margin.tolist() == [0.2, 0.2]  # a tenth of the target's scale, which is 2
    assert located("always y = 2 within 0.5", LINE, x=[1]).margin.tolist() == [0.5]


def test_classes_are_a_mask_in_the_order_of_the_schema():
    assert located("always label in {green, blue}", COLOURS).allowed.tolist() == [[True, True, False]]
    assert located("always not label = 'red'", COLOURS).allowed.tolist() == [[True, True, False]]
    assert located("always action = 1", CLINIC, age=[1, 2]).allowed.tolist() == [[False, True]] * 2


def test_probability_bounds_stay_within_zero_and_one():
    members, lower, upper = located("always P(hired = 1) >= skill", HIRING, skill=[-0.5, 0.4, 2.0])
    assert members.tolist() == [[False, True]] * 3
    assert lower.tolist() == [[0], [0.4], [INF]]
    assert upper.tolist() == [[1], [1], [-INF]]


def test_slots_are_in_order_where_the_first_interval_lies_below_zero():
    _, lower, upper = located(
        "always P(hired = 1) <= skill or P(hired = 1) >= 0.9", HIRING, skill=[-0.5, 0.1]
    )
    assert lower.tolist() == [[0.9, INF], [0, 0.9]]
    assert upper.tolist() == [[1, -INF], [0.1, 1]]


def test_probability_targets_are_clipped_to_zero_and_one():
    members, probability = located("always P(hired = 1) = skill", HIRING, skill=[-0.5, 0.4, 2.0])
    assert probability.tolist() == [0, 0.4, 1]
    assert members[0].tolist() == [False, True]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("always P(hired = 1) = 100 * skill", "`100 * skill` lies outside of [0, 1] at 1 of 2 points"),
        ("always P(hired = 1) = skill - 0.5", "it is -0.5 at skill = 0"),
        ("always hired ~ Bernoulli(2 * skill)", "it is 2 at skill = 1"),
        ("always P(hired = 1) = skill", None),
        ("always P(hired = 1) >= skill", None),
    ],
)
def test_a_probability_that_is_none_is_told_with_its_place(rule, said):
    found = beyond_probabilities(parse_rule(rule, HIRING).output, coded(HIRING, skill=[0.0, 1.0]), HIRING)
    assert found is None if said is None else said in found


def test_normal_mixtures_are_located_and_need_a_spread():
    rule = "always y ~ Normal(x, 0.3) (0.5) or Normal(3, abs(x)) (1.5)"
    weight, mean, sd = located(rule, LINE, x=[1, -2])
    assert weight.tolist() == [[0.25, 0.75]] * 2
    assert mean.tolist() == [[1, 3], [-2, 3]]
    assert sd.tolist() == [[0.3, 1], [0.3, 2]]
    with pytest.raises(RuleError, match="standard deviation is not above 0 at x = 0"):
        located(rule, LINE, x=[0])


def test_class_probabilities_follow_the_order_of_the_schema_and_share_the_rest():
    probability = located("always label ~ Categorical(green: 0.5, blue: 20%)", COLOURS).probability
    np.testing.assert_allclose(probability, [[0.2, 0.5, 0.3]], rtol=1e-15)
    probability = located("always label ~ Categorical(green: skill / 2)", COLOURS, skill=[0.4]).probability
    np.testing.assert_allclose(probability, [[0.4, 0.2, 0.4]], rtol=1e-15)
    probability = located("always hired ~ Bernoulli(skill)", HIRING, skill=[0.3, 1.2]).probability
    np.testing.assert_allclose(probability, [[0.7, 0.3], [0, 1]], rtol=1e-15)


def test_functions_get_the_columns_and_raw_units():
    constraint = Constraint.from_functions(Everywhere(), lambda x, y: y - x["x"])
    points = constraint.locate(coded(LINE, x=[1, 2]), LINE)
    assert isinstance(points, LocatedFunctions)
    assert points.columns["x"].tolist() == [1, 2]
    assert (points.center.tolist(), points.scale.tolist()) == ([0, 0], [1, 1])
    standardised = in_model_units(points, LINE.target)
    assert (standardised.center.tolist(), standardised.scale.tolist()) == ([1, 1], [2, 2])


def test_model_units_standardise_y_and_leave_classes_alone():
    target = LINE.target  # center 1, scale 2
    lower, upper = in_model_units(located("always not 2 <= y <= 3", LINE, x=[0]), target)
    assert (lower.tolist(), upper.tolist()) == ([[-INF, 1]], [[0.5, INF]])
    unused = in_model_units(AllowedIntervals(np.array([[INF]]), np.array([[-INF]])), target)
    assert (unused.lower.tolist(), unused.upper.tolist()) == ([[INF]], [[-INF]])
    values = in_model_units(located("always y = 5 within 0.5", LINE, x=[0]), target)
    assert (values.values.tolist(), values.margin.tolist()) == ([[2]], [0.25])
    normals = in_model_units(located("always y ~ Normal(5, 0.5)", LINE, x=[0]), target)
    assert (normals.mean.tolist(), normals.sd.tolist()) == ([[2]], [[0.25]])
    classes = located("always label = green", COLOURS)
    assert in_model_units(classes, COLOURS.target) is classes
