"""Stein's direction and discrepancy against naive twins, and the engine's own promises."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from engines import context_of, drive, linear_gaussian
from ocbnn.errors import InferenceError
from ocbnn.inference.density import Density
from ocbnn.inference.engines.stein import (
    kernel_stein_discrepancy,
    median_bandwidth,
    ordered,
    squared_distances,
    stein_direction,
    stein_kernel,
)
from ocbnn.inference.engines.svgd import Svgd
from ocbnn.model import Model

PARTICLES, SIZE = 7, 5
direction_of = jax.jit(stein_direction)


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def particles(n: int = PARTICLES, offset: float = 0.0) -> np.ndarray:
    return offset + np.random.default_rng(3).normal(size=(n, SIZE))


def scores(n: int = PARTICLES) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(n, SIZE))


def naive_direction(x: np.ndarray, g: np.ndarray, h: float) -> np.ndarray:
    """Liu & Wang's sum, particle by particle."""
    direction = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(len(x)):
            k = np.exp(-np.sum((x[j] - x[i]) ** 2) / h)
            direction[i] += k * g[j] - 2.0 / h * (x[j] - x[i]) * k
    return direction / len(x)


def naive_bandwidth(x: np.ndarray) -> float:
    pairs = [np.linalg.norm(x[i] - x[j]) for i in range(len(x)) for j in range(i)]
    return float(np.median(pairs) ** 2 / np.log(len(x)))


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_the_matrix_form_is_the_naive_sum(offset: float) -> None:
    x, g = particles(offset=offset), scores()
    expected = naive_direction(x, g, naive_bandwidth(x))
    np.testing.assert_allclose(direction_of(jnp.asarray(x), jnp.asarray(g)), expected, rtol=0, atol=1e-12)
    expected = naive_direction(x, g, 0.7)
    np.testing.assert_allclose(
        direction_of(jnp.asarray(x), jnp.asarray(g), 0.7), expected, rtol=0, atol=1e-12
    )


def test_the_direction_needs_no_array_of_particles_squared_times_weights() -> None:
    n, size = 11, 13
    x = jnp.zeros((n, size))
    jaxpr = jax.make_jaxpr(stein_direction)(x, x)
    largest = max(np.prod(v.aval.shape) for e in jaxpr.jaxpr.eqns for v in e.outvars if hasattr(v, "aval"))
    assert largest <= n * max(n, size)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_the_bandwidth_is_positive_for_any_particles(n: int) -> None:
    together = jnp.ones((n, SIZE))
    assert median_bandwidth(squared_distances(together)) > 0
    np.testing.assert_array_equal(squared_distances(together), 0.0)
    # Particles at one place do not push each other: what is left is the mean of the scores.
    g = jnp.asarray(scores(n))
    np.testing.assert_allclose(stein_direction(together, g), np.tile(np.mean(g, axis=0), (n, 1)), atol=1e-14)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 2, 7, 28])
def test_numbers_are_found_by_rank_as_sorting_finds_them(kind: type, count: int) -> None:
    values = np.random.default_rng(count).exponential(size=count) ** 4
    values[::3] = values[0]  # ties
    values[1::5] = 0.0
    values = values.astype(kind)
    found = ordered(jnp.asarray(values), *range(count))
    np.testing.assert_array_equal(found, np.sort(values))


def test_one_particle_follows_its_gradient() -> None:
    g = jnp.asarray(scores(1))
    np.testing.assert_allclose(stein_direction(jnp.asarray(particles(1)), g), g, rtol=1e-14)


def test_stein_kernel_is_its_definition_by_automatic_derivatives() -> None:
    x, g, scale = jnp.asarray(particles(4, offset=3.0)), jnp.asarray(scores(4)), 1.3

    def kernel(a, b):  # type: ignore[no-untyped-def]
        return (scale**2 + jnp.sum((a - b) ** 2)) ** -0.5

    def defined(a, b, s, t):  # type: ignore[no-untyped-def]
        by_a, by_b = jax.grad(kernel, 0), jax.grad(kernel, 1)
        trace = jnp.trace(jax.jacfwd(by_a, 1)(a, b))
        return s @ t * kernel(a, b) + s @ by_b(a, b) + t @ by_a(a, b) + trace

    pairs = jax.jit(jax.vmap(jax.vmap(defined, (None, 0, None, 0)), (0, None, 0, None)))(x, x, g, g)
    np.testing.assert_allclose(stein_kernel(x, g, scale), pairs, rtol=0, atol=1e-12)
    expected = np.sqrt(np.mean(pairs))
    np.testing.assert_allclose(kernel_stein_discrepancy(x, g, scale), expected, rtol=1e-12)


def test_stein_kernel_has_mean_zero_under_its_density_and_only_there() -> None:
    """Over pairs of independent draws: within 4 standard errors of 0, and far from it for another density."""
    random = np.random.default_rng(5)
    repeats, n = 200, 20
    draws = random.normal(size=(repeats, n, SIZE))
    off_diagonal = ~np.eye(n, dtype=bool)

    def means(spread: float) -> np.ndarray:
        x = spread * draws
        kernels = np.asarray(jax.jit(jax.vmap(stein_kernel))(x, -x))
        return kernels[:, off_diagonal].mean(axis=1)

    right, wrong = means(1.0), means(0.5)
    error = lambda values: values.std(ddof=1) / np.sqrt(repeats)  # noqa: E731
    assert abs(right.mean()) < 4 * error(right)
    assert wrong.mean() > 20 * error(wrong)


def test_particles_come_closer_to_the_posterior_by_the_discrepancy() -> None:
    exact = linear_gaussian(rule=False)
    density, context = Density(exact.model), context_of(exact.model)
    engine = Svgd(steps=300, learning_rate=0.05)
    start = np.random.default_rng(0).normal(size=(20, 3))
    state, _, info = drive(engine, density, start, context, engine.steps, jax.random.key(0))
    before, after = (
        kernel_stein_discrepancy(jnp.asarray(x), jnp.asarray((exact.mean - x) @ exact.precision))
        for x in (start, np.asarray(state.positions))
    )
    assert after < 0.1 * before
    assert np.mean(info.log_density[-1]) > np.mean(info.log_density[0])
    np.testing.assert_array_equal(engine.draws(jax.random.key(0), state, 5), state.positions[None])


def test_a_particle_whose_log_density_is_not_finite_is_named_and_takes_no_score_along() -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 0.5]})
    model = Model.build(frame=frame, target="y", hidden=())
    start = np.random.default_rng(0).normal(size=(4, 3))
    start[2, 2] = -400.0  # noise of exp(−400): its squared residuals overflow
    state, _, info = drive(Svgd(steps=2), Density(model), start, context_of(model), 1, jax.random.key(0))
    np.testing.assert_array_equal(info.diverged[0], [False, False, True, False])
    assert np.all(np.isfinite(state.positions))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "newton"}, "no optimizer 'newton'; choose one of adam, adagrad"),
        ({"decay": "never"}, "no decay 'never'; choose one of cosine"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"steps": 0}, "at least one step"),
        ({"bandwidth": -1.0}, "bandwidth must be positive"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_words(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InferenceError, match=message):
        Svgd(**settings)  # type: ignore[arg-type]
