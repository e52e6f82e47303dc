"""The paper's toy tables (section 5): one function for each figure's rows, its rule beside it.

Inputs are `x` in one dimension, `x1` and `x2` in two; the target is `y`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

FIGURE_1_RULE = "if -0.3 <= x <= 0.3 then 2.5 <= y <= 3"
FIGURE_2_RULE = "if 1 < x1 < 3 and -2 < x2 < 0 then y = green"
FIGURE_3A_RULE = "always x * y >= 0"
FIGURE_3B_RULE = "if -1 <= x <= 1 then not 1 <= y <= 2.5"
FIGURE_4_RULE = "always P(y = 1) = x2"
FIGURE_6_BANDS = ((-4.39, -3.39), (-0.5, 0.5), (3.39, 4.39))
"""Where the paper's figure 6 puts its three value rules."""

CENTRES = {"red": (-0.1, -3.0), "green": (2.1, 2.9), "blue": (-2.8, 1.0)}
SPREAD, PER_CLASS, SEED = 0.6, 8, 2020


def figure_1() -> pd.DataFrame:
    """Six points of y = −x⁴ + 3x² + 1 on either side of a gap."""
    x = np.array([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
    return pd.DataFrame({"x": x, "y": -(x**4) + 3 * x**2 + 1})


def figure_2() -> pd.DataFrame:
    """Eight points of each of three classes, drawn once from Gaussians around the paper's centres."""
    generator = np.random.default_rng(SEED)
    parts = [
        pd.DataFrame(generator.normal(centre, SPREAD, (PER_CLASS, 2)), columns=["x1", "x2"]).assign(y=label)
        for label, centre in CENTRES.items()
    ]
    return pd.concat(parts, ignore_index=True)


def figure_3a() -> pd.DataFrame:
    """Four points that keep to x·y ≥ 0."""
    return pd.DataFrame({"x": [-7.0, -5.0, 2.0, 2.5], "y": [-0.5, -1.0, 1.0, 0.7]})


def figure_3b() -> pd.DataFrame:
    """Four points, two on either side of a forbidden box."""
    return pd.DataFrame({"x": [-3.5, -2.0, 2.0, 3.5], "y": [-1.0, 0.25, 3.5, 4.5]})


def figure_4(*, strict: bool = False) -> pd.DataFrame:
    """Hiring by group (x1) and skill (x2): hired from 0.2 up in group 0, from 0.8 up in group 1 (biased).

    Args:
        strict: hired above these only, as the authors' code has it (errata E2).
    """
    skill = np.round(np.arange(0.1, 1.05, 0.1), 1)
    parts = [
        pd.DataFrame(
            {"x1": group, "x2": skill, "y": (skill > threshold if strict else skill >= threshold).astype(int)}
        )
        for group, threshold in ((0, 0.2), (1, 0.8))
    ]
    return pd.concat(parts, ignore_index=True)


def truth_6(x: np.ndarray) -> np.ndarray:
    """The function behind figure 6."""
    return 5.0 * np.cos(x / 1.7)


def figure_6() -> pd.DataFrame:
    """Six points with large noise around y = 5 cos(x/1.7)."""
    x = np.array([-2.7, -2.3, -2.0, 2.0, 2.3, 2.7])
    return pd.DataFrame({"x": x, "y": truth_6(x) + np.array([0.4, 0.2, 0.7, -2.5, 0.6, 2.1])})
