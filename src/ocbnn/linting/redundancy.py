"""Rules that say nothing new: another one applies wherever they do and allows no more than they allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ocbnn.linting.agreement import class_count
from ocbnn.linting.findings import Finding, quoted
from ocbnn.linting.geometry import Bools, Cell, Floats, Space, covered, is_empty, with_faces
from ocbnn.linting.subjects import Subject
from ocbnn.rules.ranges import Bound, Clause, Range, Ranges, constant
from ocbnn.schema import Schema

MOST_STEPS = 512
"""How many pieces of a region are looked at before the question whether another covers it is given up."""
MOST_PROGRAMS = 128


@dataclass(frozen=True, eq=False)
class Twins:
    """Rules that are the same, by position; the first stands for all."""

    first: int
    others: tuple[int, ...]


def twins(subjects: Sequence[Subject]) -> list[Twins]:
    """Each rule with those after it that have the same region and the same requirement."""
    groups: dict[object, list[int]] = {}
    for position, subject in enumerate(subjects):
        groups.setdefault((subject.rule.region, subject.rule.requirement), []).append(position)
    return [Twins(first, tuple(others)) for first, *others in groups.values()]


def repeated(subjects: Sequence[Subject], groups: Sequence[Twins]) -> Iterator[Finding]:
    """One finding for every rule that is given more than once."""
    for group in groups:
        if group.others:
            labels = tuple(subjects[position].label for position in (group.first, *group.others))
            yield Finding(
                "implied",
                "warning",
                labels,
                f"The same rule is given {len(labels)} times; each copy adds its weight to the prior. "
                f"Keep {quoted(labels[0])} and leave out the rest.",
            )


def implied(subjects: Sequence[Subject], schema: Schema, space: Space) -> Iterator[Finding]:
    """One finding for every rule that another implies; of two that say the same, for the later one."""
    candidates = _seen_inside(subjects, schema)
    redundant: set[int] = set()
    for weak in reversed(range(len(subjects))):
        for strong in range(len(subjects)):
            if strong == weak or strong in redundant or not candidates[strong, weak]:
                continue
            if implies(subjects[strong], subjects[weak], schema, space):
                redundant.add(weak)
                yield _report(subjects[strong], subjects[weak])
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


def _report(strong: Subject, weak: Subject) -> Finding:
    return Finding(
        "implied",
        "info",
        (weak.label, strong.label),
        f"{quoted(weak.label)} says nothing new: {quoted(strong.label)} applies wherever it does, and "
        "allows no more. Leave it out, unless it is there for the reader.",
    )


def implies(strong: Subject, weak: Subject, schema: Schema, space: Space) -> bool:
    """Whether every network that obeys `strong` obeys `weak`; decided for exact ranges only."""
    have, want = strong.ranges, weak.ranges
    if have is None or want is None or have.widened or want.widened or (want.pulls and not have.pulls):
        return False
    asked = _on_quantity_of(have, want, class_count(schema), len(space.low))
    if asked is None or not _may_imply(have, asked):
        return False
    if not all(_box_inside_one(cell, strong.cells) for cell in weak.cells if len(strong.cells) == 1):
        return False
    budget = [MOST_STEPS]
    if not all(covered(cell, strong.cells, space, budget) for cell in weak.cells):
        return False
    scale = 1.0 if schema.target is None else schema.target.scale
    return all(_allows_less(have, asked, cell, space, scale) for cell in weak.cells)


def _box_inside_one(cell: Cell, covers: Sequence[Cell]) -> bool:
    cover = covers[0]
    return cell.is_box is False or bool(np.all((cover.low <= cell.low) & (cell.high <= cover.high)))


def _on_quantity_of(strong: Ranges, weak: Ranges, classes: int, size: int) -> Ranges | None:
    """The weak ranges as ranges of what the strong ones bound, where that can be said.

    P(A) ≥ |A| / (|A| + 1) makes the most probable class one of A; P(A) ≤ 1 / (|rest| + 1) one of the rest.
    """
    if strong.winners is not None or weak.winners is None:
        return weak
    members = {part.members for clause in strong.clauses for part in clause}
    if len(members) != 1:
        return None
    (named,) = members
    if named is None:
        return None
    rest = frozenset(range(classes)) - named
    if named <= weak.winners:
        least = Bound(constant(len(named) / (len(named) + 1), size))
        return Ranges(((Range(named, (least,)),),))
    if rest <= weak.winners:
        most = Bound(constant(1 / (len(rest) + 1), size))
        return Ranges(((Range(named, (), (most,)),),))
    return None


def _may_imply(strong: Ranges, weak: Ranges) -> bool:
    """A quick look that spares most linear programs: the same quantity, constant ends in the right order."""
    if strong.winners is not None or weak.winners is not None:
        return strong.winners is not None and weak.winners is not None and strong.winners <= weak.winners
    if not strong.clauses or not weak.clauses:
        return False
    ranges = [part for clause in (*strong.clauses, *weak.clauses) for part in clause]
    single = all(len(clause) == 1 for clause in (*strong.clauses, *weak.clauses))
    if not single or len({part.members for part in ranges}) != 1:
        return False
    if len(strong.clauses) > 1 or len(weak.clauses) > 1:
        return True
    have, want = strong.clauses[0][0], weak.clauses[0][0]
    return _tight(have.lowers, want.lowers, 1.0) and _tight(have.uppers, want.uppers, -1.0)


def _tight(have: Sequence[Bound], want: Sequence[Bound], sign: float) -> bool:
    if not want:
        return True
    if not have:
        return False
    if not all(bound.is_constant for bound in (*have, *want)):
        return True
    return max(sign * b.affine[-1] for b in have) >= max(sign * b.affine[-1] for b in want)


def _allows_less(strong: Ranges, weak: Ranges, cell: Cell, space: Space, scale: float) -> bool:
    """Whether no (x, y) with x in the cell meets `strong` and breaks `weak`: linear programs in x and y."""
    if strong.winners is not None:
        return True
    escapes = list(product(*(_ways_out(clause) for clause in weak.clauses)))
    if len(strong.clauses) * len(escapes) > MOST_PROGRAMS:
        return False
    lifted_space = _lifted_space(space, scale)
    lifted = _lifted_cell(cell)
    for clause, escape in product(strong.clauses, escapes):
        rows, opened = _faces(clause)
        outside = [row for row, _ in escape]
        faces = np.array([*rows, *outside])
        strict = np.array([*opened, *(is_strict for _, is_strict in escape)], dtype=bool)
        corner = with_faces(lifted, faces[:, :-1], -faces[:, -1], strict)
        if not is_empty(corner, lifted_space):
            return False
    return True


def _faces(clause: Clause) -> tuple[list[Floats], list[bool]]:
    """A clause as rows (coefficients…, of y, constant) ≤ 0."""
    rows, opened = [], []
    for part in clause:
        for bound in part.lowers:
            rows.append(_row(bound, -1.0))
            opened.append(bound.open)
        for bound in part.uppers:
            rows.append(-_row(bound, -1.0))
            opened.append(bound.open)
    return rows, opened


def _row(bound: Bound, of_output: float) -> Floats:
    return np.concatenate([bound.affine[:-1], [of_output], bound.affine[-1:]])


def _ways_out(clause: Clause) -> list[tuple[Floats, bool]]:
    """Each way to break a clause, as a row ≤ 0, strict where the end itself is allowed."""
    rows, opened = _faces(clause)
    return [(-row, not is_open) for row, is_open in zip(rows, opened, strict=True)]


def _lifted_space(space: Space, scale: float) -> Space:
    return replace(
        space,
        integral=np.append(space.integral, False),
        low=np.append(space.low, -np.inf),
        high=np.append(space.high, np.inf),
        observed_low=np.append(space.observed_low, -scale),
        observed_high=np.append(space.observed_high, scale),
        sizes=(*space.sizes, 0),
    )


def _lifted_cell(cell: Cell) -> Cell:
    """The cell with y as one more column, free."""
    return replace(
        cell,
        low=np.append(cell.low, -np.inf),
        high=np.append(cell.high, np.inf),
        low_open=np.append(cell.low_open, False),
        high_open=np.append(cell.high_open, False),
        faces=np.column_stack([cell.faces, np.zeros(len(cell.faces))]),
    )
