"""Figures 3a and 4 under learnt priors, over several seeds: long runs."""

from __future__ import annotations

import numpy as np
import pytest

from amortized_cases import FRAME, HIRING, LINE, SIGN_RULE
from ocbnn.amortize import AmortizedPrior
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.run import infer
from ocbnn.model import Model
from ocbnn.model.outputs import model_outputs
from ocbnn.model.priors import DiagonalGaussian


def band(model: Model, gaussian: DiagonalGaussian, inputs: np.ndarray) -> np.ndarray:
    """Width of the central 90% band of Φ."""
    low, high = np.quantile(model_outputs(model, gaussian.draws(10_000, 3), inputs), [0.05, 0.95], axis=0)
    return high - low


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_figure_3a_keeps_its_rule_after_hmc_and_stays_a_prior(seed):
    prior = AmortizedPrior.learn([SIGN_RULE], LINE, seed=seed)
    model = Model.build(frame=FRAME, target="y", base=prior, noise=0.1)
    result = infer(model, Hmc(), draws=1000, chains=4, seed=seed)
    x = np.linspace(-3.0, 3.0, 121)[:, None]
    x = x[np.abs(x[:, 0]) > 0.099]
    broken = model_outputs(model, result.draws.reshape(-1, model.size), x) * x[:, 0] < 0
    assert broken.mean() <= 0.01
    assert broken.mean(axis=0).max() <= 0.10
    far = np.array([[-6.0], [6.0]])
    assert (band(model, prior.gaussian, far) >= 0.25 * band(model, prior.base, far)).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_figure_4_has_the_probabilities_it_was_asked_for(seed):
    prior = AmortizedPrior.learn(["always P(y = 1) = x2"], HIRING, seed=seed)
    model = Model.build(schema=HIRING, base=prior)
    x = np.array([[group, skill] for group in (0.0, 1.0) for skill in np.linspace(0, 1, 101)])
    probability = model_outputs(model, prior.draws(10_000, 5), x)[..., 1]
    assert np.abs(probability.mean(axis=0) - x[:, 1]).mean() <= 0.05
