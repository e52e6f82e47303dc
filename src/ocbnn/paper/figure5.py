"""Figure 5: figure 1's rule under other engines, SVGD and BBB."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ocbnn.datasets import toys
from ocbnn.paper.figure1 import GRID, RULE, far, width_ratio
from ocbnn.paper.outcome import Bound, Outcome
from ocbnn.paper.pictures import draw, draw_band, draw_particles, draw_rows, forbid, frame_axes, key, line
from ocbnn.paper.plans import plan
from ocbnn.paper.runs import fit_rmse, mixing_figures, rule_figures, run, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENGINES = ("svgd", "bbb")
BOUNDS = tuple(Bound(engine, "epsilon_mean", "<=", 0.01) for engine in ENGINES)


def fig5(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Figure 1's rows and rule with particles and with a variational posterior."""
    frame = toys.figure_1()
    drawn = {}
    for engine in ENGINES:
        chosen = plan("fig5", setting, quick=quick, part=engine)
        drawn[engine] = run(chosen, frame, [RULE], seed=seed)
        drawn[f"{engine}_baseline"] = run(chosen, frame, seed=seed)
    save(out, "fig5", drawn)
    runs = {
        name: {
            **mixing_figures(posterior, GRID),
            **rule_figures(posterior, [RULE], seed=seed),
            "fit_rmse": fit_rmse(posterior, frame),
        }
        for name, posterior in drawn.items()
    }
    for engine in ENGINES:
        runs[engine]["far_width_ratio"] = width_ratio(drawn[engine], drawn[f"{engine}_baseline"], far())

    def panel(engine: str, title: str) -> Callable[[Axes], None]:
        def paint(ax: Axes) -> None:
            x = line(-5.0, 5.0)
            frame_axes(ax, title, (-5.0, 5.0), (-10.0, 12.0))
            paint_one = draw_particles if engine == "svgd" else draw_band
            paint_one(ax, drawn[f"{engine}_baseline"], x, "BNN", baseline=True)
            paint_one(ax, drawn[engine], x, "OC-BNN")
            forbid(ax, (-0.3, 0.3), [(-float("inf"), 2.5), (3.0, float("inf"))])
            draw_rows(ax, frame)
            key(ax, loc="upper left")

        return paint

    draw(out, "fig5", [panel("svgd", "(a) SVGD"), panel("bbb", "(b) BBB")])
    return Outcome(runs, BOUNDS)


def fits(setting: str, quick: bool) -> int:
    """How many fits there are."""
    return 2 * len(ENGINES)
