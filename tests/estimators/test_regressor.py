"""The regressor: every method against something independent."""

import math
import pickle
from copy import copy

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import lognorm, norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

import ocbnn
from ocbnn import OCBNNRegressor, RuleError, SchemaError
from ocbnn.errors import InconclusiveWarning, ModelError, OCBNNError
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.inference.loop import Loop
from ocbnn.posterior.calibration import judged
from ocbnn.posterior.conflict import log_scores
from ocbnn.posterior.predict import predict
from ocbnn.report import gather
from ocbnn.report.sentences import provenance_rows
from small_estimators import blood_pressures, functions_in_numpy, noise_in_numpy, small_regressor


def test_functions_are_those_of_a_network_in_numpy(fitted):
    frame, _ = blood_pressures(7, seed=5)
    np.testing.assert_allclose(fitted.sample_function(frame), functions_in_numpy(fitted, frame), rtol=1e-9)


def test_predictions_are_means_of_functions(fitted):
    frame, _ = blood_pressures(7, seed=5)
    np.testing.assert_allclose(
        fitted.predict(frame), functions_in_numpy(fitted, frame).mean(axis=0), rtol=1e-9
    )


def test_the_standard_deviation_is_that_of_the_mixture(fitted):
    frame, _ = blood_pressures(7, seed=5)
    functions, noise = functions_in_numpy(fitted, frame), noise_in_numpy(fitted)
    expected = np.sqrt(functions.var(axis=0) + (noise**2).mean())
    np.testing.assert_allclose(fitted.predict(frame, return_std=True)[1], expected, rtol=1e-6)


def test_quantiles_and_intervals_are_those_of_the_mixture(fitted):
    frame, _ = blood_pressures(3, seed=5)
    functions, noise = functions_in_numpy(fitted, frame), noise_in_numpy(fitted)

    def quantile(row: int, level: float) -> float:
        mixture = lambda y: norm.cdf(y, functions[:, row], noise).mean() - level  # noqa: E731
        return brentq(mixture, -1e4, 1e4)

    expected = np.array([[quantile(row, level) for level in (0.1, 0.5, 0.9)] for row in range(3)])
    np.testing.assert_allclose(fitted.predict_quantiles(frame, (0.1, 0.5, 0.9)), expected, rtol=1e-6)
    np.testing.assert_allclose(fitted.predict_interval(frame, 0.8), expected[:, [0, 2]], rtol=1e-6)


def test_samples_have_the_mixtures_mean_and_spread(fitted):
    frame, _ = blood_pressures(2, seed=5)
    samples = fitted.sample_predictive(frame, 20_000, random_state=3)
    mean, spread = fitted.predict(frame, return_std=True)
    assert samples.shape == (20_000, 2)
    np.testing.assert_allclose(samples.mean(axis=0), mean, atol=5 * spread.max() / np.sqrt(20_000))
    np.testing.assert_allclose(samples.std(axis=0), spread, rtol=0.03)


def test_there_is_one_sample_of_each_draw_and_a_seed_repeats_it(fitted):
    frame, _ = blood_pressures()
    one, again, other = (fitted.sample_predictive(frame, random_state=seed) for seed in (0, 0, 1))
    assert one.shape == (2, 40)
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_score_is_the_share_of_variance_explained(fitted):
    frame, y = blood_pressures()
    residual = y - fitted.predict(frame)
    assert fitted.score(frame, y) == pytest.approx(1 - (residual**2).sum() / ((y - y.mean()) ** 2).sum())
    assert fitted.score(frame, y) > 0.9


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, True, "0.9"])
def test_a_coverage_that_is_none_is_refused(fitted, coverage):
    with pytest.raises(OCBNNError, match="strictly between 0 and 1"):
        fitted.predict_interval(blood_pressures(2)[0], coverage)


@pytest.mark.parametrize(
    ("levels", "said"), [([], "empty"), (0.5, "is a list"), ([0.5, 1], "between 0 and 1")]
)
def test_levels_that_are_none_are_refused(fitted, levels, said):
    with pytest.raises(OCBNNError, match=said):
        fitted.predict_quantiles(blood_pressures(3)[0], levels)


@pytest.mark.parametrize("samples", [2.5, "a", True, 0])
def test_a_number_of_samples_that_is_none_is_refused(fitted, samples):
    with pytest.raises(OCBNNError, match="samples is"):
        fitted.sample_predictive(blood_pressures(3)[0], samples)


def test_a_folder_that_cannot_be_one_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", 3):
        with pytest.raises(OCBNNError, match="folder of a run"):
            small_regressor().fit(*blood_pressures(), folder=folder)


def test_given_noise_is_in_raw_units():
    frame, y = blood_pressures()
    model = small_regressor(noise=7.5).fit(frame, y)
    np.testing.assert_allclose(model.posterior_.noise(model.schema_.encode(frame)), np.full((2, 1), 7.5))


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.predict(blood_pressures()[0]),
        lambda model: model.sample_function(blood_pressures()[0]),
        lambda model: model.sample_predictive(blood_pressures()[0]),
        lambda model: model.conflict(),
        lambda model: model.check_rules(),
        lambda model: model.enforce(),
        lambda model: model.without_data(),
        lambda model: model.without_rules(),
    ],
)
def test_asking_before_the_fit_is_scikit_learns_error(ask):
    with pytest.raises(NotFittedError):
        ask(small_regressor())


def test_weights_are_repetitions(fitted):
    frame, y = blood_pressures()
    counts = np.arange(len(frame)) % 3
    repeated = np.repeat(np.arange(len(frame)), counts)
    weighted = small_regressor().fit(frame, y, sample_weight=counts)
    again = small_regressor().fit(frame.iloc[repeated], y.iloc[repeated])
    assert np.array_equal(weighted.posterior_.draws, again.posterior_.draws)
    assert weighted.schema_ == again.schema_
    age = frame["age"].to_numpy()[repeated]
    assert weighted.schema_.column("age").center == pytest.approx(age.mean())
    assert weighted.schema_.column("age").scale == pytest.approx(age.std())
    low, high = np.quantile(age, 0.005, method="lower"), np.quantile(age, 0.995, method="higher")
    assert weighted.schema_.column("age").observed == (low, high)
    assert weighted.schema_.column("dose").transform == "asinh"


def test_all_weights_zero_is_an_error():
    frame, y = blood_pressures()
    with pytest.raises(SchemaError, match="sample_weight cannot be used"):
        small_regressor().fit(frame, y, sample_weight=np.zeros(len(frame)))


def test_a_fit_that_has_not_settled_says_so_once():
    engine = Ensemble(steps=10)
    with pytest.warns(InconclusiveWarning, match="Not shown: not settled: 10 steps are too few") as told:
        model = small_regressor(engine=engine).fit(*blood_pressures())
    assert len(told) == 1
    assert told[0].filename == __file__
    assert not model.posterior_.provenance["converged"]


def interrupted(monkeypatch, after: int) -> None:
    """Ctrl-C, after so many chunks."""
    advance, seen = Loop.advance, []

    def interrupt(loop):
        seen.append(1)
        if len(seen) > after:
            raise KeyboardInterrupt
        return advance(loop)

    monkeypatch.setattr(Loop, "advance", interrupt)


def test_an_interrupt_ends_a_cross_validation(monkeypatch):
    interrupted(monkeypatch, after=1)
    with pytest.raises(KeyboardInterrupt, match="interrupted after 50 of 100 steps, and is not kept"):
        cross_val_score(small_regressor(), *blood_pressures(), cv=2)


def test_a_refit_that_fails_or_is_interrupted_leaves_the_fit_before(fitted, monkeypatch):
    frame, y = blood_pressures()
    model, before = copy(fitted), fitted.predict(frame)
    in_months = frame.assign(age=12 * frame["age"])[["age", "ward", "dose"]]
    with pytest.raises(RuleError, match="no column"):
        model.set_params(rules="if weight > 3 then y > 2").fit(in_months, y)
    interrupted(monkeypatch, after=1)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(rules=None).fit(in_months, y)
    assert np.array_equal(model.predict(frame), before)
    assert list(model.feature_names_in_) == list(frame)


def test_a_first_fit_that_fails_leaves_nothing():
    model = small_regressor(engine="hmmc")
    with pytest.raises(OCBNNError, match="no engine"):
        model.fit(*blood_pressures())
    assert model.__dict__ == small_regressor(engine="hmmc").__dict__


def test_an_interrupt_leaves_a_labelled_fit_where_somebody_asked_for_it(monkeypatch, tmp_path):
    interrupted(monkeypatch, after=1)
    with pytest.warns(InconclusiveWarning, match="Not shown: interrupted after 50 of 100 steps"):
        model = small_regressor().fit(*blood_pressures(), folder=tmp_path / "run")
    assert not model.posterior_.provenance["complete"]
    monkeypatch.undo()
    whole = small_regressor().fit(*blood_pressures(), folder=tmp_path / "run", resume=True)
    assert np.array_equal(whole.posterior_.draws, small_regressor().fit(*blood_pressures()).posterior_.draws)


def test_engines_come_by_name_or_as_they_are(fitted):
    frame, y = blood_pressures()
    assert fitted.posterior_.provenance["settings"]["why"] == "given"
    with pytest.raises(OCBNNError, match="There is no engine 'hmmc'"):
        small_regressor(engine="hmmc").fit(frame, y)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"noise": -1.0}, "positive standard deviation"),
        ({"noise": "a"}, "positive standard deviation"),
        ({"noise": [1]}, "positive standard deviation"),
        ({"noise": True}, "positive standard deviation"),
        ({"hidden": "many"}, "number of units"),
        ({"hidden": [2.5]}, "positive whole number"),
        ({"hidden": [[4]]}, "positive whole number"),
        ({"hidden": True}, "number of units"),
        ({"engine": None}, "or an engine with its settings, not None"),
        ({"engine": 3}, "or an engine with its settings, not 3"),
        ({"preparation": "a"}, "preparation is an"),
        ({"preparation": {}}, "preparation is an"),
        ({"columns": "a"}, "a mapping from names"),
        ({"prior": -2.0}, "positive number"),
        ({"draws": 0}, "positive whole number"),
        ({"batch": 2.5}, "positive whole number"),
        ({"activation": "sine"}, "no activation"),
        ({"tolerance": 2.0, "rules": "always y >= 0"}, "outside"),
    ],
)
def test_a_wrong_parameter_is_refused_by_fit_not_by_the_constructor(option, message):
    model = small_regressor(**option)
    with pytest.raises(OCBNNError, match=message):
        model.fit(*blood_pressures())


def test_parameters_survive_cloning():
    model = small_regressor(rules=["always y >= 0"], tolerance=0.2)
    assert clone(model).get_params() == model.get_params()


def test_pickling_keeps_predictions(fitted):
    frame, _ = blood_pressures(5)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(frame), fitted.predict(frame))


def test_a_subclass_may_have_a_constructor_of_its_own() -> None:
    class Narrow(OCBNNRegressor):
        def __init__(self, rules=None, note="") -> None:
            super().__init__(rules, hidden=3)
            self.note = note

    narrow = clone(Narrow(note="small"))
    assert narrow.get_params() == {"rules": None, "note": "small"}
    assert (narrow.hidden, narrow.engine, narrow.noise) == (3, "auto", None)


# A target on a log scale ------------------------------------------------------------------------------------

RULE, RULE_OF_LOGS = "if age > 60 then 300 <= cost <= 1000", "if age > 60 then L <= cost <= U"


def costs() -> tuple[pd.DataFrame, pd.Series]:
    frame, y = blood_pressures()
    return frame[["age", "dose"]], np.exp(y / 40).rename("cost")


@pytest.fixture(scope="module")
def logged():
    return small_regressor(rules=RULE, target_transform="log", tolerance=0.999, chains=5).fit(*costs())


@pytest.fixture(scope="module")
def twin():
    """The same fit of log y by hand: rules and target are transformed beforehand."""
    frame, y = costs()
    rule = RULE_OF_LOGS.replace("L", repr(math.log(300.0))).replace("U", repr(math.log(1000.0)))
    return small_regressor(rules=rule, tolerance=0.999, chains=5).fit(frame, np.log(y))


def test_a_log_scale_is_the_fit_of_the_logs(logged, twin):
    np.testing.assert_allclose(logged.posterior_.draws, twin.posterior_.draws, rtol=1e-9, atol=1e-12)


def test_on_a_log_scale_answers_are_those_of_the_logs_in_raw_units(logged, twin):
    frame, _ = costs()
    levels = [0.05, 0.5, 0.9]
    np.testing.assert_allclose(logged.predict(frame), np.exp(twin.predict(frame)), rtol=1e-6)
    np.testing.assert_allclose(
        logged.predict_quantiles(frame, levels), np.exp(twin.predict_quantiles(frame, levels)), rtol=1e-6
    )
    np.testing.assert_allclose(
        logged.sample_predictive(frame, 7), np.exp(twin.sample_predictive(frame, 7)), rtol=1e-6
    )
    inner, outer = logged.enforce(), twin.enforce()
    np.testing.assert_allclose(inner.predict(frame), np.exp(outer.predict(frame)), rtol=1e-6)
    np.testing.assert_allclose(
        inner.predict_quantiles(frame, levels), np.exp(outer.predict_quantiles(frame, levels)), rtol=1e-6
    )
    np.testing.assert_allclose(
        inner.sample_predictive(frame, 7), np.exp(outer.sample_predictive(frame, 7)), rtol=1e-6
    )


def test_on_a_log_scale_draws_that_obey_are_those_of_the_logs(logged, twin):
    frame, _ = costs()
    young = frame[frame["age"] <= 60]
    rules = "if age > 60 then cost <= 1260", f"if age > 60 then cost <= {math.log(1260.0)!r}"
    one, other = (each.enforce("draws", rules=rule) for each, rule in zip((logged, twin), rules, strict=True))
    assert 0 < one.posterior_.mask.mean() < 1
    assert np.array_equal(one.posterior_.mask, other.posterior_.mask)
    np.testing.assert_allclose(one.predict(frame), np.exp(other.predict(frame)), rtol=1e-6)
    levels = [0.1, 0.9]
    np.testing.assert_allclose(
        one.predict_quantiles(young, levels), np.exp(other.predict_quantiles(young, levels)), rtol=1e-6
    )


def test_on_a_log_scale_enforced_answers_keep_to_the_very_limits(logged):
    frame, _ = costs()
    old = (frame["age"] > 60).to_numpy()
    enforced = logged.enforce()
    for values in (
        enforced.predict_quantiles(frame, [0.001, 0.999]).T,
        enforced.sample_predictive(frame, 50),
    ):
        assert ((values[:, old] >= 300) & (values[:, old] <= 1000)).all()


def test_on_a_log_scale_spreads_are_those_of_a_mixture_of_lognormals(logged):
    frame, _ = costs()
    medians, noise = logged.sample_function(frame), logged.posterior_.noise(logged.schema_.encode(frame))
    laws = lognorm(noise, scale=medians)
    mean, within = laws.mean(), laws.var()
    found = predict(logged.posterior_, frame)
    np.testing.assert_allclose(found.observation.mean, mean.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.epistemic, mean.var(axis=0), rtol=1e-7)
    np.testing.assert_allclose(found.aleatoric, within.mean(axis=0), rtol=1e-7)
    _, sd = logged.predict(frame, return_std=True)
    np.testing.assert_allclose(sd**2, mean.var(axis=0) + within.mean(axis=0), rtol=1e-7)


def test_on_a_log_scale_scores_and_calibration_are_those_of_the_logs(logged, twin):
    frame, y = costs()
    for one, other in ((logged, twin), (logged.enforce(), twin.enforce())):
        old = log_scores(other.posterior_, frame, np.log(y))
        known = old > np.log(np.finfo(float).tiny)
        scores = log_scores(one.posterior_, frame, y)
        np.testing.assert_allclose(scores[known], (old - np.log(y))[known], rtol=1e-6)
        found = [judged(one.posterior_, frame, y), judged(other.posterior_, frame, np.log(y))]
        np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5, atol=1e-9)


def test_on_a_log_scale_checks_are_those_of_the_logs(logged, twin):
    one, other = (each.check_rules(points=200)[0] for each in (logged, twin))
    assert one.epsilon_mean.value == pytest.approx(other.epsilon_mean.value, abs=1e-12)
    assert one.points_violating.value == other.points_violating.value
    shown = logged.posterior_.provenance["data_choices"]
    assert any(each.startswith("cost is modelled as (log(cost) − ") for each in shown)


def test_a_loaded_estimator_has_its_log_scale(logged, tmp_path):
    frame, y = costs()
    logged.save(tmp_path / "model")
    again = ocbnn.load(tmp_path / "model")
    assert again.target_transform == "log"
    assert np.array_equal(again.predict_interval(frame), logged.predict_interval(frame))
    evidence = gather(again.posterior_, frame=frame, y=y, points=20)
    assert evidence.performance.with_rules["log_score"] == pytest.approx(
        log_scores(logged.posterior_, frame, y).mean()
    )
    assert ("Predicted", "cost, a number, modelled on a log scale") in provenance_rows(evidence)


@pytest.mark.parametrize(
    "rule", ["always cost ~ Normal(300, 10)", "always cost = 300", "always cost = 3 within 1"]
)
def test_what_cannot_be_said_exactly_of_a_log_is_refused(rule):
    with pytest.raises(
        ModelError, match=r"cannot be said exactly where 'cost' is modelled on a log scale.*limits"
    ):
        small_regressor(rules=rule, target_transform="log").fit(*costs())


def test_a_target_without_a_log_is_refused_with_its_row():
    frame, y = costs()
    with pytest.raises(SchemaError, match=r"'cost' is modelled on a log scale.*row 4 has 0\.0"):
        small_regressor(target_transform="log").fit(frame, y.where(y.index != 4, 0.0))
    with pytest.raises(SchemaError, match="'sqrt' cannot be the transform"):
        small_regressor(target_transform="sqrt").fit(frame, y)
    with pytest.raises(ModelError, match="allows no output at all"):
        small_regressor(target_transform="log", rules="always cost <= -1").fit(frame, y)
