"""What can be wrong with one rule: where it applies, what it allows there, what rows say against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest, kstest, norm

from ocbnn.errors import RuleError, SchemaError
from ocbnn.language.expressions import Or, Probability, name_text, number_text
from ocbnn.language.expressions import text as written
from ocbnn.linting.comparisons import find_clash
from ocbnn.linting.findings import SHOWN_ROWS, Finding, Severity, at_input, quoted, raw_input
from ocbnn.linting.geometry import Bools, Cell, Floats, Space, bounded, is_empty, simplest
from ocbnn.linting.subjects import TRIED, Subject, View, cells_of, stated_events, view
from ocbnn.regions import Region, region_of
from ocbnn.rules.requirement import Normals
from ocbnn.schema import Schema

FEWEST_ROWS = 30
"""Frequencies are compared with a rule's probabilities from this many rows on."""
CONFIDENCE = 0.99


@dataclass(frozen=True, eq=False)
class Observed:
    """The data as lint needs them: coded inputs, targets (raw y, or class indices), index labels."""

    coded: Floats
    targets: Floats
    labels: tuple[object, ...]

    def first(self, indices: NDArray[np.intp]) -> tuple[object, ...]:
        """The labels of the first few of these rows."""
        return tuple(self.labels[index] for index in indices[:SHOWN_ROWS])


def read_rows(data: pd.DataFrame, schema: Schema) -> Observed:
    """The rows of a table that also has the target.

    Raises:
        SchemaError: a column or the target is missing, or holds what the schema does not know.
    """
    target = schema.target
    if target is None:
        raise SchemaError(
            "The schema has no target, so rows cannot be checked against rules. "
            "Infer it with `Schema.infer(frame, target=…)`, or lint without data."
        )
    coded = schema.encode(data)
    if target.name not in data.columns:
        raise SchemaError(
            f"The data has no column {target.name!r}, the target that rules are about. "
            "Pass a table that has it, or lint without data."
        )
    values = target.to_model(data[target.name])
    raw = values if target.task == "classification" else target.to_raw(values)
    return Observed(coded, np.asarray(raw, dtype=float), tuple(data.index))


# Where a rule applies ---------------------------------------------------------------------------------------


def findings_about(subject: Subject, space: Space, rows: Observed | None) -> Iterator[Finding]:
    """All findings about where this rule applies and what it allows there."""
    parts = _alternatives(subject, space)
    filled = [part for part in parts if not all(is_empty(cell, space) for cell in part.cells)]
    if not filled:
        yield _empty_region(subject, space)
        return
    for part in parts:
        if part not in filled:
            yield subject.finding(
                "empty-region",
                "warning",
                f"One alternative of the condition applies nowhere: no input meets {quoted(part.words)}. "
                "Correct its thresholds, or leave it out.",
            )
    if not subject.cells:
        yield subject.finding(
            "out-of-bounds",
            "error",
            "The rule applies only to inputs that are declared impossible: "
            f"{_bounds_text(subject.rule.region, space.schema)}. "
            "Correct the thresholds (their unit, perhaps), or declare wider bounds.",
        )
        return
    for part in filled:
        yield from _partly_outside(subject, part, space)
    if not len(subject.points):
        yield _not_found(subject)
        return
    yield from _unobserved(subject, space, rows)
    if subject.rule.requirement.is_pointwise:
        yield from _empty_output(subject, space)


@dataclass(frozen=True, eq=False)
class Alternative:
    """One alternative of a condition with `or`, in words, or the whole of another."""

    words: str
    region: Region
    cells: tuple[Cell, ...]


def _alternatives(subject: Subject, space: Space) -> list[Alternative]:
    """As the rule wrote them where it did: a region leaves out alternatives that are plainly empty."""
    condition, schema = subject.rule.condition, space.schema
    if not isinstance(condition, Or):
        parts = subject.rule.region.components()
        return [Alternative(part.text(), part, cells_of(part, space)) for part in parts]
    target = schema.target.name if schema.target is not None else "y"
    found = []
    for item in condition.items:
        region = region_of(item, schema)
        cells = tuple(cell for part in region.components() for cell in cells_of(part, space))
        found.append(Alternative(written(item, target, schema.names), region, cells))
    return found


def _empty_region(subject: Subject, space: Space) -> Finding:
    region = subject.rule.region
    whole = [
        name_text(column.name)
        for column in space.schema.columns
        if column.name in region.columns() and column.kind in ("integer", "binary")
    ]
    note = f" ({', '.join(whole)}: whole numbers only)" if whole else ""
    return subject.finding(
        "empty-region",
        "error",
        f"The rule applies nowhere: no input meets {quoted(region.text())}{note}. "
        "Correct the thresholds, or write “or” where alternatives are meant.",
    )


def _not_found(subject: Subject) -> Finding:
    condition = quoted(subject.rule.region.text())
    if all(cell.exact for cell in subject.cells):
        text = (
            f"No number that a computer stores was found to meet {condition}. "
            "Write a range of some width instead of an equality, and thresholds within reach."
        )
    else:
        text = (
            f"No input that meets {condition} was found among {TRIED} inputs tried "
            "(a search, not a proof). Check the condition, or declare bounds for the columns in it."
        )
    return subject.finding("empty-region", "warning", text)


def _bounds_text(region: Region, schema: Schema) -> str:
    shown = [
        f"{name_text(column.name)} is declared to lie in [{column.bounds[0]:g}, {column.bounds[1]:g}]"
        for column in schema.columns
        if column.name in region.columns() and np.isfinite(column.bounds).any()
    ]
    return " and ".join(shown)


def _partly_outside(subject: Subject, part: Alternative, space: Space) -> Iterator[Finding]:
    bounds = _bounds_text(part.region, space.schema)
    beyond = sorted({name for cell in part.cells for name in _beyond(cell, space)})
    if all(is_empty(bounded(cell, *space.declared, space), space) for cell in part.cells):
        yield subject.finding(
            "out-of-bounds",
            "warning",
            f"One alternative of the condition, {quoted(part.words)}, applies only to inputs that are "
            f"declared impossible: {bounds}. Correct its thresholds, or declare wider bounds.",
        )
    elif beyond:
        yield subject.finding(
            "out-of-bounds",
            "warning",
            f"The condition {quoted(part.words)} has a threshold on {', '.join(map(name_text, beyond))} "
            f"beyond the declared bounds: {bounds}. Only what lies within "
            "them counts; correct the threshold, or declare wider bounds.",
        )


def _beyond(cell: Cell, space: Space) -> list[str]:
    """The columns whose ends in the cell lie beyond the declared bounds."""
    low, high = space.declared
    below = np.isfinite(cell.low) & (cell.low < low) & (cell.low != space.low)
    above = np.isfinite(cell.high) & (cell.high > high) & (cell.high != space.high)
    return [space.schema.names[index] for index in np.flatnonzero(below | above)]


def _unobserved(subject: Subject, space: Space, rows: Observed | None) -> Iterator[Finding]:
    low = np.where(space.integral, np.floor(space.observed_low), space.observed_low)
    high = np.where(space.integral, np.ceil(space.observed_high), space.observed_high)
    if not all(is_empty(bounded(cell, low, high, space), space) for cell in subject.cells):
        return
    region, schema = subject.rule.region, space.schema
    ranges = "; ".join(
        f"{name_text(column.name)} was observed from {column.observed[0]:.6g} to {column.observed[1]:.6g}"
        for column in schema.columns
        if column.name in region.columns() and column.kind != "category"
    )
    count: int | None = None
    known, first = "", tuple[object, ...]()
    if rows is not None:
        inside = np.flatnonzero(region.contains(rows.coded, schema))
        count, first = len(inside), rows.first(inside)
        known = f"; {count} of {len(rows.labels)} rows lie there"
    point = simplest(subject.points[0], space, lambda at: bool(region.contains(at[None], schema)[0]))
    yield subject.finding(
        "unobserved",
        "warning",
        f"The rule applies only beyond what was observed (99 % of the rows: {ranges}{known}). That is legal, "
        "and where rules are needed most; check the unit of the thresholds, and expect the data to say "
        "nothing there.",
        witness=raw_input(subject.points[0] if point is None else point, schema),
        count=count,
        rows=first,
    )


def _empty_output(subject: Subject, space: Space) -> Iterator[Finding]:
    rule, schema = subject.rule, space.schema
    _, defined = view(rule, subject.points, schema)
    if not defined.all():
        point = subject.points[np.argmin(defined)]
        try:
            rule.demand(point[None], schema)
        except RuleError as error:
            text = f"What the rule asks for is not defined: {error.message}"
            yield subject.finding("empty-output", "error", text, witness=raw_input(point, schema))
    clash = find_clash((subject,), space)
    if clash is None:
        return
    here, _ = view(rule, clash.point[None], schema)
    where = at_input(clash.point, schema, [rule])
    severity: Severity = "warning" if clash.thin else "error"
    if here is None or here.is_unlisted:
        severity = "warning"
        text = (
            f"At {where} no output was found that the rule allows (a search over outputs, not a proof). "
            "Check the signs of its functions: outputs are allowed where all are <= 0."
        )
    else:
        target = "y" if schema.target is None else schema.target.name
        text = (
            f"At {where} the rule applies but allows no output: it asks for "
            f"{rule.requirement.text(target, schema.names)}, which here is {here.words(schema)}. "
            "Correct the ends, write “or” where alternatives are meant, or narrow the condition."
        )
    yield subject.finding("empty-output", severity, text, witness=raw_input(clash.point, schema))


# What rows say ----------------------------------------------------------------------------------------------


def data_conflicts(subject: Subject, rows: Observed, schema: Schema) -> Iterator[Finding]:
    """What the data say against a rule that asks something of each input alone."""
    assert schema.target is not None
    inside = np.flatnonzero(subject.rule.applies(rows.coded, schema))
    found, defined = view(subject.rule, rows.coded[inside], schema)
    if found is None:
        return
    inside = inside[defined]
    targets = observed = rows.targets[inside]
    if schema.target.classes:
        yield from _frequencies(subject, found, targets.astype(int), schema)
        # As if the network said exactly what was observed.
        observed = np.eye(len(schema.target.classes))[targets.astype(int)]
    if found.normals is not None:
        yield from _distribution(subject, found.normals, targets)
    wrong = subject.rule.requirement.against(found.demand, observed)
    if wrong is None or not wrong.any():
        return
    broken, total = inside[wrong], len(inside)
    count = len(broken)
    many = f"{count} of the {total} rows" if total != 1 else "The only row"
    verb = "violates" if count == 1 else "violate"
    yield subject.finding(
        "data-conflict",
        "warning",
        f"{many} in the region of {quoted(subject.label)} {verb} it ({100 * count / total:.3g}%). "
        "If the data are wrong, correct them; if the rule should override the data, keep it; "
        "otherwise narrow it or raise its tolerance.",
        witness=raw_input(rows.coded[broken[0]], schema),
        count=count,
        share=count / total,
        rows=rows.first(broken),
    )


def _frequencies(
    subject: Subject, found: View, classes: NDArray[np.int_], schema: Schema
) -> Iterator[Finding]:
    """Frequencies of classes against bounds of their probability, which are not about single rows."""
    assert schema.target is not None
    if len(classes) < FEWEST_ROWS:
        return
    for at_rows, lower, upper in _mean_bounds(found):
        members = at_rows[0]
        if np.any(at_rows != members):  # there is no one frequency of classes that differ between rows
            continue
        hits = int(np.sum(members[classes]))
        interval = binomtest(hits, len(classes)).proportion_ci(CONFIDENCE, method="exact")
        if interval.low <= upper and lower <= interval.high:
            continue
        labels = tuple(label for label, member in zip(schema.target.classes, members, strict=True) if member)
        quantity = written(Probability(labels), schema.target.name, schema.names)
        asked = _shown(lower) if lower == upper else f"{_shown(lower)} to {_shown(upper)}"
        yield subject.finding(
            "data-conflict",
            "warning",
            f"{quoted(subject.label)} asks for {quantity} of {asked} on average over its region, "
            f"but among the {len(classes)} rows there it is {_shown(hits / len(classes))} "
            f"({CONFIDENCE:.0%} interval {_shown(interval.low)} to {_shown(interval.high)}). "
            "If the data are biased and the rule should override them, keep it; "
            "otherwise correct the probability or narrow the condition.",
            count=hits,
            share=hits / len(classes),
        )


def _mean_bounds(found: View) -> Iterator[tuple[Bools, float, float]]:
    """Member classes (m, C), with the least and the most that their mean probability may be over the rows."""
    if found.allowed is not None and found.allowed.shares is not None:
        members, lower, upper = found.allowed.shares
        possible = (lower <= upper).any(axis=1)
        if possible.any():
            least, most = lower[possible].min(axis=1), upper[possible].max(axis=1)
            yield members, float(least.mean()), float(most.mean())
    if found.asked is not None:
        for members, probability in stated_events(found.asked):
            yield members, float(probability.mean()), float(probability.mean())


def _distribution(subject: Subject, asked: Normals, targets: Floats) -> Iterator[Finding]:
    """Rows against `y ~ Normal(…)`: the probability transform of y is uniform where the rule is right."""
    if len(targets) < FEWEST_ROWS:
        return
    transform = np.sum(asked.weight * norm.cdf((targets[:, None] - asked.mean) / asked.sd), axis=1)
    test = kstest(transform, "uniform")
    if test.pvalue >= 1 - CONFIDENCE:
        return
    yield subject.finding(
        "data-conflict",
        "warning",
        f"The {len(targets)} rows in the region of {quoted(subject.label)} are not distributed as it says "
        f"(Kolmogorov–Smirnov p = {test.pvalue:.2g}; {np.mean(transform < 0.5):.0%} lie below its median). "
        "If the rule should override the data, keep it; otherwise correct the distribution.",
        count=len(targets),
    )


def _shown(value: float) -> str:
    return number_text(float(f"{value:.4g}"))
