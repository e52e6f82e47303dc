"""Values of y: their weights and margins at points, and how far y lies beyond them."""

from __future__ import annotations

import numpy as np
import pytest

from language_schemas import LINE
from ocbnn.errors import RuleError
from ocbnn.rules.requirement import Peaks
from rules.demands import demanded, in_model_units, requirement


def test_values_have_weights_that_sum_to_one_and_a_margin():
    values, weights, margin = demanded("always y = 2 * x (7) or y = 3 (3)", LINE, x=[1, 2])
    assert values.tolist() == [[2, 3], [4, 3]]
    np.testing.assert_allclose(weights, [[0.7, 0.3]] * 2, rtol=1e-15)
    assert margin.tolist() == [0.2, 0.2]  # a tenth of the target's scale, which is 2
    assert demanded("always y = 2 within 0.5", LINE, x=[1]).margin.tolist() == [0.5]


def test_a_value_that_is_no_number_names_the_point():
    with pytest.raises(RuleError, match=r"value `log\(x\)` is not a finite number at x = 0"):
        demanded("always y = log(x)", LINE, x=[0])


def test_model_units_standardise_values_and_the_margin():
    demand = in_model_units("always y = 5 within 0.5", LINE, x=[0])  # center 1, scale 2
    assert (demand.values.tolist(), demand.margin.tolist()) == ([[2]], [0.25])


def test_a_value_is_broken_beyond_its_margin():
    demand = Peaks(np.array([[2.0, 3.0]]), np.array([[0.7, 0.3]]), np.array([0.1]))
    margins = requirement("always y = 2", LINE).margin(demand, np.array([[2.05], [2.5], [3.3]]))
    np.testing.assert_allclose(margins[:, 0], [-0.05, 0.4, 0.2])


def test_what_is_allowed_is_disjoint_intervals_inside_of_which_y_obeys():
    rule = requirement("always y = x within 0.5 or y = -x within 0.5", LINE)
    demand = demanded("always y = x within 0.5 or y = -x within 0.5", LINE, x=[0.2, 2.0])
    lower, upper = rule.allowed(demand).outputs
    np.testing.assert_allclose(lower, [[-0.7, -0.3], [-2.5, 1.5]], rtol=1e-14)
    np.testing.assert_allclose(upper, [[-0.3, 0.7], [-1.5, 2.5]], rtol=1e-14)
    for ends in (lower, upper):
        assert (rule.margin(demand, ends.T) <= 0).all()
