"""What regions are made of: intervals on one column, half-spaces over several, a hashable mapping."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ocbnn.language.expressions import name_text, number_text

Value = TypeVar("Value")
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class FrozenMapping(Mapping[str, Value], Generic[Value]):
    """A read-only mapping from column names, in alphabetical order, that can be hashed and compared."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Value]) -> None:
        self._items: dict[str, Value] = {name: items[name] for name in sorted(items)}

    def __getitem__(self, name: str) -> Value:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


@dataclass(frozen=True)
class Interval:
    """The numbers between `low` and `high`, each end in or out. Infinite ends count as open."""

    low: float = -math.inf
    high: float = math.inf
    low_closed: bool = True
    high_closed: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if math.isinf(self.low):
            object.__setattr__(self, "low_closed", False)
        if math.isinf(self.high):
            object.__setattr__(self, "high_closed", False)

    def contains(self, values: FloatArray) -> BoolArray:
        """Which values lie inside; a NaN lies nowhere."""
        above = values >= self.low if self.low_closed else values > self.low
        below = values <= self.high if self.high_closed else values < self.high
        return above & below

    def intersect(self, other: Interval) -> Interval:
        """What both hold; empty where they do not meet."""
        low, low_closed = max((self.low, not self.low_closed), (other.low, not other.low_closed))
        high, high_closed = min((self.high, self.high_closed), (other.high, other.high_closed))
        return Interval(low, high, not low_closed, high_closed)

    @property
    def is_empty(self) -> bool:
        """Whether no number lies inside."""
        if self.low == self.high:
            return not (self.low_closed and self.high_closed)
        return not self.low < self.high

    @property
    def is_point(self) -> bool:
        """Whether exactly one number lies inside."""
        return self.low == self.high and self.low_closed and self.high_closed

    @property
    def is_everything(self) -> bool:
        """Whether no finite number lies outside."""
        return self.low == -math.inf and self.high == math.inf

    def closed_ends(self, *, integer: bool = False) -> tuple[float, float]:
        """The least and the largest number inside: past an open end the next float, or whole number."""
        low = self.low if self.low_closed or math.isinf(self.low) else math.nextafter(self.low, math.inf)
        high = (
            self.high if self.high_closed or math.isinf(self.high) else math.nextafter(self.high, -math.inf)
        )
        return (float(np.ceil(low)), float(np.floor(high))) if integer else (low, high)

    def text(self, name: str) -> str:
        """As a condition on the column `name`: `2 < age <= 3`."""
        if self.is_empty and self.low > -math.inf and self.high < math.inf:
            ends = (
                Interval(low=self.low, low_closed=self.low_closed),
                Interval(high=self.high, high_closed=self.high_closed),
            )
            return " and ".join(end.text(name) for end in ends)  # a chain would hide the contradiction
        name = name_text(name)
        if self.is_point:
            return f"{name} = {number_text(self.low)}"
        below = "<=" if self.high_closed else "<"
        if math.isinf(self.low) and self.low < 0:
            return f"{name} {below} {number_text(self.high)}"
        above = "<=" if self.low_closed else "<"
        if math.isinf(self.high) and self.high > 0:
            return f"{name} {above.replace('<', '>')} {number_text(self.low)}"
        return f"{number_text(self.low)} {above} {name} {below} {number_text(self.high)}"

    def __repr__(self) -> str:
        left, right = "[" if self.low_closed else "(", "]" if self.high_closed else ")"
        return f"Interval{left}{number_text(self.low)}, {number_text(self.high)}{right}"


@dataclass(frozen=True)
class HalfSpace:
    """The points with Σ coefficientsᵢ xᵢ ≤ bound, or < bound where `strict`."""

    coefficients: Mapping[str, float]
    bound: float
    strict: bool = False

    def __post_init__(self) -> None:
        kept = {name: float(value) for name, value in self.coefficients.items() if value != 0}
        object.__setattr__(self, "coefficients", FrozenMapping(kept))
        object.__setattr__(self, "bound", float(self.bound) + 0.0)  # −0 and 0 are one bound

    def value(self, columns: Mapping[str, FloatArray]) -> FloatArray:
        """Σ coefficientsᵢ xᵢ."""
        total: FloatArray = np.float64(0.0)  # type: ignore[assignment]
        with np.errstate(all="ignore"):
            for name, coefficient in self.coefficients.items():
                total = total + coefficient * columns[name]
        return total

    def contains(self, columns: Mapping[str, FloatArray]) -> BoolArray:
        """Which points lie inside."""
        value = self.value(columns)
        return np.asarray(value < self.bound if self.strict else value <= self.bound)

    def reversed(self) -> HalfSpace:
        """The closed other side, which together with a closed `self` leaves an equality."""
        return HalfSpace({name: -value for name, value in self.coefficients.items()}, -self.bound)

    def normalised(self) -> HalfSpace:
        """The same half-space, its first coefficient 1 or −1."""
        size = abs(next(iter(self.coefficients.values()), 1.0))
        scaled = {name: value / size for name, value in self.coefficients.items()}
        return HalfSpace(scaled, self.bound / size, self.strict)

    def text(self) -> str:
        """As a condition: `x1 - 2 * x2 < 3`, the first coefficient positive."""
        return self._text("<" if self.strict else "<=", ">" if self.strict else ">=")

    def equality_text(self) -> str:
        """The boundary, as a condition: `x1 - 2 * x2 = 3`."""
        return self._text("=", "=")

    def _text(self, operator: str, mirrored: str) -> str:
        sign = -1 if next(iter(self.coefficients.values()), 0.0) < 0 else 1
        sum_text = ""
        for name, value in ((name, sign * value) for name, value in self.coefficients.items()):
            joint = (" - " if value < 0 else " + ") if sum_text else ""
            factor = "" if abs(value) == 1 else f"{number_text(abs(value))} * "
            sum_text += f"{joint}{factor}{name_text(name)}"
        return (
            f"{sum_text or '0'} {operator if sign > 0 else mirrored} {number_text(sign * self.bound + 0.0)}"
        )

    def __repr__(self) -> str:
        return f"HalfSpace({self.text()})"
