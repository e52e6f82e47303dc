"""What lint has to say: one frozen object per finding, a sentence for people in each, and how it speaks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from ocbnn.schema.columns import OTHER

if TYPE_CHECKING:
    from ocbnn.linting.geometry import Floats
    from ocbnn.rules.constraint import Constraint
    from ocbnn.schema import Column, Schema

Kind = Literal[
    "empty-region", "empty-output", "out-of-bounds", "contradiction", "data-conflict", "unobserved", "implied"
]
Severity = Literal["error", "warning", "info"]

KINDS: tuple[Kind, ...] = get_args(Kind)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
SHOWN_ROWS = 10


@dataclass(frozen=True)
class Finding:
    """Something wrong, or worth knowing, about a set of rules before anything is fitted.

    Attributes:
        kind: what sort of finding, one of `KINDS`.
        severity: "error" (a rule cannot be obeyed as written), "warning" (probably not meant), "info".
        rules: the rules concerned, by name, or by canonical text where they have no name.
        text: a sentence for people, with cause and remedy.
        witness: an input in raw units at which the finding can be seen.
        count: how many rows of the data are concerned.
        share: `count` over the rows inside the rule's region.
        rows: the index labels of the first ten rows concerned.
    """

    kind: Kind
    severity: Severity
    rules: tuple[str, ...]
    text: str
    witness: Mapping[str, object] | None = field(default=None, hash=False)
    count: int | None = None
    share: float | None = None
    rows: tuple[object, ...] = field(default=(), hash=False)

    def __str__(self) -> str:
        lines = [f"{self.severity}: {self.kind}: {self.text}"]
        lines += [f"  rule: {rule}" for rule in self.rules]
        if self.witness is not None:
            lines.append("  input: " + shown_input(self.witness))
        if self.count is not None:
            share = "" if self.share is None else f" ({self.share:.3g} of the rows in the region)"
            lines.append(f"  rows: {self.count}{share}")
        if self.rows:
            more = ", …" if self.count is not None and self.count > len(self.rows) else ""
            lines.append("  first: " + ", ".join(str(row) for row in self.rows) + more)
        return "\n".join(lines)


def worst_severity(findings: Iterable[Finding]) -> Severity | None:
    """The gravest severity among the findings; None without findings."""
    present = {finding.severity for finding in findings}
    return next((severity for severity in SEVERITIES if severity in present), None)


def by_gravity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors first, then by kind; among equals the order in which they were found."""
    return tuple(
        sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), KINDS.index(finding.kind)))
    )


# Words ------------------------------------------------------------------------------------------------------


def shown_input(values: Mapping[str, object]) -> str:
    """An input as `x = 1.5, sex = 'female'`."""
    return ", ".join(
        f"{name} = {value:.12g}" if isinstance(value, float) else f"{name} = {value!r}"
        for name, value in values.items()
    )


def at_input(point: Floats, schema: Schema, rules: Iterable[Constraint]) -> str:
    """`x = 1, sex = 'female'`: the columns that rules speak of, or all where they speak of none."""
    wanted = {name for rule in rules for name in rule.region.columns() | rule.requirement.columns()}
    values = raw_input(point, schema)
    return shown_input({name: value for name, value in values.items() if name in wanted} or values)


def raw_input(point: Floats, schema: Schema) -> dict[str, object]:
    """One coded point as a person would write it: labels, whole numbers, numbers; None for no value."""
    return {
        column.name: _plain(value, column)
        for column, value in zip(schema.columns, point.tolist(), strict=True)
    }


def _plain(value: float, column: Column) -> object:
    if math.isnan(value):
        return None
    if column.levels:
        return column.levels[int(value)] if value >= 0 else OTHER
    return value if column.kind == "continuous" else int(value)


def quoted(label: str) -> str:
    """A rule's name or text, set apart from the sentence around it."""
    return f"“{label}”"
