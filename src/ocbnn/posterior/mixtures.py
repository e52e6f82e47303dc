"""Mixtures of normals over draws, whole or restricted to a union of intervals: masses, moments, quantiles.

For each of b rows the predictive of Y is the mixture (1/S) Σ_s N(μ_s, σ_s²). Restricted to A = ∪_k [l_k, u_k]
it is (1/S) Σ_s N(μ_s, σ_s²) 1_A / Z with Z = (1/S) Σ_s Z_s: draw s has the weight Z_s. Unused slots of the
intervals are (+inf, −inf). Everything here is NumPy, and no row's figures depend on another row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp, ndtr, ndtri

STEPS = 200
PRECISION = 1e-12
"""Of quantiles, as a share of the bracket they are looked for in."""
CLOSE = 1e-9
"""How near its level the probability below a quantile is."""
GRID, EDGE = 65, 0.02
"""Places at which the shortest interval may begin, and how much of the rest lies beyond them at least."""
FAR = 39.0
"""Standard deviations beyond which a normal has no mass that float64 can hold."""


class Mixture(NamedTuple):
    """Normals of S draws at b rows, equally likely; one column of spreads where rows share them."""

    mean: Float[np.ndarray, "S b"]
    sd: Float[np.ndarray, "S b_or_1"]

    def at(self, rows: np.ndarray) -> Mixture:
        """The same at some of the rows."""
        return Mixture(self.mean[:, rows], self.sd if self.sd.shape[1] == 1 else self.sd[:, rows])


class Intervals(NamedTuple):
    """A union of intervals for every row."""

    lower: Float[np.ndarray, "b K"]
    upper: Float[np.ndarray, "b K"]


class Moments(NamedTuple):
    """Of a mixture restricted to each of its intervals: mass, mean, and second moment about `reference`.

    `between` is the variance of the restricted draws' means, each draw with its weight Z_s.
    """

    mass: Float[np.ndarray, "b K"]
    mean: Float[np.ndarray, "b K"]
    second: Float[np.ndarray, "b K"]
    reference: Float[np.ndarray, " b"]
    between: Float[np.ndarray, " b"]

    @property
    def total_mass(self) -> Float[np.ndarray, " b"]:
        """Of all intervals together."""
        return self.mass.sum(axis=1)

    @property
    def total_mean(self) -> Float[np.ndarray, " b"]:
        """Mean of the restricted mixture."""
        return (self.mass * self.mean).sum(axis=1) / self.total_mass

    @property
    def total_sd(self) -> Float[np.ndarray, " b"]:
        """Standard deviation of the restricted mixture."""
        second = (self.mass * self.second).sum(axis=1) / self.total_mass
        return np.sqrt(np.maximum(second - (self.total_mean - self.reference) ** 2, 0.0))


def everything(rows: int) -> Intervals:
    """No restriction at any of the rows."""
    return Intervals(np.full((rows, 1), -np.inf), np.full((rows, 1), np.inf))


def restricted_moments(mixture: Mixture, allowed: Intervals) -> Moments:
    """Masses and moments of the mixture within each allowed interval; a mean lies in its interval."""
    rows, slots = allowed.lower.shape
    mass, mean, second = (np.zeros((rows, slots)) for _ in range(3))
    by_draw, first_by_draw = np.zeros_like(mixture.mean), np.zeros_like(mixture.mean)
    sd = mixture.sd
    # Moments about a nearby point: about zero, a narrow set far away would lose all digits.
    reference = nearest_allowed(mixture.mean.mean(axis=0), allowed)
    about = mixture.mean - reference
    for k in range(slots):
        low, high = allowed.lower[:, k], allowed.upper[:, k]
        used = low <= high
        low, high = np.where(used, low, 0.0), np.where(used, high, 0.0)
        a, b = (low - mixture.mean) / sd, (high - mixture.mean) / sd
        part = np.where(used, _mass_between(a, b), 0.0)
        density_a, density_b = _density(a), _density(b)
        first = about * part + sd * np.where(used, density_a - density_b, 0.0)
        ends = _times(low - reference + about, density_a) - _times(high - reference + about, density_b)
        squared = (sd**2 + about**2) * part + sd * np.where(used, ends, 0.0)
        mass[:, k] = part.mean(axis=0)
        known = np.where(mass[:, k] > 0, mass[:, k], 1.0)
        mean[:, k] = np.clip(reference + first.mean(axis=0) / known, low, high)
        second[:, k] = squared.mean(axis=0) / known
        by_draw += part
        first_by_draw += first
    between = _weighted_variance(by_draw, first_by_draw)
    return Moments(mass, mean, second, reference, between)


def restricted_log_moments(mixture: Mixture, allowed: Intervals) -> Moments:
    """As `restricted_moments`, of exp(Y): the moments that lognormals have within each interval.

    With N(μ, σ²) on [a, b], E[exp(kY); a < Y < b] = exp(kμ + k²σ²/2) · P(a < N(μ + kσ², σ²) < b).

    Args:
        mixture: of Y.
        allowed: intervals of Y; means and moments are of exp(Y), about 0.
    """
    rows, slots = allowed.lower.shape
    parts = np.zeros((3, rows, slots))
    by_draw, first_by_draw = np.zeros_like(mixture.mean), np.zeros_like(mixture.mean)
    sd = mixture.sd
    for k in range(slots):
        used = allowed.lower[:, k] <= allowed.upper[:, k]
        low, high = (np.where(used, ends[:, k], 0.0) for ends in allowed)
        each = []
        for power in (0, 1, 2):
            shifted = mixture.mean + power * sd**2
            mass = np.where(used, _mass_between((low - shifted) / sd, (high - shifted) / sd), 0.0)
            with np.errstate(over="ignore"):
                each.append(mass * np.exp(power * mixture.mean + 0.5 * (power * sd) ** 2))
        parts[:, :, k] = [part.mean(axis=0) for part in each]
        by_draw += each[0]
        first_by_draw += each[1]
    mass = parts[0]
    known = np.where(mass > 0, mass, 1.0)
    between = _weighted_variance(by_draw, first_by_draw)
    return Moments(mass, parts[1] / known, parts[2] / known, np.zeros(rows), between)


def _weighted_variance(weight: np.ndarray, weighted: np.ndarray) -> Float[np.ndarray, " b"]:
    """Variance over draws of weighted / weight, each with its weight."""
    some = weight > 0
    values = np.divide(weighted, weight, out=np.zeros_like(weighted), where=some)
    total = np.maximum(weight.sum(axis=0), np.finfo(float).tiny)
    centre = (weight * values).sum(axis=0) / total
    return (weight * (values - centre) ** 2).sum(axis=0) / total


def sample_restricted(
    generator: np.random.Generator, mixture: Mixture, allowed: Intervals, count: int
) -> Float[np.ndarray, "count b"]:
    """Samples of the restricted mixture: a draw and an interval by their mass, then a truncated normal."""
    sd = mixture.sd
    used = allowed.lower <= allowed.upper
    ends = [np.where(used, each, 0.0) for each in allowed]
    a, b = ((end.T[:, None, :] - mixture.mean) / sd for end in ends)  # (K, S, b)
    mass = np.where(used.T[:, None, :], _mass_between(a, b), 0.0)
    slots, draws, rows = mass.shape
    samples = np.empty((count, rows))
    for row in range(rows):
        share = mass[:, :, row].ravel()
        chosen = generator.choice(slots * draws, size=count, p=share / share.sum())
        slot, draw = np.divmod(chosen, draws)
        z = _truncated(a[slot, draw, row], b[slot, draw, row], generator.random(count))
        raw = mixture.mean[draw, row] + np.broadcast_to(sd, mixture.mean.shape)[draw, row] * z
        samples[:, row] = np.clip(raw, allowed.lower[row, slot], allowed.upper[row, slot])
    return samples


def _truncated(a: np.ndarray, b: np.ndarray, level: np.ndarray) -> np.ndarray:
    """The standard normal's quantile within (a, b), by whichever tail keeps its digits."""
    right = a > 0
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    level = np.where(right, 1.0 - level, level)
    inner = ndtri(ndtr(low) + level * (ndtr(high) - ndtr(low)))
    return np.where(right, -inner, inner)


def quantiles(
    mixture: Mixture, levels: tuple[float, ...], allowed: Intervals | None = None
) -> Float[np.ndarray, "b L"]:
    """The smallest y whose probability of not being exceeded is the level; it lies in the allowed set.

    Found by Newton's method inside a bracket that is halved where Newton would leave it.
    """
    rows = mixture.mean.shape[1]
    found = [_quantile(mixture, level, allowed) for level in levels]
    return np.stack(found, axis=1) if found else np.zeros((rows, 0))


def shortest_interval(
    mixture: Mixture,
    coverage: float,
    allowed: Intervals | None = None,
    raw: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Float[np.ndarray, "b 2"]:
    """The interval of that coverage with the highest density, as one piece: the shortest there is.

    Lengths are of what `raw` makes of the values; default: of the values. How much probability lies below it
    is found on a grid, where the length is flat around its least; the ends are then quantiles, so that the
    coverage is exact.
    """
    rest = 1.0 - coverage
    outer = quantiles(mixture, (rest * EDGE, 1.0 - rest * EDGE), allowed)
    grid = outer[:, :1] + (outer[:, 1:] - outer[:, :1]) * np.linspace(0.0, 1.0, GRID)
    shares = np.stack([below(mixture, allowed, values)[0] for values in grid.T], axis=1)
    if allowed is not None:
        shares /= below(mixture, allowed, np.full(len(grid), np.inf))[0][:, None]
    tails = rest * np.linspace(EDGE, 1.0 - EDGE, GRID)
    shown = grid if raw is None else raw(grid)
    lengths = [
        np.interp(tails + coverage, row, values) - np.interp(tails, row, values)
        for row, values in zip(shares, shown, strict=True)
    ]
    tail = tails[np.argmin(lengths, axis=1)]
    return np.stack([_quantile(mixture, level, allowed) for level in (tail, tail + coverage)], axis=1)


def _quantile(
    mixture: Mixture, level: float | Float[np.ndarray, " b"], allowed: Intervals | None
) -> Float[np.ndarray, " b"]:
    level = np.broadcast_to(level, mixture.mean.shape[1])
    low, high = _bracket(mixture, level, allowed)
    width = np.maximum(high - low, np.finfo(float).tiny)
    total = None if allowed is None else below(mixture, allowed, np.full(len(low), np.inf))[0]
    value, active = _start(mixture, level, low, high), np.flatnonzero(high > low)
    least = np.full(len(value), np.inf)
    for _ in range(STEPS):
        if not active.size:
            break
        some = mixture.at(active)
        within = None if allowed is None else Intervals(allowed.lower[active], allowed.upper[active])
        probability, slope = below(some, within, value[active])
        if total is not None:
            probability, slope = probability / total[active], slope / total[active]
        enough = probability >= level[active]
        high[active] = np.where(enough, value[active], high[active])
        low[active] = np.where(enough, low[active], value[active])
        with np.errstate(all="ignore"):
            newton = value[active] - (probability - level[active]) / slope
        inside = (newton > low[active]) & (newton < high[active])
        near, gap = PRECISION * width[active], np.abs(probability - level[active])
        settled = (np.abs(newton - value[active]) <= near) & (gap <= CLOSE)
        # Within the peaks of draws of little noise Newton's steps are small wherever the root is, so it has
        # to halve the least gap so far, or else the bracket is halved.
        fast = inside & (gap <= 0.5 * least[active])
        least[active] = np.minimum(least[active], gap)
        middle = 0.5 * (low[active] + high[active])
        following = np.where(settled, value[active], np.where(fast, newton, middle))
        done = settled | (high[active] - low[active] <= near)
        value[active] = following
        active = active[~done]
    return value if allowed is None else nearest_allowed(value, allowed)


def _start(
    mixture: Mixture,
    level: Float[np.ndarray, " b"],
    low: Float[np.ndarray, " b"],
    high: Float[np.ndarray, " b"],
) -> Float[np.ndarray, " b"]:
    """The quantile of one normal with the mixture's mean and variance, where the bracket has it."""
    variance = mixture.mean.var(axis=0) + np.mean(mixture.sd**2, axis=0)
    guess = mixture.mean.mean(axis=0) + np.sqrt(variance) * ndtri(level)
    return np.where((guess > low) & (guess < high), guess, 0.5 * (low + high))


def _bracket(
    mixture: Mixture, level: Float[np.ndarray, " b"], allowed: Intervals | None
) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"]]:
    if allowed is None:
        each = mixture.mean + mixture.sd * ndtri(level)
        return each.min(axis=0), each.max(axis=0)
    low = np.maximum((mixture.mean - FAR * mixture.sd).min(axis=0), allowed.lower.min(axis=1))
    high = np.minimum((mixture.mean + FAR * mixture.sd).max(axis=0), allowed.upper.max(axis=1))
    return np.minimum(low, high), np.maximum(low, high)


def log_density(
    mixture: Mixture, value: Float[np.ndarray, " b"], some: Bool[np.ndarray, "S b"] | None = None
) -> Float[np.ndarray, " b"]:
    """Log density of the whole mixture at each row's value; of some of its draws where that is given."""
    sd = mixture.sd
    each = -0.5 * ((value - mixture.mean) / sd) ** 2 - np.log(sd * np.sqrt(2.0 * np.pi))
    if some is None:
        return np.asarray(logsumexp(each, axis=0) - np.log(len(each)))
    return np.asarray(logsumexp(np.where(some, each, -np.inf), axis=0) - np.log(some.sum(axis=0)))


def below(
    mixture: Mixture, allowed: Intervals | None, value: Float[np.ndarray, " b"]
) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"]]:
    """The mass of the allowed set up to `value`, and its derivative."""
    sd = mixture.sd
    z = (value - mixture.mean) / sd
    slope = (_density(z) / sd).mean(axis=0)
    if allowed is None:
        return ndtr(z).mean(axis=0), slope
    total, inside = np.zeros(len(value)), np.zeros(len(value), dtype=bool)
    for low, high in zip(allowed.lower.T, allowed.upper.T, strict=True):
        started = (low <= high) & (value > low)
        low, high = np.where(started, low, 0.0), np.where(started, np.minimum(high, value), 0.0)
        total += _mass_between((low - mixture.mean) / sd, (high - mixture.mean) / sd).mean(axis=0)
        inside |= started & (value <= high)
    return total, np.where(inside, slope, 0.0)


def nearest_allowed(value: Float[np.ndarray, " b"], allowed: Intervals) -> Float[np.ndarray, " b"]:
    """The allowed value nearest to each."""
    outside = np.maximum(allowed.lower - value[:, None], value[:, None] - allowed.upper)
    slot = np.argmin(np.maximum(outside, 0.0), axis=1)
    every = np.arange(len(value))
    return np.clip(value, allowed.lower[every, slot], allowed.upper[every, slot])


def _mass_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """P(a < z < b) of a standard normal, to full precision in both tails."""
    right = a > 0
    upper, lower = np.where(right, -a, b), np.where(right, -b, a)
    return np.maximum(ndtr(upper) - ndtr(lower), 0.0)


def _density(z: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)


def _times(end: np.ndarray, density: np.ndarray) -> np.ndarray:
    """Their product, 0 at infinite ends, where the density is 0."""
    return np.where(np.isfinite(end), np.where(np.isfinite(end), end, 0.0) * density, 0.0)
