"""The bake-off: every engine on one regression and one classification, against a long run of nuts as truth.

All engines see the same rules with the same terms and strengths; engines on minibatches redraw the points.
The distance is the Wasserstein distance between the distributions of Φ(x) under two runs, averaged over
inputs: it sees mean and band at once. `nuts` itself is there twice: the long run is the truth, and a shorter
one with another seed shows what distance is left between two runs that are both right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import wasserstein_distance

from ocbnn.datasets import toys
from ocbnn.inference.engines import ENGINES
from ocbnn.paper import figure1, figure2
from ocbnn.paper.outcome import Outcome
from ocbnn.paper.pictures import draw, plane
from ocbnn.paper.plans import plan
from ocbnn.paper.runs import fit_rmse, mixing_figures, rule_figures, run, save
from ocbnn.plots.style import CLASSES, MARKERS
from ocbnn.posterior.draws import Posterior, as_coded, function_draws

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRUTH = "truth"
OTHER_SEED = 1000

Task = tuple[pd.DataFrame, str, pd.DataFrame]
"""Rows, rule, and the inputs at which runs are compared."""


def tasks() -> dict[str, Task]:
    """Figure 1's regression and figure 2's classification."""
    return {
        "regression": (toys.figure_1(), figure1.RULE, figure1.GRID),
        "classification": (toys.figure_2(), figure2.RULE, plane(figure2.AXES, figure2.AXES, 9)),
    }


def bakeoff(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Both tasks with every engine."""
    drawn: dict[str, Posterior] = {}
    runs: dict[str, dict[str, Any]] = {}
    for task, (frame, rule, probes) in tasks().items():
        for name in (TRUTH, *ENGINES):
            if name == TRUTH:
                chosen = plan("bakeoff", setting, quick=quick, part=(task, TRUTH), engine="nuts")
            else:
                chosen = plan("bakeoff", setting, quick=quick, part=task, engine=name)
            own_seed = seed + OTHER_SEED if name == TRUTH else seed
            posterior = run(chosen, frame, [rule], seed=own_seed, probes=probes, key=seed)
            drawn[f"{task}_{name}"] = posterior
            runs[f"{task}_{name}"] = {
                **mixing_figures(posterior, probes),
                **rule_figures(posterior, [rule], seed=seed, points=500),
                "fit_rmse": fit_rmse(posterior, frame),
                **distances(posterior, drawn[f"{task}_{TRUTH}"], probes),
                "engine_seconds": seconds(posterior),
            }
    save(out, "bakeoff", drawn)
    draw(out, "bakeoff", [panel(task, runs) for task in tasks()], size=(4.0, 3.2))
    return Outcome(runs)


def fits(setting: str, quick: bool) -> int:
    """How many fits there are: every engine, and the truth, on both."""
    return 2 * (1 + len(ENGINES))


def distances(posterior: Posterior, truth: Posterior, probes: pd.DataFrame) -> dict[str, float]:
    """How far one run's functions are from another's, on average over the inputs (and classes)."""
    mine, theirs = (columns(function_draws(each, as_coded(each, probes))) for each in (posterior, truth))
    apart = [wasserstein_distance(a, b) for a, b in zip(mine.T, theirs.T, strict=True)]
    ends = [np.quantile(values, [0.025, 0.975], axis=0) for values in (mine, theirs)]
    return {
        "wasserstein_to_nuts": float(np.mean(apart)),
        "mean_difference": float(np.mean(np.abs(mine.mean(axis=0) - theirs.mean(axis=0)))),
        "band_width_ratio": float(np.mean(ends[0][1] - ends[0][0]) / np.mean(ends[1][1] - ends[1][0])),
    }


def columns(values: np.ndarray) -> np.ndarray:
    """Draws × quantities: inputs, or classes at inputs."""
    return values.reshape(len(values), -1)


def seconds(posterior: Posterior) -> float:
    """Time of the run without that of compiling."""
    spent = posterior.provenance["seconds"]
    return float(spent["total"] - spent["compile"])


def panel(task: str, runs: Mapping[str, Mapping[str, Any]]) -> Callable[[Axes], None]:
    """Distance against time, one marker for each engine."""

    def paint(ax: Axes) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter

        names: Sequence[str] = tuple(ENGINES)
        for index, name in enumerate(names):
            figures = runs[f"{task}_{name}"]
            ax.plot(
                figures["engine_seconds"],
                figures["wasserstein_to_nuts"],
                ls="none",
                marker=MARKERS[index],
                ms=8,
                color=CLASSES[index],
                label=name,
            )
        ax.set(
            title=task, xscale="log", yscale="log", xlabel="seconds", ylabel="Wasserstein distance to nuts"
        )
        for axis in (ax.xaxis, ax.yaxis):  # plain numbers: powers are written as formulas, which text is not
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(lambda value, _: f"{value:,g}")
            axis.set_minor_formatter(NullFormatter())
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)

    return paint
