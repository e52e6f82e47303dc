"""Errata I1 and I2: the paper's code never restores a rejected proposal and never adapts its step size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chain_checks import raw_model, typed_context
from engines import drive
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.hmc import Hmc, HmcState

MEMBERS = 64


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@cache
def case() -> tuple[Density, Context]:
    rules = {"band": "if -0.5 <= x <= 0.5 then 0 <= y <= 1"}
    model = raw_model([0.5, 0.1, 0.9, 1.4], rules, hidden=(), noise=0.3, points=6, strength=50.0)
    return Density(model), typed_context(model)


@jax.jit
def stepped(step_size: Any, positions: Any, context: Context, key: Any) -> Any:
    """The states before and after five leapfrog steps and a verdict."""
    engine = Hmc(adapt=False, leapfrog_steps=5, gradients="float64")
    state = engine.init(case()[0], key, positions, context)
    state = state._replace(tuning=state.tuning._replace(step_size=step_size))
    return state, *engine.step(case()[0], key, state, context)


def bits(array: Any) -> np.ndarray:
    return np.asarray(array).view(np.uint64)


def moving_parts(state: HmcState) -> list[np.ndarray]:
    return [bits(part) for part in (state.positions, state.log_density, state.gradient)]


def starts() -> np.ndarray:
    return np.random.default_rng(0).normal(0.3, 0.2, (MEMBERS, 2))


@pytest.mark.parametrize("step_size", [5.0, 1e6, 1e200], ids=["far", "very-far", "overflowing"])
def test_i1_when_all_proposals_are_rejected_every_bit_of_the_state_stays(step_size: float) -> None:
    for seed in range(3):
        before, after, info = stepped(step_size, starts(), case()[1], jax.random.key(seed))
        assert np.all(info.acceptance == 0.0)
        assert np.all(info.diverged)
        for old, new in zip(moving_parts(before), moving_parts(after), strict=True):
            np.testing.assert_array_equal(old, new)
        np.testing.assert_array_equal(bits(info.log_density), bits(before.log_density))


def test_i1_chains_that_reject_stay_bit_by_bit_beside_chains_that_move() -> None:
    density, context = case()
    before, after, info = stepped(0.19, starts(), context, jax.random.key(0))
    stayed = (bits(before.positions) == bits(after.positions)).all(axis=1)
    assert 5 < stayed.sum() < MEMBERS - 5
    assert np.all(np.asarray(info.acceptance)[stayed] < 1.0)
    for old, new in zip(moving_parts(before), moving_parts(after), strict=True):
        np.testing.assert_array_equal(old[stayed], new[stayed])
        assert np.all(old[~stayed] != new[~stayed])
    # Those that moved carry the density and gradient of where they are now.
    exact = jax.jit(jax.vmap(jax.value_and_grad(density.log_density), in_axes=(0, None)))(
        after.positions, context
    )
    np.testing.assert_allclose(after.log_density, exact[0], rtol=1e-12)
    np.testing.assert_allclose(after.gradient, exact[1], rtol=1e-9, atol=1e-9)


def test_i2_without_adaptation_the_step_size_stays_where_the_code_has_it_for_50_steps() -> None:
    density, context = case()
    for engine in (
        Hmc(adapt=False, step_size=0.003, leapfrog_steps=50),
        Hmc(adapt=False, step_size=0.003, trajectory=0.15, jitter=False),
    ):
        state, _, info = drive(engine, density, starts()[:4], context, 30, jax.random.key(1))
        np.testing.assert_array_equal(info.work, 50)
        assert float(state.tuning.step_size) == 0.003
        np.testing.assert_array_equal(state.tuning.inverse_mass, 1.0)


@pytest.mark.slow
def test_i2_with_adaptation_50_steps_have_the_acceptance_that_the_text_has() -> None:
    density, context = case()
    engine = Hmc(step_size=0.003, leapfrog_steps=50, target_acceptance=0.9, warmup=200)
    state, _, info = drive(engine, density, starts()[:16], context, 600, jax.random.key(2))
    np.testing.assert_array_equal(info.work, 50)
    assert float(state.tuning.step_size) > 0.01
    assert 0.85 < float(jnp.mean(info.acceptance[200:])) < 0.97
