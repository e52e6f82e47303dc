"""Errata L3 and E1: bands are of the function, and how rejection depends on where rules were scored."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

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
    found: list[np.ndarray] = []
    while len(found) < draws:
        line = generator.normal(size=2)
        if (line[0] * points + line[1] <= 1.0).all():
            found.append(line)
    return np.array(found)


def test_e1_draws_that_obeyed_a_few_fixed_points_are_rejected_more_than_those_of_fresh_points():
    """Figure 3c in its cheapest form: lines that must stay below 1 on [0, 1].

    A run with five fixed points has draws that obey at these five; a run with points redrawn every step has
    draws that obeyed at all of them taken together. What is rejected afterwards is what the points missed.
    """
    generator = np.random.default_rng(0)
    rule = ["if 0 <= x <= 1 then y <= 1"]
    rates = {}
    for name, points in {
        "5 fixed": generator.uniform(size=5),
        "5 fresh at each of 200 steps": generator.uniform(size=1000),
    }.items():
        drawn = oscillating(generator, points, 400).reshape(4, 100, 2)
        rejected = reject(lines(drawn[..., 0], drawn[..., 1], rule), points=500)
        exact = (np.maximum(drawn[..., 1], drawn.sum(axis=-1)) <= 1.0).mean()
        assert rejected.acceptance.value == pytest.approx(exact, abs=0.003)
        rates[name] = 1.0 - rejected.acceptance.value
    assert rates["5 fixed"] > 0.03
    assert rates["5 fresh at each of 200 steps"] < 0.01


def test_rejection_from_draws_that_ignored_the_rule_leaves_nothing_and_says_so():
    with pytest.raises(EnforcementError, match="None of the 100 draws"):
        reject(constants(np.linspace(3.0, 5.0, 100)[None]), ["if 0 <= x <= 1 then y <= 1"], points=50)
