"""What tilts an anchored ensemble's members, and that members are independent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from engines import context_of, drive, linear_gaussian
from ocbnn.errors import InferenceError
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.ensemble import Ensemble, drawn_tilt
from ocbnn.model import Data, Model
from ocbnn.model.likelihoods import Bernoulli, Categorical, Gaussian
from ocbnn.model.networks import MLP
from ocbnn.model.priors import IsotropicGaussian


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def tilts(density: Density, w: np.ndarray, context: Context, count: int) -> np.ndarray:
    keys = jax.random.split(jax.random.key(0), count)
    draw = jax.jit(jax.vmap(lambda key, c: drawn_tilt(density, key, jnp.asarray(w), c), (0, None)))
    return np.asarray(draw(keys, context))


def same_moments(draws: np.ndarray, covariance: np.ndarray) -> None:
    """Mean 0 and this covariance, within 5 standard errors."""
    error = np.sqrt(np.diag(covariance) / len(draws))
    assert np.all(np.abs(draws.mean(axis=0)) < 5 * error)
    products = draws[:, :, None] * draws[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(products.mean(axis=0) - covariance) < 5 * error + 1e-12)


def test_the_tilt_has_the_information_of_prior_and_rows_as_covariance() -> None:
    exact = linear_gaussian(rule=False)
    density, context = Density(exact.model), context_of(exact.model)
    same_moments(tilts(density, np.ones(3), context, 3000), exact.information)
    same_moments(tilts(density, np.ones(3), context._replace(data=None), 3000), np.eye(3))


def test_a_row_of_weight_two_counts_like_two_rows() -> None:
    exact = linear_gaussian(rule=False)
    density, context = Density(exact.model), context_of(exact.model)
    doubled = context._replace(data=context.data._replace(weights=jnp.full(12, 2.0)))
    same_moments(tilts(density, np.ones(3), doubled, 3000), 2.0 * exact.information - np.eye(3))


@pytest.mark.parametrize("likelihood", [Bernoulli(), Categorical(3)])
def test_the_tilt_of_a_classifier_is_its_fisher_information(likelihood: Bernoulli | Categorical) -> None:
    """For logits linear in w the Fisher information is the Hessian, whatever the labels are."""
    network = MLP(1, (), likelihood.outputs)
    model = Model(network, likelihood, IsotropicGaussian(network.size, 2.0))
    density = Density(model)
    x = np.linspace(-1.0, 2.0, 6)[:, None]
    context = Context(Data(jnp.asarray(x), jnp.zeros(6)), (), ())
    w = np.linspace(-0.5, 0.8, network.size)
    curvature = jax.jit(jax.hessian(lambda w, c: density.log_density(w, c)))(jnp.asarray(w), context)
    same_moments(tilts(density, w, context, 4000), -np.asarray(curvature))


def test_learnt_noise_is_not_tilted() -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 0.5]})
    model = Model.build(frame=frame, target="y", hidden=())
    assert isinstance(model.likelihood, Gaussian)
    drawn = tilts(Density(model), np.zeros(3), context_of(model), 5)
    assert np.all(drawn[:, 2] == 0.0)
    assert np.all(drawn[:, :2] != 0.0)


def test_anchors_of_another_prior_are_refused_in_words() -> None:
    @dataclass(frozen=True)
    class Flat:
        size: int = 2

        def log_density(self, w):  # type: ignore[no-untyped-def]
            return jnp.zeros(())

        def sample(self, key):  # type: ignore[no-untyped-def]
            return jnp.zeros(2)

    model = Model(MLP(1, (), 1), Gaussian(0.1), Flat())
    with pytest.raises(InferenceError, match="Gaussian base prior, not from Flat; use anchored=False"):
        Ensemble(anchored=True).init(
            Density(model), jax.random.key(0), jnp.zeros((2, 2)), Context(None, (), ())
        )


def test_members_do_not_know_of_each_other() -> None:
    exact = linear_gaussian(rule=False)
    density, context = Density(exact.model), context_of(exact.model)
    start = np.random.default_rng(0).normal(size=(3, 3))
    engine = Ensemble(steps=50)
    together = drive(engine, density, start, context, 50, jax.random.key(0)).state.positions
    changed = start.copy()
    changed[1:] += 1.0
    other = drive(engine, density, changed, context, 50, jax.random.key(0)).state.positions
    np.testing.assert_array_equal(together[0], other[0])
    changed[1] = 1e200
    state, _, info = drive(engine, density, changed, context, 50, jax.random.key(0))
    np.testing.assert_array_equal(state.positions[0], together[0])
    np.testing.assert_array_equal(state.positions[1], changed[1])
    assert np.all(info.diverged[:, 1])
    assert not np.any(info.diverged[:, 0])
    np.testing.assert_array_equal(engine.draws(jax.random.key(0), state, 9), state.positions[None])
