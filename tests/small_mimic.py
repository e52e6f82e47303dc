"""A miniature MIMIC-III: every table that the cohort reads, two patients, one in each charting system."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

OLD, NEW = 101, 202  # stays: carevue, metavision
START = pd.Timestamp("2150-01-01 10:30:00")

COLUMNS: dict[str, list[str]] = {
    "PATIENTS": ["row_id", "subject_id", "gender", "dob"],
    "ICUSTAYS": ["row_id", "subject_id", "hadm_id", "icustay_id", "dbsource", "intime", "outtime"],
    "D_ITEMS": ["row_id", "itemid", "label", "dbsource", "linksto"],
    "D_LABITEMS": ["row_id", "itemid", "label"],
    "CHARTEVENTS": [
        "row_id",
        "subject_id",
        "icustay_id",
        "itemid",
        "charttime",
        "value",
        "valuenum",
        "valueuom",
        "error",
    ],
    "OUTPUTEVENTS": [
        "row_id",
        "subject_id",
        "icustay_id",
        "charttime",
        "itemid",
        "value",
        "valueuom",
        "iserror",
    ],
    "LABEVENTS": [
        "row_id",
        "subject_id",
        "hadm_id",
        "itemid",
        "charttime",
        "value",
        "valuenum",
        "valueuom",
        "flag",
    ],
    "INPUTEVENTS_CV": [
        "row_id",
        "subject_id",
        "icustay_id",
        "charttime",
        "itemid",
        "amount",
        "amountuom",
        "rate",
        "rateuom",
    ],
    "INPUTEVENTS_MV": [
        "row_id",
        "subject_id",
        "icustay_id",
        "starttime",
        "endtime",
        "itemid",
        "amount",
        "amountuom",
        "rate",
        "statusdescription",
    ],
}

Rows = dict[str, list[dict[str, Any]]]


def at(hours: float) -> str:
    """A time so many hours after the stays begin."""
    return str((START + pd.Timedelta(hours=hours)).floor("s"))


def chart(item: int, hour: float, number: object, unit: str = "", stay: int = OLD, **more: object) -> dict:
    """A record of CHARTEVENTS."""
    return {
        "subject_id": stay // 101,
        "icustay_id": stay,
        "itemid": item,
        "charttime": at(hour),
        "value": number,
        "valuenum": number,
        "valueuom": unit,
        **more,
    }


def urine(item: int, hour: float, amount: float, stay: int = OLD) -> dict:
    """A record of OUTPUTEVENTS."""
    return {
        "subject_id": stay // 101,
        "icustay_id": stay,
        "itemid": item,
        "charttime": at(hour),
        "value": amount,
        "valueuom": "ml",
    }


def lab(item: int, hour: float, number: float, unit: str, stay: int = OLD) -> dict:
    """A record of LABEVENTS."""
    return {
        "subject_id": stay // 101,
        "itemid": item,
        "charttime": at(hour),
        "valuenum": number,
        "valueuom": unit,
    }


def laboratory(stay: int, hour: float) -> list[dict]:
    """All four laboratory values at once."""
    return [
        lab(50912, hour, 1.5, "mg/dL", stay),
        lab(50813, hour, 2.0, "mmol/L", stay),
        lab(50882, hour, 24.0, "mEq/L", stay),
        lab(51006, hour, 30.0, "mg/dL", stay),
    ]


def given(item: int, hour: float, amount: object, unit: str = "ml", **more: object) -> dict:
    """A record of INPUTEVENTS_CV."""
    return {
        "subject_id": 1,
        "icustay_id": OLD,
        "itemid": item,
        "charttime": at(hour),
        "amount": amount,
        "amountuom": unit,
        **more,
    }


def infused(item: int, start: float, end: float, amount: float, unit: str = "ml", **more: object) -> dict:
    """A record of INPUTEVENTS_MV."""
    return {
        "subject_id": 2,
        "icustay_id": NEW,
        "itemid": item,
        "starttime": at(start),
        "endtime": at(end),
        "amount": amount,
        "amountuom": unit,
        "statusdescription": "FinishedRunning",
        **more,
    }


def base() -> Rows:
    """Six hours of each stay, all features known from the first one on."""
    rows: Rows = {name: [] for name in COLUMNS}
    rows["PATIENTS"] = [
        {"subject_id": 1, "gender": "F", "dob": "2100-01-01 00:00:00"},
        {"subject_id": 2, "gender": "M", "dob": "1850-01-01 00:00:00"},  # older than 89: shifted
    ]
    rows["ICUSTAYS"] = [
        {"subject_id": 1, "icustay_id": OLD, "dbsource": "carevue", "intime": at(0), "outtime": at(6)},
        {"subject_id": 2, "icustay_id": NEW, "dbsource": "metavision", "intime": at(0), "outtime": at(6)},
    ]
    rows["D_ITEMS"] = [{"itemid": 52, "label": "Arterial BP Mean", "linksto": "chartevents"}]
    rows["D_LABITEMS"] = [{"itemid": 50912, "label": "Creatinine"}]
    rows["CHARTEVENTS"] = [
        chart(52, 0.1, 70, "mmHg"),
        chart(763, 0.1, 80, "kg"),
        chart(220052, 0.1, 75, "mmHg", NEW),
        chart(226531, 0.1, 100, "", NEW),
    ]
    rows["OUTPUTEVENTS"] = [urine(40055, 0.1, 50), urine(226559, 0.1, 60, NEW)]
    rows["LABEVENTS"] = [*laboratory(OLD, 0.1), *laboratory(NEW, 0.1)]
    return rows


def write(
    folder: Path,
    rows: Mapping[str, list[dict[str, Any]]],
    *,
    header: Callable[[str], str] = str.lower,
    packed: bool = True,
) -> Path:
    """The tables as CSV files, packed or not, with headers in any case."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in COLUMNS.items():
        frame = pd.DataFrame(rows[name], columns=columns)
        frame["row_id"] = range(1, len(frame) + 1)
        text = frame.rename(columns=header).to_csv(index=False)
        if packed:
            (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / f"{name.lower()}.csv").write_text(text)
    return folder
