"""The paper's paragraph on conflicting data, made visible.

"If C and D are incompatible, […] the posterior depends on (i) model capacity and (ii) factors affecting the
prior and likelihood, e.g. volume of data" (section 5). Rows of y = 0, with noise, lie all over [−2, 2], and a
rule of fixed strength asks for 1 to 2 in [−0.5, 0.5]. The more rows, the more often the posterior breaks the
rule; whether the network has 3 units or 30 hardly matters, since 3 can bend as the rule asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ocbnn.paper.outcome import Outcome
from ocbnn.paper.pictures import draw, draw_band, draw_rows, forbid, frame_axes, key, line
from ocbnn.paper.plans import plan
from ocbnn.paper.runs import fit_rmse, mixing_figures, rule_figures, run, save
from ocbnn.plots.style import CLASSES, DASHES, MARKERS
from ocbnn.posterior.draws import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RULE = "if -0.5 <= x <= 0.5 then 1 <= y <= 2"
NOISE = 0.5
GRID = pd.DataFrame({"x": np.linspace(-2.0, 2.0, 21)})


def rows(count: int) -> pd.DataFrame:
    """So many rows of y = 0 with noise, evenly over [−2, 2]: a quarter or more of them against the rule."""
    x = -2.0 + 4.0 * (np.arange(count) + 0.5) / count
    return pd.DataFrame({"x": x, "y": np.random.default_rng(count).normal(0.0, NOISE, count)})


def conflicting(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """One rule against more and more rows, in wider and wider networks."""
    chosen = plan("conflict", setting, quick=quick)
    counts, widths = chosen.own["rows"], chosen.own["widths"]
    drawn = {
        f"rows_{count}_width_{width}": run(
            chosen, rows(count), [RULE], seed=seed, probes=GRID, hidden=(width,)
        )
        for width in widths
        for count in counts
    }
    save(out, "conflict", drawn)
    runs = {
        name: {
            **mixing_figures(posterior, GRID),
            **rule_figures(posterior, seed=seed),
            "fit_rmse": fit_rmse(posterior, rows(int(name.split("_")[1]))),
        }
        for name, posterior in drawn.items()
    }
    picture(out, drawn, runs, counts, widths)
    return Outcome(runs)


def fits(setting: str, quick: bool) -> int:
    """How many fits there are: one for each number of rows and each width."""
    own = plan("conflict", setting, quick=quick).own
    return len(own["rows"]) * len(own["widths"])


def picture(
    out: Path,
    drawn: Mapping[str, Posterior],
    runs: Mapping[str, Mapping[str, Any]],
    counts: Sequence[int],
    widths: Sequence[int],
) -> None:
    """Violation against rows, one line for each width; and the posteriors with fewest and most rows."""

    def curves(ax: Axes) -> None:
        for index, width in enumerate(widths):
            violation = [runs[f"rows_{count}_width_{width}"]["epsilon_mean"] for count in counts]
            ax.plot(
                counts,
                violation,
                color=CLASSES[index],
                marker=MARKERS[index],
                ls=DASHES[index],
                label=f"{width} hidden units",
            )
        ax.set(title="violation", xscale="log", ylim=(-0.03, 1.03), xlabel="rows", ylabel="epsilon_mean")
        ax.set_xticks(counts, [str(count) for count in counts])
        ax.minorticks_off()
        ax.legend(loc="lower right")

    def functions(ax: Axes, count: int) -> None:
        width = widths[-1]
        frame_axes(ax, f"{count} rows, {width} units", (-2.0, 2.0), (-2.0, 3.0))
        draw_band(ax, drawn[f"rows_{count}_width_{width}"], line(-2.0, 2.0), "OC-BNN")
        forbid(ax, (-0.5, 0.5), [(-np.inf, 1.0), (2.0, np.inf)])
        draw_rows(ax, rows(count))
        key(ax, loc="upper right")

    draw(
        out,
        "conflict",
        [curves, lambda ax: functions(ax, counts[0]), lambda ax: functions(ax, counts[-1])],
    )
