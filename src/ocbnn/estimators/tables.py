"""What users hand over (DataFrames, arrays, weights) as tables with names; errors name column and remedy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.utils import validation
from sklearn.utils.multiclass import check_classification_targets

from ocbnn.errors import SchemaError
from ocbnn.estimators.lazy import is_lazy
from ocbnn.schema import Column, Schema
from ocbnn.schema.infer import center_and_scale, observed_range
from ocbnn.schema.reading import family
from ocbnn.schema.table import require_distinct

LESS_SKEWED = 0.5
"""By how much asinh must reduce the skewness of amounts to be taken: an exponential's is 2, a normal's 0."""
BELOW_LEAST = 4.0
"""How far asinh's offset lies below the 0.5% quantile of amounts: from there it is a log within 1%."""
MOST_SPREAD = 1e12
"""Between the least and the largest amount: beyond, what is small is rounding, and no amount."""


def read_table(estimator: Any, X: Any, *, reset: bool) -> pd.DataFrame:
    """X as a DataFrame with names: its own, those of the fit (`reset=False`), or x0, x1, … for an array.

    Where names and no names meet, columns are told by position, with scikit-learn's warning.

    Raises:
        SchemaError: a missing or infinite value, with its column and the remedy.
        ValueError, TypeError: what scikit-learn refuses: sparse, complex, the wrong number of columns.
    """
    if is_lazy(X):
        raise SchemaError(
            "A Dask DataFrame can be predicted (predict, predict_proba, predict_interval, predict_quantiles, "
            "outside). For anything else give a table that is in memory: X.sample(frac=…).compute()."
        )
    if isinstance(X, pd.DataFrame) and all(isinstance(name, str) for name in X.columns):
        require_distinct(tuple(X.columns))
        validation._check_feature_names(estimator, X, reset=reset)
        validation._check_n_features(estimator, X, reset=reset)
        validation.check_array(np.empty(X.shape, dtype=np.int8), estimator=estimator)
        frame = X if hasattr(estimator, "feature_names_in_") else X.set_axis(_numbered(X.shape[1]), axis=1)
    else:
        array = validation.validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False)
        frame = pd.DataFrame(
            array, columns=list(getattr(estimator, "feature_names_in_", _numbered(array.shape[1])))
        )
        if array.dtype.kind in "OUS":
            frame = frame.infer_objects()
    _require_finite(frame, _may_be_missing(estimator, frame, fitting=reset), fitting=reset)
    return frame


def _may_be_missing(estimator: Any, frame: pd.DataFrame, *, fitting: bool) -> frozenset[str]:
    """The columns in which a missing value is allowed: all in a fit with `missing="indicator"`."""
    if not fitting:
        return frozenset(estimator.schema_.with_indicator)
    return frozenset(map(str, frame.columns)) if estimator.missing == "indicator" else frozenset()


def _numbered(count: int) -> list[str]:
    return [f"x{i}" for i in range(count)]


def array_kinds(X: Any, frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Declarations for the columns of an array, which says nothing of their kinds: numbers are continuous."""
    if isinstance(X, pd.DataFrame) and list(X.columns) == list(frame.columns):
        return {}
    numeric = [str(name) for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
    return {name: {"kind": "continuous"} for name in numeric}


def guessed_kinds(schema: Schema, frame: pd.DataFrame, columns: Any) -> Schema:
    """The schema in which integers and 0/1 whose kind nobody has said may be any number in a new case.

    A fold may show only 0 and 1 of a count, and ages that happen to be whole; truth values are what they are.
    """
    declared = {name for name, options in dict(columns or {}).items() if options.get("kind") is not None}

    def guessed(column: Column) -> bool:
        numbers = column.kind in ("integer", "binary") and column.name not in declared
        return numbers and not pd.api.types.is_bool_dtype(frame[column.name])

    return replace(
        schema, columns=tuple(replace(column, guessed=guessed(column)) for column in schema.columns)
    )


def require_ruled_kinds(schema: Schema, coded: Float[np.ndarray, "n Q"], ruled: frozenset[str]) -> None:
    """Refuse what a guessed kind does not hold where a rule speaks of the column.

    A rule on whole numbers is kept at whole numbers, and `visits != 1` of a 0/1 column was read as 0: what
    lies between or beyond would be predicted as if the rule did not speak of it.
    """
    for place, column in enumerate(schema.columns):
        if column.guessed and column.name in ruled:
            column.require_kind(coded[:, place], pd.RangeIndex(len(coded)))


def _require_finite(frame: pd.DataFrame, optional: frozenset[str], *, fitting: bool) -> None:
    for name in frame.columns:
        series = frame[name]
        missing = series.isna().to_numpy(dtype=bool)
        if missing.any() and name not in optional:
            raise SchemaError(
                f"Column {name!r} has {int(missing.sum())} missing values (NaN), the first in row "
                f"{int(np.argmax(missing))}. {_impute(frame, optional, fitting=fitting)}"
            )
        if pd.api.types.is_float_dtype(series.dtype):
            infinite = np.isinf(series.to_numpy(dtype=np.float64))
            if infinite.any():
                raise SchemaError(
                    f"Column {name!r} is infinite (inf) in row {int(np.argmax(infinite))}. Give a finite "
                    "value, or leave the row out."
                )


def _impute(frame: pd.DataFrame, optional: frozenset[str], *, fitting: bool) -> str:
    if not fitting and optional:
        return (
            "The column was complete in the fit, so the model knows nothing of a missing value. Fill it, "
            "leave these rows out, or fit rows in which it is missing too."
        )
    if not fitting:
        return (
            "Fill missing values as for the fit (a pipeline with an imputer does both alike), leave these "
            "rows out, or fit with missing='indicator' on rows in which it is missing too."
        )
    numeric = all(pd.api.types.is_numeric_dtype(dtype) for dtype in frame.dtypes)
    strategy = "" if numeric else 'strategy="most_frequent"'  # the default is a mean, which texts have not
    return (
        f"Fill missing values before the fit: make_pipeline(SimpleImputer({strategy})"
        ".set_output(transform='pandas'), estimator), drop these rows, or let missing values enter with an "
        "indicator: missing='indicator'."
    )


def read_numbers(estimator: Any, y: Any, rows: int) -> pd.Series:
    """A regression target as a Series of finite numbers with its name, `y` where it has none."""
    values = one_column(estimator, y, rows)
    _require_numbers(values, _name(y))
    try:
        with np.errstate(all="ignore"):  # it looks at the sum of values first, which may be infinite
            checked = validation.check_array(
                values, ensure_2d=False, dtype="numeric", input_name="y", estimator=estimator, copy=False
            )
    except ValueError as error:
        raise SchemaError(f"{error} Leave rows without a target out of the fit.") from None
    return pd.Series(checked.astype(np.float64), name=_name(y))


def read_labels(estimator: Any, y: Any, rows: int) -> tuple[pd.Series, np.dtype[Any]]:
    """A classification target as a Series of labels, and the dtype in which predictions go back."""
    values = one_column(estimator, y, rows)
    missing = pd.isna(values)
    if np.any(missing):
        raise SchemaError(
            f"Input y contains NaN, the first in row {int(np.argmax(missing))}. Leave rows without a label "
            "out of the fit."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise SchemaError("Input y contains infinity or a value too large for dtype('float64').")
    if values.dtype.kind == "O" and family(pd.Series(values), _name(y)) != "text":
        values = np.array(values.tolist())  # numbers or truth values, in a type that says nothing
    check_classification_targets(values)
    labels = values.astype(object) if values.dtype.kind in "US" else values
    return pd.Series(labels, name=_name(y)), values.dtype


def _require_numbers(values: np.ndarray, name: str) -> None:
    series = pd.Series(values)
    if series.dtype.kind in "mM":
        raise SchemaError(
            f"The target {name!r} holds {series.dtype} values: dates and durations are not numbers of a "
            "known unit. Turn them into one, for example `(y - y.min()).dt.days`."
        )
    texts = values.dtype.kind == "U" or (
        values.dtype.kind == "O" and not pd.isna(values).any() and family(series, name) == "text"
    )
    if texts and pd.to_numeric(series, errors="coerce").isna().any():
        raise SchemaError(
            f"The target {name!r} holds labels such as {str(values[0])!r}, and a regressor predicts numbers. "
            "Use OCBNNClassifier."
        )


def one_column(estimator: Any, y: Any, rows: int) -> np.ndarray:
    """The values of a target in the order of the rows; its index plays no part."""
    if y is None:
        raise SchemaError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    if isinstance(y, pd.Series):
        values = y.to_numpy()
    elif isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        values = y.iloc[:, 0].to_numpy()
    else:
        values = validation.column_or_1d(y, warn=True)
    if len(values) != rows:
        validation.check_consistent_length(np.empty(rows), values)
    return values


def _name(y: Any) -> str:
    if isinstance(y, pd.DataFrame):
        return str(y.columns[0])
    name = getattr(y, "name", None)
    return "y" if name is None else str(name)


@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct rows with their total weights, in an order that depends on their values alone.

    A row of weight 3 and three equal rows are then the same thing, exactly.
    """

    frame: pd.DataFrame
    target: pd.Series
    weights: Float[np.ndarray, " n"]
    schema: Schema


def distinct_rows(
    frame: pd.DataFrame,
    target: pd.Series,
    sample_weight: Any,
    schema: Schema,
    free: frozenset[str] = frozenset(),
) -> Rows:
    """Equal rows merged and rows of no weight left out; the schema's scaling follows the weights.

    Args:
        frame: the inputs.
        target: beside them.
        sample_weight: of each row, or None.
        schema: of the table as it is.
        free: columns whose transform nobody has declared: amounts among them are put on a log-like scale.
    """
    try:
        weights = validation._check_sample_weight(
            sample_weight, frame, dtype=np.float64, ensure_non_negative=True
        )
    except ValueError as error:
        raise SchemaError(f"sample_weight cannot be used: {error}") from None
    if not weights.any():
        raise SchemaError("sample_weight cannot be used: all weights are zero.")
    assert schema.target is not None
    y = schema.target.to_model(target) if schema.target.task == "classification" else target.to_numpy()
    used = np.flatnonzero(weights > 0)
    whole = np.column_stack([schema.encode(frame), y])[used] + 0.0  # no −0 beside 0
    missing = np.isnan(whole)  # which are equal to each other here, and to nothing else
    compared = np.column_stack([np.where(missing, 0.0, whole), missing]) if missing.any() else whole
    _, first, inverse = np.unique(compared, axis=0, return_index=True, return_inverse=True)
    total = np.bincount(inverse.ravel(), weights[used])
    rows = used[first]
    merged, outcome = frame.iloc[rows].reset_index(drop=True), target.iloc[rows].reset_index(drop=True)
    return Rows(merged, outcome, total, weighted_schema(schema, whole[first], total, free))


def weighted_schema(
    schema: Schema,
    rows: Float[np.ndarray, "n columns"],
    weights: Float[np.ndarray, " n"],
    free: frozenset[str] = frozenset(),
) -> Schema:
    """The schema with centers, scales and observed ranges of the weighted rows (coded, the target last)."""
    columns = []
    for place, column in enumerate(schema.columns):
        known = ~np.isnan(rows[:, place])
        values, those = rows[known, place], weights[known]
        _require_spread(column.name, values)
        if column.name in free:
            column = on_suited_scale(column, values, those)
        column = _weighted_column(column, values, those)
        columns.append(_weighted_missing(column, values, those, float(weights[~known].sum())))
    _require_spread(getattr(schema.target, "name", "y"), rows[:, -1])
    target = schema.target
    if target is not None and target.task == "regression":
        center, scale = center_and_scale(target.transformed(rows[:, -1], pd.RangeIndex(len(rows))), weights)
        observed = observed_range(rows[:, -1], weights)
        target = replace(target, center=center, scale=scale, observed=observed)
    return Schema(tuple(columns), target)


def _weighted_missing(column: Column, values: np.ndarray, weights: np.ndarray, missing: float) -> Column:
    """The column with what is known of its missing values; rows of no weight play no part."""
    if not column.indicator or not missing:
        return replace(column, indicator=False, mean=0.0, missing=0)
    mean = 0.0 if column.kind == "category" else center_and_scale(values, weights)[0]
    return replace(column, mean=mean, missing=round(missing))


def _require_spread(name: str, values: Float[np.ndarray, " n"]) -> None:
    with np.errstate(over="ignore"):
        spread = values.max() - values.min()
    if not np.isfinite(spread):
        raise SchemaError(
            f"Column {name!r} reaches from {values.min():.3g} to {values.max():.3g}, further than numbers "
            "can tell apart. Correct these values, or use a larger unit."
        )


def on_suited_scale(
    column: Column, values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]
) -> Column:
    """The column as asinh(value / offset) where it holds amounts that are much less skewed that way.

    Amounts (doses, incomes, concentrations) spread over orders of magnitude: on their own scale a few large
    ones stretch the axis and most rows share one place. asinh is a log for them, and has a value for zero
    and for a new case below it. The offset is a quarter of the 0.5% quantile of the amounts above zero.
    """
    positive = values > 0
    if column.transform != "standardize" or values.min() < 0 or len(np.unique(values)) < 3:
        return column
    offset = observed_range(values[positive], weights[positive])[0] / BELOW_LEAST
    if values.max() > MOST_SPREAD * offset:
        return column
    changed = replace(column, transform="asinh", offset=offset)
    gain = abs(_skewness(values, weights)) - abs(_skewness(changed.transformed(values), weights))
    return changed if gain > LESS_SKEWED else column


def _skewness(values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> float:
    center, scale = center_and_scale(values, weights)
    return float(np.average(((values - center) / scale) ** 3, weights=weights))


def _weighted_column(column: Column, values: np.ndarray, weights: np.ndarray) -> Column:
    if column.kind == "category":
        return column
    if column.kind != "binary":
        column = replace(column, observed=observed_range(values, weights))
    if column.transform == "none":
        return column
    center, scale = center_and_scale(column.transformed(values), weights)
    return replace(column, center=center, scale=scale)
