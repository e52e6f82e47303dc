"""What is wrong with a set of rules before anything is fitted.

- `findings.py`: `Finding`, what lint has to say, and how it speaks.
- `geometry.py`: regions as convex cells; exact questions by (mixed-integer) linear programming.
- `subjects.py`: a rule prepared: its cells, its ranges, points to try, and what it asks there.
- `agreement.py`: whether rules leave an output in common, by ranges or at points.
- `single.py`, `contradictions.py`, `redundancy.py`, `conflicts.py`: the checks.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ocbnn.linting.conflicts import data_conflicts, read_rows
from ocbnn.linting.contradictions import contradictions
from ocbnn.linting.findings import KINDS, SEVERITIES, Finding, Kind, Severity, by_gravity, worst_severity
from ocbnn.linting.geometry import Space
from ocbnn.linting.redundancy import implied, repeated, twins
from ocbnn.linting.single import findings_about
from ocbnn.linting.subjects import prepare
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Schema

__all__ = ["KINDS", "SEVERITIES", "Finding", "Kind", "Severity", "lint", "worst_severity"]


def lint(
    rules: Sequence[Constraint], schema: Schema, data: pd.DataFrame | None = None
) -> tuple[Finding, ...]:
    """Everything that is wrong with a set of rules, gravest first; nothing is random.

    Args:
        rules: the constraints, in the order of their file.
        schema: the table they speak of.
        data: rows to hold them against, with the target.

    Raises:
        SchemaError: the data do not fit the schema: a column or the target is missing, a value is not known.
    """
    space = Space.of(schema)
    rows = None if data is None else read_rows(data, schema)
    coded, labels = (None, ()) if rows is None else (rows.coded, rows.labels)
    every = [prepare(rule, schema, space, coded) for rule in rules]
    groups = twins(every)
    findings = list(repeated(every, groups))
    sound = []
    for group in groups:
        subject = every[group.first]
        alone = list(findings_about(subject, schema, space, coded, labels))
        findings += alone
        if not subject.is_pointwise:
            continue
        if subject.cells and not any(finding.kind == "empty-output" for finding in alone):
            sound.append(subject)
        if rows is not None:
            findings += data_conflicts(subject, rows, schema)
    findings += contradictions(sound, schema, space)
    findings += implied(sound, schema, space)
    return by_gravity(findings)
