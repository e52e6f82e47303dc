"""Units, shifts and order change nothing: the same log-density, whatever a table is written in (law 2)."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import pytest

from ocbnn.model import Model
from ocbnn.model.likelihoods import Noise
from ocbnn.schema import Schema

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
    found = []
    for seed in range(5):
        w = np.array(model.initial(seed), dtype=float)
        if columns is not None:
            w[:12] = w[:12].reshape(2, 6)[columns].ravel()
        found.append(float(model.log_density(w)))
    return np.array(found) + shift


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
            densities(built(table(), noise=noise)),
            rtol=1e-9,
            atol=1e-6,
        )


def test_columns_in_another_order_have_the_same_log_density():
    with jax.enable_x64(True):
        turned = built(table()[["dose", "age", "y"]])
        np.testing.assert_allclose(densities(turned, columns=[1, 0]), densities(built(table())), rtol=1e-9)
