"""Where each column may be drawn: a rule's threshold, what is declared possible, what was observed.

On the side where a rule sets no threshold, a column ends at its declared bound, else at the end of its
observed range, but never less than a quarter of that range past the threshold on the other side: a rule
about inputs nobody has observed yet is legal. Observed ranges are quantiles, so one outlier stretches
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ocbnn.regions.intervals import BoolArray, FloatArray, Interval
from ocbnn.schema import Column, Label, Schema

REACH = 0.25
"""How far past a threshold a region goes on, as a share of the column's observed range."""


@dataclass(frozen=True)
class Limits:
    """The closed ends of every column, in the schema's order, and the values of those with few of them."""

    low: FloatArray
    high: FloatArray
    discrete: BoolArray
    codes: tuple[FloatArray | None, ...]

    def __post_init__(self) -> None:
        for array in (self.low, self.high, self.discrete, *self.codes):
            if array is not None:
                array.flags.writeable = False

    def empty_columns(self) -> NDArray[np.intp]:
        """The columns that no value is left for."""
        return np.flatnonzero(~((self.low <= self.high) & np.isfinite(self.low) & np.isfinite(self.high)))

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Maps points of [0, 1)^Q to coded points: uniform ones to uniform ones, each column by its kind."""
        points = self.low + unit * self._lengths()
        points[:, self.discrete] = np.floor(points[:, self.discrete])
        np.clip(points, self.low, self.high, out=points)  # rounding may land on the far end
        for index, codes in enumerate(self.codes):
            if codes is not None:
                points[:, index] = codes[(unit[:, index] * len(codes)).astype(np.intp)]
        return points

    def sizes(self) -> FloatArray:
        """The length of each column's range, or how many values it has; 0 for one point of a continuum."""
        sizes = np.maximum(self._lengths(), 0.0)
        for index, codes in enumerate(self.codes):
            if codes is not None:
                sizes[index] = len(codes) * self.discrete[index]
        return sizes

    def _lengths(self) -> FloatArray:
        """Of every range of numbers. Listed values, too far apart for a float perhaps, have none."""
        ranges = np.array([codes is None for codes in self.codes], dtype=bool)
        return np.subtract(self.high, self.low, out=np.zeros_like(self.low), where=ranges) + self.discrete

    def contains(self, coded: FloatArray) -> BoolArray:
        """Which points lie between the ends."""
        return np.all((coded >= self.low) & (coded <= self.high), axis=1)


def coded_labels(column: Column, labels: Collection[Label]) -> FloatArray:
    """The coded values, in order: indices of a category's levels, or the numbers themselves."""
    if column.kind == "category":
        codes = [index for index, level in enumerate(column.levels) if level in labels]
        return np.array(codes, dtype=np.float64)
    values = np.array(sorted(labels), dtype=np.float64)
    return values if column.kind == "continuous" else values[values == np.round(values)]


def observed_width(column: Column) -> float:
    """The length of the observed range; for a constant column, its size or 1."""
    low, high = column.observed
    return high - low if high > low else max(abs(low), 1.0)


def limits_of(
    schema: Schema, intervals: Mapping[str, Interval], levels: Mapping[str, frozenset[Label]]
) -> Limits:
    """The limits of every column under a box; ends that cross mark a column nothing is left for."""
    ends, codes = [], []
    for column in schema.columns:
        interval = intervals.get(column.name, Interval())
        allowed = codes_of(column, interval, levels.get(column.name))
        if allowed is not None:
            allowed = allowed[Interval(*column.bounds).contains(allowed)]
        codes.append(allowed)
        if allowed is None:
            ends.append(_ends(column, interval))
        else:
            ends.append((allowed.min(), allowed.max()) if len(allowed) else (1.0, 0.0))
    low, high = np.array(ends, dtype=np.float64).reshape(-1, 2).T
    discrete = np.array([column.kind != "continuous" for column in schema.columns], dtype=bool)
    return Limits(low.copy(), high.copy(), discrete, tuple(codes))


def codes_of(column: Column, interval: Interval, labels: Collection[Label] | None) -> FloatArray | None:
    """The coded values that are left of a column with few of them; None for a range of numbers."""
    if labels is None and column.kind == "category":
        labels = column.levels
    elif labels is None and column.kind == "binary":
        labels = (0.0, 1.0)
    if labels is None:
        return None
    codes = coded_labels(column, labels)
    low, high = (0.0, 1.0) if column.kind == "binary" else (-math.inf, math.inf)
    return codes[(codes >= low) & (codes <= high) & interval.contains(codes)]


def possible_ends(column: Column) -> tuple[float, float]:
    """The least and the largest value a column can take: as declared, and where its logarithm exists."""
    integer = column.kind == "integer"
    low, high = Interval(*column.bounds).closed_ends(integer=integer)
    if column.transform == "log":
        above = Interval(low=-column.offset, low_closed=False)
        low = max(low, above.closed_ends(integer=integer)[0])
    return low, high


def _ends(column: Column, interval: Interval) -> tuple[float, float]:
    if interval.is_empty:
        return 1.0, 0.0
    integer = column.kind == "integer"
    (seen_low, seen_high), (bound_low, bound_high) = column.observed, column.bounds
    if integer:
        seen_low, seen_high = math.floor(seen_low), math.ceil(seen_high)
    possible_low, possible_high = possible_ends(column)
    low, high = first, last = interval.closed_ends(integer=integer)
    if low == -math.inf:
        beyond = past(column, min(last, possible_high), -1)
        low = bound_low if math.isfinite(bound_low) else min(seen_low, beyond)
    if high == math.inf:
        beyond = past(column, max(first, possible_low), 1)
        high = bound_high if math.isfinite(bound_high) else max(seen_high, beyond)
    return max(low, possible_low), min(high, possible_high)


def past(column: Column, threshold: float, direction: int) -> float:
    """A quarter of the observed range past a threshold; for log columns, of the range of the logarithms."""
    if math.isinf(threshold):
        return threshold
    if column.transform == "log" and threshold > -column.offset < column.observed[0]:
        low, high = (math.log(end + column.offset) for end in column.observed)
        reach = direction * REACH * (high - low if high > low else 1.0)
        end = (threshold + column.offset) * math.exp(reach) - column.offset
    else:
        end = threshold + direction * REACH * observed_width(column)
    if column.kind != "integer":
        return end
    return float(math.floor(end) if direction < 0 else math.ceil(end))


def growable_sides(
    schema: Schema, intervals: Mapping[str, Interval], limits: Limits
) -> tuple[BoolArray, BoolArray]:
    """The sides of each column that neither the rule nor a declared bound ends: where a region may grow."""
    ruled = [intervals.get(column.name, Interval()) for column in schema.columns]
    numeric = [codes is None for codes in limits.codes]
    free = np.isinf([(interval.low, interval.high) for interval in ruled])
    low, high = (free & np.isinf([column.bounds for column in schema.columns])).T & numeric
    return low, high


def grown(limits: Limits, schema: Schema, sides: tuple[BoolArray, BoolArray], share: float) -> Limits:
    """The limits moved outwards by a share of each observed range, on the given sides only."""
    width = np.array([observed_width(column) for column in schema.columns]) * share
    width = np.where(limits.discrete, np.ceil(width), width)
    possible_low, possible_high = np.array([possible_ends(column) for column in schema.columns]).T
    return replace(
        limits,
        low=np.maximum(np.where(sides[0], limits.low - width, limits.low), possible_low),
        high=np.minimum(np.where(sides[1], limits.high + width, limits.high), possible_high),
    )
