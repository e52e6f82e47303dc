"""Truncation: predictives restricted to what is allowed, against SciPy and integrals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import entropy, norm, truncnorm

from ocbnn.checking.check import check_rules
from ocbnn.errors import FileError
from ocbnn.model import Model
from ocbnn.posterior.allowed import EnforcementError, RulesAt
from ocbnn.posterior.calibration import calibration
from ocbnn.posterior.draws import function_draws
from ocbnn.posterior.enforce import reject
from ocbnn.posterior.folder import load, save
from ocbnn.posterior.predict import predict, sample_observation
from ocbnn.posterior.truncate import truncate
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from posterior_cases import (
    CLASS_RULES,
    CLASSES,
    GAP,
    GRID,
    NOISE,
    NUMBER_RULES,
    class_constants,
    class_schema,
    constants,
    number_schema,
    random_posterior,
    weighted_split,
)

ROWS = np.array([[-1.0], [0.0], [1.5]])


def test_one_draw_truncated_is_scipys_truncated_normal():
    posterior = constants(np.array([[1.2]]), ["if x > 0 then 1.3 <= y <= 1.9"])
    prediction = truncate(posterior).predict(np.array([[1.0], [-1.0]]), levels=(0.1,))
    exact = truncnorm((1.3 - 1.2) / NOISE, (1.9 - 1.2) / NOISE, 1.2, NOISE)
    assert prediction.point[0] == 1.3  # Φ is 1.2: the nearest allowed value
    assert prediction.observation.mean[0] == pytest.approx(exact.mean(), rel=1e-8)
    assert prediction.observation.sd[0] == pytest.approx(exact.std(), rel=1e-7)
    assert prediction.observation.quantiles[0, 0] == pytest.approx(exact.ppf(0.1), rel=1e-8)
    assert prediction.point[1] == pytest.approx(1.2)
    assert prediction.observation.sd[1] == pytest.approx(NOISE)


def test_a_draw_has_the_weight_of_its_mass_in_the_allowed_set():
    values = np.array([0.0, 0.5, 2.0])
    prediction = truncate(constants(values[None], ["always y >= 1"])).predict(ROWS[:1])
    weight = norm.sf(1.0, values, NOISE)
    means = truncnorm.mean((1.0 - values) / NOISE, np.inf, values, NOISE)
    assert prediction.observation.mean[0] == pytest.approx((weight * means).sum() / weight.sum(), rel=1e-7)


def test_the_point_between_two_allowed_intervals_is_the_mean_of_the_draws_in_the_heavier_one():
    posterior = constants(np.array([[0.5, 3.0, 3.2]]), [GAP])
    prediction = truncate(posterior).predict(ROWS[:1], function=True)
    assert prediction.point[0] == pytest.approx(3.1)
    np.testing.assert_allclose(prediction.function.mean, 6.7 / 3)


def test_truncation_moves_no_point_that_obeys():
    """All draws at 0.5 and y >= 0: the truncated observation's mean is higher, the prediction stays."""
    posterior = constants(np.full((1, 20), 0.5), ["always y >= 0", GAP])
    prediction = truncate(posterior).predict(ROWS)
    np.testing.assert_array_equal(prediction.point, 0.5)
    np.testing.assert_array_equal(prediction.point, predict(posterior, ROWS).point)


def test_a_point_that_does_not_obey_goes_to_the_nearest_allowed_value():
    posterior = constants(np.array([[0.0, 0.6, 3.0]]), ["always 1.5 <= y <= 4"])
    assert truncate(posterior).predict(ROWS).point == pytest.approx(1.5)


@pytest.mark.parametrize("rules", NUMBER_RULES.values(), ids=NUMBER_RULES)
def test_truncated_numbers_never_break_a_rule(rules):
    model = Model.build(schema=number_schema(), hidden=(4,), noise=1.0, rules=rules)
    posterior = random_posterior(model, (2, 40))
    restricted = truncate(posterior)
    prediction = restricted.predict(GRID, levels=(0.01, 0.25, 0.9))
    samples = restricted.sample_observation(GRID[::40], 200)
    observation = prediction.observation
    shown = [prediction.point, observation.median, *observation.quantiles.T, *observation.hdi.T]
    for predicted in shown:
        assert not RulesAt(restricted.rules, posterior.schema, GRID).broken(predicted).any()
    assert not RulesAt(restricted.rules, posterior.schema, GRID[::40]).broken(samples).any()
    assert RulesAt(restricted.rules, posterior.schema, GRID).broken(function_draws(posterior, GRID)).any()


@pytest.mark.parametrize("case", [case for case in CLASS_RULES if case != "class and bound"])
def test_truncated_classes_never_break_a_rule_and_those_not_allowed_get_nothing(case):
    rules = CLASS_RULES[case]
    model = Model.build(schema=class_schema(), hidden=(4,), rules=rules)
    posterior = random_posterior(model, (2, 20), spread=2.0)
    coded = np.column_stack([GRID[:, 0], np.arange(len(GRID)) % 2])
    restricted = truncate(posterior)
    prediction = restricted.predict(coded)
    np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1.0, rtol=1e-9)
    assert (prediction.probabilities >= 0).all()
    assert not RulesAt(restricted.rules, posterior.schema, coded).broken(prediction.probabilities).any()
    allowed = RulesAt(restricted.rules, posterior.schema, coded).classes()
    assert (prediction.probabilities[~allowed] == 0.0).all()
    drawn = restricted.sample_observation(coded, 20)
    for labels in (prediction.point, *drawn):
        assert allowed[np.arange(len(coded)), [CLASSES.index(label) for label in labels]].all()


@pytest.mark.parametrize("bound", ["always P(label = blue) >= 0.3", "always P(label = green) <= 0.9"])
def test_a_bound_that_only_a_class_not_allowed_could_meet_is_an_error_under_truncation(bound):
    posterior = class_constants(np.full((1, 2, 3), 1 / 3), ["always label = green", bound])
    with pytest.raises(EnforcementError, match=r"`always label = green`, `.*no common probabilities.*none"):
        truncate(posterior).predict(np.zeros((1, 2)))


def test_forbidden_classes_get_nothing_and_the_others_keep_their_proportions():
    posterior = class_constants(np.array([[[0.2, 0.3, 0.5], [0.4, 0.1, 0.5]]]), ["always not label = red"])
    prediction = truncate(posterior).predict(np.zeros((1, 2)))
    np.testing.assert_allclose(prediction.probabilities[0], [0.6, 0.4, 0.0], rtol=1e-9)
    assert prediction.point[0] == "blue"


def test_a_probability_bound_clips_and_leaves_what_obeys_alone():
    posterior = class_constants(
        np.array([[[0.4, 0.6]]]), ["if x > 0 then P(label = green) >= 0.95"], CLASSES[:2]
    )
    prediction = truncate(posterior).predict(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    np.testing.assert_allclose(prediction.probabilities, [[0.05, 0.95], [0.4, 0.6]], atol=1e-8)


def test_rules_without_a_common_allowed_set_are_named_with_the_row():
    numbers = constants(np.zeros((1, 3)), ["if x > 0 then y >= 2", "if x > 1 then y <= 1"])
    assert np.isfinite(truncate(numbers).predict(np.array([[-1.0]])).point).all()
    with pytest.raises(EnforcementError, match=r"row 1 \(x = 1\.5\).*`if x > 0.*`if x > 1.*no common"):
        truncate(constants(np.full((1, 3), 2.0), ["if x > 0 then y >= 2", "if x > 1 then y <= 1"])).predict(
            np.array([[0.5], [1.5]])
        )
    classes = class_constants(np.full((1, 2, 3), 1 / 3), ["always label = red", "always label = blue"])
    with pytest.raises(EnforcementError, match="no common allowed class"):
        truncate(classes).predict(np.zeros((1, 2)))
    bounds = class_constants(
        np.full((1, 2, 3), 1 / 3), ["always P(label = red) >= 0.7", "always P(label = blue) >= 0.7"]
    )
    with pytest.raises(EnforcementError, match="no common probabilities"):
        truncate(bounds).predict(np.zeros((1, 2)))


def test_too_little_mass_is_an_error_that_names_the_rule_and_the_row():
    posterior = constants(np.zeros((1, 3)), ["if x > 0 then y >= 2"])
    mass = norm.sf(2.0 / NOISE)
    assert mass < 1e-6
    with pytest.raises(EnforcementError, match=r"row 0 \(x = 1\.0\).*y >= 2.*less than 1e-06"):
        truncate(posterior).predict(np.array([[1.0]]))
    late = np.concatenate([np.full((700, 1), -1.0), [[1.0]]])
    with pytest.raises(EnforcementError, match=r"row 700 \(x = 1\.0\)"):
        truncate(posterior).predict(late)
    certain = class_constants(np.array([[[1.0 - 2e-8, 1e-8, 1e-8]]]), ["always label = red"])
    with pytest.raises(EnforcementError, match="less than 1e-06"):
        truncate(certain).predict(np.zeros((1, 2)))


def test_truncated_classes_are_sampled_as_often_as_they_are_predicted():
    posterior = class_constants(np.array([[[0.2, 0.3, 0.5], [0.4, 0.1, 0.5]]]), ["always not label = red"])
    drawn = truncate(posterior).sample_observation(np.zeros((1, 2)), 4000, key=1)[:, 0]
    for label, share in zip(CLASSES, (0.6, 0.4, 0.0), strict=True):
        assert abs((drawn == label).mean() - share) <= 4 * np.sqrt(share * (1 - share) / 4000)


def test_probabilities_and_densities_of_a_truncation_are_the_integrals():
    values = np.array([0.5, 1.2, 3.0])
    restricted = truncate(constants(values[None], [GAP]))

    def density(y):
        return norm.pdf(y, values, NOISE).mean()

    below_gap, above_gap = quad(density, -5, 1)[0], quad(density, 2.5, 10, points=[3])[0]
    total = below_gap + above_gap
    y, coded = np.array([0.2, 1.8, 2.9]), np.zeros((3, 1))
    below = np.array([quad(density, -5, 0.2)[0], below_gap, below_gap + quad(density, 2.5, 2.9)[0]])
    np.testing.assert_allclose(restricted.probability_below(coded, y), below / total, rtol=1e-7)
    found = restricted.log_density(coded, y)
    np.testing.assert_allclose(found[[0, 2]], np.log([density(0.2) / total, density(2.9) / total]), rtol=1e-7)
    assert found[1] == -np.inf


def test_the_function_under_truncation_is_of_the_draws_that_obey_at_the_row():
    values = np.array([0.0, 0.4, 2.0, 3.0])
    posterior = constants(values[None], ["if x > 0 then y >= 1"])
    function = truncate(posterior).predict(np.array([[1.0], [-1.0]]), function=True).function
    np.testing.assert_allclose(function.mean, [2.5, values.mean()])
    np.testing.assert_allclose(function.sd, [0.5, values.std()])


def test_a_function_that_no_draw_obeys_with_is_an_error_where_it_is_asked_for():
    low = truncate(constants(np.array([[0.8, 0.9]]), ["if x > 0 then y >= 1"]))
    assert low.predict(np.array([[1.0]])).point >= 1.0
    with pytest.raises(EnforcementError, match=r"row 0 \(x = 1\.0\).*obeyed by none of the draws"):
        low.predict(np.array([[1.0]]), function=True)


# What a truncated posterior says of itself ----------------------------------------------------------------


def test_uncertainty_of_truncated_classes_is_that_of_the_restricted_draws_weighted_by_their_mass():
    drawn = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.05, 0.9, 0.05]])
    prediction = truncate(class_constants(drawn[None], ["always not label = red"])).predict(np.zeros((1, 2)))
    mass = drawn[:, :2].sum(axis=1)
    total, expected = weighted_split(drawn[:, :2] / mass[:, None], mass)
    np.testing.assert_allclose(prediction.total, entropy(prediction.probabilities[0]), rtol=1e-9)
    np.testing.assert_allclose([prediction.total[0], prediction.aleatoric[0]], [total, expected], rtol=1e-9)


def test_uncertainty_of_clipped_probabilities_adds_up_to_their_entropy():
    posterior = class_constants(
        np.array([[[0.4, 0.6], [0.5, 0.5]]]), ["always P(label = green) >= 0.95"], CLASSES[:2]
    )
    prediction = truncate(posterior).predict(np.zeros((1, 2)))
    np.testing.assert_allclose(prediction.total, entropy([0.05, 0.95]), rtol=1e-6)
    assert (prediction.epistemic >= 0).all()


def test_a_truncated_posterior_predicts_samples_and_is_judged_as_its_truncation():
    posterior = constants(np.linspace(0.0, 2.0, 40).reshape(2, 20), ["always y >= 1"])
    restricted = truncate(posterior)
    truncated = replace(posterior, truncated=restricted.rules)
    np.testing.assert_array_equal(predict(truncated, ROWS).point, restricted.predict(ROWS).point)
    assert (sample_observation(truncated, ROWS, 50) >= 1).all()
    before, after = (check_rules(each, points=20)[0] for each in (posterior, truncated))
    assert before.points_violating.value == 0.0
    assert after.epsilon_mean.value == before.epsilon_mean.value == pytest.approx(0.5, abs=0.03)
    low = replace(posterior, draws=constants(np.linspace(0.0, 1.5, 40).reshape(2, 20)).draws)
    assert check_rules(low, points=20)[0].points_violating.value == 1.0
    forced = check_rules(replace(low, truncated=restricted.rules), points=20)[0].points_violating
    assert forced.value == 0.0
    assert forced.high == pytest.approx(1 - 0.025 ** (1 / 20))  # of points alone


def test_what_was_enforced_before_stays_enforced_under_a_further_truncation():
    posterior = constants(np.array([[0.0, 2.0, 4.0]]), ["always y <= 3"])
    again = truncate(reject(posterior, points=20).posterior, ["always y >= 1"])
    assert [rule.text(posterior.schema) for rule in again.rules] == ["always y >= 1", "always y <= 3"]
    assert (again.sample_observation(ROWS, 100) <= 3).all()


def test_calibration_of_truncated_predictions_is_that_of_truncated_normals():
    posterior = constants(np.array([[1.0]]), ["always y >= 1.2"])
    y = truncnorm.ppf((np.arange(200) + 0.5) / 200, 0.2 / NOISE, np.inf, 1.0, NOISE)
    coded = np.zeros((200, 1))
    found = calibration(replace(posterior, truncated=truncate(posterior).rules), coded, y)
    for each in found.bins:
        assert each.observed == pytest.approx(each.predicted, abs=1 / 200)
    assert calibration(posterior, coded, y).error > 0.1


def test_truncation_comes_back_with_all_that_is_known_of_its_rules(tmp_path):
    known = {"name": "cap", "source": "KDIGO 2012", "reason": "because", "tolerance": 0.05}
    posterior = constants(np.tile([-0.3, 0.3], (4, 20)), ["always y >= -9"])
    rules = [parse_rule("if x > 0 then y >= 0", posterior.schema, **known), posterior.rules[0].rule]
    truncated = replace(posterior, truncated=truncate(posterior, rules).rules)
    save(tmp_path / "model", truncated)
    again = load(tmp_path / "model").posterior
    assert again.truncated == truncated.truncated
    assert truncate(again, [rules[0]]).rules == truncated.truncated
    before, after = (check_rules(each, rules, points=20, ascent=False) for each in (truncated, again))
    for one, other in zip(before, after, strict=True):
        assert one.points_violating == other.points_violating
        assert one.points_violating.high == pytest.approx(1 - 0.025 ** (1 / 20))  # of points alone
    function = Constraint.from_functions(rules[0].region, lambda x, y: -y)
    with pytest.raises(FileError, match="cannot be written to a file: its kind, such as Python functions"):
        save(tmp_path / "other", replace(posterior, truncated=(function,)))
