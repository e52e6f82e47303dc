"""Calibration: what was said against how often it was so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ocbnn.plots.style import CLASSES, LONGEST_LABEL, MUTED, WITH, WITHOUT, axes_of, shortened, styled
from ocbnn.posterior.calibration import Calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = ((WITH, "o", "-"), (WITHOUT, "D", "--"), (CLASSES[3], "s", ":"), (CLASSES[4], "^", "-."))


def calibration(
    found: Calibration | Mapping[str, Calibration],
    *,
    looks: Sequence[tuple[str, str, str]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw observed shares, with their intervals, against what was predicted; on the diagonal is right.

    Args:
        found: one calibration, or several by their label.
        looks: colour, marker and line of each; those of models with and without rules unless given.
        ax: where to draw; new axes unless given.
    """
    several = {"": found} if isinstance(found, Calibration) else dict(found)
    with styled():
        ax = axes_of(ax)
        ax.plot([0, 1], [0, 1], color=MUTED, lw=1.0, ls=(0, (1, 2)), label="as it should be")
        for index, (label, each) in enumerate(several.items()):
            colour, marker, dashes = (looks or LOOKS)[index % len(looks or LOOKS)]
            predicted = np.array([b.predicted for b in each.bins])
            observed = np.array([b.observed for b in each.bins])
            ends = np.array([[b.observed - b.low, b.high - b.observed] for b in each.bins]).T
            ax.errorbar(
                predicted,
                observed,
                np.maximum(ends, 0.0),
                color=colour,
                marker=marker,
                ls=dashes,
                lw=1.2,
                elinewidth=1.0,
                capsize=2,
                label=f"{label or 'model'} ({each.rows:,} rows)",
            )
        what = next(iter(several.values())).what
        ax.set_xlabel(f"said: {shortened(what, LONGEST_LABEL)}")
        ax.set_ylabel("seen: share of rows")
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=1, borderaxespad=0.2)
    return ax
