"""Learnt priors at the size of tests, and the tables they are about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ocbnn.amortize import AmortizedPrior, Learning
from ocbnn.schema import Column, Schema, Target

SIGN_RULE = "always x * y >= 0"
SMALL = Learning(steps=400, points=24, samples=16, starts=1, candidates=128, learning_rate=0.05)
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


def rbf_gradient(w: np.ndarray, x: float) -> tuple[float, np.ndarray]:
    """Φ_w(x) and ∇_w Φ_w(x) of a one-layer rbf network on one input, by hand."""
    hidden = (len(w) - 1) // 3
    a, b, v, c = w[:hidden], w[hidden : 2 * hidden], w[2 * hidden : 3 * hidden], w[-1]
    z = a * x + b
    bumps = np.exp(-(z**2))
    slope = -2.0 * z * bumps * v
    return float(v @ bumps + c), np.concatenate([slope * x, slope, bumps, [1.0]])
