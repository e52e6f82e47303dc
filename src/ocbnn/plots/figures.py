"""Pictures of figures: rules beside their tolerances, changes, priors, rejection, calibration, chains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ocbnn import regions
from ocbnn.checking.convergence import LEAST_DRAWS, mixing
from ocbnn.checking.results import RuleCheck
from ocbnn.errors import OCBNNError
from ocbnn.inference.diagnostics import APPROXIMATE, Criteria
from ocbnn.plots import style
from ocbnn.plots.slices import COVERAGE, Kind, sliced
from ocbnn.plots.style import CLASSES, DASHES, INK, WITH, WITHOUT, axes_of, legend, with_unit
from ocbnn.posterior.calibration import Calibration
from ocbnn.posterior.draws import Posterior, function_draws

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SMALLEST = 1e-4
"""Shares below this are drawn at it: the axis is logarithmic, since tolerances are small."""
BEFORE: dict[str, Any] = {**style.POINTS, "color": WITHOUT, "marker": "D", "mfc": "none"}
"""A mark of the model without the rules."""
PROBES, SHOWN_DRAWS = 64, 200
"""Inputs at which chains are compared, and draws of each chain that are drawn."""


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
        name = _new(ax, check.verdict.removesuffix(" at this tolerance"))
        ax.plot(max(figure.value, SMALLEST), place, label=name, **look)
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
        quantity: what is drawn, such as "mean y".
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


def case_curves(
    positions: Sequence[float],
    curves: Mapping[str, Sequence[Sequence[float | None]]],
    column: str,
    quantity: str,
    *,
    labels: Sequence[str] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw how a quantity goes with a column in several cases.

    Args:
        positions: values of the column.
        curves: by label ("with the rules", "without the rules"), one line for each case; None leaves a gap.
        column: the horizontal axis.
        quantity: the vertical one.
        labels: names of the positions, for a category.
        ax: where to draw; default: new axes.
    """
    ax = axes_of(ax)
    looks: Sequence[tuple[str, Any, str]] = ((WITH, "-", "o"), (WITHOUT, (0, (4, 2)), "D"))
    for (label, lines), (colour, dashes, marker) in zip(curves.items(), looks, strict=False):
        for place, line in enumerate(lines):
            heights = [np.nan if value is None else value for value in line]
            look: dict[str, Any] = {"color": colour, "ls": dashes, "lw": style.LINE, "alpha": 0.8}
            look |= {"marker": marker, "ms": 4} if len(positions) <= 12 else {}
            ax.plot(positions, heights, label=None if place else label, **look)
    style.label(ax, column, quantity)
    if labels:
        style.name_ticks(ax, positions, [style.shortened(each, 20) for each in labels])
    legend(ax)
    return ax


def group_means(
    groups: Sequence[str],
    means: Mapping[str, Sequence[Sequence[float]]],
    quantity: str,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw a mean, or a share, of each group, with its interval.

    Args:
        groups: their names, the first one on top.
        means: by label, for each group the mean and the ends of its interval.
        quantity: what is drawn, such as "mean y".
        ax: where to draw; default: new axes.
    """
    ax = axes_of(ax)
    looks = ((WITH, "o", 0.0), (WITHOUT, "D", 0.22))
    for (label, figures), (colour, marker, shift) in zip(means.items(), looks, strict=False):
        for place, (mean, low, high) in enumerate(figures):
            ax.plot([low, high], [place + shift] * 2, color=colour, lw=2.2, solid_capstyle="butt")
            look: dict[str, Any] = {**style.POINTS, "color": colour, "marker": marker, "ms": 6}
            ax.plot(mean, place + shift, label=None if place else label, **look)
    style.name_rows(ax, groups)
    ax.set_xlabel(quantity, parse_math=False)
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
        colour, dashes, marker = style.class_look(index)
        name = style.entry(labels[index]) if labels else None
        look: dict[str, Any] = {"color": colour, "marker": marker, "ls": dashes}
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
        reach = np.maximum([observed - low, high - observed], 0.0)
        look: dict[str, Any] = {"color": colour, "marker": marker, "ms": 5, "mew": 1, "ls": dashes, "lw": 1.2}
        bars: dict[str, Any] = {"elinewidth": 1.0, "capsize": 2, "capthick": 1}
        ax.errorbar(predicted, observed, reach, label=f"{name} ({each.rows:,} rows)", **look, **bars)
    what = next(iter(several.values())).what
    style.label(ax, f"predicted: {style.shortened(what, style.LONGEST_LABEL)}", "observed: share of rows")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    legend(ax, 1)
    return ax


# Chains -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChainFigures:
    """How chains go, at made-up inputs: points of the rules' regions and of the observed ranges.

    Attributes:
        quantity, unit: what was followed.
        rhat, effective: of every probe, in the order of R-hat; the first is the worst. Those without a bound
            are left out and counted: there may be none.
        traces: the quantity at the worst probe, one tuple for each chain, at evenly spaced draws.
        every: how many draws lie between two that are shown.
        unbounded: probes at which chains stand still at different values, so that R-hat has no bound.
        limit: of R-hat, by which the run was judged: engines that are not exact have a wider one.
    """

    quantity: str
    unit: str | None
    rhat: tuple[float, ...]
    effective: tuple[float, ...]
    traces: tuple[tuple[float, ...], ...]
    every: int
    unbounded: int = 0
    limit: float = Criteria().largest_rhat


def chain_figures(posterior: Posterior, probes: int = PROBES, seed: int = 0) -> ChainFigures | None:
    """Measure the chains; None for engines without chains, and for chains too short to judge."""
    chains, draws, _ = posterior.draws.shape
    if not posterior.has_chains or draws < LEAST_DRAWS:
        return None
    schema = posterior.schema
    everywhere = regions.sample(seed, regions.Everywhere(), schema, None, max(probes // 2, 1))
    parts = [everywhere]
    for rule in posterior.rules:
        count = max(probes // 2 // len(posterior.rules), 1)
        parts.append(regions.sample(seed, rule.rule.region, schema, None, count))
    every_draw = Posterior(posterior.draws, posterior.model)
    values = function_draws(every_draw, np.concatenate(parts))
    target = posterior.target
    quantity = target.name
    if target.classes:
        quantity = f"P({target.name} = {target.classes[-1]})"
        values = values[..., -1]
    values = values.reshape(chains, draws, -1)
    values = values[..., np.ptp(values, axis=(0, 1)) > 0]
    if not values.shape[2]:
        return None
    found = mixing(values)
    still = (np.ptp(values, axis=1) == 0).all(axis=0)  # rounding hides that R-hat has no bound there
    rhat = np.where(still | np.isnan(found.rhat), np.inf, found.rhat)
    order = np.argsort(-rhat, kind="stable")
    step = max(-(-draws // SHOWN_DRAWS), 1)
    return ChainFigures(
        quantity,
        None if target.classes else target.unit,
        _finite(rhat[order]),
        _finite(found.bulk_ess[order]),
        tuple(tuple(float(v) for v in chain) for chain in values[:, ::step, order[0]]),
        step,
        int(np.isinf(rhat).sum()),
        _criteria(posterior).largest_rhat,
    )


def _criteria(posterior: Posterior) -> Criteria:
    """What the run was judged by: only exact engines are said to converge, others to settle."""
    status = str(posterior.provenance.get("status") or "")
    return APPROXIMATE if status.startswith(("settled", "not settled")) else Criteria()


def _finite(values: np.ndarray) -> tuple[float, ...]:
    """Without R-hat that has no bound, and effective draws that cannot be known."""
    return tuple(float(value) for value in values if np.isfinite(value))


def diagnostics(found: ChainFigures | Posterior, *, ax: Axes | None = None) -> Axes:
    """Draw the quantity at the input where chains agree least, along every chain."""
    figures = _figures(found)
    ax, count = axes_of(ax), len(figures.traces)
    for index, trace in enumerate(figures.traces):
        draws = np.arange(len(trace)) * figures.every + 1
        colour, dashes, _ = style.class_look(index)
        dashes = dashes if count <= len(DASHES) else "-"
        name = f"chain {index + 1}" if count <= 4 else None
        ax.plot(draws, trace, color=colour, ls=dashes, lw=0.9, alpha=0.85, label=name)
    style.label(ax, "draw", with_unit(figures.quantity, figures.unit))
    legend(ax)
    return ax


def agreement(found: ChainFigures | Posterior, *, ax: Axes | None = None) -> Axes:
    """Draw R-hat at every probe in order, beside the line that it should stay below."""
    figures = _figures(found)
    limit = figures.limit
    ax = axes_of(ax)
    ax.plot(
        np.arange(1, len(figures.rhat) + 1), figures.rhat, color=WITH, marker="o", **style.POINTS | {"ms": 3}
    )
    ax.axhline(limit, color=INK, lw=1.2, ls="--")
    style.write_above(ax, f"should stay below {limit:g}", (0.02, limit), (0, 3), 8, style.MUTED)
    shown = (limit, *figures.rhat)
    ax.set_ylim(min(0.998, *shown), max(limit + 0.004, *(value + 0.002 for value in shown)))
    style.label(ax, "inputs tried, the worst first", "R-hat")
    return ax


def _figures(found: ChainFigures | Posterior) -> ChainFigures:
    figures = found if isinstance(found, ChainFigures) else chain_figures(found)
    if figures is None:
        raise OCBNNError(
            "There are no chains to compare: the engine has none, or they are too short. The posterior's "
            "provenance says what was checked instead."
        )
    return figures
