"""Likelihoods against scipy, and far out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from ocbnn.errors import ModelError
from ocbnn.model.likelihoods import (
    BOUND,
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    Noisy,
    VaryingGaussian,
)
from ocbnn.model.networks import MLP, FunctionNetwork

NONE = jnp.zeros(0)
ROWS = 6


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def generator():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    "likelihood", [Gaussian(), Gaussian(0.5), VaryingGaussian(), Bernoulli(), Categorical(4)], ids=repr
)
def test_every_likelihood_keeps_the_protocol(likelihood):
    assert isinstance(likelihood, Likelihood)
    parameters = likelihood.initial(0)
    assert parameters.shape == (likelihood.size,)
    assert likelihood.log_prior(parameters).shape == ()
    outputs = jnp.ones((ROWS, likelihood.outputs))
    assert likelihood.log_density(parameters, outputs, np.zeros(ROWS)).shape == (ROWS,)
    assert likelihood.function(outputs).shape[0] == ROWS


def test_gaussian_with_fixed_noise(generator):
    outputs, y = generator.normal(size=(ROWS, 1)), generator.normal(size=ROWS)
    expected = scipy.stats.norm.logpdf(y, outputs[:, 0], 0.3)
    np.testing.assert_allclose(Gaussian(0.3).log_density(NONE, jnp.asarray(outputs), y), expected, rtol=1e-12)


def test_learnt_noise_is_the_exponential_of_its_parameter(generator):
    outputs, y = generator.normal(size=(ROWS, 1)), generator.normal(size=ROWS)
    expected = scipy.stats.norm.logpdf(y, outputs[:, 0], np.exp(-1.2))
    actual = Gaussian().log_density(jnp.asarray([-1.2]), jnp.asarray(outputs), y)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_the_prior_of_learnt_noise_is_half_normal_with_its_jacobian():
    likelihood = Gaussian(noise_prior=2.0)
    for eta in (-3.0, 0.0, 1.5):
        expected = scipy.stats.halfnorm.logpdf(np.exp(eta), scale=2.0) + eta
        assert float(likelihood.log_prior(jnp.asarray([eta]))) == pytest.approx(expected, rel=1e-12)
    eta = np.linspace(-30.0, 5.0, 4001)
    density = np.exp(jax.vmap(likelihood.log_prior)(jnp.asarray(eta)[:, None]))
    assert np.trapezoid(density, eta) == pytest.approx(1.0, abs=1e-6)


def test_noise_that_varies_is_the_bounded_exponential_of_the_second_output(generator):
    """Against a loop over rows in plain Python."""
    outputs, y = generator.normal(0.0, 3.0, size=(ROWS, 2)), generator.normal(size=ROWS)
    likelihood = VaryingGaussian(noise_prior=1.7)
    expected = []
    for (mean, second), value in zip(outputs, y, strict=True):
        noise = 0.85 * np.exp(BOUND * np.tanh(second / BOUND))
        expected.append(-0.5 * ((value - mean) / noise) ** 2 - np.log(noise) - 0.5 * np.log(2 * np.pi))
    found = likelihood.log_density(NONE, jnp.asarray(outputs), y)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_array_equal(likelihood.function(jnp.asarray(outputs)), outputs[:, 0])


def test_likelihoods_of_numbers_have_noise_and_those_of_classes_none():
    found = [isinstance(each, Noisy) for each in (Gaussian(), VaryingGaussian(), Bernoulli(), Categorical(3))]
    assert found == [True, True, False, False]


@pytest.mark.parametrize(
    "likelihood", [Gaussian(noise_prior=1.7), VaryingGaussian(noise_prior=1.7)], ids=repr
)
def test_noise_can_be_set_to_a_share_of_the_spread_of_y_everywhere(likelihood, generator):
    network = MLP(2, (3,), likelihood.outputs)
    w = generator.normal(size=network.size + likelihood.size)
    for place, value in likelihood.constant(network, 0.1).items():
        w[place] = value
    outputs = network.apply(w[: network.size], generator.normal(size=(ROWS, 2)))
    np.testing.assert_allclose(likelihood.scale(jnp.asarray(w[network.size :]), outputs), 0.17, rtol=1e-12)


def test_given_noise_and_networks_of_a_users_own_have_nothing_to_set():
    assert Gaussian(0.3).constant(MLP(2, (3,)), 0.1) == {}
    own = FunctionNetwork.wrap(lambda w, x: x @ w, np.zeros((2, 2)), outputs=2)
    assert VaryingGaussian().constant(own, 0.1) == {}


@pytest.mark.parametrize("exact", [True, False], ids=["float64", "float32"])
def test_noise_that_varies_is_finite_far_out_and_small_enough_to_matter_near(exact):
    """At the bound a residual of the size of y is still a number, and so is its slope."""
    with jax.enable_x64(exact):
        outputs = jnp.asarray([[1.0, -1e4], [1.0, 1e4], [1.0, -20.0], [1.0, 0.0]])
        likelihood = VaryingGaussian()

        def total(outputs):
            return jnp.sum(likelihood.log_density(NONE, outputs, np.zeros(4)))

        value, slope = jax.value_and_grad(total)(outputs)
        noise = np.asarray(likelihood.scale(NONE, outputs))
    assert np.isfinite(value)
    assert np.isfinite(slope).all()
    np.testing.assert_allclose(noise[[0, 1, 3]], [0.5e-4, 0.5e4, 0.5], rtol=1e-5)


def test_bernoulli_has_one_logit_that_of_the_second_class(generator):
    logits, y = generator.normal(size=(ROWS, 1)), np.array([0, 1, 1, 0, 1, 0])
    expected = scipy.stats.bernoulli.logpmf(y, scipy.special.expit(logits[:, 0]))
    np.testing.assert_allclose(Bernoulli().log_density(NONE, jnp.asarray(logits), y), expected, rtol=1e-12)
    probabilities = np.exp(Bernoulli().function(jnp.asarray(logits)))
    np.testing.assert_allclose(probabilities[:, 1], scipy.special.expit(logits[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)


def test_categorical_takes_the_log_softmax_of_the_class(generator):
    logits, y = generator.normal(size=(ROWS, 3)), np.array([0, 1, 2, 0, 1, 2])
    expected = scipy.special.log_softmax(logits, axis=1)
    actual = Categorical(3).log_density(NONE, jnp.asarray(logits), y)
    np.testing.assert_allclose(actual, expected[np.arange(ROWS), y], rtol=1e-12)
    np.testing.assert_allclose(Categorical(3).function(jnp.asarray(logits)), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "likelihood", [Gaussian(0.5), VaryingGaussian(), Bernoulli(), Categorical(3)], ids=repr
)
def test_row_weights_multiply(likelihood, generator):
    outputs = jnp.asarray(generator.normal(size=(ROWS, likelihood.outputs)))
    y, weights = np.array([0, 1, 0, 1, 1, 0]), np.array([1.0, 2.0, 0.5, 3.0, 0.0, 1.0])
    plain = likelihood.log_density(NONE, outputs, y)
    np.testing.assert_allclose(likelihood.log_density(NONE, outputs, y, weights), weights * plain, rtol=1e-12)


@pytest.mark.parametrize("exact", [True, False], ids=["float64", "float32"])
@pytest.mark.parametrize("likelihood", [Bernoulli(), Categorical(2)], ids=repr)
def test_logits_of_ten_thousand_are_finite_with_finite_gradients(likelihood, exact):
    with jax.enable_x64(exact):
        logits = jnp.asarray([[1e4], [-1e4], [1e4], [-1e4]]) * jnp.arange(1, likelihood.outputs + 1)
        y = np.array([1, 1, 0, 0])

        def total(outputs):
            return jnp.sum(likelihood.log_density(NONE, outputs, y))

        value, gradient = jax.value_and_grad(total)(logits)
    assert float(value) == pytest.approx(-2e4, rel=1e-6)
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda: Gaussian(0.0), "noise is a standard deviation"),
        (lambda: Gaussian(noise_prior=-1.0), "noise_prior is a standard deviation"),
        (lambda: Gaussian(np.nan), "positive and finite"),
        (lambda: VaryingGaussian(0.0), "noise_prior is a standard deviation"),
        (lambda: VaryingGaussian(bound=0.0), "bound is a positive, finite number"),
        (lambda: Categorical(1), "at least two classes"),
    ],
)
def test_likelihoods_that_cannot_be_are_refused(make, cause):
    with pytest.raises(ModelError, match=cause):
        make()
