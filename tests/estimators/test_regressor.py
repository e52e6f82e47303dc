"""The regressor: every method against something independent, and errors that say what to do."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm, truncnorm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from ocbnn import OCBNNRegressor, OCBNNWarning, RuleError, SchemaError, UnmetRuleError
from ocbnn.errors import InconclusiveWarning, OCBNNError
from ocbnn.estimators.defaults import base_prior, hidden_units, mixing
from ocbnn.estimators.tables import on_suited_scale
from ocbnn.inference.engines import choose
from ocbnn.inference.ensemble import Ensemble
from ocbnn.inference.loop import Loop
from ocbnn.model import Model
from ocbnn.networks import MLP
from ocbnn.plots import sliced
from ocbnn.posterior.calibration import calibration
from ocbnn.posterior.functions import function_draws
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Column
from small_estimators import small_regressor


def table(rows: int = 40, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": generator.uniform(20, 90, rows),
            "dose": generator.lognormal(1, 1, rows),
            "ward": generator.choice(["ICU", "surgery"], rows),
        }
    )
    y = 100 + 2 * frame["age"] + 30 * (frame["ward"] == "ICU") + generator.normal(0, 3, rows)
    return frame, y.rename("pressure")


@pytest.fixture(scope="module")
def fitted() -> OCBNNRegressor:
    return small_regressor().fit(*table())


def twin_functions(model: OCBNNRegressor, frame: pd.DataFrame) -> np.ndarray:
    """The network in NumPy, from the raw table to raw outputs."""
    schema, flat = model.schema_, model.posterior_.flat
    dose = np.arcsinh(frame["dose"] / schema.column("dose").offset)
    columns = [
        ((values - schema.column(name).center) / schema.column(name).scale).to_numpy()
        for name, values in (("age", frame["age"]), ("dose", dose))
    ]
    levels = [(frame["ward"] == level).to_numpy(float) for level in ("ICU", "surgery")]
    inputs = np.column_stack([*columns, *levels]) @ np.array(model.posterior_.model.network.mixing)
    outputs = []
    for w in flat.astype(float):
        first, rest = w[: 4 * 4].reshape(4, 4), w[16:]
        hidden = np.tanh(inputs @ first + rest[:4])
        outputs.append(hidden @ rest[4:8] + rest[8])
    return np.array(outputs) * schema.target.scale + schema.target.center


# Predictions -------------------------------------------------------------------------------------------


def test_functions_are_those_of_a_network_in_numpy(fitted):
    frame, _ = table(7, seed=5)
    np.testing.assert_allclose(fitted.sample_function(frame), twin_functions(fitted, frame), rtol=1e-9)


def test_predictions_are_means_of_functions(fitted):
    frame, _ = table(7, seed=5)
    np.testing.assert_allclose(fitted.predict(frame), twin_functions(fitted, frame).mean(axis=0), rtol=1e-9)


def test_the_standard_deviation_is_that_of_the_mixture(fitted):
    frame, _ = table(7, seed=5)
    functions = twin_functions(fitted, frame)
    noise = np.exp(fitted.posterior_.flat[:, -1].astype(float)) * fitted.schema_.target.scale
    expected = np.sqrt(functions.var(axis=0) + (noise**2).mean())
    np.testing.assert_allclose(fitted.predict(frame, return_std=True)[1], expected, rtol=1e-6)


def test_quantiles_and_intervals_are_those_of_the_mixture(fitted):
    frame, _ = table(3, seed=5)
    functions = twin_functions(fitted, frame)
    noise = np.exp(fitted.posterior_.flat[:, -1].astype(float)) * fitted.schema_.target.scale

    def quantile(row: int, level: float) -> float:
        mixture = lambda y: norm.cdf(y, functions[:, row], noise).mean() - level  # noqa: E731
        return brentq(mixture, -1e4, 1e4)

    expected = np.array([[quantile(row, level) for level in (0.1, 0.5, 0.9)] for row in range(3)])
    np.testing.assert_allclose(fitted.predict_quantiles(frame, (0.1, 0.5, 0.9)), expected, rtol=1e-6)
    np.testing.assert_allclose(fitted.predict_interval(frame, 0.8), expected[:, [0, 2]], rtol=1e-6)


def test_samples_have_the_mixtures_mean_and_spread(fitted):
    frame, _ = table(2, seed=5)
    samples = fitted.sample_predictive(frame, 20_000, random_state=3)
    mean, spread = fitted.predict(frame, return_std=True)
    assert samples.shape == (20_000, 2)
    np.testing.assert_allclose(samples.mean(axis=0), mean, atol=5 * spread.max() / np.sqrt(20_000))
    np.testing.assert_allclose(samples.std(axis=0), spread, rtol=0.03)


def test_score_is_the_share_of_variance_explained(fitted):
    frame, y = table()
    residual = y - fitted.predict(frame)
    assert fitted.score(frame, y) == pytest.approx(1 - (residual**2).sum() / ((y - y.mean()) ** 2).sum())
    assert fitted.score(frame, y) > 0.9


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, True, "0.9"])
def test_a_coverage_that_is_none_is_refused(fitted, coverage):
    with pytest.raises(OCBNNError, match="strictly between 0 and 1"):
        fitted.predict_interval(table(2)[0], coverage)


def test_given_noise_is_in_raw_units():
    model = small_regressor(noise=7.5).fit(*table())
    assert model.posterior_.noise == pytest.approx(np.full(2, 7.5))


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.predict(table()[0]),
        lambda model: model.sample_function(table()[0]),
        lambda model: model.sample_predictive(table()[0]),
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


def test_two_columns_of_one_name_are_refused():
    frame, y = table()
    with pytest.raises(SchemaError, match="several columns named 'age'; rename all but one"):
        small_regressor().fit(frame.rename(columns={"dose": "age"}), y)


# Tables ------------------------------------------------------------------------------------------------


def test_the_order_of_columns_is_checked_and_of_rows_does_not_matter(fitted):
    frame, y = table()
    with pytest.raises(ValueError, match="order"):
        fitted.predict(frame[["dose", "age", "ward"]])
    shuffled = np.random.default_rng(1).permutation(len(frame))
    again = small_regressor().fit(frame.iloc[shuffled], y.iloc[shuffled])
    assert np.array_equal(again.posterior_.draws, fitted.posterior_.draws)


def test_weights_are_repetitions(fitted):
    frame, y = table()
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
    frame, y = table()
    with pytest.raises(SchemaError, match="sample_weight cannot be used"):
        small_regressor().fit(frame, y, sample_weight=np.zeros(len(frame)))


def test_an_array_has_columns_x0_x1():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = small_regressor(rules="if x1 > 1.5 then y <= 1000").fit(X, X[:, 0])
    assert model.schema_.names == ("x0", "x1")
    assert model.rules_[0].text(model.schema_) == "if x1 > 1.5 then y <= 1000"


def test_nan_names_the_column_and_the_remedy():
    frame, y = table()
    frame.loc[3, "dose"] = np.nan
    with pytest.raises(SchemaError, match=r"'dose' has 1 missing values \(NaN\).* row 3.*SimpleImputer"):
        small_regressor().fit(frame, y)


def test_infinity_names_the_column():
    frame, y = table()
    frame.loc[3, "dose"] = np.inf
    with pytest.raises(SchemaError, match=r"'dose' is infinite"):
        small_regressor().fit(frame, y)


def test_an_unseen_category_is_named(fitted):
    frame, _ = table(3)
    with pytest.raises(SchemaError, match="unseen category 'ward 9'"):
        fitted.predict(frame.assign(ward="ward 9"))


def test_declared_columns_reach_the_schema():
    frame, y = table()
    model = small_regressor(columns={"dose": {"transform": "log", "unit": "mg"}}).fit(frame, y)
    assert model.schema_.column("dose").transform == "log"
    shifted = frame["dose"] + model.schema_.column("dose").offset
    assert model.schema_.column("dose").center == pytest.approx(np.log(shifted).mean())


def test_amounts_enter_on_a_log_like_scale_unless_a_transform_is_declared(fitted):
    """Doses are lognormal, ages uniform; the offset of asinh is a quarter of the least dose."""
    frame, y = table(200)
    free = small_regressor().fit(frame, y).schema_
    assert (free.column("age").transform, free.column("dose").transform) == ("standardize", "asinh")
    assert free.column("dose").offset == np.quantile(frame["dose"], 0.005, method="lower") / 4
    entered = np.arcsinh(frame["dose"] / free.column("dose").offset)
    assert free.column("dose").center == pytest.approx(entered.mean())
    assert free.column("dose").scale == pytest.approx(entered.std(ddof=0))
    declared = small_regressor(columns={"dose": {"transform": "standardize"}}).fit(frame, y)
    assert declared.schema_.column("dose").transform == "standardize"
    assert declared.schema_.column("dose").center == pytest.approx(frame["dose"].mean())


@pytest.mark.parametrize(
    ("values", "transform"),
    [
        (np.exp(np.linspace(-3, 3, 40)), "asinh"),
        (np.append(np.zeros(20), np.exp(np.linspace(-1, 3, 40))), "asinh"),
        (np.linspace(5, 6, 40), "standardize"),
        (np.exp(np.linspace(-3, 3, 40)) - 1, "standardize"),  # below zero: not an amount
        (np.append(np.linspace(1, 2, 40), 1e300), "standardize"),
    ],
)
def test_only_amounts_that_become_much_less_skewed_change_their_scale(values, transform):
    column = on_suited_scale(Column("c", "continuous", (0, 1)), values, np.ones(len(values)))
    assert column.transform == transform
    twice = on_suited_scale(Column("c", "continuous", (0, 1)), np.repeat(values, 3), np.ones(3 * len(values)))
    weighted = on_suited_scale(Column("c", "continuous", (0, 1)), values, np.full(len(values), 3.0))
    assert weighted == twice


def test_a_new_case_below_all_amounts_is_still_a_case():
    frame, y = table(100)
    model = small_regressor().fit(frame, y)
    assert np.isfinite(model.predict(frame.iloc[:2].assign(dose=[0.0, -3.0]))).all()


# Rules -------------------------------------------------------------------------------------------------


def test_the_target_is_the_series_name_and_always_y():
    frame, y = table()
    for rule in ("if age > 80 then pressure >= 0", "if age > 80 then y >= 0"):
        model = small_regressor(rules=rule).fit(frame, y)
        assert model.rules_[0].text(model.schema_) == "if age > 80 then pressure >= 0"


def test_rules_come_as_words_constraints_or_paths(tmp_path):
    frame, y = table()
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
            small_regressor(rules=rules).fit(*table())


def test_names_lost_on_the_way_point_to_set_output():
    frame, y = table()
    with pytest.raises(RuleError, match=r'set_output\(transform="pandas"\)'):
        small_regressor(rules="if age > 80 then y >= 0").fit(frame[["age", "dose"]].to_numpy(), y)


def test_an_unmet_rule_warns_and_says_by_how_much():
    frame, y = table()
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
    frame, y = table()
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


def test_a_fit_that_has_not_settled_says_so_once():
    engine = Ensemble(steps=10)
    with pytest.warns(InconclusiveWarning, match="Not shown: not settled: 10 steps are too few") as told:
        model = small_regressor(engine=engine).fit(*table())
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
        cross_val_score(small_regressor(), *table(), cv=2)


def test_an_interrupt_leaves_a_labelled_fit_where_somebody_asked_for_it(monkeypatch, tmp_path):
    interrupted(monkeypatch, after=1)
    with pytest.warns(InconclusiveWarning, match="Not shown: interrupted after 50 of 100 steps"):
        model = small_regressor().fit(*table(), folder=tmp_path / "run")
    assert not model.posterior_.provenance["complete"]
    monkeypatch.undo()
    whole = small_regressor().fit(*table(), folder=tmp_path / "run", resume=True)
    assert np.array_equal(whole.posterior_.draws, small_regressor().fit(*table()).posterior_.draws)


@pytest.fixture(scope="module")
def ruled() -> OCBNNRegressor:
    """Five networks under a rule about the old that is weak enough for some of them to break it."""
    frame, y = table()
    model = small_regressor(rules="if age > 80 then pressure <= 280", tolerance=0.999, members=5)
    return model.fit(frame, y)


def test_rules_are_checked_as_by_hand(ruled):
    found = ruled.check_rules(points=200, ascent=False, key=3)[0]
    fresh = ruled.schema_.decode(ruled.posterior_.rules[0].fresh(200, 3))
    functions = twin_functions(ruled, fresh)
    assert (fresh["age"] > 80).all()
    assert 0 < (functions > 280).mean() < 1
    assert found.epsilon_mean.value == pytest.approx((functions > 280).mean())
    assert found.draws_violating.value == pytest.approx((functions > 280).any(axis=1).mean())
    assert found.points_violating.value == pytest.approx((functions.mean(axis=0) > 280).mean())


def test_truncation_gives_means_quantiles_and_samples_of_truncated_normals(ruled):
    frame, _ = table(400, seed=8)
    old, young = frame[frame["age"] > 80][:4], frame[frame["age"] < 70][:4]
    enforced = ruled.enforce()
    functions = twin_functions(ruled, old)
    noise = np.exp(ruled.posterior_.flat[:, -1].astype(float)) * ruled.schema_.target.scale
    ends = (280 - functions) / noise[:, None]
    mass = norm.cdf(ends)
    means = truncnorm.mean(-np.inf, ends, functions, noise[:, None])
    np.testing.assert_allclose(enforced.predict(old), (mass * means).sum(0) / mass.sum(0), rtol=1e-6)
    assert (enforced.predict_interval(old, 0.99) <= 280 + 1e-9).all()
    assert (enforced.sample_predictive(old, 100) <= 280).all()
    np.testing.assert_allclose(enforced.predict(young), ruled.predict(young))


def test_truncation_is_by_the_rules_given(ruled):
    frame, _ = table(400, seed=8)
    old = frame[frame["age"] > 80][:4]
    bound = float(ruled.predict(old).min()) - 1.0
    enforced = ruled.enforce("truncate", rules=[f"if age > 80 then pressure <= {bound}"])
    assert (enforced.predict(old) <= bound).all()
    assert (enforced.sample_predictive(old, 50) <= bound).all()
    both = enforced.enforce("truncate", rules=[f"if age > 85 then pressure <= {bound - 1}"])
    assert (both.predict(old) <= np.where(old["age"] > 85, bound - 1, bound)).all()
    assert ruled.posterior_.truncated == ()


def test_checks_and_pictures_after_truncation_are_of_what_is_predicted(ruled):
    frame, y = table(60, seed=8)
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
    highest = np.sort(twin_functions(ruled, grid).max(axis=1))
    bound = (highest[2] + highest[3]) / 2
    enforced = ruled.enforce("draws", rules=[f"if age > 80 then pressure <= {bound}"], points=200)
    obeys = twin_functions(ruled, grid).max(axis=1) <= bound
    assert obeys.sum() == 3
    assert enforced.rejection_.acceptance.value == pytest.approx(3 / 5)
    assert "3 of 5 draws kept" in str(enforced.rejection_)
    assert ruled.rejection_ is None
    np.testing.assert_array_equal(enforced.posterior_.mask.ravel(), obeys)
    np.testing.assert_allclose(
        enforced.predict(grid[::97]), twin_functions(ruled, grid[::97])[obeys].mean(axis=0), rtol=1e-9
    )


# What the estimator passes on --------------------------------------------------------------------------


def test_engines_come_by_name_or_as_they_are(fitted):
    frame, y = table()
    assert fitted.posterior_.provenance["settings"]["why"] == "given"
    with pytest.raises(OCBNNError, match="There is no engine 'hmmc'"):
        small_regressor(engine="hmmc").fit(frame, y)


def test_large_tables_get_a_larger_network_and_a_minibatch_engine():
    frame, y = table(6000)
    assert hidden_units(None, 500) == (20,)
    assert hidden_units(None, 6000) == (50, 50)
    assert hidden_units(7, 500) == (7,)
    model = Model.build(frame=frame, target=y, hidden=(50, 50))
    assert choose("auto", model)[0].stochastic


def test_the_default_priors_functions_are_as_large_as_the_target():
    network = MLP(5, (20,), 1, "tanh")
    prior = base_prior(None, network, classification=False)
    x = np.random.default_rng(0).normal(size=(50, 5))
    values = [np.asarray(network.apply(prior.sample(seed), x)) for seed in range(300)]
    assert 0.5 < np.std(values) < 2.0


def test_weights_of_columns_are_as_correlated_a_priori_as_the_columns():
    generator = np.random.default_rng(0)
    common = generator.normal(size=(400, 1))
    inputs = np.column_stack([common + 0.5 * generator.normal(size=(400, 2)), generator.normal(size=400)])
    found = np.array(mixing(inputs, np.ones(400)))
    covariance = found @ found.T
    shrunk = np.corrcoef(inputs.T) * 400 / 403
    np.fill_diagonal(shrunk, 1.0)
    np.testing.assert_allclose(covariance / covariance[0, 0], shrunk, atol=1e-9)
    # A unit's input, averaged over unit weights, varies by D = 3 as with independent columns.
    assert np.trace(found.T @ shrunk @ found) == pytest.approx(3.0)
    weighted = np.array(mixing(inputs[:50], np.full(50, 2.0)))
    np.testing.assert_allclose(weighted, mixing(np.repeat(inputs[:50], 2, axis=0), np.ones(100)), atol=1e-12)


def test_a_constant_column_one_column_and_too_many_are_no_trouble():
    assert mixing(np.zeros((5, 1)), np.ones(5)) is None
    assert mixing(np.zeros((5, 201)), np.ones(5)) is None
    np.testing.assert_allclose(mixing(np.zeros((5, 3)), np.ones(5)), np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"noise": -1.0}, "positive standard deviation"),
        ({"hidden": "many"}, "number of units"),
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
        model.fit(*table())


def test_parameters_survive_cloning():
    model = small_regressor(rules=["always y >= 0"], tolerance=0.2)
    assert clone(model).get_params() == model.get_params()


def test_pickling_keeps_predictions(fitted):
    frame, _ = table(5)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(frame), fitted.predict(frame))
