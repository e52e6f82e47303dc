"""Tables and regions that the tests of regions and samplers share."""

from __future__ import annotations

import numpy as np

from ocbnn.regions import Region
from ocbnn.rules import parse_rule
from ocbnn.schema import Column, Schema, Target

TARGET = Target("y", "regression")

MIXED = Schema(
    (
        Column("creatinine", "continuous", (0.4, 4.4), bounds=(0.0, np.inf)),
        Column("lactate", "continuous", (0.0, 8.0)),
        Column("urine", "continuous", (0.0, 200.0), bounds=(0.0, 500.0)),
        Column("age", "integer", (18.0, 90.0), bounds=(0.0, 120.0)),
        Column("visits", "integer", (0.0, 12.0)),
        Column("smoker", "binary", (0.0, 1.0)),
        Column("ward", "category", (0.0, 2.0), levels=("ICU", "surgery", "medical")),
        Column("sex", "category", (0.0, 1.0), levels=("f", "m")),
    ),
    TARGET,
)
"""Eight columns: three continuous, two integer, one binary, two categories."""

SQUARE = Schema((Column("x1", "continuous", (0.0, 1.0)), Column("x2", "continuous", (0.0, 1.0))), TARGET)

ROOMY = {
    "everywhere": "always",
    "box": "creatinine > 2 and age < 35 and ward in {ICU, surgery}",
    "box with points": "urine = 30 and smoker = 1 and sex = f",
    "box beyond what was observed": "lactate > 30 and visits > 40",
    "half-space": "creatinine + lactate < 4",
    "half-space over kinds": "age + 10 * creatinine - 5 * smoker > 60",
    "half-space beyond what was observed": "creatinine + lactate > 20",
    "predicate": "creatinine * lactate > 10 and ward = ICU",
    "predicate beyond what was observed": "creatinine * lactate > 80",
    "union": "creatinine > 3 or lactate > 6 and sex = f",
    "union of kinds": "age < 30 or creatinine + lactate > 9 or sin(lactate) > 0.5",
    "holes": "lactate != 4 and visits != 3 and ward != ICU",
}
THIN = {
    "wedge": "10 < creatinine * 4 + lactate < 10.001",
    "equality": "creatinine = lactate",
    "wedge over kinds": "0 < age - 20 * creatinine < 0.01",
    "union with a wedge": "lactate > 7 or 1 < creatinine - lactate < 1.0001",
}


def region(condition: str, schema: Schema = MIXED) -> Region:
    """The region of a condition as a rule writes it."""
    if condition == "always":
        return parse_rule("always y > 0", schema).region
    return parse_rule(f"if {condition} then y > 0", schema).region


def mixed_rows(n: int = 400) -> np.ndarray:
    """Coded rows in which `lactate` goes with `creatinine`, so that realism can be seen."""
    generator = np.random.default_rng(7)
    creatinine = generator.gamma(3.0, 0.5, n) + 0.2
    return np.column_stack(
        [
            creatinine,
            np.clip(1.5 * creatinine + generator.normal(0, 0.3, n), 0, 8),
            generator.uniform(0, 200, n),
            generator.integers(18, 91, n),
            generator.integers(0, 13, n),
            generator.integers(0, 2, n),
            generator.integers(0, 3, n),
            generator.integers(0, 2, n),
        ]
    ).astype(np.float64)
