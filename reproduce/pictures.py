"""The paper's kinds of picture: bands, particles, class maps, with regions shaded; PNG and SVG.

Blue is the network under rules, grey the one without, as in the paper; what is forbidden is hatched, what is
asked for is green.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd

from ocbnn.plots import style
from ocbnn.posterior import Posterior, function_draws
from reproduce.runs import band, class_probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Interval = tuple[float, float]
Panel = Callable[["Axes"], None]
CLASS_COLOURS = {"red": "#d55e00", "green": "#009e73", "blue": "#0072b2", 0: "#0072b2", 1: "#e69f00"}
CERTAIN = 0.75
"""A class is shaded where its predicted probability is above this (figure 2's threshold)."""
STYLE: Any = {
    "font.size": 9.0,
    "font.family": "sans-serif",
    "text.color": style.INK,
    "text.parse_math": False,
    "axes.labelcolor": style.INK,
    "axes.edgecolor": style.ROLES["muted"],
    "axes.facecolor": "white",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.formatter.use_mathtext": False,
    "grid.color": style.ROLES["grid"],
    "grid.linewidth": 0.6,
    "xtick.color": style.ROLES["muted"],
    "ytick.color": style.ROLES["muted"],
    "xtick.labelcolor": style.INK,
    "ytick.labelcolor": style.INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "ocbnn",
    "svg.fonttype": "none",
}
"""Matplotlib's settings for these pictures; a fixed salt, so that the same picture is the same file."""


def draw(out: Path, name: str, panels: Sequence[Panel], *, size: tuple[float, float] = (3.6, 3.0)) -> None:
    """One picture of panels side by side, as `out/<name>.png` and `out/<name>.svg`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(size[0] * len(panels), size[1]), layout="constrained")
        FigureCanvasAgg(figure)
        for index, panel in enumerate(panels):
            panel(figure.add_subplot(1, len(panels), index + 1))
        figure.savefig(out / f"{name}.png", dpi=130, facecolor="white", metadata={"Software": None})
        figure.savefig(out / f"{name}.svg", facecolor="white", metadata={"Date": None})


def line(low: float, high: float, count: int = 201) -> pd.DataFrame:
    """Inputs of a picture in one dimension."""
    return pd.DataFrame({"x": np.linspace(low, high, count)})


def draw_band(ax: Axes, posterior: Posterior, x: pd.DataFrame, label: str, *, baseline: bool = False) -> None:
    """The mean of Φ with its central 50% and 95%."""
    colour = style.WITHOUT if baseline else style.WITH
    at = x["x"].to_numpy()
    for coverage, alpha in ((0.95, 0.18), (0.5, 0.25)):
        ax.fill_between(at, *band(posterior, x, coverage), color=colour, alpha=alpha, lw=0)
    means = function_draws(posterior, x).mean(axis=0)
    ax.plot(at, means, color=colour, ls="--" if baseline else "-", label=label)


def draw_particles(
    ax: Axes, posterior: Posterior, x: pd.DataFrame, label: str, *, baseline: bool = False
) -> None:
    """Every particle as a curve."""
    colour = style.WITHOUT if baseline else style.WITH
    lines = ax.plot(x["x"], function_draws(posterior, x).T, color=colour, lw=0.7, alpha=0.5)
    lines[0].set_label(label)


def draw_rows(ax: Axes, frame: pd.DataFrame) -> None:
    """The rows, on a line."""
    draw_points(ax, frame["x"], frame["y"], 0, "data", ms=4.5, color=style.DATA, zorder=4)


def forbid(ax: Axes, across: Interval, up: Iterable[Interval], label: str = "forbidden") -> None:
    """Forbidden outputs over an interval of inputs; an end at infinity is that of the axes."""
    bottom, top = ax.get_ylim()
    for index, (low, high) in enumerate(up):
        look: dict[str, Any] = {"facecolor": "#d55e0033", "edgecolor": style.FORBIDDEN, "hatch": "////"}
        name = label if index == 0 else None
        ax.fill_between(across, max(low, bottom), min(high, top), lw=0.8, zorder=3, label=name, **look)


def ask(ax: Axes, across: Interval, label: str | None = "a rule applies") -> None:
    """Inputs for which something is asked, as a green band from bottom to top."""
    ax.axvspan(*across, color=style.MET, alpha=0.2, lw=0, label=label)


def frame_axes(
    ax: Axes, title: str, across: Interval, up: Interval, labels: tuple[str, str] = ("x", "y")
) -> None:
    """Title and ends of the axes; to be called before `forbid`, which goes to the ends."""
    ax.set_title(title)
    ax.set_xlim(*across)
    ax.set_ylim(*up)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])


def key(ax: Axes, **options: Any) -> None:
    """The legend."""
    ax.legend(**{"loc": "lower center", "handlelength": 1.5, **options})


def functions(
    title: str,
    ruled: Posterior,
    baseline: Posterior | None = None,
    *,
    across: Interval,
    up: Interval,
    rows: pd.DataFrame | None = None,
    forbidden: tuple[Interval, Sequence[Interval]] | None = None,
    background: Panel | None = None,
    particles: bool = False,
    **legend: Any,
) -> Panel:
    """A panel of functions on a line, with and without rules.

    Args:
        title: of the panel.
        ruled: the network under rules.
        baseline: the one without.
        across: ends of the axis of inputs.
        up: ends of the axis of outputs.
        rows: to be shown as points.
        forbidden: inputs, and outputs that are forbidden there.
        background: paints first.
        particles: show every draw as a curve, in place of mean and bands.
        legend: where it is, as in `key`.
    """

    def paint(ax: Axes) -> None:
        show, x = draw_particles if particles else draw_band, line(*across)
        frame_axes(ax, title, across, up)
        if background is not None:
            background(ax)
        if baseline is not None:
            show(ax, baseline, x, "BNN", baseline=True)
        show(ax, ruled, x, "OC-BNN")
        if forbidden is not None:
            forbid(ax, *forbidden)
        if rows is not None:
            draw_rows(ax, rows)
        key(ax, **{"loc": "upper left", **legend})

    return paint


def plane(across: Interval, up: Interval, count: int) -> pd.DataFrame:
    """Inputs of a picture in two dimensions, row by row from below."""
    x1, x2 = np.meshgrid(np.linspace(*across, count), np.linspace(*up, count))
    return pd.DataFrame({"x1": x1.ravel(), "x2": x2.ravel()})


def draw_classes(
    ax: Axes, posterior: Posterior, frame: pd.DataFrame | None, across: Interval, up: Interval
) -> None:
    """Inputs shaded by their predicted class where it is certain enough, and the rows."""
    from matplotlib.colors import to_rgba

    count = 81
    probabilities = class_probabilities(posterior, plane(across, up, count))
    best = probabilities.argmax(axis=1)
    colours = np.array([to_rgba(CLASS_COLOURS[label], 0.45) for label in posterior.classes])
    image = np.where(
        (probabilities.max(axis=1) > CERTAIN)[:, None], colours[best], np.array(to_rgba("white", 1.0))
    )
    extent = (*across, *up)
    pixels = image.reshape(count, count, 4)
    ax.imshow(pixels, origin="lower", extent=extent, aspect="auto", interpolation="nearest")
    ax.grid(visible=False)
    if frame is None:
        return
    for index, label in enumerate(posterior.classes):
        rows = frame[frame["y"] == label]
        look = {"ms": 5, "color": CLASS_COLOURS[label], "mec": style.INK, "mew": 0.7}
        draw_points(ax, rows["x1"], rows["x2"], index, str(label), **look)


def draw_points(ax: Axes, x: Any, y: Any, index: int, label: str, **look: Any) -> None:
    """Points without a line, with the marker of one of several kinds."""
    ax.plot(x, y, ls="none", marker=style.MARKERS[index], label=label, **look)


def outline(ax: Axes, across: Interval, up: Interval, colour: str, label: str | None = None) -> None:
    """A rule's rectangle."""
    corner, width, height = (across[0], up[0]), across[1] - across[0], up[1] - up[0]
    ax.add_patch(mpl.patches.Rectangle(corner, width, height, fill=False, ec=colour, lw=1.6, label=label))
