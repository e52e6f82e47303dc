"""A rule's region as boxes: where they lie in model units, which lie outside, how they are cut and halved.

A box has a low and a high end in every coded column. A category's codes, and whole numbers, are those between
the ends, so that halving leads to single ones; before that a category is bounded over all its levels at once, exactly,
and a whole number over all numbers between its ends. Values are there: an indicator of a missing one is 0.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ocbnn.language.enclosures import decided
from ocbnn.language.expressions import columns
from ocbnn.regions import Region
from ocbnn.regions.limits import Limits
from ocbnn.regions.sets import Pieces
from ocbnn.rules.bounding import Boxes
from ocbnn.rules.margins import largest as most
from ocbnn.schema import Column, Schema

Floats = np.ndarray[Any, np.dtype[np.float64]]
UNIT = 2.0**-53
Groups = tuple[tuple[int, int], ...]
"""Model inputs of each category, from and to: exactly one of them is 1, the others are 0."""


class Some(NamedTuple):
    """Boxes of some of the region's parts."""

    part: np.ndarray  # (B,)
    low: Floats  # (B, Q)
    high: Floats

    def take(self, index: Any) -> Some:
        """Some of them."""
        return Some(self.part[index], self.low[index], self.high[index])


class Linear(NamedTuple):
    """Upper bounds that are affine in model inputs: slopes (B, M, D) and constants (B, M)."""

    slopes: Floats
    constant: Floats


@dataclass(frozen=True, eq=False)
class Space:
    """The region of one rule, for a table.

    Attributes:
        region: of the rule.
        schema: the table.
        pieces: of each of its parts, none of them a union.
        limits: of each of its parts.
        unit: rounding of the model inputs that a network reads.
    """

    region: Region
    schema: Schema
    pieces: tuple[Pieces, ...]
    limits: tuple[Limits, ...]
    unit: float = UNIT

    @classmethod
    def of(cls, region: Region, schema: Schema, unit: float = UNIT) -> Space:
        """The parts of a region that hold any point."""
        parts = [(part, part.limits(schema)) for part in region.components()]
        kept = [(part, limits) for part, limits in parts if not len(limits.empty_columns())]
        return cls(
            region,
            schema,
            tuple(part.pieces for part, _ in kept),
            tuple(limits for _, limits in kept),
            unit,
        )

    @property
    def roots(self) -> Some:
        """A box around each part."""
        empty = np.zeros((0, len(self.schema.columns)))
        return Some(
            np.arange(len(self.limits)),
            np.concatenate([empty, *(limits.low[None] for limits in self.limits)]),
            np.concatenate([empty, *(limits.high[None] for limits in self.limits)]),
        )

    @property
    def starts(self) -> list[int]:
        """The first model input of each column."""
        return [0, *np.cumsum([column.width for column in self.schema.columns])[:-1].tolist()]

    @property
    def groups(self) -> Groups:
        """The model inputs of each category."""
        return tuple(
            (start, start + len(column.levels))
            for column, start in zip(self.schema.columns, self.starts, strict=True)
            if column.kind == "category"
        )

    def boxes(self, some: Some) -> Boxes:
        """As kinds take them."""
        _, low, high = self.roots
        whole = (low.min(axis=0), high.max(axis=0)) if self.count else None
        return Boxes(some.low, some.high, self.schema, whole)

    # Model units --------------------------------------------------------------------------------------------

    def model_ends(self, some: Some, set_by_case: np.ndarray | None = None) -> tuple[Floats, Floats]:
        """The ends in model inputs (B, D), which hold everything that `Schema.to_model` makes of points inside.

        Centring and scaling never turn an order round, rounded or not, so their ends are exact. Logarithms
        are within four units of the last place, and are moved out by twice that. `set_by_case` are the columns
        (Q,) whose values are not the region's: their levels may lie outside of it.
        """  # noqa: E501
        lows, highs = [], []
        for index, column in enumerate(self.schema.columns):
            low, high = some.low[:, index], some.high[:, index]
            if column.kind == "category":
                levels = np.arange(len(column.levels))
                inside = (levels >= low[:, None]) & (levels <= high[:, None])
                for part in range(self.count if set_by_case is None or not set_by_case[index] else 0):
                    inside[some.part == part] &= np.isin(levels, self._codes(part, index))
                lows.append((inside & (inside.sum(axis=1, keepdims=True) == 1)).astype(float))
                highs.append(inside.astype(float))
            else:
                known_column = _without_indicator(column)
                ends = [known_column.to_model(end)[:, :1] for end in (low, high)]
                if column.transform in ("log", "asinh"):
                    slack = (
                        8 * UNIT * (np.abs(ends[0]) + np.abs(ends[1]) + 2 * abs(column.center / column.scale))
                    )
                    ends = [ends[0] - slack, ends[1] + slack]
                lows.append(ends[0])
                highs.append(ends[1])
            if column.indicator:
                lows.append(np.zeros((len(low), 1)))
                highs.append(np.zeros((len(low), 1)))
        low, high = np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)
        if self.unit > UNIT:
            low, high = low - self.unit * np.abs(low), high + self.unit * np.abs(high)
        return low, high

    def is_convex_along(self, name: str) -> bool:
        """Whether all between two inputs of the region that differ in this column alone is in it too."""
        if name not in self.region.columns():
            return True
        if self.count > 1 or any(name in columns(condition) for condition in self.pieces[0].rest):
            return False
        codes = self.limits[0].codes[self.schema.index(name)]
        return codes is None or bool((np.diff(codes) == 1).all())

    @property
    def count(self) -> int:
        """How many parts there are."""
        return len(self.limits)

    def _codes(self, part: int, index: int) -> Floats:
        codes = self.limits[part].codes[index]
        return np.zeros(0) if codes is None else codes

    def in_model(self, slopes: Floats, some: Some) -> Linear:
        """Slopes · x of coded columns (B, M, Q) as upper bounds that are affine in model inputs."""
        width = sum(column.width for column in self.schema.columns)
        found = np.zeros((*slopes.shape[:2], width))
        constant = np.zeros(slopes.shape[:2])
        for index, (column, start) in enumerate(zip(self.schema.columns, self.starts, strict=True)):
            slope = slopes[..., index]
            if not slope.any():
                continue
            low, high = some.low[:, None, index], some.high[:, None, index]
            size = np.abs(slope) * (np.maximum(np.abs(low), np.abs(high)) + abs(column.center))
            if column.kind != "category" and column.transform in ("none", "standardize"):
                found[..., start] = slope * column.scale
                constant += slope * column.center + 16 * (UNIT + self.unit * (self.unit > UNIT)) * size
            else:
                constant += np.maximum(slope * low, slope * high) + 16 * UNIT * size
        return Linear(found, constant)

    # What lies outside --------------------------------------------------------------------------------------

    def outside(self, some: Some) -> np.ndarray:
        """Which boxes (B,) hold no point of the region."""
        found = np.zeros(len(some.part), dtype=bool)
        for part in range(self.count):
            here = np.flatnonzero(some.part == part)
            if not len(here):
                continue
            _, faces, rest = self.pieces[part]
            inside = some.take(here)
            ends_of = self.boxes(inside).columns
            for face in faces:
                least, size = np.zeros(len(here)), np.full(len(here), abs(face.bound))
                for name, coefficient in face.coefficients.items():
                    ends = [coefficient * end for end in ends_of[name]]
                    least = least + np.minimum(*ends)
                    size = size + np.maximum(*map(np.abs, ends))
                found[here] |= least > face.bound + 8 * UNIT * (1 + len(face.coefficients)) * size
            for condition in rest:
                found[here] |= np.broadcast_to(decided(condition, ends_of, self.schema)[1], (len(here),))
            for index in range(len(self.schema.columns)):
                codes = self.limits[part].codes[index]
                if codes is not None:
                    between = (codes >= inside.low[:, index, None]) & (codes <= inside.high[:, index, None])
                    found[here] |= ~between.any(axis=1)
        return found

    def most(self, linear: Linear, some: Some, low: Floats, high: Floats) -> Floats:
        """Upper bounds (B, M) of affine functions on the part of each box that meets each half-space.

        For a half-space a·x ≤ b every λ ≥ 0 gives a bound: the maximum over the box of (slopes − λa)·x, plus λb.
        The best λ is one where a coefficient becomes 0.
        """  # noqa: E501
        slopes, constant = linear
        found = highest(slopes, low, high, self.groups) + constant
        for part in range(self.count):
            here = np.flatnonzero(some.part == part)
            faces = self.pieces[part].faces
            if not len(here) or not faces:
                continue
            inside, ends = some.take(here), (low[here], high[here])
            for face in faces:
                # −a·x in model inputs, from above: −a·x >= −b holds for it too.
                row = np.array([-face.coefficients.get(name, 0.0) for name in self.schema.names])
                turned = self.in_model(np.tile(row, (len(here), 1, 1)), inside)
                normal = turned.slopes[:, 0]
                offset = face.bound + turned.constant[:, 0] + 16 * UNIT * abs(face.bound)
                for place in np.flatnonzero(normal.any(axis=0)):
                    with np.errstate(all="ignore"):
                        ratio = -slopes[here][:, :, place] / normal[:, place, None]
                    multiplier = np.where(np.isfinite(ratio) & (ratio > 0), ratio, 0.0)
                    tilted = slopes[here] + multiplier[..., None] * normal[:, None]
                    bound = highest(tilted, *ends, self.groups) + constant[here]
                    added = multiplier * offset[:, None]
                    found[here] = np.minimum(found[here], bound + added + 8 * UNIT * np.abs(added))
        return found

    # Points and halves --------------------------------------------------------------------------------------

    def corners(self, slopes: Floats, some: Some) -> Floats:
        """The corner (B, Q) of each box where slopes (B, D) of the model inputs are largest."""
        found = some.low.copy()
        for index, (column, start) in enumerate(zip(self.schema.columns, self.starts, strict=True)):
            if column.kind != "category":
                found[:, index] = np.where(slopes[:, start] > 0, some.high[:, index], some.low[:, index])
                continue
            levels = np.arange(len(column.levels))
            there = (levels >= some.low[:, index, None]) & (levels <= some.high[:, index, None])
            for part in range(self.count):
                there[some.part == part] &= np.isin(levels, self._codes(part, index))
            gain = np.where(there, slopes[:, start : start + len(levels)], -np.inf)
            found[:, index] = np.argmax(gain, axis=1)
        return self.settled(found, some)

    def middles(self, some: Some) -> Floats:
        """A point (B, Q) in the middle of each box."""
        found = np.stack(
            [
                _middle(column, some.low[:, i], some.high[:, i])
                for i, column in enumerate(self.schema.columns)
            ],
            axis=1,
        )
        return self.settled(found, some)

    def settled(self, points: Floats, some: Some) -> Floats:
        """Points with whole numbers, and codes of their part, in columns that have them."""
        points = points.copy()
        for part in range(self.count):
            here = some.part == part
            for index, codes in enumerate(self.limits[part].codes):
                values = points[here, index]
                if codes is not None and len(codes):
                    nearest = np.abs(codes - values[:, None]).argmin(axis=1)
                    points[here, index] = codes[nearest]
                elif self.limits[part].discrete[index]:
                    points[here, index] = np.floor(values)
        return points

    def cuts(self, some: Some) -> tuple[Floats, Floats]:
        """Where each column of each box would be cut: the end of the lower half, the start of the upper.

        NaN where a column has nothing left to cut.
        """
        first = np.full(some.low.shape, np.nan)
        second = np.full(some.low.shape, np.nan)
        for part in range(self.count):
            here = np.flatnonzero(some.part == part)
            limits = self.limits[part]
            for index, column in enumerate(self.schema.columns):
                low, high = some.low[here, index], some.high[here, index]
                ends = _cut(column, low, high, limits.codes[index], bool(limits.discrete[index]))
                first[here, index], second[here, index] = ends
        return first, second

    def volumes(self, some: Some) -> Floats:
        """The share of the whole that each box is, parts counting alike."""
        shares = np.full(len(some.part), 1.0 / max(self.count, 1))
        for part in range(self.count):
            here = np.flatnonzero(some.part == part)
            limits = self.limits[part]
            for index, column in enumerate(self.schema.columns):
                low, high = some.low[here, index], some.high[here, index]
                codes = limits.codes[index]
                if codes is not None:
                    between = (codes >= low[:, None]) & (codes <= high[:, None])
                    shares[here] *= between.sum(axis=1) / len(codes)
                elif limits.discrete[index]:
                    shares[here] *= (high - low + 1) / (limits.high[index] - limits.low[index] + 1)
                elif limits.high[index] > limits.low[index]:
                    t = [_model(column, end) for end in (low, high)]
                    whole = [_model(column, np.array([end[index]])) for end in (limits.low, limits.high)]
                    shares[here] *= (t[1] - t[0]) / (whole[1] - whole[0])
        return shares

    # Words --------------------------------------------------------------------------------------------------

    def words(self) -> str:
        """Over what a proof speaks: every column with its ends, and where they come from."""
        if not self.limits:
            return "no input at all"
        low = np.min([limits.low for limits in self.limits], axis=0)
        high = np.max([limits.high for limits in self.limits], axis=0)
        ruled = self.region.columns()
        said = []
        for index, column in enumerate(self.schema.columns):
            if column.kind == "category" or (column.kind == "binary" and low[index] < high[index]):
                said.append(f"{column.name} {'as the rule says' if column.name in ruled else 'any'}")
                continue
            sources = []
            if column.name in ruled:
                sources.append("rule")
            if np.isfinite(column.bounds).any():
                sources.append("declared")
            elif column.name not in ruled or np.isclose([low[index], high[index]], column.observed).any():
                sources.append("observed")
            unit = f" {column.unit}" if column.unit else ""
            said.append(f"{column.name} {low[index]:.4g} to {high[index]:.4g}{unit} ({', '.join(sources)})")
        more = "" if not self.schema.with_indicator else "; no value missing"
        return "; ".join(said) + more


def largest(slopes: Any, low: Any, high: Any, groups: Groups = ()) -> Any:
    """The maximum of slopes (P, R, D) · x over boxes (P, D), up to rounding.

    In a group one input is 1 and the others 0; those with a high end of 0 cannot be the one.
    """
    xp = slopes.__array_namespace__()
    low, high = low[:, None], high[:, None]
    ends = xp.where(slopes > 0, slopes * high, slopes * low)
    total = 0.0
    begin = 0
    for start, stop in groups:
        total = total + xp.sum(ends[..., begin:start], axis=-1)
        total = total + most(xp.where(high[..., start:stop] > 0, slopes[..., start:stop], -xp.inf))
        begin = stop
    return total + xp.sum(ends[..., begin:], axis=-1)


def highest(slopes: Floats, low: Floats, high: Floats, groups: Groups) -> Floats:
    """The maximum over boxes, with its rounding."""
    size = np.einsum("bmd,bd->bm", np.abs(slopes), np.maximum(np.abs(low), np.abs(high)))
    return np.asarray(largest(slopes, low, high, groups)) + 2 * (slopes.shape[2] + 16) * UNIT * size


def _without_indicator(column: Column) -> Column:
    return replace(column, indicator=False) if column.indicator else column


def _model(column: Column, coded: Floats) -> Floats:
    return _without_indicator(column).to_model(coded)[:, 0]


def _middle(column: Column, low: Floats, high: Floats) -> Floats:
    """The middle in model units, where it lies between the ends; else that of the ends themselves."""
    middle = low / 2 + high / 2
    if column.kind != "continuous" or column.transform not in ("log", "asinh"):
        return middle
    between = (_model(column, low) + _model(column, high)) / 2
    there = _without_indicator(column).to_raw(between[:, None])
    return np.where((there > low) & (there < high), there, middle)


def _cut(
    column: Column, low: Floats, high: Floats, codes: Floats | None, discrete: bool
) -> tuple[Floats, Floats]:
    if codes is not None and len(codes):
        first = np.searchsorted(codes, low, side="left")
        last = np.searchsorted(codes, high, side="right") - 1
        place = np.clip((first + last) // 2, 0, max(len(codes) - 2, 0))
        after = np.minimum(place + 1, len(codes) - 1)
        return np.where(last > first, codes[place], np.nan), np.where(last > first, codes[after], np.nan)
    if discrete:
        middle = np.floor(low / 2 + high / 2)
        return np.where(high > low, middle, np.nan), np.where(high > low, middle + 1, np.nan)
    middle = _middle(column, low, high)
    # Limits such as `x * y >= 0` change their sense at 0: no box across it can be bounded.
    middle = np.where((low < 0) & (high > 0), 0.0, middle)
    middle = np.where((middle > low) & (middle < high), middle, np.nan)
    return middle, middle
