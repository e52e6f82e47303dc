"""Conflict between rules and data: every figure against NumPy, on posteriors made by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.posterior import Posterior
from ocbnn.posterior.conflict import conflict, log_scores, point_predictions
from ocbnn.posterior.enforce import truncate
from ocbnn.posterior.predict import predict
from posterior_cases import CLASSES, class_constants

RULES = ("if x > 2 then y >= 10", "if x < 0 then y <= 50")


def linear(intercept: float, slope: float, rules=RULES, spread: float = 0.0) -> Posterior:
    """Draws of straight lines in raw units, y = intercept + slope · x, apart from each other by `spread`."""
    frame = pd.DataFrame({"x": np.linspace(-2, 3, 26), "y": np.linspace(-4, 6, 26)})
    model = Model.build(frame=frame, target="y", rules=rules, hidden=(), noise=2.0, points=5)
    column, target = model.schema.columns[0], model.schema.target
    shifts = spread * np.linspace(-1, 1, 9)
    biases = (intercept + shifts + slope * column.center - target.center) / target.scale
    slopes = np.full(9, slope * column.scale / target.scale)
    draws = np.stack([slopes, biases], axis=1)[None]
    return Posterior(draws, model, {"chains": False, "status": "made"})


@pytest.fixture(scope="module")
def lines() -> tuple[Posterior, Posterior]:
    return linear(8.0, 1.0), linear(0.0, 2.0, spread=1.0)


def test_predictions_are_the_lines(lines):
    x = pd.DataFrame({"x": [-1.0, 0.5, 2.5]})
    np.testing.assert_allclose(point_predictions(lines[0], x), 8.0 + x["x"])
    np.testing.assert_allclose(point_predictions(lines[1], x), 2 * x["x"], atol=1e-9)


def test_log_scores_are_those_of_the_mixture(lines):
    x, y = np.array([-1.0, 0.5, 2.5]), np.array([3.0, -2.0, 7.0])
    functions = 2 * x + np.linspace(-1, 1, 9)[:, None]
    expected = np.log(norm.pdf(y, functions, 2.0).mean(axis=0))
    np.testing.assert_allclose(log_scores(lines[1], pd.DataFrame({"x": x}), y), expected, rtol=1e-9)


def test_log_scores_of_classes_are_logs_of_mean_probabilities():
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "label": ["a", "b", "a", "b"]})
    model = Model.build(frame=frame, target="label", hidden=())
    draws = np.array([[[0.0, 1.0], [0.0, -2.0]]])
    posterior = Posterior(draws, model, {"chains": False})
    b = (1 / (1 + np.exp([-1.0, 2.0]))).mean()
    expected = np.log([1 - b, b])
    np.testing.assert_allclose(log_scores(posterior, frame[["x"]][:2], ["a", "b"]), expected)


def test_the_violation_mass_is_that_of_the_posterior_without_rules(lines):
    found = conflict(*lines, points=400)
    # y = 2x ± 1 stays below 10 wherever x > 2 is observed, and x < 0 never comes near 50.
    assert [each.violation_without.value for each in found] == [1.0, 0.0]
    # y = 8 + x is at least 10 where x >= 2.
    assert [each.violation_with.value for each in found] == [0.0, 0.0]
    assert found[0].measure == "violation"


def test_the_log_score_is_the_mean_difference_with_its_error(lines):
    x = np.linspace(-1, 3, 12)
    y = 2 * x + 1
    found, _ = conflict(*lines, held_out=pd.DataFrame({"x": x}), y=y, points=20)
    each = [log_scores(posterior, pd.DataFrame({"x": x}), y) for posterior in lines]
    difference = each[0] - each[1]
    assert found.log_score.with_rule == pytest.approx(each[0].mean())
    assert found.log_score.without_rule == pytest.approx(each[1].mean())
    assert found.log_score.difference == pytest.approx(difference.mean())
    assert found.log_score.error == pytest.approx(difference.std(ddof=1) / np.sqrt(12))
    assert found.log_score.difference < 0


def test_the_change_and_where_it_is_largest(lines):
    found, _ = conflict(*lines, points=200, where=3)
    # |8 + x − 2x| = |8 − x| at the rows outside of the region, which are x = −2 … 2 in steps of 0.2.
    rows = np.linspace(-2, 3, 26)
    outside = rows[rows <= 2.0]
    assert found.change_outside == pytest.approx(np.abs(8 - outside).mean(), rel=1e-6)
    assert found.where["x"].iloc[0] == pytest.approx(-2.0)
    assert found.where["change"].iloc[0] == pytest.approx(10.0)
    assert found.where["y with the rule"].iloc[0] == pytest.approx(6.0)
    assert found.where["y without it"].iloc[0] == pytest.approx(-4.0)
    assert list(found.where["change"]) == sorted(found.where["change"], reverse=True)
    inside = lines[0].rules[0].fresh(200, 0)[:, 0]
    assert found.change_inside == pytest.approx(np.abs(8 - inside).mean(), rel=1e-6)


def test_each_rule_is_compared_with_the_posterior_without_it(lines):
    same = conflict(*lines, without_each=[lines[1], lines[0]], points=50)
    assert same[1].change_inside == 0.0
    assert same[0].change_inside > 1.0


def test_a_conflict_reads_as_a_sentence(lines):
    found, _ = conflict(*lines, held_out=pd.DataFrame({"x": [0.0, 1.0]}), y=[0.0, 2.0], points=20)
    text = str(found)
    assert text.startswith("if x > 2 then y >= 10: violation on average 1 [")
    assert "log score of 2 held-out rows -" in text


def test_what_cannot_be_compared_is_refused(lines):
    free = linear(0.0, 1.0, rules=())
    with pytest.raises(OCBNNError, match="no rules"):
        conflict(free, free)
    with pytest.raises(OCBNNError, match="2 rules, but posteriors without 1"):
        conflict(*lines, without_each=[lines[1]])
    with pytest.raises(OCBNNError, match="both, or neither"):
        conflict(*lines, y=[1.0])
    with pytest.raises(OCBNNError, match="1 rows, but 2"):
        log_scores(lines[0], pd.DataFrame({"x": [1.0]}), [1.0, 2.0])


def test_a_probabilistic_rule_is_measured_by_total_variation():
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "label": [0, 1, 0, 1]})
    model = Model.build(frame=frame, target="label", rules=["always P(label = 1) = 0.5"], hidden=(), points=4)
    even = Posterior(np.zeros((1, 6, 2)), model, {"chains": False})
    sure = replace(even, draws=np.tile([0.0, np.log(9.0)], (1, 6, 1)))
    (found,) = conflict(even, sure, points=30)
    assert found.measure == "total variation"
    assert found.violation_without.value == pytest.approx(0.4)
    assert found.violation_with.value == pytest.approx(0.0, abs=1e-9)
    assert found.change_inside == pytest.approx(0.4)
    assert found.where["P(label = 1) without it"].iloc[0] == pytest.approx(0.9)


def test_changes_of_several_classes_are_total_variations_and_are_named():
    probabilities = {"with the rule": [0.2, 0.3, 0.5], "without it": [0.5, 0.4, 0.1]}
    one, other = (
        class_constants(np.full((1, 4, 3), each), ["if x > 0 then label = red"])
        for each in probabilities.values()
    )
    (found,) = conflict(one, other, points=20, where=2)
    assert found.change_inside == pytest.approx(0.4)
    assert found.change_outside is None
    assert (found.violation_without.value, found.violation_with.value) == (1.0, 0.0)
    for name, each in probabilities.items():
        row = [found.where[f"P(label = {label}) {name}"].iloc[0] for label in CLASSES]
        np.testing.assert_allclose(row, each, rtol=1e-6)


def test_scores_and_changes_of_a_truncated_posterior_are_of_the_restricted_predictive(lines):
    _, free = lines
    truncated = replace(free, truncated=truncate(free, ["if x > 2 then y >= 5"]).rules)
    x, y = np.array([-1.0, 2.5, 2.5]), np.array([3.0, 7.0, 4.0])
    functions = 2 * x + np.linspace(-1, 1, 9)[:, None]
    whole = norm.pdf(y, functions, 2.0).mean(axis=0)
    mass = norm.sf(5.0, functions[:, 1], 2.0).mean()
    expected = np.log([whole[0], whole[1] / mass, np.finfo(float).tiny])  # the last y is forbidden
    table = pd.DataFrame({"x": x})
    np.testing.assert_allclose(log_scores(truncated, table, y), expected, rtol=1e-9)
    np.testing.assert_array_equal(point_predictions(truncated, table), predict(truncated, table).point)
    with pytest.raises(OCBNNError, match="less than 1e-06"):
        log_scores(replace(free, truncated=truncate(free, ["if x > 2 then y >= 99"]).rules), table, y)


def test_scores_after_rejection_are_of_the_draws_that_obey_at_the_row(lines):
    _, free = lines
    enforced = replace(free, enforced=free.rules)  # of the nine lines 2x ± 1 the upper five obey at 5.05
    x, y = pd.DataFrame({"x": [1.0, 5.05]}), np.array([2.0, 10.1])
    shifts = np.linspace(-1, 1, 9)
    expected = [norm.logpdf(0.0, shifts, 2.0), norm.logpdf(0.0, shifts[4:], 2.0)]
    np.testing.assert_allclose(
        log_scores(enforced, x, y), [np.log(np.exp(each).mean()) for each in expected], rtol=1e-6
    )
    np.testing.assert_allclose(point_predictions(enforced, x), [2.0, 10.6])


def test_scores_of_truncated_classes_are_of_the_restricted_probabilities():
    drawn = np.array([[[0.2, 0.3, 0.5], [0.4, 0.1, 0.5]]])
    posterior = class_constants(drawn, ["always not label = red"])
    truncated = replace(posterior, truncated=truncate(posterior).rules)
    found = log_scores(truncated, np.zeros((2, 2)), ["blue", "red"])
    np.testing.assert_allclose(found, np.log([0.6, np.finfo(float).tiny]), rtol=1e-6)
    np.testing.assert_allclose(point_predictions(truncated, np.zeros((1, 2))), [[0.6, 0.4, 0.0]], atol=1e-9)
