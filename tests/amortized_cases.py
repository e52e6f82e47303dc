"""Learnt priors at the size of tests, and the tables they are about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ocbnn.amortize import AmortizedPrior, Learning
from ocbnn.schema import Column, Schema, Target

SIGN_RULE = "always x * y >= 0"
SMALL = Learning(steps=600, points=24, samples=16, starts=1, learning_rate=0.05, dual_rate=0.03)
LINE = Schema((Column("x", "continuous", (-3.0, 3.0), transform="none"),), Target("y", "regression"))
CLASSES = Schema(
    (Column("x", "continuous", (-2.0, 2.0), transform="none"),),
    Target("label", "classification", ("blue", "green", "red")),
)
HIRING = Schema(
    (
        Column("x1", "binary", (0.0, 1.0), transform="none"),
        Column("x2", "continuous", (0.0, 1.0), bounds=(0.0, 1.0), transform="none"),
    ),
    Target("y", "classification", (0, 1)),
)
FRAME = pd.DataFrame({"x": [-7.0, -5.0, 2.0, 2.5], "y": [-0.5, -1.0, 1.0, 0.7]})
"""The paper's toy data of Figure 3a."""


def learnt(rules: list[str], schema: Schema, **options: Any) -> AmortizedPrior:
    """A prior over a network of four units."""
    return AmortizedPrior.learn(rules, schema, **{"hidden": (4,), "learning": SMALL, **options})


def dense_linearization(
    apply: Any, mean: np.ndarray, sd: np.ndarray, x: np.ndarray, step: float = 1e-6
) -> tuple[float, float]:
    """Φ_μ(x) and gᵀ Σ g, with g by central differences and Σ a matrix: the naive twin."""
    g = np.array(
        [(apply(mean + e, x) - apply(mean - e, x)) / (2 * step) for e in step * np.eye(len(mean))]
    )
    return float(apply(mean, x)), float(g @ np.diag(sd**2) @ g)
