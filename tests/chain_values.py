"""Values of chains that are independent, correlated or sticky: shared by the tests of their diagnostics."""

from __future__ import annotations

import math

import numpy as np


def independent(chains: int = 4, draws: int = 500, quantities: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(chains, draws, quantities))


def correlated(coefficient: float, chains: int = 4, draws: int = 500, quantities: int = 6) -> np.ndarray:
    """First-order autoregressions, started from their own distribution."""
    noise = independent(chains, draws, quantities, seed=1)
    values = noise.copy()
    for step in range(1, draws):
        values[:, step] = coefficient * values[:, step - 1] + math.sqrt(1 - coefficient**2) * noise[:, step]
    return values


def sticky() -> np.ndarray:
    """Many rejections: long runs of equal values, hence ties in the ranks."""
    values = independent()
    kept = np.maximum.accumulate(
        np.where(np.random.default_rng(2).random((4, 500)) < 0.3, np.arange(500), 0), axis=1
    )
    return np.take_along_axis(values, kept[..., None], axis=1)
