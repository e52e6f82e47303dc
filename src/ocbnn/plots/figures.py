"""Pictures of figures: rules beside their tolerances, changes, priors, rejection, calibration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np

from ocbnn.checking.results import RuleCheck
from ocbnn.errors import OCBNNError
from ocbnn.plots import style
from ocbnn.plots.slices import COVERAGE, Kind, sliced
from ocbnn.plots.style import CLASSES, DASHES, INK, MARKERS, WITH, WITHOUT, axes_of, legend, with_unit
from ocbnn.posterior.calibration import Calibration
from ocbnn.posterior.draws import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SMALLEST = 1e-4
"""Shares below this are drawn at it: the axis is logarithmic, since tolerances are small."""
BEFORE: dict[str, Any] = {**style.POINTS, "color": WITHOUT, "marker": "D", "mfc": "none"}
"""A mark of the model without the rules."""


def satisfaction(
    checks: Iterable[RuleCheck],
    without: Iterable[RuleCheck | None] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw each rule's violation with its interval beside its tolerance, the first rule on top.

    Args:
        checks: of the rules, as `check_rules` gives them.
        without: checks of the same rules under a posterior without them.
        ax: where to draw; default: new axes.
    """
    ax, checks = axes_of(ax), tuple(checks)
    others = (None,) * len(checks) if without is None else tuple(without)
    for place, (check, other) in enumerate(zip(checks, others, strict=True)):
        colour, marker = style.VERDICTS[check.verdict]
        figure = check.violation
        low = SMALLEST if np.isnan(figure.low) else max(figure.low, SMALLEST)
        high = min(max(figure.high, SMALLEST), 1.0) if np.isfinite(figure.high) else 1.0
        ax.plot([low, high], [place, place], color=colour, lw=2.2, solid_capstyle="butt")
        look: dict[str, Any] = {**style.POINTS, "color": colour, "marker": marker, "ms": 7}
        ax.plot(
            max(figure.value, SMALLEST),
            place,
            label=_new(ax, check.verdict.removesuffix(" at this tolerance")),
            **look,
        )
        accepted = [max(check.tolerance, SMALLEST)] * 2
        name = _new(ax, "tolerance")
        ax.plot(accepted, [place - 0.14, place + 0.2], color=INK, lw=style.LINE, label=name)
        if other is not None:
            share = max(other.violation.value, SMALLEST)
            ax.plot(share, place, label=_new(ax, "without the rules"), **BEFORE)
    ax.set_xscale("log")
    ax.set_xlim(SMALLEST * 0.8, 1.25)
    shares = ["0.01%\nor less", "0.1%", "1%", "10%", "100%"]
    style.name_ticks(ax, [SMALLEST, 1e-3, 1e-2, 1e-1, 1.0], shares)
    style.name_rows(ax, [check.name for check in checks])
    ax.set_xlabel("share of checks violated", parse_math=False)
    legend(ax)
    return ax


def _new(ax: Axes, name: str) -> str | None:
    """The label where the legend does not have it yet."""
    return None if name in ax.get_legend_handles_labels()[1] else name


def changes(
    shifts: Sequence[tuple[str, float, float]],
    quantity: str,
    *,
    unit: str | None = None,
    probability: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw an arrow for each shift, from the mean without the rules to the mean with them.

    Args:
        shifts: a name, the mean prediction without the rules, and the mean with them.
        quantity: what the means are of.
        unit: of the quantity.
        probability: whether the axis goes from 0 to 1.
        ax: where to draw; default: new axes.
    """
    ax = axes_of(ax)
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 1.0, "shrinkA": 4, "shrinkB": 4, "mutation_scale": 9}
    for place, (_, before, after) in enumerate(shifts):
        ax.annotate("", (after, place), (before, place), arrowprops=arrow)
        ax.plot(before, place, label=_new(ax, "without the rules"), **BEFORE)
        look: dict[str, Any] = {**style.POINTS, "color": WITH, "marker": "o", "ms": 6}
        ax.plot(after, place, label=_new(ax, "with the rules"), **look)
    style.name_rows(ax, [name for name, _, _ in shifts])
    if probability:
        ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel(f"mean {with_unit(quantity, unit)}", parse_math=False)
    legend(ax)
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
        at: raw values of the other columns; default: the middle of the data.
        coverage: of the band.
        kind: "function" for what rules speak of, "observation" with the noise of a new value.
        ax: where to draw; default: new axes.
    """
    both: Sequence[tuple[Posterior, str, str, Any, str]] = (
        (prior, "prior", WITHOUT, (0, (4, 2)), ".."),
        (posterior, "posterior", WITH, "-", ""),
    )
    ax = axes_of(ax)
    for draws, name, colour, dashes, hatch in both:
        shown = sliced(draws, column, at=at, rules=(), coverage=(coverage,), kind=kind)
        (curve, *_), x = shown.curves, shown.positions
        ((low, high),) = curve.bands
        ax.fill_between(x, low, high, facecolor=colour, edgecolor=colour, hatch=hatch, alpha=0.2, lw=0)
        look: dict[str, Any] = {"color": colour, "ls": dashes, "lw": style.LINE}
        ax.plot(x, curve.mean, label=f"{name}, {coverage:.0%} band", **look)
        style.label(ax, with_unit(shown.column, shown.unit), with_unit(curve.label, shown.quantity_unit))
        if shown.labels:
            style.name_ticks(ax, x, [style.shortened(each, 20) for each in shown.labels])
    legend(ax, 1)
    return ax


def rejection_curve(
    points: Sequence[float],
    shares: Sequence[float] | Sequence[Sequence[float]],
    labels: Sequence[str] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of draws that violate a rule, for priors with more and more points (paper, Figure 3c).

    Args:
        points: numbers of points.
        shares: one for each of them; several rows for several curves.
        labels: of the curves.
        ax: where to draw; default: new axes.
    """
    rows = np.atleast_2d(np.asarray(shares, dtype=float))
    if rows.shape[1] != len(points) or (labels and len(labels) != len(rows)):
        raise OCBNNError(
            f"There are {len(points)} numbers of points and {len(labels)} labels, but shares of the shape "
            f"{rows.shape}; give one share for each number of points, and one label for each curve."
        )
    ax = axes_of(ax)
    for index, row in enumerate(rows):
        look: dict[str, Any] = {
            "color": CLASSES[index % len(CLASSES)],
            "marker": MARKERS[index % len(MARKERS)],
            "ls": DASHES[index % len(DASHES)],
        }
        name = style.entry(labels[index]) if labels else None
        ax.plot(points, row, lw=style.LINE, ms=5, mew=1, label=name, **look)
    ax.set_xscale("log")
    style.name_ticks(ax, points, [f"{value:,g}" for value in points])
    ax.set_ylim(0, max(1.0, float(np.nanmax(rows))) * 1.02)
    style.label(ax, "points in the rule's region", "share of draws rejected")
    legend(ax)
    return ax


LOOKS = ((WITH, "o", "-"), (WITHOUT, "D", "--"), (CLASSES[3], "s", ":"), (CLASSES[4], "^", "-."))


def calibration(
    found: Calibration | Mapping[str, Calibration],
    *,
    looks: Sequence[tuple[str, str, str]] = LOOKS,
    ax: Axes | None = None,
) -> Axes:
    """Draw observed shares, with their intervals, against what was predicted; on the diagonal is right.

    Args:
        found: one calibration, or several by their label.
        looks: colour, marker and line of each; default: those of models with and without rules.
        ax: where to draw; default: new axes.
    """
    several = {"model": found} if isinstance(found, Calibration) else found
    ax = axes_of(ax)
    ax.plot([0, 1], [0, 1], color=style.MUTED, lw=1.0, ls=(0, (1, 2)), label="perfectly calibrated")
    for index, (name, each) in enumerate(several.items()):
        colour, marker, dashes = looks[index % len(looks)]
        predicted, observed, low, high, _ = np.array([astuple(b) for b in each.bins]).T
        ax.errorbar(
            predicted,
            observed,
            np.maximum([observed - low, high - observed], 0.0),
            color=colour,
            marker=marker,
            ms=5,
            mew=1,
            ls=dashes,
            lw=1.2,
            elinewidth=1.0,
            capsize=2,
            capthick=1,
            label=f"{name} ({each.rows:,} rows)",
        )
    what = next(iter(several.values())).what
    style.label(ax, f"predicted: {style.shortened(what, style.LONGEST_LABEL)}", "observed: share of rows")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    legend(ax, 1)
    return ax
