"""How far the predictive is from the distribution D_y that a probabilistic rule asks for, at each point.

| name | between D (asked) and p (predicted) |
| --- | --- |
| total_variation | ½ ∫ |D − p| |
| hellinger | √(1 − ∫ √(D p)) |
| kl | ∫ D log(D / p): what is lost in log score by those for whom D is true |
| wasserstein | ∫ |F_D − F_p|, in raw units of y; for classes, which have no order, equal to total variation |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

if TYPE_CHECKING:
    from ocbnn.rules.requirement import Asked, Normals

NAMES = ("total_variation", "hellinger", "kl", "wasserstein")
Z = np.linspace(-8.0, 8.0, 65)
SPREAD_DRAWS = 16
"""Draws, spread over the range of their means, around which the grid of y is fine."""


def class_divergences(
    asked: Asked, probabilities: Float[np.ndarray, "... n C"]
) -> dict[str, Float[np.ndarray, "... n"]]:
    """Each divergence by name, for predicted class probabilities."""
    stated = np.asarray(asked.probability)
    predicted = np.clip(asked.of_classes(probabilities), 0.0, 1.0)
    variation = 0.5 * np.abs(predicted - stated).sum(axis=-1)
    overlap = np.sqrt(predicted * stated).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(stated > 0, stated * (np.log(stated) - np.log(predicted)), 0.0).sum(axis=-1)
    return {
        "total_variation": variation,
        "hellinger": np.sqrt(np.maximum(1.0 - overlap, 0.0)),
        "kl": np.maximum(kl, 0.0),
        "wasserstein": variation,
    }


def normal_divergences(
    asked: Normals,
    mean: Float[np.ndarray, "S n"],
    sd: Float[np.ndarray, "S n"],
    weights: Float[np.ndarray, "rows S"],
) -> dict[str, Float[np.ndarray, "rows n"]]:
    """Each divergence by name, between D and mixtures of the draws' normals with each of the weights.

    Integrals are sums over a grid of y that is fine wherever D or the predictive has a bump.
    """
    found = [_at_point(asked, point, mean[:, point], sd[:, point], weights) for point in range(mean.shape[1])]
    return {name: np.stack([each[name] for each in found], axis=-1) for name in NAMES}


def moment_gaps(
    asked: Normals, mean: Float[np.ndarray, "S n"], sd: Float[np.ndarray, "S n"]
) -> Float[np.ndarray, " n"]:
    """How far mean and spread of the draws' mixture are from those of D, in standard deviations of D."""
    weight = np.asarray(asked.weight, dtype=float)
    weight = weight / weight.sum(axis=1, keepdims=True)
    centre = (weight * asked.mean).sum(axis=1)
    spread = np.sqrt((weight * (np.asarray(asked.sd) ** 2 + (asked.mean - centre[:, None]) ** 2)).sum(axis=1))
    predicted, predicted_sd = mean.mean(axis=0), np.sqrt(mean.var(axis=0) + (sd**2).mean(axis=0))
    return np.hypot(predicted - centre, predicted_sd - spread) / spread


def _at_point(
    asked: Normals, point: int, mean: np.ndarray, sd: np.ndarray, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """The divergences at one point: sums over cells of a grid of y, the first and the last without end."""
    used = np.asarray(asked.weight)[point] > 0
    weight, centre, spread = (np.asarray(each, dtype=float)[point][used] for each in asked)
    order = np.argsort(mean)[np.linspace(0, len(mean) - 1, min(SPREAD_DRAWS, len(mean))).astype(int)]
    around = [centre[:, None] + spread[:, None] * Z, mean[order][:, None] + sd[order][:, None] * Z]
    grid = np.unique(np.concatenate([each.ravel() for each in around]))
    # Probabilities of cells are exact, and so is their sum, however coarse the grid is somewhere.
    ends = np.concatenate([[-np.inf], grid, [np.inf]])
    asked_below = weight @ ndtr((ends - centre[:, None]) / spread[:, None])
    below = weights @ ndtr((ends - mean[:, None]) / sd[:, None])
    # Rounding can put the last digit of a difference below zero.
    asked_mass, predicted = (np.maximum(np.diff(each, axis=-1), 0.0) for each in (asked_below, below))
    middle = np.concatenate([grid[:1], 0.5 * (grid[1:] + grid[:-1]), grid[-1:]])
    # Logarithms of densities: the probability of a cell far out is rounded to zero.
    ratio = _log_density(weight, centre, spread, middle) - _log_density(weights, mean, sd, middle)
    gaps = np.abs(asked_below - below)[..., 1:-1]
    return {
        "total_variation": 0.5 * np.abs(asked_mass - predicted).sum(axis=-1),
        "hellinger": np.sqrt(np.maximum(1.0 - np.sqrt(asked_mass * predicted).sum(axis=-1), 0.0)),
        "kl": np.maximum((asked_mass * ratio).sum(axis=-1), 0.0),
        "wasserstein": np.trapezoid(gaps, grid, axis=-1),
    }


def _log_density(
    weights: Float[np.ndarray, "... S"], mean: np.ndarray, sd: np.ndarray, y: np.ndarray
) -> Float[np.ndarray, "... y"]:
    each = -0.5 * ((y - mean[:, None]) / sd[:, None]) ** 2 - np.log(sd[:, None] * np.sqrt(2.0 * np.pi))
    largest = each.max(axis=0)
    return np.log(np.maximum(weights @ np.exp(each - largest), np.finfo(float).tiny)) + largest
