"""The base prior."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from ocbnn.errors import ModelError
from ocbnn.model.networks import MLP
from ocbnn.model.priors import IsotropicGaussian, Prior


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def test_the_density_is_that_of_independent_gaussians():
    w, scale = np.array([0.3, -2.0, 1.0]), np.array([1.0, 0.5, 3.0])
    for each in (0.7, scale):
        expected = scipy.stats.norm.logpdf(w, 0.0, each).sum()
        assert float(IsotropicGaussian(3, each).log_density(jnp.asarray(w))) == pytest.approx(
            expected, rel=1e-12
        )
    assert isinstance(IsotropicGaussian(3), Prior)


def test_draws_have_the_scale_of_each_weight():
    prior = IsotropicGaussian(2, np.array([0.1, 5.0]))
    draws = np.asarray(jax.vmap(prior.sample)(jax.random.split(jax.random.key(0), 4000)))
    error = 1.0 / np.sqrt(2 * 4000)  # relative, of a standard deviation
    np.testing.assert_allclose(draws.std(axis=0) / [0.1, 5.0], 1.0, atol=4 * error)


def test_scaling_by_fan_in_divides_by_its_square_root():
    network = MLP(4, (9,), 1)
    prior = IsotropicGaussian.for_network(network, 2.0, scale_by_fan_in=True)
    np.testing.assert_allclose(prior.scale, 2.0 / np.sqrt(network.fan_in()))
    assert IsotropicGaussian.for_network(network).scale == 1.0


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.ones(2)], ids=str)
def test_scales_that_are_none_are_refused(scale):
    with pytest.raises(ModelError, match="scale"):
        IsotropicGaussian(3, scale)
