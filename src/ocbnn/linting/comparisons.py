"""Rules compared with each other: those that cannot all be obeyed, and those that say nothing new.

Rules contradict each other at inputs where they apply together and leave no output. Where regions are boxes
or half-spaces and ends are affine in x, this is decided exactly: an input with lower₁(x) > upper₂(x) in both
regions is a (mixed-integer) linear program. Other rules are compared at points. Every witness is checked
against the rules themselves before it is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import combinations, islice, product

import numpy as np

from ocbnn.linting.agreement import ENOUGH_POINTS, Gap, between, pooled, ways_to_fail, without_output
from ocbnn.linting.findings import Finding, Severity, at_input, quoted, raw_input
from ocbnn.linting.geometry import (
    Bools,
    Cell,
    Floats,
    Space,
    box_is_empty,
    covered,
    deepest,
    intersection,
    is_flat,
    largest,
    opposite_faces_exclude,
    simplest,
)
from ocbnn.linting.subjects import Subject, draws, near_by, view
from ocbnn.rules.ranges import Bound, Range, Ranges, constant
from ocbnn.schema import Schema

MOST_CELLS = 4096
"""How many pieces that two rules have in common are looked at."""
MOST_FINDINGS = 100
"""How many pairs that contradict each other are reported before the rest is left for later."""
MOST_TRIPLES = 5_000
"""How many triples of rules are looked at."""
ROUNDING = 1e-9
"""How far, relative to the columns' ranges, a point may miss a condition like `x1 + x2 = 1`."""
MOST_STEPS = 512
"""How many pieces of a region are looked at before the question whether another covers it is given up."""
MOST_PROGRAMS = 128
"""How many linear programs decide whether a rule allows no more than another, before it is given up."""


@dataclass(frozen=True, eq=False)
class Clash:
    """An input at which rules leave no output; `thin` where they only meet there on a boundary."""

    point: Floats
    thin: bool = False


def contradictions(subjects: Sequence[Subject], space: Space) -> list[Finding]:
    """One finding per pair of rules that contradict each other, and per triple of which no pair does."""
    meet = overlaps(subjects, space)
    failing_points = pooled(subjects, space.schema)
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
            clash = find_clash(group, space)
        else:
            clash = _rounded(group, tried[0], space) if len(tried) else None
        if clash is not None:
            failing[i, j] = failing[j, i] = True
            findings.append(_report(group, clash, space.schema))
    for triple in islice(_triples(subjects, meet & ~failing), MOST_TRIPLES):
        clash = find_clash(triple, space)
        if clash is not None:
            findings.append(_report(triple, clash, space.schema))
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


def find_clash(group: Sequence[Subject], space: Space) -> Clash | None:
    """An input at which no output obeys all rules of the group; of one rule: at which it allows nothing."""
    known = [subject.ranges for subject in group if subject.ranges is not None]
    if len(known) < len(group):
        return _clash_at_points(group, None, space)
    ways = ways_to_fail(known, space.classes, lambda _: np.inf)
    # A target is clipped to [0, 1], so it can always be met, and what is affine of it is not all there is.
    clipped = any(ranges.widened for ranges in known)
    if ways == [] or (len(group) == 1 and clipped):
        return None
    clash = _clash_in_cells(group, space)
    if clash is None and (ways is None or clipped or not all(subject.is_exact for subject in group)):
        clash = _clash_at_points(group, None if clipped else ways, space)
    return clash


def common_cells(group: Sequence[Subject]) -> Iterator[tuple[tuple[Cell, ...], Cell]]:
    """The pieces that all regions of the group have in common, as far as bounds and levels tell."""
    for cells in islice(product(*(subject.cells for subject in group)), MOST_CELLS):
        common = reduce(intersection, cells)
        if not box_is_empty(common) and not opposite_faces_exclude(common):
            yield cells, common


def _clash_in_cells(group: Sequence[Subject], space: Space) -> Clash | None:
    ranges = [subject.ranges for subject in group if subject.ranges is not None]
    thin: Clash | None = None
    for cells, common in common_cells(group):
        for way in ways_to_fail(ranges, space.classes, partial(largest, common)) or ():
            clash = _solve(group, cells, common, way, space)
            if clash is not None and not clash.thin:
                return clash
            thin = thin or clash
    return thin


def _solve(
    group: Sequence[Subject],
    cells: Sequence[Cell],
    common: Cell,
    way: Sequence[Gap],
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
            witness = _verified(group, common, candidate.point, everywhere, space)
            if witness is not None:
                return Clash(witness, thin=not everywhere and not any(is_flat(cell, space) for cell in cells))
    return None


def _verified(
    group: Sequence[Subject], common: Cell, point: Floats, inside: bool, space: Space
) -> Floats | None:
    """The point, rounded to few digits, if all rules apply there and leave nothing."""
    if inside and not _fails_at(group, space, point):
        return None  # rounding can only help where the common part has no volume
    found = simplest(point, space, partial(_fails_at, group, space))
    if found is not None or not (common.exact and len(common.limits)):
        return found
    # On a set without volume no float may lie exactly.
    room = common.limits - common.faces @ point
    near = np.all(room >= -ROUNDING * np.abs(common.faces) @ (space.width + np.abs(point)))
    fails = near and without_output(group, point[None], space, touching=_has_open_ends(group))[0]
    return point if fails else None


def _fails_at(group: Sequence[Subject], space: Space, point: Floats) -> bool:
    """Whether all rules of the group apply at a point that is possible, and leave no output there."""
    row = point[None]
    applies = space.possible(row)[0] and all(s.rule.region.contains(row, space.schema)[0] for s in group)
    return bool(applies and without_output(group, row, space, touching=_has_open_ends(group))[0])


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
    group: Sequence[Subject], ways: Sequence[Sequence[Gap]] | None, space: Space
) -> Clash | None:
    points = common_points(group, space)
    if not len(points):
        return None
    if ways is not None:
        fails = np.zeros(len(points), dtype=bool)
        for way in ways:
            fails |= np.logical_and.reduce([np.ones_like(fails), *(_is_open(gap, points) for gap in way)])
    else:
        fails = without_output(group, points, space)
    if not fails.any():
        return None
    return _rounded(group, points[np.argmax(fails)], space)


def _rounded(group: Sequence[Subject], point: Floats, space: Space) -> Clash:
    rounded = simplest(point, space, partial(_fails_at, group, space))
    return Clash(point if rounded is None else rounded)


def _is_open(gap: Gap, points: Floats) -> Bools:
    slopes = gap.affine[:-1] if len(gap.affine) > 1 else np.zeros(points.shape[1])
    value = points @ slopes + gap.affine[-1]
    return value >= 0 if gap.open else value > 0


def common_points(group: Sequence[Subject], space: Space) -> Floats:
    """Points at which all rules of the group apply: kept ones first, fresh ones where these are too few."""

    def inside(points: Floats) -> Floats:
        applies = [subject.rule.region.contains(points, space.schema) for subject in group]
        return points[np.logical_and.reduce(applies) & space.possible(points)]

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


# Rules that say nothing new ---------------------------------------------------------------------------------


def twins(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """Rules that have the same region and the same requirement, together."""
    groups: dict[object, list[Subject]] = {}
    for subject in subjects:
        groups.setdefault((subject.rule.region, subject.rule.requirement), []).append(subject)
    return list(groups.values())


def repeated(group: Sequence[Subject]) -> Finding:
    """The finding about a rule that is given more than once."""
    return Finding(
        "implied",
        "warning",
        tuple(subject.label for subject in group),
        f"The same rule is given {len(group)} times; each copy adds its weight to the prior. "
        f"Keep {quoted(group[0].label)} and leave out the rest.",
    )


def implied(subjects: Sequence[Subject], space: Space) -> Iterator[Finding]:
    """One finding for every rule that another implies; of two that say the same, for the later one."""
    candidates = _seen_inside(subjects, space.schema)
    redundant: set[int] = set()
    for weak in reversed(range(len(subjects))):
        for strong in range(len(subjects)):
            if strong == weak or strong in redundant or not candidates[strong, weak]:
                continue
            if implies(subjects[strong], subjects[weak], space):
                redundant.add(weak)
                new, old = subjects[weak].label, subjects[strong].label
                yield Finding(
                    "implied",
                    "info",
                    (new, old),
                    f"{quoted(new)} says nothing new: {quoted(old)} applies wherever it does, and "
                    "allows no more. Leave it out, unless it is there for the reader.",
                )
                break


def _seen_inside(subjects: Sequence[Subject], schema: Schema) -> Bools:
    """[strong, weak]: whether all points tried of the weak rule's region lie in the strong rule's."""
    points = [subject.points[:: max(1, len(subject.points) // 16)] for subject in subjects]
    owner = np.repeat(np.arange(len(subjects)), [len(some) for some in points])
    result = np.ones((len(subjects), len(subjects)), dtype=bool)
    for position, subject in enumerate(subjects):
        outside = ~subject.rule.region.contains(np.concatenate(points), schema)
        result[position, owner[outside]] = False
    return result


def implies(strong: Subject, weak: Subject, space: Space) -> bool:
    """Whether every network that obeys `strong` obeys `weak`; decided for exact ranges only."""
    have, want = strong.ranges, weak.ranges
    if have is None or want is None or have.widened or want.widened or (want.pulls and not have.pulls):
        return False
    asked = _on_quantity_of(have, want, space)
    if asked is None or not _are_comparable(have, asked):
        return False
    if not all(_allows_less(have, asked, cell, space) for cell in weak.cells):
        return False
    budget = [MOST_STEPS]
    return all(covered(cell, strong.cells, space, budget) for cell in weak.cells)


def _on_quantity_of(strong: Ranges, weak: Ranges, space: Space) -> Ranges | None:
    """The weak ranges as ranges of what the strong ones bound, where that can be said.

    P(A) ≥ |A| / (|A| + 1) makes the most probable class one of A; P(A) ≤ 1 / (|rest| + 1) one of the rest.
    """
    if strong.winners is not None or weak.winners is None:
        return weak
    members = {part.members for clause in strong.clauses for part in clause}
    named = members.pop() if len(members) == 1 else None
    if named is None:
        return None
    rest, size = frozenset(range(space.classes)) - named, len(space.low)
    if named <= weak.winners:
        least = Bound(constant(len(named) / (len(named) + 1), size))
        return Ranges(((Range(named, (least,)),),))
    if rest <= weak.winners:
        most = Bound(constant(1 / (len(rest) + 1), size))
        return Ranges(((Range(named, (), (most,)),),))
    return None


def _are_comparable(strong: Ranges, weak: Ranges) -> bool:
    """Whether both bound one and the same quantity; of allowed classes, whether `strong` allows no more."""
    if strong.winners is not None or weak.winners is not None:
        return strong.winners is not None and weak.winners is not None and strong.winners <= weak.winners
    clauses = (*strong.clauses, *weak.clauses)
    quantities = {part.members for clause in clauses for part in clause}
    single = all(len(clause) == 1 for clause in clauses) and len(quantities) == 1
    return single and bool(strong.clauses) and bool(weak.clauses)


def _allows_less(strong: Ranges, weak: Ranges, cell: Cell, space: Space) -> bool:
    """Whether no (x, y) with x in the cell meets `strong` and breaks `weak`.

    A y is above some ends and below others where each of the first is at most each of the second, so linear
    programs in x alone decide it.
    """
    if strong.winners is not None:
        return True
    ways_out = [_ways_out(clause[0]) for clause in weak.clauses]
    if len(strong.clauses) * math.prod(map(len, ways_out)) > MOST_PROGRAMS:
        return False
    for clause, escape in product(strong.clauses, product(*ways_out)):
        lowers = [bound for part in (*clause, *escape) for bound in part.lowers]
        uppers = [bound for part in (*clause, *escape) for bound in part.uppers]
        gaps = [between(low, high) for low, high in product(lowers, uppers)]
        found = deepest(
            cell,
            space,
            [-gap.affine for gap in gaps if gap.open],
            nonnegative=[-gap.affine for gap in gaps if not gap.open],
        )
        if found is not None and found.is_inside:
            return False
    return True


def _ways_out(part: Range) -> list[Range]:
    """Each way to break a range: beyond one of its ends, and on it where the end is not allowed."""
    below = [Range(part.members, (), (Bound(bound.affine, not bound.open),)) for bound in part.lowers]
    above = [Range(part.members, (Bound(bound.affine, not bound.open),)) for bound in part.uppers]
    return below + above
