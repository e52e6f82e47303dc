"""The rejection curve: how many draws must be thrown away, against how many points the prior was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ocbnn.errors import OCBNNError
from ocbnn.plots.style import CLASSES, DASHES, MARKERS, axes_of, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def rejection_curve(
    points: Sequence[float],
    shares: Sequence[float] | Sequence[Sequence[float]],
    labels: Sequence[str] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of draws that break a rule, for priors with more and more points (paper, Figure 3c).

    Args:
        points: numbers of points.
        shares: one for each of them; several rows for several curves.
        labels: of the curves.
        ax: where to draw; new axes unless given.
    """
    rows = np.atleast_2d(np.asarray(shares, dtype=float))
    if rows.shape[1] != len(points) or (labels and len(labels) != len(rows)):
        raise OCBNNError(
            f"There are {len(points)} numbers of points and {len(labels)} labels, but shares of the shape "
            f"{rows.shape}; give one share for each number of points, and one label for each curve."
        )
    with styled():
        ax = axes_of(ax)
        for index, row in enumerate(rows):
            ax.plot(
                points,
                row,
                color=CLASSES[index % len(CLASSES)],
                marker=MARKERS[index % len(MARKERS)],
                ls=DASHES[index % len(DASHES)],
                label=labels[index] if labels else None,
            )
        ax.set_xscale("log")
        ax.set_xticks(points, [f"{value:,g}" for value in points])
        ax.minorticks_off()
        ax.set_ylim(0, max(1.0, float(np.nanmax(rows))) * 1.02)
        ax.set_xlabel("points in the rule's region")
        ax.set_ylabel("share of draws rejected")
        if labels:
            ax.legend()
    return ax
