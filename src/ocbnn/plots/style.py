"""One style for every picture: colours that people with any colour vision can tell apart, and no clutter.

Colours have roles, and a role is never shown by colour alone: lines differ in dashes, points in markers,
areas in hatching. The report replaces each role's colour by a variable of its page, so that pictures
follow the reader's choice of light or dark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# After Okabe and Ito (2008), "Color Universal Design"; greys apart.
INK, MUTED, GRID, PAPER = "#1f2328", "#656d78", "#d5d9df", "#fefefe"
WITH, WITHOUT, DATA = "#0072b2", "#7a7f8a", "#33383f"
REGION, FORBIDDEN = "#e69f00", "#d55e00"
MET, UNCLEAR, UNMET = "#009e73", "#b97d00", "#d55d01"

ROLES = {
    "ink": INK,
    "muted": MUTED,
    "grid": GRID,
    "paper": PAPER,
    "with": WITH,
    "without": WITHOUT,
    "data": DATA,
    "region": REGION,
    "forbidden": FORBIDDEN,
    "met": MET,
    "unclear": UNCLEAR,
    "unmet": UNMET,
}
"""Each role's colour on a light page; all of them differ, so that a colour says its role."""

CLASSES = ("#0072b3", "#e69e01", "#009e74", "#cc79a7", "#56b4e9", "#d55e01", "#a8a400")
"""Colours of classes, and of chains; with MARKERS, so that colour is not all that tells them apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))

VERDICTS = {
    "met": (MET, "o"),
    "not shown at this tolerance": (UNCLEAR, "D"),
    "unmet": (UNMET, "X"),
}
"""Colour and marker of each verdict."""

LONGEST_LABEL, LONGEST_ENTRY = 40, 24
"""Characters of an axis's label, and of a legend's entry beside another one; names may be of any length."""

SETTINGS: Any = {
    "font.size": 9.0,
    "font.family": "sans-serif",
    "text.color": INK,
    "text.parse_math": False,  # names are text: a column may be called "cost in $"
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.formatter.use_mathtext": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "hatch.linewidth": 0.6,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
}


@contextmanager
def styled() -> Iterator[None]:
    """Everything created inside looks as this library's pictures do; nothing outside changes."""
    with mpl.rc_context(SETTINGS):
        yield


def axes_of(ax: Axes | None) -> Axes:
    """The axes to draw on: those given, or new ones of the style. To be called inside `styled`."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(5.0, 3.4), layout="constrained")[1]


def with_unit(name: str, unit: str | None) -> str:
    """A quantity's name with its unit, where it has one, no longer than an axis."""
    if not unit:
        return shortened(name, LONGEST_LABEL)
    unit = shortened(unit, LONGEST_LABEL // 2)
    return f"{shortened(name, LONGEST_LABEL - len(unit))} ({unit})"


def shortened(text: str, most: int = 56) -> str:
    """Text that fits a line; what is cut is said to be."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Rows 0, 1, … from the top, each with its name above it: names beside the axes would leave no room."""
    for place, name in enumerate(names):
        ax.annotate(
            shortened(name),
            (0.0, place),
            (3, 7),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="bottom",
            fontsize=8.5,
        )
    ax.set_yticks([])
    ax.set_ylim(len(names) - 0.55, -0.8)
    ax.spines["left"].set_visible(False)
