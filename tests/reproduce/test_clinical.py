"""The clinical application: patients stay on one side of a split, and the bars on the open demo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ocbnn.schema import Schema
from real_data import folder_of
from reproduce.applications.clinical import (
    HeldOut,
    clinical,
    evenly_upsampled,
    figures,
    fit,
    in_regions,
    over_folds,
    patient_folds,
    points,
    points_violating,
)
from reproduce.applications.common import read_rules
from reproduce.data import mimic3
from reproduce.outcome import bounds
from reproduce.plans import plan


def made_up(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            mimic3.PATIENT: generator.integers(0, 20, rows),
            "MAP": generator.uniform(50, 100, rows),
            "age": generator.uniform(20, 90, rows),
            "urine": generator.uniform(0, 200, rows),
            "weight": generator.uniform(50, 120, rows),
            "creatinine": generator.uniform(0.5, 5, rows),
            "lactate": generator.uniform(0.5, 9, rows),
            "bicarbonate": generator.uniform(10, 35, rows),
            "BUN": generator.uniform(5, 100, rows),
            mimic3.TARGET: generator.binomial(1, 0.25, rows),
        }
    )


def test_the_regions_are_those_of_the_two_rules() -> None:
    t = made_up()
    kidneys = (t["creatinine"] > 2) & (t["BUN"] > 40) & (t["urine"] < 30)
    acidosis = (t["lactate"] > 4) & (t["bicarbonate"] < 18)
    assert in_regions(t).tolist() == (kidneys | acidosis).tolist()
    assert in_regions(t).any()


def test_no_patient_is_on_both_sides_of_a_split() -> None:
    table = made_up()
    folds = patient_folds(table, seed=0, folds=5)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(len(table)))
    for train, test in folds:
        patients = table[mimic3.PATIENT]
        assert not set(patients.iloc[train]) & set(patients.iloc[test])


def test_upsampling_makes_both_classes_as_many() -> None:
    table = made_up()
    counts = evenly_upsampled(table, seed=0)[mimic3.TARGET].value_counts()
    assert counts[0] == counts[1] == (table[mimic3.TARGET] == 0).sum()


@pytest.mark.parametrize("sampler", ["rows", "uniform"])
def test_fresh_points_are_inside_their_rules_region(sampler: str) -> None:
    table = made_up()
    features = table[list(mimic3.FEATURES)]
    schema = Schema.infer(features, target=table[mimic3.TARGET], columns=dict(mimic3.COLUMNS))
    for rule in read_rules("clinical", schema):
        found = points(rule, schema, schema.encode(features), sampler, 0, 2)
        assert len(found) == 2500
        assert rule.region.contains(found, schema).all()


@pytest.mark.slow
def test_points_violate_by_the_more_probable_class_and_by_what_is_predicted() -> None:
    """Actions by chance in a quarter of hours: never more probable than not, yet balanced classes act."""
    chosen = plan("clinical", "ours", quick=True)
    assert chosen.own["class_weight"] == "balanced"
    table = made_up()
    found = points_violating(fit("ours", chosen, table, False, 0), table, 0)
    assert set(found) == {f"points_violating{u}{p}" for u in ("", "_uniform") for p in ("", "_predicted")}
    assert found["points_violating"] > 0.9
    assert found["points_violating_predicted"] < found["points_violating"]


def test_figures_are_told_apart_inside_and_outside() -> None:
    table = made_up()
    inside = in_regions(table)
    predicted = np.where(inside, 1, table[mimic3.TARGET])
    found = figures(table, inside, np.arange(len(table)), HeldOut(predicted * 1.0, predicted, {}), seed=0)
    assert found["accuracy_outside"] == found["f1_outside"] == found["auc_outside"] == 1.0
    assert found["accuracy_inside"] == pytest.approx(table.loc[inside, mimic3.TARGET].mean())
    assert found["accuracy"] == pytest.approx((predicted == table[mimic3.TARGET]).mean())


def test_the_error_of_shares_is_that_between_folds_and_of_one_fold_that_of_its_points() -> None:
    several = over_folds([{"share": 0.1}, {"share": 0.3}])
    assert several == {"share": pytest.approx(0.2), "share_se": pytest.approx(0.1)}
    assert over_folds([{"share": 0.2}])["share_se"] == pytest.approx((0.2 * 0.8 / 5000) ** 0.5)


@pytest.mark.slow
def test_the_bars_are_met_on_the_open_demo(tmp_path: Path) -> None:
    folder_of("mimic3_demo")
    outcome = clinical("ours", 3, False, tmp_path)
    for bound in bounds("clinical"):
        assert bound.met(outcome.runs[bound.run][bound.figure]), bound
