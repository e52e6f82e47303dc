"""Figures with intervals: a draw is the unit, and there are as many independent ones as their effective size.

Draws of a chain are dependent, and points share draws; so a figure is a mean over draws, and its interval
counts n = effective draws. After rejection a mean is a ratio Σ kept·value / Σ kept, and its error is that of
a ratio estimator: of the residuals kept·(value − ratio), over all draws of the chains.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ocbnn.checking.convergence import LEAST_DRAWS, bulk_ess
from ocbnn.checking.intervals import (
    CONFIDENCE,
    clopper_pearson,
    jackknife,
    leave_one_out,
    normal_ends,
    require_confidence,
    share_ends,
)
from ocbnn.posterior.draws import Posterior

GROUPS = 10
"""Of draws left out in turns, where there are no chains to leave out."""

__all__ = [
    "CONFIDENCE",
    "Figure",
    "Halves",
    "clopper_pearson",
    "draw_groups",
    "effective_draws",
    "halves",
    "jackknife",
    "leave_one_out",
    "mean_figure",
    "require_confidence",
    "share_figure",
]

Series = Float[np.ndarray, "chains draws"]
Mask = Bool[np.ndarray, "chains draws"]
Draws = Float[np.ndarray, "chains draws size"]


class Figure(NamedTuple):
    """An estimate, the ends of its confidence interval, and the effective number of draws behind it.

    That number is NaN where the interval comes from leaving out groups of draws, which does not need it.
    """

    value: float
    low: float
    high: float
    effective: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def effective_draws(series: Series, kept: Mask, *, chains: bool, draws: Draws | None = None) -> float:
    """How many independent kept draws would say as much about the mean of the series over kept draws.

    A series that never changes does not say how dependent draws are: then those of `draws` count that differ
    from the one before, and one for each chain where they are not given. A chain that stands still is one.
    """
    count = float(kept.sum())
    if not chains:
        return count
    # Chains, and stretches at either end, of which nothing is kept have no part in the estimate.
    columns = np.flatnonzero(kept.any(axis=0))
    inside = np.ix_(kept.any(axis=1), np.arange(columns[0], columns[-1] + 1))
    series, kept = series[inside], kept[inside]
    share = float(kept.mean())
    residual = np.where(kept, series - series[kept].mean(), 0.0)
    residual = np.where(np.isfinite(residual), residual, 0.0)
    if np.ptp(residual) == 0.0:
        alive = kept.any(axis=1).sum()
        return float(alive if draws is None else max((kept & _moved(draws[inside])).sum(), alive))
    if series.shape[1] < LEAST_DRAWS:
        return float(min(kept.any(axis=1).sum(), count))  # nothing is known of chains this short
    effective = float(bulk_ess(residual[..., None])[0])
    return min(max(effective * share, 1.0), count) if math.isfinite(effective) else 1.0


def _moved(draws: Draws) -> Mask:
    """Which draws differ from the one before in their chain; the first of each does."""
    first = np.ones((len(draws), 1), dtype=bool)
    return np.concatenate([first, (draws[:, 1:] != draws[:, :-1]).any(axis=-1)], axis=1)


def share_figure(
    share: Series,
    kept: Mask,
    *,
    chains: bool,
    instead: Series | None = None,
    draws: Draws | None = None,
    confidence: float = CONFIDENCE,
) -> Figure:
    """The mean over kept draws of something in [0, 1], such as the share of points a draw violates.

    A series that never changes has no effective size of its own; then that of `instead` counts: the margins
    behind it; and where those never change either, the moves of the draws.
    """
    values = share[kept]
    value = float(values.mean())
    constant = np.ptp(values) == 0.0
    series = instead if constant and instead is not None else share
    effective = effective_draws(series, kept, chains=chains, draws=draws)
    return Figure(value, *share_ends(values, effective, confidence), effective)


def mean_figure(
    series: Series,
    kept: Mask,
    *,
    chains: bool,
    draws: Draws | None = None,
    confidence: float = CONFIDENCE,
) -> Figure:
    """The mean over kept draws of anything, with a normal interval; a ratio estimator's after rejection."""
    values = series[kept]
    effective = effective_draws(series, kept, chains=chains, draws=draws)
    spread = float(values.std(ddof=1)) if len(values) > 1 else math.inf
    value = float(values.mean())
    return Figure(value, *normal_ends(value, spread, effective, confidence), effective)


def draw_groups(posterior: Posterior) -> np.ndarray:
    """The group of each kept draw, to be left out in turns: its chain, or one of a few stretches of draws."""
    chain = np.nonzero(posterior.mask)[0]
    _, group = np.unique(chain, return_inverse=True)
    if posterior.has_chains and group.max(initial=0) >= 3:
        return group
    # A few chains say too little about the spread between groups: stretches of draws do.
    return np.minimum(np.arange(len(chain)) * GROUPS // max(len(chain), 1), GROUPS - 1)


class Halves(NamedTuple):
    """Two masks that share no draw: one to find a worst point, the other to estimate what happens there."""

    finding: Mask
    estimating: Mask
    how: str


def halves(posterior: Posterior) -> Halves:
    """Half of the chains and the other half; of a single chain its two stretches; else every other draw."""
    kept = posterior.mask
    alive = np.flatnonzero(kept.any(axis=1))
    first = np.zeros_like(kept)
    if posterior.has_chains and len(alive) > 1:
        first[alive[::2]] = True
        how = "found on half of the chains, estimated on the other half"
    elif posterior.has_chains:
        places = np.argwhere(kept)
        first[tuple(places[: len(places) // 2].T)] = True
        how = "one chain: found on its first half, estimated on its second, which depends on the first"
    else:
        first[tuple(np.argwhere(kept)[::2].T)] = True
        how = "found on every other draw, estimated on the others"
    finding, estimating = kept & first, kept & ~first
    if not (finding.any() and estimating.any()):
        return Halves(kept, kept, "one draw: found and estimated on the same, so too good")
    return Halves(finding, estimating, how)
