"""The bake-off: every engine on one regression and one classification, against a long run of nuts as truth.

All engines see the same rules with the same terms and strengths; engines on minibatches redraw the points.
The distance is the Wasserstein distance between the distributions of Φ(x) under two runs, averaged over
inputs: it sees mean and band at once. `nuts` itself is there twice: the long run is the truth, and a shorter
one with another seed shows what distance is left between two runs that are both right.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import wasserstein_distance

from ocbnn.inference import ENGINES
from ocbnn.plots import style
from ocbnn.posterior import Posterior, function_draws
from reproduce.data import toys
from reproduce.figures import fig1, fig2
from reproduce.outcome import Outcome
from reproduce.pictures import Panel, draw, draw_points, plane
from reproduce.plans import plan
from reproduce.runs import Figures, figures_of, run, save_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRUTH = "truth"
OTHER_SEED = 1000

Task = tuple[pd.DataFrame, str, pd.DataFrame]
"""Rows, rule, and the inputs at which runs are compared."""


def tasks() -> dict[str, Task]:
    """Figure 1's regression and figure 2's classification."""
    return {
        "regression": (toys.figure_1(), fig1.RULE, fig1.GRID),
        "classification": (toys.figure_2(), fig2.RULE, plane(fig2.AXES, fig2.AXES, 9)),
    }


def bakeoff(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Both tasks with every engine."""
    drawn: dict[str, Posterior] = {}
    runs: dict[str, Figures] = {}
    for task, (frame, rule, probes) in tasks().items():
        for name in (TRUTH, *ENGINES):
            is_truth = name == TRUTH
            part, engine = ((task, TRUTH), "nuts") if is_truth else ((task,), name)
            chosen = plan("bakeoff", setting, quick=quick, part=part, engine=engine)
            own_seed = seed + OTHER_SEED if is_truth else seed
            posterior = run(chosen, frame, [rule], seed=own_seed, probes=probes, key=seed)
            drawn[f"{task}_{name}"] = posterior
            runs[f"{task}_{name}"] = {
                **figures_of(posterior, [rule], frame, probes, seed=seed, points=500),
                **distances(posterior, drawn[f"{task}_{TRUTH}"], probes),
                "engine_seconds": seconds(posterior),
            }
    save_all(out / "bakeoff", drawn)
    draw(out, "bakeoff", [panel(task, runs) for task in tasks()], size=(4.0, 3.2))
    return Outcome(runs)


def distances(posterior: Posterior, truth: Posterior, probes: pd.DataFrame) -> dict[str, float]:
    """How far one run's functions are from another's, on average over the inputs (and classes)."""
    mine, theirs = (_by_quantity(function_draws(each, probes)) for each in (posterior, truth))
    apart = [wasserstein_distance(a, b) for a, b in zip(mine.T, theirs.T, strict=True)]
    ends = [np.quantile(values, [0.025, 0.975], axis=0) for values in (mine, theirs)]
    return {
        "wasserstein_to_nuts": float(np.mean(apart)),
        "mean_difference": float(np.mean(np.abs(mine.mean(axis=0) - theirs.mean(axis=0)))),
        "band_width_ratio": float(np.mean(ends[0][1] - ends[0][0]) / np.mean(ends[1][1] - ends[1][0])),
    }


def _by_quantity(values: np.ndarray) -> np.ndarray:
    """Draws × quantities: inputs, or classes at inputs."""
    return values.reshape(len(values), -1)


def seconds(posterior: Posterior) -> float:
    """Time of the run without that of compiling."""
    spent = posterior.provenance["seconds"]
    return float(spent["total"] - spent["compile"])


def panel(task: str, runs: Mapping[str, Mapping[str, Any]]) -> Panel:
    """Distance against time, one marker for each engine."""

    def paint(ax: Axes) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter

        for index, name in enumerate(ENGINES):
            figures = runs[f"{task}_{name}"]
            spent, distance = figures["engine_seconds"], figures["wasserstein_to_nuts"]
            draw_points(ax, spent, distance, index, name, ms=8, color=style.CLASSES[index])
        ax.set(
            title=task, xscale="log", yscale="log", xlabel="seconds", ylabel="Wasserstein distance to nuts"
        )
        for axis in (ax.xaxis, ax.yaxis):  # plain numbers: powers are written as formulas, which text is not
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(lambda value, _: f"{value:,g}")
            axis.set_minor_formatter(NullFormatter())
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)

    return paint
