"""COMPAS: the filter on rows that say which is which, and the facts of the published file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from ocbnn.errors import FileError
from real_data import folder_of
from reproduce.data import compas

ROW = {
    "id": 1,
    "age": 30,
    "two_year_recid": 1,
    "priors_count": 2,
    "c_jail_in": "2013-01-01 12:00:00",
    "c_jail_out": "2013-01-03 11:00:00",
    "c_charge_degree": "F",
    "sex": "Male",
    "race": "African-American",
    "days_b_screening_arrest": -1.0,
    "is_recid": 1,
    "score_text": "High",
}


def rows(*changes: dict[str, object]) -> pd.DataFrame:
    return compas.prepared(pd.DataFrame([{**ROW, **change} for change in changes]))


def test_a_row_becomes_the_papers_features() -> None:
    found = rows({}, {"sex": "Female", "race": "Other", "c_charge_degree": "M", "score_text": "Medium"})
    assert list(found.columns) == [*compas.FEATURES, compas.TARGET]
    assert found.iloc[0].tolist() == [30, 1, 2, 1, 1, 0, 0, 1, 1, 1]
    assert found.iloc[1].tolist() == [30, 1, 2, 1, 0, 1, 1, 0, 0, 0]


def test_days_are_rounded_down_also_below_zero() -> None:
    found = rows({"c_jail_out": "2013-01-01 11:00:00"})
    assert found["length_of_stay"].tolist() == [-1]


@pytest.mark.parametrize(
    "change",
    [
        {"days_b_screening_arrest": 31.0},
        {"days_b_screening_arrest": -31.0},
        {"days_b_screening_arrest": None},
        {"is_recid": -1},
        {"c_charge_degree": "O"},
        {"score_text": "N/A"},
    ],
)
def test_rows_outside_of_the_filter_are_left_out(change: dict[str, object]) -> None:
    assert len(rows({}, change)) == 1


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "compas-scores-two-years.csv"
    path.write_text("id,age\n1,30\n")
    with pytest.raises(FileError, match=r"no column 'two_year_recid'.*propublica"):
        compas.read(path)


def test_facts_of_the_published_rows() -> None:
    folder = folder_of("compas")
    assert len(compas.read(folder)) == 7214
    table = compas.table(folder)
    assert len(table) == 6172
    assert int(table["race"].sum()) == 3175
    assert int(table["high_risk"].sum()) == 1144
    assert int((table["length_of_stay"] == -1).sum()) == 183
    rates = table.groupby("race")[["high_risk", "two_year_recid"]].mean().round(3)
    assert rates.loc[1].tolist() == [0.266, 0.523]
    assert rates.loc[0].tolist() == [0.1, 0.383]


def test_obeying_the_papers_rule_to_the_letter_still_leaves_a_gap() -> None:
    table = compas.table(folder_of("compas"))
    obeyed, label, group = table["two_year_recid"], table["high_risk"], table["race"]
    gap = obeyed[group == 1].mean() - obeyed[group == 0].mean()
    precision, recall = label[obeyed == 1].mean(), obeyed[label == 1].mean()
    assert round(gap, 3) == 0.140
    assert round((obeyed == label).mean(), 3) == 0.634
    assert round(2 * precision * recall / (precision + recall), 3) == 0.429
