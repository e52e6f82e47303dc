"""Sensitivity to rules and rows: against closed forms and ArviZ, and each verdict on a case made for it."""

from dataclasses import replace

import arviz_base
import arviz_stats
import numpy as np
import pytest
from scipy.stats import norm

from ocbnn.posterior.conflict import Conflict, conflict
from ocbnn.posterior.sensitivity import SENSITIVE, beyond_chance, log_densities, power_scaling, sensitivities
from posterior_cases import straight


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


@pytest.mark.parametrize(
    ("rule", "strength", "disagree"),
    [
        ("always y ~ Normal(0.5, 0.3)", None, False),  # 57% of total variation from what data alone say
        ("always y ~ Normal(3, 1)", None, False),
        ("always y ~ Normal(5, 1)", None, True),
        ("always y >= 0.2", 30.0, False),  # a standard deviation of Φ or so
        ("always y >= 0.8", 10.0, True),
    ],
)
def test_rule_and_data_disagree_strongly_only_where_data_alone_put_nearly_all_outside(
    rule, strength, disagree
):
    found = of(rule, 1.0, strength=strength)
    assert found.sensitivity.rule > SENSITIVE < found.sensitivity.data
    assert (found.violation_without.low > 0.95) == disagree
    both = ("this rule shapes the answer here", "the data strongly disagree with this rule")
    assert found.sensitivity.verdict == both[disagree]


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


def test_a_distribution_that_many_rows_contradict_is_outweighed_and_cuts_nothing_off():
    found = of("always y ~ Normal(5, 3)", 0.05)
    assert found.sensitivity.rule < SENSITIVE
    assert found.violation_without.value > 0.9
    assert found.sensitivity.verdict == "the data outweigh this rule"


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
