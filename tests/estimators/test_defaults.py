"""Choices that a user need not make: size, prior and engine by the size of the table."""

import numpy as np
import pytest

from ocbnn.estimators.defaults import base_prior, hidden_units, mixing
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
    assert 0.5 < np.std(values) < 2.0


def test_weights_of_columns_are_as_correlated_a_priori_as_the_columns():
    generator = np.random.default_rng(0)
    common = generator.normal(size=(400, 1))
    inputs = np.column_stack([common + 0.5 * generator.normal(size=(400, 2)), generator.normal(size=400)])
    found = np.array(mixing(inputs, np.ones(400)))
    covariance = found @ found.T
    shrunk = np.corrcoef(inputs.T) * 400 / 403
    np.fill_diagonal(shrunk, 1.0)
    np.testing.assert_allclose(covariance / covariance[0, 0], shrunk, atol=1e-9)
    # A unit's input, averaged over unit weights, varies by D = 3 as with independent columns.
    assert np.trace(found.T @ shrunk @ found) == pytest.approx(3.0)
    weighted = np.array(mixing(inputs[:50], np.full(50, 2.0)))
    np.testing.assert_allclose(weighted, mixing(np.repeat(inputs[:50], 2, axis=0), np.ones(100)), atol=1e-12)


def test_a_constant_column_one_column_and_too_many_are_no_trouble():
    assert mixing(np.zeros((5, 1)), np.ones(5)) is None
    assert mixing(np.zeros((5, 201)), np.ones(5)) is None
    np.testing.assert_allclose(mixing(np.zeros((5, 3)), np.ones(5)), np.eye(3), atol=1e-12)
