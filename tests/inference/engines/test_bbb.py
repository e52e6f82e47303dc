"""The ELBO of bbb: which part is in closed form, which by Monte Carlo, and that both add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from engines import context_of, drive, linear_gaussian
from ocbnn.errors import InferenceError
from ocbnn.inference.density import Density
from ocbnn.inference.engines.bbb import (
    Bbb,
    Variational,
    besides_base,
    elbo_and_gradient,
    entropy,
    expected_base,
)
from ocbnn.model import Model
from ocbnn.model.likelihoods import Gaussian
from ocbnn.model.networks import MLP, as_key
from ocbnn.model.priors import IsotropicGaussian

RULE = "if 0 <= x <= 1 then 0 <= y <= 1"


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@dataclass(frozen=True)
class Laplace:
    """A base prior whose expectation bbb does not know."""

    size: int

    def log_density(self, w):  # type: ignore[no-untyped-def]
        return -jnp.sum(jnp.abs(w)) - self.size * jnp.log(2.0)

    def sample(self, key):  # type: ignore[no-untyped-def]
        return jax.random.laplace(as_key(key), (self.size,))


def small(base: object = None) -> Density:
    """A network of 10 weights with a rule and learnt noise."""
    x = np.linspace(-2.0, 2.0, 7)
    frame = pd.DataFrame({"x": x, "y": np.sin(x)})
    return Density(Model.build(frame=frame, target="y", rules=[RULE], hidden=(3,), points=5, base=base))


def wide(size: int) -> Variational:
    random = np.random.default_rng(2)
    return Variational(jnp.asarray(random.normal(size=size)), jnp.asarray(random.normal(size=size) - 1.0))


def test_the_parts_add_up_to_the_log_density_for_any_base_prior() -> None:
    for base in (IsotropicGaussian(10, np.linspace(0.5, 2.0, 10)), Laplace(10)):
        density = small(base)
        w = jnp.asarray(np.random.default_rng(1).normal(size=density.size))
        parts, whole = jax.jit(lambda w, c, d=density: (besides_base(d, w, c), d.log_density(w, c)))(
            w, context_of(density.model)
        )
        known = base.log_density(w[:10]) if isinstance(base, IsotropicGaussian) else 0.0
        np.testing.assert_allclose(parts + known, whole, rtol=1e-12)


def test_base_prior_and_entropy_are_the_closed_form_kl_on_the_networks_weights_alone() -> None:
    density = small(IsotropicGaussian(10, 1.7))
    q = wide(density.size)
    kl = np.sum(np.log(1.7 / q.scale[:10]) + (q.scale[:10] ** 2 + q.mean[:10] ** 2) / (2 * 1.7**2) - 0.5)
    noise_entropy = norm(q.mean[10], q.scale[10]).entropy()
    value = expected_base(density, q.mean, q.scale) + entropy(q.scale)
    np.testing.assert_allclose(value, noise_entropy - kl, rtol=1e-12)
    assert expected_base(small(Laplace(10)), q.mean, q.scale) == 0.0


@pytest.mark.parametrize("base", [IsotropicGaussian(10), Laplace(10)], ids=["gaussian", "laplace"])
@pytest.mark.slow
def test_the_estimate_and_its_gradient_are_unbiased(base: object) -> None:
    """Against log p − log q averaged over other draws, and against autodiff of that: 4 standard errors."""
    density = small(base)
    context, draws = context_of(density.model), 4000
    q = Variational(0.3 * wide(density.size).mean, jnp.full(density.size, -2.0))

    def naive(q, noise):  # type: ignore[no-untyped-def]
        w = q.mean + q.scale * noise
        log_q = jnp.sum(-0.5 * ((w - q.mean) / q.scale) ** 2 - jnp.log(q.scale)) - 0.5 * w.size * np.log(
            2 * np.pi
        )
        return density.log_density(w, context) - log_q

    noise = jnp.asarray(np.random.default_rng(8).normal(size=(draws, density.size)))
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(naive), (None, 0)))(q, noise)
    one = jax.jit(jax.vmap(lambda key: elbo_and_gradient(density, key, q, context, 5)))
    elbos, slopes = one(jax.random.split(jax.random.key(0), draws // 5))
    for ours, theirs in (
        (elbos[:, None], values[:, None]),
        (slopes.mean, gradients.mean),
        (slopes.raw_scale, gradients.raw_scale),
    ):
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
        assert np.all(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 4 * error)


def test_at_the_exact_posterior_the_elbo_is_the_log_evidence_less_what_the_diagonal_loses() -> None:
    """KL from the best diagonal Gaussian to N(m, A⁻¹) is ½ (Σ log A_ii − log det A)."""
    exact = linear_gaussian(rule=True)
    density, context = Density(exact.model), context_of(exact.model)
    scale = 1 / np.sqrt(np.diag(exact.precision))
    q = Variational(jnp.asarray(exact.mean), jnp.asarray(np.log(np.expm1(scale))))
    elbos, _ = jax.jit(jax.vmap(lambda key: elbo_and_gradient(density, key, q, context, 5)))(
        jax.random.split(jax.random.key(4), 2000)
    )
    sign, log_determinant = np.linalg.slogdet(exact.precision)
    assert sign > 0
    evidence = (
        jax.jit(density.log_density)(exact.mean, context) + 1.5 * np.log(2 * np.pi) - log_determinant / 2
    )
    lost = 0.5 * (np.sum(np.log(np.diag(exact.precision))) - log_determinant)
    error = np.std(elbos) / np.sqrt(len(elbos))
    assert abs(np.mean(elbos) - (evidence - lost)) < 4 * error


def test_draws_are_those_of_q() -> None:
    q = wide(3)
    state = Bbb().init(small(), jax.random.key(0), q.mean[None], None)  # type: ignore[arg-type]
    state = state._replace(q=Variational(q.mean[None], q.raw_scale[None]))
    draws = np.asarray(Bbb().draws(jax.random.key(6), state, 4000))
    assert draws.shape == (1, 4000, 3)
    assert np.all(np.abs(draws[0].mean(axis=0) - q.mean) < 4 * q.scale / np.sqrt(4000))
    np.testing.assert_allclose(draws[0].std(axis=0), q.scale, rtol=4 / np.sqrt(2 * 4000))


def test_the_objective_rises_and_a_step_that_is_not_finite_is_named_and_not_taken() -> None:
    density = small()
    context = context_of(density.model)
    engine = Bbb(steps=200)
    start = 0.3 * np.random.default_rng(0).normal(size=(2, density.size))
    _, _, info = drive(engine, density, start, context, 200, jax.random.key(0))
    assert np.mean(info.log_density[-20:]) > np.mean(info.log_density[:20]) + 5.0
    broken = context._replace(data=context.data._replace(y=context.data.y * jnp.nan))
    state, _, info = drive(engine, density, start, broken, 200, jax.random.key(0))
    assert np.all(info.diverged)
    np.testing.assert_array_equal(state.q.mean, start)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draws_per_step": 0}, "at least one draw"),
        ({"initial_scale": 0.0}, "not positive"),
        ({"initial_mean": "one"}, '"start", "zero" or "normal"'),
    ],
)
def test_settings_that_cannot_work_are_refused_in_words(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InferenceError, match=message):
        Bbb(**settings)  # type: ignore[arg-type]


def test_it_serves_a_plain_prior_without_rules() -> None:
    network = MLP(1, (2,), 1)
    density = Density(Model(network, Gaussian(0.3), IsotropicGaussian(network.size)))
    context = context_of(density.model)
    engine = Bbb(steps=600, learning_rate=0.02, initial_scale=0.3)
    state, _, info = drive(engine, density, np.ones((1, network.size)), context, 600, jax.random.key(0))
    # Without data and rules q becomes the prior, and the objective, −KL, becomes 0; here nothing is random.
    np.testing.assert_allclose(state.q.mean, 0.0, atol=1e-3)
    np.testing.assert_allclose(state.q.scale, 1.0, atol=1e-3)
    np.testing.assert_allclose(info.log_density[-1], 0.0, atol=1e-4)
