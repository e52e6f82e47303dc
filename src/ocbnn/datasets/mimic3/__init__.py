"""MIMIC-III: hours of intensive care, and whether fluids or vasopressors were given in them.

    frame = mimic3.table("path/to/mimic-iii")      # the full, credentialed data set
    frame = mimic3.table()                         # $OCBNN_DATA, or the open demo of 100 patients

- `items.yaml`, `items.py`: which records are which feature, with labels, units and sane ranges.
- `queries.py`, `cohort.py`: from files to one row for each hour of a stay.
- `demo.py`: the open demo's files and their checksums.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ocbnn.datasets.mimic3 import demo
from ocbnn.datasets.mimic3.cohort import Cohort, build
from ocbnn.datasets.sources import Anywhere, data_folder
from ocbnn.errors import FileError

__all__ = ["COLUMNS", "FEATURES", "PATIENT", "TARGET", "Cohort", "build", "folder", "table"]

TARGET = "action"
PATIENT = "subject_id"
FEATURES = ("MAP", "age", "urine", "weight", "creatinine", "lactate", "bicarbonate", "BUN")
FOLDERS = ("mimic3", "mimic3_demo")
"""Names of the folder in `$OCBNN_DATA`, the full data set first."""

COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "MAP": {"unit": "mmHg", "bounds": (20, 200)},
    "age": {"unit": "years", "bounds": (18, 92)},
    "urine": {"unit": "mL/h", "bounds": (0, None), "transform": "log", "offset": 5.0},
    "weight": {"unit": "kg", "bounds": (25, 350)},
    "creatinine": {"unit": "mg/dL", "bounds": (0.1, 30), "transform": "log"},
    "lactate": {"unit": "mmol/L", "bounds": (0.1, 40), "transform": "log"},
    "bicarbonate": {"unit": "mEq/L", "bounds": (2, 60)},
    "BUN": {"unit": "mg/dL", "bounds": (1, 300), "transform": "log"},
}
"""What is declared about the features, for `Schema.infer` and estimators: the paper's transforms."""


def table(path: Anywhere | None = None) -> pd.DataFrame:
    """The features and the target of every hour, with `subject_id`, `icustay_id` and `hour` before them."""
    return build(folder(path)).table


def folder(path: Anywhere | None = None) -> Path:
    """The folder with MIMIC-III's files: the one given, one of `$OCBNN_DATA`, or the downloaded demo."""
    if path is not None:
        given = Path(path)
        if not given.is_dir():
            raise FileError(f"{given} is not a folder; give the one with MIMIC-III's CSV files.")
        return next((given / name for name in FOLDERS if (given / name).is_dir()), given)
    data = data_folder()
    found = [data / name for name in FOLDERS if (data / name).is_dir()] if data is not None else []
    return found[0] if found else demo.downloaded_folder()
