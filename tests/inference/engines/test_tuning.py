"""Adaptation: the step size reaches its acceptance, the metric the variances, and both are frozen."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chain_checks import NOTHING, Normal
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.engines.tuning import Schedule, Tuning

SIZE, CHAINS, WARMUP, KEPT = 30, 16, 400, 300
SCALES = np.geomspace(0.05, 5.0, SIZE)


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@cache
def density() -> Normal:
    return Normal.of(*SCALES)


@partial(jax.jit, static_argnums=0)
def _run(engine: Hmc, key: Any) -> Any:
    state = engine.init(density(), key, jax.random.normal(key, (CHAINS, SIZE)) * SCALES, NOTHING)

    def one(state: Any, key: Any) -> Any:
        state, info = engine.step(density(), key, state, NOTHING)
        return state, (jnp.mean(info.acceptance), state.tuning)

    return jax.lax.scan(one, state, jax.random.split(key, WARMUP + KEPT))[1]


@cache
def run(target: float) -> tuple[np.ndarray, Tuning]:
    acceptance, tuning = _run(Hmc(warmup=WARMUP, target_acceptance=target), jax.random.key(1))
    return np.asarray(acceptance), jax.tree.map(np.asarray, tuning)


@pytest.mark.parametrize("target", [0.7, 0.9])
def test_the_step_size_reaches_the_acceptance_it_aims_at(target: float) -> None:
    acceptance, _ = run(target)
    # Averaged over some 100 noisy steps, the step size is right to a few per cent, and so is acceptance.
    assert abs(acceptance[WARMUP:].mean() - target) < 0.05
    assert acceptance[0] > 0.99  # where it started


def test_a_higher_target_means_smaller_steps() -> None:
    low, high = (run(target)[1].step_size[-1] for target in (0.7, 0.9))
    assert high < 0.8 * low


def test_the_metric_approaches_the_variances() -> None:
    metric = run(0.7)[1].inverse_mass[-1]
    # The last window has 120 steps of 16 chains, worth at least every fourth: 4 standard errors.
    assert np.all(np.abs(np.log(metric / SCALES**2)) < 4 * np.sqrt(2 / (120 * CHAINS / 4)))
    assert abs(np.mean(np.log(metric / SCALES**2))) < 0.05


def test_after_the_warm_up_nothing_changes_but_the_count() -> None:
    _, tuning = run(0.7)
    for name, values in tuning._asdict().items():
        for leaf in jax.tree.leaves(values):
            kept = leaf[WARMUP - 1 :]
            if name == "iteration":
                np.testing.assert_array_equal(kept, np.arange(WARMUP, WARMUP + KEPT + 1))
            else:
                np.testing.assert_array_equal(kept, np.broadcast_to(kept[0], kept.shape))
    assert len(np.unique(tuning.step_size[:WARMUP])) > WARMUP / 2


def update(tuning: Tuning, warmup: int, steps: int, steepness: float) -> Tuning:
    """So many updates with standard normal positions; longer steps are accepted less: 1 − steepness · ε."""
    return _update(Schedule(warmup, 0.8), steps, tuning, steepness)


@partial(jax.jit, static_argnums=(0, 1))
def _update(schedule: Schedule, steps: int, tuning: Tuning, steepness: Any) -> Tuning:
    def one(tuning: Tuning, key: Any) -> Any:
        acceptance = jnp.clip(1.0 - steepness * tuning.step_size, 0.0, 1.0)
        return schedule.update(tuning, jax.random.normal(key, (2, 3)), acceptance), None

    return jax.lax.scan(one, tuning, jax.random.split(jax.random.key(0), steps))[0]


def begun(warmup: int) -> Tuning:
    return Schedule(warmup, 0.8).init(3, 0.1, jnp.float64)


def test_settling_adapts_the_step_size_to_the_end_and_keeps_the_metric() -> None:
    warmup = 101
    tuned = update(begun(warmup), warmup, warmup + 3, 1.0)
    assert 0.1 < float(tuned.step_size) < 0.4  # 0.2 is accepted as often as asked for
    assert np.all(np.asarray(tuned.inverse_mass) != 1.0)
    again = tuned.settling(warmup)
    assert float(again.step_size) == float(tuned.step_size)
    left = warmup - int(again.iteration)
    assert 0.25 * warmup <= left <= 0.35 * warmup
    settled = update(again, warmup, left, 10.0)
    np.testing.assert_array_equal(settled.inverse_mass, tuned.inverse_mass)
    assert 0.015 < float(settled.step_size) < 0.03  # 0.02 is accepted as often as asked for
    later = update(settled, warmup, 5, 1.0)
    assert float(later.step_size) == float(settled.step_size)
    np.testing.assert_array_equal(later.inverse_mass, tuned.inverse_mass)


@pytest.mark.parametrize(("steepness", "bound"), [(np.inf, 1e-6), (0.0, 1.0)])
def test_steps_stay_within_sane_bounds(steepness: float, bound: float) -> None:
    assert float(update(begun(100), 100, 60, steepness).step_size) == bound


def test_no_warm_up_means_no_adaptation() -> None:
    tuned = update(begun(0), 0, 10, 1.0)
    assert float(tuned.step_size) == 0.1
    np.testing.assert_array_equal(tuned.inverse_mass, 1.0)
