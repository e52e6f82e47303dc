"""Rules of an estimator: how they are given, checked and enforced, and what is said of those not kept."""

from copy import copy

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import multivariate_t, norm, truncnorm
from sklearn.exceptions import NotFittedError

from ocbnn import OCBNNWarning, RuleError, UnmetRuleError
from ocbnn.checking.check import as_rule_terms
from ocbnn.errors import InconclusiveWarning, OCBNNError
from ocbnn.estimators.given import warn_of_scaled_inputs
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.plots import sliced
from ocbnn.posterior.calibration import calibration
from ocbnn.posterior.predict import predict
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema
from small_estimators import blood_pressures, functions_in_numpy, noise_in_numpy, small_regressor


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
    for rules in (3, [3], {"high": "if age > 80 then y >= 0"}):
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
        (strict := small_regressor(rules=rules, strict=True)).fit(frame, y)
    with pytest.raises(NotFittedError):
        strict.predict(frame)


def test_a_scaler_before_us_is_noticed():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"age": generator.normal(size=50), "dose": generator.normal(size=50)})
    frame = (frame - frame.mean()) / frame.std(ddof=0)
    model = small_regressor(rules="if age > 65 then y <= 100000")
    with pytest.warns(OCBNNWarning, match="leave the scaler out"):
        model.fit(frame, frame["age"].rename("y"))


@pytest.mark.parametrize(
    "scaled",
    [
        lambda ages: (ages - ages.min()) / (ages.max() - ages.min()),
        lambda ages: ages / ages.max(),
        lambda ages: (ages - ages.median()) / (ages.quantile(0.75) - ages.quantile(0.25)),
        lambda ages: (ages - ages.mean()) / ages.std(),
    ],
)
def test_any_scaler_is_noticed_on_the_rules_own_column_and_none_where_the_rule_reaches_beyond_rows(scaled):
    frame, _ = blood_pressures()
    rules = {}
    for name, table in {"raw": frame, "scaled": frame.assign(age=scaled(frame["age"]))}.items():
        schema = Schema.infer(table, target=pd.Series(frame["dose"].to_numpy()))
        rules[name] = [parse_rule("if age > 120 and ward = ICU then y <= 9", schema)], schema
    warn_of_scaled_inputs(*rules["raw"])
    with pytest.warns(OCBNNWarning, match=r"Is there a scaler before this estimator\?"):
        warn_of_scaled_inputs(*rules["scaled"])


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
        assert f"{rule}: violation 0 (between 0 and 0.842) on average against the tolerance 0.01" in text
        assert "not decided by 2 effective draws" in text


def test_rules_are_checked_as_by_hand(ruled):
    found = ruled.check_rules(points=200, ascent=False, key=3)[0]
    fresh = ruled.schema_.decode(ruled.posterior_.rules[0].fresh(200, 3))
    functions = functions_in_numpy(ruled, fresh)
    assert (fresh["age"] > 80).all()
    assert 0 < (functions > 260).mean() < 1
    assert found.epsilon_mean.value == pytest.approx((functions > 260).mean())
    assert found.draws_violating.value == pytest.approx((functions > 260).any(axis=1).mean())
    assert found.points_violating.value == pytest.approx((functions.mean(axis=0) > 260).mean())


def test_truncation_gives_means_quantiles_and_samples_of_truncated_normals(ruled):
    frame, _ = blood_pressures(400, seed=8)
    old, young = frame[frame["age"] > 80][:4], frame[frame["age"] < 70][:4]
    enforced = ruled.enforce()
    functions, noise = functions_in_numpy(ruled, old), noise_in_numpy(ruled)
    ends = (260 - functions) / noise[:, None]
    mass = norm.cdf(ends)
    means = truncnorm.mean(-np.inf, ends, functions, noise[:, None])
    np.testing.assert_allclose(enforced.predict(old), np.minimum(functions.mean(axis=0), 260), rtol=1e-6)
    observed = predict(enforced.posterior_, old).observation.mean
    np.testing.assert_allclose(observed, (mass * means).sum(0) / mass.sum(0), rtol=1e-6)
    np.testing.assert_allclose(enforced.predict(young), ruled.predict(young))

    def quantile(row: int, level: float) -> float:
        below = lambda y: norm.cdf(y, functions[:, row], noise).mean() / mass[:, row].mean()  # noqa: E731
        return brentq(lambda y: below(y) - level, 0.0, 260.0, xtol=1e-10)

    levels = (0.05, 0.5, 0.95)
    expected = np.array([[quantile(row, level) for level in levels] for row in range(4)])
    np.testing.assert_allclose(enforced.predict_quantiles(old, levels), expected, rtol=1e-7)
    np.testing.assert_allclose(enforced.predict_interval(old, 0.9), expected[:, [0, 2]], rtol=1e-7)
    drawn = enforced.sample_predictive(old, 4000, random_state=2)
    assert (drawn <= 260).all()
    for level, at in zip(levels, expected.T, strict=True):
        error = np.abs((drawn <= at).mean(axis=0) - level)
        assert error.max() < 4 * np.sqrt(level * (1 - level) / 4000)


def test_truncation_is_of_predictions_and_rejection_of_functions(ruled):
    frame, _ = blood_pressures(5, seed=5)
    np.testing.assert_array_equal(ruled.enforce().sample_function(frame), ruled.sample_function(frame))
    mask = np.array([True, False, True, True, False])
    some = copy(ruled)
    some.posterior_ = ruled.posterior_.with_kept(mask[None])
    np.testing.assert_allclose(some.sample_function(frame), functions_in_numpy(ruled, frame)[mask], rtol=1e-9)


def test_rules_to_check_and_enforce_come_as_the_constructor_takes_them(ruled, tmp_path):
    path, words = tmp_path / "rules.yaml", "if age > 80 then pressure <= 100000"
    path.write_text(f"- {words}\n")
    for rules in (words, path, [words], ruled.posterior_.rules):
        checked = ruled.check_rules(rules=rules, points=20)
        assert len(checked.rules) == 1
        assert len(ruled.enforce(rules=rules).posterior_.truncated) == 1
    for rules in ({"high": words}, 3):
        for ask in (ruled.check_rules, ruled.enforce):
            with pytest.raises(RuleError, match="rules= takes"):
                ask(rules=rules)


def test_options_that_do_not_exist_are_refused(ruled):
    with pytest.raises(OCBNNError, match=r"no option 'point' here; .* Did you mean 'points'"):
        ruled.check_rules(point=20)
    with pytest.raises(OCBNNError, match="no option 'points' here; there are rules"):
        ruled.enforce("truncate", points=20)


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


def test_checks_and_pictures_after_truncation_are_of_what_is_predicted():
    frame, y = blood_pressures(60, seed=8)
    rules = ["if age > 80 then pressure <= 308"]
    model = small_regressor(chains=5).fit(*blood_pressures())
    enforced = model.enforce(rules=rules)
    before, after = (each.check_rules(rules=rules, points=50, ascent=False)[0] for each in (model, enforced))
    assert after.points_violating.value == 0.0
    assert after.epsilon_mean.value == before.epsilon_mean.value > 0.0
    band = sliced(enforced.posterior_, "age", at={"ward": "ICU"}, span=(81.0, 92.0))
    assert (np.array(band.curves[0].mean) <= 308).all()
    assert (
        np.array(sliced(model.posterior_, "age", at={"ward": "ICU"}, span=(81.0, 92.0)).curves[0].mean) > 308
    ).any()
    truth = np.minimum(y, 307.0).to_numpy()
    noise = noise_in_numpy(model)[:, None]
    below, most = (norm.cdf(at, functions_in_numpy(model, frame), noise).mean(0) for at in (truth, 308.0))
    below = np.where(frame["age"] > 80, below / most, below)
    held = calibration(enforced.posterior_, frame, truth).bins
    observed = [(np.abs(2 * below - 1) <= each.predicted).mean() for each in held]
    np.testing.assert_allclose([each.observed for each in held], observed, rtol=1e-9)


def test_the_prior_can_be_checked_before_it_has_seen_a_row():
    """An anchored ensemble of a line without rows: exact, independent draws of N(0, 4)."""
    frame, y = blood_pressures()
    engine = Ensemble(steps=300, learning_rate=0.1, anchored=True)
    model = small_regressor(engine=engine, hidden=(), noise=3.0, chains=400, prior=2.0)
    model.fit(frame[["age"]], y)
    prior = model.without_data()
    assert prior.model.data is None
    np.testing.assert_array_less(np.abs(prior.flat.mean(axis=0)), 5 * 2.0 / np.sqrt(400))
    np.testing.assert_allclose(prior.flat.std(axis=0), 2.0, rtol=5 / np.sqrt(800))
    rule = "if age > 60 then pressure <= 300"
    found = model.check_rules(prior=True, rules=[rule], points=100, ascent=False, key=3)[0].epsilon_mean
    (term,) = as_rule_terms(prior, [rule])
    column, target = model.schema_.column("age"), model.schema_.target
    ages = (term.fresh(100, 3)[:, 0] - column.center) / column.scale
    exact = norm.sf(300.0, target.center, target.scale * 2.0 * np.hypot(ages, 1.0)).mean()
    assert 0.1 < exact < 0.9
    # A draw's share of points lies in [0, 1], so its standard deviation is at most a half.
    assert abs(found.value - exact) < 5 * 0.5 / np.sqrt(400)


def test_the_prior_that_is_drawn_is_that_of_the_fit_with_its_rules_as_strong():
    frame, y = blood_pressures()
    model = small_regressor(rules="if age > 80 then pressure <= 260", tolerance=0.999, noise=3.0)
    model.fit(frame, y)
    prior, w = model.without_data().model, model.posterior_.flat[0].astype(float)
    rules = float(np.sum(model.posterior_.model.rule_log_densities(w)))
    assert rules < -1e-3
    layers = np.split(w, np.cumsum(prior.base.layers)[:-1])
    scales = np.split(prior.base.scale, np.cumsum(prior.base.layers)[:-1])
    expected = rules + sum(
        multivariate_t.logpdf(layer, None, np.diag(scale**2), df=prior.base.degrees)
        for layer, scale in zip(layers, scales, strict=True)
    )
    assert float(prior.log_density(w)) == pytest.approx(expected, rel=1e-4)  # in float32
    strength = model.posterior_.rules[0].points.strength
    assert prior.terms[0].points.strength == strength


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
