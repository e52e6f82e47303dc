"""Laws of the default path: whole fits are repeated, so that their Monte Carlo error is measured.

A law says that two ways of fitting give the same answer. Each way is fitted several times with other seeds.
The answers are means and bands of the function at a few fixed probes, in units of the posterior's own
standard deviation. The spread over whole fits says how precisely a difference is known. A law holds where no
difference is larger than four of its standard errors, and where that error is small enough for a real
difference to be seen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

PRECISE = 0.1
"""The largest standard error, in posterior standard deviations, with which a law says anything."""
SIGNIFICANT = 4.0


@dataclass(frozen=True)
class Answers:
    """Mean and standard deviation of Φ at the probes, by fit: arrays (fits, probes)."""

    mean: np.ndarray
    sd: np.ndarray

    def moved(self, by: float) -> "Answers":
        """The same with a planted defect of so many posterior standard deviations."""
        return Answers(self.mean + by * self.sd.mean(axis=0), self.sd)


def answers(
    make: Callable[[int], Any], X: Any, y: Any, probes: pd.DataFrame, seeds: Sequence[int]
) -> Answers:
    """What whole fits with these seeds say at the probes; of classes, the log-odds of the last one."""
    means, sds = [], []
    for seed in seeds:
        values = make(seed).fit(X, y).sample_function(probes)
        if values.ndim == 3:
            p = np.clip(values[..., -1], 1e-9, 1 - 1e-9)
            values = np.log(p) - np.log1p(-p)
        means.append(values.mean(axis=0))
        sds.append(values.std(axis=0))
    return Answers(np.array(means), np.array(sds))


@dataclass(frozen=True)
class Difference:
    """Of two ways of fitting: z-scores at every probe, of means and of log bands, and their precision."""

    z_mean: np.ndarray
    z_band: np.ndarray
    error: np.ndarray
    size: np.ndarray

    @property
    def none(self) -> bool:
        """No probe shows a difference."""
        return bool(max(np.abs(self.z_mean).max(), np.abs(self.z_band).max()) < SIGNIFICANT)

    @property
    def precise(self) -> bool:
        """A defect of 0.3 standard deviations could not hide in the error at most probes."""
        return bool(np.median(self.error) <= PRECISE)

    def __str__(self) -> str:
        return (
            f"|z| of means {np.abs(self.z_mean).max():.2f}, of bands {np.abs(self.z_band).max():.2f}; "
            f"largest shift {np.abs(self.size).max():.3f} sd, standard error {np.median(self.error):.3f} sd"
        )


def difference(one: Answers, other: Answers) -> Difference:
    """How two ways of fitting differ, in posterior standard deviations, with the error of whole fits."""
    assert one.mean.shape[1] <= 30
    unit = 0.5 * (one.sd.mean(axis=0) + other.sd.mean(axis=0))
    size = (other.mean.mean(axis=0) - one.mean.mean(axis=0)) / unit
    error = np.sqrt(_squared_error(one.mean / unit) + _squared_error(other.mean / unit))
    bands = np.log(other.sd).mean(axis=0) - np.log(one.sd).mean(axis=0)
    band_error = np.sqrt(_squared_error(np.log(one.sd)) + _squared_error(np.log(other.sd)))
    return Difference(size / error, bands / band_error, error, size)


def _squared_error(values: np.ndarray) -> np.ndarray:
    """Of the mean over fits; the spread is pooled over probes, which makes few fits enough."""
    by_probe = values.var(axis=0, ddof=1)
    return np.maximum(by_probe, by_probe.mean()) / len(values)
