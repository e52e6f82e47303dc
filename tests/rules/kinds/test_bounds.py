"""Bounds on y: the allowed intervals at points, and how far y lies outside of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from language_schemas import LINE, coded
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
from ocbnn.rules.kinds.bounds import Bounds, Ends
from ocbnn.rules.requirement import RAW, Units
from rules.demands import demanded, in_model_units, requirement

INF = np.inf
BOUNDS = requirement("always y > 0", LINE)


def intervals(rule, x):
    """The allowed intervals at each x, unused slots left out."""
    lower, upper = demanded(rule, LINE, x=x)
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
        lower, upper = demanded("always 0 <= y <= 2 or x <= y <= 5", LINE, x=x)
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
    lower, upper = Bounds(formula).demand(coded(LINE, x=x)[:, None], LINE, RAW)
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
        demanded("always y >= log(x)", LINE, x=[1, -1])


def test_model_units_standardise_the_ends_and_leave_unused_slots_infinite():
    lower, upper = in_model_units("always not 2 <= y <= 3", LINE, x=[0])  # center 1, scale 2
    assert (lower.tolist(), upper.tolist()) == ([[-INF, 1]], [[0.5, INF]])
    unused = in_model_units("always x * y >= 1", LINE, x=[0])
    assert (unused.lower.tolist(), unused.upper.tolist()) == ([[INF]], [[-INF]])


def test_an_interval_is_broken_outside_by_the_distance_to_its_nearer_end():
    demand = Ends(np.full((5, 1), 2.5), np.full((5, 1), 3.0))
    y = np.array([2.0, 2.5, 2.6, 3.0, 4.0])
    np.testing.assert_allclose(BOUNDS.margin(demand, y), [0.5, 0.0, -0.1, 0.0, 1.0], atol=1e-12)
    assert BOUNDS.against(demand, y).tolist() == [True, False, False, False, True]


def test_of_several_intervals_the_nearest_counts_and_unused_slots_never_do():
    lower = np.array([[-INF, 2.5], [-INF, INF]])
    upper = np.array([[1.0, INF], [1.0, -INF]])
    margins = BOUNDS.margin(Ends(lower, upper), np.array([2.0, 2.0]))
    np.testing.assert_allclose(margins, [0.5, 1.0])


def test_what_is_not_a_number_obeys_nothing():
    demand = Ends(np.zeros((1, 2)), np.ones((1, 2)))
    assert BOUNDS.against(demand, np.array([np.nan]))[0]


def test_on_a_log_scale_limits_are_the_logs_of_the_limits_at_each_point():
    log_line = replace(LINE, target=replace(LINE.target, transform="log", center=0.5, scale=2.0))
    x = np.array([0.5, 1.0, 4.0])
    lower, upper = in_model_units("always 5 <= y <= 2 * x + 10", log_line, x=x)
    np.testing.assert_allclose(lower[:, 0], (np.log(5) - 0.5) / 2, rtol=1e-15)
    np.testing.assert_allclose(upper[:, 0], (np.log(2 * x + 10) - 0.5) / 2, rtol=1e-15)
    lower, upper = in_model_units("always y >= -3", log_line, x=x)
    assert (lower == -INF).all()
    assert (upper == INF).all()


def test_on_a_log_scale_what_only_values_without_a_log_satisfy_is_impossible():
    log_line = replace(LINE, target=replace(LINE.target, transform="log"))
    bounds = requirement("always y <= -1 or 2 <= y <= 3", log_line)
    demand = in_model_units("always y <= x or 2 <= y <= 3", log_line, x=[-1.0, 0.0, 1.0])
    assert not bounds.impossible(demand).any()
    np.testing.assert_array_equal(
        bounds.margin(demand, Units.of_model(log_line.target).of(np.ones(3))) > 0, [True, True, False]
    )
    assert bounds.impossible(in_model_units("always y <= -1", log_line, x=[0.0])).all()
