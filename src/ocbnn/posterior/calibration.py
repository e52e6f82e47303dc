"""Calibration: predicted probabilities against frequencies, and intervals against the share they contain.

Of rows that the posterior has not seen:

- classes: rows are put in bins of what the model believed, and in each bin the share of rows in which it
  happened should be that belief. Two classes: the belief is the second one's probability; more: that of the
  predicted class. The prediction set of a row is its most probable classes up to the asked coverage.
- numbers: the central interval of nominal coverage c should hold y in a share c of the rows, for every c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.special import ndtr

from ocbnn.checking.figures import CONFIDENCE, clopper_pearson, require_confidence
from ocbnn.errors import OCBNNError
from ocbnn.posterior.allowed import ruled_blocks
from ocbnn.posterior.draws import Posterior, Table, as_coded
from ocbnn.posterior.predict import predict, restricted
from ocbnn.rules.requirement import Units

BINS = 10
LEAST_ROWS = 10
"""Rows of a bin: fewer say little, and would say too much of single rows."""
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
COVERAGE = 0.9


@dataclass(frozen=True)
class Bin:
    """What was predicted, and how often it happened, with the ends of an exact interval for that share."""

    predicted: float
    observed: float
    low: float
    high: float
    rows: int


@dataclass(frozen=True)
class Calibration:
    """How well predictions of some rows are calibrated.

    Attributes:
        what: what the bins speak of: a probability, or the nominal coverage of intervals.
        rows: how many there were.
        bins: what was predicted against what was observed.
        error: mean distance between the two; bins of classes count by their rows.
        coverage: the observed share of rows whose interval, or set of classes, of nominal coverage
            `coverage.predicted` holds the truth.
    """

    what: str
    rows: int
    bins: tuple[Bin, ...]
    error: float
    coverage: Bin


class Judged(NamedTuple):
    """What one needs to know of each row.

    Attributes:
        belief: classes: the predicted probability; numbers: the smallest central coverage that holds y.
        happened: classes: whether what was believed came true; numbers: all True.
        needed: the smallest nominal coverage at which the row's interval or set holds the truth.
    """

    belief: Float[np.ndarray, " n"]
    happened: Bool[np.ndarray, " n"]
    needed: Float[np.ndarray, " n"]


def calibration(
    posterior: Posterior,
    table: Table,
    y: Any,
    *,
    bins: int = BINS,
    coverage: float = COVERAGE,
    confidence: float = CONFIDENCE,
) -> Calibration:
    """The calibration of the posterior's predictions of these rows.

    Args:
        posterior: any draws.
        table: rows that it has not seen, a DataFrame or coded.
        y: their target, raw.
        bins: the largest number of bins; all have about the same number of rows.
        coverage: nominal coverage of the intervals or sets that `coverage` speaks of.
        confidence: of the intervals around observed shares.
    """
    require_confidence(confidence)
    return summarised(posterior, judged(posterior, table, y), bins, coverage, confidence)


def judged(posterior: Posterior, table: Table, y: Any) -> Judged:
    """What calibration needs to know of each row; rows can then be chosen without predicting again."""
    coded = as_coded(posterior, table)
    target = posterior.target
    truth = target.to_model(pd.Series(np.asarray(y), name=target.name))
    if len(truth) != len(coded) or not len(coded):
        raise OCBNNError(
            f"Calibration needs rows and their target; there are {len(coded)} rows and {len(truth)} values."
        )
    if posterior.classes:
        probabilities = predict(posterior, coded, levels=(), coverage=None).probabilities
        assert probabilities is not None
        return _judged_classes(probabilities, truth)
    raw, below, units = target.to_raw(truth), np.empty(len(coded)), Units.of_noise(target)
    if posterior.truncated:
        below = restricted(posterior).probability_below(coded, raw)
    else:
        for block, at, values in ruled_blocks(posterior, coded):
            obeying = at.obeying(values)
            each = ndtr((units.of(raw[block]) - units.of(values)) / posterior.noise(coded[block]))
            below[block] = np.where(obeying, each, 0.0).sum(axis=0) / obeying.sum(axis=0)
    needed = np.abs(2.0 * below - 1.0)
    return Judged(needed, np.ones(len(coded), dtype=bool), needed)


def _judged_classes(probabilities: Float[np.ndarray, "n C"], truth: np.ndarray) -> Judged:
    every = np.arange(len(truth))
    order = np.argsort(-probabilities, axis=1, kind="stable")
    place = np.argmax(order == truth[:, None], axis=1)
    sorted_probabilities = np.take_along_axis(probabilities, order, axis=1)
    # The set holds the truth as soon as the classes before it do not reach the coverage.
    before = np.cumsum(sorted_probabilities, axis=1)[every, place] - sorted_probabilities[every, place]
    if probabilities.shape[1] == 2:
        return Judged(probabilities[:, 1], truth == 1, before)
    return Judged(sorted_probabilities[:, 0], place == 0, before)


def summarised(
    posterior: Posterior,
    rows: Judged,
    bins: int = BINS,
    coverage: float = COVERAGE,
    confidence: float = CONFIDENCE,
) -> Calibration:
    """The calibration of judged rows."""
    count = len(rows.belief)
    held = rows.needed <= coverage if not posterior.classes else rows.needed < coverage
    covered = _bin(coverage, held, confidence)
    if not posterior.classes:
        found = tuple(_bin(level, rows.needed <= level, confidence) for level in LEVELS)
        error = float(np.mean([abs(each.predicted - each.observed) for each in found]))
        return Calibration("nominal coverage of intervals", count, found, error, covered)
    target = posterior.target
    what = (
        f"P({target.name} = {target.classes[1]})"
        if len(target.classes) == 2
        else "probability of the predicted class"
    )
    pieces = max(min(bins, count // LEAST_ROWS), 1)
    parts = np.array_split(np.argsort(rows.belief, kind="stable"), pieces)
    found = tuple(_bin(float(rows.belief[part].mean()), rows.happened[part], confidence) for part in parts)
    error = float(sum(each.rows * abs(each.predicted - each.observed) for each in found) / count)
    return Calibration(what, count, found, error, covered)


def _bin(predicted: float, happened: Bool[np.ndarray, " rows"], confidence: float) -> Bin:
    observed = float(happened.mean())
    low, high = clopper_pearson(observed, len(happened), confidence)
    return Bin(float(predicted), observed, low, high, len(happened))
