"""How predictions of test rows are scored, and how models are compared split by split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
from scipy.special import logsumexp, ndtr

COVERAGE = 0.9


class Record(TypedDict):
    """One model on one split of one table; scores are None where it failed.

    `nll` is the mean of −log p(y | x) over test rows, with p the predictive density in units of the target;
    `coverage` the share of test rows in the central 90% interval.
    """

    table: str
    split: int
    model: str
    rmse: float | None
    nll: float | None
    coverage: float | None
    seconds: float
    status: str


class Scored(NamedTuple):
    """Of each test row: the error of the point prediction, log p(y | x), whether the 90% interval holds y."""

    error: np.ndarray
    log_density: np.ndarray
    covered: np.ndarray

    def summary(self) -> dict[str, float]:
        """Over test rows: `rmse`, `nll`, `coverage`."""
        return {
            "rmse": float(np.sqrt(np.mean(self.error**2))),
            "nll": float(-np.mean(self.log_density)),
            "coverage": float(np.mean(self.covered)),
        }


def gaussian_mixture(y: np.ndarray, means: np.ndarray, sds: np.ndarray) -> Scored:
    """Scores of (1/S) Σ_s N(means[s], sds[s]²), shapes (S, n) or, for a single Gaussian, (n,).

    The central interval holds y exactly if the distribution function at y lies between 0.05 and 0.95.
    """
    means, sds = (np.atleast_2d(np.asarray(each, dtype=float)) for each in (means, sds))
    z = (y - means) / sds
    density = logsumexp(-0.5 * z**2 - np.log(sds) - 0.5 * np.log(2 * np.pi), axis=0) - np.log(len(means))
    tail = 0.5 - COVERAGE / 2
    below = ndtr(z).mean(axis=0)
    return Scored(y - means.mean(axis=0), density, (below >= tail) & (below <= 1 - tail))


class Difference(NamedTuple):
    """A mean over splits and its standard error (NaN for one split)."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Difference:
        """The mean of values that belong to one split each."""
        many = len(values) > 1
        error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if many else float("nan")
        return cls(float(np.mean(values)), error)

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.error:.3f}"


def values(records: Sequence[Record], table: str, model: str, key: str) -> dict[int, Any]:
    """One figure of one model on one table by split, where the model did not fail."""
    found = (each for each in records if each["table"] == table and each["model"] == model)
    return {each["split"]: each[key] for each in found if each["rmse"] is not None}


def paired(records: Sequence[Record], table: str, model: str, other: str, key: str) -> Difference | None:
    """Model minus other over the splits that both have; None where there are none."""
    ours, theirs = values(records, table, model, key), values(records, table, other, key)
    both = sorted(ours.keys() & theirs.keys())
    return Difference.of([ours[split] - theirs[split] for split in both]) if both else None
