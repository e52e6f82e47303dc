"""Choices that a user need not make: size, prior and engine by the size of the table."""

import jax
import numpy as np
import pytest

from ocbnn.estimators.defaults import base_prior, hidden_units
from ocbnn.inference.engines import choose
from ocbnn.model import Model
from ocbnn.model.networks import MLP
from small_estimators import blood_pressures


def test_large_tables_get_a_larger_network_and_a_minibatch_engine():
    frame, y = blood_pressures(6000)
    assert hidden_units(None, 500) == (16, 16)
    assert hidden_units(None, 6000) == (50, 50)
    assert hidden_units(7, 500) == (7,)
    model = Model.build(frame=frame, target=y, hidden=(50, 50))
    assert choose("auto", model)[0].stochastic


def test_the_default_priors_functions_are_as_large_as_the_target():
    network = MLP(5, (20,), 1, "tanh", linear=True)
    prior = base_prior(None, network, classification=False)
    x = np.random.default_rng(0).normal(size=(50, 5))
    values = [np.asarray(network.apply(prior.sample(seed), x)) for seed in range(300)]
    # Scales are learnt, so tails are heavy: the middle half is compared with that of a standard normal.
    lower, upper = np.quantile(values, [0.25, 0.75])
    assert 0.5 < (upper - lower) / 1.349 < 2.0


@pytest.mark.parametrize("columns", [1, 5])
def test_noise_that_varies_does_so_by_a_modest_factor_a_priori(columns):
    """A standard deviation of its log over the rows of 0.05 to 0.3; a level of about e^±1."""
    network = MLP(columns, (16, 16), 2, "tanh", linear=True)
    prior = base_prior(None, network, classification=False, noise="varying")
    x = np.random.default_rng(0).normal(size=(50, columns))
    logs = np.asarray([network.apply(prior.sample(seed), x)[:, 1] for seed in range(400)])
    assert 0.05 < np.median(logs.std(axis=1)) < 0.3
    assert np.abs(np.median(logs.mean(axis=1))) < 0.3
    assert 0.5 < np.quantile(np.abs(logs.mean(axis=1)), 0.5) < 1.5


def test_the_linear_part_and_the_noise_have_scales_of_their_own():
    plain = base_prior(0.5, MLP(3, (4,), 1, linear=True), classification=False)
    prior = base_prior(0.5, MLP(3, (4,), 2, linear=True), classification=False, noise="varying")
    assert plain.layers == (16, 5, 3)
    assert prior.layers == (*plain.layers, 4 + 3, 1)
    assert plain.names == ("hidden layer 1", "output layer", "linear part")
    assert prior.names[-2:] == ("variation of the noise", "level of the noise")
    function = prior.order[: sum(plain.layers)]
    np.testing.assert_allclose(prior.scale[function], plain.scale[plain.order])
    np.testing.assert_allclose(plain.scale[plain.order[-3:]], 0.5 / np.sqrt(3))


@pytest.mark.parametrize("classes", [False, True])
def test_far_from_the_rows_functions_spread_as_far_as_they_go(classes):
    """Three times as far out the prior is nearly three times as wide: it levels off nowhere."""
    network = MLP(1, (16, 16), 1, "tanh", linear=True)
    prior = base_prior(None, network, classification=classes)
    ws = jax.vmap(prior.sample)(jax.random.split(jax.random.key(0), 2000))
    values = jax.vmap(lambda w: network.apply(w, np.array([[10.0], [30.0]]))[:, 0])(ws)
    near, far = np.subtract(*np.quantile(values, [0.75, 0.25], axis=0))
    assert 2.5 < far / near < 3.2
