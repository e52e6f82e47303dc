"""`conflict()` of an estimator: twins on the same rows, with the rules taken out."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.metrics import log_loss

from ocbnn.errors import OCBNNError
from ocbnn.inference import Settings, WarmStart
from ocbnn.posterior import Posterior
from ocbnn.posterior.predict import function_draws
from small_estimators import blood_pressures, functions_in_numpy, small_classifier, small_regressor


def table(rows: int = 40, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": generator.uniform(-2, 2, rows)})
    return frame, (2 * frame["x"] + generator.normal(0, 0.1, rows)).rename("y")


def test_the_twin_is_the_fit_without_rules_and_the_rule_costs_what_it_contradicts():
    frame, y = table()
    model = small_regressor(rules="if x > 1 then y <= 0", tolerance=0.99).fit(frame, y)
    held_out, truth = table(30, seed=1)
    (found,) = model.conflict(held_out, truth, points=50)
    free = small_regressor().fit(frame, y)
    assert np.array_equal(model.without_rules().draws, free.posterior_.draws)
    assert found.violation_without.value == 1.0
    assert found.log_score.without_rule > found.log_score.with_rule
    assert found.where["x"].iloc[0] > 0.5


@pytest.fixture(scope="module")
def doubly_ruled():
    """Two rules that the rows contradict, and points of theirs found by a search."""
    preparation = Settings(warm=WarmStart(steps=1, searches=2, found=3), strength=None, nodes=False)
    rules = ["if x > 1 then y <= 0", "if x < -1 then y >= 0"]
    return small_regressor(rules=rules, tolerance=0.99, preparation=preparation).fit(*table())


def test_twins_score_rules_at_the_points_of_the_fit(doubly_ruled):
    fitted = doubly_ruled.posterior_.rules
    assert any(np.count_nonzero(rule.points.weights) > rule.drawn for rule in fitted)
    for rules in (doubly_ruled.without_data().rules, doubly_ruled._twin(fitted).rules):
        for mine, theirs in zip(rules, fitted, strict=True):
            assert np.array_equal(mine.points.coded, theirs.points.coded)
            assert np.array_equal(mine.points.weights, theirs.points.weights)


def log_score(posterior: Posterior, held_out: pd.DataFrame, truth: pd.Series) -> float:
    mean, noise = function_draws(posterior, held_out), posterior.noise(posterior.schema.encode(held_out))
    return float(np.mean(logsumexp(norm.logpdf(truth.to_numpy(), mean, noise), axis=0) - np.log(len(mean))))


@pytest.mark.slow
def test_each_rule_is_compared_with_a_twin_under_the_other_one(doubly_ruled):
    rows = table(30, seed=1)
    found = doubly_ruled.conflict(*rows, points=50)
    first, second = doubly_ruled.posterior_.rules
    without = [log_score(doubly_ruled._twin((other,)), *rows) for other in (second, first)]
    score = log_score(doubly_ruled.posterior_, *rows)
    assert [each.log_score.with_rule for each in found] == [pytest.approx(score, rel=1e-5)] * 2
    assert [each.log_score.without_rule for each in found] == pytest.approx(without, rel=1e-5)


def test_all_rules_together_are_compared_with_no_rules(doubly_ruled):
    rows = table(30, seed=1)
    both = doubly_ruled.conflict(*rows, each=False, points=20)
    score = log_score(doubly_ruled.without_rules(), *rows)
    assert [each.log_score.without_rule for each in both] == [pytest.approx(score, rel=1e-5)] * 2


def test_changes_and_violations_are_what_numpy_counts_at_fresh_points(ruled):
    frame, y = blood_pressures(20, seed=3)
    (found,) = ruled.conflict(frame, y, points=40, key=2)
    fresh = ruled.schema_.decode(ruled.posterior_.rules[0].fresh(40, 2))
    under, free = functions_in_numpy(ruled, fresh), function_draws(ruled.without_rules(), fresh)
    change = np.abs(under.mean(axis=0) - free.mean(axis=0)).mean()
    assert found.change_inside == pytest.approx(change, rel=1e-6)
    assert found.violation_with.value == pytest.approx((under > 260).mean())
    assert found.violation_without.value == pytest.approx((free > 260).mean())


def test_the_log_score_of_classes_is_scikit_learns_log_loss_and_their_twin_the_fit_without_rules():
    frame, y = table()
    sign = pd.Series(np.where(y > 0, "plus", "minus"), name="sign")
    model = small_classifier(rules="if x > 1 then sign = minus", tolerance=0.99).fit(frame, sign)
    (found,) = model.conflict(frame, sign, points=40)
    free = small_classifier().fit(frame, sign)
    assert np.array_equal(model.without_rules().draws, free.posterior_.draws)
    for score, each in ((found.log_score.with_rule, model), (found.log_score.without_rule, free)):
        probabilities = each.sample_function(frame).mean(axis=0)
        assert score == pytest.approx(-log_loss(sign, probabilities), rel=1e-6)


def test_without_rules_there_is_no_conflict():
    model = small_regressor().fit(*table())
    with pytest.raises(OCBNNError, match="no rules"):
        model.conflict()
