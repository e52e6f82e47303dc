"""Units, shifts and order change nothing: the same log-density, whatever a table is written in (law 2)."""

from __future__ import annotations

from functools import cache

import jax
import numpy as np
import pandas as pd
import pytest

from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.model import Model
from ocbnn.model.likelihoods import Noise
from ocbnn.schema import Schema
from small_estimators import small_classifier, small_regressor

RULES = ("if dose > 3 then 40 <= y <= 90", "if age < 40 then y <= 120")


def table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    age, dose = generator.uniform(20, 80, 40), generator.uniform(0, 6, 40)
    return pd.DataFrame(
        {"age": age, "dose": dose, "y": 60 + 0.5 * age - 2 * dose + generator.normal(0, 3, 40)}
    )


def plain(frame: pd.DataFrame) -> Schema:
    return Schema.infer(
        frame, target="y", columns={"age": {"transform": "standardize"}, "dose": {"transform": "standardize"}}
    )


def built(frame: pd.DataFrame, rules: tuple[str, ...] = RULES, noise: Noise = None) -> Model:
    schema = plain(frame)
    return Model.build(
        frame=frame, target="y", schema=schema, rules=rules, hidden=(6,), points=50, noise=noise
    )


def densities(model: Model, shift: float = 0.0, columns: list[int] | None = None) -> np.ndarray:
    """At five vectors; `columns` moves the first layer's rows to where the columns are."""
    found, log_density = [], jax.jit(model.log_density)
    for seed in range(5):
        w = np.array(model.initial(seed), dtype=float)
        if columns is not None:
            w[:12] = w[:12].reshape(2, 6)[columns].ravel()
        found.append(float(log_density(w)))
    return np.array(found) + shift


@cache
def unchanged(noise: Noise = None) -> np.ndarray:
    """What every change is compared with."""
    return densities(built(table(), noise=noise))


CHANGED = {
    "grams instead of milligrams": (
        lambda frame: frame.assign(dose=frame["dose"] / 1000),
        ("if dose > 0.003 then 40 <= y <= 90", RULES[1]),
    ),
    "another unit of the target": (
        lambda frame: frame.assign(y=frame["y"] * 1000),
        ("if dose > 3 then 40000 <= y <= 90000", "if age < 40 then y <= 120000"),
    ),
    "a shifted target": (
        lambda frame: frame.assign(y=frame["y"] + 500),
        ("if dose > 3 then 540 <= y <= 590", "if age < 40 then y <= 620"),
    ),
    "a shifted column": (
        lambda frame: frame.assign(age=frame["age"] + 1900),
        (RULES[0], "if age < 1940 then y <= 120"),
    ),
    "rows in another order": (lambda frame: frame.sample(frac=1.0, random_state=0), RULES),
    "rules in another order": (lambda frame: frame, RULES[::-1]),
}


@pytest.mark.parametrize("noise", [None, "varying"])
@pytest.mark.parametrize("change", CHANGED)
def test_the_log_density_is_the_same(change, noise):
    changed, rules = CHANGED[change]
    with jax.enable_x64(True):
        np.testing.assert_allclose(
            densities(built(changed(table()), rules, noise)),
            unchanged(noise),
            rtol=1e-9,
            atol=1e-6,
        )


def test_columns_in_another_order_have_the_same_log_density():
    with jax.enable_x64(True):
        turned = built(table()[["dose", "age", "y"]])
        np.testing.assert_allclose(densities(turned, columns=[1, 0]), unchanged(), rtol=1e-9)


ONE_STEP = {"engine": Ensemble(steps=1), "chains": 1, "hidden": None}


def amounts() -> pd.DataFrame:
    """Two amounts that estimators put on a log-like scale by themselves, a number and a category."""
    generator = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "dose": generator.lognormal(1.0, 1.5, 60),
            "lactate": generator.lognormal(0.0, 1.2, 60),
            "age": generator.uniform(20, 80, 60),
            "ward": generator.choice(["ICU", "surgery"], 60),
        }
    )
    return frame.assign(y=60 + 0.5 * frame["age"] - 2 * np.log(frame["dose"]) + generator.normal(0, 3, 60))


def estimators_model(frame: pd.DataFrame, rules: tuple[str, ...], noise: str = "varying") -> Model:
    """The model that an estimator of default size, prior and noise builds."""
    fitted = small_regressor(rules=list(rules), noise=noise, **ONE_STEP)
    return fitted.fit(frame.drop(columns="y"), frame["y"]).posterior_.model


@cache
def unchanged_estimators_model(noise: str) -> tuple[Model, np.ndarray]:
    """The model that every change is compared with, and its densities."""
    model = estimators_model(amounts(), AMOUNT_RULES, noise)
    with jax.enable_x64(True):
        return model, densities(model)


AMOUNT_RULES = ("if dose > 3 and age > 40 then 40 <= y <= 90", "if age < 40 then y <= 120")
CHANGED_AMOUNTS = {
    "the same": (lambda frame: frame, AMOUNT_RULES),
    "grams instead of milligrams": (
        lambda frame: frame.assign(dose=frame["dose"] / 1000),
        ("if dose > 0.003 and age > 40 then 40 <= y <= 90", AMOUNT_RULES[1]),
    ),
    "two amounts in other units": (
        lambda frame: frame.assign(dose=frame["dose"] * 64, lactate=frame["lactate"] * 9.01),
        ("if dose > 192 and age > 40 then 40 <= y <= 90", AMOUNT_RULES[1]),
    ),
    "days instead of years": (
        lambda frame: frame.assign(age=frame["age"] * 365.25),
        ("if dose > 3 and age > 14610 then 40 <= y <= 90", "if age < 14610 then y <= 120"),
    ),
    "another unit of the target": (
        lambda frame: frame.assign(y=frame["y"] * 1000),
        ("if dose > 3 and age > 40 then 40000 <= y <= 90000", "if age < 40 then y <= 120000"),
    ),
    "a shifted target": (
        lambda frame: frame.assign(y=frame["y"] + 500),
        ("if dose > 3 and age > 40 then 540 <= y <= 590", "if age < 40 then y <= 620"),
    ),
    "rules in another order": (lambda frame: frame, AMOUNT_RULES[::-1]),
}


@pytest.mark.filterwarnings("ignore:UNMET")  # of one step of an optimiser
@pytest.mark.parametrize("noise", ["constant", "varying"])
@pytest.mark.parametrize("change", CHANGED_AMOUNTS)
def test_the_log_density_of_the_estimators_model_is_the_same(change, noise):
    changed, rules = CHANGED_AMOUNTS[change]
    one, expected = unchanged_estimators_model(noise)
    other = estimators_model(changed(amounts()), rules, noise)
    assert [column.transform for column in one.schema.columns][:2] == ["asinh", "asinh"]
    with jax.enable_x64(True):
        np.testing.assert_allclose(densities(other), expected, rtol=1e-9, atol=1e-6)


REWORDED = (
    "if not (age <= 40 or dose <= 3) then y >= 40 and y <= 90",
    "if 40 < age and dose > 3 then 40 <= y <= 90",
)


@pytest.mark.parametrize("words", REWORDED)
@pytest.mark.parametrize("sampler", [None, "rows", "hull", "brownian"])
def test_a_rule_in_other_words_is_exactly_the_same_where_points_come_from_rows(sampler, words):
    frame = amounts()
    options = {"frame": frame, "target": "y", "sampler": sampler, "points": 50, "hidden": (6,)}
    one, other = (Model.build(rules=[text], **options) for text in (AMOUNT_RULES[0], words))
    assert one.terms[0].uses_rows  # four columns: that is the default there
    np.testing.assert_array_equal(one.terms[0].points.coded, other.terms[0].points.coded)
    np.testing.assert_array_equal(densities(one), densities(other))


@pytest.mark.parametrize("classes", [("low", "high"), ("low", "middle", "high")])
def test_classes_in_another_order_have_the_same_log_density(classes):
    generator = np.random.default_rng(2)
    frame = amounts().drop(columns="y")
    label = pd.Series(generator.choice(classes, 60), name="label")
    rules = ["if dose > 3 then label = high", "if age < 40 then P(label = low) >= 0.2"]

    def built(order: tuple[str, ...]) -> Model:
        schema = Schema.infer(frame, target=label, columns={"label": {"levels": order}})
        assert schema.target.classes == order
        return Model.build(frame=frame, target=label, schema=schema, rules=rules, hidden=(6,), points=50)

    turned = classes[::-1]
    one, other = built(classes), built(turned)
    with jax.enable_x64(True):
        for seed in range(5):
            w = np.array(one.initial(seed), dtype=float)
            moved = w.copy()
            if len(classes) == 2:  # one logit, which is that of the other class
                moved[one.network.output_places(0)] *= -1.0
            else:
                for place, name in enumerate(turned):
                    from_place = one.network.output_places(classes.index(name))
                    moved[one.network.output_places(place)] = w[from_place]
            expected = float(one.log_density(w))
            assert float(other.log_density(moved)) == pytest.approx(expected, rel=1e-9)
            assert float(other.log_density(w)) != pytest.approx(expected, rel=1e-9)


@pytest.mark.filterwarnings("ignore:UNMET")
def test_the_estimators_model_of_classes_is_the_same_in_another_order_of_rows_and_units():
    generator = np.random.default_rng(2)
    frame = amounts().drop(columns="y")
    label = pd.Series(generator.choice(["a", "b", "c"], 60), name="label")
    order = generator.permutation(60)
    changed = frame.assign(dose=frame["dose"] / 1000).iloc[order].reset_index(drop=True)
    one = small_classifier(rules=["if dose > 3 then label = a"], **ONE_STEP).fit(frame, label)
    again = label.iloc[order].reset_index(drop=True)
    other = small_classifier(rules=["if dose > 0.003 then label = a"], **ONE_STEP).fit(changed, again)
    with jax.enable_x64(True):
        expected = densities(one.posterior_.model)
        np.testing.assert_allclose(densities(other.posterior_.model), expected, rtol=1e-9, atol=1e-6)
