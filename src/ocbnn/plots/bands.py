"""Predictive bands along one column, with data, rules and, for comparison, another posterior's mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ocbnn.checking.check import Rule
from ocbnn.plots.slices import COVERAGE, Curve, Kind, RuledZone, Slice, sliced
from ocbnn.plots.style import (
    CLASSES,
    DASHES,
    DATA,
    FORBIDDEN,
    LONGEST_ENTRY,
    LONGEST_LABEL,
    MARKERS,
    MUTED,
    REGION,
    WITH,
    WITHOUT,
    axes_of,
    shortened,
    styled,
    with_unit,
)
from ocbnn.posterior.draws import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def predictive_band(
    posterior: Posterior,
    column: str,
    *,
    at: Mapping[str, Any] | None = None,
    data: pd.DataFrame | None = None,
    rules: Sequence[Rule] | None = None,
    coverage: float | Sequence[float] = COVERAGE,
    kind: Kind = "function",
    without: Posterior | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what the posterior says along a column: its mean, bands, and where rules apply.

    Args:
        posterior: draws of a posterior, or of a prior.
        column: the horizontal axis.
        at: raw values of the other columns; those not named are at the middle of the data.
        data: rows to draw as points, with the target among the columns.
        rules: to mark; the model's own unless given.
        coverage: of the bands, one or several.
        kind: "function" for what rules speak of, "observation" with the noise of a new value.
        without: another posterior, such as the one without rules, to draw as a dashed line.
        ax: where to draw; new axes unless given.
    """
    shown = sliced(posterior, column, at=at, rules=rules, coverage=coverage, kind=kind)
    other = None
    if without is not None:
        span = None if shown.labels else (shown.positions[0], shown.positions[-1])
        other = sliced(without, column, at=at, rules=(), coverage=(), kind=kind, span=span)
    ax = draw_slice(shown, other, ax=ax)
    if data is not None:
        with styled():
            _draw_data(ax, posterior, column, data)
            _legend(ax)
    return ax


def draw_slice(
    shown: Slice,
    other: Slice | None = None,
    *,
    other_label: str = "without the rules",
    ax: Axes | None = None,
) -> Axes:
    """Draw a slice and, dashed, the means of another one along the same column."""
    with styled():
        ax = axes_of(ax)
        extent = _extent(shown, other)
        for index, zone in enumerate(shown.zones):
            _draw_zone(ax, shown, zone, extent, first=index == 0)
        for index, curve in enumerate(shown.curves):
            _draw_curve(ax, shown, curve, _look(index, len(shown.curves)))
        for index, curve in enumerate(() if other is None else other.curves):
            assert other is not None
            several = len(other.curves) > 1
            colour = _look(index, len(other.curves))[0] if several else WITHOUT
            _draw_other(ax, other, curve, colour, other_label if index == 0 else None)
        if not shown.discrete:
            for number, end in enumerate(shown.observed):
                if shown.positions[0] < end < shown.positions[-1]:
                    ax.axvline(
                        end, color=MUTED, lw=0.8, ls=(0, (1, 2)), label=_once("ends of the data", number)
                    )
        _label(ax, shown, extent)
    return ax


def _extent(shown: Slice, other: Slice | None) -> tuple[float, float]:
    """How far the vertical axis goes: as far as both slices do."""
    if _is_probability(shown):
        return -0.02, 1.02
    ends = (
        [*shown.extent, *(value for curve in other.curves for value in curve.mean)] if other else shown.extent
    )
    return min(ends), max(ends)


def _look(index: int, count: int) -> tuple[str, Any, str]:
    """Colour, dashes and marker of a curve."""
    if count == 1:
        return WITH, "-", "o"
    return CLASSES[index % len(CLASSES)], DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)]


def _draw_curve(ax: Axes, shown: Slice, curve: Curve, look: tuple[str, Any, str]) -> None:
    colour, dashes, marker = look
    x = np.array(shown.positions)
    if not shown.discrete:
        # Bands of several classes lie on top of one another: the widest alone, and pale.
        several = len(shown.curves) > 1
        for low, high in curve.bands[-1:] if several else curve.bands:
            ax.fill_between(x, low, high, color=colour, alpha=0.1 if several else 0.22, lw=0)
        ax.plot(x, curve.mean, color=colour, ls=dashes, label=curve.label)
        return
    for width, (low, high) in zip(_widths(len(curve.bands)), curve.bands, strict=True):
        ax.vlines(x, low, high, color=colour, lw=width, alpha=0.45)
    ax.plot(x, curve.mean, color=colour, ls="none", marker=marker, label=curve.label)


def _widths(count: int) -> list[float]:
    return [max(5.0 - 3.0 * index, 1.5) for index in range(count)]


def _draw_other(ax: Axes, other: Slice, curve: Curve, colour: str, label: str | None) -> None:
    look: dict[str, Any] = {"ls": (0, (4, 2)), "lw": 1.6 if len(other.curves) == 1 else 0.9}
    if other.discrete:
        look = {"ls": "none", "marker": "D", "mfc": "none"}
    ax.plot(other.positions, curve.mean, color=colour, label=label, **look)


def _draw_zone(ax: Axes, shown: Slice, zone: RuledZone, extent: tuple[float, float], *, first: bool) -> None:
    x, inside = np.array(shown.positions), np.array(zone.inside)
    where: Any = inside
    if shown.discrete:
        for position in x[inside]:
            ax.axvspan(
                position - 0.4,
                position + 0.4,
                color=REGION,
                alpha=0.16,
                lw=0,
                label=_once("a rule applies", int(not first)),
            )
            first = False
    else:
        ax.fill_between(
            x,
            0.0,
            1.0,
            where=where,
            color=REGION,
            alpha=0.16,
            lw=0,
            transform=ax.get_xaxis_transform(),
            label=_once("a rule applies", int(not first)),
        )
    for index, band in enumerate(zone.forbidden):
        # What has no end in the slice has none in the picture.
        low = np.where(np.equal(band[0], shown.extent[0]), extent[0], band[0])
        high = np.where(np.equal(band[1], shown.extent[1]), extent[1], band[1])
        look: dict[str, Any] = {
            "facecolor": "none",
            "edgecolor": FORBIDDEN,
            "hatch": "////",
            "alpha": 0.8,
            "lw": 0.0,
            "label": _once("forbidden there", int(bool(index) or zone is not shown.zones[0])),
        }
        if shown.discrete:
            some = inside & (high > low)
            ax.bar(x[some], (high - low)[some], 0.8, low[some], **look)
        else:
            where = inside & (high > low)
            ax.fill_between(x, low, high, where=where, **look)


def _once(label: str, index: int) -> str | None:
    return label if index == 0 else None


def _label(ax: Axes, shown: Slice, extent: tuple[float, float]) -> None:
    ax.set_xlabel(with_unit(shown.column, shown.unit))
    ax.set_ylabel(with_unit(shown.quantity, shown.quantity_unit if not _is_probability(shown) else None))
    ax.set_ylim(extent)
    if shown.labels:
        most = max(LONGEST_LABEL // len(shown.labels), 3)
        ax.set_xticks(shown.positions, [shortened(label, most) for label in shown.labels])
    elif shown.discrete:
        ax.set_xticks(shown.positions, [f"{value:g}" for value in shown.positions])
    else:
        ax.set_xlim(shown.positions[0], shown.positions[-1])
    _legend(ax)


def _legend(ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    labels = [shortened(label, LONGEST_ENTRY) for label in labels]
    ax.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2)


def _is_probability(shown: Slice) -> bool:
    return shown.extent == (0.0, 1.0) and shown.curves[0].label.startswith("P(")


def _draw_data(ax: Axes, posterior: Posterior, column: str, data: pd.DataFrame) -> None:
    """Draw rows as points: at y, of two classes at 0 and 1, of more in a line for each class at the top."""
    target = posterior.target
    x = posterior.schema.encode(data)[:, posterior.schema.index(column)]
    y = target.to_model(data[target.name])
    points: dict[str, Any] = {"ls": "none", "ms": 4, "mfc": "none", "zorder": 3}
    if len(target.classes) > 2:
        for index in range(len(target.classes)):
            colour, _, marker = _look(index, len(target.classes))
            some, height = x[y == index], 1.0 - 0.035 * index
            ax.plot(some, np.full(len(some), height), marker=marker, mec=colour, **points)
        return
    heights = y.astype(float) if target.classes else target.to_raw(y)
    ax.plot(x, heights, marker="o", mec=DATA, label="data", **points)
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, heights.min()), max(high, heights.max()))
