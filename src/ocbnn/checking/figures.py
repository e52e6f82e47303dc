"""Figures with intervals: a draw is the unit, and there are as many independent ones as their effective size.

Draws of a chain are dependent, and points share draws; so a figure is a mean over draws, and its interval
counts n = effective draws. After rejection a mean is a ratio Σ kept·value / Σ kept, and its error is that of
a ratio estimator: of the residuals kept·(value − ratio), over all draws of the chains.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from pydantic import BeforeValidator
from scipy.stats import beta, norm
from scipy.stats import t as student

from ocbnn.checking.convergence import LEAST_DRAWS, bulk_ess
from ocbnn.errors import OCBNNError

CONFIDENCE = 0.95
FEW = 30.0
"""Effective draws on the rarer side of an event below which a normal interval is not to be trusted."""

Number = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
"""A number that JSON has as null where it is not finite."""
Series = Float[np.ndarray, "chains draws"]
Mask = Bool[np.ndarray, "chains draws"]
Draws = Float[np.ndarray, "chains draws size"]


class Figure(NamedTuple):
    """An estimate, the ends of its confidence interval, and the effective number of draws behind it.

    That number is NaN where the interval comes from leaving out groups of draws, which does not need it.
    """

    value: Number
    low: Number
    high: Number
    effective: Number

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def effective_draws(series: Series, kept: Mask, *, has_chains: bool, draws: Draws | None = None) -> float:
    """How many independent kept draws would say as much about the mean of the series over kept draws.

    A series that never changes does not say how dependent draws are: then those of `draws` count that differ
    from the one before, and one for each chain where they are not given. A chain that stands still is one.
    """
    count = float(kept.sum())
    if not has_chains:
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
    has_chains: bool,
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
    effective = effective_draws(series, kept, has_chains=has_chains, draws=draws)
    return Figure(value, *share_ends(values, effective, confidence), effective)


def with_error(figure: Figure, error: float, confidence: float = CONFIDENCE) -> Figure:
    """A share's figure whose interval counts a further, independent standard error."""
    further = float(norm.ppf(0.5 + confidence / 2.0)) * error
    low = figure.value - math.hypot(figure.value - figure.low, further)
    high = figure.value + math.hypot(figure.high - figure.value, further)
    return figure._replace(low=max(low, 0.0), high=min(high, 1.0))


def with_row_errors(
    figure: Figure,
    shares: Float[np.ndarray, "2 resamples"],
    confidence: float = CONFIDENCE,
) -> Figure:
    """A share's figure whose interval counts a further, independent error of the margins behind it.

    `shares` are what it would be were all margins smaller, or larger, by the size of such an error. Sizes
    have no sign, so that their quantile at the confidence leaves out what lies beyond either end.
    """
    first = min(float(np.quantile(shares[0], 1.0 - confidence, method="lower")), figure.value)
    last = max(float(np.quantile(shares[1], confidence, method="higher")), figure.value)
    low = figure.value - math.hypot(figure.value - figure.low, figure.value - first)
    high = figure.value + math.hypot(figure.high - figure.value, last - figure.value)
    return figure._replace(low=max(low, 0.0), high=min(high, 1.0))


def mean_figure(
    series: Series,
    kept: Mask,
    *,
    has_chains: bool,
    draws: Draws | None = None,
    confidence: float = CONFIDENCE,
) -> Figure:
    """The mean over kept draws of anything, with a normal interval; a ratio estimator's after rejection."""
    values = series[kept]
    effective = effective_draws(series, kept, has_chains=has_chains, draws=draws)
    spread = float(values.std(ddof=1)) if len(values) > 1 else math.inf
    value = float(values.mean())
    return Figure(value, *normal_ends(value, spread, effective, confidence), effective)


# Intervals --------------------------------------------------------------------------------------------------


def require_confidence(confidence: float) -> None:
    """Refuse numbers outside [0, 1], such as 95."""
    if not 0.0 < confidence < 1.0:
        raise OCBNNError(f"confidence lies between 0 and 1, such as {CONFIDENCE}; got {confidence!r}.")


def share_ends(
    shares: Float[np.ndarray, " S"], effective: float, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Ends of the interval of the mean of numbers in [0, 1], such as the share of points a draw violates.

    Where an event was rarely seen, or never, it is Clopper and Pearson's with n = effective draws; a number
    in [0, 1] varies at most as a coin with its mean, so that is on the safe side.
    """
    value = float(shares.mean())
    rarer = min((shares > 0).mean(), (shares < 1).mean())
    if np.ptp(shares) == 0.0 or effective * rarer < FEW:
        return clopper_pearson(value, effective, confidence)
    low, high = normal_ends(value, float(shares.std(ddof=1)), effective, confidence)
    return max(low, 0.0), min(high, 1.0)


def clopper_pearson(share: float, count: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Ends of the exact interval of a share seen in `count` trials, which need not be whole."""
    tail, seen = (1.0 - confidence) / 2.0, share * count
    low = 0.0 if seen <= 0 else float(beta.ppf(tail, seen, count - seen + 1.0))
    high = 1.0 if seen >= count else float(beta.ppf(1.0 - tail, seen + 1.0, count - seen))
    return low, high


def normal_ends(value: float, spread: float, effective: float, confidence: float) -> tuple[float, float]:
    """Ends of a mean's interval: normal, or Student's where effective draws are few."""
    level = 0.5 + confidence / 2.0
    quantile = norm.ppf(level) if effective > 1000 else student.ppf(level, max(effective - 1.0, 1.0))
    half = 0.0 if spread == 0.0 else float(quantile) * spread / math.sqrt(effective)
    return value - half, value + half


def leave_one_out(groups: np.ndarray) -> Float[np.ndarray, "groups S"]:
    """Weights of means without each group of draws."""
    weights = (groups != np.unique(groups)[:, None]).astype(float)
    weights = weights[weights.any(axis=1)]
    return weights / weights.sum(axis=1, keepdims=True)


def jackknife(without: Float[np.ndarray, " groups"], confidence: float = CONFIDENCE) -> float:
    """Half the width of the interval of a statistic, from its values without each group of draws."""
    count = len(without)
    if count < 2:
        return math.inf
    error = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    return float(student.ppf(0.5 + confidence / 2.0, count - 1)) * error
