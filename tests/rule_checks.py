"""A straight line with one rule, and checks with figures set by hand: shared by the tests of checking."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ocbnn.checking.figures import Figure
from ocbnn.checking.results import RuleCheck, verdict
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm


def line(rule: str, y: list[float] | None = None) -> tuple[Model, RuleTerm]:
    """Two weights, y = slope · x + bias, on four rows."""
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0.0, 1.0, 2.0, 3.0] if y is None else y})
    model = Model.build(frame=frame, target="y", rules=[rule], hidden=(), noise=0.5, standardize=False)
    return model, model.terms[0]


def draws(*weights: tuple[float, float], repeat: int = 1) -> np.ndarray:
    """One row of draws, each (slope, bias)."""
    return np.repeat(np.array([weights]), repeat, axis=1)


def checked(
    violation: float,
    error: float,
    effective: float,
    low: float = 0.0,
    high: float = math.inf,
    *,
    error_of_points: float = 0.0,
    tolerance: float = 0.01,
) -> RuleCheck:
    """The check of a rule with this violation."""
    figure = Figure(violation, low, high, effective)
    return RuleCheck(
        "rule",
        "rule",
        tolerance,
        verdict(figure, tolerance),
        points=100,
        epsilon_mean=figure,
        error=error,
        error_of_points=error_of_points,
    )
