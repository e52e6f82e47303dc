"""Errata L1 and L2: where the reference code's likelihoods depart from the paper."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from ocbnn.model.likelihoods import Bernoulli, Gaussian


def test_l1_noise_is_a_standard_deviation_for_several_outputs_too():
    generator = np.random.default_rng(0)
    outputs, y = generator.normal(size=(4, 3)), generator.normal(size=(4, 3))
    expected = [
        scipy.stats.multivariate_normal.logpdf(row, mean, 0.3**2 * np.eye(3))
        for row, mean in zip(y, outputs, strict=True)
    ]
    with jax.enable_x64(True):
        actual = Gaussian(0.3, outputs=3).log_density(jnp.zeros(0), jnp.asarray(outputs), y)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_l2_no_logit_overflows():
    for exact in (True, False):
        with jax.enable_x64(exact):
            logits = jnp.asarray([[-1e6], [-1e3], [1e3], [1e6]])
            log_density = Bernoulli().log_density(jnp.zeros(0), logits, np.array([1, 1, 1, 1]))
        np.testing.assert_allclose(log_density, [-1e6, -1e3, 0.0, 0.0], rtol=1e-6)
