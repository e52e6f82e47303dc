"""Posteriors whose functions are known: straight lines and constants, with draws set by hand; and rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
from scipy.stats import entropy

from ocbnn.model import Model
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.sensitivity import log_densities
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Column, Schema, Target

CENTER, SCALE, NOISE = 1.0, 2.0, 0.3
CLASSES = ("blue", "green", "red")
GRID = np.linspace(-2.0, 2.0, 400)[:, None]
GAP = "always not 1 <= y <= 2.5"
NUMBER_RULES = {
    "interval": ["if x > 0 then 0 <= y <= 2"],
    "value": ["if x > 0 then y = 1.5 within 0.4"],
    "values": ["always y = 0 (0.3) or y = 3 (0.7)"],
    "gap": [GAP],
    "depends on x": ["always x * y >= 0"],
    "overlapping": [GAP, "if x > 0 then y >= 0.5", "if x > -1 then y = 3 within 0.4 or y = 0.6 within 0.4"],
}
CLASS_RULES = {
    "class": ["if x > 0 then label = green"],
    "classes": ["always label in {blue, red}"],
    "bound": ["if x > 0 then P(label = red) >= 0.8"],
    "bound of two": ["always P(label in {blue, green}) <= 0.25"],
    "between": ["always 0.3 <= P(label = blue) <= 0.4"],
    "overlapping bounds": [
        "always P(label in {blue, green}) >= 0.7",
        "always P(label in {green, red}) >= 0.7",
        "if x > 0 then P(label = green) <= 0.45",
    ],
    "class and bound": ["always label = green", "always P(label = blue) >= 0.3"],
    "classes and tight bounds": [
        "always label in {blue, green}",
        "always P(label = blue) <= 0.5",
        "if x > 0 then P(label = green) <= 0.5",
    ],
}


def number_schema(columns: int = 1) -> Schema:
    names = ["x"] if columns == 1 else [f"x{i}" for i in range(1, columns + 1)]
    target = Target("y", "regression", center=CENTER, scale=SCALE, observed=(-3.0, 5.0))
    return Schema(tuple(Column(name, "continuous", (-2.0, 2.0)) for name in names), target)


def class_schema(classes: Sequence[str] = CLASSES) -> Schema:
    columns = (
        Column("x", "continuous", (-2.0, 2.0)),
        Column("site", "category", (0.0, 1.0), levels=("north", "south")),
    )
    return Schema(columns, Target("label", "classification", tuple(classes)))


def lines(
    slope: np.ndarray,
    intercept: np.ndarray,
    rules: Sequence[str | Constraint] = (),
    noise: float | None = NOISE,
) -> Posterior:
    """Φ_s(x) = slope_s · x + intercept_s in raw units, from arrays (chains, draws)."""
    model = Model.build(schema=number_schema(), hidden=(), noise=noise, rules=rules)
    draws = np.stack([np.asarray(slope) / SCALE, (np.asarray(intercept) - CENTER) / SCALE], axis=-1)
    return Posterior(draws, model, {"chains": True})


def constants(values: np.ndarray, rules: Sequence[str] = (), noise: float | None = NOISE) -> Posterior:
    """Φ_s(x) = value_s for all x."""
    values = np.asarray(values, dtype=float)
    return lines(np.zeros_like(values), values, rules, noise)


def class_constants(
    probabilities: np.ndarray, rules: Sequence[str] = (), classes: Sequence[str] = CLASSES
) -> Posterior:
    """The same class probabilities (chains, draws, C) at all inputs."""
    probabilities = np.asarray(probabilities, dtype=float)
    model = Model.build(schema=class_schema(classes), hidden=(), rules=rules)
    logs = np.log(probabilities)
    logits = logs if len(classes) > 2 else logs[..., 1:] - logs[..., :1]
    draws = np.zeros((*probabilities.shape[:2], model.size))
    draws[..., -logits.shape[-1] :] = logits
    return Posterior(draws, model, {"chains": True})


def random_posterior(model: Model, shape: tuple[int, int], seed: int = 0, spread: float = 1.0) -> Posterior:
    draws = spread * np.random.default_rng(seed).normal(size=(*shape, model.size))
    return Posterior(draws, model, {"chains": True})


def weighted_split(drawn: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Entropy of the weighted mean, and the weighted mean of entropies, by SciPy."""
    weights = weights / weights.sum()
    return entropy(weights @ drawn), weights @ np.array([entropy(each) for each in drawn])


@cache
def straight(rule: str, noise: float, strength: float | None = None) -> tuple[Posterior, Posterior]:
    """Draws of a line's posterior under a rule, and without it, which is normal; thirty rows around y = 0."""
    x = np.linspace(-1, 1, 30)
    frame = pd.DataFrame({"x": x, "y": np.where(np.arange(30) % 2, 1.0, -1.0)})
    given = {"hidden": (), "noise": noise, "points": 20, "strength": strength, "standardize": False}
    model = Model.build(frame=frame, target="y", rules=[rule], **given)
    rows = np.column_stack([x, np.ones(30)])
    covariance = np.linalg.inv(np.eye(2) + rows.T @ rows / noise**2)
    mean = covariance @ rows.T @ frame["y"].to_numpy() / noise**2
    generator = np.random.default_rng(0)
    asked = model.terms[0].rule.requirement.asked(model.terms[0].points.demand)
    if asked is None:  # a wall: draws are kept with the probability that it leaves them
        free = generator.multivariate_normal(mean, covariance, 8000)
        kept = free[generator.random(8000) < np.exp(log_densities(model, free)[0][:, 0])][:2000]
    else:  # a normal: so is the posterior
        centre, sd = (float(np.asarray(each)[0, 0]) for each in asked.normals[1:])
        ruled = np.column_stack([model.terms[0].points.inputs[:, 0], np.ones(20)])
        free, precision = generator.multivariate_normal(mean, covariance, 2000), np.linalg.inv(covariance)
        pulled = np.linalg.inv(precision + ruled.T @ ruled / 20 / sd**2)
        shift = precision @ mean + ruled.T @ np.full(20, centre) / 20 / sd**2
        kept = generator.multivariate_normal(pulled @ shift, pulled, 2000)
    return tuple(Posterior(draws[None], model, {"chains": False}) for draws in (kept, free[:2000]))
