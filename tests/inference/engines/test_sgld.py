"""Step sizes, cycles and preconditioning of sgld."""

from __future__ import annotations

import re
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from engines import LinearGaussian, context_of, drive, linear_gaussian
from ocbnn.errors import InferenceError
from ocbnn.inference import infer
from ocbnn.inference.density import Density
from ocbnn.inference.engines.sgld import NOISE_SHARE, Sgld, SgldState, largest_curvatures
from ocbnn.model import Data, Model


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_step_sizes_fall_as_a_power_of_the_step() -> None:
    t = jnp.arange(5)
    sizes = Sgld(step_size=0.3, offset=2.0, decay=0.6).step_size_at(t, 0.3)
    np.testing.assert_allclose(sizes, 0.3 * (2.0 + np.arange(5)) ** -0.6, rtol=1e-12)


def test_cycles_start_anew_fall_and_sample_only_in_their_last_part() -> None:
    engine = Sgld(step_size=0.1, cycle=10, exploration=0.6, warmup=10)
    t = jnp.arange(20)
    sizes = np.asarray(engine.step_size_at(t, 0.1))
    np.testing.assert_array_equal(sizes[:10], sizes[10:])
    assert np.all(np.diff(sizes[:10]) < 0)
    assert sizes[9] > 0
    np.testing.assert_array_equal(engine.samples_at(t), ([False] * 6 + [True] * 4) * 2)


def test_draws_of_cycles_come_from_sampling_phases_only() -> None:
    exact = linear_gaussian(rule=False)
    engine = Sgld(step_size=1e-3, cycle=10, exploration=0.6, warmup=10)
    start = np.ones((2, 3))
    driven = drive(engine, Density(exact.model), start, context_of(exact.model), 30, jax.random.key(0))
    moves = np.any(np.diff(np.asarray(driven.draws), axis=1) != 0, axis=(0, 2))
    sampling = np.asarray(engine.samples_at(jnp.arange(30)))
    np.testing.assert_array_equal(moves, sampling[1:])


def test_exploration_is_plain_ascent() -> None:
    exact = linear_gaussian(rule=False)
    engine = Sgld(step_size=5e-3, cycle=400, exploration=0.99, warmup=400)
    density, context = Density(exact.model), context_of(exact.model)
    state = drive(engine, density, np.ones((1, 3)), context, 390, jax.random.key(0)).state
    np.testing.assert_allclose(state.positions[0], exact.mean, atol=1e-2)
    np.testing.assert_array_equal(state.kept, np.ones((1, 3)))


def test_a_member_that_is_not_finite_is_named_and_stays() -> None:
    exact = linear_gaussian(rule=False)
    start = np.array([[0.0, 0.0, 0.0], [1e200, 0.0, 0.0]])
    for preconditioned in (False, True):
        engine = Sgld(preconditioned=preconditioned)
        state, _, info = drive(
            engine, Density(exact.model), start, context_of(exact.model), 2, jax.random.key(0)
        )
        np.testing.assert_array_equal(info.diverged, [[False, True]] * 2)
        np.testing.assert_array_equal(state.positions[1], start[1])
        assert np.all(state.positions[0] != start[0])
        assert np.all(np.isfinite(state.squares))


def test_preconditioning_takes_the_same_steps_whatever_the_scale_of_a_weight() -> None:
    """With P = 1/√V a density ten times narrower gives ten times larger gradients and narrower steps."""
    engine = Sgld(step_size=0.1, decay=0.0, preconditioned=True, damping=0.0)
    exact = linear_gaussian(rule=False)
    state = drive(
        engine, Density(exact.model), np.ones((4, 3)), context_of(exact.model), 200, jax.random.key(0)
    ).state
    steepness = np.sqrt(np.asarray(state.squares).mean(axis=0))
    expected = np.sqrt(np.diag(exact.precision))
    # V follows the squared gradients, whose mean under the posterior is A's diagonal.
    np.testing.assert_allclose(steepness / steepness.mean(), expected / expected.mean(), rtol=0.5)


def test_the_first_step_is_one_over_the_largest_curvature_unless_given() -> None:
    exact = linear_gaussian(rule=False)
    density, context, key = Density(exact.model), context_of(exact.model), jax.random.key(0)
    largest = np.linalg.eigvalsh(exact.precision).max()
    start = np.ones((2, 3))
    np.testing.assert_allclose(
        largest_curvatures(density, key, jnp.asarray(start), context), [largest, largest], rtol=1e-6
    )
    np.testing.assert_allclose(Sgld().init(density, key, start, context).step_size, 1 / largest, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": 0.0}, "needs step_size = a > 0"),
        ({"offset": 0.0}, "offset = b > 0"),
        ({"decay": -1.0}, "decay = γ ≥ 0"),
        ({"cycle": 1}, "at least two steps"),
        ({"cycle": 100, "exploration": 1.0}, r"share of it in \[0, 1\)"),
        ({"cycle": 100, "exploration": 0.5, "warmup": 50}, "raise warmup from 50 to 51"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_words(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InferenceError, match=message):
        Sgld(**settings)  # type: ignore[arg-type]


def minibatch_draws(
    engine: Sgld, batch: int, chains: int, steps: int
) -> tuple[LinearGaussian, np.ndarray, SgldState]:
    """Draws of every step, each of which sees other rows, so many at a time."""
    exact = linear_gaussian(rule=False)
    density, context = Density(exact.model), context_of(exact.model)
    rows = len(context.data.y)

    def one(state, key):  # type: ignore[no-untyped-def]
        pick_key, key = jax.random.split(key)
        chosen = jax.random.choice(pick_key, rows, (batch,), replace=False)
        weights = jnp.full(batch, rows / batch)
        data = context.data._replace(
            inputs=context.data.inputs[chosen], y=context.data.y[chosen], weights=weights
        )
        state, _ = engine.step(density, key, state, context._replace(data=data))
        return state, engine.draws(key, state, 1)[:, 0]

    @jax.jit
    def run(positions, key):  # type: ignore[no-untyped-def]
        state = engine.init(density, key, positions, context)
        return jax.lax.scan(one, state, jax.random.split(key, steps))

    start = exact.mean + np.random.default_rng(0).normal(size=(chains, 3)) * np.sqrt(
        np.diag(exact.covariance)
    )
    state, draws = run(jnp.asarray(start), jax.random.key(5))
    return exact, np.asarray(draws)[engine.warmup :], state


def test_the_noise_of_minibatches_does_not_widen_draws_by_more_than_a_tenth() -> None:
    engine = Sgld(decay=0.0)
    exact, draws, state = minibatch_draws(engine, batch=2, chains=32, steps=42_000)
    ratio = draws.std(axis=(0, 1)) / np.sqrt(np.diag(exact.covariance))
    assert np.all((ratio > 0.9) & (ratio < 1.1)), ratio
    assert engine.widening(state) == pytest.approx(np.sqrt(1.0 + NOISE_SHARE) - 1.0, rel=1e-6)


def test_the_noise_of_minibatches_is_measured_where_it_is_largest() -> None:
    """Against the covariance of gradients of single rows, over all rows, at positions of the chains."""
    largest = np.linalg.eigvalsh(linear_gaussian(rule=False).precision)[-1]
    engine = Sgld(step_size=0.1 / largest, decay=0.0)
    exact, draws, state = minibatch_draws(engine, batch=1, chains=32, steps=4_000)
    model, (inputs, y, _) = exact.model, context_of(exact.model).data
    rows = len(y)

    def of_row(w, x, y):  # type: ignore[no-untyped-def]
        return rows * jax.grad(model.log_likelihood)(w, Data(x[None], y[None]))

    of_rows = jax.jit(jax.vmap(jax.vmap(of_row, (None, 0, 0)), (0, None, None)))
    gradients = np.asarray(of_rows(draws[::100].reshape(-1, 3), jnp.asarray(inputs), jnp.asarray(y)))
    covariance = np.mean([np.cov(each.T, bias=True) for each in gradients], axis=0)
    assert float(state.noise.level) == pytest.approx(np.linalg.eigvalsh(covariance)[-1], rel=0.3)


def test_steps_that_are_too_long_for_their_minibatches_are_said_to_be() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": x @ [1.0, -0.5] + rng.normal(size=4000)})
    model = Model.build(frame=frame, target="y", hidden=(), noise=1.0)
    result = infer(model, Sgld(step_size=1e-4, decay=0.0, warmup=500), chains=4, draws=1000, batch=64)
    inputs = np.c_[np.asarray(model.data.inputs), np.ones(4000)]
    precision = inputs.T @ inputs / model.likelihood.noise**2 + np.eye(3)
    ratio = result.draws.reshape(-1, 3).std(axis=0) / np.sqrt(np.diag(np.linalg.inv(precision)))
    assert np.all(ratio > 1.3)
    assert not result.converged
    assert result.status.startswith("not settled: the noise of minibatches makes standard deviations up to")
    (told,) = re.findall(r"up to ([0-9.]+)% too large", result.diagnostics.bias)
    assert float(told) / 100 > ratio.max() - 1.15


def test_a_preconditioned_run_claims_no_bias_that_it_does_not_know() -> None:
    exact = linear_gaussian(rule=False)
    engine = Sgld(preconditioned=True)
    state = engine.init(Density(exact.model), jax.random.key(0), np.ones((2, 3)), context_of(exact.model))
    assert engine.bias([state]) is None
