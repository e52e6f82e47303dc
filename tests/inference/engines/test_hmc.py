"""Hamiltonian Monte Carlo: lengths of trajectories, what the state carries, which density is for what."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from chain_checks import NOTHING, Normal, at_strength, raw_model, typed_context
from engines import drive
from ocbnn.inference.density import FUSED, Context, Density, fixed_context
from ocbnn.inference.engines.hmc import Hmc, force_of, kinetic
from ocbnn.model import Model


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@cache
def case() -> tuple[Density, Context]:
    rules = {"band": "if -0.5 <= x <= 0.5 then 0 <= y <= 1"}
    model = raw_model([0.5, 0.1, 0.9, 1.4], rules, hidden=(), noise=0.5, points=6, strength=5.0)
    return Density(model), typed_context(model)


@cache
def normal() -> Normal:
    return Normal.of(1.0, 1.0)


def lengths(engine: Hmc, steps: int) -> np.ndarray:
    starts = jnp.zeros((1, 2))
    return np.asarray(drive(engine, normal(), starts, NOTHING, steps, jax.random.key(0)).info.work)


def test_jittered_lengths_are_uniform_up_to_the_longest() -> None:
    engine = Hmc(adapt=False, step_size=0.1, trajectory=1.0)
    counts = np.bincount(lengths(engine, 1000).ravel(), minlength=11)
    assert counts[0] == 0
    assert len(counts) == 11
    # 100 of each expected: 4 standard deviations of a binomial.
    assert np.all(np.abs(counts[1:] - 100) < 4 * np.sqrt(1000 * 0.1 * 0.9))


@pytest.mark.parametrize(
    ("engine", "length"),
    [
        (Hmc(adapt=False, step_size=0.1, trajectory=1.0, jitter=False), 10),
        (Hmc(adapt=False, step_size=0.1, trajectory=1.04, jitter=False), 11),
        (Hmc(adapt=False, step_size=0.3, trajectory=0.9, jitter=False), 3),
        (Hmc(adapt=False, step_size=3.0, trajectory=1.0, jitter=False), 1),
        (Hmc(adapt=False, step_size=0.01, trajectory=1.0, jitter=False, max_steps=7), 7),
        (Hmc(adapt=False, step_size=0.01, leapfrog_steps=12), 12),
    ],
)
def test_without_jitter_every_trajectory_has_the_same_length(engine: Hmc, length: int) -> None:
    np.testing.assert_array_equal(lengths(engine, 3), length)


def test_rounding_in_single_precision_adds_no_step() -> None:
    with jax.enable_x64(False):
        assert float(jnp.asarray(0.15) / jnp.asarray(0.005)) > 30
        engine = Hmc(adapt=False, step_size=0.005, trajectory=0.15, jitter=False)
        assert np.all(lengths(engine, 3) == 30)


@pytest.mark.parametrize(("gradients", "rounding"), [("float64", 1e-9), ("float32", 1e-4)])
def test_the_state_carries_the_exact_density_and_the_gradient_of_the_surrogate(
    gradients: Any, rounding: float
) -> None:
    density, context = case()
    context = context._replace(nodes=at_strength(context, 1.0).points)
    engine = Hmc(warmup=20, step_size=0.05, gradients=gradients)
    starts = np.random.default_rng(1).normal(0.3, 0.3, (4, 2))
    state, draws, info = drive(engine, density, starts, context, 60, jax.random.key(0))
    exact = jax.jit(jax.vmap(lambda w: density.log_density(w, context)))(state.positions)
    surrogate = jax.jit(jax.vmap(jax.value_and_grad(lambda w: density.surrogate(w, context))))
    poor, gradient = surrogate(state.positions)
    assert not np.any(np.isclose(exact, poor, rtol=1e-6))
    np.testing.assert_allclose(state.log_density, exact, rtol=1e-12)
    np.testing.assert_allclose(state.gradient, gradient, rtol=rounding, atol=rounding)
    np.testing.assert_array_equal(info.log_density[-1], state.log_density)
    np.testing.assert_array_equal(draws[:, -1], state.positions)


@pytest.mark.slow
def test_forces_of_few_members_are_those_of_many() -> None:
    """They are written as sums instead of matrix products."""
    random = np.random.default_rng(0)
    model = Model.build(
        frame=pd.DataFrame({"a": random.normal(size=9), "b": random.normal(size=9), "y": list("uvw") * 3}),
        target="y",
        rules=["if a > 0 and b > 0 then y = u", "if a < 0 then P(y = v) <= 0.5"],
        hidden=(4,),
        points=5,
    )
    context = fixed_context(model)
    density = Density(model)
    assert density.for_few(4).model.network.sums_below * 4 == FUSED
    positions = jnp.asarray(random.normal(size=(4, model.size)))
    alone = [jax.grad(lambda w: density.surrogate(w, context))(w) for w in positions]
    forces = jax.jit(lambda w: force_of(density, context, "float64")(w))(positions)
    np.testing.assert_allclose(forces, alone, rtol=1e-10, atol=1e-12)


class Drifting(Normal):
    """A surrogate without any force: trajectories are straight, and momenta stay."""

    def surrogate(self, w: Any, context: Context) -> Any:
        return 0.0 * jnp.sum(w)


def test_acceptance_is_that_of_the_exact_energy() -> None:
    density, engine = Drifting.of(1.0, 0.5), Hmc(adapt=False, step_size=0.25, leapfrog_steps=4)
    starts = np.random.default_rng(2).normal(0.0, 1.0, (400, 2))
    state, _, info = drive(engine, density, starts, NOTHING, 1, jax.random.key(3))
    acceptance = np.asarray(info.acceptance)[0]
    accepted = np.any(np.asarray(state.positions) != starts, axis=1)
    before = jax.vmap(lambda w: density.log_density(w, NOTHING))(jnp.asarray(starts))
    expected = np.exp(np.minimum(np.asarray(state.log_density - before), 0.0))
    np.testing.assert_allclose(acceptance[accepted], expected[accepted], rtol=1e-10)
    # The share accepted against the mean of their probabilities: 4 standard errors.
    error = np.sqrt(np.sum(acceptance * (1 - acceptance))) / len(starts)
    assert abs(accepted.mean() - acceptance.mean()) < 4 * error
    assert 0.05 < accepted.mean() < 0.95


@pytest.mark.parametrize(("careful", "least", "most"), [(0.0, 0.0, 0.15), (0.5, 0.4, 0.65)])
def test_careful_trajectories_move_where_the_usual_step_is_too_long(
    careful: float, least: float, most: float
) -> None:
    # Leapfrog on a normal is stable below two standard deviations: 0.15 is too long for 0.05, a fifth is not.
    narrow, engine = Normal.of(0.05, 0.05), Hmc(warmup=0, step_size=0.15, careful=careful)
    driven = drive(engine, narrow, jnp.full((4, 2), 0.05), NOTHING, 200, jax.random.key(0))
    assert least <= float(np.mean(np.asarray(driven.info.acceptance))) <= most


def test_a_fixed_step_size_has_no_careful_trajectories() -> None:
    engine = Hmc(adapt=False, step_size=0.15, careful=1.0, leapfrog_steps=40)
    driven = drive(engine, Normal.of(0.05, 0.05), jnp.full((1, 2), 0.05), NOTHING, 20, jax.random.key(0))
    assert float(np.max(np.asarray(driven.info.acceptance))) < 1e-6


def test_kinetic_energy_is_half_the_square_in_the_metric() -> None:
    momenta, inverse_mass = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([0.5, 4.0])
    np.testing.assert_allclose(kinetic(jnp.asarray(momenta), jnp.asarray(inverse_mass)), [8.25, 18.0])


def test_chains_of_a_core_form_a_group() -> None:
    assert Hmc().groups(8, 2) == (4, 4)
    assert Hmc().groups(5, 2) == (3, 2)
    assert Hmc().groups(1, 4) == (1,)


def test_chains_from_one_place_part_at_once() -> None:
    driven = drive(Hmc(), normal(), jnp.zeros((4, 2)), NOTHING, 5, jax.random.key(0))
    assert len(np.unique(np.asarray(driven.state.positions)[:, 0])) == 4
