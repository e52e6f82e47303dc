"""svgd, bbb, sgld and ensemble against posteriors in closed form, with and without a rule.

Tolerances: where a quantity is an average of independent members, 5 standard errors, estimated from the
members themselves; a small part of the posterior's own spread is added where stated, for optimisation that
has not quite ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from engines import LinearGaussian, context_of, drive, linear_gaussian
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.inference.engines.sgld import Sgld
from ocbnn.inference.engines.svgd import Svgd

RULED = pytest.mark.parametrize("rule", [False, True], ids=["data", "data-and-rule"])


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@cache
def case(rule: bool) -> tuple[LinearGaussian, Density, Context]:
    exact = linear_gaussian(rule)
    return exact, Density(exact.model), context_of(exact.model, jnp.float64)


def starts(members: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(members, 3))


def within_standard_errors(values: np.ndarray, expected: np.ndarray, slack: np.ndarray) -> None:
    """The mean over members (first axis) is the expected value, within 5 standard errors and the slack."""
    error = np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
    assert np.all(np.abs(np.mean(values, axis=0) - expected) <= 5 * error + slack), (
        np.mean(values, axis=0) - expected,
        error,
    )


def test_the_closed_form_is_where_the_gradient_of_the_log_density_vanishes_with_that_curvature() -> None:
    for rule in (False, True):
        exact, density, context = case(rule)
        slope = jax.grad(density.log_density)
        gradient, curvature = jax.jit(lambda w, c, slope=slope: (slope(w, c), jax.jacfwd(slope)(w, c)))(
            jnp.asarray(exact.mean), context
        )
        np.testing.assert_allclose(gradient, 0.0, atol=1e-10)
        np.testing.assert_allclose(-curvature, exact.precision, rtol=1e-10)


@RULED
def test_bbb_finds_the_best_diagonal_gaussian(rule: bool) -> None:
    exact, density, context = case(rule)
    engine = Bbb(steps=2000, learning_rate=0.03)
    q = drive(engine, density, starts(8), context, engine.steps, jax.random.key(1)).state.q
    best_sd = 1 / np.sqrt(np.diag(exact.precision))
    # The best sds are smaller than the marginal ones here, so that confusing the two fails.
    assert np.all(best_sd < 0.97 * np.sqrt(np.diag(exact.covariance)))
    within_standard_errors(np.asarray(q.mean), exact.mean, 0.005 * best_sd)
    within_standard_errors(np.asarray(q.scale), best_sd, 0.005 * best_sd)
    assert np.all(np.abs(q.scale / best_sd - 1) < 0.05)
    assert np.all(np.abs(q.mean - exact.mean) / best_sd < 0.1)


@RULED
def test_the_ensemble_without_anchors_is_the_mode_many_times(rule: bool) -> None:
    exact, density, context = case(rule)
    engine = Ensemble(steps=1500, learning_rate=0.05)
    state = drive(engine, density, starts(3), context, engine.steps, jax.random.key(0)).state
    np.testing.assert_allclose(state.positions, np.tile(exact.mean, (3, 1)), atol=1e-4)


@RULED
def test_anchored_members_are_draws_of_the_posterior_and_a_rule_only_narrows_them(rule: bool) -> None:
    exact, density, context = case(rule)
    engine = Ensemble(steps=800, learning_rate=0.05, anchored=True)
    state = drive(engine, density, starts(400), context, engine.steps, jax.random.key(2)).state
    members = np.asarray(state.positions)
    expected = exact.covariance @ exact.information @ exact.covariance
    if not rule:
        np.testing.assert_allclose(expected, exact.covariance, rtol=1e-9)
    sd = np.sqrt(np.diag(expected))
    within_standard_errors(members, exact.mean, 1e-3 * sd)
    deviations = members - exact.mean
    products = deviations[:, :, None] * deviations[:, None, :]
    within_standard_errors(products, expected, 1e-3 * np.outer(sd, sd))


@RULED
def test_sgld_with_a_constant_step_has_the_bias_of_unadjusted_langevin(rule: bool) -> None:
    """Its stationary covariance is (A − ε A²/4)⁻¹ for a precision A: off by εI/4 in first order."""
    exact, density, context = case(rule)
    largest = np.linalg.eigvalsh(exact.precision)[-1]
    step_size = 0.5 / largest
    engine = Sgld(step_size=step_size, decay=0.0)
    positions = exact.mean + starts(32) / np.sqrt(largest)
    draws = np.asarray(drive(engine, density, positions, context, 5000, jax.random.key(3)).draws)[:, 1000:]
    biased = np.linalg.inv(exact.precision - step_size / 4 * exact.precision @ exact.precision)
    means = draws.mean(axis=1)
    within_standard_errors(means, exact.mean, np.zeros(3))
    deviations = draws - exact.mean
    covariances = np.einsum("ctj,ctk->cjk", deviations, deviations) / draws.shape[1]
    within_standard_errors(covariances, biased, np.zeros((3, 3)))
    # The bound that people use: no more than 15 % too wide at half the largest stable precision × step.
    assert np.all(np.diag(biased) / np.diag(exact.covariance) < 1.15)


def test_sgld_with_noisy_minibatches_and_falling_steps_stays_within_a_known_bias() -> None:
    exact, density, context = case(False)
    engine = Sgld(step_size=0.02, offset=10.0, decay=0.55)
    chains, batch = 16, 4
    rows = len(context.data.y)

    def one(state, key):  # type: ignore[no-untyped-def]
        pick_key, key = jax.random.split(key)
        chosen = jax.random.choice(pick_key, rows, (batch,), replace=False)
        data = context.data._replace(
            inputs=context.data.inputs[chosen],
            y=context.data.y[chosen],
            weights=jnp.full(batch, rows / batch),
        )
        state, _ = engine.step(density, key, state, context._replace(data=data))
        return state, engine.draws(key, state, 1)[:, 0]

    @jax.jit
    def run(positions, key):  # type: ignore[no-untyped-def]
        state = engine.init(density, key, positions, context)
        return jax.lax.scan(one, state, jax.random.split(key, 10_000))[1]

    draws = np.asarray(run(jnp.asarray(starts(chains)), jax.random.key(5)))[2000:]
    sd = np.sqrt(np.diag(exact.covariance))
    within_standard_errors(draws.mean(axis=0), exact.mean, 0.1 * sd)
    ratio = draws.var(axis=(0, 1)) / sd**2
    # Gradient noise adds to the injected one: too wide, never too narrow beyond Monte Carlo error.
    assert np.all((ratio > 0.9) & (ratio < 1.6)), ratio


@RULED
def test_svgd_has_the_mean_and_too_little_variance_less_so_with_more_particles(rule: bool) -> None:
    exact, density, context = case(rule)
    engine = Svgd(steps=800, learning_rate=0.05)
    variance = np.diag(exact.covariance)
    ratios = {}
    for particles in (5, 50):
        state = drive(engine, density, starts(particles), context, engine.steps, jax.random.key(0)).state
        positions = np.asarray(engine.draws(jax.random.key(0), state, 1))[0]
        assert np.all(np.abs(positions.mean(axis=0) - exact.mean) < 0.1 * np.sqrt(variance))
        ratios[particles] = np.mean(positions.var(axis=0) / variance)
    assert ratios[5] < ratios[50] < 1.05
    assert ratios[50] > 0.75
