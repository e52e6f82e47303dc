"""What satisfaction is reported as: figures of one rule, of a group of points, and of all rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from ocbnn.posterior.figures import Figure
from ocbnn.schema import Schema

Verdict = Literal["met", "unmet", "not shown at this tolerance"]


class Divergence(NamedTuple):
    """A divergence between predictive and D_y: its mean over points, and its largest value with the place.

    The worst point is found on half of the chains, and `worst` is the value there on the other half.
    """

    mean: Figure
    worst: float
    worst_point: dict[str, object]


class GroupFigures(NamedTuple):
    """The figures of one group of fresh points; those of probabilistic rules are mean divergences by name."""

    group: str
    points: int
    epsilon_mean: Figure | None = None
    epsilon_worst: Figure | None = None
    draws_violating: Figure | None = None
    points_violating: Figure | None = None
    divergences: Mapping[str, Figure] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Satisfaction:
    """How far draws obey one rule, or all of them.

    Attributes:
        name: the rule's name, or its text; "all rules".
        text: the rule in words.
        tolerance: what its author accepts.
        verdict: of `epsilon_mean` (probabilistic: mean total variation) against the tolerance; "met" only
            where the whole interval lies within it.
        points: fresh points tried.
        points_found: points found by ascent and tried too, for `draws_violating` and `epsilon_worst`.
        epsilon_mean, epsilon_worst, draws_violating, points_violating: as the module says; None for
            probabilistic rules.
        worst_point: where `epsilon_worst` is, in raw units.
        worst_how: on which draws it was found and estimated.
        mass_outside: class rules: mean predictive probability outside the allowed classes.
        divergences: probabilistic rules: by name.
        groups: figures by group, where a column was named.
    """

    name: str
    text: str
    tolerance: float
    verdict: Verdict
    points: int
    points_found: int = 0
    epsilon_mean: Figure | None = None
    epsilon_worst: Figure | None = None
    draws_violating: Figure | None = None
    points_violating: Figure | None = None
    worst_point: dict[str, object] = field(default_factory=dict)
    worst_how: str = ""
    mass_outside: Figure | None = None
    divergences: dict[str, Divergence] = field(default_factory=dict)
    groups: tuple[GroupFigures, ...] = ()

    def __str__(self) -> str:
        head = f"{self.name}: {self.verdict} (tolerance {self.tolerance:g}, {self.points:,} fresh points"
        head += f" and {self.points_found} found by ascent)" if self.points_found else ")"
        lines = [head]
        for label in ("epsilon_mean", "epsilon_worst", "draws_violating", "points_violating", "mass_outside"):
            figure = getattr(self, label)
            if figure is not None:
                lines.append(f"  {label} {figure}")
        lines += [f"  {name} {each.mean}, worst {each.worst:.3g}" for name, each in self.divergences.items()]
        if self.worst_point:
            where = ", ".join(f"{name} = {value}" for name, value in self.worst_point.items())
            lines.append(f"  worst at {where} ({self.worst_how})")
        for group in self.groups:
            name, figure = (
                ("epsilon_mean", group.epsilon_mean)
                if group.epsilon_mean is not None
                else ("total_variation", group.divergences["total_variation"])
            )
            lines.append(f"  {group.group} ({group.points:,} points): {name} {figure}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class SatisfactionReport:
    """The satisfaction of every rule, and of all together; iterates over the rules."""

    rules: tuple[Satisfaction, ...]
    overall: Satisfaction | None

    def __iter__(self) -> Iterator[Satisfaction]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, rule: int | str) -> Satisfaction:
        if isinstance(rule, int):
            return self.rules[rule]
        for each in self.rules:
            if rule in (each.name, each.text):
                return each
        raise KeyError(rule)

    @property
    def met(self) -> bool:
        """Whether every rule is shown to be met."""
        return all(each.verdict == "met" for each in self.rules)

    def __str__(self) -> str:
        return "\n".join(str(each) for each in (*self.rules, *([self.overall] if self.overall else [])))


def verdict(figure: Figure, tolerance: float) -> Verdict:
    """Met where the whole interval is within the tolerance, unmet where all of it is beyond."""
    if figure.high <= tolerance:
        return "met"
    return "unmet" if figure.low > tolerance else "not shown at this tolerance"


def raw_point(schema: Schema, coded: Float[np.ndarray, " Q"]) -> dict[str, object]:
    """A point in raw units, by column."""
    return {str(name): value for name, value in schema.decode(coded[None]).iloc[0].to_dict().items()}


def column_groups(
    schema: Schema, by: str, coded: Float[np.ndarray, "n Q"]
) -> Iterator[tuple[str, np.ndarray]]:
    """Groups of points by a column: its values where they are few, else quarters of the points."""
    column, values = schema.column(by), coded[:, schema.index(by)]
    distinct = np.unique(values)
    if column.kind in ("category", "binary") or len(distinct) <= 6:
        for value in distinct:
            raw = column.levels[int(value)] if column.levels else f"{value:g}"
            yield f"{by} = {raw}", values == value
        return
    ends = np.quantile(values, [0.25, 0.5, 0.75])
    quarter = np.searchsorted(ends, values, side="left")
    for index in np.unique(quarter):
        inside = quarter == index
        yield f"{values[inside].min():.3g} <= {by} <= {values[inside].max():.3g}", inside
