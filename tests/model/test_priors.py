"""Base priors: densities, draws and divergences of Gaussians."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import invgamma, kstest, multivariate_t, norm

from ocbnn.errors import ModelError
from ocbnn.model.networks import MLP
from ocbnn.model.priors import (
    DiagonalGaussian,
    IsotropicGaussian,
    LayerScales,
    Prior,
    as_diagonal,
    kl_divergence,
)

MEAN, SD = np.array([0.5, -1.0, 2.0]), np.array([0.1, 1.0, 3.0])


@pytest.fixture
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.usefixtures("_float64")
def test_the_density_of_an_isotropic_prior_is_that_of_independent_gaussians():
    w, scale = np.array([0.3, -2.0, 1.0]), np.array([1.0, 0.5, 3.0])
    for each in (0.7, scale):
        expected = norm.logpdf(w, 0.0, each).sum()
        assert float(IsotropicGaussian(3, each).log_density(jnp.asarray(w))) == pytest.approx(
            expected, rel=1e-12
        )
    assert isinstance(IsotropicGaussian(3), Prior)


@pytest.mark.usefixtures("_float64")
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


def test_the_density_of_a_diagonal_prior_is_that_of_independent_normals():
    w = np.array([0.6, 0.0, -4.0])
    assert float(DiagonalGaussian(MEAN, SD).log_density(w)) == pytest.approx(norm.logpdf(w, MEAN, SD).sum())


def test_draws_of_a_diagonal_prior_have_its_means_and_standard_deviations():
    draws = DiagonalGaussian(MEAN, SD).draws(20_000, 1)
    np.testing.assert_allclose(draws.mean(axis=0), MEAN, atol=5 * SD.max() / np.sqrt(20_000))
    np.testing.assert_allclose(draws.std(axis=0) / SD, 1.0, atol=5 / np.sqrt(40_000))
    keys = jax.random.split(jax.random.key(0), 4000)
    sampled = np.asarray(jax.vmap(DiagonalGaussian(MEAN, SD).sample)(keys))
    np.testing.assert_allclose((sampled.mean(axis=0) - MEAN) / SD, 0.0, atol=5 / np.sqrt(4000))


def test_kl_is_the_mean_log_ratio_of_densities():
    one, other = DiagonalGaussian(MEAN, SD), DiagonalGaussian(np.zeros(3), np.full(3, 2.0))
    draws = one.draws(50_000, 2)
    ratio = norm.logpdf(draws, MEAN, SD).sum(axis=1) - norm.logpdf(draws, 0.0, 2.0).sum(axis=1)
    assert one.kl_to(other) == pytest.approx(ratio.mean(), abs=5 * ratio.std() / np.sqrt(50_000))
    assert one.kl_to(one) == pytest.approx(0.0, abs=1e-12)
    assert float(kl_divergence(jnp.asarray(MEAN), jnp.asarray(SD), other)) == pytest.approx(
        one.kl_to(other), rel=1e-5
    )


def test_isotropic_priors_are_diagonal_ones_and_others_are_not():
    gaussian = as_diagonal(IsotropicGaussian(3, np.array([1.0, 2.0, 3.0])))
    assert gaussian is not None
    np.testing.assert_array_equal(gaussian.sd, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(gaussian.mean, 0.0)
    assert as_diagonal(object()) is None


@pytest.mark.parametrize(
    ("mean", "sd"),
    [([0.0], [0.0]), ([0.0], [-1.0]), ([np.nan], [1.0]), ([0.0, 1.0], [1.0]), ([0.0], [np.inf])],
)
def test_what_is_no_gaussian_is_refused(mean, sd):
    with pytest.raises(ModelError):
        DiagonalGaussian(np.array(mean), np.array(sd))


LAYERS, SCALE = (3, 2), np.array([1.0, 0.5, 2.0, 0.1, 4.0])


@pytest.mark.usefixtures("_float64")
def test_layers_of_learnt_scale_are_multivariate_student_ts():
    w = np.array([0.3, -2.0, 1.0, 0.2, -5.0])
    expected = sum(
        multivariate_t.logpdf(w[part], None, np.diag(SCALE[part] ** 2), df=2.5)
        for part in (slice(0, 3), slice(3, 5))
    )
    prior = LayerScales(LAYERS, SCALE, 2.5)
    assert float(prior.log_density(jnp.asarray(w))) == pytest.approx(expected, rel=1e-12)
    assert isinstance(prior, Prior)
    assert as_diagonal(prior) is None


@pytest.mark.usefixtures("_float64")
def test_a_student_t_is_a_gaussian_whose_scale_is_integrated_out():
    """By quadrature over s² ~ inverse-gamma(degrees/2, degrees/2), layer by layer."""
    w, degrees = np.array([0.3, -2.0, 1.0, 0.2, -5.0]), 4.0
    total = 0.0
    for part in (slice(0, 3), slice(3, 5)):
        log_s = np.linspace(-6.0, 8.0, 20_001)
        density = invgamma.pdf(np.exp(2 * log_s), degrees / 2, scale=degrees / 2) * 2 * np.exp(2 * log_s)
        scales = np.exp(log_s)[:, None] * SCALE[part]
        likelihood = np.exp(norm.logpdf(w[part], 0.0, scales).sum(axis=1))
        total += np.log(np.trapezoid(density * likelihood, log_s))
    assert float(LayerScales(LAYERS, SCALE, degrees).log_density(jnp.asarray(w))) == pytest.approx(
        total, abs=1e-8
    )


@pytest.mark.usefixtures("_float64")
def test_draws_of_layers_have_the_density_that_they_are_said_to_have():
    prior = LayerScales(LAYERS, SCALE, 4.0)
    draws = np.asarray(jax.vmap(prior.sample)(jax.random.split(jax.random.key(0), 4000)))
    for index in range(5):
        assert kstest(draws[:, index] / SCALE[index], "t", args=(4.0,)).pvalue > 1e-3
    # Weights of a layer share their scale, those of two layers do not.
    size = np.abs(draws / SCALE)
    shared, apart = np.corrcoef(size[:, 0], size[:, 1])[0, 1], np.corrcoef(size[:, 0], size[:, 3])[0, 1]
    assert shared > 0.15
    assert abs(apart) < 4 / np.sqrt(4000)


@pytest.mark.usefixtures("_float64")
def test_layers_may_take_their_weights_in_any_order():
    order = np.array([4, 0, 2, 3, 1])
    plain = LayerScales(LAYERS, SCALE[order], 2.5)
    prior = LayerScales(LAYERS, SCALE, 2.5, order, ("one", "other"))
    w = np.array([0.3, -2.0, 1.0, 0.2, -5.0])
    assert float(prior.log_density(jnp.asarray(w))) == pytest.approx(
        float(plain.log_density(jnp.asarray(w[order]))), rel=1e-12
    )
    np.testing.assert_allclose(prior.scales(w), plain.scales(w[order]))
    draws = np.asarray(jax.vmap(prior.sample)(jax.random.split(jax.random.key(0), 4000)))
    size = np.abs(draws / SCALE)
    # The places 4, 0 and 2 share a scale, and so do 3 and 1.
    assert min(np.corrcoef(size[:, i], size[:, j])[0, 1] for i, j in ((4, 0), (0, 2), (3, 1))) > 0.12
    assert abs(np.corrcoef(size[:, 4], size[:, 3])[0, 1]) < 4 / np.sqrt(4000)


def test_layers_have_names_and_an_order_that_fit():
    assert LayerScales((3, 2, 1), np.ones(6)).names == ("hidden layer 1", "hidden layer 2", "output layer")
    with pytest.raises(ModelError, match="1 names"):
        LayerScales(LAYERS, SCALE, names=("one",))
    with pytest.raises(ModelError, match="each of the 5 weights once"):
        LayerScales(LAYERS, SCALE, order=np.array([0, 1, 2, 3, 3]))


def test_weights_tell_the_scale_of_their_layer():
    prior = LayerScales((2000, 1), np.ones(2001), 4.0)
    w = np.concatenate([np.random.default_rng(0).normal(0.0, 3.0, 2000), [0.0]])
    assert prior.scales(w)[0] == pytest.approx(3.0, rel=0.05)
    assert prior.scales(np.stack([w, w])).shape == (2, 2)
    # One weight says little: the scale stays near its median.
    assert prior.scales(w)[1] == pytest.approx(np.sqrt(4.0 / 5.0))


@pytest.mark.parametrize(
    ("layers", "degrees", "words"), [((3, 0), 4.0, "at least one weight"), ((3, 2), 0.0, "degrees")]
)
def test_layers_that_cannot_be_are_refused(layers, degrees, words):
    with pytest.raises(ModelError, match=words):
        LayerScales(layers, np.ones(sum(layers)), degrees)
