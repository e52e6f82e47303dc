"""A rule that is kept anyway changes nothing, inside its region and outside of it (law 1)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from law_fits import Answers, Difference, answers, difference
from ocbnn import OCBNNRegressor

QUICK = {"draws": 250, "hidden": 5}


def pressures() -> tuple[pd.DataFrame, pd.Series]:
    """The table of the review: 90 + 0.5·age − 4·dose, noise 3."""
    generator = np.random.default_rng(0)
    age, dose = generator.uniform(20, 80, 200), generator.uniform(0, 7, 200)
    y = 90 + 0.5 * age - 4 * dose + generator.normal(0, 3, 200)
    return pd.DataFrame({"age": age, "dose": dose}), pd.Series(y, name="pressure")


PRESSURE_PROBES = pd.DataFrame(
    [(age, dose) for age in (30.0, 50.0, 75.0) for dose in (1.0, 5.0, 5.99, 6.01, 6.9)],
    columns=["age", "dose"],
)


def outcomes() -> tuple[pd.DataFrame, pd.Series]:
    """Two classes whose probability is near 1 where a > 1.5."""
    generator = np.random.default_rng(1)
    a, b = generator.uniform(-2, 2, 150), generator.normal(size=150)
    y = (generator.random(150) < 1 / (1 + np.exp(-4 * a))).astype(int)
    return pd.DataFrame({"a": a, "b": b}), pd.Series(y, name="y")


def colours() -> tuple[pd.DataFrame, pd.Series]:
    """Three classes; red is all but impossible where a > 1."""
    frame, _ = outcomes()
    generator = np.random.default_rng(2)
    logits = np.column_stack([-3 * frame["a"], 0 * frame["a"], 3 * frame["a"]])
    chosen = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return frame, pd.Series(np.array(["amber", "blue", "red"])[2 - chosen], name="colour")


CLASS_PROBES = pd.DataFrame(
    [(a, b) for a in (-1.5, 0.0, 1.4, 1.6, 1.9) for b in (-1.0, 1.0)], columns=["a", "b"]
)

CASES = {
    "a bound far below": (OCBNNRegressor, pressures, PRESSURE_PROBES, "if dose > 6 then pressure >= 20"),
    "a bound out of sight": (
        OCBNNRegressor,
        pressures,
        PRESSURE_PROBES,
        "if dose > 6 then pressure >= -100000",
    ),
    "everywhere": (OCBNNRegressor, pressures, PRESSURE_PROBES, "always -1000 <= pressure <= 1000"),
}


@cache
def fitted(case: str, ruled: bool, fits: int, quick: bool) -> Answers:
    kind, table, probes, rule = CASES[case]
    options = QUICK if quick else {}
    X, y = table()
    return answers(
        lambda seed: kind(rules=[rule] if ruled else [], random_state=seed, **options),
        X,
        y,
        probes,
        range(100 * ruled, 100 * ruled + fits),
    )


def changed(case: str, *, fits: int, quick: bool) -> Difference:
    return difference(fitted(case, False, fits, quick), fitted(case, True, fits, quick))


def test_a_rule_that_is_kept_anyway_changes_nothing():
    found = changed("a bound out of sight", fits=4, quick=True)
    assert found.none, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rules_that_are_kept_anyway_change_nothing_in_the_default_fit(case):
    found = changed(case, fits=8, quick=False)
    assert found.precise, str(found)
    assert found.none, str(found)


def test_a_planted_shift_of_three_tenths_of_a_standard_deviation_is_seen():
    without = fitted("a bound out of sight", False, 4, True)
    found = difference(without, fitted("a bound out of sight", True, 4, True).moved(0.3))
    assert found.precise, str(found)
    assert not found.none, str(found)
