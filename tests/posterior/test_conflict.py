"""Conflict between rules and data: every figure against NumPy, on posteriors made by hand."""

from dataclasses import replace
from functools import cache

import arviz_base
import arviz_stats
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.posterior import Posterior
from ocbnn.posterior.conflict import (
    SENSITIVE,
    Conflict,
    beyond_chance,
    conflict,
    log_densities,
    log_scores,
    point_predictions,
    power_scaling,
    sensitivities,
)
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
    assert text.startswith("if x > 2 then y >= 10: violation 1 [")
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


# Sensitivity ------------------------------------------------------------------------------------------------


def distance(P: np.ndarray, Q: np.ndarray, step: float) -> float:
    """Cumulative Jensen-Shannon distance of two distribution functions on a fine grid, by its definition."""

    def one(F: np.ndarray, G: np.ndarray) -> float:
        return step * (np.sum(F * np.log2(2 * F / (F + G))) + np.sum(G - F) / (2 * np.log(2)))

    return np.sqrt((one(P, Q) + one(Q, P)) / (step * np.sum(P + Q)))


def of_normals(whole, factor, x, ends) -> float:
    """Sensitivity of x · w to a factor of the normal density of w, both as (precision, precision · mean).

    Φ is normal, also where the factor counts a little more or less: so it is known by quadrature.
    """
    grid, step = np.linspace(*ends, 4001, retstep=True)
    found = []
    for power in (0.99, 1.01):
        both = []
        for change in (0.0, power - 1.0):
            covariance = np.linalg.inv(whole[0] + change * factor[0])
            mean = covariance @ (whole[1] + change * factor[1])
            both.append(norm(x @ mean, np.sqrt(x @ covariance @ x)))
        # Of y and of −y, whose distribution function is 1 − that of y.
        sides = [each.cdf(grid) for each in both], [each.sf(grid) for each in both]
        found.append(max(distance(*side, step) for side in sides) / abs(np.log2(power)))
    return float(np.mean(found))


@pytest.mark.parametrize(("mean", "precision"), [(0.0, 1.0), (3.0, 0.5), (0.5, 0.01), (-8.0, 0.9)])
def test_power_scaling_of_a_normal_is_that_of_quadrature(mean, precision):
    whole, factor = [(np.array([[p]]), np.array([p * m])) for m, p in ((1.0, 1.25), (mean, precision))]
    values = norm(1.0, 1.25**-0.5).ppf((np.arange(20_000) + 0.5) / 20_000)
    (found,) = power_scaling(values[:, None], norm(mean, precision**-0.5).logpdf(values))
    expected = of_normals(whole, factor, np.ones(1), (values[0], values[-1]))
    assert found == pytest.approx(expected, rel=0.01)


def test_power_scaling_is_arvizs_but_for_the_smoothing_of_weights():
    values = np.random.default_rng(0).normal(size=(2, 500))
    rule, rows = norm(2.0, 1.0).logpdf(values), norm(-1.0, 0.7).logpdf(values)
    tree = arviz_base.from_dict(
        {
            "posterior": {"value": values},
            "log_prior": {"rule": rule, "other": 5.0 * values},
            "log_likelihood": {"rows": rows},
        }
    )
    arviz = [
        float(arviz_stats.psense(tree, group="prior", group_var_names=["rule"])["value"]),
        float(arviz_stats.psense(tree, group="likelihood")["value"]),
    ]
    found = [power_scaling(values.reshape(-1, 1), each.ravel())[0] for each in (rule, rows)]
    np.testing.assert_allclose(found, arviz, rtol=0.05)


def test_what_no_draw_moves_or_no_factor_tells_apart_has_no_sensitivity():
    draws = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 0.0]
    np.testing.assert_array_equal(power_scaling(draws, draws[:, 0])[1], 0.0)
    np.testing.assert_array_equal(power_scaling(draws, np.full(50, -3.0)), 0.0)


def test_what_draws_show_by_chance_is_subtracted():
    """A factor that says nothing of the quantity, as spread as the likelihood of a small network's draws."""
    raw, left = [], []
    for seed in range(20):
        values, log_density = np.random.default_rng(seed).normal(size=(2, 1000)) * [[1.0], [4.0]]
        raw.append(power_scaling(values[:, None], log_density)[0])
        left.append(beyond_chance(values, log_density))
    assert np.mean(raw) > 0.03
    assert np.mean(left) < 0.5 * np.mean(raw)
    values = np.random.default_rng(0).normal(size=1000)
    assert beyond_chance(values, 4.0 * values) == pytest.approx(
        power_scaling(values[:, None], 4.0 * values)[0], rel=0.01
    )


@cache
def straight(rule: str, noise: float, strength: float | None = None) -> tuple[Posterior, Posterior]:
    """Draws of a line's posterior under a rule, and without it, which is normal; thirty rows around y = 0."""
    x = np.linspace(-1, 1, 30)
    frame = pd.DataFrame({"x": x, "y": np.where(np.arange(30) % 2, 1.0, -1.0)})
    given = {"hidden": (), "noise": noise, "points": 20, "strength": strength, "standardize": False}
    model = Model.build(frame=frame, target="y", rules=[rule], **given)
    rows = np.column_stack([x, np.ones(30)])
    covariance = np.linalg.inv(np.eye(2) + rows.T @ rows / noise**2)
    mean = covariance @ rows.T @ frame["y"].to_numpy() / noise**2
    generator = np.random.default_rng(0)
    asked = model.terms[0].rule.requirement.asked(model.terms[0].points.demand)
    if asked is None:  # a wall: draws are kept with the probability that it leaves them
        free = generator.multivariate_normal(mean, covariance, 8000)
        kept = free[generator.random(8000) < np.exp(log_densities(model, free)[0][:, 0])][:2000]
    else:  # a normal: so is the posterior
        centre, sd = (float(np.asarray(each)[0, 0]) for each in asked.normals[1:])
        ruled = np.column_stack([model.terms[0].points.inputs[:, 0], np.ones(20)])
        free, precision = generator.multivariate_normal(mean, covariance, 2000), np.linalg.inv(covariance)
        pulled = np.linalg.inv(precision + ruled.T @ ruled / 20 / sd**2)
        shift = precision @ mean + ruled.T @ np.full(20, centre) / 20 / sd**2
        kept = generator.multivariate_normal(pulled @ shift, pulled, 2000)
    return tuple(Posterior(draws[None], model, {"chains": False}) for draws in (kept, free[:2000]))


NORMAL = "always y ~ Normal(5, 0.5)"


def test_log_densities_of_rules_and_rows_are_those_of_numpy():
    posterior, _ = straight(NORMAL, 1.0)
    draws = posterior.flat[:70]
    rules, rows = log_densities(posterior.model, draws)
    data, term = posterior.model.data, posterior.model.terms[0]
    lines = [draws[:, :1] * np.asarray(x)[:, 0] + draws[:, 1:] for x in (term.points.inputs, data.inputs)]
    np.testing.assert_allclose(rules[:, 0], norm.logpdf(lines[0], 5.0, 0.5).mean(axis=1), rtol=1e-9)
    np.testing.assert_allclose(rows, norm.logpdf(np.asarray(data.y), lines[1], 1.0).sum(axis=1), rtol=1e-9)
    assert log_densities(replace(posterior.model, data=None), draws)[1] is None


def of(rule: str, noise: float, **options) -> Conflict:
    return conflict(*straight(rule, noise, **options), points=8)[0]


def test_data_that_pull_away_from_a_rule_strongly_disagree_with_it():
    found = of(NORMAL, 1.0)
    assert found.sensitivity.rule > SENSITIVE < found.sensitivity.data
    assert found.sensitivity.verdict == "the data strongly disagree with this rule"
    assert str(found).endswith(f"; {found.sensitivity}")
    assert "to the rule, " in str(found)


def test_a_rule_where_data_say_little_decides_the_answer():
    found = of("always y ~ Normal(1, 0.05)", 200.0)
    assert found.sensitivity.rule > SENSITIVE > found.sensitivity.data
    assert found.sensitivity.verdict == "this rule decides the answer here"


def test_a_rule_that_is_kept_anyway_hardly_matters():
    found = of("always y <= 50", 1.0)
    assert (found.sensitivity.rule, found.violation_without.value) == (0.0, 0.0)
    assert found.sensitivity.verdict == "this rule hardly matters"


def test_a_thin_wall_that_cuts_off_much_is_not_said_to_matter_little():
    found = of("always y <= 0", 1.0, strength=1e6)
    assert found.violation_with.value < 0.01
    assert found.sensitivity.rule < SENSITIVE
    assert found.violation_without.value > 0.3
    assert found.sensitivity.verdict == "this rule cuts off what data alone would allow"
    (alone,) = sensitivities(straight("always y <= 0", 1.0, strength=1e6)[0], [None])
    assert alone.verdict == "this rule's strength hardly matters"


def test_the_sensitivity_to_rules_and_rows_is_that_of_the_scaled_normals():
    posterior, _ = straight(NORMAL, 1.0)
    (found,) = sensitivities(posterior, [None])
    term, data = posterior.model.terms[0], posterior.model.data
    ruled, rows = (
        np.column_stack([each[:, 0], np.ones(len(each))]) for each in (term.points.inputs, data[0])
    )
    of_rule = ruled.T @ ruled / 20 / 0.25, ruled.T @ np.full(20, 5.0) / 20 / 0.25
    of_data = rows.T @ rows, rows.T @ np.asarray(data.y)
    whole = np.eye(2) + of_rule[0] + of_data[0], of_rule[1] + of_data[1]
    cases = np.column_stack([term.fresh_inputs(30, 0)[:, 0], np.ones(30)])
    ends = [((posterior.flat @ x).min(), (posterior.flat @ x).max()) for x in cases]
    rule, rows = (
        [of_normals(whole, factor, x, each) for x, each in zip(cases, ends, strict=True)]
        for factor in (of_rule, of_data)
    )
    # A mean moves by cov(Φ, log p), which 2,000 draws tell with an error of a few percent.
    assert found.rule == pytest.approx(max(rule), rel=0.1)
    assert found.data == pytest.approx(rows[np.argmax(rule)], rel=0.1)


def test_draws_that_are_not_finite_have_no_sensitivity():
    posterior, _ = straight(NORMAL, 1.0)
    draws = posterior.draws.copy()
    draws[0, 3] = np.inf
    assert sensitivities(replace(posterior, draws=draws), [None]) == (None,)


def test_a_model_without_its_rows_tells_of_the_rule_alone():
    posterior, _ = straight(NORMAL, 1.0)
    bare = replace(posterior, model=replace(posterior.model, data=None))
    (found,) = sensitivities(bare, [None])
    assert found.data is None
    assert found.verdict == "this rule shapes the answer here"
    assert "to the data" not in str(found)
