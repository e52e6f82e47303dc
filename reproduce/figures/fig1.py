"""Figures 1 and 5: a rule on a line, prior and posterior, by chains; the same by particles and by BBB."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ocbnn.posterior import Posterior
from reproduce.data import toys
from reproduce.outcome import Outcome
from reproduce.pictures import Panel, draw, functions
from reproduce.plans import plan
from reproduce.runs import band, measured, with_and_without

RULE = toys.FIGURE_1_RULE
FORBIDDEN = ((-0.3, 0.3), ((-np.inf, 2.5), (3.0, np.inf)))
GRID = pd.DataFrame({"x": np.linspace(-5.0, 5.0, 41)})
INSIDE = pd.DataFrame({"x": np.linspace(-0.3, 0.3, 31)})
_RIGHT = np.linspace(3.5, 5.0, 31)
FAR = pd.DataFrame({"x": np.concatenate([-_RIGHT[::-1], _RIGHT])})
"""Inputs away from rule and data, on either side."""
ENGINES = ("svgd", "bbb")


def fig1(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """`if -0.3 <= x <= 0.3 then 2.5 <= y <= 3`, with and without the rule, with and without data."""
    chosen, frame = plan("fig1", setting, quick=quick), toys.figure_1()
    drawn = with_and_without(chosen, frame, [RULE], seed=seed, probes=GRID, priors=True)
    runs = measured(out / "fig1", drawn, [RULE], frame, GRID, seed=seed)
    runs["ocbnn"]["far_width_ratio"] = width_ratio(drawn["ocbnn"], drawn["baseline"], FAR)
    runs["ocbnn"]["inside_width_ratio"] = width_ratio(drawn["ocbnn"], drawn["baseline"], INSIDE)
    panels = [
        panel("(a) prior", drawn["prior"], drawn["prior_baseline"]),
        panel("(b) posterior", drawn["ocbnn"], drawn["baseline"], frame),
    ]
    draw(out, "fig1", panels)
    return Outcome(runs)


def fig5(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Figure 1's rows and rule with particles and with a variational posterior."""
    frame = toys.figure_1()
    drawn: dict[str, Posterior] = {}
    for engine in ENGINES:
        both = with_and_without(plan("fig5", setting, quick=quick, part=engine), frame, [RULE], seed=seed)
        drawn |= {engine: both["ocbnn"], f"{engine}_baseline": both["baseline"]}
    runs = measured(out / "fig5", drawn, [RULE], frame, GRID, seed=seed)
    for engine in ENGINES:
        runs[engine]["far_width_ratio"] = width_ratio(drawn[engine], drawn[f"{engine}_baseline"], FAR)
    panels = [
        panel(title, drawn[engine], drawn[f"{engine}_baseline"], frame, particles=engine == "svgd")
        for engine, title in zip(ENGINES, ("(a) SVGD", "(b) BBB"), strict=True)
    ]
    draw(out, "fig5", panels)
    return Outcome(runs)


def panel(
    title: str,
    ruled: Posterior,
    baseline: Posterior,
    rows: pd.DataFrame | None = None,
    *,
    particles: bool = False,
) -> Panel:
    """Functions with and without the rule, as in the paper."""
    return functions(
        title,
        ruled,
        baseline,
        across=(-5.0, 5.0),
        up=(-10.0, 12.0),
        rows=rows,
        forbidden=FORBIDDEN,
        particles=particles,
    )


def width_ratio(narrow: Posterior, wide: Posterior, at: pd.DataFrame) -> float:
    """The mean over inputs of how wide one band is in terms of another."""
    (low, high), (lowest, highest) = band(narrow, at), band(wide, at)
    return float(np.mean((high - low) / (highest - lowest)))
