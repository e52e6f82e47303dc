"""`conflict()` of an estimator: twins on the same rows, with the rules taken out."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from ocbnn.errors import OCBNNError
from ocbnn.inference import Settings, WarmStart
from ocbnn.posterior.predict import function_draws
from small_estimators import small_regressor


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
    assert np.array_equal(model._twin(()).draws, free.posterior_.draws)
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


def test_each_rule_is_compared_with_a_twin_under_the_other_one(doubly_ruled):
    held_out, truth = table(30, seed=1)
    found = doubly_ruled.conflict(held_out, truth, points=50)
    first, second = doubly_ruled.posterior_.rules

    def log_score(posterior):
        mean = function_draws(posterior, held_out)
        noise = posterior.noise.reshape(-1, 1)
        return float(
            np.mean(logsumexp(norm.logpdf(truth.to_numpy(), mean, noise), axis=0) - np.log(len(mean)))
        )

    assert found[0].log_score.with_rule == pytest.approx(log_score(doubly_ruled.posterior_), rel=1e-5)
    assert found[0].log_score.without_rule == pytest.approx(
        log_score(doubly_ruled._twin((second,))), rel=1e-5
    )
    assert found[1].log_score.without_rule == pytest.approx(log_score(doubly_ruled._twin((first,))), rel=1e-5)


def test_without_rules_there_is_no_conflict():
    model = small_regressor().fit(*table())
    with pytest.raises(OCBNNError, match="no rules"):
        model.conflict()
