"""The densities that samplers are compared on, each as a `Model`."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ocbnn.model import Model
from ocbnn.model.terms import Dirichlet, NegativeExponential

GRID = np.linspace(-5.0, 5.0, 41)


def figure1(*, rule: bool = True) -> Model:
    """Figure 1 of the paper: six points, ten rbf units, raw units; its rule as the paper scores it."""
    x = np.array([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
    frame = pd.DataFrame({"x": x, "y": -(x**4) + 3 * x**2 + 1})
    rules = ["if -0.3 <= x <= 0.3 then 2.5 <= y <= 3"] if rule else []
    return Model.build(
        frame=frame,
        target="y",
        rules=rules,
        noise=0.1,
        standardize=False,
        term=NegativeExponential(raw=True) if rule else None,
        strength=1e4 if rule else None,
    )


def figure2() -> Model:
    """Figure 2: three classes in the plane, ten rbf units, Dirichlet(10, 1.5, 1.5) in a box."""
    generator = np.random.default_rng(0)
    centres = {"red": (-0.1, -3.0), "blue": (-2.8, 1.0), "green": (2.1, 2.9)}
    rows = [(*generator.normal(centre, 0.6), label) for label, centre in centres.items() for _ in range(8)]
    frame = pd.DataFrame(rows, columns=["x1", "x2", "y"])
    return Model.build(
        frame=frame,
        target="y",
        rules=["if 1 < x1 < 3 and -2 < x2 < 0 then y = green"],
        standardize=False,
        term=Dirichlet(),
        strength=10.0,
        reduction="sum",
    )


def probes(name: str) -> np.ndarray:
    """Where effective draws are counted: 41 points on a line, or 49 on a grid of the plane."""
    if name == "figure2":
        axis = np.linspace(-5.0, 5.0, 7)
        return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return GRID[:, None]


DENSITIES = {"figure1b": figure1, "figure1": lambda: figure1(rule=False), "figure2": figure2}
