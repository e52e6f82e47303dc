"""From a Series, and what the user declared about it, to a `Column` or a `Target`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pandas as pd

from ocbnn.errors import SchemaError
from ocbnn.schema import reading
from ocbnn.schema.columns import (
    Column,
    Kind,
    Label,
    Target,
    TargetTransform,
    Task,
    Transform,
    labels_tuple,
    require_choice,
)
from ocbnn.schema.reading import did_you_mean, listed

OBSERVED_QUANTILES = (0.005, 0.995)
LEAST_SPREAD = 1e-12
"""Of numbers of size 1: below, they are one number with rounding."""
MOST_LEVELS = 100
"""Text with more distinct values than this is an identifier or prose unless declared a category."""
FEW_LEVELS = 20
"""Up to here text is a category even if most rows differ: the table may be small."""
MOSTLY, SHOWN_CELLS = 0.5, 3
"""The share of numbers above which text is a column of numbers with cells that are not, and cells named."""
MOST_INTEGER_CLASSES = 10
"""An integer target with more distinct values than this is regressed on unless declared otherwise."""

COLUMN_OPTIONS = ("kind", "unit", "bounds", "transform", "levels", "ordered", "offset")
TARGET_OPTIONS = ("unit", "levels", "transform")


def infer_column(
    series: pd.Series, name: str, declared: Mapping[str, Any], *, indicate: bool = False
) -> Column:
    """The column the series shows, corrected by what was declared.

    Args:
        series: the values.
        name: of the column.
        declared: about it.
        indicate: give the column an indicator of missing values, if it has any.
    """
    column = _inferred(series, name, declared)
    return replace(column, indicator=True) if indicate and column.missing else replace(column, mean=0.0)


def _inferred(series: pd.Series, name: str, declared: Mapping[str, Any]) -> Column:
    options = _checked(declared, name, COLUMN_OPTIONS)
    absent = _require_some(series, name)
    unit, count = options.get("unit"), int(absent.sum())
    declares_levels, ordered = options.get("levels") is not None, _is_ordered(options, name)
    kind: Kind = options.get("kind") or ("category" if declares_levels else guess_kind(series, name))
    if kind == "category":
        for option in ("bounds", "offset", "transform"):
            if options.get(option) not in (None, "none"):
                raise SchemaError(
                    f"Column {name!r} is a category, which takes no {option}: categories enter one-hot."
                )
        levels = _levels(series[~absent], name, options.get("levels"))
        ends = (0, len(levels) - 1)
        return Column(name, "category", ends, levels=levels, unit=unit, missing=count, ordered=ordered)
    if declares_levels:
        raise SchemaError(f"Column {name!r} is declared {kind}, but only a category has levels.")
    values = reading.read_numbers(series, name)
    transform: Any = options.get("transform") or ("none" if kind == "binary" else "standardize")
    column = Column(
        name,
        kind,
        observed_range(values[~absent], exact=kind == "binary"),
        bounds=(-math.inf, math.inf) if options.get("bounds") is None else options["bounds"],
        unit=unit,
        transform=transform,
        offset=_turn(values[~absent], name, options.get("offset")) if transform == "asinh" else 0.0,
        missing=count,
        mean=center_and_scale(values[~absent])[0] if count else 0.0,
    )
    column.require_kind(values, series.index)
    if kind == "binary" and options.get("bounds") is not None and column.bounds != (0, 1):
        raise SchemaError(
            f"Column {name!r} is binary, so its values are 0 and 1, not between {column.bounds[0]:g} and "
            f"{column.bounds[1]:g}. Leave out the bounds, or declare the kind 'integer' or 'continuous'."
        )
    _require_bounds(column, values, series.index)
    if options.get("offset") is not None and column.transform not in ("log", "asinh"):
        raise SchemaError(f"Column {name!r} has an offset, which only the transforms 'log' and 'asinh' use.")
    if column.transform == "log":
        column = _with_offset(column, values, series.index, options.get("offset"))
    if column.transform == "none":
        return column
    center, scale = center_and_scale(column.transformed(values[~absent]))
    return replace(column, center=center, scale=scale)


def infer_target(series: pd.Series, name: str, task: Task | None, declared: Mapping[str, Any]) -> Target:
    """The target the series shows; rows without a value are passed over."""
    options = _checked(declared, name, TARGET_OPTIONS, get_args(TargetTransform))
    absent = _require_some(series, name)
    series, unit, levels = series[~absent], options.get("unit"), options.get("levels")
    if task is None:
        task = "classification" if levels is not None else guess_task(series, name)
    require_choice(task, get_args(Task), f"the task of target {name!r}")
    if task == "classification":
        classes = _levels(series, name, levels)
        return Target(name, task, classes=classes, unit=unit, transform=options.get("transform") or "none")
    if levels is not None:
        raise SchemaError(f"Target {name!r} is declared as regression, which has no levels.")
    values = reading.read_numbers(series, name)
    transform: Any = options.get("transform") or "none"
    target = Target(name, task, observed=observed_range(values), unit=unit, transform=transform)
    center, scale = center_and_scale(target.transformed(values, series.index))
    return replace(target, center=center, scale=scale)


def guess_kind(series: pd.Series, name: str) -> Kind:
    """The kind of column the values speak for.

    Floats that are all whole are integers only where values are missing: pandas stores integers with gaps so.
    """
    found = reading.family(series, name)
    if found == "category":
        return "category"
    if found == "bool":
        return "binary"
    if found == "text":
        _refuse_doubtful_text(series, name)
        return "category"
    values = reading.read_numbers(series, name)
    absent = np.isnan(values)
    present = values[~absent]
    if set(np.unique(present)) == {0.0, 1.0}:
        return "binary"
    stored_as_integers = _is_integer(series) or bool(absent.any())
    return "integer" if stored_as_integers and np.array_equal(present, np.round(present)) else "continuous"


def guess_task(series: pd.Series, name: str) -> Task:
    """Classification for labels, truth values, 0/1 and integers with few values; else regression."""
    if reading.family(series, name) != "number":
        if reading.family(series, name) == "text" and series.nunique() > MOST_INTEGER_CLASSES:
            _refuse_doubtful_text(series, name)
        return "classification"
    distinct = np.unique(reading.read_numbers(series, name))
    if set(distinct) <= {0.0, 1.0}:
        return "classification"
    return "classification" if _is_integer(series) and len(distinct) <= MOST_INTEGER_CLASSES else "regression"


def observed_range(
    values: np.ndarray, weights: np.ndarray | None = None, *, exact: bool = False
) -> tuple[float, float]:
    """The 0.5 and 99.5 % quantiles, rounded outwards to values that occur; `exact` takes all of them.

    A value of weight 2 counts as two equal ones.
    """
    if exact:
        return float(values.min()), float(values.max())
    order = np.argsort(values)
    ends = np.cumsum(np.ones(len(values)) if weights is None else weights[order])
    last = max(float(ends[-1]) - 1.0, 0.0)
    places = np.floor(OBSERVED_QUANTILES[0] * last), np.ceil(OBSERVED_QUANTILES[1] * last)
    low, high = np.minimum(np.searchsorted(ends, places, side="right"), len(values) - 1)
    return float(values[order[low]]), float(values[order[high]])


def center_and_scale(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Mean and standard deviation of weighted values; the scale of a constant is 1."""
    if values.min() == values.max():
        return float(values[0]), 1.0
    exponent = math.frexp(float(np.abs(values).max()))[1]
    reduced = np.ldexp(values, -exponent)  # at most 1 in size, without rounding: no square can overflow
    center = float(np.average(reduced, weights=weights))
    spread = float(np.sqrt(np.average((reduced - center) ** 2, weights=weights)))
    # A spread that is nothing but rounding would blow noise up to the size of data.
    scale = math.ldexp(spread, exponent) if spread > LEAST_SPREAD else 0.0
    return math.ldexp(center, exponent), scale if scale > np.finfo(np.float64).tiny else 1.0


def _checked(
    declared: Mapping[str, Any],
    name: str,
    known: tuple[str, ...],
    transforms: tuple[str, ...] = get_args(Transform),
) -> Mapping[str, Any]:
    if not isinstance(declared, Mapping):
        raise SchemaError(f"columns[{name!r}] is {declared!r}; give a mapping of options, {listed(known)}.")
    for option in declared:
        if option not in known:
            raise SchemaError(
                f"{option!r} is not an option of column {name!r}; there are {listed(known)}."
                f"{did_you_mean(option, known)}"
            )
    unit = declared.get("unit")
    if unit is not None and not isinstance(unit, str):
        raise SchemaError(f"The unit of column {name!r} is text, not {unit!r}.")
    for option, choices in (("kind", get_args(Kind)), ("transform", transforms)):
        if declared.get(option) is not None:
            require_choice(declared[option], choices, f"the {option} of column {name!r}")
    return declared


def _require_some(series: pd.Series, name: str) -> np.ndarray:
    """Where values are missing; all of them is refused."""
    absent = reading.missing(series)
    if absent.all():
        raise SchemaError(f"Column {name!r} has no value in any row; drop the column.")
    return absent


def _require_bounds(column: Column, values: np.ndarray, index: pd.Index) -> None:
    low, high = column.bounds
    outside = (values < low) | (values > high)
    if outside.any():
        position = int(np.argmax(outside))
        raise SchemaError(
            f"Column {column.name!r} is declared between {low:g} and {high:g}, but "
            f"{reading.row_name(index, position)} has {float(values[position])!r}. "
            "Correct the value or widen the bounds."
        )


def _turn(values: np.ndarray, name: str, offset: Any) -> float:
    """Where asinh turns from a line into a log: the least size observed (0.5 % quantile), unless declared."""
    if offset is None:
        sizes = np.abs(values[values != 0])
        return observed_range(sizes)[0] if len(sizes) else 1.0
    return _finite_offset(offset, name)


def _finite_offset(offset: Any, name: str) -> float:
    if isinstance(offset, bool) or not isinstance(offset, int | float) or not math.isfinite(offset):
        raise SchemaError(f"The offset of column {name!r} is a finite number, not {offset!r}.")
    return float(offset)


def _with_offset(column: Column, values: np.ndarray, index: pd.Index, offset: Any) -> Column:
    """The column with the offset of its log, and a lower bound the log can take.

    Unless declared, the offset is half of the smallest positive value observed (the 0.5 % quantile, so that
    one tiny value does not throw zeros far out): zeros enter as log(offset). Taking a log says that values
    cannot lie below 0, so that becomes the lower bound where none was declared.
    """
    present = values[~np.isnan(values)]
    if offset is None:
        if (present < 0).any():
            raise SchemaError(
                f"Column {column.name!r} is negative in {reading.first_row(index, values < 0)}; a log needs "
                f"values from 0 up. Declare an offset above {-present.min():g}, or transform 'standardize'."
            )
        positive = present[present > 0]
        offset = observed_range(positive)[0] / 2 if len(positive) else 1.0
        offset = offset or 1.0
    offset = _finite_offset(offset, column.name)
    shifted = replace(column, offset=offset)
    shifted.transformed(values)
    lowest = 0.0 if present.min() >= 0 and offset > 0 else float(np.nextafter(-offset, math.inf))
    low, high = column.bounds
    if -math.inf < low <= -offset:
        raise SchemaError(
            f"Column {column.name!r} is declared from {low:g} up, but enters as log(value + {offset:g}), "
            f"which needs values above {-offset:g}. Raise the bound, or declare a larger offset."
        )
    return replace(shifted, bounds=(lowest if low == -math.inf else low, high))


def _is_ordered(options: Mapping[str, Any], name: str) -> bool:
    """Whether the levels are declared ordered; then the levels are declared too, in that order."""
    ordered = options.get("ordered")
    if ordered is not None and not isinstance(ordered, bool):
        raise SchemaError(f"'ordered' of column {name!r} is True or False, not {ordered!r}.")
    if ordered and options.get("levels") is None:
        raise SchemaError(
            f"Column {name!r} is declared ordered, so its levels are declared in their order: "
            f"columns={{{name!r}: {{'levels': ['low', 'mid', 'high'], 'ordered': True}}}}."
        )
    return bool(ordered)


def _levels(series: pd.Series, name: str, declared: Any) -> tuple[Label, ...]:
    """The labels: as declared, in the order of a category dtype, or sorted."""
    if declared is not None:
        levels = labels_tuple(declared, f"the levels of column {name!r}")
        reading.codes_of(series, name, levels, what="label")
        return levels
    found = reading.family(series, name)
    if isinstance(series.dtype, pd.CategoricalDtype):
        categories = pd.Series(series.dtype.categories)
        reading.family(categories, name)
        return labels_tuple(categories.tolist(), f"the levels of column {name!r}")
    if found == "number":
        reading.read_numbers(series, name)
    return labels_tuple(sorted(reading.read_labels(series, name)[1]), f"the levels of column {name!r}")


def _refuse_doubtful_text(series: pd.Series, name: str) -> None:
    """Refuse text that is mostly numbers, or that differs in too many rows to be a category."""
    absent = reading.missing(series)
    texts = series[~absent].astype(object)
    is_number = pd.to_numeric(texts, errors="coerce").notna().to_numpy(dtype=bool)
    has_comma = texts.map(lambda text: bool(reading.DECIMAL_COMMA.fullmatch(text))).to_numpy(dtype=bool)
    remedy = f"declare columns={{{name!r}: {{'kind': 'category'}}}}"
    if is_number.all():
        raise SchemaError(
            f"Column {name!r} holds numbers written as text ({texts.iloc[0]!r}). Convert it with "
            f"`pandas.to_numeric(frame[{name!r}])`. If they are codes, {remedy}."
        )
    if (is_number | has_comma).mean() > MOSTLY:
        wrong = np.flatnonzero(~absent)[~is_number]
        shown = [(series.iloc[at], reading.row_name(series.index, int(at))) for at in wrong[:SHOWN_CELLS]]
        cells = [f"{text!r} in {row}" for text, row in shown]
        more = f" and {len(wrong) - SHOWN_CELLS:,} more" if len(wrong) > SHOWN_CELLS else ""
        raise SchemaError(
            f"Column {name!r} holds numbers, but also text: {', '.join(cells)}{more}. Replace it by numbers, "
            f"or leave these cells empty. If all of them are labels, {remedy}."
            f"{reading.comma_hint(texts[has_comma])}"
        )
    distinct = texts.nunique()
    if distinct > MOST_LEVELS or (distinct > FEW_LEVELS and distinct > len(texts) / 2):
        raise SchemaError(
            f"Column {name!r} has {distinct} different texts in {len(texts)} rows ({texts.iloc[0]!r}, …): an "
            f"identifier, or prose? Drop it, or {remedy}."
        )


def _is_integer(series: pd.Series) -> bool:
    if series.dtype == object:
        return all(isinstance(v, int | np.integer) for v in series[~reading.missing(series)])
    return bool(pd.api.types.is_integer_dtype(series.dtype))
