"""Tables as people have them: names, kinds and scales of columns, and errors that say what to do."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer

import ocbnn
from ocbnn import SchemaError, lint
from ocbnn.estimators.tables import guessed_kinds, on_suited_scale
from ocbnn.plots.slices import reference_row
from ocbnn.posterior.draws import function_draws
from ocbnn.report import gather
from ocbnn.report.evidence import Evidence
from ocbnn.report.sentences import conflict_sentence
from ocbnn.schema import Column, Schema
from small_estimators import blood_pressures, small_regressor


def test_two_columns_of_one_name_are_refused():
    frame, y = blood_pressures()
    with pytest.raises(SchemaError, match="several columns named 'age'; rename all but one"):
        small_regressor().fit(frame.rename(columns={"dose": "age"}), y)


def test_the_order_of_columns_is_checked_and_of_rows_does_not_matter(fitted):
    frame, y = blood_pressures()
    with pytest.raises(ValueError, match="order"):
        fitted.predict(frame[["dose", "age", "ward"]])
    shuffled = np.random.default_rng(1).permutation(len(frame))
    again = small_regressor().fit(frame.iloc[shuffled], y.iloc[shuffled])
    assert np.array_equal(again.posterior_.draws, fitted.posterior_.draws)


def test_an_array_has_columns_x0_x1():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = small_regressor(rules="if x1 > 1.5 then y <= 1000").fit(X, X[:, 0])
    assert model.schema_.names == ("x0", "x1")
    assert model.rules_[0].text(model.schema_) == "if x1 > 1.5 then y <= 1000"


def test_nan_names_the_column_and_the_remedy():
    frame, y = blood_pressures()
    frame.loc[3, "dose"] = np.nan
    with pytest.raises(SchemaError, match=r"'dose' has 1 missing values \(NaN\).* row 3.*SimpleImputer"):
        small_regressor().fit(frame, y)


def test_the_remedy_against_nan_works_on_tables_with_text_and_is_another_one_after_the_fit(fitted):
    frame, y = blood_pressures()
    frame.loc[3, "dose"] = np.nan
    with pytest.raises(SchemaError, match=r'SimpleImputer\(strategy="most_frequent"\)\.set_output'):
        small_regressor().fit(frame, y)
    SimpleImputer(strategy="most_frequent").set_output(transform="pandas").fit_transform(frame)
    with pytest.raises(SchemaError, match=r"SimpleImputer\(\)"):
        small_regressor().fit(frame[["age", "dose"]], y)
    with pytest.raises(SchemaError, match="as for the fit"):
        fitted.predict(frame)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (pd.Series(pd.date_range("2020", periods=40), name="admitted"), r"'admitted' holds datetime64.*unit"),
        (pd.Series(pd.to_timedelta(range(40), unit="D")), r"timedelta64.*\.dt\.days"),
        (pd.Series(["low", "high"] * 20, name="risk"), "'risk' holds labels.* Use OCBNNClassifier"),
        (np.array(["low", "high"] * 20), "labels such as 'low'.* Use OCBNNClassifier"),
        (np.array([-1.7e308, 1.7e308] * 20), "further than numbers can tell apart"),
    ],
)
def test_a_target_that_is_no_number_of_a_unit_is_refused(target, said):
    with pytest.raises(SchemaError, match=said):
        small_regressor().fit(blood_pressures()[0], target)


def test_a_column_that_reaches_too_far_is_named():
    frame, y = blood_pressures()
    with pytest.raises(SchemaError, match="Column 'dose' reaches from"):
        small_regressor().fit(frame.assign(dose=[-1.7e308, 1.7e308] * 20), y)


def test_rows_without_names_are_told_by_position(fitted):
    frame, y = blood_pressures()
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        assert np.array_equal(fitted.predict(frame.to_numpy()), fitted.predict(frame))
    numbers = frame[["age", "dose"]]
    nameless = small_regressor().fit(numbers.to_numpy(), y)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        assert np.array_equal(nameless.predict(numbers), nameless.predict(numbers.to_numpy()))


@pytest.fixture(scope="module")
def whole():
    """A fit in which visits look like 0/1 and ages like integers, and nobody has said that they are."""
    frame, y = blood_pressures()
    frame = frame.assign(age=frame["age"].round().astype(int), dose=np.arange(40) % 2)
    return small_regressor(rules="if age > 80 then pressure <= 100000").fit(frame, y), frame


def test_a_guessed_kind_is_no_bound_on_new_cases(whole):
    model, frame = whole
    assert [column.kind for column in model.schema_.columns[:2]] == ["integer", "binary"]
    coded = np.column_stack([frame["age"], np.full(40, 2.5), frame["ward"] == "surgery"]).astype(float)
    expected = function_draws(model.posterior_, coded)
    assert np.array_equal(model.sample_function(frame.assign(dose=2.5)), expected)


def test_a_guessed_kind_holds_where_a_rule_speaks_of_the_column(whole):
    model, frame = whole
    with pytest.raises(SchemaError, match=r"64\.5.*columns=\{'age': \{'kind': 'continuous'\}\}"):
        model.predict(frame.assign(age=64.5))
    enforced = model.enforce(rules="if dose != 1 then pressure <= 100000")
    with pytest.raises(SchemaError, match="'dose' is binary"):
        enforced.predict(frame.assign(dose=2))


def test_declared_kinds_and_truth_values_are_not_guessed():
    frame = pd.DataFrame({"visits": [0, 1], "age": [31, 64], "smoker": [True, False], "dose": [0.5, 1.5]})
    columns = guessed_kinds(Schema.infer(frame), frame, {"age": {"kind": "integer"}}).columns
    assert [column.guessed for column in columns] == [True, False, False, False]


def test_infinity_names_the_column():
    frame, y = blood_pressures()
    frame.loc[3, "dose"] = np.inf
    with pytest.raises(SchemaError, match=r"'dose' is infinite"):
        small_regressor().fit(frame, y)


def test_an_unseen_category_is_named(fitted):
    frame, _ = blood_pressures(3)
    with pytest.raises(SchemaError, match="unseen category 'ward 9'"):
        fitted.predict(frame.assign(ward="ward 9"))


def test_declared_columns_reach_the_schema():
    frame, y = blood_pressures()
    model = small_regressor(columns={"dose": {"transform": "log", "unit": "mg"}}).fit(frame, y)
    assert model.schema_.column("dose").transform == "log"
    shifted = frame["dose"] + model.schema_.column("dose").offset
    assert model.schema_.column("dose").center == pytest.approx(np.log(shifted).mean())


def test_amounts_enter_on_a_log_like_scale_unless_a_transform_is_declared(fitted):
    """Doses are lognormal, ages uniform; the offset of asinh is a quarter of the least dose."""
    frame, y = blood_pressures(200)
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
    frame, y = blood_pressures(100)
    model = small_regressor().fit(frame, y)
    assert np.isfinite(model.predict(frame.iloc[:2].assign(dose=[0.0, -3.0]))).all()


# Missing values ---------------------------------------------------------------------------------------------


def pressures_with_gaps() -> tuple[pd.DataFrame, pd.Series]:
    frame, y = blood_pressures()
    frame.loc[[3, 7, 8], "dose"] = np.nan
    frame.loc[5, "ward"] = None
    return frame, y


@pytest.fixture(scope="module")
def gaps():
    return small_regressor(missing="indicator", rules="if dose > 1 then y <= 200", tolerance=0.999).fit(
        *pressures_with_gaps()
    )


def test_a_network_sees_the_mean_and_what_was_missing(gaps):
    frame, _ = pressures_with_gaps()
    schema = gaps.schema_
    dose, age = schema.column("dose"), schema.column("age")
    filled = np.arcsinh(frame["dose"].fillna(frame["dose"].mean()) / dose.offset)
    columns = [(frame["age"] - age.center) / age.scale, (filled - dose.center) / dose.scale]
    columns += [frame["dose"].isna(), *(frame["ward"] == level for level in ("ICU", "surgery"))]
    inputs = np.column_stack([*columns, frame["ward"].isna()]).astype(float)
    w = gaps.posterior_.flat.astype(float)
    first, rest = w[:, : 6 * 4].reshape(-1, 6, 4), w[:, 24:]
    hidden = np.tanh(inputs @ first + rest[:, None, :4])
    read = np.concatenate([hidden, np.broadcast_to(inputs, (len(w), *inputs.shape))], axis=2)
    outputs = (read @ rest[:, 4:14, None])[..., 0] + rest[:, 14:15]
    expected = outputs * schema.target.scale + schema.target.center
    np.testing.assert_allclose(gaps.sample_function(frame), expected, rtol=1e-9)


def test_the_transform_and_the_scale_are_those_of_the_values_there():
    frame, y = pressures_with_gaps()
    column = small_regressor(missing="indicator").fit(frame, y).schema_.column("dose")
    there = frame["dose"].notna()
    alone = small_regressor().fit(frame[["age", "dose"]][there], y[there]).schema_.column("dose")
    assert (column.transform, column.offset, column.observed) == ("asinh", alone.offset, alone.observed)
    assert (column.center, column.scale) == pytest.approx((alone.center, alone.scale), rel=1e-12)
    assert column.mean == pytest.approx(frame["dose"].mean())


def test_a_row_of_weight_two_is_two_rows_also_where_a_value_is_missing():
    frame, y = pressures_with_gaps()
    weights = np.ones(40)
    weights[[3, 5]], weights[[7, 8]] = 2, 0
    repeated = [*range(7), 3, 5, *range(9, 40)]
    one = small_regressor(missing="indicator").fit(frame, y, weights)
    other = small_regressor(missing="indicator").fit(frame.iloc[repeated], y.iloc[repeated])
    assert one.schema_ == other.schema_
    assert one.schema_.column("dose").missing == 2
    assert np.array_equal(one.posterior_.draws, other.posterior_.draws)


def test_without_missing_values_the_option_changes_nothing(fitted):
    again = small_regressor(missing="indicator").fit(*blood_pressures())
    assert again.schema_ == fitted.schema_
    assert np.array_equal(again.posterior_.draws, fitted.posterior_.draws)


def test_the_refusal_of_missing_values_names_the_option(fitted):
    with pytest.raises(SchemaError, match="missing='indicator'"):
        small_regressor().fit(*pressures_with_gaps())
    with pytest.raises(SchemaError, match="missing='indicator'"):
        fitted.predict(pressures_with_gaps()[0])
    with pytest.raises(SchemaError, match="'mean' cannot be the way of missing values"):
        small_regressor(missing="mean").fit(*blood_pressures())


def test_a_value_missing_in_a_column_that_was_complete_in_the_fit_is_refused(gaps):
    frame, _ = blood_pressures()
    frame.loc[4, "age"] = np.nan
    with pytest.raises(SchemaError, match=r"'age' has 1 missing.*row 4.*complete in the fit.*Fill it"):
        gaps.predict(frame)


def test_a_truncating_rule_does_not_apply_where_a_value_that_it_needs_is_missing(gaps):
    frame, _ = pressures_with_gaps()
    before, after = gaps.predict_quantiles(frame, [0.9]), gaps.enforce().predict_quantiles(frame, [0.9])
    rows = frame["dose"].isna().to_numpy()
    np.testing.assert_allclose(after[rows], before[rows], rtol=1e-9)
    assert (after[(frame["dose"] > 1).to_numpy()] <= 200).all()
    assert (before[rows] > 200).any()


def test_provenance_says_which_columns_had_gaps_and_to_how_many_rows_a_rule_does_not_apply(gaps):
    frame, _ = pressures_with_gaps()
    said = gaps.posterior_.provenance["data_choices"]
    mean = f"{frame['dose'].mean():.4g}"
    assert f"dose is missing in 3 rows and enters there as the mean {mean}, with an indicator" in said
    assert "ward is missing in 1 row and enters there as a level of its own" in said
    assert any(each.endswith("it does not apply to 3 rows without a value that it needs") for each in said)


def test_a_loaded_estimator_predicts_the_same_where_values_are_missing(gaps, tmp_path):
    frame, _ = pressures_with_gaps()
    gaps.save(tmp_path / "model")
    again = ocbnn.load(tmp_path / "model")
    assert again.missing == "indicator"
    assert np.array_equal(again.predict(frame), gaps.predict(frame))


def test_checks_conflicts_pictures_and_reports_take_rows_with_missing_values(gaps):
    frame, y = pressures_with_gaps()
    assert len(gaps.check_rules(points=20)) == 1
    assert len(gaps.check_rules(points=20, rules="if ward = ICU then y >= 0", by="ward")) == 1
    (found,) = gaps.conflict(frame, y, points=20)
    assert np.isfinite(found.log_score.difference)
    evidence = gather(gaps.posterior_, frame=frame, y=y, points=20)
    assert evidence.rules[0].recorded.unknown == 3
    assert Evidence.from_json(json.loads(json.dumps(evidence.to_json()))).rules[0].recorded.unknown == 3
    assert "to 3 rows without a value that it needs" in conflict_sentence(evidence.rules[0])[1]
    assert lint(gaps.rules_, gaps.schema_, frame.assign(pressure=y))


# Unseen labels ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def open_levels():
    rules = ["if ward = ICU then y <= 150", "if ward != ICU then y <= 140"]
    return small_regressor(unseen="other", rules=rules, tolerance=0.999).fit(*blood_pressures())


def test_a_label_that_the_fit_has_not_seen_is_none_of_the_known_levels(open_levels):
    frame, _ = blood_pressures(7, seed=5)
    inputs = open_levels.schema_.to_model(open_levels.schema_.encode(frame))
    inputs[:, 2:] = 0.0
    w = open_levels.posterior_.flat.astype(float)
    hidden = np.tanh(inputs @ w[:, :16].reshape(-1, 4, 4) + w[:, None, 16:20])
    target = open_levels.schema_.target
    read = np.concatenate([hidden, np.broadcast_to(inputs, (len(w), *inputs.shape))], axis=2)
    expected = ((read @ w[:, 20:28, None])[..., 0] + w[:, 28:29]) * target.scale + target.center
    found = open_levels.sample_function(frame.assign(ward="lab"))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_no_condition_on_its_column_holds_for_an_unseen_label(open_levels):
    frame, y = blood_pressures()
    enforced = open_levels.enforce()
    assert (enforced.predict_quantiles(frame, [0.99]) <= 150).all()
    new = frame.assign(ward="lab")
    free, bound = open_levels.predict_quantiles(new, [0.99]), enforced.predict_quantiles(new, [0.99])
    np.testing.assert_allclose(bound, free, rtol=1e-9)
    evidence = gather(
        open_levels.posterior_, frame=frame.assign(ward=["lab"] * 3 + ["ICU"] * 37), y=y, points=20
    )
    assert evidence.unseen == {"ward": 3}
    assert [each.recorded.inside for each in evidence.rules] == [37, 0]
    assert Evidence.from_json(json.loads(json.dumps(evidence.to_json()))).unseen == {"ward": 3}


def test_a_loaded_estimator_lets_unseen_labels_through_and_others_refuse_them(open_levels, fitted, tmp_path):
    new = blood_pressures()[0].assign(ward="lab")
    open_levels.save(tmp_path / "model")
    assert np.array_equal(ocbnn.load(tmp_path / "model").predict(new), open_levels.predict(new))
    with pytest.raises(SchemaError, match="unseen='other'"):
        fitted.predict(new)
    with pytest.raises(SchemaError, match="'new' cannot be the way of unseen labels"):
        small_regressor(unseen="new").fit(*blood_pressures())


def test_pictures_of_a_model_with_unseen_labels_go_through_known_ones(open_levels):
    assert reference_row(open_levels.schema_)[2] == 0.0


def test_values_outside_of_the_observed_range_are_told_by_row_and_column(open_levels, gaps):
    frame, _ = blood_pressures()
    new = frame.iloc[:4].set_axis(list("abcd"))
    new.loc["a", "age"], new.loc["b", "dose"], new.loc["c", "ward"] = 95.0, -1.0, "lab"
    new.loc["d", "age"], new.loc["d", "dose"] = 3.0, 1e6
    found = open_levels.outside(new)
    assert list(found.index) == list("abcd")
    expected = [[True, False, False], [False, True, False], [False, False, True], [True, True, False]]
    assert found[["age", "dose", "ward"]].to_numpy().tolist() == expected
    assert found.dtypes.eq(bool).all()
    low, high = frame["age"].quantile([0.005, 0.995], interpolation="nearest")
    assert open_levels.outside(frame)["age"].tolist() == (~frame["age"].between(low, high)).tolist()
    assert not gaps.outside(pressures_with_gaps()[0].iloc[[3, 7, 8]])["dose"].any()
