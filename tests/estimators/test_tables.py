"""Tables as people have them: names, kinds and scales of columns, and errors that say what to do."""

import numpy as np
import pytest

from ocbnn import SchemaError
from ocbnn.estimators.tables import on_suited_scale
from ocbnn.schema import Column
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
