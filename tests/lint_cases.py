"""Helpers for the tests of lint: schemas without data, and rules from text."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ocbnn.linting import Finding, lint
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Column, Schema, Target

LINE = Schema(
    (Column("x", "continuous", (-3.0, 3.0)), Column("z", "continuous", (-3.0, 3.0))),
    Target("y", "regression", center=0.0, scale=1.0, observed=(-3.0, 3.0)),
)
COLOURS = Schema(
    LINE.columns,
    Target("label", "classification", classes=("blue", "green", "red")),
)
CLINIC = Schema(
    (
        Column("age", "integer", (18.0, 90.0), bounds=(0.0, 120.0)),
        Column("lactate", "continuous", (0.5, 8.0), bounds=(0.0, np.inf)),
        Column("creatinine", "continuous", (0.4, 4.0), bounds=(0.0, 30.0)),
        Column("urine", "continuous", (0.0, 200.0), bounds=(0.0, np.inf)),
        Column("visits", "integer", (0.0, 12.0), bounds=(0.0, np.inf)),
        Column("ventilated", "binary", (0.0, 1.0)),
        Column("ward", "category", (0.0, 2.0), levels=("ICU", "medicine", "surgery")),
        Column("sex", "category", (0.0, 1.0), levels=("female", "male")),
    ),
    Target("action", "classification", classes=(0, 1)),
)


def rules_of(texts: tuple[str, ...], schema: Schema) -> tuple[Constraint, ...]:
    return tuple(parse_rule(text, schema) for text in texts)


def linted(*texts: str, schema: Schema = LINE, data: pd.DataFrame | None = None) -> tuple[Finding, ...]:
    return lint(rules_of(texts, schema), schema, data)


def kinds(*texts: str, schema: Schema = LINE, data: pd.DataFrame | None = None) -> list[tuple[str, str]]:
    """(kind, severity) of each finding."""
    return [(finding.kind, finding.severity) for finding in linted(*texts, schema=schema, data=data)]


def row_of(witness: object, schema: Schema) -> np.ndarray:
    """A witness as a coded row, through the schema's own reading of raw tables."""
    assert isinstance(witness, dict)
    return schema.encode(pd.DataFrame([witness]))


def applies(finding: Finding, texts: tuple[str, ...], schema: Schema) -> bool:
    """Whether the finding's witness lies in the regions of all these rules."""
    row = row_of(finding.witness, schema)
    return all(bool(rule.region.contains(row, schema)[0]) for rule in rules_of(texts, schema))
