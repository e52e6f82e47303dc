"""What can be wrong with one rule alone: where it applies, and whether it allows anything there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ocbnn.errors import RuleError
from ocbnn.language.expressions import Or, name_text
from ocbnn.language.expressions import text as written
from ocbnn.linting.contradictions import find_clash
from ocbnn.linting.findings import SHOWN_ROWS, Finding, Severity, at_input, quoted, raw_input
from ocbnn.linting.geometry import Cell, Floats, Space, bounded, is_empty, simplest
from ocbnn.linting.subjects import TRIED, Subject, View, cells_of, declared_bounds, view
from ocbnn.regions import Region, region_of
from ocbnn.schema import Schema


def findings_about(
    subject: Subject, schema: Schema, space: Space, rows: Floats | None, labels: tuple[object, ...]
) -> Iterator[Finding]:
    """All findings that concern this rule alone; `rows` are the coded data, `labels` their index."""
    parts = _alternatives(subject, schema, space)
    filled = [part for part in parts if not all(is_empty(cell, space) for cell in part.cells)]
    if not filled:
        yield _empty_region(subject, space, schema)
        return
    yield from _empty_parts(subject, [part for part in parts if part not in filled])
    if not subject.cells:
        yield _outside_bounds(subject, schema)
        return
    yield from _partly_outside(subject, filled, schema, space)
    if not len(subject.points):
        yield _not_found(subject)
        return
    yield from _unobserved(subject, schema, space, rows, labels)
    if subject.is_pointwise:
        yield from _empty_output(subject, schema, space)


@dataclass(frozen=True, eq=False)
class Alternative:
    """One alternative of a condition with `or`, in words, or the whole of another."""

    words: str
    region: Region
    cells: tuple[Cell, ...]


def _alternatives(subject: Subject, schema: Schema, space: Space) -> list[Alternative]:
    """As the rule wrote them where it did: a region leaves out alternatives that are plainly empty."""
    condition = subject.rule.condition
    if not isinstance(condition, Or):
        return [Alternative(part.text(), part, cells_of(part, schema, space)) for part in subject.parts]
    target = schema.target.name if schema.target is not None else "y"
    found = []
    for item in condition.items:
        region = region_of(item, schema)
        cells = tuple(cell for part in region.components() for cell in cells_of(part, schema, space))
        found.append(Alternative(written(item, target, schema.names), region, cells))
    return found


def _named(subject: Subject, text: str, severity: Severity, kind: str = "empty-region") -> Finding:
    return Finding(kind, severity, (subject.label,), text)  # type: ignore[arg-type]


def _empty_region(subject: Subject, space: Space, schema: Schema) -> Finding:
    whole = [
        name_text(schema.names[index])
        for index in np.flatnonzero(space.integral)
        if schema.names[index] in subject.rule.region.columns() and not space.sizes[index]
    ]
    note = f" ({', '.join(whole)}: whole numbers only)" if whole else ""
    return _named(
        subject,
        f"The rule applies nowhere: no input meets {quoted(subject.rule.region.text())}{note}. "
        "Correct the thresholds, or write “or” where alternatives are meant.",
        "error",
    )


def _empty_parts(subject: Subject, empty: Sequence[Alternative]) -> Iterator[Finding]:
    for part in empty:
        yield _named(
            subject,
            f"One alternative of the condition applies nowhere: no input meets {quoted(part.words)}. "
            "Correct its thresholds, or leave it out.",
            "warning",
        )


def _not_found(subject: Subject) -> Finding:
    if all(cell.exact for cell in subject.cells):
        return _named(
            subject,
            f"No number that a computer stores was found to meet {quoted(subject.rule.region.text())}. "
            "Write a range of some width instead of an equality, and thresholds within reach.",
            "warning",
        )
    return _named(
        subject,
        f"No input that meets {quoted(subject.rule.region.text())} was found among {TRIED} inputs tried "
        "(a search, not a proof). Check the condition, or declare bounds for the columns in it.",
        "warning",
    )


def _outside_bounds(subject: Subject, schema: Schema) -> Finding:
    return _named(
        subject,
        "The rule applies only to inputs that are declared impossible: "
        f"{_bounds_text(subject.rule.region, schema)}. "
        "Correct the thresholds (their unit, perhaps), or declare wider bounds.",
        "error",
        "out-of-bounds",
    )


def _bounds_text(region: Region, schema: Schema) -> str:
    shown = [
        f"{name_text(column.name)} is declared to lie in [{column.bounds[0]:g}, {column.bounds[1]:g}]"
        for column in schema.columns
        if column.name in region.columns() and np.isfinite(column.bounds).any()
    ]
    return " and ".join(shown)


def _partly_outside(
    subject: Subject, filled: Sequence[Alternative], schema: Schema, space: Space
) -> Iterator[Finding]:
    low, high = declared_bounds(schema)
    for part in filled:
        if all(is_empty(bounded(cell, low, high, space), space) for cell in part.cells):
            yield _named(
                subject,
                f"One alternative of the condition, {quoted(part.words)}, applies only to inputs that are "
                f"declared impossible: {_bounds_text(part.region, schema)}. "
                "Correct its thresholds, or declare wider bounds.",
                "warning",
                "out-of-bounds",
            )
            continue
        beyond = sorted({name for cell in part.cells for name in _beyond(cell, low, high, schema, space)})
        if beyond:
            yield _named(
                subject,
                f"The condition {quoted(part.words)} has a threshold on {', '.join(map(name_text, beyond))} "
                f"beyond the declared bounds: {_bounds_text(part.region, schema)}. Only what lies within "
                "them counts; correct the threshold, or declare wider bounds.",
                "warning",
                "out-of-bounds",
            )


def _beyond(cell: Cell, low: Floats, high: Floats, schema: Schema, space: Space) -> Iterator[str]:
    below = np.isfinite(cell.low) & (cell.low < low) & (cell.low != space.low)
    above = np.isfinite(cell.high) & (cell.high > high) & (cell.high != space.high)
    for index in np.flatnonzero(below | above):
        yield schema.names[index]


def _unobserved(
    subject: Subject, schema: Schema, space: Space, rows: Floats | None, labels: tuple[object, ...]
) -> Iterator[Finding]:
    low = np.where(space.integral, np.floor(space.observed_low), space.observed_low)
    high = np.where(space.integral, np.ceil(space.observed_high), space.observed_high)
    if not all(is_empty(bounded(cell, low, high, space), space) for cell in subject.cells):
        return
    region = subject.rule.region
    ranges = "; ".join(
        f"{name_text(column.name)} was observed from {column.observed[0]:.6g} to {column.observed[1]:.6g}"
        for column in schema.columns
        if column.name in region.columns() and column.kind != "category"
    )
    inside = np.zeros(0, dtype=int) if rows is None else np.flatnonzero(region.contains(rows, schema))
    count = None if rows is None else len(inside)
    known = "" if count is None else f"; {count} of {len(labels)} rows lie there"
    yield Finding(
        "unobserved",
        "warning",
        (subject.label,),
        f"The rule applies only beyond what was observed (99 % of the rows: {ranges}{known}). That is legal, "
        "and where rules are needed most; check the unit of the thresholds, and expect the data to say "
        "nothing there.",
        raw_input(_simple_point(subject, schema, space), schema),
        count,
        None,
        tuple(labels[index] for index in inside[:SHOWN_ROWS]),
    )


def _simple_point(subject: Subject, schema: Schema, space: Space) -> Floats:
    point = subject.points[0]
    inside = simplest(point, space, lambda p: bool(subject.rule.region.contains(p[None], schema)[0]))
    return point if inside is None else inside


def _empty_output(subject: Subject, schema: Schema, space: Space) -> Iterator[Finding]:
    _, defined = view(subject.rule, subject.points, schema)
    if not defined.all():
        point = subject.points[np.argmin(defined)]
        try:
            subject.rule.demand(point[None], schema)
        except RuleError as error:
            text = f"What the rule asks for is not defined: {error.message}"
            yield _bare(subject, point, text, "error", schema)
    clash = find_clash((subject,), schema, space)
    if clash is None:
        return
    here, _ = view(subject.rule, clash.point[None], schema)
    where = at_input(clash.point, schema, [subject.rule])
    if here is None or here.is_unlisted:
        text = (
            f"At {where} no output was found that the rule allows (a search over outputs, not a proof). "
            "Check the signs of its functions: outputs are allowed where all are <= 0."
        )
        yield _bare(subject, clash.point, text, "warning", schema)
        return
    text = (
        f"At {where} the rule applies but allows no output: it asks for {_contrary(here, schema)}. "
        "Correct the ends, write “or” where alternatives are meant, or narrow the condition."
    )
    yield _bare(subject, clash.point, text, "warning" if clash.thin else "error", schema)


def _contrary(here: View, schema: Schema) -> str:
    target = "y" if schema.target is None else schema.target.name
    return f"{here.rule.requirement.text(target, schema.names)}, which here is {here.words(schema)}"


def _bare(subject: Subject, point: Floats, text: str, severity: Severity, schema: Schema) -> Finding:
    return Finding("empty-output", severity, (subject.label,), text, raw_input(point, schema))
