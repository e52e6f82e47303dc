"""Simulation-based calibration of the chain engines with a rule (Talts et al. 2018, Säilynoja et al. 2022).

A true w is drawn from the prior with its rule, data from the likelihood at w, and draws from the posterior
of those data by an engine. If the engine is exact, the rank of any function of w (and of the data) among the
draws is uniform. The ranks of 200 simulations are judged by their empirical distribution function, which has
to stay within a band that 99 % of uniform samples do not leave anywhere.

The prior with its rule can be drawn from exactly: the term's maximum is 0, so that a draw of the base prior
is kept with the probability exp(log-density of the rule).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chain_checks import only_rules, raw_model, typed_context, weighted
from ocbnn.inference import Settings, density, infer
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.engines.nuts import Nuts
from ocbnn.inference.warmstart import WarmStart
from ocbnn.model import Data, Model
from rank_checks import KEPT, band, implausibility

SIMULATIONS, WARMUP = 200, 300
ROWS, NOISE = 4, 1.0
PROBES = np.array([[-0.9], [-0.4], [0.1], [0.5], [0.8]])
QUANTITIES = len(PROBES) + 1
ENGINES: dict[str, tuple[Any, int]] = {  # with how many steps lie between two kept draws
    "nuts": (Nuts(warmup=WARMUP, step_size=0.05, target_acceptance=0.9, max_doublings=7), 6),
    "hmc": (Hmc(warmup=WARMUP, step_size=0.05, target_acceptance=0.9), 10),
}
EVERY = pytest.mark.parametrize("name", list(ENGINES))
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@cache
def case() -> tuple[Density, Context]:
    """Two rbf units with seven weights, and few noisy rows, so that the rule says as much as they do."""
    model = raw_model(
        list(np.linspace(-1.0, 1.0, ROWS)),
        rules={"band": "if -0.3 <= x <= 0.8 then 1 <= y <= 2"},
        hidden=(2,),
        noise=NOISE,
        points=12,
        strength=200.0,
    )
    return Density(model), typed_context(model)


@cache
def simulated() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True weights, the data they gave, and independent draws of the same prior for chains to start at."""
    density, context = case()
    random = np.random.default_rng(20)
    candidates = random.normal(size=(200_000, density.size))
    scores = jax.jit(jax.vmap(lambda w: jnp.sum(density.model.rule_log_densities(w, context.points))))
    log_rule = np.asarray(scores(candidates))
    assert log_rule.max() <= 0.0
    kept = candidates[np.log(random.uniform(size=len(candidates))) < log_rule]
    # Both that the rule says something, and that there are draws enough.
    assert 2 * SIMULATIONS < len(kept) < 0.3 * len(candidates)
    truth, starts = kept[:SIMULATIONS], kept[SIMULATIONS : 2 * SIMULATIONS]
    outputs = jax.vmap(lambda w: density.model.function(w, context.data.inputs))(jnp.asarray(truth))
    return truth, np.asarray(outputs) + NOISE * random.normal(size=outputs.shape), starts


@partial(jax.jit, static_argnums=(0, 1))
def sampled(engine: Any, thin: int, starts: Any, y: Any, context: Context, key: Any) -> Any:
    """Kept draws `(simulations, kept, size)`, one chain for each simulation."""
    density = case()[0]

    def one(start: Any, y: Any, key: Any) -> Any:
        assert context.data is not None
        own = context._replace(data=context.data._replace(y=y))

        def step(state: Any, key: Any) -> tuple[Any, None]:
            return engine.step(density, key, state, own)[0], None

        def several(state: Any, key: Any) -> tuple[Any, Any]:
            state, _ = jax.lax.scan(step, state, jax.random.split(key, thin))
            return state, engine.draws(key, state, 1)[0, 0]

        warm_key, key = jax.random.split(key)
        state = engine.init(density, key, start[None], own)
        state, _ = jax.lax.scan(step, state, jax.random.split(warm_key, WARMUP))
        return jax.lax.scan(several, state, jax.random.split(key, KEPT))[1]

    return jax.vmap(one)(starts, y, jax.random.split(key, len(starts)))


def quantities(w: Any, y: Any) -> np.ndarray:
    """Φ_w at five probes and the log-likelihood of the data `(…, 6)`, for w `(simulations, …, size)`."""
    density, context = case()
    assert context.data is not None

    def of(w: Any, y: Any) -> Any:
        log_likelihood = density.model.log_likelihood(w, context.data._replace(y=y, weights=None))
        return jnp.append(density.model.function(w, PROBES), log_likelihood)

    over_draws = jax.vmap(of, in_axes=(0, None)) if np.ndim(w) == 3 else of
    return np.asarray(jax.jit(jax.vmap(over_draws))(jnp.asarray(w), jnp.asarray(y)))


def of_engine(name: str, context: Context) -> np.ndarray:
    """The quantities of an engine's draws `(simulations, kept, 6)`."""
    engine, thin = ENGINES[name]
    _, y, starts = simulated()
    draws = sampled(engine, thin, jnp.asarray(starts), jnp.asarray(y), context, jax.random.key(1))
    return quantities(draws, y)


def leaving(values: np.ndarray) -> np.ndarray:
    """How far the ranks of the truth are on their way out of the band, for each quantity: outside above 1."""
    truth, y, _ = simulated()
    ranks = np.sum(values < quantities(truth, y)[:, None], axis=1)
    return implausibility(ranks.T) / band(SIMULATIONS, QUANTITIES)


def test_the_band_holds_uniform_ranks_and_no_others() -> None:
    random = np.random.default_rng(1)
    uniform = random.integers(0, KEPT + 1, size=(3000, SIMULATIONS))
    outside = np.mean(implausibility(uniform) > band(SIMULATIONS, QUANTITIES))
    # One of six leaves it in 1 % of cases, one alone in a sixth of that: 4 standard errors.
    assert abs(outside - 0.01 / 6) < 4 * np.sqrt(0.01 / 6 / 3000)
    shifted = (random.beta(1.0, 1.5, size=(200, SIMULATIONS)) * (KEPT + 1)).astype(int)
    narrow = (random.beta(0.6, 0.6, size=(200, SIMULATIONS)) * (KEPT + 1)).astype(int)
    assert np.mean(implausibility(shifted) > band(SIMULATIONS, QUANTITIES)) > 0.5
    assert np.mean(implausibility(narrow) > band(SIMULATIONS, QUANTITIES)) > 0.5


def neighbours_correlation(values: np.ndarray) -> np.ndarray:
    """Lag-1 autocorrelation of each quantity, averaged over simulations: 0 for independent draws."""
    centred = values - values.mean(axis=1, keepdims=True)
    lagged = np.mean(centred[:, 1:] * centred[:, :-1], axis=1) / np.mean(centred**2, axis=1)
    return lagged.mean(axis=0) + 1 / KEPT  # the mean is estimated from the same draws


@EVERY
def test_ranks_of_the_truth_are_uniform(name: str) -> None:
    values = of_engine(name, case()[1])
    # Thinned to independence: 4 standard errors of a correlation in 200 × 99 draws.
    assert np.all(np.abs(neighbours_correlation(values)) < 4 / np.sqrt(SIMULATIONS * KEPT))
    assert np.all(leaving(values) <= 1.0), leaving(values)


@pytest.mark.parametrize(
    "wrong", [partial(weighted, weight=2.0), only_rules], ids=["rows-counted-twice", "rule-ignored"]
)
def test_a_wrong_posterior_is_noticed(wrong: Callable[[Context], Context]) -> None:
    values = of_engine("hmc", wrong(case()[1]))
    assert np.max(leaving(values)) > 1.5


# `infer` itself, with learnt noise and found points ---------------------------------------------------------

RUNS, THIN = 100, 10


@cache
def prior_with_found_points() -> Model:
    """Two rbf units, learnt noise, and a rule that was given points where networks broke it; no rows yet."""
    model = raw_model(
        list(np.linspace(-1.0, 1.0, ROWS)),
        rules={"band": "if -0.3 <= x <= 0.8 then 1 <= y <= 2"},
        hidden=(2,),
        noise=None,
        points=12,
        strength=200.0,
    )
    breaking = np.random.default_rng(3).normal(size=(8, model.size))
    extended = WarmStart().add_found_points(0, model, breaking)
    (before,), (after,) = model.points, extended.points
    assert np.count_nonzero(after.weights) > np.count_nonzero(before.weights)
    return extended


def drawn_from_prior(model: Model, count: int) -> np.ndarray:
    """Exact draws `(count, size)`: weights by rejection, noise half-normal."""
    random = np.random.default_rng(21)
    candidates = random.normal(size=(200_000, model.network.size))
    log_rule = np.asarray(jax.jit(jax.vmap(lambda w: jnp.sum(model.rule_log_densities(w))))(candidates))
    assert log_rule.max() <= 0.0
    kept = candidates[np.log(random.uniform(size=len(candidates))) < log_rule][:count]
    noise = model.likelihood.noise_prior * np.abs(random.normal(size=(count, 1)))
    return np.concatenate([kept, np.log(noise)], axis=1)


@cache
def ranks_of_infer(counted: float) -> np.ndarray:
    """Ranks `(quantities, runs)` of Φ at the probes, log noise and log-likelihood; rows count so often."""
    model = prior_with_found_points()
    inputs, random = np.asarray(model.data.inputs), np.random.default_rng(22)
    settings = Settings(strength=None).frozen()
    ranks = []
    for seed, w in enumerate(drawn_from_prior(model, RUNS)):
        noise = np.exp(w[-1])
        y = np.asarray(model.function(w, inputs)) + noise * random.normal(size=len(inputs))
        rows = replace(model, data=Data(inputs, y, np.full(len(inputs), counted)))
        density._DENSITIES[rows] = density.density_of(model)  # nothing is compiled anew
        result = infer(
            rows, "hmc", chains=1, draws=KEPT, thin=THIN, seed=seed, prepare_with=settings, probes=PROBES
        )

        def of(w: Any, rows: Model = rows, y: Any = y) -> Any:
            log_likelihood = rows.log_likelihood(w, Data(inputs, y))
            return jnp.concatenate([rows.function(w, PROBES), w[-1:], log_likelihood[None]])

        drawn = np.asarray(jax.vmap(of)(jnp.asarray(result.draws[0])))
        ranks.append(np.sum(drawn < np.asarray(of(jnp.asarray(w))), axis=0))
    return np.array(ranks).T


def test_infer_with_learnt_noise_and_found_points_is_calibrated() -> None:
    found = implausibility(ranks_of_infer(1.0)) / band(RUNS, len(PROBES) + 2)
    assert np.all(found <= 1.0), found


def test_infer_with_rows_that_count_for_a_quarter_is_noticed() -> None:
    found = implausibility(ranks_of_infer(0.25)) / band(RUNS, len(PROBES) + 2)
    assert np.max(found) > 1.5, found
