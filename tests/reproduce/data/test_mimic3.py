"""The cohort builder on a miniature MIMIC-III written here, and its facts on the open demo."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import small_mimic as mini
from ocbnn.errors import FileError, OCBNNError
from real_data import folder_of
from reproduce.data import mimic3
from reproduce.data.mimic3.cohort import OLDEST, catalogue


def built(tmp_path: Path, rows: mini.Rows) -> pd.DataFrame:
    return mimic3.build(mini.write(tmp_path, rows)).table


def stay(table: pd.DataFrame, number: int, column: str) -> list[float]:
    return table.loc[table["icustay_id"] == number, column].tolist()


def test_one_row_an_hour_with_all_features_in_both_charting_systems(tmp_path: Path) -> None:
    table = built(tmp_path, mini.base())
    assert list(table.columns) == ["subject_id", "icustay_id", "hour", *mimic3.FEATURES, "action"]
    for number in (mini.OLD, mini.NEW):
        assert stay(table, number, "hour") == list(range(6))
    assert stay(table, mini.OLD, "MAP") == [70.0] * 6
    assert stay(table, mini.NEW, "MAP") == [75.0] * 6
    assert table["action"].sum() == 0


def test_names_of_columns_and_files_match_in_any_case_packed_or_not(tmp_path: Path) -> None:
    lower = built(tmp_path / "a", mini.base())
    upper = mimic3.build(mini.write(tmp_path / "b", mini.base(), header=str.upper, packed=False)).table
    pd.testing.assert_frame_equal(lower, upper)


def test_values_are_carried_forward_within_a_stay_and_never_back(tmp_path: Path) -> None:
    rows = mini.base()
    rows["CHARTEVENTS"] = [r for r in rows["CHARTEVENTS"] if r["itemid"] != 52]
    rows["CHARTEVENTS"] += [mini.chart(52, 2.0, 60, "mmHg"), mini.chart(456, 4.5, 90, "mmHg")]
    table = built(tmp_path, rows)
    assert stay(table, mini.OLD, "hour") == [2, 3, 4, 5]
    assert stay(table, mini.OLD, "MAP") == [60.0, 60.0, 90.0, 90.0]
    assert stay(table, mini.NEW, "MAP") == [75.0] * 6


def test_a_stay_that_lacks_a_feature_is_not_in_the_cohort(tmp_path: Path) -> None:
    rows = mini.base()
    rows["LABEVENTS"] = mini.laboratory(mini.NEW, 0.1)
    assert set(built(tmp_path, rows)["icustay_id"]) == {mini.NEW}


def test_hourly_values_are_means_and_urine_is_a_sum(tmp_path: Path) -> None:
    rows = mini.base()
    rows["CHARTEVENTS"] += [mini.chart(52, 3.2, 60, "mmHg"), mini.chart(456, 3.8, 80, "mmHg")]
    rows["OUTPUTEVENTS"] += [mini.urine(40055, 3.2, 30), mini.urine(40069, 3.8, 45)]
    table = built(tmp_path, rows)
    assert stay(table, mini.OLD, "MAP")[3] == 70.0
    assert stay(table, mini.OLD, "urine") == [50, 50, 50, 75, 75, 75]


def test_units_are_checked_and_pounds_become_kilograms(tmp_path: Path) -> None:
    rows = mini.base()
    rows["LABEVENTS"].append(mini.lab(50912, 2.0, 3.0, "umol/L"))
    rows["LABEVENTS"].append(mini.lab(50912, 4.0, 3.0, "MG/DL"))
    cohort = mimic3.build(mini.write(tmp_path, rows))
    assert stay(cohort.table, mini.OLD, "creatinine") == [1.5] * 4 + [3.0] * 2
    assert stay(cohort.table, mini.NEW, "weight")[0] == pytest.approx(45.359237)
    creatinine = cohort.records.set_index("itemid").loc[50912]
    assert (creatinine["read"], creatinine["other_unit"], creatinine["used"]) == (4, 1, 3)


def test_values_that_cannot_be_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = mini.base()
    rows["CHARTEVENTS"] += [
        mini.chart(52, 1.0, 0, "mmHg"),
        mini.chart(52, 2.0, 326, "mmHg"),
        mini.chart(52, 3.0, 90, "mmHg", error=1),
        mini.chart(52, 4.0, "", "mmHg"),
        mini.chart(52, 9.0, 90, "mmHg"),
    ]
    cohort = mimic3.build(mini.write(tmp_path, rows))
    assert stay(cohort.table, mini.OLD, "MAP") == [70.0] * 6
    counts = cohort.records.set_index("itemid").loc[52].drop("feature").to_dict()
    assert counts == {
        "read": 6,
        "marked_wrong": 1,
        "no_number": 1,
        "other_unit": 0,
        "out_of_range": 2,
        "outside_of_stay": 1,
        "used": 1,
    }


def test_what_was_given_is_counted_too_and_fluids_only_by_volume(tmp_path: Path) -> None:
    rows = mini.base()
    rows["INPUTEVENTS_CV"] = [
        mini.given(30018, 1.0, 500),
        mini.given(30018, 2.0, 500, "mg"),
        mini.given(30018, 3.0, ""),
        mini.given(30018, 9.0, 500),
        mini.given(30047, 4.0, "", "", rate=0.1),
    ]
    rows["INPUTEVENTS_MV"] = [
        mini.infused(225158, 1.0, 2.0, 400),
        mini.infused(225158, 3.0, 4.0, 400, statusdescription="Rewritten"),
        mini.infused(225158, 5.0, 4.0, 400),
    ]
    cohort = mimic3.build(mini.write(tmp_path, rows))
    assert stay(cohort.table, mini.OLD, "action") == [0, 1, 0, 0, 1, 0]
    assert stay(cohort.table, mini.NEW, "action") == [0, 1, 0, 0, 0, 0]
    counts = cohort.records.set_index("itemid").drop(columns="feature")
    reasons = ["read", "marked_wrong", "no_number", "other_unit", "out_of_range", "outside_of_stay", "used"]
    assert counts.loc[30018, reasons].tolist() == [4, 0, 1, 1, 0, 1, 1]
    assert counts.loc[30047, reasons].tolist() == [1, 0, 0, 0, 0, 0, 1]
    assert counts.loc[225158, reasons].tolist() == [3, 1, 0, 0, 1, 0, 1]


def test_laboratory_values_of_the_day_before_are_known_on_arrival(tmp_path: Path) -> None:
    rows = mini.base()
    rows["LABEVENTS"] = mini.laboratory(mini.OLD, -20.0) + mini.laboratory(mini.NEW, -30.0)
    rows["LABEVENTS"].append(mini.lab(50912, -2.0, 4.0, "mg/dL"))
    table = built(tmp_path, rows)
    assert set(table["icustay_id"]) == {mini.OLD}
    assert stay(table, mini.OLD, "creatinine") == [4.0] * 6


def test_a_record_that_is_known_in_two_stays_counts_once(tmp_path: Path) -> None:
    rows = mini.base()
    again = 103
    rows["ICUSTAYS"].append(
        {"subject_id": 1, "icustay_id": again, "intime": mini.at(20), "outtime": mini.at(22)}
    )
    rows["CHARTEVENTS"] += [mini.chart(52, 20.1, 65, "mmHg"), mini.chart(763, 20.1, 80, "kg")]
    rows["OUTPUTEVENTS"].append(mini.urine(40055, 20.1, 50))
    for record in (*rows["CHARTEVENTS"][-2:], rows["OUTPUTEVENTS"][-1]):
        record["icustay_id"] = again
    # One between the stays, one in the second, one of the wrong unit in the first.
    rows["LABEVENTS"] += [mini.lab(50912, hour, 2.5, "mg/dL") for hour in (10.0, 21.0)]
    rows["LABEVENTS"].append(mini.lab(50912, 3.0, 2.5, "umol/L"))
    cohort = mimic3.build(mini.write(tmp_path, rows))
    # The first stay's laboratory values, and that of the time between, are known on arrival at the second.
    assert stay(cohort.table, again, "creatinine") == [2.5, 2.5]
    assert stay(cohort.table, again, "lactate") == [2.0, 2.0]
    counts = cohort.records.set_index("itemid").loc[50912]
    assert (counts["read"], counts["used"], counts["other_unit"]) == (5, 4, 1)


def test_ages_are_exact_up_to_89_and_one_number_above(tmp_path: Path) -> None:
    table = built(tmp_path, mini.base())
    assert stay(table, mini.OLD, "age")[0] == pytest.approx(50.0, abs=0.05)
    assert stay(table, mini.NEW, "age")[0] == OLDEST


def test_children_are_not_in_the_cohort(tmp_path: Path) -> None:
    rows = mini.base()
    rows["PATIENTS"][0]["dob"] = "2140-01-01 00:00:00"
    assert set(built(tmp_path, rows)["icustay_id"]) == {mini.NEW}


def test_a_vasopressor_is_an_action_in_every_hour_it_runs(tmp_path: Path) -> None:
    rows = mini.base()
    rows["INPUTEVENTS_MV"] = [
        mini.infused(221906, 1.5, 3.0, 2.0, "mg"),
        mini.infused(221906, 4.5, 5.5, 2.0, "mg", statusdescription="Rewritten"),
    ]
    rows["INPUTEVENTS_CV"] = [
        mini.given(30120, 2.0, "", "", rate=0.1),
        mini.given(30120, 4.0, "", "", rate=0.0),
    ]
    table = built(tmp_path, rows)
    assert stay(table, mini.NEW, "action") == [0, 1, 1, 0, 0, 0]
    assert stay(table, mini.OLD, "action") == [0, 0, 1, 0, 0, 0]


def test_fluids_are_an_action_from_250_ml_within_the_hour(tmp_path: Path) -> None:
    rows = mini.base()
    rows["INPUTEVENTS_CV"] = [
        mini.given(30018, 1.1, 200),
        mini.given(30018, 2.1, 200),
        mini.given(30021, 2.5, 60),
        mini.given(30025, 3.5, 5000, "U"),  # heparin, in units
    ]
    rows["INPUTEVENTS_MV"] = [
        mini.infused(225158, 0.0, 1.0, 250.0),
        mini.infused(225158, 2.0, 6.0, 960.0),  # 240 ml an hour
        mini.infused(225828, 4.0, 5.0, 10.0),
    ]
    table = built(tmp_path, rows)
    assert stay(table, mini.OLD, "action") == [0, 0, 1, 0, 0, 0]
    assert stay(table, mini.NEW, "action") == [1, 0, 0, 0, 1, 0]


def test_an_item_that_means_something_else_is_refused(tmp_path: Path) -> None:
    rows = mini.base()
    rows["D_ITEMS"][0]["label"] = "Heart Rate"
    with pytest.raises(FileError, match=r"Item 52 is 'Heart Rate' in D_ITEMS"):
        built(tmp_path, rows)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    folder = mini.write(tmp_path, mini.base())
    (folder / "LABEVENTS.csv.gz").unlink()
    with pytest.raises(FileError, match=r"no LABEVENTS\.csv"):
        mimic3.build(folder)


def test_a_file_of_another_kind_is_an_error_in_words(tmp_path: Path) -> None:
    folder = mini.write(tmp_path, mini.base(), packed=False)
    (folder / "icustays.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match="not read as MIMIC-III's"):
        mimic3.build(folder)


def test_too_little_memory_is_an_error_that_says_so(tmp_path: Path) -> None:
    folder = mini.write(tmp_path, mini.base())
    with pytest.raises(OCBNNError, match=r"1MB of memory are not enough.*memory=…"):
        mimic3.build(folder, memory="1MB")


def test_every_listed_item_has_a_label_a_unit_and_a_range() -> None:
    lists = catalogue()
    assert set(lists.features) == set(mimic3.FEATURES) - {"age"}
    for feature in lists.features.values():
        assert feature.range[0] < feature.range[1]
        assert all(item.label and item.units for item in feature.items)
    numbers = [item.id for feature in lists.features.values() for item in feature.items]
    assert len(numbers) == len(set(numbers))


def test_facts_of_the_open_demo() -> None:
    cohort = mimic3.build(folder_of("mimic3_demo"))
    table = cohort.table
    assert (len(table), table["icustay_id"].nunique(), table["subject_id"].nunique()) == (10_315, 93, 68)
    assert 0.2 < table["action"].mean() < 0.3
    assert table["creatinine"].max() < 30  # one of 138 is an error in the source
    assert not table.isna().any().any()
    assert np.all(np.diff(table.groupby("icustay_id")["hour"].apply(list).iloc[0]) == 1)
    systems = cohort.records.groupby(cohort.records["itemid"] > 200_000)["used"].sum()
    assert systems.min() > 1000


def test_the_open_demo_is_compared_with_its_checksums(tmp_path: Path) -> None:
    """All nine tables are the published ones; a table that lost its last rows is not used."""
    real = folder_of("mimic3_demo")
    assert mimic3.folder(real.parent) == real
    copy = tmp_path / "mimic3_demo"
    copy.mkdir()
    for file in real.glob("*.gz"):
        (copy / file.name).symlink_to(file)
    rows = gzip.decompress((real / "PATIENTS.csv.gz").read_bytes()).splitlines(keepends=True)
    (copy / "PATIENTS.csv.gz").unlink()
    (copy / "PATIENTS.csv.gz").write_bytes(gzip.compress(b"".join(rows[:-3])))
    with pytest.raises(FileError, match=r"PATIENTS\.csv\.gz: .*or not all of it.*physionet"):
        mimic3.table(tmp_path)


def test_a_packed_table_that_ends_early_is_an_error_in_words(tmp_path: Path) -> None:
    folder = mini.write(tmp_path, mini.base())
    packed = folder / "CHARTEVENTS.csv.gz"
    packed.write_bytes(packed.read_bytes()[:-6])
    with pytest.raises(FileError, match="not read as MIMIC-III's"):
        mimic3.build(folder)
