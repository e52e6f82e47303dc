"""Predictions over one column as bands, and over two as class regions, with data and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ocbnn.checking.check import Rule, as_rule_terms
from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.plots import style
from ocbnn.plots.slices import (
    COVERAGE,
    FUNCTIONS,
    Curve,
    Kind,
    PriorSlice,
    RuledZone,
    Slice,
    prior_sliced,
    reference_row,
    slice_positions,
    sliced,
)
from ocbnn.plots.style import axes_of, entry, legend, shortened, with_unit
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.predict import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAP = 81
"""Points of a map of classes along each axis."""


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
    """Draw the posterior's predictions along a column: mean, bands, and where rules apply.

    Args:
        posterior: draws of a posterior, or of a prior.
        column: the horizontal axis.
        at: raw values of the other columns; default: the middle of the data.
        data: rows to draw as points, with the target among the columns.
        rules: to mark; default: the model's own.
        coverage: of the bands, one or several.
        kind: "function" for what rules speak of, "observation" with the noise of a new value.
        without: another posterior, such as the one without rules, to draw as a dashed line.
        ax: where to draw; default: new axes.
    """
    shown = sliced(posterior, column, at=at, rules=rules, coverage=coverage, kind=kind)
    other = None
    if without is not None:
        span = None if shown.labels else (shown.positions[0], shown.positions[-1])
        other = sliced(without, column, at=at, rules=(), coverage=(), kind=kind, span=span)
    ax = draw_slice(shown, other, ax=ax)
    if data is not None:
        _draw_data(ax, posterior, column, data)
        legend(ax)
    return ax


def draw_slice(shown: Slice, other: Slice | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw a slice and, dashed, the means without the rules along the same column."""
    ax = axes_of(ax)
    extent = _extent(shown, other)
    for index, zone in enumerate(shown.zones):
        _draw_zone(ax, shown, zone, extent, first=index == 0)
    for index, curve in enumerate(shown.curves):
        _draw_curve(ax, shown, curve, index)
    several = len(shown.curves) > 1
    for index, curve in enumerate(() if other is None else other.curves):
        colour = _look(index, several)[0] if several else style.WITHOUT
        look: dict[str, Any] = {"ls": (0, (4, 2)), "lw": 0.9 if several else style.LINE}
        if shown.discrete:
            look = {**style.POINTS, "marker": "D", "mfc": "none"}
        ax.plot(shown.positions, curve.mean, color=colour, label=_once("without the rules", index), **look)
    if not shown.discrete:
        for index, end in enumerate(shown.observed):
            if shown.positions[0] < end < shown.positions[-1]:
                dots = (0, (1, 2))
                ax.axvline(end, color=style.MUTED, lw=0.8, ls=dots, label=_once("ends of the data", index))
    style.label(ax, with_unit(shown.column, shown.unit), with_unit(shown.quantity, shown.quantity_unit))
    ax.set_ylim(extent)
    if shown.discrete:
        most = max(style.LONGEST_LABEL // len(shown.positions), 3)
        names = [shortened(name, most) for name in shown.labels] or [f"{x:g}" for x in shown.positions]
        style.name_ticks(ax, shown.positions, names)
    else:
        ax.set_xlim(shown.positions[0], shown.positions[-1])
    legend(ax)
    return ax


def prior_functions(
    model: Model,
    column: str,
    *,
    at: Mapping[str, Any] | None = None,
    rules: Sequence[Rule] | None = None,
    functions: int = FUNCTIONS,
    key: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw functions of the base prior along a column, with their mean and bands, and where rules apply.

    They have seen neither rows nor rules. A rule has work to do where they often enter what it forbids.

    Args:
        model: whose base prior is drawn from; its rows do not matter.
        column: the horizontal axis.
        at: raw values of the other columns; default: the middle of the data.
        rules: to mark; default: the model's own.
        functions: how many are drawn singly.
        key: seed of the draws.
        ax: where to draw; default: new axes.
    """
    found = prior_sliced(model, column, at=at, rules=rules, functions=functions, key=key)
    return draw_prior(found, ax=ax)


def draw_prior(found: PriorSlice, *, ax: Axes | None = None) -> Axes:
    """Draw a slice of the base prior with its single functions, which may leave the axes."""
    ax = draw_slice(found.shown, ax=ax)
    look: dict[str, Any] = {"color": style.WITHOUT, "lw": 0.8, "alpha": 0.8, "zorder": 1.5}
    if found.shown.discrete:
        look |= {"marker": ".", "ms": 4.0}
    for index, function in enumerate(found.functions):
        ax.plot(found.shown.positions, function, label=_once("single functions", index), **look)
    legend(ax)
    return ax


def _extent(shown: Slice, other: Slice | None) -> tuple[float, float]:
    """How far the vertical axis goes: as far as both slices do."""
    if shown.is_probability:
        return -0.02, 1.02
    means = () if other is None else [value for curve in other.curves for value in curve.mean]
    return min(*shown.extent, *means), max(*shown.extent, *means)


def _look(index: int, several: bool) -> tuple[str, Any, str]:
    """Colour, dashes and marker of a curve."""
    return style.class_look(index) if several else (style.WITH, "-", "o")


def _draw_curve(ax: Axes, shown: Slice, curve: Curve, index: int) -> None:
    several = len(shown.curves) > 1
    colour, dashes, marker = _look(index, several)
    if shown.discrete:
        for place, (low, high) in enumerate(curve.bands):
            ax.vlines(shown.positions, low, high, color=colour, lw=max(5.0 - 3.0 * place, 1.5), alpha=0.45)
        name = entry(curve.label)
        ax.plot(shown.positions, curve.mean, color=colour, marker=marker, label=name, **style.POINTS)
        return
    # Bands of several classes lie on top of one another: the widest alone, and pale.
    for low, high in curve.bands[-1:] if several else curve.bands:
        ax.fill_between(shown.positions, low, high, color=colour, alpha=0.1 if several else 0.22, lw=0)
    ax.plot(shown.positions, curve.mean, color=colour, ls=dashes, lw=style.LINE, label=entry(curve.label))


def _draw_zone(ax: Axes, shown: Slice, zone: RuledZone, extent: tuple[float, float], *, first: bool) -> None:
    x, inside = np.array(shown.positions), np.array(zone.inside)
    ground: dict[str, Any] = {"color": style.REGION, "alpha": 0.16, "lw": 0}
    applies = "a rule applies" if first else None
    if shown.discrete:
        for index, position in enumerate(x[inside]):
            ax.axvspan(position - 0.4, position + 0.4, label=_once(applies, index), **ground)
    else:
        across: Any = ax.get_xaxis_transform()
        ax.fill_between(x, 0.0, 1.0, where=list(inside), transform=across, label=applies, **ground)
    for index, band in enumerate(zone.forbidden):
        # What has no end in the slice has none in the picture.
        low = np.where(np.equal(band[0], shown.extent[0]), extent[0], band[0])
        high = np.where(np.equal(band[1], shown.extent[1]), extent[1], band[1])
        some = inside & (high > low)
        hatched: dict[str, Any] = {"facecolor": "none", "edgecolor": style.FORBIDDEN, "hatch": "////"}
        name = _once("forbidden there" if zone is shown.zones[0] else None, index)
        look: dict[str, Any] = {**hatched, "alpha": 0.8, "lw": 0.0, "label": name}
        if shown.discrete:
            ax.bar(x[some], (high - low)[some], 0.8, low[some], **look)
        else:
            ax.fill_between(x, low, high, where=list(some), **look)


def _once(name: str | None, index: int) -> str | None:
    """A label for the first of several artists that look alike."""
    return name if index == 0 else None


def _draw_data(ax: Axes, posterior: Posterior, column: str, data: pd.DataFrame) -> None:
    """Draw rows as points: at y, of two classes at 0 and 1, of more in a line for each class at the top."""
    target = posterior.target
    x = posterior.schema.encode(data)[:, posterior.schema.index(column)]
    y = target.to_model(data[target.name])
    points: dict[str, Any] = {**style.POINTS, "ms": 4, "mfc": "none", "zorder": 3}
    if len(target.classes) > 2:
        for index in range(len(target.classes)):
            colour, _, marker = style.class_look(index)
            some, height = x[y == index], 1.0 - 0.035 * index
            ax.plot(some, np.full(len(some), height), marker=marker, mec=colour, **points)
        return
    heights = y.astype(float) if target.classes else target.to_raw(y)
    ax.plot(x, heights, marker="o", mec=style.DATA, label="data", **points)
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, heights.min()), max(high, heights.max()))


def class_regions(
    posterior: Posterior,
    columns: tuple[str, str],
    *,
    at: Mapping[str, Any] | None = None,
    data: pd.DataFrame | None = None,
    rules: Sequence[Rule] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the predicted class over two numeric columns: the paler, the less sure; rules' regions outlined.

    Args:
        posterior: of a classifier.
        columns: horizontal and vertical axis.
        at: raw values of the other columns; default: the middle of the data.
        data: rows to draw as points, with the target among the columns.
        rules: whose regions are outlined; default: the model's own.
        ax: where to draw; default: new axes.
    """
    schema = posterior.schema
    if not posterior.classes:
        raise OCBNNError("The target is a number, which has no class regions; draw predictive_band instead.")
    if isinstance(columns, str) or len(columns) != 2:
        raise OCBNNError(
            f"Class regions are drawn over two columns, such as ('age', 'dose'), not {columns!r}."
        )
    for name in columns:
        if schema.column(name).kind == "category":
            raise OCBNNError(f"Class regions need two numeric columns, but {name!r} is a category.")
    terms = as_rule_terms(posterior, rules)
    base = reference_row(schema, at)
    ends = [slice_positions(schema, name, base, [term.rule for term in terms])[[0, -1]] for name in columns]
    x, y = (np.linspace(low, high, MAP) for low, high in ends)
    coded = np.repeat(base[None], MAP * MAP, axis=0)
    for name, values in zip(columns, np.meshgrid(x, y), strict=True):
        values = values if schema.column(name).kind == "continuous" else np.round(values)
        coded[:, schema.index(name)] = values.ravel()
    probabilities = predict(posterior, coded, levels=(), coverage=None).probabilities
    assert probabilities is not None
    ax = axes_of(ax)
    ax.grid(visible=False)
    ax.pcolormesh(x, y, _colours(probabilities).reshape(MAP, MAP, 4), shading="nearest", rasterized=True)
    for term in terms:
        inside = term.rule.region.contains(coded, schema).reshape(MAP, MAP).astype(float)
        if 0 < inside.mean() < 1:
            ax.contour(x, y, inside, levels=[0.5], colors=[style.INK], linewidths=1.2, linestyles="--")
    _draw_classes(ax, posterior, columns, data)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(y[0], y[-1])
    style.label(ax, *(with_unit(name, schema.column(name).unit) for name in columns))
    return ax


def _colours(probabilities: np.ndarray) -> np.ndarray:
    """The predicted class's colour, its opacity the probability beyond that of a coin among the classes."""
    from matplotlib.colors import to_rgb

    count = probabilities.shape[1]
    palette = np.array([to_rgb(style.class_look(index)[0]) for index in range(count)])
    best, sure = probabilities.argmax(axis=1), probabilities.max(axis=1)
    opacity = 0.08 + 0.72 * (sure - 1.0 / count) / (1.0 - 1.0 / count)
    return np.concatenate([palette[best], opacity[:, None]], axis=1)


def _draw_classes(
    ax: Axes, posterior: Posterior, columns: tuple[str, str], data: pd.DataFrame | None
) -> None:
    """Rows as points of their class, and the legend of the classes."""
    from matplotlib.lines import Line2D

    target, handles = posterior.target, []
    for index, name in enumerate(target.classes):
        colour, _, marker = style.class_look(index)
        look: dict[str, Any] = {**style.POINTS, "marker": marker, "color": colour}
        handles.append(Line2D([], [], label=f"{target.name} = {name}", **look))
        if data is not None:
            some = data[target.to_model(data[target.name]) == index]
            places = [posterior.schema.encode(some)[:, posterior.schema.index(each)] for each in columns]
            ax.plot(*places, **look | {"mec": style.PAPER, "mew": 0.8, "ms": 5.5})
    legend(ax, 3, handles)
