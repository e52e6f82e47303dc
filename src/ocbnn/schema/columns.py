"""One column, or the target, with its maps between raw, coded and model units."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd

from ocbnn.errors import SchemaError
from ocbnn.schema import reading
from ocbnn.schema.reading import did_you_mean, listed, python_scalar

Label = str | int | float | bool
Kind = Literal["continuous", "integer", "binary", "category"]
Transform = Literal["standardize", "log", "asinh", "none"]
Task = Literal["regression", "classification"]
Missing = Literal["indicator"]
Unseen = Literal["other"]
TargetTransform = Literal["none", "log"]

_UNWRITABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters but tab and line ends, halves of surrogate pairs, and what has no character."""

UNSEEN, OTHER = -1.0, "(other)"
"""The code of a label outside a category's levels, and its name where the original is lost."""

LARGEST_INTEGER = 2.0**53
"""Beyond it, float64 no longer tells neighbouring integers apart."""


class _Stored:
    """A frozen record that becomes plain JSON values and comes back equal."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite bound is null."""
        stored = asdict(self)  # type: ignore[call-overload]
        for name, value in stored.items():
            if isinstance(value, tuple):
                stored[name] = [None if isinstance(v, float) and math.isinf(v) else v for v in value]
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The record that `to_json` was called on."""
        what, known = cls.__name__.lower(), [field.name for field in fields(cls)]  # type: ignore[arg-type]
        if not isinstance(stored, Mapping):
            raise SchemaError(f"A stored {what} is a mapping of its fields, not {stored!r}.")
        for name in stored:
            if name not in known:
                raise SchemaError(
                    f"A stored {what} has the unknown field {name!r}.{did_you_mean(name, known)}"
                )
        try:
            return cls(**stored)
        except SchemaError:
            raise
        except (TypeError, ValueError) as error:
            raise SchemaError(f"A stored {what} is incomplete or damaged: {error}.") from None


@dataclass(frozen=True)
class Column(_Stored):
    """One input column.

    Attributes:
        observed: the range seen in the data (0.5–99.5 % quantiles), raw units; not what is possible.
        bounds: the range declared as possible, raw units.
        levels: a category's labels; its code is the index among them.
        ordered: whether the levels are declared to have an order, which is theirs from first to last.
        center, scale: model = (t − center) / scale, where t is the value, log(value + offset) for "log", or
            asinh(value / offset) for "asinh": a log for amounts far above the offset, a line around zero,
            and defined everywhere.
        missing: how many rows had no value when the schema was inferred.
        guessed: whether an integer or binary kind is only what the rows at hand looked like, so that a new
            case may hold any number.
        indicator: whether "has no value" is a model input of its own. Such a value is coded NaN; in a column
            without the indicator it is refused.
        mean: what enters in place of a missing number, raw units: the mean of the rows that have one.
        other: whether a label outside a category's levels is accepted. It is coded `UNSEEN` and
            is 0 in every model input; in a column without it, it is refused.
    """

    name: str
    kind: Kind
    observed: tuple[float, float]
    bounds: tuple[float, float] = (-math.inf, math.inf)
    levels: tuple[Label, ...] = ()
    unit: str | None = None
    transform: Transform = "standardize"
    center: float = 0.0
    scale: float = 1.0
    offset: float = 0.0
    missing: int = 0
    guessed: bool = False
    indicator: bool = False
    mean: float = 0.0
    other: bool = False
    ordered: bool = False

    def __post_init__(self) -> None:
        require_name(self.name)
        require_choice(self.kind, get_args(Kind), f"the kind of column {self.name!r}")
        require_choice(self.transform, get_args(Transform), f"the transform of column {self.name!r}")
        set_field = object.__setattr__
        set_field(self, "observed", _pair(self.observed, f"the observed range of column {self.name!r}"))
        set_field(self, "bounds", _pair(self.bounds, f"the bounds of column {self.name!r}"))
        set_field(self, "levels", labels_tuple(self.levels, f"the levels of column {self.name!r}"))
        for name in ("center", "scale", "offset", "mean"):
            set_field(self, name, float(getattr(self, name)))
        set_field(self, "missing", int(self.missing))
        set_field(self, "guessed", bool(self.guessed))
        set_field(self, "indicator", bool(self.indicator))
        set_field(self, "other", bool(self.other))
        set_field(self, "ordered", bool(self.ordered))
        _require_scaling(self.center, self.scale, f"column {self.name!r}")
        if self.kind == "category":
            if not self.levels:
                raise SchemaError(f"Category {self.name!r} has no levels; declare the labels it can take.")
            set_field(self, "transform", "none")
        elif self.levels or self.other or self.ordered:
            raise SchemaError(f"Column {self.name!r} is {self.kind}; only a category has levels.")
        if self.transform in ("log", "asinh") and self.kind == "binary":
            raise SchemaError(f"Column {self.name!r} is binary; a log of 0/1 says nothing. Use 'none'.")
        if self.transform == "asinh" and not 0 < self.offset < math.inf:
            raise SchemaError(
                f"Column {self.name!r} enters as asinh(value / offset), so its offset is a positive number, "
                f"not {self.offset:g}."
            )

    @property
    def has_order(self) -> bool:
        """Whether one value can lie above another; of categories only where their levels are ordered."""
        return self.kind != "category" or self.ordered

    @property
    def width(self) -> int:
        """How many model inputs the column takes: one, or one per level; one more for the indicator."""
        return (len(self.levels) if self.kind == "category" else 1) + self.indicator

    def encode(self, series: pd.Series) -> np.ndarray:
        """Raw values as (n,) coded ones: numbers as they are, truth values as 0/1, labels as indices.

        A missing value is NaN; it is refused where the column has no indicator.
        """
        absent = reading.missing(series)
        if not self.indicator:
            reading.require_present(absent, series.index, self.name)
        if self.kind == "category":
            codes = reading.codes_of(series, self.name, self.levels, optional=True, other=self.other)
            return np.where(absent, np.nan, codes)
        values = reading.read_numbers(series, self.name)
        if not self.guessed:
            self.require_kind(values, series.index)
        return values

    def require_kind(self, values: np.ndarray, index: pd.Index) -> None:
        """Refuse numbers an integer or binary column cannot hold, naming the row; NaN is let through."""
        present = ~np.isnan(values)
        if self.kind == "binary":
            wrong = present & (values != 0) & (values != 1)
            expected = "is binary: 0 or 1, False or True"
        elif self.kind == "integer":
            wrong = present & ((values != np.round(values)) | (np.abs(values) > LARGEST_INTEGER))
            expected = "holds integers (of at most 2^53 in size)"
        else:
            return
        if wrong.any():
            position = int(np.argmax(wrong))
            raise SchemaError(
                f"Column {self.name!r} {expected}, but {reading.row_name(index, position)} has "
                f"{float(values[position])!r}. Correct the value, or declare another kind: "
                f"columns={{{self.name!r}: {{'kind': 'continuous'}}}}."
            )

    def decode(self, coded: np.ndarray) -> pd.Series:
        """(n,) coded values as raw ones: labels for a category, integers where all are whole."""
        if self.kind == "category":
            absent = np.isnan(coded)
            codes = self._codes(np.where(absent, 0.0, coded))
            labels = labels_array(self.levels)[codes]
            if absent.any() or (codes < 0).any():
                labels = labels.astype(object)
                labels[codes < 0], labels[absent] = OTHER, None
            return pd.Series(labels, name=self.name)
        whole = self.kind != "continuous" and np.array_equal(coded, np.round(coded))
        return pd.Series(coded.astype(np.int64) if whole else coded.astype(np.float64), name=self.name)

    def to_model(self, coded: np.ndarray) -> np.ndarray:
        """(n,) coded values as (n, width) model inputs; the last one is 1 where the value is missing.

        A missing number enters as the mean, a missing category and an unseen label as none of the levels.
        """
        absent = np.isnan(coded)[:, None]
        present = np.where(absent[:, 0], 0.0 if self.kind == "category" else self.mean, coded)
        if self.kind == "category":
            codes = self._codes(present)
            inputs = np.eye(len(self.levels))[codes] * (~absent[:, 0] & (codes >= 0))[:, None]
        else:
            inputs = ((self.transformed(present) - self.center) / self.scale)[:, None]
        return np.concatenate([inputs, absent], axis=1) if self.indicator else inputs

    def to_raw(self, inputs: np.ndarray) -> np.ndarray:
        """(n, width) model inputs as (n,) coded values: the inverse of `to_model`.

        An input between two integers, or between levels, goes to the nearest.
        """
        if self.indicator:
            known = replace(self, indicator=False).to_raw(inputs[:, :-1])
            return np.where(inputs[:, -1] > 0.5, np.nan, known)
        if self.kind == "category":
            nearest = np.argmax(inputs, axis=1).astype(np.float64)
            return np.where(inputs.max(axis=1) > 0.5, nearest, UNSEEN) if self.other else nearest
        values = inputs[:, 0] * self.scale + self.center
        if self.transform == "log":
            values = np.exp(values) - self.offset
        elif self.transform == "asinh":
            values = self.offset * np.sinh(values)
        if self.kind == "continuous":
            return values
        rounded = np.round(values)
        return (np.clip(rounded, 0, 1) if self.kind == "binary" else rounded) + 0.0

    def transformed(self, values: np.ndarray) -> np.ndarray:
        """The values before centring: themselves, log(value + offset), or asinh(value / offset)."""
        if self.transform == "asinh":
            return np.arcsinh(values / self.offset)
        if self.transform != "log":
            return values
        below = values <= -self.offset
        if below.any():
            position = int(np.argmax(below))
            raise SchemaError(
                f"Column {self.name!r} enters as log(value + {self.offset:g}), which needs values "
                f"above {-self.offset:g}; row {position} has {float(values[position])!r}. Correct the value, "
                f"declare a larger offset, or columns={{{self.name!r}: {{'transform': 'standardize'}}}}."
            )
        return np.log(values + self.offset)

    def _codes(self, coded: np.ndarray) -> np.ndarray:
        codes = np.asarray(coded)
        known = (codes == np.round(codes)) & (codes >= 0) & (codes < len(self.levels))
        wrong = ~known & ~(self.other & (codes == UNSEEN))
        if wrong.any():
            position = int(np.argmax(wrong))
            raise SchemaError(
                f"Category {self.name!r} has the codes 0 to {len(self.levels) - 1}, one per level; "
                f"row {position} has the code {float(codes[position])!r}. Use Schema.encode to make codes."
            )
        return codes.astype(np.int64)


@dataclass(frozen=True)
class Target(_Stored):
    """What is predicted.

    Attributes:
        classes: the labels, sorted unless declared or a category's; the class index counts along them. One
            class alone is a legal schema: a table may show only one. Declare all as `levels` for rules to
            speak of the others.
        center, scale: model = (t − center) / scale, where t is y, or log y: their mean and standard
            deviation. Regression only.
        observed: a regression target's 0.5–99.5 % quantiles, raw units.
        transform: "log" models log y, so that y is above 0.
    """

    name: str
    task: Task
    classes: tuple[Label, ...] = ()
    center: float = 0.0
    scale: float = 1.0
    observed: tuple[float, float] = (-math.inf, math.inf)
    unit: str | None = None
    transform: TargetTransform = "none"

    def __post_init__(self) -> None:
        require_name(self.name)
        require_choice(self.transform, get_args(TargetTransform), f"the transform of target {self.name!r}")
        require_choice(self.task, get_args(Task), f"the task of target {self.name!r}")
        set_field = object.__setattr__
        set_field(self, "classes", labels_tuple(self.classes, f"the classes of target {self.name!r}"))
        set_field(self, "observed", _pair(self.observed, f"the observed range of target {self.name!r}"))
        set_field(self, "center", float(self.center))
        set_field(self, "scale", float(self.scale))
        _require_scaling(self.center, self.scale, f"target {self.name!r}")
        if (self.task == "classification") != bool(self.classes):
            expected = "needs its classes" if self.task == "classification" else "has no classes"
            raise SchemaError(f"Target {self.name!r} has the task {self.task}, which {expected}.")
        if self.is_log and self.classes:
            raise SchemaError(
                f"Target {self.name!r} has classes, which have no log. Leave the transform out."
            )

    @property
    def is_log(self) -> bool:
        """Whether log y is modelled."""
        return self.transform == "log"

    @property
    def raw_scale(self) -> float:
        """How much y changes at its center when the model's value changes by 1, in units of y."""
        return self.scale * (math.exp(min(self.center, 700.0)) if self.is_log else 1.0)

    def to_model(self, values: Any) -> np.ndarray:
        """(n,) raw values: standardised float64 for regression, int64 class indices for classification.

        Raises:
            SchemaError: a missing value, an unknown class, or a value without a log, with its row.
        """
        series = values if isinstance(values, pd.Series) else pd.Series(values)
        if self.task == "classification":
            return reading.codes_of(series, self.name, self.classes, what="class")
        reading.require_present(reading.missing(series), series.index, self.name)
        numbers = reading.read_numbers(series, self.name)
        return (self.transformed(numbers, series.index) - self.center) / self.scale

    def transformed(self, values: np.ndarray, index: pd.Index) -> np.ndarray:
        """The values before centring: themselves, or their log; one without a log is refused with its row."""
        if not self.is_log:
            return values
        if (values <= 0).any():
            position = int(np.argmax(values <= 0))
            raise SchemaError(
                f"The target {self.name!r} is modelled on a log scale, which needs values above 0; "
                f"{reading.row_name(index, position)} has {float(values[position])!r}. Correct the value, "
                "leave the row out, or leave the log transform of the target out."
            )
        return np.log(values)

    def to_raw(self, values: Any) -> np.ndarray:
        """(n,) model values as raw ones: y · scale + center (on a log scale exp of it), or labels."""
        if self.task == "regression":
            found = np.asarray(values, dtype=np.float64) * self.scale + self.center
            with np.errstate(over="ignore"):
                return np.exp(found) if self.is_log else found
        indices = np.asarray(values)
        outside = ~((indices == np.round(indices)) & (indices >= 0) & (indices < len(self.classes)))
        if outside.any():
            raise SchemaError(
                f"Target {self.name!r} has {len(self.classes)} classes, so class indices 0 to "
                f"{len(self.classes) - 1}; {indices[outside].flat[0]!r} is not one of them."
            )
        return labels_array(self.classes)[indices.astype(np.int64)]


def labels_array(labels: Sequence[Label]) -> np.ndarray:
    """The labels as an array that keeps their values: bool, int64, float64, else objects."""
    array = np.array(labels)
    exact = array.dtype.kind != "U" and array.tolist() == list(labels)
    return array if exact else np.array(labels, dtype=object)


def require_choice(given: object, choices: Sequence[str], what: str) -> None:
    """Refuse anything but one of the choices."""
    if given not in choices:
        raise SchemaError(
            f"{given!r} cannot be {what}: use one of {listed(choices)}.{did_you_mean(given, choices)}"
        )


def labels_tuple(labels: Any, what: str) -> tuple[Label, ...]:
    """Distinct Python labels of one sort.

    Raises:
        SchemaError: not a sequence; a label other than text, a number or a truth value; a label twice.
    """
    if isinstance(labels, str) or not hasattr(labels, "__iter__"):
        raise SchemaError(f"{labels!r} cannot be {what}: give a list of labels.")
    plain = tuple(python_scalar(label) for label in labels)
    for label in plain:
        if not isinstance(label, str | int | float | bool) or (
            isinstance(label, float) and not math.isfinite(label)
        ):
            raise SchemaError(
                f"{label!r} cannot be among {what}: a label is text, a number or a truth value."
            )
        _require_writable(label, f"a label among {what}")
    if len({isinstance(label, str) for label in plain}) > 1:
        raise SchemaError(f"{listed(plain)} cannot be {what}: they mix text and numbers.")
    if len(set(plain)) < len(plain):
        twice = next(label for label in plain if plain.count(label) > 1)
        raise SchemaError(f"{twice!r} occurs twice among {what}.")
    return plain


def require_name(name: object) -> None:
    """Refuse a column name that is not text."""
    if not isinstance(name, str):
        raise SchemaError(
            f"Column names are text, but one is {name!r} ({type(name).__name__}); "
            "rename with `frame.columns = frame.columns.map(str)`."
        )
    _require_writable(name, "the name of a column")


def _require_writable(given: object, what: str) -> None:
    """Refuse text that no file and no report can hold."""
    wrong = _UNWRITABLE.search(given) if isinstance(given, str) else None
    if wrong:
        raise SchemaError(
            f"{given!r} cannot be {what}: it has U+{ord(wrong[0]):04X}, a character that files and reports "
            "cannot hold. Replace it in the table."
        )


SMALLEST_SCALE = 1e-290
"""Ordinary numbers divided by less are infinite in float64."""


def _require_scaling(center: float, scale: float, what: str) -> None:
    if not (math.isfinite(center) and math.isfinite(scale) and scale >= SMALLEST_SCALE):
        raise SchemaError(
            f"The scaling of {what} is ({center!r}, {scale!r}); it needs a finite center, a scale > 0 "
            f"(at least {SMALLEST_SCALE:g})."
        )


def _pair(given: Any, what: str) -> tuple[float, float]:
    try:
        low, high = given
        low = -math.inf if low is None else float(low)
        high = math.inf if high is None else float(high)
    except (TypeError, ValueError):
        raise SchemaError(
            f"{given!r} cannot be {what}: give two numbers, (low, high); None for no bound."
        ) from None
    if not low <= high:
        raise SchemaError(f"{given!r} cannot be {what}: the low end must not exceed the high end.")
    return low, high
