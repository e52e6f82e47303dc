"""What is wrong with a set of rules before anything is fitted.

- `findings.py`: `Finding`, what lint has to say, and how it speaks.
- `geometry.py`: regions as convex cells; exact questions by (mixed-integer) linear programming.
- `subjects.py`: a rule prepared: its cells, its ranges, points to try, and what it asks there.
- `agreement.py`: whether rules leave an output in common, by ranges or at points.
- `single.py`: checks of one rule; `comparisons.py`: checks of rules against each other.
- `relations.py`: checks of rules that compare outputs at several inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ocbnn.linting.comparisons import contradictions, implied, repeated, twins
from ocbnn.linting.findings import KINDS, SEVERITIES, Finding, Kind, Severity, by_gravity, worst_severity
from ocbnn.linting.geometry import Space
from ocbnn.linting.relations import findings_between, pair_conflicts
from ocbnn.linting.single import data_conflicts, findings_about, read_rows
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
    space = Space(schema)
    rows = None if data is None else read_rows(data, schema)
    seen = None if rows is None else rows.coded[schema.complete(rows.coded)]
    every = [prepare(rule, space, seen) for rule in rules]
    groups = twins(every)
    findings = [repeated(group) for group in groups if len(group) > 1]
    sound, relations = [], []
    for subject, *_ in groups:
        alone = list(findings_about(subject, space, rows))
        findings += alone
        if not subject.rule.requirement.is_pointwise:
            relations.append(subject)
            if rows is not None:
                findings += pair_conflicts(subject, rows, schema)
            continue
        if subject.cells and not any(finding.kind == "empty-output" for finding in alone):
            sound.append(subject)
        if rows is not None:
            findings += data_conflicts(subject, rows, schema)
    findings += contradictions(sound, space)
    findings += implied(sound, space)
    findings += findings_between(relations, sound, schema, rows)
    return by_gravity(findings)
