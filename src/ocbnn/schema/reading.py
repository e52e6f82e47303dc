"""A pandas Series of any dtype, read as numbers or as labels; errors name the column and the row."""

from __future__ import annotations

import datetime
import decimal
import difflib
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from ocbnn.errors import SchemaError

Label = str | int | float | bool
Family = Literal["bool", "number", "text", "category"]

UNIFORM_FAMILIES: Mapping[str, Family] = {
    "string": "text",
    "boolean": "bool",
    "integer": "number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
}
"""What pandas' quick look at a series of objects settles; all else is looked at value by value."""

DATE_REMEDY = (
    "Dates and durations are not numbers of a known unit: turn them into one first, for example "
    "`(frame[{name!r}] - frame[{name!r}].min()).dt.days`, or drop the column."
)


LONGEST_NAME = 60
"""So many characters of a wrong name are compared with known ones."""

DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")


def comma_hint(values: Iterable[object]) -> str:
    """A closing sentence where one of the texts is a number with a decimal comma, or nothing."""
    found = next((v for v in values if isinstance(v, str) and DECIMAL_COMMA.fullmatch(v)), None)
    if found is None:
        return ""
    return f" If {found!r} has a decimal comma, read the table with decimal=',' (command line: --decimal ,)."


def did_you_mean(wrong: object, known: Iterable[object], show: Callable[[Any], str] = repr) -> str:
    """A closing ` Did you mean 'x'?`, or nothing when no known name is near; case makes no difference."""
    by_text = {str(name).casefold(): name for name in reversed(list(known))}
    near = difflib.get_close_matches(str(wrong)[:LONGEST_NAME].casefold(), list(by_text), n=1, cutoff=0.6)
    return f" Did you mean {show(by_text[near[0]])}?" if near else ""


def listed(items: Sequence[object], limit: int = 12) -> str:
    """The items in words, cut off after `limit`."""
    shown = ", ".join(repr(item) for item in items[:limit])
    return shown if len(items) <= limit else f"{shown}, … ({len(items)} in all)"


def row_name(index: pd.Index, position: int) -> str:
    """`row 3`, counted from 0, with the index label where that says something else."""
    label = python_scalar(index[position])
    return f"row {position}" if label == position else f"row {position} (index {label!r})"


def python_scalar(value: Any) -> Any:
    """NumPy scalars as Python ones, all else unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def first_row(index: pd.Index, where: np.ndarray) -> str:
    """The name of the first row where the mask holds."""
    return row_name(index, int(np.argmax(where)))


def missing(series: pd.Series) -> np.ndarray:
    """Where the series has no value: None, NaN, NA and NaT alike.

    Arrow-backed floats tell NaN (a computed non-number) from NA (no value); to a reader both are missing.
    """
    absent: np.ndarray = series.isna().to_numpy(dtype=bool)
    dtype = series.dtype
    if isinstance(dtype, pd.api.extensions.ExtensionDtype) and dtype.kind == "f":
        absent = absent | np.isnan(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return absent


def family(series: pd.Series, name: str) -> Family:
    """What sort of values the series holds, whatever the dtype it holds them in."""
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if dtype.kind in "mM" or isinstance(dtype, pd.PeriodDtype):
        raise SchemaError(f"Column {name!r} holds {dtype} values. {DATE_REMEDY.format(name=name)}")
    if dtype.kind == "c":
        raise SchemaError(
            f"Column {name!r} holds complex numbers; give the real and imaginary parts a column each."
        )
    if pd.api.types.is_bool_dtype(dtype):
        return "bool"
    if pd.api.types.is_numeric_dtype(dtype):
        return "number"
    return _family_of_objects(series, name)


def _family_of_objects(series: pd.Series, name: str) -> Family:
    """The family of a series whose dtype says nothing, from its values."""
    uniform = UNIFORM_FAMILIES.get(pd.api.types.infer_dtype(series, skipna=True))
    if uniform is not None:
        return uniform
    present = np.flatnonzero(~missing(series))
    if not len(present):
        return "text"
    values, index = series.to_numpy(dtype=object), series.index
    families = ((int(place), _family_of_value(values[place], name, index, int(place))) for place in present)
    first, found = next(families)
    other = next((place for place, this in families if this != found), None)
    if other is None:
        return found
    raise SchemaError(
        f"Column {name!r} mixes kinds of values: {values[first]!r} in {row_name(index, first)}, "
        f"{values[other]!r} in {row_name(index, other)}. Make it all numbers "
        f"(`pandas.to_numeric`) or all text (`frame[{name!r}].astype(str)`)."
    )


def _family_of_value(value: object, name: str, index: pd.Index, position: int) -> Family:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, numbers.Real | decimal.Decimal):
        return "number"
    where = f"Column {name!r} holds {value!r} in {row_name(index, position)}"
    if isinstance(
        value, datetime.date | datetime.time | datetime.timedelta | np.datetime64 | np.timedelta64 | pd.Period
    ):
        raise SchemaError(f"{where}. {DATE_REMEDY.format(name=name)}")
    raise SchemaError(
        f"{where}, a {type(value).__name__}; a column holds numbers, truth values or text. Convert it."
    )


def read_numbers(series: pd.Series, name: str) -> np.ndarray:
    """The series as float64 with NaN where a value is missing; text is converted where it is a number.

    Raises:
        SchemaError: a value that is not a number, or an infinity.
    """
    found = family(series, name)
    if found == "category":
        series = series.astype(object)
        found = _family_of_objects(series, name)
    absent = missing(series)
    if found == "text":
        converted = pd.to_numeric(series.astype(object), errors="coerce")
        values = converted.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = _as_float(series, absent)
    junk = np.isnan(values) & ~absent
    if junk.any():
        position = int(np.argmax(junk))
        raise SchemaError(
            f"Column {name!r} holds numbers, but {row_name(series.index, position)} has "
            f"{series.iloc[position]!r}. Correct the value, or declare the column as a category: "
            f"columns={{{name!r}: {{'kind': 'category'}}}}.{comma_hint([series.iloc[position]])}"
        )
    if np.isinf(values).any():
        raise SchemaError(
            f"Column {name!r} is infinite in {first_row(series.index, np.isinf(values))}; "
            "give a finite value, or leave the row out."
        )
    return values


def _as_float(series: pd.Series, absent: np.ndarray) -> np.ndarray:
    if series.dtype != object:
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.full(len(series), np.nan)
    objects = series.to_numpy(dtype=object)
    for position in np.flatnonzero(~absent):
        try:
            values[position] = float(objects[position])
        except OverflowError:
            values[position] = math.inf
    return values


def require_present(absent: np.ndarray, index: pd.Index, name: str) -> None:
    """Refuse missing values, naming the first row that has one."""
    if absent.any():
        count = int(absent.sum())
        raise SchemaError(
            f"Column {name!r} has no value in {first_row(index, absent)}"
            f"{f' and {count - 1} more' if count > 1 else ''}; fill missing values or drop these rows first. "
            "A column with missing values among the rows of the fit can have an indicator: "
            "missing='indicator'."
        )


def read_labels(series: pd.Series, name: str) -> tuple[np.ndarray, list[Label]]:
    """The series as (n,) positions in a list of distinct Python labels; −1 where a value is missing.

    Whole numbers stored as floats, as pandas does beside missing values, are labels of type int.
    """
    found = family(series, name)
    plain = series.astype(object) if found == "category" else series
    if found == "category":
        _family_of_objects(plain, name)
    positions, distinct = pd.factorize(plain.to_numpy(dtype=object), use_na_sentinel=True)
    labels = [python_scalar(value) for value in distinct]
    return positions, _tidied(labels, keep_floats=found == "category")


def _tidied(labels: list[Any], *, keep_floats: bool) -> list[Label]:
    tidy = [float(label) if isinstance(label, decimal.Decimal) else label for label in labels]
    floats = any(isinstance(label, float) for label in tidy)
    if floats and not keep_floats and all(float(label).is_integer() for label in tidy):
        return [int(label) for label in tidy]
    return tidy


def codes_of(
    series: pd.Series,
    name: str,
    levels: Sequence[Label],
    what: str = "category",
    *,
    optional: bool = False,
    other: bool = False,
) -> np.ndarray:
    """The (n,) index of each value among the levels.

    Args:
        series: the values.
        name: of the column.
        levels: the labels that are known.
        what: the values are called in errors.
        optional: a missing value is −1 instead of an error.
        other: a label that is not among the levels is −1 instead of an error.

    Raises:
        SchemaError: a missing value, or one that is not among the levels, with its row.
    """
    absent = missing(series)
    if not optional:
        require_present(absent, series.index, name)
    positions, labels = read_labels(series, name)
    lookup = {level: code for code, level in enumerate(levels)}
    # The position of a missing value is −1: the last of these.
    codes = np.array([*(lookup.get(label, -1) for label in labels), -1], dtype=np.int64)[positions]
    unseen = (codes < 0) & ~absent
    if unseen.any() and not other:
        label = labels[positions[int(np.argmax(unseen))]]
        raise SchemaError(
            f"Column {name!r} has the unseen {what} {label!r} in {first_row(series.index, unseen)}; "
            f"known are {listed(list(levels))}.{did_you_mean(label, levels)} Where it may occur, declare "
            f"all: columns={{{name!r}: {{'levels': […]}}}}."
            + (" To predict it as none of the known levels, fit with unseen='other'." if optional else "")
        )
    return codes
