"""Figure 2: three classes in the plane; a box in which one of them is required."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ocbnn.posterior import Posterior
from reproduce.data import toys
from reproduce.outcome import Outcome
from reproduce.pictures import CLASS_COLOURS, Panel, draw, draw_classes, frame_axes, key, outline, plane
from reproduce.plans import plan
from reproduce.runs import class_probabilities, measured, with_and_without

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RULE, REQUIRED = toys.FIGURE_2_RULE, "green"
ACROSS, UP = (1.0, 3.0), (-2.0, 0.0)
AXES = (-5.0, 5.0)
FAR = 2.0


def fig2(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """`if 1 < x1 < 3 and -2 < x2 < 0 then y = green`, with and without the rule, with and without data."""
    chosen, frame, probes = plan("fig2", setting, quick=quick), toys.figure_2(), plane(AXES, AXES, 7)
    drawn = with_and_without(chosen, frame, [RULE], seed=seed, probes=probes, priors=True)
    own = partial(class_figures, frame=frame)
    runs = measured(out / "fig2", drawn, [RULE], frame, probes, own, seed=seed)
    _draw(out, drawn, frame)
    return Outcome(runs)


def class_figures(posterior: Posterior, frame: pd.DataFrame) -> dict[str, float]:
    """Probability of the required class in the box, accuracy on the rows, confidence far from all of it."""
    required = class_probabilities(posterior, plane(ACROSS, UP, 21))
    rows = class_probabilities(posterior, frame[["x1", "x2"]]).argmax(axis=1)
    labels = np.array(posterior.classes)[rows]
    return {
        "required_mean": float(required[:, posterior.classes.index(REQUIRED)].mean()),
        "training_accuracy": float((labels == frame["y"].to_numpy()).mean()),
        "far_confidence": float(class_probabilities(posterior, far_points(frame)).max(axis=1).mean()),
    }


def far_points(frame: pd.DataFrame) -> pd.DataFrame:
    """Points of the picture that are 2 or more away from the box and from every row."""
    at = plane(AXES, AXES, 41)
    points, rows = at.to_numpy(), frame[["x1", "x2"]].to_numpy()
    box = np.clip(points, [ACROSS[0], UP[0]], [ACROSS[1], UP[1]])
    to_box = np.linalg.norm(points - box, axis=1)
    to_rows = np.linalg.norm(points[:, None] - rows[None], axis=2).min(axis=1)
    return at[(to_box >= FAR) & (to_rows >= FAR)]


def _draw(out: Path, drawn: Mapping[str, Posterior], frame: pd.DataFrame) -> None:
    """Prior and posterior side by side, the baselines as insets."""

    def panel(title: str, ruled: str, baseline: str, rows: pd.DataFrame | None) -> Panel:
        def paint(ax: Axes) -> None:
            draw_classes(ax, drawn[ruled], rows, AXES, AXES)
            outline(ax, ACROSS, UP, CLASS_COLOURS[REQUIRED], "must be green")
            frame_axes(ax, title, AXES, AXES, ("x1", "x2"))
            inset = ax.inset_axes((0.02, 0.02, 0.3, 0.3))
            draw_classes(inset, drawn[baseline], rows, AXES, AXES)
            inset.set(xticks=[], yticks=[], xlim=AXES, ylim=AXES)
            inset.set_title("BNN", fontsize=7, pad=1.5)
            for artist in inset.get_lines():
                artist.set_markersize(2)
            key(ax, loc="upper left", ncols=2)

        return paint

    panels = [
        panel("(a) prior", "prior", "prior_baseline", None),
        panel("(b) posterior", "ocbnn", "baseline", frame),
    ]
    draw(out, "fig2", panels, size=(3.8, 3.4))
