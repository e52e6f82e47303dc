"""An invented clinic: 400 patients, whether they were given fluids or vasopressors, and six rules about that.

Made for showing the library. The numbers have plausible sizes and dependencies, and nothing more: no patient
is behind them, and the rules are no medical advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

TARGET = "action"
ROWS = 400
SEED = 2020

COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "creatinine": {"unit": "mg/dL", "bounds": (0.2, None), "transform": "log"},
    "BUN": {"unit": "mg/dL", "bounds": (1, None), "transform": "log"},
    "urine": {"unit": "mL/h", "bounds": (0, None), "transform": "log"},
    "lactate": {"unit": "mmol/L", "bounds": (0.2, None), "transform": "log"},
    "bicarbonate": {"unit": "mmol/L", "bounds": (2, None)},
    "MAP": {"unit": "mmHg", "bounds": (30, None)},
    "age": {"unit": "years", "bounds": (18, 120)},
}
"""What the clinic declares about its columns, for `Schema.infer(table(), target=TARGET, columns=COLUMNS)`."""


def rules_path() -> AbstractContextManager[Path]:
    """The rules: the YAML file shipped with the package, as a path for as long as the context is open."""
    return as_file(files("ocbnn.datasets") / "clinic_rules.yaml")


def table(rows: int = ROWS, seed: int = SEED) -> pd.DataFrame:
    """The patients: the same ones for the same seed.

    Two hidden states, of the kidney and of the circulation, move the measurements together; the worse
    either is, the likelier the action.
    """
    generator = np.random.default_rng(seed)
    kidney, circulation = generator.normal(size=(2, rows))
    noise = generator.normal(size=(6, rows))
    urine = np.exp(3.9 - 0.7 * kidney + 0.5 * noise[2])
    urgency = -2.5 + 6 * np.maximum(kidney, circulation)
    return pd.DataFrame(
        {
            "creatinine": np.round(np.exp(0.15 + 0.5 * kidney + 0.2 * noise[0]), 2),
            "BUN": np.round(np.exp(3.1 + 0.5 * kidney + 0.3 * noise[1]), 1),
            "urine": np.where(urine < 8, 0.0, np.round(urine, 0)),
            "lactate": np.round(np.exp(0.6 + 0.5 * circulation + 0.2 * noise[3]), 1),
            "bicarbonate": np.round(23 - 2.0 * circulation - 1.2 * kidney + 1.5 * noise[4], 1),
            "MAP": np.round(76 - 9 * circulation + 4 * noise[5], 1),
            "age": np.clip(np.round(generator.normal(63, 15, rows)), 18, 97).astype(np.int64),
            "ward": generator.choice(
                ["ICU", "emergency", "medical", "surgical"], rows, p=[0.4, 0.2, 0.25, 0.15]
            ),
            "prior_sepsis": generator.binomial(1, 0.15, rows),
            TARGET: (generator.logistic(size=rows) < urgency).astype(np.int64),
        }
    )
