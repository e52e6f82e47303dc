"""Figure 1: a negative constraint on a line, prior and posterior, with chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ocbnn.datasets import toys
from ocbnn.paper.outcome import Bound, Outcome
from ocbnn.paper.pictures import draw, draw_band, draw_rows, forbid, frame_axes, key, line
from ocbnn.paper.plans import plan
from ocbnn.paper.runs import band, fit_rmse, mixing_figures, rule_figures, run, save
from ocbnn.posterior.draws import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RULE = toys.FIGURE_1_RULE
GRID = pd.DataFrame({"x": np.linspace(-5.0, 5.0, 41)})
FAR = (3.5, 5.0)

CHAINS = ("ocbnn", "baseline", "prior", "prior_baseline")
BOUNDS = (
    *(Bound(name, "rhat_worst", "<=", 1.01) for name in CHAINS),
    *(Bound(name, "ess_worst", ">=", 2000) for name in CHAINS),
    Bound("ocbnn", "epsilon_mean", "<=", 0.001),
    Bound("ocbnn", "draws_violating", "<=", 0.01),
    Bound("baseline", "epsilon_mean", ">=", 0.8),
    Bound("ocbnn", "fit_rmse", "<=", 0.15),
    Bound("ocbnn", "far_width_ratio", ">=", 0.9),
    Bound("ocbnn", "far_width_ratio", "<=", 1.1),
)


def fig1(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """`if -0.3 <= x <= 0.3 then 2.5 <= y <= 3`, with and without the rule, with and without data."""
    chosen, frame = plan("fig1", setting, quick=quick), toys.figure_1()
    drawn = {
        "baseline": run(chosen, frame, seed=seed, probes=GRID),
        "ocbnn": run(chosen, frame, [RULE], seed=seed, probes=GRID),
        "prior_baseline": run(chosen, frame, seed=seed, probes=GRID, prior_only=True),
        "prior": run(chosen, frame, [RULE], seed=seed, probes=GRID, prior_only=True),
    }
    save(out, "fig1", drawn)
    runs = {
        name: {
            **mixing_figures(posterior, GRID),
            **rule_figures(posterior, [RULE], seed=seed),
            "fit_rmse": None if name.startswith("prior") else fit_rmse(posterior, frame),
        }
        for name, posterior in drawn.items()
    }
    runs["ocbnn"]["far_width_ratio"] = width_ratio(drawn["ocbnn"], drawn["baseline"], far())
    runs["ocbnn"]["inside_width_ratio"] = width_ratio(drawn["ocbnn"], drawn["baseline"], inside())
    picture(out, drawn, frame)
    return Outcome(runs, BOUNDS)


def fits(setting: str, quick: bool) -> int:
    """How many fits there are."""
    return 4


def picture(out: Path, drawn: Mapping[str, Posterior], frame: pd.DataFrame) -> None:
    """Prior and posterior side by side, as in the paper."""

    def panel(title: str, ruled: str, baseline: str, rows: bool) -> Callable[[Axes], None]:
        def paint(ax: Axes) -> None:
            x = line(-5.0, 5.0)
            frame_axes(ax, title, (-5.0, 5.0), (-10.0, 12.0))
            draw_band(ax, drawn[baseline], x, "BNN", baseline=True)
            draw_band(ax, drawn[ruled], x, "OC-BNN")
            forbid(ax, (-0.3, 0.3), [(-np.inf, 2.5), (3.0, np.inf)])
            if rows:
                draw_rows(ax, frame)
            key(ax, loc="upper left")

        return paint

    draw(
        out,
        "fig1",
        [
            panel("(a) prior", "prior", "prior_baseline", rows=False),
            panel("(b) posterior", "ocbnn", "baseline", rows=True),
        ],
    )


def far() -> pd.DataFrame:
    """Inputs with |x| in [3.5, 5], away from rule and data."""
    x = np.linspace(*FAR, 31)
    return pd.DataFrame({"x": np.concatenate([-x[::-1], x])})


def inside() -> pd.DataFrame:
    """Inputs of the rule's region."""
    return pd.DataFrame({"x": np.linspace(-0.3, 0.3, 31)})


def width_ratio(narrow: Posterior, wide: Posterior, at: pd.DataFrame) -> float:
    """The mean over inputs of how wide one band is in terms of another."""
    (low, high), (lowest, highest) = band(narrow, at), band(wide, at)
    return float(np.mean((high - low) / (highest - lowest)))
