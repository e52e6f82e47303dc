"""Learning: rules are met, by the prior closest to the base prior, whatever kind of rule it is."""

from __future__ import annotations

import numpy as np
import pytest

from amortized_cases import CLASSES, HIRING, LINE, SIGN_RULE, SMALL, learnt
from ocbnn.amortize import AmortizedPrior, Learning
from ocbnn.amortize.findings import (
    RuleFinding,
    checked,
    chosen_concentration,
    concentrated,
    far_and_wide,
    far_from,
)
from ocbnn.errors import ModelError, OCBNNWarning
from ocbnn.model import Model
from ocbnn.model.outputs import model_outputs
from ocbnn.model.priors import DiagonalGaussian
from ocbnn.rules.parse import parse_rule


def test_the_rule_is_met_and_the_findings_are_those_of_draws(sign_prior):
    (finding,) = sign_prior.findings.rules
    assert finding.met
    assert not finding.disagrees
    model = Model.build(schema=LINE, base=sign_prior, noise=0.1)
    x = np.random.default_rng(0).uniform(-3, 3, (500, 1))
    share = (model_outputs(model, sign_prior.draws(4000, 7), x) * x[:, 0] < 0).mean()
    assert share == pytest.approx(finding.check.violation.value, abs=5 * finding.check.error + 0.005)
    assert finding.check.violation.high <= finding.check.tolerance
    assert sign_prior.findings.kl == pytest.approx(sign_prior.gaussian.kl_to(sign_prior.base))
    assert "90% band" in str(sign_prior)


@pytest.mark.slow
def test_only_rules_that_hold_the_prior_back_bind():
    rules = [parse_rule("if x > 1 then y >= 0", LINE, name="held", tolerance=0.05), "always y <= 100"]
    prior = learnt(rules, LINE)
    held, slack = prior.findings.rules
    assert held.binds
    assert not slack.binds
    assert held.met
    assert slack.met
    assert held.check.violation.value > 0.01  # as close to the base prior as its tolerance lets it
    assert slack.multiplier == 0.0


@pytest.mark.slow
def test_several_classes_are_learnt_by_monte_carlo():
    rule = parse_rule("if x > 1 then label in {green, blue}", CLASSES, tolerance=0.05)
    prior = learnt([rule], CLASSES)
    (finding,) = prior.findings.rules
    assert prior.findings.objective == "monte-carlo"
    assert finding.met
    assert not finding.disagrees


@pytest.mark.filterwarnings("ignore::ocbnn.errors.OCBNNWarning")
@pytest.mark.slow
def test_the_same_seed_gives_the_same_prior():
    short = Learning(steps=3, points=4, samples=4, starts=1)
    one, two, other = (
        AmortizedPrior.learn([SIGN_RULE], LINE, hidden=(2,), concentration=9.0, learning=short, seed=seed)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.gaussian.mean, two.gaussian.mean)
    assert not np.array_equal(one.gaussian.mean, other.gaussian.mean)
    assert one.findings.concentration == 9.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The learnt prior does not keep")
def test_a_surrogate_that_claims_what_draws_do_not_show_is_told():
    with pytest.warns(OCBNNWarning, match="trust the draws"):
        prior = AmortizedPrior.learn(
            [SIGN_RULE],
            LINE,
            hidden=(4,),
            objective="linearized",
            concentration=1.0,
            learning=Learning.paper(125),
            seed=5,  # a start from which the learnt networks are far from linear in their weights
        )
    (finding,) = prior.findings.rules
    assert finding.check.violation.value - finding.claimed > 0.05


def test_concentration_is_the_smallest_that_keeps_the_rules():
    gaussian = DiagonalGaussian(np.array([1.0]), np.array([1.0]))
    found = chosen_concentration(gaussian, lambda each: bool(each.sd[0] <= 0.2), rounds=12)
    assert found == pytest.approx(5.0, rel=0.01)
    assert found >= 5.0
    assert chosen_concentration(gaussian, lambda each: True) == 1.0
    assert chosen_concentration(gaussian, lambda each: False) == 1.0


def test_a_verdict_rests_on_other_draws_than_those_that_the_concentration_was_chosen_by(sign_prior):
    """Draws that chose a concentration keep the rules by choice."""
    (finding,), (term,) = sign_prior.findings.rules, sign_prior.learnt
    model = Model.build(schema=LINE, base=sign_prior, noise=0.1)
    chosen, judged = (
        checked(model, sign_prior.gaussian, term, observation=False, seed=0, purpose=purpose)
        for purpose in ("concentration", "findings")
    )
    assert chosen.violation.value <= chosen.tolerance
    assert finding.check.violation == judged.violation
    assert finding.check.violation.value > 0.0
    assert finding.check.violation != chosen.violation


def test_a_violation_within_the_tolerance_whose_interval_is_beyond_it_is_not_met():
    def found(tolerance: float) -> RuleFinding:
        rule = parse_rule("always y <= 3", LINE, tolerance=tolerance)
        model = Model.build(schema=LINE, rules=[rule], hidden=(), noise=0.1)
        gaussian = DiagonalGaussian(np.zeros(2), np.array([1e-3, 1.3]))
        check = checked(model, gaussian, model.terms[0], observation=False, seed=0)
        return RuleFinding(check, check.violation.value, 0.0)

    value, low, high, _ = found(0.01).check.violation
    assert low < value < high
    between = found(0.5 * (value + high))
    assert between.check.violation.value < between.check.tolerance
    assert not between.met
    assert str(between).startswith("not shown")
    assert found(1.01 * high).met
    assert found(0.99 * low).check.verdict == "unmet"


def test_observations_break_rules_more_often_than_functions(sign_prior):
    model = Model.build(schema=LINE, base=sign_prior, rules=sign_prior.rules, noise=0.5)
    narrow = concentrated(sign_prior.gaussian, 10.0)
    (term,) = sign_prior.learnt
    of_function, of_observation = (
        checked(model, narrow, term, observation=each, seed=0).violation.value for each in (False, True)
    )
    assert of_observation > of_function + 0.01


def test_observed_classes_break_a_rule_as_often_as_they_are_probable():
    model = Model.build(schema=CLASSES, rules=["always label in {blue, green}"], hidden=(4,))
    gaussian = DiagonalGaussian(np.zeros(model.size), np.ones(model.size))
    of_function, of_observation = (
        checked(model, gaussian, model.terms[0], observation=each, seed=0) for each in (False, True)
    )
    x = np.random.default_rng(0).uniform(-2, 2, (200, 1))
    red = model_outputs(model, gaussian.draws(4000, 7), x)[..., 2]
    assert of_observation.violation.value == pytest.approx(red.mean(), abs=5 * of_observation.error + 0.005)
    assert of_observation.error < of_function.error  # a probability varies less than a class


def test_inputs_far_and_wide_stay_within_what_is_possible():
    coded = far_and_wide(HIRING, None, 256, 0)
    assert coded[:, 1].min() >= 0.0
    assert coded[:, 1].max() <= 1.0
    assert set(coded[:, 0]) == {0.0, 1.0}
    wide = far_and_wide(LINE, None, 256, 0)
    assert wide.min() == pytest.approx(-6.0, abs=0.1)
    assert wide.max() == pytest.approx(6.0, abs=0.1)
    rule = Model.build(schema=LINE, rules=["if x > 0 then y >= 0"]).terms
    far = far_from(rule, LINE, wide)
    assert ((far < 0) | (far > 3)).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rules": []}, "no rules"),
        ({"objective": "exact"}, "monte-carlo"),
        ({"schema": CLASSES, "rules": ["always label = red"], "objective": "linearized"}, "two classes"),
        ({"observation": True}, "noise="),
        ({"rules": ["always y ~ Normal(0, 1)"]}, "noise="),
        ({"base": object()}, "Gaussian base prior"),
        ({"base": DiagonalGaussian(np.zeros(3), np.ones(3))}, "3 weights"),
        ({"divergence": "chi-square"}, "no divergence"),
    ],
)
def test_what_cannot_be_learnt_is_refused(options, said):
    options = {"rules": [SIGN_RULE], "schema": LINE, **options}
    with pytest.raises(ModelError, match=said):
        learnt(options.pop("rules"), options.pop("schema"), **options)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"aim": 0.0}, {"aim": 1.5}, {"starts": 0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ModelError):
        Learning(**wrong)


def test_the_papers_settings_are_the_papers():
    paper = Learning.paper(125)
    assert (paper.steps, paper.points, paper.learning_rate, paper.optimizer) == (125, 30, 0.1, "adagrad")
    assert not paper.constrained
    assert SMALL.constrained
