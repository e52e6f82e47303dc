"""Laws of the default path: whole fits are repeated, so that their Monte Carlo error is measured.

A law says that two ways of fitting give the same answer. Each way is fitted several times with other seeds.
The answers are means and bands of the function at a few fixed probes, in units of the posterior's own
standard deviation. The spread over whole fits says how precisely a difference is known. A law holds where no
difference is larger than four of its standard errors, and where that error is small enough at every probe for
a real difference to be seen: a planted defect at one probe alone, of a mean or of a band, has to be noticed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

SIGNIFICANT = 4.0
DEFECT = 0.3
"""What may not stay unseen: this many posterior standard deviations, or this share of a band's width."""
PRECISE = DEFECT / SIGNIFICANT
"""The largest standard error, at any probe, with which a law says anything."""
MOST_PROBES = 40


@dataclass(frozen=True)
class Answers:
    """Mean and standard deviation of Φ at the probes, by fit: arrays (fits, probes)."""

    mean: np.ndarray
    sd: np.ndarray

    def moved(self, by: float = DEFECT, probe: int | None = None) -> "Answers":
        """The same with a planted defect of so many posterior standard deviations, at one probe or all."""
        return Answers(self.mean + by * self.sd.mean(axis=0) * self._at(probe), self.sd)

    def narrowed(self, by: float = DEFECT, probe: int | None = None) -> "Answers":
        """The same with bands that are narrower by this share, at one probe or all."""
        return Answers(self.mean, self.sd * (1.0 - by * self._at(probe)))

    def _at(self, probe: int | None) -> np.ndarray:
        places = np.arange(self.mean.shape[1])
        return np.ones(len(places)) if probe is None else (places == probe).astype(float)


def answers(
    make: Callable[[int], Any], X: Any, y: Any, probes: pd.DataFrame, seeds: Sequence[int]
) -> Answers:
    """What whole fits with these seeds say at the probes; of classes, the log-odds of each."""
    means, sds = [], []
    for seed in seeds:
        values = log_odds(make(seed).fit(X, y).sample_function(probes))
        means.append(values.mean(axis=0))
        sds.append(values.std(axis=0))
    return Answers(np.array(means), np.array(sds))


def log_odds(values: np.ndarray) -> np.ndarray:
    """Φ `(draws, probes)` as it is; of class probabilities the log-odds `(draws, probes × classes)`.

    Of two classes one is left: the other's log-odds are the same with the other sign.
    """
    if values.ndim == 2:
        return values
    p = np.clip(values[..., 1:] if values.shape[-1] == 2 else values, 1e-9, 1 - 1e-9)
    return (np.log(p) - np.log1p(-p)).reshape(len(values), -1)


@dataclass(frozen=True)
class Difference:
    """Of two ways of fitting, at every probe: of means, in posterior standard deviations, and of log bands.

    Attributes:
        mean: of the means.
        mean_error: its standard error.
        band: of the logarithms of the bands.
        band_error: its standard error.
    """

    mean: np.ndarray
    mean_error: np.ndarray
    band: np.ndarray
    band_error: np.ndarray

    @property
    def none(self) -> bool:
        """No probe shows a difference."""
        return bool(max(_largest(self.mean / self.mean_error), self._largest_band) < SIGNIFICANT)

    @property
    def precise(self) -> bool:
        """A defect could hide in the error at no probe, neither in the mean nor in the band."""
        return bool(max(self.mean_error.max(), self.band_error.max()) <= PRECISE)

    @property
    def _largest_band(self) -> float:
        return _largest(self.band / self.band_error)

    def __str__(self) -> str:
        return (
            f"|z| of means {_largest(self.mean / self.mean_error):.2f}, of bands {self._largest_band:.2f}; "
            f"largest shift {_largest(self.mean):.3f} sd, standard errors up to {self.mean_error.max():.3f} "
            f"sd and {self.band_error.max():.3f} of a band"
        )


def difference(one: Answers, other: Answers) -> Difference:
    """How two ways of fitting differ, in posterior standard deviations, with the error of whole fits."""
    assert one.mean.shape[1] <= MOST_PROBES
    unit = 0.5 * (one.sd.mean(axis=0) + other.sd.mean(axis=0))
    return Difference(
        (other.mean.mean(axis=0) - one.mean.mean(axis=0)) / unit,
        np.sqrt(_squared_error(one.mean / unit) + _squared_error(other.mean / unit)),
        np.log(other.sd).mean(axis=0) - np.log(one.sd).mean(axis=0),
        np.sqrt(_squared_error(np.log(one.sd)) + _squared_error(np.log(other.sd))),
    )


def unseen(one: Answers, other: Answers) -> list[tuple[str, int]]:
    """Planted defects, of one probe's mean or band, that these fits would not show.

    Each is planted where the two ways of fitting agree otherwise, so that chance neither hides nor helps it.
    """
    alike = Answers(other.mean + (one.mean.mean(axis=0) - other.mean.mean(axis=0)), other.sd)
    ratio = np.exp(np.log(one.sd).mean(axis=0) - np.log(other.sd).mean(axis=0))
    alike = Answers(alike.mean, other.sd * ratio)
    planted = {"mean": alike.moved, "band": alike.narrowed}
    return [
        (what, probe)
        for what, plant in planted.items()
        for probe in range(one.mean.shape[1])
        if difference(one, plant(probe=probe)).none
    ]


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max())


def _squared_error(values: np.ndarray) -> np.ndarray:
    """Of the mean over fits; the spread is pooled over probes, which makes few fits enough."""
    by_probe = values.var(axis=0, ddof=1)
    return np.maximum(by_probe, by_probe.mean()) / len(values)
