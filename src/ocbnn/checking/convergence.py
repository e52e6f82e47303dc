"""R-hat and effective sample size of many quantities at once (Vehtari et al. 2021).

The definitions are arviz-stats', to which tests compare every function here; that one loops over quantities,
and a verdict on 128 probes must not take longer than the draws it is about.

All functions take values `(chains, draws, quantities)` and give one number per quantity: NaN where there are
too few draws to say, or where a value is not finite.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import rankdata

Values = Float[np.ndarray, "chains draws quantities"]
PerQuantity = Float[np.ndarray, " quantities"]
Rows = Float[np.ndarray, "quantities chains draws"]

LEAST_DRAWS = 4
"""Fewer draws of a chain than this cannot be split into halves that have a variance."""
BLOCK, AT_ONCE = 2_000_000, 16
"""Values, and quantities, taken at a time."""
TAILS = (0.05, 0.95)


class Mixing(NamedTuple):
    """How well chains agree, and how many independent draws they are worth."""

    rhat: PerQuantity
    bulk_ess: PerQuantity
    tail_ess: PerQuantity


def mixing(values: Values) -> Mixing:
    """All three figures, the ranks computed once."""
    return Mixing(*_by_block(_mixing, values, 3))


def rhat(values: Values) -> PerQuantity:
    """Rank-normalised split R-hat: the larger of that of location and that of scale.

    One chain is judged by its two halves.
    """
    return _by_block(lambda rows: _rhat(rows, _normal_scores(_split(rows)))[None], values, 1)[0]


def bulk_ess(values: Values) -> PerQuantity:
    """Effective draws for the centre of the distribution: of rank-normalised split chains."""
    return _by_block(lambda rows: _ess(_normal_scores(_split(rows)))[None], values, 1)[0]


def _mixing(rows: Rows) -> Float[np.ndarray, "3 quantities"]:
    scores = _normal_scores(_split(rows))
    return np.stack([_rhat(rows, scores), _ess(scores), _tail_ess(rows)])


def _by_block(
    function: Callable[[Rows], Float[np.ndarray, "figures quantities"]], values: Values, figures: int
) -> Float[np.ndarray, "figures quantities"]:
    """A function of a few quantities at a time, so that memory does not grow with their number."""
    chains, draws, quantities = values.shape
    result = np.full((figures, quantities), np.nan)
    if chains < 1 or draws < LEAST_DRAWS:
        return result
    step = max(1, min(BLOCK // (chains * draws), AT_ONCE))

    def fill(begin: int) -> None:
        rows = np.moveaxis(values[..., begin : begin + step], -1, 0).astype(np.float64)
        known = np.isfinite(rows).all(axis=(1, 2))
        if known.any():
            result[:, begin + np.flatnonzero(known)] = function(np.ascontiguousarray(rows[known]))

    # Sorting and transforms, most of the work, let other threads run.
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        for _ in pool.map(fill, range(0, quantities, step)):
            pass
    return result


def _split(rows: Rows) -> Rows:
    half = rows.shape[2] // 2
    return np.concatenate([rows[..., :half], rows[..., -half:]], axis=1)


def _normal_scores(rows: Rows) -> Rows:
    """Ranks over all chains together, as quantiles of a normal (Blom 1958)."""
    flat = rows.reshape(len(rows), -1)
    ranks = rankdata(flat, axis=1)
    return ndtri((ranks - 0.375) / (flat.shape[1] + 0.25)).reshape(rows.shape)


def _rhat(rows: Rows, scores: Rows) -> PerQuantity:
    halves = _split(rows)
    folded = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
    return np.fmax(_between_to_within(scores), _between_to_within(_normal_scores(folded)))


def _between_to_within(rows: Rows) -> PerQuantity:
    draws = rows.shape[2]
    between = draws * rows.mean(axis=2).var(axis=1, ddof=1)
    within = rows.var(axis=2, ddof=1).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((between / within + draws - 1) / draws)


def _tail_ess(rows: Rows) -> PerQuantity:
    ends = np.quantile(rows, TAILS, axis=(1, 2), keepdims=True)
    low, high = (_ess(_split((rows <= end).astype(np.float64))) for end in ends)
    return np.minimum(low, high)


def _ess(rows: Rows) -> PerQuantity:
    """Geyer's initial monotone sequence over chains; a constant counts as that many independent draws."""
    _, chains, draws = rows.shape
    covariance = _autocovariance(rows).mean(axis=1)
    within = covariance[:, 0] * draws / (draws - 1.0)
    total = covariance[:, 0].copy()
    if chains > 1:
        total += rows.mean(axis=2).var(axis=1, ddof=1)
    constant = np.ptp(rows, axis=(1, 2)) < np.finfo(float).resolution
    correlation = 1.0 - (within[:, None] - covariance) / np.where(constant, 1.0, total)[:, None]
    correlation[:, 0] = 1.0
    time = _correlation_time(correlation)
    size = chains * draws
    effective = size / np.maximum(time, 1.0 / math.log10(size))
    return np.where(constant, float(size), effective)


def _autocovariance(rows: Rows) -> Rows:
    draws = rows.shape[2]
    centred = rows - rows.mean(axis=2, keepdims=True)
    spectrum = np.fft.rfft(centred, n=1 << (2 * draws - 1).bit_length(), axis=2)
    return np.fft.irfft(np.abs(spectrum) ** 2, axis=2)[..., :draws] / draws


def _correlation_time(correlation: Float[np.ndarray, "quantities lags"]) -> PerQuantity:
    """The sum −1 + 2 Σ of pairs of lags, made monotone, up to the first pair that is not positive."""
    lags = correlation.shape[1]
    last = max((lags - 3) // 2, 0)
    even, odd = correlation[:, 0 : 2 * last + 1 : 2], correlation[:, 1 : 2 * last + 2 : 2]
    pairs = even + odd
    ended = pairs <= 0.0
    end = np.where(ended.any(axis=1), np.argmax(ended, axis=1), last)
    monotone = np.minimum.accumulate(pairs, axis=1)
    included = np.arange(pairs.shape[1]) < end[:, None]
    every = np.arange(len(pairs))
    closing = even[every, end]
    kept = (closing > 0) | (pairs[every, end] >= 0)
    return -1.0 + 2.0 * np.where(included, monotone, 0.0).sum(axis=1) + np.where(kept, closing, 0.0)
