"""Errata L3 and E1: bands are of the function, and how rejection depends on where rules were scored."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from ocbnn.posterior.enforce import EnforcementError, reject
from ocbnn.posterior.predict import predict
from posterior_cases import NOISE, constants, lines

ROWS = pd.DataFrame({"x": [0.0, 1.0]})


def test_l3_bands_of_the_function_are_without_noise_and_those_of_the_observation_have_it():
    known = predict(constants(np.full((2, 500), 1.7)), ROWS, levels=(0.025, 0.975))
    np.testing.assert_allclose(known.function.quantiles, 1.7)
    np.testing.assert_allclose(known.function.hdi, 1.7)
    width = known.observation.quantiles[:, 1] - known.observation.quantiles[:, 0]
    np.testing.assert_allclose(width, 2 * 1.959964 * NOISE, rtol=1e-6)


def oscillating(generator: np.random.Generator, points: np.ndarray, draws: int) -> np.ndarray:
    """Slopes and intercepts of lines that obey `y <= 1` at the given points, and know nothing of others."""
    line = generator.normal(size=(4 * draws, 2))
    obeying = line[(line[:, :1] * points + line[:, 1:] <= 1.0).all(axis=1)]
    assert len(obeying) >= draws
    return obeying[:draws]


def share_below_one(first: float, last: float) -> float:
    """P(slope · x + intercept <= 1 at both), and so at all points between, for standard normals."""
    covariance = [[1 + first**2, 1 + first * last], [1 + first * last, 1 + last**2]]
    return float(multivariate_normal.cdf([1.0, 1.0], cov=covariance))


def test_e1_draws_that_obeyed_a_few_fixed_points_are_rejected_more_than_those_of_fresh_points():
    """Figure 3c in its cheapest form: lines that must stay below 1 on [0, 1].

    A run with five fixed points has draws that obey at these five; a run with points redrawn every step has
    draws that obeyed at all of them taken together. What is rejected afterwards is what the points missed.
    """
    generator = np.random.default_rng(0)
    rule = ["if 0 <= x <= 1 then y <= 1"]
    expected = {}
    for name, points in {
        "5 fixed": np.array([0.1, 0.3, 0.5, 0.7, 0.9]),
        "5 fresh at each of 200 steps": generator.uniform(size=1000),
    }.items():
        drawn = oscillating(generator, points, 2000).reshape(4, 500, 2)
        found = 1.0 - reject(lines(drawn[..., 0], drawn[..., 1], rule), points=500).acceptance.value
        assert found == pytest.approx((np.maximum(drawn[..., 1], drawn.sum(axis=-1)) > 1.0).mean())
        missed = 1.0 - share_below_one(0.0, 1.0) / share_below_one(points.min(), points.max())
        # Four standard errors, and a count of three where hardly any is expected.
        assert abs(found - missed) < 4 * np.sqrt(missed * (1 - missed) / 2000) + 3 / 2000
        expected[name] = missed
    assert expected["5 fixed"] > 0.03
    assert expected["5 fixed"] > 5 * expected["5 fresh at each of 200 steps"]


def test_rejection_from_draws_that_ignored_the_rule_leaves_nothing_and_says_so():
    with pytest.raises(EnforcementError, match="None of the 100 draws"):
        reject(constants(np.linspace(3.0, 5.0, 100)[None]), ["if 0 <= x <= 1 then y <= 1"], points=50)
