"""Mass outside of what a rule allows, against SciPy and draws; its gradient where nothing is inside."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from ocbnn.amortize.objectives import (
    DIVERGENCES,
    Objective,
    Within,
    divergence,
    from_log_mass,
    log_mass,
    shortfall,
)
from ocbnn.amortize.predictive import Predictive
from ocbnn.errors import ModelError
from ocbnn.language.expressions import Always, Number
from ocbnn.model.likelihoods import Bernoulli, Categorical, Gaussian
from ocbnn.rules.kinds.bounds import Bounds, Ends
from ocbnn.rules.kinds.classes import AllowedClasses, Classes
from ocbnn.rules.kinds.distribution import ClassProbabilities, NormalDistribution, StatedClasses
from ocbnn.rules.kinds.functions import Columns, Functions
from ocbnn.rules.kinds.probability import ProbabilityBounds, ProbabilityTarget, StatedProbability
from ocbnn.rules.kinds.values import Values
from ocbnn.rules.requirement import Allowed, Normals, Peaks, Requirement, Shares

KEY = jax.random.key(0)
NUMBER = Objective(Gaussian(0.5), DIVERGENCES["total-variation"], noise=0.5)
BINARY = Objective(Bernoulli(), DIVERGENCES["total-variation"])
THREE = Objective(Categorical(3), DIVERGENCES["total-variation"])
BOUNDS, CLASSES, SHARES = Bounds(Always()), Classes(()), ProbabilityBounds((), Always())
"""Demands are given to the tests as arrays: what else these kinds hold is not looked at."""


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def predictive(mean, variance) -> Predictive:
    """Gaussians (S, T) of one output."""
    return Predictive(jnp.asarray(mean, float)[..., None], jnp.asarray(variance, float)[..., None])


def one(mean: float, sd: float) -> Predictive:
    return predictive([[mean]], [[sd**2]])


def outside(requirement: Requirement, demand, found: Predictive, objective: Objective) -> np.ndarray:
    plain = objective._replace(tangent=False)
    return np.asarray(jax.jit(lambda found: shortfall(requirement, demand, found, KEY, plain))(found))


def test_mass_is_the_difference_of_cdfs_averaged_over_samples():
    mean, sd = np.array([[0.3], [-1.0]]), np.array([[1.0], [2.0]])
    demand = Ends(np.array([[-1.0, 2.0, np.inf]]), np.array([[0.5, 2.5, -np.inf]]))
    inside = np.mean(
        [
            norm.cdf(0.5, m, s) - norm.cdf(-1.0, m, s) + norm.cdf(2.5, m, s) - norm.cdf(2.0, m, s)
            for m, s in zip(mean[:, 0], sd[:, 0], strict=True)
        ]
    )
    assert outside(BOUNDS, demand, predictive(mean, sd**2), NUMBER) == pytest.approx(1 - inside, abs=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (40.0, np.inf, norm.logsf(40.0)),
        (-np.inf, -40.0, norm.logcdf(-40.0)),
        (40.0, 41.0, norm.logsf(40.0)),
        (-41.0, -40.0, norm.logcdf(-40.0)),
        (-np.inf, np.inf, 0.0),
    ],
)
def test_far_tails_keep_mass_and_gradient(low, high, expected):
    def log_inside(mean, sd):
        number = Predictive(mean[None, None, None], (sd * sd)[None, None, None])
        return log_mass(Within(number, jnp.array([[low]]), jnp.array([[high]])))[0]

    both = jax.jit(jax.value_and_grad(log_inside, argnums=(0, 1)))
    value, slopes = both(jnp.array(0.0), jnp.array(1.0))
    assert float(value) == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(slopes).all()
    if np.isfinite(expected) and expected < 0:
        assert float(slopes[0]) * np.sign(low if np.isfinite(low) else high) > 1.0


def test_the_shortfall_is_one_less_the_mass_and_goes_on_where_none_is_inside():
    logs = jnp.log(jnp.array([1.0, 0.99, 0.5, 0.1001]))
    np.testing.assert_allclose(from_log_mass(logs), 1 - np.exp(logs), atol=1e-12)
    slopes = jax.vmap(jax.grad(lambda m: from_log_mass(m[None])[0]))(jnp.array([-2.30259, -50.0, -5000.0]))
    np.testing.assert_allclose(slopes, -0.1, rtol=1e-4)


def test_values_whose_margins_overlap_are_not_counted_twice():
    demand = Peaks(np.array([[0.5, 0.0]]), np.array([[0.5, 0.5]]), np.array([0.4]))
    inside = norm.cdf(0.9) - norm.cdf(-0.4)
    assert outside(Values(()), demand, one(0.0, 1.0), NUMBER) == pytest.approx(1 - inside, abs=1e-12)


def test_observations_have_the_variance_of_the_noise_too():
    demand = Ends(np.array([[0.0]]), np.array([[np.inf]]))
    found = outside(BOUNDS, demand, one(1.0, 1.2), NUMBER._replace(observation=True))
    assert found == pytest.approx(norm.cdf(0.0, 1.0, np.hypot(1.2, 0.5)), abs=1e-12)


@pytest.mark.parametrize(
    ("requirement", "demand", "expected"),
    [
        (CLASSES, AllowedClasses(np.array([[False, True]])), norm.cdf(0.0, 0.7, 1.5)),
        (CLASSES, AllowedClasses(np.array([[True, False]])), norm.sf(0.0, 0.7, 1.5)),
        (CLASSES, AllowedClasses(np.array([[True, True]])), 0.0),
        (
            SHARES,
            Shares(np.array([[False, True]]), np.array([[0.9]]), np.array([[1.0]])),
            norm.cdf(np.log(9.0), 0.7, 1.5),
        ),
        (
            SHARES,
            Shares(np.array([[True, False]]), np.array([[0.0]]), np.array([[0.2]])),
            norm.sf(np.log(0.25), -0.7, 1.5),
        ),
        (SHARES, Shares(np.array([[True, True]]), np.array([[0.5]]), np.array([[1.0]])), 0.0),
    ],
)
def test_rules_about_two_classes_are_intervals_of_the_logit(requirement, demand, expected):
    assert outside(requirement, demand, one(0.7, 1.5), BINARY) == pytest.approx(expected, abs=1e-7)


def three_classes(samples: int = 20_000) -> tuple[Predictive, np.ndarray]:
    mean = jnp.broadcast_to(jnp.array([0.5, 0.0, -0.3]), (samples, 1, 3))
    found = Predictive(mean, jnp.full((samples, 1, 3), 0.8))
    logits = np.asarray(mean[:, 0]) + np.sqrt(0.8) * np.random.default_rng(5).normal(size=(samples, 3))
    return found, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def test_three_classes_follow_draws():
    found, probabilities = three_classes()
    allowed = AllowedClasses(np.array([[True, False, True]]))
    share = np.mean(probabilities.argmax(axis=1) == 1)
    assert outside(CLASSES, allowed, found, THREE) == pytest.approx(share, abs=0.02)
    bound = Shares(np.array([[True, False, True]]), np.array([[0.6]]), np.array([[1.0]]))
    share = np.mean(probabilities[:, [0, 2]].sum(axis=1) < 0.6)
    assert outside(SHARES, bound, found, THREE) == pytest.approx(share, abs=0.02)
    asked = np.array([[0.2, 0.3, 0.5]])
    variation = 0.5 * np.abs(probabilities.mean(axis=0) - asked[0]).sum()
    target = StatedClasses(asked)
    assert outside(ClassProbabilities((), ()), target, found, THREE) == pytest.approx(variation, abs=0.01)
    observed = THREE._replace(observation=True)
    outside_mass = probabilities[:, 1].mean()
    assert outside(CLASSES, allowed, found, observed) == pytest.approx(outside_mass, abs=0.01)


def test_a_probability_target_is_about_the_expected_probability():
    stated = ProbabilityTarget((), Number(0.8))
    target = StatedProbability(np.array([[False, True]]), np.array([0.8]))
    logit = 0.4 + 2.0 * np.random.default_rng(0).normal(size=200_000)
    variation = abs(np.mean(1 / (1 + np.exp(-logit))) - 0.8)
    many = predictive(np.full((50_000, 1), 0.4), np.full((50_000, 1), 4.0))
    assert outside(stated, target, many, BINARY) == pytest.approx(variation, abs=0.01)
    closed = BINARY._replace(linearized=True)
    assert outside(stated, target, one(0.4, 2.0), closed) == pytest.approx(variation, abs=0.02)


def test_a_predictive_that_is_what_the_rule_asks_for_has_no_divergence():
    requirement = NormalDistribution(())
    demand = Normals(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0]]), np.array([[1.3, 0.0]]))
    same = one(2.0, np.sqrt(1.3**2 - 0.5**2))
    for name, each in DIVERGENCES.items():
        found = outside(requirement, demand, same, NUMBER._replace(divergence=each))
        assert found == pytest.approx(0.0, abs=2e-6), name
    shifted = outside(requirement, demand, one(3.0, np.sqrt(1.3**2 - 0.5**2)), NUMBER)
    exact = 2 * norm.cdf(0.5 / 1.3) - 1  # of two normals with equal spread, one apart
    assert exact - 0.01 < float(shifted[0]) <= exact + 1e-12


def test_a_rule_given_as_functions_is_measured_by_draws():
    demand = Columns({"x": np.array([1.0])}, np.array([0.0]), np.array([1.0]))
    requirement = Functions((lambda x, y: y - 1.0,), negative=False)
    many = predictive(np.full((50_000, 1), 0.2), np.full((50_000, 1), 1.0))
    assert outside(requirement, demand, many, NUMBER) == pytest.approx(norm.sf(0.8), abs=0.02)


@dataclass(frozen=True)
class TwoStatements(Requirement):
    """Probability of the first class at least 0.3, and the second one not the most probable."""

    def demand(self, cases, schema, units):
        return (np.zeros(len(cases)),)

    def margin(self, demand, values):
        return jnp.maximum(0.3 - values[..., 0], values[..., 1] - jnp.maximum(values[..., 0], values[..., 2]))

    def text(self, target_name="y", names=()):
        return "two statements"

    def allowed(self, demand):
        first = jnp.array([[True, False, False]])
        return Allowed(
            classes=jnp.array([[True, False, True]]),
            shares=Shares(first, jnp.array([[0.3]]), jnp.array([[1.0]])),
        )


def test_a_rule_that_makes_two_statements_is_measured_by_its_margin():
    found, probabilities = three_classes()
    broken = (probabilities[:, 0] < 0.3) | (probabilities.argmax(axis=1) == 1)
    assert outside(TwoStatements(), (np.zeros(1),), found, THREE) == pytest.approx(broken.mean(), abs=0.02)


class Undistributed(TwoStatements):
    judged = "predictive"


def test_a_rule_about_all_draws_that_states_no_distribution_is_refused():
    with pytest.raises(ModelError, match="states no distribution"):
        outside(Undistributed(), (np.zeros(1),), three_classes(2)[0], THREE)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_budget_implies_its_total_variation(name):
    asked, predicted = np.random.default_rng(1).dirichlet([0.7, 1.0, 2.0], size=(2, 4000)).clip(1e-3)
    asked, predicted = (each / each.sum(axis=1, keepdims=True) for each in (asked, predicted))
    distance = np.asarray(DIVERGENCES[name].between(jnp.asarray(asked), jnp.asarray(predicted)))
    variation = 0.5 * np.abs(asked - predicted).sum(axis=1)
    for tolerance in (0.01, 0.05, 0.3):
        within = distance <= DIVERGENCES[name].budget(tolerance)
        assert (variation[within] <= tolerance + 1e-6).all()
    assert np.corrcoef(distance, variation)[0, 1] > 0.6


def test_an_unknown_divergence_is_refused_with_those_there_are():
    with pytest.raises(ModelError, match="symmetric-kl"):
        divergence("chi-square")
