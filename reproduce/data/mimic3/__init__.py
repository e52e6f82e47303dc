"""MIMIC-III: hours of intensive care, and whether fluids or vasopressors were given in them.

    frame = mimic3.table("path/to/mimic-iii")      # the full, credentialed data set
    frame = mimic3.table()                         # $OCBNN_DATA, or the open demo of 100 patients

- `items.yaml`: which records are which feature, with labels, units and sane ranges.
- `cohort.py`, `queries.py`: from files to one row for each hour of a stay.
- `demo.yaml`: the open demo's files and their checksums.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ocbnn import FileError
from reproduce.data.mimic3.cohort import FEATURES, Cohort, build
from reproduce.data.sources import Anywhere, Source, data_folder, downloaded, locate

__all__ = ["COLUMNS", "FEATURES", "PATIENT", "TARGET", "Cohort", "build", "folder", "table"]

TARGET = "action"
PATIENT = "subject_id"
FULL, DEMO = "mimic3", "mimic3_demo"
"""Names of the folder in `$OCBNN_DATA`; the full data set is preferred."""

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
    """The folder with MIMIC-III's files: the one given, one of `$OCBNN_DATA`, or the downloaded demo.

    The demo's files are compared with their checksums. Those of the full data set are not known here.

    Raises:
        FileError: there is no such folder, or a file of the demo is missing, damaged or another one.
    """
    given = data_folder() if path is None else Path(path)
    if given is not None and not given.is_dir():
        raise FileError(f"{given} is not a folder; give the one with MIMIC-III's CSV files.")
    found = [] if given is None else [given / name for name in (FULL, DEMO) if (given / name).is_dir()]
    if not found and path is not None:
        found = [Path(path)]
    if not found:
        return [downloaded(source).parent for source in demo_sources()][-1]
    if found[0].name == DEMO:
        for source in demo_sources():
            locate(source, found[0])
    return found[0]


def demo_sources() -> tuple[Source, ...]:
    """The demo's files."""
    listed = yaml.safe_load((Path(__file__).parent / "demo.yaml").read_text(encoding="utf-8"))
    return tuple(
        Source(
            folder=DEMO,
            file=f"{name}.csv",
            url=f"{listed['url']}/{name}.csv",
            sha256=each["sha256"],
            columns=tuple(each["columns"]),
            remedy=listed["remedy"],
        )
        for name, each in listed["tables"].items()
    )
