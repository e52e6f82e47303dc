"""How far the predictive is from the distribution D_y that a probabilistic rule asks for, at each point.

| name | between D (asked) and p (predicted) |
| --- | --- |
| total_variation | ½ ∫ |D − p| |
| hellinger | √(1 − ∫ √(D p)) |
| kl | ∫ D log(D / p): what is lost in log score by those for whom D is true |
| wasserstein | ∫ |F_D − F_p|, in raw units of y; for classes, which have no order, equal to total variation |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from ocbnn.rules.located import Located, NormalMixture, TargetClassProbabilities, TargetProbability

NAMES = ("total_variation", "hellinger", "kl", "wasserstein")
Z = np.linspace(-8.0, 8.0, 65)
SPREAD_DRAWS = 16
"""Draws, spread over the range of their means, around which the grid of y is fine."""


def class_divergences(
    located: Located, probabilities: Float[np.ndarray, "... n C"]
) -> dict[str, Float[np.ndarray, "... n"]]:
    """Each divergence by name, for predicted class probabilities."""
    if isinstance(located, TargetProbability):
        total = np.where(located.members, probabilities, 0.0).sum(axis=-1)
        predicted = np.stack([1.0 - total, total], axis=-1)
        asked = np.stack([1.0 - located.probability, located.probability], axis=-1)
    else:
        assert isinstance(located, TargetClassProbabilities)
        predicted, asked = probabilities, np.asarray(located.probability)
    predicted = np.clip(predicted, 0.0, 1.0)
    variation = 0.5 * np.abs(predicted - asked).sum(axis=-1)
    overlap = np.sqrt(predicted * asked).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(asked > 0, asked * (np.log(asked) - np.log(predicted)), 0.0).sum(axis=-1)
    return {
        "total_variation": variation,
        "hellinger": np.sqrt(np.maximum(1.0 - overlap, 0.0)),
        "kl": np.maximum(kl, 0.0),
        "wasserstein": variation,
    }


def normal_divergences(
    located: NormalMixture,
    mean: Float[np.ndarray, "S n"],
    sd: Float[np.ndarray, " S"],
    weights: Float[np.ndarray, "groups S"],
) -> dict[str, Float[np.ndarray, "groups n"]]:
    """Each divergence by name, between D and mixtures of the draws' normals with each of the weights.

    Integrals are sums over a grid of y that is fine wherever D or the predictive has a bump.
    """
    found = [_at_point(located, point, mean[:, point], sd, weights) for point in range(mean.shape[1])]
    return {name: np.stack([each[name] for each in found], axis=-1) for name in NAMES}


def normal_total_variation(
    located: NormalMixture,
    mean: Float[np.ndarray, "S n"],
    sd: Float[np.ndarray, " S"],
    weights: Float[np.ndarray, "groups S"],
) -> Float[np.ndarray, "groups n"]:
    """The total variation of `normal_divergences` alone."""
    cells = (_cells(located, point, mean[:, point], sd, weights) for point in range(mean.shape[1]))
    return np.stack([_variation(each) for each in cells], axis=-1)


def moment_gaps(
    located: NormalMixture, mean: Float[np.ndarray, "S n"], sd: Float[np.ndarray, " S"]
) -> Float[np.ndarray, " n"]:
    """How far mean and spread of the draws' mixture are from those of D, in standard deviations of D.

    It is cheap at thousands of points, so it is what an ascent climbs; the divergences then judge.
    """
    weight = np.asarray(located.weight, dtype=float)
    weight = weight / weight.sum(axis=1, keepdims=True)
    asked = (weight * located.mean).sum(axis=1)
    spread = np.sqrt(
        (weight * (np.asarray(located.sd) ** 2 + (located.mean - asked[:, None]) ** 2)).sum(axis=1)
    )
    predicted, predicted_sd = mean.mean(axis=0), np.sqrt(mean.var(axis=0) + (sd**2).mean())
    return np.hypot(predicted - asked, predicted_sd - spread) / spread


class _Cells(NamedTuple):
    """D at one point and the mixtures on a grid of y: D's normals, the grid, and probabilities below and in
    its cells, of which the first and the last have no end.
    """

    asked_normals: tuple[np.ndarray, np.ndarray, np.ndarray]
    grid: np.ndarray
    asked_below: np.ndarray
    below: np.ndarray
    asked: np.ndarray
    predicted: np.ndarray


def _cells(
    located: NormalMixture, point: int, mean: np.ndarray, sd: np.ndarray, weights: np.ndarray
) -> _Cells:
    used = np.asarray(located.weight)[point] > 0
    weight, centre, spread = (np.asarray(each, dtype=float)[point][used] for each in located)
    order = np.argsort(mean)[np.linspace(0, len(mean) - 1, min(SPREAD_DRAWS, len(mean))).astype(int)]
    around = [centre[:, None] + spread[:, None] * Z, mean[order][:, None] + sd[order][:, None] * Z]
    grid = np.unique(np.concatenate([each.ravel() for each in around]))
    # Probabilities of cells are exact, and so is their sum, however coarse the grid is somewhere.
    ends = np.concatenate([[-np.inf], grid, [np.inf]])
    asked_below = weight @ ndtr((ends - centre[:, None]) / spread[:, None])
    below = weights @ ndtr((ends - mean[:, None]) / sd[:, None])
    # Rounding can put the last digit of a difference below zero.
    asked, predicted = (np.maximum(np.diff(each, axis=-1), 0.0) for each in (asked_below, below))
    return _Cells((weight, centre, spread), grid, asked_below, below, asked, predicted)


def _variation(cells: _Cells) -> np.ndarray:
    variation: np.ndarray = 0.5 * np.abs(cells.asked - cells.predicted).sum(axis=-1)
    return variation


def _at_point(
    located: NormalMixture, point: int, mean: np.ndarray, sd: np.ndarray, weights: np.ndarray
) -> dict[str, np.ndarray]:
    cells = _cells(located, point, mean, sd, weights)
    normals, grid, asked_below, below, asked, predicted = cells
    middle = np.concatenate([grid[:1], 0.5 * (grid[1:] + grid[:-1]), grid[-1:]])
    # Logarithms of densities: the probability of a cell far out is rounded to zero.
    ratio = _log_density(*normals, middle) - _log_density(weights, mean, sd, middle)
    logs = asked * ratio
    gaps = np.abs(asked_below - below)[..., 1:-1]
    return {
        "total_variation": _variation(cells),
        "hellinger": np.sqrt(np.maximum(1.0 - np.sqrt(asked * predicted).sum(axis=-1), 0.0)),
        "kl": np.maximum(logs.sum(axis=-1), 0.0),
        "wasserstein": np.trapezoid(gaps, grid, axis=-1),
    }


def _log_density(
    weights: Float[np.ndarray, "... S"], mean: np.ndarray, sd: np.ndarray, y: np.ndarray
) -> Float[np.ndarray, "... y"]:
    each = -0.5 * ((y - mean[:, None]) / sd[:, None]) ** 2 - np.log(sd[:, None] * np.sqrt(2.0 * np.pi))
    largest = each.max(axis=0)
    return np.log(np.maximum(weights @ np.exp(each - largest), np.finfo(float).tiny)) + largest
