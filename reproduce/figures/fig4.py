"""Figure 4: fairness against biased data. The rule says what hiring should depend on: skill alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ocbnn import Schema
from ocbnn.plots import style
from ocbnn.posterior import Posterior
from reproduce.data import toys
from reproduce.outcome import Outcome
from reproduce.pictures import CLASS_COLOURS, Panel, draw, draw_points, frame_axes
from reproduce.plans import plan
from reproduce.runs import class_probabilities, measured, with_learnt_prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RULE = toys.FIGURE_4_RULE
GROUPS = (0, 1)
SKILL = np.linspace(0.0, 1.0, 101)


def fig4(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """`always P(y = 1) = x2` with a learnt prior, and chains for the posterior of biased rows."""
    chosen = plan("fig4", setting, quick=quick)
    frame = toys.figure_4(strict=bool(chosen.own.get("strict", False)))
    schema = Schema.infer(frame, target="y", columns={"x2": {"bounds": (0.0, 1.0)}})
    probes = pd.concat([at(group, SKILL[::5]) for group in GROUPS], ignore_index=True)
    drawn, prior = with_learnt_prior(chosen, RULE, frame, schema, probes, seed=seed)
    runs = measured(out / "fig4", drawn, [RULE], frame, probes, fairness_figures, seed=seed)
    draw(
        out, "fig4", [panel(drawn["baseline"], "(a) BNN", frame), panel(drawn["ocbnn"], "(b) OC-BNN", frame)]
    )
    return Outcome(runs, {"prior": prior})


def at(group: int, skill: np.ndarray) -> pd.DataFrame:
    """Applicants of one group."""
    return pd.DataFrame({"x1": np.full(len(skill), group), "x2": skill})


def fairness_figures(posterior: Posterior) -> dict[str, float | None]:
    """The gap between the groups, the decision threshold of each, and the distance to what the rule asks."""
    hired = [class_probabilities(posterior, at(group, SKILL))[:, 1] for group in GROUPS]
    thresholds = [threshold(probabilities) for probabilities in hired]
    apart = None if None in thresholds else abs(thresholds[0] - thresholds[1])  # type: ignore[operator]
    return {
        "gap": float(np.mean(np.abs(hired[0] - hired[1]))),
        "threshold_0": thresholds[0],
        "threshold_1": thresholds[1],
        "threshold_difference": apart,
        "distance_to_rule": float(np.mean(np.abs(np.array(hired) - SKILL))),
    }


def threshold(probabilities: np.ndarray) -> float | None:
    """The skill from which on hiring is more probable than not, by interpolation; None where it never is."""
    above = probabilities > 0.5
    if not above.any():
        return None
    first = int(np.argmax(above))
    if first == 0:
        return float(SKILL[0])
    low, high = probabilities[first - 1], probabilities[first]
    share = (0.5 - low) / (high - low)
    return float(SKILL[first - 1] + share * (SKILL[first] - SKILL[first - 1]))


def panel(posterior: Posterior, title: str, frame: pd.DataFrame) -> Panel:
    """Both groups as two columns, shaded by the probability of being hired, with the rows."""

    def paint(ax: Axes) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        colours = LinearSegmentedColormap.from_list("hired", [CLASS_COLOURS[0], "white", CLASS_COLOURS[1]])
        for group in GROUPS:
            hired = class_probabilities(posterior, at(group, SKILL))[:, 1]
            shades: dict[str, Any] = {"cmap": colours, "vmin": 0.0, "vmax": 1.0}
            extent = (group - 0.4, group + 0.4, 0.0, 1.05)
            ax.imshow(hired[:, None], origin="lower", extent=extent, aspect="auto", **shades)
            edge = threshold(hired)
            if edge is not None:
                ax.plot([group - 0.4, group + 0.4], [edge, edge], color=style.INK, lw=1.4)
        for value, label in ((1, "hired"), (0, "not hired")):
            rows = frame[frame["y"] == value]
            look = {"ms": 5.5, "mfc": CLASS_COLOURS[value], "mec": style.DATA}
            draw_points(ax, rows["x1"], rows["x2"], value, label, **look)
        frame_axes(ax, title, (-0.5, 1.5), (0.0, 1.05), ("group (x1)", "skill (x2)"))
        ax.grid(visible=False)
        ax.set_xticks(GROUPS)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)

    return paint
