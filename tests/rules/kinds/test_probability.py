"""Rules about the total probability of classes, bounded or stated."""

from __future__ import annotations

import numpy as np
import pytest

from language_schemas import COLOURS, HIRING, coded
from ocbnn.rules.requirement import Shares
from rules.demands import demanded, requirement

INF = np.inf
BOUND = requirement("always P(hired = 1) >= 0.9", HIRING)


def test_probability_bounds_stay_within_zero_and_one():
    members, lower, upper = demanded("always P(hired = 1) >= skill", HIRING, skill=[-0.5, 0.4, 2.0])
    assert members.tolist() == [[False, True]] * 3
    assert lower.tolist() == [[0], [0.4], [INF]]
    assert upper.tolist() == [[1], [1], [-INF]]


def test_slots_are_in_order_where_the_first_interval_lies_below_zero():
    _, lower, upper = demanded(
        "always P(hired = 1) <= skill or P(hired = 1) >= 0.9", HIRING, skill=[-0.5, 0.1]
    )
    assert lower.tolist() == [[0.9, INF], [0, 0.9]]
    assert upper.tolist() == [[1, -INF], [0.1, 1]]


def test_a_probability_bound_is_on_the_total_of_the_classes_named():
    demand = Shares(np.array([[True, False, True]]), np.array([[0.9]]), np.array([[1.0]]))
    margins = BOUND.margin(demand, np.array([[[0.5, 0.2, 0.3]], [[0.6, 0.05, 0.35]]]))
    np.testing.assert_allclose(margins[:, 0], [0.1, -0.05], atol=1e-12)


def test_a_total_rounded_past_one_does_not_break_a_bound_of_one():
    demand = Shares(np.ones((1, 3), bool), np.array([[0.9]]), np.array([[1.0]]))
    past_one = np.array([[0.5, 0.3, np.nextafter(0.2, 1.0) + 1e-16]])
    assert past_one.sum() > 1.0
    assert BOUND.margin(demand, past_one)[0] <= 0.0


def test_no_single_row_contradicts_a_probability():
    demand = demanded("always P(hired = 1) >= 0.9", HIRING)
    assert BOUND.against(demand, np.array([[1.0, 0.0]])) is None
    stated = requirement("always P(hired = 1) = 0.9", HIRING)
    assert stated.against(demanded("always P(hired = 1) = 0.9", HIRING), np.array([[1.0, 0.0]])) is None


def test_probability_targets_are_clipped_to_zero_and_one():
    members, probability = demanded("always P(hired = 1) = skill", HIRING, skill=[-0.5, 0.4, 2.0])
    assert probability.tolist() == [0, 0.4, 1]
    assert members[0].tolist() == [False, True]


def test_a_probability_target_asks_for_two_events():
    rule = requirement("always P(label in {blue, 'red'}) = 0.8", COLOURS)
    asked = rule.asked(demanded("always P(label in {blue, 'red'}) = 0.8", COLOURS))
    np.testing.assert_allclose(asked.probability, [[0.8, 0.2]])
    assert asked.events.tolist() == [[[True, False, True], [False, True, False]]]
    np.testing.assert_allclose(asked.of_classes(np.array([[0.5, 0.2, 0.3]])), [[0.8, 0.2]])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("always P(hired = 1) = 100 * skill", "`100 * skill` lies outside of [0, 1] at 1 of 2 points"),
        ("always P(hired = 1) = skill - 0.5", "it is -0.5 at skill = 0"),
        ("always P(hired = 1) = skill", None),
        ("always P(hired = 1) >= skill", None),
    ],
)
def test_a_probability_that_is_none_is_told_with_its_place(rule, said):
    found = requirement(rule, HIRING).clipped(coded(HIRING, skill=[0.0, 1.0]), HIRING)
    assert found is None if said is None else said in found
