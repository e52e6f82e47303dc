"""One style for every picture: colours that people with any colour vision can tell apart, and no clutter.

Colours have roles, and a role is never shown by colour alone: lines differ in dashes, points in markers,
areas in hatching. The report replaces each role's colour by a variable of its page, so that pictures
follow the reader's choice of light or dark.

Looks are set on the axes and on what is drawn. Matplotlib's global settings are neither changed nor relied
upon: they belong to the user, and all threads share them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

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

VERDICTS = {"met": (MET, "o"), "not shown at this tolerance": (UNCLEAR, "D"), "unmet": (UNMET, "X")}
"""Colour and marker of each verdict."""

LONGEST_LABEL, LONGEST_ROW, LONGEST_ENTRY = 40, 48, {1: 40, 2: 17, 3: 17}
"""Characters of an axis's label, of a row's name, and of a legend's entry by the number of columns.

Counted in characters of average width. Longer text is shortened, so that the axes keep their room.
"""
USUAL_WIDTH = 0.6
"""Of a character, as a share of the size of the font."""
FONT = "DejaVu Sans"
"""It comes with Matplotlib, so text has the same size on every machine."""
TEXT: dict[str, Any] = {"parse_math": False, "usetex": False, "fontfamily": FONT, "color": INK}
"""Names are text and never formulas: a column may be called "cost in $"."""
LINE = 1.6
"""Width of lines, in points."""
POINTS: dict[str, Any] = {"ls": "none", "ms": 5.0, "mew": 1.0}
"""Markers without a line."""
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control characters, marks that turn the direction of writing, and what no file of text may hold."""


def axes_of(ax: Axes | None) -> Axes:
    """The axes to draw on: those given, or new ones of a new pyplot figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return dressed(pyplot.subplots(figsize=(5.0, 3.4), layout="constrained")[1])


def dressed(ax: Axes) -> Axes:
    """The axes with this library's looks, whatever the global settings are."""
    from matplotlib.ticker import ScalarFormatter

    ax.set(facecolor="none", axisbelow=True, xmargin=0.05, ymargin=0.05)
    ax.grid(visible=True, which="major", color=GRID, lw=0.6, ls="-", alpha=1.0, solid_capstyle="butt")
    for side, spine in ax.spines.items():
        spine.set(visible=side in ("left", "bottom"), edgecolor=MUTED, linewidth=0.8)
    ax.minorticks_off()
    ax.tick_params(direction="out", length=3.5, width=0.8, pad=3.5, color=MUTED, top=False, right=False)
    ax.tick_params(bottom=True, left=True, labelsize=8.0, labelcolor=INK, labelfontfamily=FONT)
    for axis in (ax.xaxis, ax.yaxis):
        axis.labelpad = 4.0
        axis.label.set(**TEXT, fontsize=9.0, fontweight="normal")
        axis.set_major_formatter(ScalarFormatter(useOffset=True, useMathText=False, useLocale=False))
    return ax


def class_look(index: int) -> tuple[str, Any, str]:
    """Colour, dashes and marker of a class, or of one of several curves."""
    return CLASSES[index % len(CLASSES)], DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)]


def label(ax: Axes, x: str, y: str) -> None:
    """Name both axes."""
    ax.set_xlabel(x, parse_math=False)
    ax.set_ylabel(y, parse_math=False)


def name_ticks(ax: Axes, positions: Sequence[float], names: Sequence[str]) -> None:
    """Ticks of the horizontal axis, each with its name."""
    ax.set_xticks(positions, names, parse_math=False)
    ax.minorticks_off()


def legend(ax: Axes, columns: int = 2, handles: Sequence[Any] | None = None) -> None:
    """The legend above the axes; None where there is nothing to explain."""
    if handles is None:
        handles, labels = ax.get_legend_handles_labels()
    else:
        labels = [handle.get_label() for handle in handles]
    if not handles:
        return
    found = ax.legend(
        handles,
        [shortened(each, LONGEST_ENTRY[columns]) for each in labels],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        borderpad=0.4,
        labelspacing=0.5,
        handlelength=2.0,
        handletextpad=0.8,
        columnspacing=2.0,
        numpoints=1,
        frameon=False,
        prop={"size": 8.0, "family": FONT},
        labelcolor=INK,
    )
    for text in found.get_texts():
        text.set(parse_math=False, usetex=False)


def entry(text: str) -> str:
    """A name as a label of the legend, which leaves out labels that begin with "_"."""
    return f" {text}" if text.startswith("_") else text


def with_unit(name: str, unit: str | None) -> str:
    """A quantity's name with its unit, where it has one, no longer than an axis."""
    if not unit:
        return shortened(name, LONGEST_LABEL)
    unit = shortened(unit, LONGEST_LABEL // 2)
    return f"{shortened(name, LONGEST_LABEL - min(len(unit), LONGEST_LABEL // 2))} ({unit})"


def shortened(text: str, most: int = LONGEST_ROW) -> str:
    """Text that is as wide as so many usual characters at most, on one line; what is cut is marked by "…"."""
    whole = " ".join(visible(text).split())
    text = whole[: 3 * most]  # of marks without a width there may be any number
    while text and _width(text if text == whole else text + "…") > most:
        text = text[: min(int(len(text) * most / _width(text)), len(text) - 1)]
    return text if text == whole else text.rstrip() + "…"


def _width(text: str) -> float:
    """The width of text, in usual characters."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=FONT, size=1.0)
    width = text_to_path.get_text_width_height_descent(printable(text) or " ", font, False)[0]
    return float(width) / USUAL_WIDTH


def printable(text: str) -> str:
    """The text as it is measured: without marks above letters, and "M" for what the font lacks."""
    known = _characters()
    letters = (each for each in text if not unicodedata.combining(each))
    return "".join(each if ord(each) in known else "M" for each in letters)


@cache
def _characters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(FONT)).get_charmap())


def visible(text: str) -> str:
    """The text with a symbol in place of each character that cannot be shown; line breaks stay."""
    return HIDDEN.sub(lambda found: chr(0x2400 + ord(found[0])) if found[0] < " " else "\ufffd", text)


def write_above(
    ax: Axes,
    text: str,
    at: tuple[float, float],
    offset: tuple[float, float],
    size: float,
    colour: str = INK,
) -> None:
    """Text above a place: x as a share of the axes, y as data; the offset is in points."""
    ax.annotate(
        text,
        at,
        offset,
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="bottom",
        fontsize=size,
        **TEXT | {"color": colour},
    )


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Rows 0, 1, … from the top, each with its name above it: names beside the axes would leave no room."""
    for place, name in enumerate(names):
        write_above(ax, shortened(name), (0.0, place), (3, 7), 8.5)
    ax.set_yticks([])
    ax.set_ylim(len(names) - 0.55, -0.8)
    ax.spines["left"].set_visible(False)
