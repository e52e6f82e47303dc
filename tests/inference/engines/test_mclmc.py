"""mclmc: moments in closed form, the energy error it was asked for, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from engines import Driven, context_of, drive, linear_gaussian
from ocbnn.errors import InferenceError
from ocbnn.inference import Settings, infer
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.mclmc import CAREFUL, MOST_BEYOND, Mclmc, MclmcState

ENGINE = Mclmc(steps=10, warmup=300)
UNPREPARED = Settings(warm=None, strength=None)


@cache
def driven(rule: bool, energy_error: float = 5e-4) -> tuple[object, Driven]:
    exact = linear_gaussian(rule)
    start = np.random.default_rng(0).normal(size=(8, 3))
    engine = replace(ENGINE, energy_error=energy_error)
    steps = engine.warmup + 2000
    return exact, drive(
        engine, Density(exact.model), start, context_of(exact.model), steps, jax.random.key(1)
    )


@pytest.mark.parametrize("rule", [False, True], ids=["data", "data-and-rule"])
def test_the_moments_of_a_gaussian_are_right_within_a_few_percent(rule: bool) -> None:
    exact, found = driven(rule)
    draws = np.asarray(found.draws)[:, ENGINE.warmup :]
    sd = np.sqrt(np.diag(exact.covariance))
    # 8 chains of 2,000 draws; their own spread says how well means are known.
    error = draws.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=(0, 1)) - exact.mean) < 5 * error + 0.02 * sd)
    np.testing.assert_allclose(draws.std(axis=(0, 1)), sd, rtol=0.05)


def test_kept_steps_have_the_energy_error_that_was_asked_for() -> None:
    for asked in (5e-4, 5e-3):
        total, count = np.asarray(driven(False, asked)[1].state.tuning.errors)
        assert asked / 3 < total / count < 3 * asked


def test_careful_steps_have_no_part_in_the_energy_error_that_is_told() -> None:
    _, count = np.asarray(driven(False)[1].state.tuning.errors)
    draws = count / ENGINE.steps
    assert draws == int(draws)
    careful = 2000 - draws
    assert abs(careful - CAREFUL * 2000) < 4 * np.sqrt(CAREFUL * (1 - CAREFUL) * 2000)


def test_the_metric_is_the_variance_of_each_weight() -> None:
    exact, found = driven(False)
    np.testing.assert_allclose(found.state.tuning.variances, np.diag(exact.covariance), rtol=0.5)


def test_a_run_says_its_energy_error_and_never_that_it_converged() -> None:
    model = linear_gaussian(False).model
    result = infer(model, ENGINE, draws=500, prepare_with=UNPREPARED)
    assert result.draws.dtype == np.float32
    assert result.status.startswith("settled: worst R-hat 1.0")
    assert "draws are approximate: the energy error of a step has the variance" in result.status


def test_a_step_that_is_too_long_is_told() -> None:
    state = driven(False)[1].state
    many = state._replace(tuning=state.tuning._replace(errors=jnp.array([2 * MOST_BEYOND * 5e-4, 1.0])))
    assert "run a longer warm-up" in ENGINE.bias([state, many]).problem
    assert not ENGINE.bias([state]).problem


def test_a_tuning_taken_over_from_a_pilot_settles_at_the_error_asked_for_under_more_strength() -> None:
    model = linear_gaussian(True).model
    density, context = Density(model), context_of(model, np.float32)

    def at(strength: float) -> Context:
        points = tuple(each._replace(strength=jnp.float32(strength)) for each in context.points)
        return context._replace(points=points, nodes=points)

    start = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    engine = replace(ENGINE, warmup=150)
    pilot = drive(engine, density, start, at(1.0), 1000, jax.random.key(1)).state
    begun = engine.init(density, jax.random.key(2), pilot.chains.position, at(30.0))
    taken_over = begun._replace(tuning=pilot.tuning.settling(engine.warmup))

    @jax.jit
    def run(state: MclmcState) -> MclmcState:
        def one(state: MclmcState, key: Array) -> tuple[MclmcState, None]:
            return engine.step(density, key, state, at(30.0))[0], None

        return jax.lax.scan(one, state, jax.random.split(jax.random.key(3), 245))[0]

    total, count = np.asarray(run(taken_over).tuning.errors)
    assert total / count < 3 * engine.energy_error


def test_a_chain_that_leaves_the_numbers_stays_where_it_was() -> None:
    model = linear_gaussian(False).model
    density, context = Density(model), context_of(model)
    key = jax.random.key(0)
    state = ENGINE.init(density, key, np.ones((2, 3), np.float32), context)
    state = state._replace(tuning=state.tuning._replace(step_size=jnp.float32(np.inf)))
    moved, info = jax.jit(lambda state: ENGINE.step(density, key, state, context))(state)
    assert np.isfinite(moved.chains.position).all()
    assert info.diverged.all()


def test_one_weight_alone_is_refused_with_the_remedy() -> None:
    model = linear_gaussian(False).model
    with pytest.raises(InferenceError, match=r"at least two weights.*hmc"):
        ENGINE.init(Density(model), jax.random.key(0), np.ones((2, 1), np.float32), context_of(model))


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"warmup": 0}, {"energy_error": 0.0}, {"step_size": -1.0}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InferenceError, match="mclmc needs"):
        Mclmc(**wrong)
