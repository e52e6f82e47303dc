"""An invented clinic: 2,500 patients, whether they were given fluids or vasopressors, and rules about that.

Made for showing the library. The numbers have plausible sizes and dependencies, and nothing more: no patient
is behind them, and the rules are no medical advice. Two things are in it on purpose:

- Nobody is colder than 34 °C, and the data alone point the wrong way there: fever goes with infection, so the
  colder a patient, the rarer the action. One rule is about that region.
- The surgical ward treats half of its patients out of habit. One rule says not to treat stable ones.
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
ROWS = 2_500
SEED = 2020
HABIT = 0.5
"""The share of its patients that the surgical ward treats whatever their state."""

COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "creatinine": {"unit": "mg/dL", "bounds": (0.1, None), "transform": "log"},
    "BUN": {"unit": "mg/dL", "bounds": (1, None), "transform": "log"},
    "urine": {"unit": "mL/h", "bounds": (0, None), "transform": "log"},
    "lactate": {"unit": "mmol/L", "bounds": (0.1, None), "transform": "log"},
    "MAP": {"unit": "mmHg", "bounds": (30, None)},
    "temperature": {"unit": "°C", "bounds": (28, 43)},
    "age": {"unit": "years", "bounds": (18, 120)},
}
"""What the clinic declares about its columns, for `Schema.infer(table(), target=TARGET, columns=COLUMNS)`."""


def rules_path() -> AbstractContextManager[Path]:
    """The rules: the YAML file shipped with the package, as a path for as long as the context is open."""
    return as_file(files("ocbnn.datasets") / "clinic_rules.yaml")


def table(rows: int = ROWS, seed: int = SEED) -> pd.DataFrame:
    """The patients: the same ones for the same seed.

    Three hidden states, z_k of the kidney, z_c of the circulation and z_i of an infection, are standard
    normal and move the measurements together (ε are standard normal, one for each column):

        creatinine  = exp(0.15 + 0.5 z_k + 0.2 ε)       BUN     = exp(3.1 + 0.5 z_k + 0.3 ε)
        urine       = exp(3.9 − 0.7 z_k + 0.5 ε)        lactate = exp(0.6 + 0.5 z_c + 0.2 ε)
        temperature = 37.2 + 0.7 z_i + 0.3 ε            MAP     = 76 − 9 z_c + 4 ε
        age ~ N(63, 15²), from 18 to 97                 ward, prior_sepsis: by chance

    Less than 8 mL/h of urine are recorded as 0, and nobody is colder than 34.5 °C.
    P(action = 1) = logistic(−1.5 + 3 max(z_k, z_c) + 0.6 z_i); in the surgical ward half of the patients are
    treated whatever their state.
    """
    generator = np.random.default_rng(seed)
    kidney, circulation, infection = generator.normal(size=(3, rows))
    noise = generator.normal(size=(6, rows))
    urine = np.exp(3.9 - 0.7 * kidney + 0.5 * noise[2])
    ward = generator.choice(["ICU", "emergency", "medical", "surgical"], rows, p=[0.35, 0.2, 0.25, 0.2])
    urgency = -1.5 + 3.0 * np.maximum(kidney, circulation) + 0.6 * infection
    needed = generator.logistic(size=rows) < urgency
    habit = (ward == "surgical") & (generator.random(rows) < HABIT)
    return pd.DataFrame(
        {
            "creatinine": np.round(np.exp(0.15 + 0.5 * kidney + 0.2 * noise[0]), 2),
            "BUN": np.round(np.exp(3.1 + 0.5 * kidney + 0.3 * noise[1]), 1),
            "urine": np.where(urine < 8, 0.0, np.round(urine, 0)),
            "lactate": np.round(np.exp(0.6 + 0.5 * circulation + 0.2 * noise[3]), 1),
            "MAP": np.round(76 - 9 * circulation + 4 * noise[4], 1),
            "temperature": np.round(np.maximum(37.2 + 0.7 * infection + 0.3 * noise[5], 34.5), 1),
            "age": np.clip(np.round(generator.normal(63, 15, rows)), 18, 97).astype(np.int64),
            "ward": ward,
            "prior_sepsis": generator.binomial(1, 0.15, rows),
            TARGET: (needed | habit).astype(np.int64),
        }
    )
