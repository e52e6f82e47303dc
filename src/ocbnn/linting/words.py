"""How findings speak: what a rule asks for at an input, and the input itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ocbnn.language.expressions import Probability, columns, name_text, number_text, text
from ocbnn.linting.findings import shown_input
from ocbnn.linting.geometry import Floats
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.located import (
    AllowedClasses,
    AllowedIntervals,
    AllowedValues,
    NormalMixture,
    ProbabilityIntervals,
    TargetProbability,
)
from ocbnn.rules.outputs import ClassProbabilities, Intervals, Normals, ProbabilityTarget, Values
from ocbnn.schema import Schema


def raw_input(point: Floats, schema: Schema) -> dict[str, object]:
    """One coded point as a person would write it: labels, whole numbers, numbers."""
    return {
        column.name: column.levels[int(value)] if column.levels else _plain(value, column.kind)
        for column, value in zip(schema.columns, point.tolist(), strict=True)
    }


def _plain(value: float, kind: str) -> float:
    return value if kind == "continuous" else int(value)


def at_input(point: Floats, schema: Schema, names: Iterable[str]) -> str:
    """`x = 1, sex = 'female'`, only the columns that matter; all of them where none is named."""
    values, wanted = raw_input(point, schema), set(names)
    return shown_input({name: value for name, value in values.items() if name in wanted} or values)


def asked(rule: Constraint, point: Floats, schema: Schema) -> str:
    """What a rule asks for at one point: `y >= 1`, `label in {green, blue}`."""
    target = schema.target.name if schema.target is not None else "y"
    if isinstance(rule.output, Intervals) and not output_columns(rule):
        return rule.output.text(target, schema.names)
    demand = rule.locate(np.asarray(point, dtype=float)[None], schema)
    match demand:
        case AllowedIntervals(lower, upper):
            return _ranges(name_text(target), lower[0], upper[0])
        case AllowedValues(values, _, margin):
            within = f" within {_number(margin[0])}"
            return " or ".join(f"{name_text(target)} = {_number(value)}{within}" for value in values[0])
        case AllowedClasses():
            return rule.output.text(target, schema.names)
        case ProbabilityIntervals(members, lower, upper):
            quantity = _probability(members[0], schema)
            return _ranges(
                quantity,
                np.where(lower[0] <= 0, -np.inf, lower[0]),
                np.where(upper[0] >= 1, np.inf, upper[0]),
            )
        case TargetProbability(members, probability):
            return f"{_probability(members[0], schema)} = {_number(probability[0])}"
        case NormalMixture(weight, mean, sd):
            parts = zip(weight[0], mean[0], sd[0], strict=True)
            return " or ".join(
                f"{name_text(target)} ~ Normal({_number(m)}, {_number(s)})" for _, m, s in parts
            )
    return rule.output.text(target, schema.names)


def _probability(members: Any, schema: Schema) -> str:
    assert schema.target is not None
    classes = tuple(label for label, member in zip(schema.target.classes, members, strict=True) if member)
    return text(Probability(classes), schema.target.name, schema.names)


def _ranges(quantity: str, lower: Floats, upper: Floats) -> str:
    shown = [_range(quantity, low, high) for low, high in zip(lower, upper, strict=True) if low < np.inf]
    return " or ".join(shown) or f"no {quantity} at all"


def _range(quantity: str, low: float, high: float) -> str:
    if low == -np.inf:
        return f"any {quantity}" if high == np.inf else f"{quantity} <= {_number(high)}"
    if high == np.inf:
        return f"{quantity} >= {_number(low)}"
    return (
        f"{quantity} = {_number(low)}" if low == high else f"{_number(low)} <= {quantity} <= {_number(high)}"
    )


def _number(value: float) -> str:
    return number_text(float(f"{value:.6g}"))


def quoted(label: str) -> str:
    """A rule's name or text, set apart from the sentence around it."""
    return f"“{label}”"


def output_columns(rule: Constraint) -> frozenset[str]:
    """The columns that what a rule asks for depends on."""
    match rule.output:
        case Intervals(formula=formula):
            return columns(formula)
        case Values(values=values):
            return frozenset().union(*(columns(value) for value, _ in values))
        case ProbabilityTarget(value=value):
            return columns(value)
        case ClassProbabilities(values=values):
            return frozenset().union(*(columns(value) for value in values))
        case Normals(components=components):
            return frozenset().union(*(columns(mean) | columns(sd) for _, mean, sd in components))
    return frozenset()


def ruled_columns(rule: Constraint) -> frozenset[str]:
    """All columns a rule speaks of."""
    return rule.region.columns() | output_columns(rule)
