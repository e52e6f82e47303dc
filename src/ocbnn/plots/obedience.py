"""How far rules are obeyed: one line for each rule, with its tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocbnn.plots.style import INK, VERDICTS, WITHOUT, axes_of, name_rows, styled
from ocbnn.posterior.figures import Figure
from ocbnn.posterior.satisfied import Satisfaction, SatisfactionReport

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


def satisfaction(
    report: SatisfactionReport, without: SatisfactionReport | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw each rule's violation with its interval, beside its tolerance and, if given, without the rules."""
    lines = []
    for index, each in enumerate(report):
        figure = headline(each)
        other = None if without is None else headline(without[index]).value
        lines.append(
            RuleFigure(each.name, each.verdict, each.tolerance, figure.value, figure.low, figure.high, other)
        )
    return draw_rules(lines, ax=ax)


def headline(found: Satisfaction) -> Figure:
    """The figure that the verdict is about: `epsilon_mean`, or the mean total variation."""
    if found.epsilon_mean is not None:
        return found.epsilon_mean
    return found.divergences["total_variation"].mean


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
