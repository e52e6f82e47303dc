"""Intervals of shares and of statistics of draws, counted in effective draws."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.stats import beta, norm
from scipy.stats import t as student

from ocbnn.errors import OCBNNError

CONFIDENCE = 0.95
FEW = 30.0
"""Effective draws on the rarer side of an event below which a normal interval is not to be trusted."""


def require_confidence(confidence: float) -> None:
    """Refuse what is no probability, such as 95."""
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
    half = 0.0 if spread == 0.0 else _quantile(effective, confidence) * spread / math.sqrt(effective)
    return value - half, value + half


def _quantile(effective: float, confidence: float) -> float:
    level = 0.5 + confidence / 2.0
    return float(norm.ppf(level) if effective > 1000 else student.ppf(level, max(effective - 1.0, 1.0)))


def leave_one_out(groups: np.ndarray) -> Float[np.ndarray, "groups S"]:
    """Weights of means without each group of draws."""
    weights = (groups != np.unique(groups)[:, None]).astype(float)
    weights = weights[weights.any(axis=1)]
    return weights / weights.sum(axis=1, keepdims=True)


def jackknife(value: float, without: Float[np.ndarray, " groups"], confidence: float = CONFIDENCE) -> float:
    """Half the width of the interval of a statistic, from its values without each group of draws."""
    count = len(without)
    if count < 2:
        return math.inf
    error = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    return float(student.ppf(0.5 + confidence / 2.0, count - 1)) * error
