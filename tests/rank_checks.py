"""Whether ranks of the truth among draws are uniform (Talts et al. 2018, Säilynoja et al. 2022)."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.stats import binom

KEPT = 99
"""Draws among which the truth is ranked."""


def implausibility(ranks: np.ndarray) -> np.ndarray:
    """−log of the smallest pointwise tail probability of the empirical distribution function `(samples,)`.

    At each of its places the number of ranks below is binomial (Säilynoja et al. 2022, section 3).
    """
    places = np.arange(1, KEPT + 1)
    counts = np.stack([np.sum(ranks < place, axis=-1) for place in places], axis=-1)
    share = places / (KEPT + 1)
    below = binom.logcdf(counts, ranks.shape[-1], share)
    above = binom.logsf(counts - 1, ranks.shape[-1], share)
    return -np.min(np.minimum(below, above), axis=-1)


@cache
def band(simulations: int, quantities: int) -> float:
    """What the worst of as many samples of uniform ranks as there are quantities exceeds in 1 % of cases."""
    uniform = np.random.default_rng(0).integers(0, KEPT + 1, size=(2_000 * quantities, simulations))
    worst = implausibility(uniform).reshape(-1, quantities).max(axis=1)
    return float(np.quantile(worst, 0.99))
