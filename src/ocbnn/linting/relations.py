"""Rules that compare outputs at several inputs: whether they can hold together, and beside other rules.

Each of them is asked what it allows for one difference: the answer at one input less the answer at another
that differs in one column alone (`Requirement.differences`). Rules about single outputs say so by their ends
at both inputs. Where nothing is left, the rules contradict each other. Inputs are tried, not proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, permutations, product
from typing import NamedTuple

import numpy as np

from ocbnn.language.expressions import name_text, number_text
from ocbnn.linting.findings import Finding, at_input, quoted, raw_input
from ocbnn.linting.geometry import Bools, Floats
from ocbnn.linting.single import FEWEST_ROWS, Observed
from ocbnn.linting.subjects import Subject, view
from ocbnn.rules.ranges import class_indices
from ocbnn.schema import Label, Schema

TRIED = 64
"""Inputs of each rule that are tried."""
VALUES = 16
"""Values of a column that are tried at each of them."""
MOST_TRIED = 256
"""Pairs of rules about single outputs that are tried against each relation."""
EPSILON = 1e-9


class Pairs(NamedTuple):
    """Pairs of inputs that differ in one column: `(n, Q)` each."""

    column: str
    first: Floats
    second: Floats

    def where(self, which: Bools) -> Pairs:
        """Some of them."""
        return Pairs(self.column, self.first[which], self.second[which])

    def inside(self, subject: Subject, schema: Schema) -> Bools:
        """Of which both inputs lie in a rule's region."""
        region = subject.rule.region
        return region.contains(self.first, schema) & region.contains(self.second, schema)


Differences = dict[tuple[Label, ...], tuple[Floats, Floats]]


def findings_between(
    relations: Sequence[Subject], others: Sequence[Subject], schema: Schema, rows: Observed | None
) -> Iterator[Finding]:
    """Relations that contradict each other, and relations against rules about single outputs."""
    for one in relations:
        yield from _nothing_compared(one, schema)
        if rows is not None:
            yield from _small_groups(one, rows, schema)
    for one, other in combinations(relations, 2):
        yield from _against_relation(one, other, schema)
    for relation in relations:
        yield from _ignored_columns(relation, (*relations, *others))
        yield from _against_outputs(relation, others, schema)


def pair_conflicts(subject: Subject, rows: Observed, schema: Schema) -> Iterator[Finding]:
    """Pairs of rows that agree in all but what is compared, and contradict the rule."""
    assert schema.target is not None
    inside = np.flatnonzero(subject.rule.applies(rows.coded, schema))
    pairs = subject.rule.requirement.against_rows(rows.coded[inside], rows.targets[inside], schema)
    if pairs is None or not len(pairs):
        return
    broken = inside[pairs]
    labels = tuple(f"{rows.labels[one]} and {rows.labels[two]}" for one, two in broken[:10].tolist())
    many = f"{len(broken)} pairs of rows" if len(broken) > 1 else "One pair of rows"
    yield subject.finding(
        "data-conflict",
        "info",
        f"{many} that agree in all other columns run against {quoted(subject.label)}. Single rows have "
        "noise, so this may be chance; if they are many, check the rule's direction and the data.",
        witness=raw_input(rows.coded[broken[0, 0]], schema),
        count=len(broken),
        rows=labels,
    )


def _nothing_compared(subject: Subject, schema: Schema) -> Iterator[Finding]:
    requirement = subject.rule.requirement
    if not len(subject.points) or requirement.inputs in (None, 1):
        return
    further = np.ones((len(subject.points), requirement.coordinates))
    points = np.concatenate([subject.points, further], axis=1)
    cases = requirement.cases(points, schema, subject.rule.region)
    if (cases == cases[:, :1]).all():
        names = ", ".join(sorted(map(name_text, requirement.columns())))
        yield subject.finding(
            "empty-output",
            "error",
            f"The rule compares nothing: no two inputs of its region differ in {names} alone. Widen its "
            "condition, or leave the rule out.",
        )


def _small_groups(subject: Subject, rows: Observed, schema: Schema) -> Iterator[Finding]:
    asked = subject.rule.requirement.groups()
    if asked is None:
        return
    name = asked.column
    column = schema.column(name)
    groups = rows.coded[subject.rule.applies(rows.coded, schema), schema.index(name)]
    labels = column.levels or (0, 1)
    counts = {label: int((groups == code).sum()) for code, label in enumerate(labels)}
    filled = sum(count > 0 for count in counts.values())
    if filled < 2:
        yield subject.finding(
            "empty-output",
            "error",
            f"The rule compares nothing: of the groups of {name_text(name)}, {filled} have any of the "
            f"{len(groups)} rows in its region. Widen its condition, or leave the rule out.",
        )
    small = [f"{label} ({count})" for label, count in counts.items() if 0 < count < FEWEST_ROWS]
    if filled > 1 and small:
        yield subject.finding(
            "unobserved",
            "warning",
            f"Groups of {name_text(name)} with few rows: {', '.join(small)}. A mean over fewer than "
            f"{FEWEST_ROWS} rows says little about the group; join small groups, or widen the condition.",
            count=sum(count for count in counts.values() if 0 < count < FEWEST_ROWS),
        )


def _against_relation(one: Subject, other: Subject, schema: Schema) -> Iterator[Finding]:
    for every in _pairs((one, other), one, (one, other), schema):
        pairs = every.where(every.inside(one, schema) & every.inside(other, schema))
        said, beside = _differences(one, pairs, schema), _differences(other, pairs, schema)
        for classes in said.keys() & beside.keys():
            ends, others = said[classes], beside[classes]
            low, high = np.maximum(ends[0], others[0]), np.minimum(ends[1], others[1])
            clash = np.flatnonzero(low > high + EPSILON)
            if len(clash):
                first = int(clash[0])
                words = " by one, ".join(_shown(low[first], high[first]) for low, high in (ends, others))
                yield _contradiction((one, other), pairs, first, schema, f"{words} by the other")
                return
            open_alone = np.isinf(ends[1] - ends[0]) & np.isinf(others[1] - others[0])
            if len(low) and (open_alone & np.isfinite(high - low) & (low < 0) & (high > 0)).all():
                yield Finding(
                    "contradiction",
                    "warning",
                    (one.label, other.label),
                    f"{quoted(one.label)} and {quoted(other.label)} together leave only what does not change "
                    f"with {name_text(pairs.column)}. If that is meant, write “does not depend on”; else "
                    "correct one of them.",
                )
                return


def _against_outputs(relation: Subject, others: Sequence[Subject], schema: Schema) -> Iterator[Finding]:
    """A rule that says how outputs compare, between outputs that rules have fixed at both inputs."""
    for one, other in islice(product(others, repeat=2), MOST_TRIED):
        for every in _pairs((relation,), one, (other,), schema):
            inside = one.rule.region.contains(every.first, schema)
            inside &= other.rule.region.contains(every.second, schema)
            pairs = every.where(inside & every.inside(relation, schema))
            for classes, (low, high) in _differences(relation, pairs, schema).items():
                first, second = (
                    _ends(one, pairs.first, classes, schema),
                    _ends(other, pairs.second, classes, schema),
                )
                if first is None or second is None:
                    continue
                clash = (first[0] - second[1] > high + EPSILON) | (first[1] - second[0] < low - EPSILON)
                for at in np.flatnonzero(clash)[:1].tolist():
                    here, there = (
                        f"from {_number(ends[0][at])} to {_number(ends[1][at])}" for ends in (first, second)
                    )
                    subjects = tuple(dict.fromkeys((relation, one, other)))
                    words = f"rules want outputs {here} there, and {there} here"
                    yield _contradiction(subjects, pairs, at, schema, words)
                    return


def _ignored_columns(relation: Subject, others: Sequence[Subject]) -> Iterator[Finding]:
    ignored = relation.rule.requirement.ignores()
    for other in others:
        rule = other.rule
        named = (rule.region.columns() | (rule.requirement.columns() - rule.requirement.ignores())) & ignored
        if other is not relation and named:
            columns = ", ".join(sorted(map(name_text, named)))
            yield Finding(
                "contradiction",
                "warning",
                (relation.label, other.label),
                f"By {quoted(relation.label)} nothing may depend on {columns}, but {quoted(other.label)} "
                f"speaks of {columns}. Correct one of them.",
            )


# Pairs of inputs, and what is allowed for them -------------------------------------------------------------


def _pairs(
    relations: Sequence[Subject], start: Subject, values_of: Sequence[Subject], schema: Schema
) -> Iterator[Pairs]:
    """Along each column of all relations: inputs of one rule, and those with values from others."""
    columns = frozenset.intersection(*(subject.rule.requirement.columns() for subject in relations))
    points = start.points[:: max(len(start.points) // TRIED, 1)]
    for name in sorted(columns):
        index = schema.index(name)
        known = np.unique(np.concatenate([_values(subject, name, schema) for subject in values_of]))
        known = known[np.unique(np.linspace(0, max(len(known) - 1, 0), VALUES).astype(int))[: len(known)]]
        first, second = (np.repeat(points, len(known), axis=0) for _ in range(2))
        second[:, index] = np.tile(known, len(points))
        pairs = Pairs(name, first, second)
        yield pairs.where(first[:, index] != second[:, index])
        # A contrast speaks of two values alone.
        ends = np.array(list(permutations(known, 2))).reshape(-1, 2)
        first, second = (np.repeat(points[:1], len(ends), axis=0) for _ in range(2))
        first[:, index], second[:, index] = ends.T
        yield Pairs(name, first, second)


def _values(subject: Subject, name: str, schema: Schema) -> Floats:
    """Values of a column that a rule speaks of: at its points, or at the inputs that it compares."""
    requirement = subject.rule.requirement
    if requirement.inputs in (None, 1) or not len(subject.points):
        return subject.points[:, schema.index(name)]
    points = np.concatenate([subject.points, np.ones((len(subject.points), requirement.coordinates))], axis=1)
    return requirement.cases(points, schema, subject.rule.region)[..., schema.index(name)].ravel()


def _differences(subject: Subject, pairs: Pairs, schema: Schema) -> Differences:
    """What a relation allows for the difference of answers of each pair; infinite where it says nothing."""
    index, found = schema.index(pairs.column), Differences()
    values = zip(pairs.first[:, index].tolist(), pairs.second[:, index].tolist(), strict=True)
    for place, (first, second) in enumerate(values):
        said = subject.rule.requirement.differences(pairs.column, first, second, schema)
        for classes, ends in said.items():
            count = len(pairs.first)
            low, high = found.setdefault(classes, (np.full(count, -np.inf), np.full(count, np.inf)))
            low[place], high[place] = ends
    return found


def _ends(
    subject: Subject, points: Floats, classes: tuple[Label, ...], schema: Schema
) -> tuple[Floats, Floats] | None:
    """The least and the largest answer that a rule about single outputs allows at its inputs."""
    found, defined = view(subject.rule, points, schema)
    if found is None or found.allowed is None or not defined.all():
        return None
    ends = None
    if not classes and found.allowed.outputs is not None:
        ends = found.allowed.outputs
    elif classes and found.allowed.shares is not None:
        shares = found.allowed.shares
        members = frozenset(np.flatnonzero(shares.members[0]).tolist())
        ends = (shares.lower, shares.upper) if members == class_indices(classes, schema) else None
    return None if ends is None else (np.min(ends[0], axis=-1), np.max(ends[1], axis=-1))


def _contradiction(subjects: Sequence[Subject], pairs: Pairs, at: int, schema: Schema, said: str) -> Finding:
    rules, labels = [subject.rule for subject in subjects], tuple(subject.label for subject in subjects)
    here = at_input(pairs.first[at], schema, rules)
    there = raw_input(pairs.second[at], schema)[pairs.column]
    return Finding(
        "contradiction",
        "error",
        labels,
        f"No function obeys {' and '.join(map(quoted, labels))}: compare {here} with the same input at "
        f"{name_text(pairs.column)} = {there}: {said}. Correct one of them, or restrict its region.",
        witness=raw_input(pairs.first[at], schema),
    )


def _shown(low: float, high: float) -> str:
    """`a difference of at least 2`, `a difference from -1 to 1`."""
    if low == -np.inf:
        return f"a difference of at most {_number(high)}"
    if high == np.inf:
        return f"a difference of at least {_number(low)}"
    return f"a difference from {_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return number_text(float(f"{value:.4g}")) if np.isfinite(value) else ("∞" if value > 0 else "-∞")
