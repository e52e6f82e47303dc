"""What a check says: the figures of one rule, of a group of points, and of all rules, with one verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

from ocbnn.checking.figures import Figure, Number

FIGURES: Mapping[str, str] = {
    "epsilon_mean": "violated on average, over cases and draws",
    "epsilon_worst": "draws that violate it in the worst case found",
    "draws_violating": "draws that violate it in at least one case tried",
    "draws_unproved": "draws not proved to keep it everywhere",
    "points_violating": "cases whose single prediction violates it",
    "mass_outside": "probability given to forbidden classes",
}
"""Of a rule that is judged draw by draw, in the order in which they are shown, with their words."""
COUNTS_ROWS = "intervals count the draws, and that the rows are a sample"
"""Of a rule about groups of rows, in words."""
Verdict = Literal["met", "unmet", "not shown at this tolerance"]
Level = Literal["on average", "worst case found", "proved"]
"""What a verdict is about: the mean over the region, the worst point that a search found, or every point."""
Attempt = Literal["met", "unmet", "not shown at this tolerance", "not attempted"]
LEVELS: tuple[Level, ...] = get_args(Level)


class Divergence(NamedTuple):
    """A divergence between predictive and D_y: its mean over points, and its largest value with the place.

    The worst point is found on half of the chains, and `worst` is the value there on the other half.
    """

    mean: Figure
    worst: Number
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

    @property
    def violation(self) -> Figure:
        """The figure that a verdict is about."""
        return headline(self.epsilon_mean, self.divergences)[1]


@dataclass(frozen=True, eq=False)
class RuleCheck:
    """How far draws keep one rule, or all of them.

    Attributes:
        name: the rule's name, or its text; "all rules".
        text: the rule in words.
        tolerance: what its author accepts.
        verdict: of `violation` against the tolerance, at the level `asked`; "met" only where the whole
            interval lies within it.
        asked: the level that the rule asks for.
        levels: the verdict at each level; "not attempted" where nothing was searched for, or proved.
        points: fresh points tried.
        points_found: points found by ascent and tried too, for `draws_violating` and `epsilon_worst`.
        epsilon_mean: share of draw-point pairs that violate.
        epsilon_worst: share of draws that violate at the worst point found (paper, Definition 4.2).
        draws_violating: share of draws that violate at any of the points tried: a lower bound.
        points_violating: share of points whose point prediction violates (the paper's tables).
        draws_unproved: share of draws that are not proved to satisfy it everywhere: an upper bound on
            `draws_violating`; None where no proof was asked for.
        worst_point: where `epsilon_worst` is, in raw units.
        worst_others: of rules that compare several inputs: what differs in the others from `worst_point`.
        worst_how: on which draws it was found and estimated.
        mass_outside: class rules: mean predictive probability outside the allowed classes.
        divergences: rules judged by all draws together: by name, instead of the four figures.
        groups: figures by group, where a column was named.
        by_construction: whether the weights of every kept draw show that no input violates it; then its
            figures are 0, and `draws_unproved` too.
        counts_rows: whether intervals also count that other rows of the table could have been drawn, as they
            do for rules about groups of rows.
        error: standard error of `violation` from having these draws and no others.
        error_of_points: the same from having tried these points and no others.
    """

    name: str
    text: str
    tolerance: float
    verdict: Verdict
    points: int
    points_found: int = 0
    asked: Level = "on average"
    levels: dict[Level, Attempt] = field(default_factory=dict)
    epsilon_mean: Figure | None = None
    epsilon_worst: Figure | None = None
    draws_violating: Figure | None = None
    points_violating: Figure | None = None
    draws_unproved: Figure | None = None
    worst_point: dict[str, object] = field(default_factory=dict)
    worst_others: tuple[dict[str, object], ...] = ()
    worst_how: str = ""
    mass_outside: Figure | None = None
    divergences: dict[str, Divergence] = field(default_factory=dict)
    groups: tuple[GroupFigures, ...] = ()
    by_construction: bool = False
    counts_rows: bool = False
    error: float = 0.0
    error_of_points: float = 0.0

    @property
    def measure(self) -> str:
        """What `violation` is: "violation", or for a rule judged by all draws together "total variation"."""
        return "violation" if self.epsilon_mean is not None else "total variation"

    @property
    def violation(self) -> Figure:
        """The figure that the verdict is about: on average over the region, in the worst case, or by proof.

        Where a proof is asked for and was not made, it is the worst case found.
        """
        if self.asked == "proved" and self.draws_unproved is not None:
            return self.draws_unproved
        return self.average if self.asked == "on average" else self.worst

    @property
    def average(self) -> Figure:
        """`epsilon_mean`, or the mean total variation."""
        return headline(self.epsilon_mean, {name: each.mean for name, each in self.divergences.items()})[1]

    def at(self, level: Level) -> Attempt:
        """The verdict at a level."""
        return self.levels.get(level, self.verdict if level == self.asked else "not attempted")

    @property
    def worst(self) -> Figure:
        """The same at the worst point found."""
        if self.epsilon_worst is not None:
            return self.epsilon_worst
        value = self.divergences["total_variation"].worst
        return Figure(value, math.nan, math.nan, math.nan)

    def shown_within(self, tolerance: float) -> bool:
        """Whether a pilot has seen enough: the violation is within the tolerance with two errors to spare.

        Both errors: other draws, and other points, for a rule may be violated in few places and often there.
        Where no violation was seen the error says nothing; then 3/n is what n draws leave possible (95%), but
        never more than half of the tolerance: few particles could not show any rule to be kept, and more
        strength than this would only make them stiffer. The verdict on the kept draws does not bend so.
        """
        seen = self.violation
        possible = 3.0 / max(seen.effective, 1.0) if seen.value == 0.0 else 0.0
        spare = 2.0 * math.hypot(self.error, self.error_of_points)
        return seen.value + max(spare, min(possible, 0.5 * tolerance)) <= tolerance

    def shown_beyond(self, tolerance: float) -> bool:
        """Whether a pilot has seen enough: the violation is beyond the tolerance with two errors to spare."""
        return self.violation.value - 2.0 * math.hypot(self.error, self.error_of_points) > tolerance

    def __str__(self) -> str:
        where = ", holds by construction" if self.by_construction else f" {IN_WORDS[self.asked]}"
        head = (
            f"{self.name}: {self.verdict}{where} (tolerance {self.tolerance:g}, {self.points:,} fresh points"
        )
        head += f" and {self.points_found} found by ascent)" if self.points_found else ")"
        lines = [head]
        if self.levels:
            lines.append("  " + "; ".join(f"{level}: {self.at(level)}" for level in LEVELS))
        for label in FIGURES:
            figure = getattr(self, label)
            if figure is not None:
                lines.append(f"  {label} {figure}")
        if self.counts_rows:
            lines.append(f"  {COUNTS_ROWS}")
        lines += [f"  {name} {each.mean}, worst {each.worst:.3g}" for name, each in self.divergences.items()]
        if self.worst_point:
            cases = (self.worst_point, *self.worst_others)
            words = (", ".join(f"{name} = {value}" for name, value in each.items()) for each in cases)
            where = ", against ".join(words)
            lines.append(f"  worst at {where} ({self.worst_how})")
        for group in self.groups:
            label, figure = headline(group.epsilon_mean, group.divergences)
            lines.append(f"  {group.group} ({group.points:,} points): {label} {figure}")
        return "\n".join(lines)


def rule_figures(check: RuleCheck) -> list[tuple[str, Figure]]:
    """The figures that a check of a rule judged draw by draw has, in words."""
    found = [(words, getattr(check, name)) for name, words in FIGURES.items()]
    return [(words, figure) for words, figure in found if figure is not None]


def headline(epsilon_mean: Figure | None, divergences: Mapping[str, Figure]) -> tuple[str, Figure]:
    """The figure that a verdict is about, with its name."""
    if epsilon_mean is not None:
        return "epsilon_mean", epsilon_mean
    return "total_variation", divergences["total_variation"]


Found = TypeVar("Found", bound=Any)


@dataclass(frozen=True, eq=False)
class OfRules(Generic[Found]):
    """What is found of every rule, by place, name or text; iterates over the rules."""

    rules: tuple[Found, ...]

    def __iter__(self) -> Iterator[Found]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, rule: int | str) -> Found:
        if isinstance(rule, int):
            return self.rules[rule]
        for each in self.rules:
            if rule in (each.name, each.text):
                return each
        raise KeyError(rule)


@dataclass(frozen=True, eq=False)
class RuleChecks(OfRules[RuleCheck]):
    """The check of every rule, and of all together; iterates over the rules."""

    overall: RuleCheck | None

    @property
    def met(self) -> bool:
        """Whether every rule is shown to be met."""
        return all(each.verdict == "met" for each in self.rules)

    def __str__(self) -> str:
        return "\n".join(str(each) for each in (*self.rules, *([self.overall] if self.overall else [])))


IN_WORDS: dict[Level, str] = {
    "on average": "on average",
    "worst case found": "in the worst case found",
    "proved": "by proof",
}


def together(verdicts: Iterable[Attempt]) -> Attempt:
    """Of several rules: met where all are, unmet where any is."""
    seen = set(verdicts)
    for each in ("unmet", "not attempted", "not shown at this tolerance"):
        if each in seen:
            return each
    return "met"


def verdict(figure: Figure, tolerance: float) -> Verdict:
    """Met where the whole interval is within the tolerance, unmet where all of it is beyond, or no number."""
    if figure.high <= tolerance:
        return "met"
    return "not shown at this tolerance" if figure.low <= tolerance else "unmet"
