"""Choices that a user need not make: size, prior and engine by the size of the table."""

import numpy as np

from ocbnn.estimators.defaults import base_prior, hidden_units
from ocbnn.inference.engines import choose
from ocbnn.model import Model
from ocbnn.model.networks import MLP
from small_estimators import blood_pressures


def test_large_tables_get_a_larger_network_and_a_minibatch_engine():
    frame, y = blood_pressures(6000)
    assert hidden_units(None, 500) == (20,)
    assert hidden_units(None, 6000) == (50, 50)
    assert hidden_units(7, 500) == (7,)
    model = Model.build(frame=frame, target=y, hidden=(50, 50))
    assert choose("auto", model)[0].stochastic


def test_the_default_priors_functions_are_as_large_as_the_target():
    network = MLP(5, (20,), 1, "tanh")
    prior = base_prior(None, network, classification=False)
    x = np.random.default_rng(0).normal(size=(50, 5))
    values = [np.asarray(network.apply(prior.sample(seed), x)) for seed in range(300)]
    # Scales are learnt, so tails are heavy: the middle half is compared with that of a standard normal.
    lower, upper = np.quantile(values, [0.25, 0.75])
    assert 0.5 < (upper - lower) / 1.349 < 2.0
