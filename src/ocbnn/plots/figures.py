"""Pictures of figures: rules beside their tolerances, changes, priors, rejection, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ocbnn.checking.results import RuleChecks
from ocbnn.errors import OCBNNError
from ocbnn.plots.slices import COVERAGE, Kind, sliced
from ocbnn.plots.style import (
    CLASSES,
    DASHES,
    INK,
    LONGEST_ENTRY,
    LONGEST_LABEL,
    MARKERS,
    MUTED,
    VERDICTS,
    WITH,
    WITHOUT,
    axes_of,
    name_rows,
    shortened,
    styled,
    with_unit,
)
from ocbnn.posterior.calibration import Calibration
from ocbnn.posterior.draws import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SMALLEST = 1e-4
"""Shares below this are drawn at it: the axis is logarithmic, since tolerances are small."""


@dataclass(frozen=True)
class RuleFigure:
    """A rule's line: its violation with an interval, its tolerance, and the violation without the rules."""

    name: str
    verdict: str
    tolerance: float
    value: float
    low: float
    high: float
    without: float | None = None


def satisfaction(report: RuleChecks, without: RuleChecks | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw each rule's violation with its interval, beside its tolerance and, if given, without the rules."""
    lines = []
    for index, each in enumerate(report):
        figure = each.violation
        other = None if without is None else without[index].violation.value
        lines.append(
            RuleFigure(each.name, each.verdict, each.tolerance, figure.value, figure.low, figure.high, other)
        )
    return draw_rules(lines, ax=ax)


def draw_rules(lines: Sequence[RuleFigure], *, ax: Axes | None = None) -> Axes:
    """Draw rules' lines, the first on top."""
    with styled():
        ax = axes_of(ax)
        for place, line in enumerate(lines):
            colour, marker = VERDICTS[line.verdict]
            value, low, high = (max(number, SMALLEST) for number in (line.value, line.low, line.high))
            ax.plot([low, min(high, 1.0)], [place, place], color=colour, lw=2.2, solid_capstyle="butt")
            ax.plot(value, place, color=colour, marker=marker, ms=7, ls="none", label=_new(ax, line.verdict))
            ax.plot(
                [max(line.tolerance, SMALLEST)] * 2,
                [place - 0.14, place + 0.2],
                color=INK,
                lw=1.6,
                label=_new(ax, "accepted at most"),
            )
            if line.without is not None:
                ax.plot(
                    max(line.without, SMALLEST),
                    place,
                    color=WITHOUT,
                    marker="D",
                    mfc="none",
                    ls="none",
                    label=_new(ax, "without the rules"),
                )
        _axis(ax, [line.name for line in lines])
    return ax


def _new(ax: Axes, label: str) -> str | None:
    """The label where the legend does not have it yet."""
    return None if label in ax.get_legend_handles_labels()[1] else label


def _axis(ax: Axes, names: Sequence[str]) -> None:
    ax.set_xscale("log")
    ax.set_xlim(SMALLEST * 0.8, 1.25)
    ax.set_xticks(
        [SMALLEST, 1e-3, 1e-2, 1e-1, 1.0], ["0.01 %\nor less", "0.1 %", "1 %", "10 %", "100 %"], minor=False
    )
    ax.minorticks_off()
    name_rows(ax, names)
    ax.set_xlabel("share of cases broken")
    if names:
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2)


@dataclass(frozen=True)
class Shift:
    """A mean prediction without and with the rules, over some cases."""

    label: str
    without: float
    with_rules: float


def changes(
    shifts: Sequence[Shift],
    quantity: str,
    *,
    unit: str | None = None,
    probability: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw an arrow for each shift, from the mean without the rules to the mean with them."""
    with styled():
        ax = axes_of(ax)
        for place, shift in enumerate(shifts):
            first = place == 0
            ax.annotate(
                "",
                (shift.with_rules, place),
                (shift.without, place),
                arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.0, "shrinkA": 4, "shrinkB": 4},
            )
            ax.plot(
                shift.without,
                place,
                color=WITHOUT,
                marker="D",
                mfc="none",
                ls="none",
                label="without the rules" if first else None,
            )
            ax.plot(
                shift.with_rules,
                place,
                color=WITH,
                marker="o",
                ms=6,
                ls="none",
                label="with the rules" if first else None,
            )
        name_rows(ax, [shift.label for shift in shifts])
        if probability:
            ax.set_xlim(-0.03, 1.03)
        ax.set_xlabel(f"mean {with_unit(quantity, unit)}")
        if shifts:
            ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2)
    return ax


def prior_and_posterior(
    prior: Posterior,
    posterior: Posterior,
    column: str,
    *,
    at: Mapping[str, Any] | None = None,
    coverage: float = COVERAGE[-1],
    kind: Kind = "function",
    ax: Axes | None = None,
) -> Axes:
    """Draw the bands of both along a column; of several classes, the first one's.

    Args:
        prior: draws before the data.
        posterior: draws after them.
        column: the horizontal axis.
        at: raw values of the other columns; those not named are at the middle of the data.
        coverage: of the band.
        kind: "function" for what rules speak of, "observation" with the noise of a new value.
        ax: where to draw; new axes unless given.
    """
    both: Sequence[tuple[Posterior, str, str, Any, str]] = (
        (prior, "prior", WITHOUT, (0, (4, 2)), ".."),
        (posterior, "posterior", WITH, "-", ""),
    )
    with styled():
        ax = axes_of(ax)
        for draws, label, colour, dashes, hatch in both:
            shown = sliced(draws, column, at=at, rules=(), coverage=(coverage,), kind=kind)
            (curve, *_), x = shown.curves, shown.positions
            ((low, high),) = curve.bands
            ax.fill_between(x, low, high, facecolor=colour, edgecolor=colour, hatch=hatch, alpha=0.2, lw=0)
            ax.plot(x, curve.mean, color=colour, ls=dashes, label=f"{label}, {coverage:.0%} band")
            unit = None if draws.classes else shown.quantity_unit
            ax.set_ylabel(with_unit(curve.label, unit))
            ax.set_xlabel(with_unit(shown.column, shown.unit))
            if shown.labels:
                ax.set_xticks(x, [shortened(label, LONGEST_ENTRY) for label in shown.labels])
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2)
    return ax


def rejection_curve(
    points: Sequence[float],
    shares: Sequence[float] | Sequence[Sequence[float]],
    labels: Sequence[str] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of draws that break a rule, for priors with more and more points (paper, Figure 3c).

    Args:
        points: numbers of points.
        shares: one for each of them; several rows for several curves.
        labels: of the curves.
        ax: where to draw; new axes unless given.
    """
    rows = np.atleast_2d(np.asarray(shares, dtype=float))
    if rows.shape[1] != len(points) or (labels and len(labels) != len(rows)):
        raise OCBNNError(
            f"There are {len(points)} numbers of points and {len(labels)} labels, but shares of the shape "
            f"{rows.shape}; give one share for each number of points, and one label for each curve."
        )
    with styled():
        ax = axes_of(ax)
        for index, row in enumerate(rows):
            ax.plot(
                points,
                row,
                color=CLASSES[index % len(CLASSES)],
                marker=MARKERS[index % len(MARKERS)],
                ls=DASHES[index % len(DASHES)],
                label=labels[index] if labels else None,
            )
        ax.set_xscale("log")
        ax.set_xticks(points, [f"{value:,g}" for value in points])
        ax.minorticks_off()
        ax.set_ylim(0, max(1.0, float(np.nanmax(rows))) * 1.02)
        ax.set_xlabel("points in the rule's region")
        ax.set_ylabel("share of draws rejected")
        if labels:
            ax.legend()
    return ax


LOOKS = ((WITH, "o", "-"), (WITHOUT, "D", "--"), (CLASSES[3], "s", ":"), (CLASSES[4], "^", "-."))


def calibration(
    found: Calibration | Mapping[str, Calibration],
    *,
    looks: Sequence[tuple[str, str, str]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw observed shares, with their intervals, against what was predicted; on the diagonal is right.

    Args:
        found: one calibration, or several by their label.
        looks: colour, marker and line of each; those of models with and without rules unless given.
        ax: where to draw; new axes unless given.
    """
    several = {"": found} if isinstance(found, Calibration) else dict(found)
    with styled():
        ax = axes_of(ax)
        ax.plot([0, 1], [0, 1], color=MUTED, lw=1.0, ls=(0, (1, 2)), label="as it should be")
        for index, (label, each) in enumerate(several.items()):
            colour, marker, dashes = (looks or LOOKS)[index % len(looks or LOOKS)]
            predicted = np.array([b.predicted for b in each.bins])
            observed = np.array([b.observed for b in each.bins])
            ends = np.array([[b.observed - b.low, b.high - b.observed] for b in each.bins]).T
            ax.errorbar(
                predicted,
                observed,
                np.maximum(ends, 0.0),
                color=colour,
                marker=marker,
                ls=dashes,
                lw=1.2,
                elinewidth=1.0,
                capsize=2,
                label=f"{label or 'model'} ({each.rows:,} rows)",
            )
        what = next(iter(several.values())).what
        ax.set_xlabel(f"said: {shortened(what, LONGEST_LABEL)}")
        ax.set_ylabel("seen: share of rows")
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=1, borderaxespad=0.2)
    return ax
