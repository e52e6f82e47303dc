"""The predictive of Φ under a Gaussian over weights, against naive twins and Monte Carlo."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amortized_cases import rbf_gradient
from ocbnn.amortize.predictive import linearized, sampled
from ocbnn.model.networks import MLP, FunctionNetwork

NETWORK = MLP(1, (5,), 1, "rbf")
POINTS = np.array([[-2.0], [-0.3], [0.0], [1.1], [4.0]])


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def gaussian(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(size=size), generator.uniform(0.1, 1.0, size)


def test_linearised_moments_agree_with_a_dense_naive_computation():
    mean, sd = gaussian(NETWORK.size)
    found = linearized(NETWORK, jnp.asarray(mean), jnp.asarray(sd), jnp.asarray(POINTS))
    for place, x in enumerate(POINTS[:, 0]):
        value, g = rbf_gradient(mean, x)
        assert float(found.mean[0, place, 0]) == pytest.approx(value, abs=1e-10)
        assert float(found.variance[0, place, 0]) == pytest.approx(g @ np.diag(sd**2) @ g, abs=1e-10)


def test_linearised_moments_approach_monte_carlo_at_the_rate_of_theory():
    # E Φ = Φ_μ + O(s²), Var Φ = s² gᵀΣg + O(s⁴); pairs ±ε and the same ε for all s leave only those terms.
    mean, sd = gaussian(NETWORK.size)
    half = np.random.default_rng(1).normal(size=(50_000, NETWORK.size))
    noise = sd * np.concatenate([half, -half])
    outputs = jax.jit(jax.vmap(lambda w: NETWORK.apply(w, jnp.asarray(POINTS[:4]))[:, 0]))
    slope = np.stack([rbf_gradient(mean, x)[1] for x in POINTS[:4, 0]])
    bias, excess = [], []
    for scale in (0.1, 0.05, 0.025):
        values = np.asarray(outputs(mean + scale * noise))
        exact = linearized(NETWORK, jnp.asarray(mean), jnp.asarray(scale * sd), jnp.asarray(POINTS[:4]))
        linear = np.var(scale * noise @ slope.T, axis=0)
        np.testing.assert_allclose(linear, exact.variance[0, :, 0], rtol=5 / np.sqrt(50_000))
        bias.append(np.abs(values.mean(axis=0) - exact.mean[0, :, 0]))
        excess.append(np.abs(values.var(axis=0) - linear))
    for errors, order in ((bias, 2.0), (excess, 4.0)):
        total = np.array(errors).sum(axis=1)
        np.testing.assert_allclose(np.log2(total[:-1] / total[1:]), order, atol=0.3)


@pytest.mark.parametrize("activation", ["rbf", "tanh"])
def test_sampled_moments_are_those_of_networks_with_drawn_weights(activation):
    network = MLP(2, (6, 5), 3, activation)
    mean, sd = gaussian(network.size)
    inputs = jnp.asarray([[0.5, -1.0], [2.0, 0.3]])
    found = sampled(network, jnp.asarray(mean), jnp.asarray(sd), inputs, jax.random.key(0), 20_000)
    draws = mean + sd * np.random.default_rng(3).normal(size=(20_000, network.size))
    values = np.asarray(jax.jit(jax.vmap(lambda w: network.apply(w, inputs)))(draws))
    spread = values.std(axis=0)
    np.testing.assert_allclose((found.mean.mean(axis=0) - values.mean(axis=0)) / spread, 0, atol=0.05)
    variance = found.variance.mean(axis=0) + found.mean.var(axis=0)
    np.testing.assert_allclose(variance / spread**2, 1.0, atol=0.08)


def test_a_linear_network_has_one_gaussian_however_often_it_is_sampled():
    network = MLP(1, (), 1)
    found = sampled(network, jnp.array([2.0, 1.0]), jnp.array([0.3, 0.4]), POINTS, jax.random.key(0), 3)
    np.testing.assert_allclose(found.mean[:, 3, 0], 2.0 * 1.1 + 1.0)
    np.testing.assert_allclose(found.variance[:, 3, 0], 0.09 * 1.21 + 0.16)


def test_any_network_can_be_sampled():
    network = FunctionNetwork.wrap(lambda p, x: jnp.sin(x[:, 0] * p["a"]), {"a": np.ones(1)})
    found = sampled(network, jnp.array([1.0]), jnp.array([1e-3]), jnp.asarray(POINTS), jax.random.key(0), 50)
    np.testing.assert_allclose(found.mean.mean(axis=0)[:, 0], np.sin(POINTS[:, 0]), atol=5e-3)
    np.testing.assert_array_equal(found.variance, 0.0)
