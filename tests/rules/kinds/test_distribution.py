"""Rules about how the target is distributed."""

from __future__ import annotations

import numpy as np
import pytest

from language_schemas import COLOURS, HIRING, LINE, coded
from ocbnn.errors import OCBNNError, RuleError
from rules.demands import demanded, in_model_units, requirement


def test_normal_mixtures_have_weights_means_and_spreads_at_points_and_need_a_spread():
    rule = "always y ~ Normal(x, 0.3) (0.5) or Normal(3, abs(x)) (1.5)"
    weight, mean, sd = demanded(rule, LINE, x=[1, -2])
    assert weight.tolist() == [[0.25, 0.75]] * 2
    assert mean.tolist() == [[1, 3], [-2, 3]]
    assert sd.tolist() == [[0.3, 1], [0.3, 2]]
    with pytest.raises(RuleError, match="standard deviation is not above 0 at x = 0"):
        demanded(rule, LINE, x=[0])


def test_model_units_standardise_mean_and_spread():
    demand = in_model_units("always y ~ Normal(5, 0.5)", LINE, x=[0])  # center 1, scale 2
    assert (demand.mean.tolist(), demand.sd.tolist()) == ([[2]], [[0.25]])


def test_a_distribution_over_y_has_no_violation_of_one_draw():
    rule = "always y ~ Normal(-1, 0.5) (0.6) or y ~ Normal(1, 0.2) (0.4)"
    with pytest.raises(OCBNNError, match="about a distribution"):
        requirement(rule, LINE).margin(demanded(rule, LINE, x=np.zeros(4)), np.zeros(4))


def test_class_probabilities_follow_the_order_of_the_schema_and_share_the_rest():
    probability = demanded("always label ~ Categorical(green: 0.5, blue: 20%)", COLOURS).probability
    np.testing.assert_allclose(probability, [[0.2, 0.5, 0.3]], rtol=1e-15)
    probability = demanded("always label ~ Categorical(green: skill / 2)", COLOURS, skill=[0.4]).probability
    np.testing.assert_allclose(probability, [[0.4, 0.2, 0.4]], rtol=1e-15)
    probability = demanded("always hired ~ Bernoulli(skill)", HIRING, skill=[0.3, 1.2]).probability
    np.testing.assert_allclose(probability, [[0.7, 0.3], [0, 1]], rtol=1e-15)


def test_a_probability_that_is_none_is_told_with_its_place():
    points = coded(HIRING, skill=[0.0, 1.0])
    found = requirement("always hired ~ Bernoulli(2 * skill)", HIRING).clipped(points, HIRING)
    assert "it is 2 at skill = 1" in found
    assert requirement("always hired ~ Bernoulli(skill)", HIRING).clipped(points, HIRING) is None
