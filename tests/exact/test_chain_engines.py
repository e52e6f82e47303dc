"""nuts and hmc against posteriors in closed form and against quadrature, in Monte Carlo standard errors.

One linear model with three rules serves all cases of regression: rules that a case does not speak of have
points of weight zero, so that each engine is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from scipy.stats import truncnorm

from chain_checks import (
    Moments,
    assert_exact,
    at_strength,
    only_rules,
    quadrature,
    raw_model,
    standard_errors_away,
    typed_context,
    weighted,
)
from engines import drive
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.engines.nuts import Nuts

CHAINS, WARMUP, KEPT = 16, 200, 500
CHAIN_ENGINES: dict[str, Any] = {
    "nuts": Nuts(warmup=WARMUP, step_size=0.05, target_acceptance=0.9),
    "hmc": Hmc(warmup=WARMUP, step_size=0.05, target_acceptance=0.9),
}
EVERY = pytest.mark.parametrize("name", list(CHAIN_ENGINES))
OTHERS_SLOW = pytest.mark.parametrize("name", ["hmc", pytest.param("nuts", marks=pytest.mark.slow)])
"""nuts is BlackJAX's, and takes long to compile: one posterior in the quick tests, all in the slow ones."""
SEEDS = (1, 2, 3)
VALUE, INTERVAL, HALF_LINE = range(3)
NOISE, Y = 0.8, [-0.2, 0.9, 0.4, 1.3]


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


class Case(NamedTuple):
    density: Density
    context: Context

    def moments(self, context: Context) -> Moments:
        return quadrature(self.density, context, *([np.linspace(-7.0, 8.0, 401)] * 2))


@cache
def regression() -> Case:
    """A slope and a bias; the interval rule has all its points at x = 0, where y is the bias."""
    model = raw_model(
        Y,
        rules={
            "value": "if 0 <= x <= 1 then y = 1.5 within 0.8",
            "interval": "if -1 <= x <= 1 then 0.8 <= y <= 1.6",
            "half-line": "if -0.5 <= x <= 0.5 then y >= 0.7",
        },
        hidden=(),
        noise=NOISE,
        points=8,
        term={"half-line": "negative-exponential"},
        strength=5.0,
    )
    context = typed_context(model)
    at_zero = model.terms[INTERVAL].at(np.zeros((8, 1)))
    points = (context.points[VALUE], jax.tree.map(jax.numpy.asarray, at_zero), context.points[HALF_LINE])
    return Case(Density(model), context._replace(points=points, nodes=points))


@cache
def classification() -> Case:
    """A linear logit, and a rule that the classes of some rows contradict."""
    classes = ["no", "yes", "no", "no", "yes", "no"]
    model = raw_model(classes, rules={"late": "if x >= 0.2 then y = yes"}, hidden=(), points=8, strength=8.0)
    return Case(Density(model), typed_context(model))


def draws(name: str, case: Case, context: Context, seed: int) -> np.ndarray:
    start_key, key = jax.random.split(jax.random.key(seed))
    starts = jax.random.normal(start_key, (CHAINS, case.density.size))
    driven = drive(CHAIN_ENGINES[name], case.density, starts, context, WARMUP + KEPT, key)
    return np.asarray(driven.draws)[:, WARMUP:]


def closed_form(context: Context) -> Moments:
    """Of the linear model with at most the value rule: precision and precision × mean add up."""
    value, data = context.points[VALUE], context.data
    assert data is not None
    peaks: Any = value.demand
    weight = np.asarray(value.weights) * float(value.strength) / (0.5 * np.asarray(peaks.margin)) ** 2
    precision, linear = np.eye(2), np.zeros(2)
    for inputs, y, weights in (
        (data.inputs, data.y, np.full(len(Y), NOISE**-2)),
        (value.inputs, np.asarray(peaks.values)[:, 0], weight),
    ):
        features = np.column_stack([inputs, np.ones(len(inputs))])
        precision = precision + features.T @ (weights[:, None] * features)
        linear = linear + features.T @ (weights * np.asarray(y))
    return Moments(np.linalg.solve(precision, linear), np.diag(np.linalg.inv(precision)))


@EVERY
@pytest.mark.parametrize("rules", [(), (VALUE,)], ids=["data", "data-and-value-rule"])
def test_the_posterior_of_a_linear_network_is_the_closed_form(name: str, rules: tuple[int, ...]) -> None:
    case = regression()
    context = only_rules(case.context, *rules)
    exact = closed_form(context)
    np.testing.assert_allclose(np.stack(case.moments(context)), np.stack(exact), rtol=1e-8)
    for seed in SEEDS:
        assert_exact(draws(name, case, context, seed), exact)


def test_a_posterior_without_its_rule_would_be_noticed() -> None:
    case = regression()
    context = only_rules(case.context, VALUE)
    away = standard_errors_away(draws("hmc", case, only_rules(case.context), 1), closed_form(context))
    assert np.all(np.max(np.abs(away), axis=1) > 8), away


@OTHERS_SLOW
@pytest.mark.parametrize("strength", [3.0, 100.0, 1000.0])
def test_an_interval_rule_is_sampled_as_quadrature_has_it(name: str, strength: float) -> None:
    case = regression()
    context = at_strength(only_rules(case.context, INTERVAL), strength)
    exact = case.moments(context)
    for seed in SEEDS:
        assert_exact(draws(name, case, context, seed), exact)


def test_an_interval_rule_becomes_the_truncated_gaussian_as_strength_grows() -> None:
    """The wall is scale/√strength thick, and so is the error."""
    case = regression()
    free = closed_form(only_rules(case.context))  # slope and bias are independent: the rows are symmetric
    sd = np.sqrt(free.variance[1])
    ends = (np.array([0.8, 1.6]) - free.mean[1]) / sd
    law = truncnorm(*ends, loc=free.mean[1], scale=sd)
    limit = np.array([law.mean(), law.var()])
    strengths = 100.0 ** np.arange(1, 4)
    errors = []
    for strength in strengths:
        context = at_strength(only_rules(case.context, INTERVAL), strength)
        slope, bias = free.mean[:1], np.linspace(-4.0, 5.0, 90_001)
        moments = quadrature(case.density, context, slope, bias)
        errors.append(np.abs([moments.mean[1], moments.variance[1]] / limit - 1))
    assert np.all(np.diff(errors, axis=0) < 0), errors
    assert np.all(errors * np.sqrt(strengths)[:, None] < 1.0), errors


@OTHERS_SLOW
@pytest.mark.parametrize("data", [True, False], ids=["posterior", "prior"])
def test_the_negative_exponential_is_sampled_as_quadrature_has_it(name: str, data: bool) -> None:
    case = regression()
    context = at_strength(only_rules(case.context, HALF_LINE), 30.0)
    context = context if data else weighted(context, 0.0)
    exact = case.moments(context)
    for seed in SEEDS:
        assert_exact(draws(name, case, context, seed), exact)


@OTHERS_SLOW
@pytest.mark.parametrize("data", [True, False], ids=["posterior", "prior"])
def test_a_class_rule_is_sampled_as_quadrature_has_it(name: str, data: bool) -> None:
    case = classification()
    context = case.context if data else weighted(case.context, 0.0)
    exact = case.moments(context)
    for seed in SEEDS:
        assert_exact(draws(name, case, context, seed), exact)
