"""Figure 6: noisy rows and three value rules; a network with room for both fits both, and bends between."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ocbnn.datasets import toys
from ocbnn.paper.outcome import Bound, Outcome
from ocbnn.paper.pictures import ask, draw, draw_band, draw_rows, frame_axes, key, line
from ocbnn.paper.plans import plan
from ocbnn.paper.runs import fit_rmse, mixing_figures, rule_figures, run, save
from ocbnn.plots.style import MET
from ocbnn.posterior.draws import Posterior, as_coded, function_draws

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = pd.DataFrame({"x": np.linspace(-5.0, 5.0, 41)})
SIGMA = 1.25
"""The paper's σ_C."""

BOUNDS = (
    Bound("ocbnn", "band_distance_worst", "<=", 2 * SIGMA),
    Bound("ocbnn", "band_distance_in_sigma", "<=", 2.0),
    Bound("ocbnn", "data_distance_worst", "<=", 0.3),
)


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
    drawn = {
        "baseline": run(chosen, frame, seed=seed, probes=GRID),
        "ocbnn": run(chosen, frame, said, seed=seed, probes=GRID),
    }
    save(out, "fig6", drawn)
    runs = {
        name: {
            **mixing_figures(posterior, GRID),
            **rule_figures(posterior, said, seed=seed),
            "fit_rmse": fit_rmse(posterior, frame),
            **distances(posterior, frame, margin / 2),
        }
        for name, posterior in drawn.items()
    }

    def paint(ax: Axes) -> None:
        x = line(-5.0, 5.0)
        frame_axes(ax, "noisy rows and three value rules", (-5.0, 5.0), (-8.0, 10.0))
        for index, band in enumerate(toys.FIGURE_6_BANDS):
            ask(ax, band, "a rule applies" if index == 0 else None)
        draw_band(ax, drawn["baseline"], x, "BNN", baseline=True)
        draw_band(ax, drawn["ocbnn"], x, "OC-BNN")
        ax.plot(x["x"], toys.truth_6(x["x"].to_numpy()), color=MET, ls=":", label="truth")
        draw_rows(ax, frame)
        key(ax, loc="upper center", ncols=3)

    draw(out, "fig6", [paint], size=(4.6, 3.4))
    return Outcome(runs, BOUNDS)


def fits(setting: str, quick: bool) -> int:
    """How many fits there are."""
    return 2


def distances(posterior: Posterior, frame: pd.DataFrame, sigma: float) -> dict[str, float]:
    """How far the posterior mean is from the truth in the bands and between them, and from the rows."""

    def off(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        at = pd.DataFrame({"x": x})
        return np.abs(function_draws(posterior, as_coded(posterior, at)).mean(axis=0) - y)

    bands = np.concatenate([np.linspace(*band, 41) for band in toys.FIGURE_6_BANDS])
    ends = [
        (left[1], right[0]) for left, right in zip(toys.FIGURE_6_BANDS, toys.FIGURE_6_BANDS[1:], strict=False)
    ]
    between = np.concatenate([np.linspace(*gap, 101) for gap in ends])
    in_bands, in_gaps = off(bands, toys.truth_6(bands)), off(between, toys.truth_6(between))
    return {
        "band_distance_worst": float(in_bands.max()),
        "band_distance_in_sigma": float(in_bands.max() / sigma),
        "data_distance_worst": float(off(frame["x"].to_numpy(), frame["y"].to_numpy()).max()),
        "truth_rmse_in_bands": float(np.sqrt(np.mean(in_bands**2))),
        "truth_rmse_between": float(np.sqrt(np.mean(in_gaps**2))),
    }
