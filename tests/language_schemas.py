"""Small schemas that the tests of the language share."""

from __future__ import annotations

import numpy as np

from ocbnn.schema import Column, Schema, Target


def number(name: str, low: float = -3.0, high: float = 3.0) -> Column:
    return Column(name, "continuous", (low, high))


LINE = Schema((number("x"),), Target("y", "regression", center=1.0, scale=2.0))
"""One input x, one number y."""

COLOURS = Schema(
    (
        number("x1"),
        number("x2"),
        number("skill", 0.0, 1.0),
        Column("ward", "category", (0.0, 2.0), levels=("ICU", "surgery", "long stay")),
        Column("smoker", "binary", (0.0, 1.0)),
        Column("visits", "integer", (0.0, 9.0)),
        number("red"),
        number("odd `name`"),
    ),
    Target("label", "classification", classes=("blue", "green", "red")),
)
"""Every kind of column, and three classes, one of which is also a column's name."""

CLINIC = Schema(
    tuple(
        number(name, 0.0, 50.0)
        for name in ("creatinine", "BUN", "urine", "lactate", "age", "RevolvingUtilizationOfUnsecuredLines")
    ),
    Target("action", "classification", classes=(0, 1)),
)

DOSES = Schema(
    (
        Column("dose", "continuous", (0.0, 10.0), unit="mg"),
        number("age", 0.0, 90.0),
        number("per"),
        number("with"),
        number("mean"),
        number("rises"),
        Column("drug", "category", (0.0, 2.0), levels=("a", "b", "c")),
        Column("site", "category", (0.0, 0.0), levels=("one",)),
        Column("smoker", "binary", (0.0, 1.0)),
        Column("visits", "integer", (0.0, 9.0)),
        Column("humidity", "continuous", (0.0, 100.0), unit="%"),
        Column("lactate", "continuous", (0.0, 20.0), unit="mmol/L"),
    ),
    Target("pressure", "regression", center=100.0, scale=20.0, unit="mmHg"),
)
"""Columns with units, and columns whose names are words of the language."""

CREDIT = Schema(CLINIC.columns, Target("SeriousDlqin2yrs", "classification", classes=(0, 1)))

HIRING = Schema((number("skill", 0.0, 1.0),), Target("hired", "classification", classes=(0, 1)))


def coded(schema: Schema, **values: object) -> np.ndarray:
    """Coded points: the named columns as given, the others 0."""
    arrays = {name: np.atleast_1d(np.asarray(value, dtype=float)) for name, value in values.items()}
    points = max(map(len, arrays.values()), default=1)
    return np.column_stack([np.broadcast_to(arrays.get(name, np.zeros(1)), points) for name in schema.names])
