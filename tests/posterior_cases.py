"""Posteriors whose functions are known: straight lines and constants, with draws set by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocbnn.model import Model
from ocbnn.posterior.draws import Posterior
from ocbnn.schema import Column, Schema, Target

CENTER, SCALE, NOISE = 1.0, 2.0, 0.3
CLASSES = ("blue", "green", "red")


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
    slope: np.ndarray, intercept: np.ndarray, rules: Sequence[str] = (), noise: float | None = NOISE
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
