"""Figure 3: a rule that holds everywhere, a forbidden box, and how many particles rejection would discard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ocbnn import Schema
from ocbnn.plots import style
from ocbnn.posterior import Posterior, function_draws
from reproduce.data import toys
from reproduce.outcome import Outcome
from reproduce.pictures import draw, functions, line
from reproduce.plans import Plan, plan
from reproduce.runs import build, drawn, measured, with_and_without, with_learnt_prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXTENT = (-8.0, 8.0)
"""Where x may be in figure 3a: what "everywhere" means to the sampler, and to the picture."""
NEAR = np.setdiff1d(np.round(np.arange(-3.0, 3.001, 0.02), 2), np.round(np.arange(-0.08, 0.081, 0.02), 2))

RULE = toys.FIGURE_3B_RULE
ACROSS, FORBIDDEN = (-1.0, 1.0), (1.0, 2.5)
INSIDE = line(*ACROSS, 401)

ENDS = 2
"""Points of every step that are the region's ends, where there are enough points for that."""
MANY = 100
"""Below so many points the setting's part `few` holds."""


def fig3a(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """`always x * y >= 0`, learnt once into an amortized prior, and chains for the posterior."""
    chosen, frame = plan("fig3a", setting, quick=quick), toys.figure_3a()
    schema = Schema.infer(frame, target="y", columns={"x": {"bounds": EXTENT}})
    probes = line(*EXTENT, 41)
    found, prior = with_learnt_prior(chosen, toys.FIGURE_3A_RULE, frame, schema, probes, seed=seed)
    runs = measured(out / "fig3a", found, [toys.FIGURE_3A_RULE], frame, probes, near_figures, seed=seed)

    def allowed(ax: Axes) -> None:
        ax.fill_between([EXTENT[0], 0.0], -4.0, 0.0, color=style.MET, alpha=0.15, lw=0, label="allowed")
        ax.fill_between([0.0, EXTENT[1]], 0.0, 4.0, color=style.MET, alpha=0.15, lw=0)

    panel = functions(
        "(a) x·y ≥ 0 everywhere",
        found["ocbnn"],
        found["baseline"],
        across=EXTENT,
        up=(-4.0, 4.0),
        rows=frame,
        background=allowed,
    )
    draw(out, "fig3a", [panel])
    return Outcome(runs, {"prior": prior})


def near_figures(posterior: Posterior) -> dict[str, float]:
    """Violation over [−3, 3] without |x| < 0.1, where every function that is not 0 at 0 breaks the rule."""
    violated = (NEAR * function_draws(posterior, pd.DataFrame({"x": NEAR})) < 0).mean(axis=0)
    return {"epsilon_mean_near": float(violated.mean()), "epsilon_worst_near": float(violated.max())}


def fig3b(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """`if -1 <= x <= 1 then not 1 <= y <= 2.5` with 50 particles, which pass above the box or below it."""
    chosen, frame = plan("fig3b", setting, quick=quick), toys.figure_3b()
    found = with_and_without(chosen, frame, [RULE], seed=seed)
    runs = measured(out / "fig3b", found, [RULE], frame, INSIDE, sides, seed=seed)
    panel = functions(
        f"(b) {len(found['ocbnn'].flat)} particles",
        found["ocbnn"],
        found["baseline"],
        across=(-5.0, 5.0),
        up=(-5.0, 8.0),
        rows=frame,
        forbidden=(ACROSS, [FORBIDDEN]),
        particles=True,
    )
    draw(out, "fig3b", [panel])
    return Outcome(runs)


def sides(posterior: Posterior) -> dict[str, float]:
    """Shares of draws that pass above, and below, the box all along."""
    values = function_draws(posterior, INSIDE)
    return {
        "share_above": float((values.min(axis=1) > FORBIDDEN[1]).mean()),
        "share_below": float((values.max(axis=1) < FORBIDDEN[0]).mean()),
    }


def fig3c(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Share of particles that figure 3b's rule rejects, for 1 to 1,000 points, mean and band over seeds.

    Particles of all seeds are saved together, one seed a row: `draws` is (seeds, particles, weights).
    """
    chosen, few = (plan("fig3c", setting, quick=quick, part=part) for part in ((), "few"))
    counts = tuple(int(count) for count in chosen.own["points"])
    seeds = range(seed, seed + int(chosen.own["seeds"]))
    found = {"baseline": particles(chosen, seeds)}
    found |= {f"points_{count}": particles(few if count < MANY else chosen, seeds, count) for count in counts}
    runs = measured(out / "fig3c", found, [RULE], toys.figure_3b(), INSIDE, rejected, seed=seed)
    _draw_rejected(out, runs, counts)
    return Outcome(runs)


def particles(chosen: Plan, seeds: Sequence[int], count: int | None = None) -> Posterior:
    """The particles of all seeds, with so many points of the rule, or without it."""
    frame = toys.figure_3b()
    changes: dict[str, Any] = {}
    if count is not None:
        ends = ENDS if chosen.model.get("corners") and count > ENDS else 0
        changes = {"rules": [RULE], "points": count - ends, "corners": ends > 0}
    results, model = [], None
    for seed in seeds:
        if model is None or chosen.fixed_points:  # one model for all seeds is compiled once
            model = build(chosen, frame, seed=seed, **changes)
        results.append(drawn(model, chosen, seed=seed, **chosen.run))
    first = Posterior.from_result(results[0])
    return replace(first, draws=np.concatenate([result.draws for result in results]))


def rejected(posterior: Posterior) -> dict[str, Any]:
    """The share of particles that enter the box anywhere: mean over seeds, each seed's, and the band."""
    values = function_draws(posterior, INSIDE)
    entered = ((values >= FORBIDDEN[0]) & (values <= FORBIDDEN[1])).any(axis=1)
    by_seed = entered.reshape(posterior.draws.shape[:2]).mean(axis=1)
    return {
        "rejected": float(by_seed.mean()),
        "rejected_low": float(by_seed.min()),
        "rejected_high": float(by_seed.max()),
        "rejected_by_seed": by_seed.tolist(),
    }


def _draw_rejected(out: Path, runs: Mapping[str, Mapping[str, Any]], counts: Sequence[int]) -> None:
    """Rejected share against log-points, the baseline as a line."""

    def paint(ax: Axes) -> None:
        rows = [runs[f"points_{count}"] for count in counts]
        middle, low, high = (
            [row[name] for row in rows] for name in ("rejected", "rejected_low", "rejected_high")
        )
        ax.fill_between(counts, low, high, color=style.WITH, alpha=0.25, lw=0)
        ax.plot(counts, middle, color=style.WITH, marker="o", label="OC-BNN")
        ax.axhline(runs["baseline"]["rejected"], color=style.WITHOUT, ls="--", label="BNN")
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
