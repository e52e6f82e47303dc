"""Rules that cannot all be obeyed: inputs where they apply together and leave no output.

Where regions are boxes or half-spaces and ends are affine in x, this is decided exactly: an input with
lower₁(x) > upper₂(x) in both regions is a (mixed-integer) linear program. Other rules are compared at points.
Every witness is checked against the rules themselves before it is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import combinations, islice, product

import numpy as np

from ocbnn.linting.agreement import ENOUGH_POINTS, Gap, class_count, pooled, ways_to_fail, without_output
from ocbnn.linting.findings import Finding, Severity, at_input, quoted, raw_input
from ocbnn.linting.geometry import (
    Bools,
    Cell,
    Floats,
    Space,
    box_is_empty,
    deepest,
    intersection,
    is_flat,
    largest,
    opposite_faces_exclude,
    simplest,
)
from ocbnn.linting.subjects import Subject, draws, near_by, possible, view
from ocbnn.schema import Schema

MOST_CELLS = 4096
"""How many pieces that two rules have in common are looked at."""
MOST_FINDINGS = 100
"""How many pairs that contradict each other are reported before the rest is left for later."""
MOST_TRIPLES = 5_000
"""How many triples of rules are looked at."""
ROUNDING = 1e-9
"""How far, relative to the columns' ranges, a point may miss a condition like `x1 + x2 = 1`."""


@dataclass(frozen=True, eq=False)
class Clash:
    """An input at which rules leave no output; `thin` where they only meet there on a boundary."""

    point: Floats
    thin: bool = False


def contradictions(subjects: Sequence[Subject], schema: Schema, space: Space) -> list[Finding]:
    """One finding per pair of rules that contradict each other, and per triple of which no pair does."""
    meet = overlaps(subjects, space)
    failing_points = pooled(subjects, schema)
    failing = np.zeros_like(meet)
    findings: list[Finding] = []
    for i, j in combinations(range(len(subjects)), 2):
        if not meet[i, j]:
            continue
        if len(findings) == MOST_FINDINGS:
            return [*findings, _and_more(subjects[i], subjects[j])]
        group = (subjects[i], subjects[j])
        tried = None if all(subject.is_exact for subject in group) else failing_points(i, j)
        if tried is None:
            clash = find_clash(group, schema, space)
        else:
            clash = _rounded(group, tried[0], schema, space) if len(tried) else None
        if clash is not None:
            failing[i, j] = failing[j, i] = True
            findings.append(_report(group, clash, schema))
    for triple in islice(_triples(subjects, meet & ~failing), MOST_TRIPLES):
        clash = find_clash(triple, schema, space)
        if clash is not None:
            findings.append(_report(triple, clash, schema))
    return findings


def overlaps(subjects: Sequence[Subject], space: Space) -> Bools:
    """Which pairs of rules have pieces whose bounds and levels overlap."""
    owner = np.array([k for k, subject in enumerate(subjects) for _ in subject.cells], dtype=int)
    cells = [cell for subject in subjects for cell in subject.cells]
    result = np.zeros((len(subjects), len(subjects)), dtype=bool)
    if not cells:
        return result
    meet = np.ones((len(cells), len(cells)), dtype=bool)
    for index in range(len(space.low)):
        low, high = (np.array([getattr(cell, end)[index] for cell in cells]) for end in ("low", "high"))
        meet &= low[:, None] <= high[None, :]
    meet &= meet.T
    for index in sorted({index for cell in cells for index in cell.codes}):
        member = np.ones((len(cells), space.sizes[index]), dtype=np.float32)
        for row, cell in enumerate(cells):
            if index in cell.codes:
                member[row] = np.isin(np.arange(space.sizes[index]), list(cell.codes[index]))
        meet &= member @ member.T > 0
    rows, columns = np.nonzero(meet)
    result[owner[rows], owner[columns]] = True
    return result


def _triples(subjects: Sequence[Subject], compatible: Bools) -> Iterator[tuple[Subject, Subject, Subject]]:
    """Triples that can fail together though no pair does.

    Single intervals of one quantity that meet pairwise have a common point (Helly's theorem), so only unions
    of intervals, sets of classes and probabilities of different classes can.
    """
    lines = [_line(subject) for subject in subjects]
    known = np.array([line is not None for line in lines], dtype=bool)
    numbers = {line: number for number, line in enumerate(dict.fromkeys(lines))}
    number = np.array([numbers[line] for line in lines], dtype=int)
    compatible = compatible & known & known[:, None]
    for i, j in np.argwhere(np.triu(compatible, 1)).tolist():
        thirds = compatible[i] & compatible[j] & (np.arange(len(subjects)) > j)
        if isinstance(lines[i], tuple) and number[i] == number[j]:
            thirds &= number != number[i]
        for k in np.flatnonzero(thirds).tolist():
            if not _share_a_class(lines[i], lines[j], lines[k]):
                yield subjects[i], subjects[j], subjects[k]


def _line(subject: Subject) -> object | None:
    """What a rule bounds by one interval, or the classes it allows, or a mark of its own; None if inexact."""
    ranges = subject.ranges
    if ranges is None or not subject.is_exact:
        return None
    if ranges.winners is not None:
        return ranges.winners
    if len(ranges.clauses) == 1 and len(ranges.clauses[0]) == 1:
        return ("interval", ranges.clauses[0][0].members)
    return subject


def _share_a_class(*lines: object) -> bool:
    sets = [line for line in lines if isinstance(line, frozenset)]
    return len(sets) == len(lines) and bool(frozenset.intersection(*sets))


# One group of rules -----------------------------------------------------------------------------------------


def find_clash(group: Sequence[Subject], schema: Schema, space: Space) -> Clash | None:
    """An input at which no output obeys all rules of the group; of one rule: at which it allows nothing."""
    known = [subject.ranges for subject in group if subject.ranges is not None]
    if len(known) < len(group):
        return _clash_at_points(group, None, schema, space)
    ways = ways_to_fail(known, class_count(schema), lambda _: np.inf)
    # A target is clipped to [0, 1], so it can always be met, and what is affine of it is not all there is.
    clipped = any(ranges.widened for ranges in known)
    if ways == [] or (len(group) == 1 and clipped):
        return None
    clash = _clash_in_cells(group, schema, space)
    if clash is None and (ways is None or clipped or not all(subject.is_exact for subject in group)):
        clash = _clash_at_points(group, None if clipped else ways, schema, space)
    return clash


def common_cells(group: Sequence[Subject]) -> Iterator[tuple[tuple[Cell, ...], Cell]]:
    """The pieces that all regions of the group have in common, as far as bounds and levels tell."""
    for cells in islice(product(*(subject.cells for subject in group)), MOST_CELLS):
        common = reduce(intersection, cells)
        if not box_is_empty(common) and not opposite_faces_exclude(common):
            yield cells, common


def _clash_in_cells(group: Sequence[Subject], schema: Schema, space: Space) -> Clash | None:
    ranges = [subject.ranges for subject in group if subject.ranges is not None]
    thin: Clash | None = None
    for cells, common in common_cells(group):
        for way in ways_to_fail(ranges, class_count(schema), partial(largest, common)) or ():
            clash = _solve(group, cells, common, way, schema, space)
            if clash is not None and not clash.thin:
                return clash
            thin = thin or clash
    return thin


def _solve(
    group: Sequence[Subject],
    cells: Sequence[Cell],
    common: Cell,
    way: Sequence[Gap],
    schema: Schema,
    space: Space,
) -> Clash | None:
    """The linear program: deep inside all regions, or on their boundary where that is all they share."""
    closed = [gap.affine for gap in way if not gap.open]
    opened = [gap.affine for gap in way if gap.open]
    for everywhere in (True, False):
        found = deepest(common, space, closed, nonnegative=opened, everywhere=everywhere)
        if found is None:
            return None
        if not found.is_inside:
            continue
        near = deepest(near_by(common, space), space, closed, nonnegative=opened, everywhere=everywhere)
        for candidate in (near, found):
            if candidate is None or not candidate.is_inside:
                continue
            witness = _verified(group, common, candidate.point, everywhere, schema, space)
            if witness is not None:
                return Clash(witness, thin=not everywhere and not any(is_flat(cell, space) for cell in cells))
    return None


def _verified(
    group: Sequence[Subject], common: Cell, point: Floats, inside: bool, schema: Schema, space: Space
) -> Floats | None:
    """The point, rounded to few digits, if all rules apply there and leave nothing."""
    if inside and not _fails_at(group, schema, point):
        return None  # rounding can only help where the common part has no volume
    found = simplest(point, space, partial(_fails_at, group, schema))
    if found is not None or not (common.exact and len(common.limits)):
        return found
    # On a set without volume no float may lie exactly.
    room = common.limits - common.faces @ point
    near = np.all(room >= -ROUNDING * np.abs(common.faces) @ (space.width + np.abs(point)))
    return (
        point
        if near and without_output(group, point[None], schema, touching=_has_open_ends(group))[0]
        else None
    )


def _fails_at(group: Sequence[Subject], schema: Schema, point: Floats) -> bool:
    """Whether all rules of the group apply at a point that is possible, and leave no output there."""
    row = point[None]
    applies = possible(row, schema)[0] and all(s.rule.region.contains(row, schema)[0] for s in group)
    return bool(applies and without_output(group, row, schema, touching=_has_open_ends(group))[0])


def _has_open_ends(group: Sequence[Subject]) -> bool:
    """Whether a range of one of the rules leaves out an end: `y < 1`, as written."""
    return any(
        bound.open
        for subject in group
        if subject.ranges is not None
        for clause in subject.ranges.clauses
        for part in clause
        for bound in part.lowers + part.uppers
    )


def _clash_at_points(
    group: Sequence[Subject], ways: Sequence[Sequence[Gap]] | None, schema: Schema, space: Space
) -> Clash | None:
    points = common_points(group, schema, space)
    if not len(points):
        return None
    if ways is not None:
        fails = np.zeros(len(points), dtype=bool)
        for way in ways:
            fails |= np.logical_and.reduce([np.ones_like(fails), *(_is_open(gap, points) for gap in way)])
    else:
        fails = without_output(group, points, schema)
    if not fails.any():
        return None
    return _rounded(group, points[np.argmax(fails)], schema, space)


def _rounded(group: Sequence[Subject], point: Floats, schema: Schema, space: Space) -> Clash:
    rounded = simplest(point, space, partial(_fails_at, group, schema))
    return Clash(point if rounded is None else rounded)


def _is_open(gap: Gap, points: Floats) -> Bools:
    value = (
        points @ gap.affine[:-1] + gap.affine[-1]
        if len(gap.affine) > 1
        else np.full(len(points), gap.affine[-1])
    )
    return value >= 0 if gap.open else value > 0


def common_points(group: Sequence[Subject], schema: Schema, space: Space) -> Floats:
    """Points at which all rules of the group apply: kept ones first, fresh ones where these are too few."""

    def inside(points: Floats) -> Floats:
        applies = np.logical_and.reduce([subject.rule.region.contains(points, schema) for subject in group])
        return points[applies & possible(points, schema)]

    points = inside(np.concatenate([subject.points for subject in group]))
    if len(points) < ENOUGH_POINTS and len(group) > 1:
        fresh = [draws(common, space, 256) for _, common in islice(common_cells(group), 8)]
        points = np.concatenate([points, inside(np.concatenate(fresh))]) if fresh else points
    return points


# Words ------------------------------------------------------------------------------------------------------


def _report(group: Sequence[Subject], clash: Clash, schema: Schema) -> Finding:
    where = at_input(clash.point, schema, [subject.rule for subject in group])
    views = [found for subject in group if (found := view(subject.rule, clash.point[None], schema)[0])]
    wishes = "; ".join(
        f"{quoted(subject.label)} asks for {each.words(schema)}"
        for subject, each in zip(group, views, strict=True)
    )
    together = "these rules apply together" if len(group) == 2 else f"these {len(group)} rules apply together"
    searched = any(each.is_unlisted for each in views)
    distributed = any(each.normals is not None for each in views)
    severity: Severity = "warning" if clash.thin or searched or distributed else "error"
    if searched:
        verdict = "no output was found that obeys them all (a search over outputs, not a proof)"
    elif distributed:
        verdict = "hardly any distribution satisfies them all"
    else:
        verdict = "no output obeys them all"
    remedy = (
        "narrow one of the conditions so that they do not overlap there, or change what one of them asks for"
    )
    if clash.thin:
        verdict += "; they share no more than a boundary"
        remedy = "make one of the two conditions strict, such as < instead of <="
    return Finding(
        kind="contradiction",
        severity=severity,
        rules=tuple(subject.label for subject in group),
        text=f"At {where} {together} and {verdict}: {wishes}. To resolve it, {remedy}.",
        witness=raw_input(clash.point, schema),
    )


def _and_more(one: Subject, other: Subject) -> Finding:
    return Finding(
        "contradiction",
        "warning",
        (one.label, other.label),
        f"More than {MOST_FINDINGS} pairs of rules contradict each other; pairs from {quoted(one.label)} and "
        f"{quoted(other.label)} on were not looked at. Resolve those reported, then lint again.",
    )
