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
from jaxtyping import Float

from ocbnn.plots.style import DATA, FORBIDDEN, INK, MARKERS, MET, ROLES, WITH, WITHOUT
from ocbnn.posterior.draws import Posterior, as_coded, function_draws

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Interval = tuple[float, float]
CLASS_COLOURS = {"red": "#d55e00", "green": "#009e73", "blue": "#0072b2", 0: "#0072b2", 1: "#e69f00"}
GRID = 121
CERTAIN = 0.75
"""A class is shaded where its predicted probability is above this (figure 2's threshold)."""
STYLE: Any = {
    "font.size": 9.0,
    "font.family": "sans-serif",
    "text.color": INK,
    "text.parse_math": False,
    "axes.labelcolor": INK,
    "axes.edgecolor": ROLES["muted"],
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
    "grid.color": ROLES["grid"],
    "grid.linewidth": 0.6,
    "xtick.color": ROLES["muted"],
    "ytick.color": ROLES["muted"],
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
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


def draw(
    out: Path, name: str, panels: Sequence[Callable[[Axes], None]], *, size: tuple[float, float] = (3.6, 3.0)
) -> None:
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
    colour = WITHOUT if baseline else WITH
    values = function_draws(posterior, as_coded(posterior, x))
    at = x["x"].to_numpy()
    for coverage, alpha in ((0.95, 0.18), (0.5, 0.25)):
        low, high = np.quantile(values, [0.5 - coverage / 2, 0.5 + coverage / 2], axis=0)
        ax.fill_between(at, low, high, color=colour, alpha=alpha, lw=0)
    ax.plot(at, values.mean(axis=0), color=colour, ls="--" if baseline else "-", label=label)


def draw_particles(
    ax: Axes, posterior: Posterior, x: pd.DataFrame, label: str, *, baseline: bool = False
) -> None:
    """Every particle as a curve."""
    colour = WITHOUT if baseline else WITH
    values = function_draws(posterior, as_coded(posterior, x))
    lines = ax.plot(x["x"].to_numpy(), values.T, color=colour, lw=0.7, alpha=0.5)
    lines[0].set_label(label)


def draw_rows(ax: Axes, frame: pd.DataFrame) -> None:
    """The rows, on a line."""
    ax.plot(frame["x"], frame["y"], ls="none", marker="o", ms=4.5, color=DATA, zorder=4, label="data")


def forbid(ax: Axes, across: Interval, up: Iterable[Interval], label: str = "forbidden") -> None:
    """Forbidden outputs over an interval of inputs; an end at infinity is that of the axes."""
    bottom, top = ax.get_ylim()
    for index, (low, high) in enumerate(up):
        ax.fill_between(
            across,
            max(low, bottom),
            min(high, top),
            facecolor="#d55e0033",
            edgecolor=FORBIDDEN,
            hatch="////",
            lw=0.8,
            zorder=3,
            label=label if index == 0 else None,
        )


def ask(ax: Axes, across: Interval, label: str | None = "a rule applies") -> None:
    """Inputs for which something is asked, as a green band from bottom to top."""
    ax.axvspan(*across, color=MET, alpha=0.2, lw=0, label=label)


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
    """The legend, each label once."""
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles, labels, **{"loc": "lower center", "handlelength": 1.5, **options})


def plane(across: Interval, up: Interval, count: int = GRID) -> pd.DataFrame:
    """Inputs of a picture in two dimensions, row by row from below."""
    x1, x2 = np.meshgrid(np.linspace(*across, count), np.linspace(*up, count))
    return pd.DataFrame({"x1": x1.ravel(), "x2": x2.ravel()})


def class_probabilities(posterior: Posterior, at: pd.DataFrame) -> Float[np.ndarray, "n classes"]:
    """Posterior mean probabilities."""
    blocks = [
        function_draws(posterior, as_coded(posterior, part)).mean(axis=0)
        for part in (at.iloc[start : start + 2048] for start in range(0, len(at), 2048))
    ]
    return np.concatenate(blocks)


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
    ax.imshow(
        image.reshape(count, count, 4),
        origin="lower",
        extent=(*across, *up),
        aspect="auto",
        interpolation="nearest",
    )
    ax.grid(visible=False)
    if frame is None:
        return
    for index, label in enumerate(posterior.classes):
        rows = frame[frame["y"] == label]
        ax.plot(
            rows["x1"],
            rows["x2"],
            ls="none",
            marker=MARKERS[index],
            ms=5,
            color=CLASS_COLOURS[label],
            mec=INK,
            mew=0.7,
            label=str(label),
        )


def outline(ax: Axes, across: Interval, up: Interval, colour: str, label: str | None = None) -> None:
    """A rule's rectangle."""
    ax.add_patch(
        mpl.patches.Rectangle(
            (across[0], up[0]),
            across[1] - across[0],
            up[1] - up[0],
            fill=False,
            ec=colour,
            lw=1.6,
            label=label,
        )
    )
