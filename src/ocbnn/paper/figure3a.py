"""Figure 3a: a rule that holds everywhere, x·y ≥ 0, learnt once into an amortized prior."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ocbnn.datasets import toys
from ocbnn.paper.outcome import Bound, Outcome
from ocbnn.paper.pictures import draw, draw_band, draw_rows, frame_axes, key, line
from ocbnn.paper.plans import plan
from ocbnn.paper.runs import learnt_prior, learnt_prior_figures, save, under_learnt_prior
from ocbnn.plots.style import MET
from ocbnn.posterior.draws import Posterior, as_coded, function_draws
from ocbnn.schema import Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RULE = toys.FIGURE_3A_RULE
EXTENT = (-8.0, 8.0)
"""Where x may be: what "everywhere" means to the sampler, and to the picture."""
NEAR = np.setdiff1d(np.round(np.arange(-3.0, 3.001, 0.02), 2), np.round(np.arange(-0.08, 0.081, 0.02), 2))

BOUNDS = (Bound("ocbnn", "epsilon_mean", "<=", 0.01),)


def fig3a(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """`always x * y >= 0` with a learnt prior, and chains for the posterior."""
    chosen, frame = plan("fig3a", setting, quick=quick), toys.figure_3a()
    schema = Schema.infer(frame, target="y", columns={"x": {"bounds": EXTENT}})
    probes = pd.DataFrame({"x": np.linspace(*EXTENT, 41)})
    prior = learnt_prior(chosen, [RULE], schema, seed=seed)
    drawn = under_learnt_prior(chosen, prior, frame, schema, probes, seed=seed)
    save(out, "fig3a", drawn)
    runs = learnt_prior_figures(drawn, RULE, frame, probes, near_figures, seed=seed)

    def paint(ax: Axes) -> None:
        x = line(*EXTENT)
        frame_axes(ax, "(a) x·y ≥ 0 everywhere", EXTENT, (-4.0, 4.0))
        ax.fill_between([EXTENT[0], 0.0], -4.0, 0.0, color=MET, alpha=0.15, lw=0, label="allowed")
        ax.fill_between([0.0, EXTENT[1]], 0.0, 4.0, color=MET, alpha=0.15, lw=0)
        draw_band(ax, drawn["baseline"], x, "BNN", baseline=True)
        draw_band(ax, drawn["ocbnn"], x, "OC-BNN")
        draw_rows(ax, frame)
        key(ax, loc="upper left")

    draw(out, "fig3a", [paint])
    kl = prior.findings.kl
    return Outcome(runs, BOUNDS, details={"prior": {"kl": kl, "concentration": prior.findings.concentration}})


def fits(setting: str, quick: bool) -> int:
    """How many fits there are, with that of the prior."""
    return 4


def near_figures(posterior: Posterior) -> dict[str, float]:
    """Violation over [−3, 3] without |x| < 0.1, where every function that is not 0 at 0 breaks the rule."""
    values = function_draws(posterior, as_coded(posterior, pd.DataFrame({"x": NEAR})))
    broken = (NEAR * values < 0).mean(axis=0)
    return {"epsilon_mean_near": float(broken.mean()), "epsilon_worst_near": float(broken.max())}
