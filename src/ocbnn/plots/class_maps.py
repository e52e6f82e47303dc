"""Class regions over two columns: the predicted class, and how sure the model is of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ocbnn.checking.check import Rule, as_rule_terms
from ocbnn.errors import OCBNNError
from ocbnn.plots.slices import reference_row, slice_positions
from ocbnn.plots.style import (
    CLASSES,
    INK,
    LONGEST_ENTRY,
    MARKERS,
    PAPER,
    axes_of,
    shortened,
    styled,
    with_unit,
)
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.predict import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = 81


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
        at: raw values of the other columns; those not named are at the middle of the data.
        data: rows to draw as points, with the target among the columns.
        rules: whose regions are outlined; the model's own unless given.
        ax: where to draw; new axes unless given.
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
    x, y = (np.linspace(low, high, GRID) for low, high in ends)
    coded = np.repeat(base[None], GRID * GRID, axis=0)
    across, up = np.meshgrid(x, y)
    for name, values in zip(columns, (across, up), strict=True):
        values = values if schema.column(name).kind == "continuous" else np.round(values)
        coded[:, schema.index(name)] = values.ravel()
    probabilities = predict(posterior, coded, levels=(), coverage=None).probabilities
    assert probabilities is not None
    with styled():
        ax = axes_of(ax)
        ax.grid(visible=False)
        ax.pcolormesh(
            x, y, _colours(probabilities).reshape(GRID, GRID, 4), shading="nearest", rasterized=True
        )
        for term in terms:
            inside = term.rule.region.contains(coded, schema).reshape(GRID, GRID).astype(float)
            if 0 < inside.mean() < 1:
                ax.contour(x, y, inside, levels=[0.5], colors=[INK], linewidths=1.2, linestyles="--")
        if data is not None:
            _draw_data(ax, posterior, columns, data)
        _key(ax, posterior)
        ax.set_xlim(x[0], x[-1])
        ax.set_ylim(y[0], y[-1])
        ax.set_xlabel(with_unit(columns[0], schema.column(columns[0]).unit))
        ax.set_ylabel(with_unit(columns[1], schema.column(columns[1]).unit))
    return ax


def _colours(probabilities: np.ndarray) -> np.ndarray:
    """The predicted class's colour, its opacity the probability beyond that of a coin among the classes."""
    from matplotlib.colors import to_rgb

    count = probabilities.shape[1]
    palette = np.array([to_rgb(CLASSES[index % len(CLASSES)]) for index in range(count)])
    best, sure = probabilities.argmax(axis=1), probabilities.max(axis=1)
    opacity = 0.08 + 0.72 * (sure - 1.0 / count) / (1.0 - 1.0 / count)
    return np.concatenate([palette[best], opacity[:, None]], axis=1)


def _draw_data(ax: Axes, posterior: Posterior, columns: tuple[str, str], data: pd.DataFrame) -> None:
    coded, target = posterior.schema.encode(data), posterior.target
    codes = target.to_model(data[target.name])
    for index in range(len(target.classes)):
        some = codes == index
        ax.plot(
            coded[some, posterior.schema.index(columns[0])],
            coded[some, posterior.schema.index(columns[1])],
            ls="none",
            marker=MARKERS[index % len(MARKERS)],
            mfc=CLASSES[index % len(CLASSES)],
            mec=PAPER,
            mew=0.8,
            ms=5.5,
        )


def _key(ax: Axes, posterior: Posterior) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            ls="none",
            marker=MARKERS[index % len(MARKERS)],
            color=CLASSES[index % len(CLASSES)],
            label=shortened(f"{posterior.target.name} = {label}", LONGEST_ENTRY),
        )
        for index, label in enumerate(posterior.classes)
    ]
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, borderaxespad=0.2)
