"""Rules that compare inputs are learnt from the same weights at all of them, whatever kind they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amortized_cases import LINE, learnt
from ocbnn.amortize.findings import checked
from ocbnn.amortize.learning import Elsewhere, Problem
from ocbnn.amortize.objectives import DIVERGENCES, Objective, shortfall
from ocbnn.amortize.predictive import Predictive, sampled
from ocbnn.errors import ModelError
from ocbnn.model import Model
from ocbnn.model.conditional import RulePoints, Scoring, rule_terms
from ocbnn.model.likelihoods import Gaussian
from ocbnn.model.networks import MLP
from ocbnn.model.outputs import model_outputs
from ocbnn.model.priors import DiagonalGaussian
from ocbnn.regions import Everywhere
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from ocbnn.rules.requirement import Requirement

NETWORK = MLP(1, (4,), 1, "rbf")
LIKELIHOOD = Gaussian(0.5)
OBJECTIVE = Objective(LIKELIHOOD, DIVERGENCES["total-variation"], noise=0.5, tangent=False)
SAMPLES = 20_000
ERROR = 0.02
"""A share of so many draws is within 0.01 of the truth; the kernels that smooth it move it by less."""


@dataclass(frozen=True)
class Step(Requirement):
    """|y(x + 1) − y(x)| is at most this."""

    most: float

    in_words = False
    inputs = 2

    def cases(self, points, schema, region):
        return np.stack([points, points + 1.0], axis=1)

    def demand(self, cases, schema, units):
        return (np.full(len(cases), self.most / units.scale),)

    def margin(self, demand, values):
        return abs(values[..., 1] - values[..., 0]) - demand[0]

    def text(self, target_name="y", names=()):
        return f"|{target_name}(x + 1) - {target_name}(x)| <= {self.most:g}"


@dataclass(frozen=True)
class Average(Requirement):
    """The mean of y over all points is at most this."""

    most: float

    in_words = False
    inputs = None

    def demand(self, cases, schema, units):
        return (np.full(len(cases), units.of(self.most)),)

    def margin(self, demand, values):
        return values.mean(axis=-1) - demand[0]

    def text(self, target_name="y", names=()):
        return f"the mean of {target_name} <= {self.most:g}"


def gaussian() -> DiagonalGaussian:
    """A bias that varies much, which is in all outputs of a draw and cancels in differences."""
    generator = np.random.default_rng(0)
    return DiagonalGaussian(
        generator.normal(size=NETWORK.size), np.append(generator.uniform(0.3, 0.9, NETWORK.size - 1), 3.0)
    )


def problem(rules: list[Constraint], count: int = 8) -> tuple[Problem, tuple[RulePoints, ...]]:
    terms = rule_terms(rules, LINE, Scoring(points=count), bounded=NETWORK.bounded)
    points = tuple(term.points for term in terms)
    elsewhere = Elsewhere(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)))
    budgets = tuple(rule.effective_tolerance for rule in rules)
    return Problem(NETWORK, gaussian(), tuple(rules), budgets, OBJECTIVE, elsewhere), points


def shortfalls(given: Problem, points: tuple[RulePoints, ...]) -> np.ndarray:
    mean, sd = (jnp.asarray(each) for each in (given.base.mean, given.base.sd))
    found = jax.jit(given.shortfalls, static_argnums=4)(mean, sd, points, jax.random.key(0), SAMPLES)
    return np.asarray(found)


def brute_force(points: RulePoints, noise: float = 0.0) -> np.ndarray:
    """Outputs of draws of w, (S, inputs)."""
    draws = gaussian().draws(SAMPLES, 9)
    values = np.asarray(jax.jit(jax.vmap(lambda w: NETWORK.apply(w, points.inputs)[:, 0]))(draws))
    return values + noise * np.random.default_rng(1).normal(size=values.shape)


@pytest.mark.slow
def test_the_shortfall_of_a_pair_is_that_of_draws_of_w():
    rule = Constraint(Everywhere(), Step(1.0))
    given, (points,) = problem([rule])
    values = brute_force(points).reshape(SAMPLES, -1, 2)
    share = (np.abs(values[..., 1] - values[..., 0]) > 1.0).mean()
    assert 0.05 < share < 0.95
    assert shortfalls(given, (points,))[0] == pytest.approx(share, abs=ERROR)
    # Hidden layers drawn at each input on their own are draws of other weights, whose biases do not cancel.
    mean, sd = (jnp.asarray(each) for each in (given.base.mean, given.base.sd))
    apart = sampled(NETWORK, mean, sd, jnp.asarray(points.inputs), jax.random.key(0), SAMPLES)
    apart = Predictive(*(each.reshape(SAMPLES, -1, 2, 1) for each in apart))
    wrong = shortfall(rule.requirement, points.demand, apart, jax.random.key(1), OBJECTIVE).mean()
    assert abs(float(wrong) - share) > 0.1


def test_pairs_of_observations_have_noise_of_their_own_at_each_input():
    given, (points,) = problem([Constraint(Everywhere(), Step(1.0))])
    noisy = replace(given, objective=OBJECTIVE._replace(observation=True))
    values = brute_force(points, noise=0.5).reshape(SAMPLES, -1, 2)
    share = (np.abs(values[..., 1] - values[..., 0]) > 1.0).mean()
    assert shortfalls(noisy, (points,))[0] == pytest.approx(share, abs=ERROR)
    assert share > shortfalls(given, (points,))[0] + ERROR


def test_a_population_is_one_case_of_the_same_draws():
    given, (points,) = problem([Constraint(Everywhere(), Average(1.0))], count=64)
    share = (brute_force(points).mean(axis=1) > 1.0).mean()
    assert 0.05 < share < 0.95
    assert shortfalls(given, (points,))[0] == pytest.approx(share, abs=ERROR)


@pytest.mark.slow
def test_rules_about_one_input_and_about_several_stand_side_by_side():
    rules = [
        Constraint(Everywhere(), Step(1.0)),
        parse_rule("always y <= 1", LINE),
        Constraint(Everywhere(), Average(1.0)),
    ]
    given, points = problem(rules)
    together = shortfalls(given, points)
    for number, rule in enumerate(rules):
        (alone,) = shortfalls(problem([rule])[0], points[number : number + 1])
        assert together[number] == pytest.approx(alone, abs=1e-6 if number == 1 else ERROR)


@pytest.mark.slow
def test_a_pair_is_learnt():
    prior = learnt([Constraint(Everywhere(), Step(1.0), name="step", tolerance=0.05)], LINE)
    (finding,) = prior.findings.rules
    model = Model.build(schema=LINE, base=prior)
    before = checked(model, prior.base, prior.learnt[0], observation=False, seed=0)
    assert before.verdict == "unmet"
    assert prior.findings.objective == "monte-carlo"
    assert finding.met
    assert finding.binds
    assert not finding.disagrees
    x = np.random.default_rng(0).uniform(-3, 3, (500, 1))
    here, there = (model_outputs(model, prior.draws(4000, 7), at) for at in (x, x + 1.0))
    share = (np.abs(there - here) > 1.0).mean()
    assert share == pytest.approx(finding.check.violation.value, abs=5 * finding.check.error + 0.005)


@pytest.mark.parametrize("requirement", [Step(2.0), Average(1.0)])
def test_the_linearised_objective_refuses_rules_about_several_inputs(requirement):
    with pytest.raises(ModelError, match="draws of the weights"):
        learnt([Constraint(Everywhere(), requirement)], LINE, objective="linearized")


def test_the_linearised_objective_refuses_functions():
    rule = Constraint.from_functions(Everywhere(), lambda x, y: y - 1.0)
    with pytest.raises(ModelError, match="draws of the weights"):
        learnt([rule], LINE, objective="linearized")


class Undistributed(Average):
    judged = "predictive"


def test_a_rule_about_all_draws_that_states_no_distribution_cannot_be_learnt():
    with pytest.raises(ModelError, match="cannot learn from the kind of rule `the mean of y <= 1`"):
        learnt([Constraint(Everywhere(), Undistributed(1.0))], LINE)
