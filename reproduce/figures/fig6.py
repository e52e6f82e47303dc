"""Figure 6: noisy rows and three value rules; a network with room for both fits both, and bends between."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ocbnn.plots import style
from ocbnn.posterior import Posterior, function_draws
from reproduce.data import toys
from reproduce.outcome import Outcome
from reproduce.pictures import ask, draw, functions, line
from reproduce.plans import plan
from reproduce.runs import measured, with_and_without

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = pd.DataFrame({"x": np.linspace(-5.0, 5.0, 41)})


def rules(margin: float) -> list[str]:
    """The truth, within a margin of 2σ_C, in three bands."""
    return [
        f"if {low} <= x <= {high} then y = 5 * cos(x / 1.7) within {margin:g}"
        for low, high in toys.FIGURE_6_BANDS
    ]


def fig6(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Six noisy rows, three bands in which the truth is known."""
    chosen, frame = plan("fig6", setting, quick=quick), toys.figure_6()
    margin = float(chosen.own["margin"])
    said = rules(margin)
    drawn = with_and_without(chosen, frame, said, seed=seed, probes=GRID)
    own = partial(distances, frame=frame, sigma=margin / 2)
    runs = measured(out / "fig6", drawn, said, frame, GRID, own, seed=seed)

    def known(ax: Axes) -> None:
        for index, band in enumerate(toys.FIGURE_6_BANDS):
            ask(ax, band, "a rule applies" if index == 0 else None)
        x = line(-5.0, 5.0)["x"]
        ax.plot(x, toys.truth_6(x.to_numpy()), color=style.INK, ls=":", label="truth")

    panel = functions(
        "noisy rows and three value rules",
        drawn["ocbnn"],
        drawn["baseline"],
        across=(-5.0, 5.0),
        up=(-8.0, 10.0),
        rows=frame,
        background=known,
        loc="upper center",
        ncols=3,
    )
    draw(out, "fig6", [panel], size=(4.6, 3.4))
    return Outcome(runs)


def distances(posterior: Posterior, frame: pd.DataFrame, sigma: float) -> dict[str, float]:
    """How far the posterior mean is from the truth in the bands and between them, and from the rows."""

    def off(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.abs(function_draws(posterior, pd.DataFrame({"x": x})).mean(axis=0) - y)

    bands = np.concatenate([np.linspace(*band, 41) for band in toys.FIGURE_6_BANDS])
    ends = [(left[1], right[0]) for left, right in pairwise(toys.FIGURE_6_BANDS)]
    between = np.concatenate([np.linspace(*gap, 101) for gap in ends])
    in_bands, in_gaps = off(bands, toys.truth_6(bands)), off(between, toys.truth_6(between))
    return {
        "band_distance_worst": float(in_bands.max()),
        "band_distance_in_sigma": float(in_bands.max() / sigma),
        "data_distance_worst": float(off(frame["x"].to_numpy(), frame["y"].to_numpy()).max()),
        "truth_rmse_in_bands": float(np.sqrt(np.mean(in_bands**2))),
        "truth_rmse_between": float(np.sqrt(np.mean(in_gaps**2))),
    }
