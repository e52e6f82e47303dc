"""Rows of the data that violate a rule, and frequencies in them that a rule on probabilities excludes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest, kstest, norm

from ocbnn.errors import SchemaError
from ocbnn.language.expressions import Probability, number_text, text
from ocbnn.linting.findings import SHOWN_ROWS, Finding, quoted, raw_input
from ocbnn.linting.geometry import Bools, Floats
from ocbnn.linting.subjects import Subject, View, stated_events, view
from ocbnn.rules.requirement import Normals
from ocbnn.schema import Schema

FEWEST_ROWS = 30
"""Frequencies are compared with a rule's probabilities from this many rows on."""
CONFIDENCE = 0.99


@dataclass(frozen=True, eq=False)
class Rows:
    """The data as lint needs them: coded inputs, targets (raw y, or class indices), index labels."""

    coded: Floats
    targets: Floats
    labels: tuple[object, ...]


def read_rows(data: pd.DataFrame, schema: Schema) -> Rows:
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
    return Rows(coded, np.asarray(raw, dtype=float), tuple(data.index))


def data_conflicts(subject: Subject, rows: Rows, schema: Schema) -> Iterator[Finding]:
    """What the data say against a rule that asks something of each input alone."""
    assert schema.target is not None
    inside = np.flatnonzero(subject.rule.region.contains(rows.coded, schema))
    found, defined = view(subject.rule, rows.coded[inside], schema)
    if found is None:
        return
    inside = inside[defined]
    targets = rows.targets[inside]
    if schema.target.classes:
        yield from _frequencies(subject, found, targets.astype(int), schema)
    if found.normals is not None:
        yield from _distribution(subject, found.normals, targets)
    # As if the network said exactly what was observed.
    observed = np.eye(len(schema.target.classes))[targets.astype(int)] if schema.target.classes else targets
    broken = subject.rule.requirement.against(found.demand, observed)
    if broken is not None and broken.any():
        yield _broken_rows(subject, inside, inside[broken], rows, schema)


def _broken_rows(subject: Subject, inside: Any, broken: Any, rows: Rows, schema: Schema) -> Finding:
    count, total = len(broken), len(inside)
    first = tuple(rows.labels[index] for index in broken[:SHOWN_ROWS])
    many = f"{count} of the {total} rows" if total != 1 else "The only row"
    verb = "violates" if count == 1 else "violate"
    return Finding(
        "data-conflict",
        "warning",
        (subject.label,),
        f"{many} in the region of {quoted(subject.label)} {verb} it ({count / total:.3g}). "
        "If the data are wrong, correct them; if the rule should override the data, keep it; "
        "otherwise narrow it or raise its tolerance.",
        raw_input(rows.coded[broken[0]], schema),
        count,
        count / total,
        first,
    )


# Probabilities are not about single rows --------------------------------------------------------------------


def _frequencies(subject: Subject, found: View, classes: Any, schema: Schema) -> Iterator[Finding]:
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
        quantity = text(Probability(labels), schema.target.name, schema.names)
        asked = _shown(lower) if lower == upper else f"{_shown(lower)} to {_shown(upper)}"
        yield Finding(
            "data-conflict",
            "warning",
            (subject.label,),
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
    yield Finding(
        "data-conflict",
        "warning",
        (subject.label,),
        f"The {len(targets)} rows in the region of {quoted(subject.label)} are not distributed as it says "
        f"(Kolmogorov–Smirnov p = {test.pvalue:.2g}; {np.mean(transform < 0.5):.0%} lie below its median). "
        "If the rule should override the data, keep it; otherwise correct the distribution.",
        count=len(targets),
    )


def _shown(value: float) -> str:
    return number_text(float(f"{value:.4g}"))
