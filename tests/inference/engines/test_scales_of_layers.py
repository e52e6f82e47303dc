"""Where the prior learns scales of layers: engines that sample follow the model's own density."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.bbb import Variational, elbo_and_gradient
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.inference.engines.optimiser import slopes
from ocbnn.inference.engines.sgld import Sgld
from ocbnn.inference.engines.svgd import Svgd
from ocbnn.model import Model
from ocbnn.model.likelihoods import Gaussian
from ocbnn.model.networks import MLP
from ocbnn.model.priors import LayerScales

ALONE = Context(None, (), ())
AT = jnp.array([[2.0, 3.0], [-1.0, 0.5]])


def density() -> Density:
    """Two weights of one layer, and no rows."""
    base = LayerScales((2,), 1.0, 8.0, names=("output layer",))
    return Density(Model(MLP(1, (), 1), Gaussian(1.0), base))


def gradients(of: Density) -> np.ndarray:
    return np.asarray(jax.vmap(jax.grad(lambda w: of.log_density(w, ALONE)))(AT))


def test_slopes_are_those_of_the_density_that_is_given():
    found = slopes(density(), AT, ALONE)
    np.testing.assert_allclose(found.gradient[0], [-20 / 21, -30 / 21], rtol=1e-6)
    np.testing.assert_allclose(found.gradient, gradients(density()), rtol=1e-6)


def first_move(engine: object) -> np.ndarray:
    state = engine.init(density(), jax.random.key(0), AT, ALONE)
    return np.asarray(engine.step(density(), jax.random.key(1), state, ALONE)[0].positions - AT)


def test_sgld_moves_along_the_models_own_gradient():
    near, far = (first_move(Sgld(step_size=step, decay=0.0)) for step in (0.01, 0.04))
    # Noise grows with the root of the step size: without it what is left is (ε₂/2 − √ε₂ √ε₁/2) · gradient.
    np.testing.assert_allclose((far - 2 * near) / 0.01, gradients(density()), rtol=1e-3)


def test_svgd_follows_the_models_own_gradient():
    # Alone, a particle's direction is its gradient.
    engine = Svgd(optimizer="sgd", decay="constant", learning_rate=0.01)
    state = engine.init(density(), jax.random.key(0), AT[:1], ALONE)
    moved = engine.step(density(), jax.random.key(1), state, ALONE)[0].positions - AT[:1]
    np.testing.assert_allclose(moved / 0.01, gradients(density())[:1], rtol=1e-3)


def test_an_ensemble_climbs_with_the_scales_held():
    moved = first_move(Ensemble(optimizer="sgd", decay="constant", learning_rate=0.01))
    np.testing.assert_allclose(moved / 0.01, gradients(density().held), rtol=1e-3)
    np.testing.assert_allclose(moved / 0.01, -AT, rtol=1e-3)


@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_the_elbo_of_bbb_is_about_the_models_own_prior(scale: float):
    mean = jnp.array([2.0, 3.0])
    q = Variational(mean, jnp.full(2, np.log(np.expm1(scale))))
    elbo, _ = elbo_and_gradient(density(), jax.random.key(0), q, ALONE, 20_000)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(*(2.0 + scale * nodes, 3.0 + scale * nodes), indexing="ij"), axis=-1)
    values = jax.vmap(jax.vmap(density().model.base.log_density))(jnp.asarray(grid))
    expected = np.asarray(weights) @ np.asarray(values) @ weights / (2 * np.pi)
    entropy = 2 * (0.5 + 0.5 * np.log(2 * np.pi) + np.log(scale))
    draws = np.asarray(values).std() / np.sqrt(20_000)
    assert float(elbo) == pytest.approx(expected + entropy, abs=5 * draws)
    held = replace(density().model, base=density().held.model.base)
    assert abs(float(elbo_and_gradient(Density(held), jax.random.key(0), q, ALONE, 20_000)[0] - elbo)) > 1.0
