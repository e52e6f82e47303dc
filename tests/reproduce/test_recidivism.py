"""Recidivism: the figures on rows where they are known, and the bars on the real ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ocbnn.regions import sample
from ocbnn.schema import Schema
from real_data import folder_of
from reproduce.applications.common import papers_schema, read_rules
from reproduce.applications.recidivism import (
    STANDARDISED,
    figures,
    left_out,
    others,
    papers_rules,
    recidivism,
    statistics,
)
from reproduce.data import compas
from reproduce.outcome import bounds
from reproduce.plans import plan


def made_up(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({name: generator.binomial(1, 0.5, rows) for name in compas.FEATURES})
    frame["age"] = generator.integers(18, 70, rows)
    frame["priors_count"] = generator.integers(0, 12, rows)
    frame["length_of_stay"] = generator.integers(-1, 60, rows)
    frame[compas.TARGET] = generator.binomial(1, 0.2, rows)
    return frame


def schema_of(setting: str, rows: pd.DataFrame) -> Schema:
    return papers_schema(plan("recidivism", setting), rows, compas.TARGET, STANDARDISED, kind="binary")


def test_obeying_the_rule_leaves_no_gap_among_people_who_did_the_same() -> None:
    table = made_up()
    found = figures(table, table["two_year_recid"].to_numpy(float), seed=0)
    assert found["gap_given_recid_0"] == found["gap_given_recid_1"] == found["tv_to_rule"] == 0.0
    by_group = table.groupby("race")["two_year_recid"].mean()
    assert found["gap"] == pytest.approx(abs(by_group[1] - by_group[0]))


def test_calling_one_group_high_risk_is_a_gap_of_one() -> None:
    table = made_up()
    everybody = np.arange(len(table))
    by_race = table["race"].to_numpy()
    found = {name: of(everybody) for name, of in statistics(table, by_race, by_race.astype(float)).items()}
    assert found["high_risk_african_american"] == 1.0
    assert found["high_risk_others"] == 0.0
    assert found["gap_given_recid_0"] == found["gap_given_recid_1"] == found["gap"] == 1.0
    assert found["tv_to_rule"] == pytest.approx((by_race != table["two_year_recid"]).mean())


def test_the_rule_asks_for_what_people_did() -> None:
    table = made_up()
    schema = schema_of("paper", table)
    (rule,) = read_rules("recidivism", schema)
    coded = schema.encode(table)
    assert rule.region.contains(coded, schema).all()
    assert rule.demand(coded, schema).probability.tolist() == table["two_year_recid"].tolist()


@pytest.mark.parametrize("setting", ["paper", "reference"])
def test_the_papers_table_has_only_three_standardised_columns(setting: str) -> None:
    table = made_up()
    schema = schema_of(setting, table)
    inputs = schema.to_model(schema.encode(table))
    for place, name in enumerate(compas.FEATURES):
        if name in ("age", "priors_count", "length_of_stay"):
            assert abs(inputs[:, place].mean()) < 1e-9
        else:
            assert set(np.unique(inputs[:, place])) == {0.0, 1.0}


@pytest.mark.parametrize("features", [compas.FEATURES, compas.FEATURES[:-1]], ids=["race", "no_race"])
def test_the_reference_region_is_a_box_around_the_mean_of_all_but_what_people_did(
    features: tuple[str, ...],
) -> None:
    table = made_up()
    schema = schema_of("reference", table[[*features, compas.TARGET]])
    (rule,) = papers_rules(plan("recidivism", "reference"), schema, table[list(features)])
    points = sample(0, rule.region, schema, None, 200, "uniform")
    for name in features:
        column = points[:, schema.index(name)]
        if name != "two_year_recid":
            assert np.all(np.abs(column - table[name].mean()) <= 0.2 * table[name].std() + 1e-9)
        assert len(np.unique(column)) > 100
    recid = points[:, schema.index("two_year_recid")]
    assert (recid.min(), recid.max()) == pytest.approx((0.0, 1.0), abs=0.05)
    assert rule.demand(points, schema).probability.tolist() == recid.tolist()


@pytest.mark.slow
def test_other_methods_are_fitted_to_some_rows_and_asked_about_others() -> None:
    table = made_up(200)
    train, test = table.iloc[:150], table.iloc[150:]
    found = others(train, test, seed=0)
    features = list(compas.FEATURES)
    by_hand = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    by_hand.fit(train[features], train[compas.TARGET])
    np.testing.assert_allclose(found["logistic_regression"], by_hand.predict_proba(test[features])[:, 1])
    assert all(len(chance) == 50 for chance in found.values())
    assert set(found["demographic_parity"]) <= {0.0, 1.0}


def test_without_fairlearn_the_details_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fairlearn.reductions", None)
    table = made_up(100)
    found = others(table, table, seed=0)
    assert set(found) == {"logistic_regression", "gradient_boosting"}
    assert "pip install fairlearn" in left_out(found)["left_out"]["demographic_parity"]
    assert left_out({**found, "demographic_parity": {}}) == {}


@pytest.mark.slow
def test_the_bars_are_met_on_the_real_rows(tmp_path: Path) -> None:
    folder_of("compas")
    outcome = recidivism("ours", 3, False, tmp_path)
    for bound in bounds("recidivism"):
        assert bound.met(outcome.runs[bound.run][bound.figure]), bound
    assert set(outcome.runs) == {"bnn", "ocbnn", "bnn_without_race", "ocbnn_without_race"}
    assert (tmp_path / "recidivism.png").is_file()
