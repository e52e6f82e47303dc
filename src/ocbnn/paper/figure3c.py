"""Figure 3c: how many particles rejection would throw away, against the number of points the prior was given.

Particles of all seeds are saved together, one seed a row: `draws` has the shape (seeds, particles, weights).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocbnn.datasets import toys
from ocbnn.paper.figure3b import INSIDE, RULE, breaking
from ocbnn.paper.outcome import Bound, Outcome
from ocbnn.paper.pictures import draw
from ocbnn.paper.plans import Plan, plan
from ocbnn.paper.runs import build, drawn, fit_rmse, mixing_figures, rule_figures, save
from ocbnn.plots.style import WITH, WITHOUT
from ocbnn.posterior.draws import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDS = 2
"""Points of every step that are the region's ends, where there are enough points for that."""

MANY = 100
"""Below so many points the setting's part `few` holds."""

BOUNDS = (
    Bound("baseline", "rejected", ">=", 1.0),
    *(Bound(f"points_{count}", "rejected", "<=", 0.06) for count in (5, 10, 100, 500, 1000)),
)


def fig3c(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Share of particles that figure 3b's rule rejects, for 1 to 1,000 points, mean and band over seeds."""
    chosen = plan("fig3c", setting, quick=quick)
    counts = tuple(int(count) for count in chosen.own["points"])
    seeds = range(seed, seed + int(chosen.own["seeds"]))
    drawn_by_seed = {"baseline": particles(chosen, seeds)}
    few = plan("fig3c", setting, quick=quick, part="few")
    drawn_by_seed |= {
        f"points_{count}": particles(few if count < MANY else chosen, seeds, count) for count in counts
    }
    save(out, "fig3c", drawn_by_seed)
    runs = {
        name: {
            **mixing_figures(posterior, INSIDE),
            **rule_figures(posterior, [RULE], seed=seed),
            "fit_rmse": fit_rmse(posterior, toys.figure_3b()),
            **rejected(posterior),
        }
        for name, posterior in drawn_by_seed.items()
    }
    picture(out, runs, counts)
    return Outcome(runs, BOUNDS)


def fits(setting: str, quick: bool) -> int:
    """How many fits there are: one for each seed, without the rule and with each number of points."""
    own = plan("fig3c", setting, quick=quick).own
    return int(own["seeds"]) * (1 + len(own["points"]))


def particles(chosen: Plan, seeds: Sequence[int], count: int | None = None) -> Posterior:
    """The particles of all seeds, with so many points of the rule, or without it."""
    frame = toys.figure_3b()
    rules = [] if count is None else [RULE]
    changes: dict[str, Any] = {}
    if count is not None:
        ends = ENDS if chosen.model.get("corners") and count > ENDS else 0
        changes = {"points": count - ends, "corners": ends > 0}
    results, model = [], None
    for seed in seeds:
        if model is None or chosen.fixed_points:  # one model for all seeds is compiled once
            model = build(chosen, frame, rules, seed=seed, **changes)
        results.append(drawn(model, chosen, seed=seed, **chosen.run))
    first = Posterior.from_result(results[0])
    return replace(first, draws=np.concatenate([result.draws for result in results]))


def rejected(posterior: Posterior) -> dict[str, Any]:
    """The share of particles that break the rule: mean over seeds, each seed's, and the band."""
    by_seed = breaking(posterior).reshape(posterior.draws.shape[:2]).mean(axis=1)
    return {
        "rejected": float(by_seed.mean()),
        "rejected_low": float(by_seed.min()),
        "rejected_high": float(by_seed.max()),
        "rejected_by_seed": by_seed.tolist(),
    }


def picture(out: Path, runs: Mapping[str, Mapping[str, Any]], counts: Sequence[int]) -> None:
    """Rejected share against log-points, the baseline as a line."""

    def paint(ax: Axes) -> None:
        rows = [runs[f"points_{count}"] for count in counts]
        middle, low, high = (
            [row[name] for row in rows] for name in ("rejected", "rejected_low", "rejected_high")
        )
        ax.fill_between(counts, low, high, color=WITH, alpha=0.25, lw=0)
        ax.plot(counts, middle, color=WITH, marker="o", label="OC-BNN")
        ax.axhline(runs["baseline"]["rejected"], color=WITHOUT, ls="--", label="BNN")
        ax.set(
            title="(c) rejected particles",
            xscale="log",
            ylim=(-0.03, 1.05),
            xlabel="points of the rule",
            ylabel="share rejected",
        )
        ax.set_xticks(counts, [f"{count:,}" for count in counts])
        ax.minorticks_off()
        ax.legend(loc="center right")

    draw(out, "fig3c", [paint])
