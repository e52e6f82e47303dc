"""Figure 3b: a forbidden box that functions can pass above or below; particles show both modes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ocbnn.datasets import toys
from ocbnn.paper.outcome import Bound, Outcome
from ocbnn.paper.pictures import draw, draw_particles, draw_rows, forbid, frame_axes, key, line
from ocbnn.paper.plans import plan
from ocbnn.paper.runs import fit_rmse, mixing_figures, rule_figures, run, save
from ocbnn.posterior.draws import Posterior, as_coded, function_draws

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RULE = toys.FIGURE_3B_RULE
ACROSS, FORBIDDEN = (-1.0, 1.0), (1.0, 2.5)
INSIDE = line(*ACROSS, 401)

BOUNDS = (
    Bound("ocbnn", "share_above", ">=", 0.1),
    Bound("ocbnn", "share_below", ">=", 0.1),
    Bound("ocbnn", "draws_violating", "<=", 0.04),
)


def fig3b(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """`if -1 <= x <= 1 then not 1 <= y <= 2.5` with 50 particles."""
    chosen, frame = plan("fig3b", setting, quick=quick), toys.figure_3b()
    drawn = {
        "baseline": run(chosen, frame, seed=seed),
        "ocbnn": run(chosen, frame, [RULE], seed=seed),
    }
    save(out, "fig3b", drawn)
    runs = {
        name: {
            **mixing_figures(posterior, INSIDE),
            **rule_figures(posterior, [RULE], seed=seed),
            "fit_rmse": fit_rmse(posterior, frame),
            **sides(posterior),
        }
        for name, posterior in drawn.items()
    }

    def paint(ax: Axes) -> None:
        x = line(-5.0, 5.0)
        frame_axes(ax, f"(b) {len(drawn['ocbnn'].flat)} particles", (-5.0, 5.0), (-5.0, 8.0))
        draw_particles(ax, drawn["baseline"], x, "BNN", baseline=True)
        draw_particles(ax, drawn["ocbnn"], x, "OC-BNN")
        forbid(ax, ACROSS, [FORBIDDEN])
        draw_rows(ax, frame)
        key(ax, loc="upper left")

    draw(out, "fig3b", [paint])
    return Outcome(runs, BOUNDS)


def fits(setting: str, quick: bool) -> int:
    """How many fits there are."""
    return 2


def sides(posterior: Posterior) -> dict[str, float]:
    """Shares of draws that pass above, and below, the box all along."""
    values = function_draws(posterior, as_coded(posterior, INSIDE))
    return {
        "share_above": float((values.min(axis=1) > FORBIDDEN[1]).mean()),
        "share_below": float((values.max(axis=1) < FORBIDDEN[0]).mean()),
    }


def breaking(posterior: Posterior, at: pd.DataFrame = INSIDE) -> np.ndarray:
    """Which draws enter the box anywhere, on a dense grid."""
    values = function_draws(posterior, as_coded(posterior, at))
    entered = ((values >= FORBIDDEN[0]) & (values <= FORBIDDEN[1])).any(axis=1)
    return np.asarray(entered)
