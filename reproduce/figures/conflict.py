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

from ocbnn.plots import style
from ocbnn.posterior import Posterior
from reproduce.outcome import Outcome
from reproduce.pictures import Panel, draw, functions
from reproduce.plans import plan
from reproduce.runs import Figures, figures_of, run, save_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RULE = "if -0.5 <= x <= 0.5 then 1 <= y <= 2"
NOISE = 0.5
GRID = pd.DataFrame({"x": np.linspace(-2.0, 2.0, 21)})


def rows(count: int) -> pd.DataFrame:
    """So many rows of y = 0 with noise, evenly over [−2, 2]: a quarter or more of them against the rule."""
    x = -2.0 + 4.0 * (np.arange(count) + 0.5) / count
    return pd.DataFrame({"x": x, "y": np.random.default_rng(count).normal(0.0, NOISE, count)})


def conflict(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """One rule against more and more rows, in wider and wider networks."""
    chosen = plan("conflict", setting, quick=quick)
    counts, widths = chosen.own["rows"], chosen.own["widths"]
    drawn: dict[str, Posterior] = {}
    runs: dict[str, Figures] = {}
    for width in widths:
        for count in counts:
            name = f"rows_{count}_width_{width}"
            drawn[name] = run(chosen, rows(count), [RULE], seed=seed, probes=GRID, hidden=(width,))
            runs[name] = figures_of(drawn[name], None, rows(count), GRID, seed=seed)
    save_all(out / "conflict", drawn)
    _draw(out, drawn, runs, counts, widths)
    return Outcome(runs)


def _draw(
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
                color=style.CLASSES[index],
                marker=style.MARKERS[index],
                ls=style.DASHES[index],
                label=f"{width} hidden units",
            )
        ax.set(title="violation", xscale="log", ylim=(-0.03, 1.03), xlabel="rows", ylabel="epsilon_mean")
        ax.set_xticks(counts, [str(count) for count in counts])
        ax.minorticks_off()
        ax.legend(loc="lower right")

    def panel(count: int) -> Panel:
        return functions(
            f"{count} rows, {widths[-1]} units",
            drawn[f"rows_{count}_width_{widths[-1]}"],
            across=(-2.0, 2.0),
            up=(-2.0, 3.0),
            rows=rows(count),
            forbidden=((-0.5, 0.5), [(-np.inf, 1.0), (2.0, np.inf)]),
            loc="upper right",
        )

    draw(out, "conflict", [curves, panel(counts[0]), panel(counts[-1])])
