"""Rules of an estimator: how they are given, checked and enforced, and what is said of those not kept."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, truncnorm

from ocbnn import OCBNNRegressor, OCBNNWarning, RuleError, UnmetRuleError
from ocbnn.errors import InconclusiveWarning
from ocbnn.plots import sliced
from ocbnn.posterior.calibration import calibration
from ocbnn.posterior.functions import function_draws
from ocbnn.rules.parse import parse_rule
from small_estimators import blood_pressures, functions_in_numpy, small_regressor


def test_the_target_is_the_series_name_and_always_y():
    frame, y = blood_pressures()
    for rule in ("if age > 80 then pressure >= 0", "if age > 80 then y >= 0"):
        model = small_regressor(rules=rule).fit(frame, y)
        assert model.rules_[0].text(model.schema_) == "if age > 80 then pressure >= 0"


def test_rules_come_as_words_constraints_or_paths(tmp_path):
    frame, y = blood_pressures()
    path = tmp_path / "rules.yaml"
    path.write_text("- name: high\n  rule: if age > 80 then y >= 0\n  tolerance: 0.2\n")
    words = "if dose > 9 then y <= 1000"
    constraint = parse_rule("if age < 25 then y <= 900", small_regressor().fit(frame, y).schema_)
    model = small_regressor(rules=[path, words, constraint], tolerance=0.1)
    model.fit(frame, y)
    assert [rule.effective_tolerance for rule in model.rules_] == [0.2, 0.1, 0.1]
    assert [rule.name for rule in model.rules_] == ["high", None, None]


def test_something_else_as_a_rule_is_refused():
    for rules in (3, [3]):
        with pytest.raises(RuleError, match=r"rules\.yaml"):
            small_regressor(rules=rules).fit(*blood_pressures())


def test_names_lost_on_the_way_point_to_set_output():
    frame, y = blood_pressures()
    with pytest.raises(RuleError, match=r'set_output\(transform="pandas"\)'):
        small_regressor(rules="if age > 80 then y >= 0").fit(frame[["age", "dose"]].to_numpy(), y)


def test_an_unmet_rule_warns_and_says_by_how_much():
    frame, y = blood_pressures()
    rules = ["if age > 50 then pressure <= 0", "if age > 45 then pressure >= 300"]
    with pytest.warns(OCBNNWarning, match=r"UNMET if age > .*violation .* exceeds the tolerance 0.01"):
        small_regressor(rules=rules).fit(frame, y)
    with pytest.raises(UnmetRuleError, match="UNMET"):
        small_regressor(rules=rules, strict=True).fit(frame, y)


def test_a_scaler_before_us_is_noticed():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"age": generator.normal(size=50), "dose": generator.normal(size=50)})
    frame = (frame - frame.mean()) / frame.std(ddof=0)
    model = small_regressor(rules="if age > 65 then y <= 100000")
    with pytest.warns(OCBNNWarning, match="leave the scaler out"):
        model.fit(frame, frame["age"].rename("y"))


def test_too_few_draws_to_judge_a_rule_are_told_and_not_called_unmet():
    frame, y = blood_pressures()
    rule = "if age > 80 then pressure <= 100000"
    for strict in (False, True):
        with pytest.warns(InconclusiveWarning) as told:
            model = small_regressor(rules=rule, strict=strict).fit(frame, y)
        (outcome,) = model.outcomes_
        assert (outcome.violation, outcome.met, outcome.not_shown) == (0.0, False, True)
        assert len(told) == 1
        text = str(told[0].message)
        assert f"{rule}: violation 0 (between 0 and 0.842) against the tolerance 0.01" in text
        assert "not decided by 2 effective draws" in text


@pytest.fixture(scope="module")
def ruled() -> OCBNNRegressor:
    """Five networks under a rule about the old that is weak enough for some of them to break it."""
    frame, y = blood_pressures()
    model = small_regressor(rules="if age > 80 then pressure <= 280", tolerance=0.999, members=5)
    return model.fit(frame, y)


def test_rules_are_checked_as_by_hand(ruled):
    found = ruled.check_rules(points=200, ascent=False, key=3)[0]
    fresh = ruled.schema_.decode(ruled.posterior_.rules[0].fresh(200, 3))
    functions = functions_in_numpy(ruled, fresh)
    assert (fresh["age"] > 80).all()
    assert 0 < (functions > 280).mean() < 1
    assert found.epsilon_mean.value == pytest.approx((functions > 280).mean())
    assert found.draws_violating.value == pytest.approx((functions > 280).any(axis=1).mean())
    assert found.points_violating.value == pytest.approx((functions.mean(axis=0) > 280).mean())


def test_truncation_gives_means_quantiles_and_samples_of_truncated_normals(ruled):
    frame, _ = blood_pressures(400, seed=8)
    old, young = frame[frame["age"] > 80][:4], frame[frame["age"] < 70][:4]
    enforced = ruled.enforce()
    functions = functions_in_numpy(ruled, old)
    noise = np.exp(ruled.posterior_.flat[:, -1].astype(float)) * ruled.schema_.target.scale
    ends = (280 - functions) / noise[:, None]
    mass = norm.cdf(ends)
    means = truncnorm.mean(-np.inf, ends, functions, noise[:, None])
    np.testing.assert_allclose(enforced.predict(old), (mass * means).sum(0) / mass.sum(0), rtol=1e-6)
    assert (enforced.predict_interval(old, 0.99) <= 280 + 1e-9).all()
    assert (enforced.sample_predictive(old, 100) <= 280).all()
    np.testing.assert_allclose(enforced.predict(young), ruled.predict(young))


def test_truncation_is_by_the_rules_given(ruled):
    frame, _ = blood_pressures(400, seed=8)
    old = frame[frame["age"] > 80][:4]
    bound = float(ruled.predict(old).min()) - 1.0
    enforced = ruled.enforce("truncate", rules=[f"if age > 80 then pressure <= {bound}"])
    assert (enforced.predict(old) <= bound).all()
    assert (enforced.sample_predictive(old, 50) <= bound).all()
    both = enforced.enforce("truncate", rules=[f"if age > 85 then pressure <= {bound - 1}"])
    assert (both.predict(old) <= np.where(old["age"] > 85, bound - 1, bound)).all()
    assert ruled.posterior_.truncated == ()


def test_checks_and_pictures_after_truncation_are_of_what_is_predicted(ruled):
    frame, y = blood_pressures(60, seed=8)
    enforced = ruled.enforce()
    before, after = (each.check_rules(points=50, ascent=False)[0] for each in (ruled, enforced))
    assert after.points_violating.value == 0.0
    assert after.epsilon_mean.value == before.epsilon_mean.value > 0.0
    band = sliced(enforced.posterior_, "age", at={"ward": "ICU"}, span=(81.0, 100.0))
    assert (np.array(band.curves[0].mean) <= 280).all()
    assert (
        np.array(sliced(ruled.posterior_, "age", at={"ward": "ICU"}, span=(81.0, 100.0)).curves[0].mean) > 280
    ).any()
    held = calibration(enforced.posterior_, frame, np.minimum(y, 279.0))
    assert held.error != calibration(ruled.posterior_, frame, np.minimum(y, 279.0)).error


def test_the_prior_with_its_rules_can_be_checked_before_it_has_seen_a_row(ruled):
    prior = ruled.without_data()
    assert prior.model.data is None
    assert prior.rules[0].points.strength == ruled.posterior_.rules[0].points.strength
    found = ruled.check_rules(prior=True, points=50, ascent=False, key=3)[0]
    fresh = ruled.schema_.decode(prior.rules[0].fresh(50, 3))
    assert found.epsilon_mean.value == pytest.approx((function_draws(prior, fresh) > 280).mean())
    assert found.epsilon_mean.value < ruled.check_rules(points=50, ascent=False, key=3)[0].epsilon_mean.value


def test_rejection_keeps_the_networks_that_obey_on_a_fine_grid(ruled):
    """The region's own limits: above 80 to a quarter of the observed range past it."""
    low, high = ruled.rules_[0].region.bounding_box(ruled.schema_)
    ages, doses = np.linspace(low[0], high[0], 60), np.linspace(low[1], high[1], 40)
    grid = pd.DataFrame(
        [(age, dose, ward) for age in ages for dose in doses for ward in ("ICU", "surgery")],
        columns=["age", "dose", "ward"],
    )
    highest = np.sort(functions_in_numpy(ruled, grid).max(axis=1))
    bound = (highest[2] + highest[3]) / 2
    enforced = ruled.enforce("draws", rules=[f"if age > 80 then pressure <= {bound}"], points=200)
    obeys = functions_in_numpy(ruled, grid).max(axis=1) <= bound
    assert obeys.sum() == 3
    assert enforced.rejection_.acceptance.value == pytest.approx(3 / 5)
    assert "3 of 5 draws kept" in str(enforced.rejection_)
    assert ruled.rejection_ is None
    np.testing.assert_array_equal(enforced.posterior_.mask.ravel(), obeys)
    np.testing.assert_allclose(
        enforced.predict(grid[::97]), functions_in_numpy(ruled, grid[::97])[obeys].mean(axis=0), rtol=1e-9
    )
