"""Answers of an estimator about a Dask DataFrame: lazy, partition by partition. Dask is not imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import validation


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask DataFrame."""
    return hasattr(X, "map_partitions") and type(X).__module__.split(".")[0].startswith("dask")


def by_partition(
    estimator: Any,
    X: Any,
    method: str,
    columns: Sequence[Any],
    dtype: np.dtype[Any] | type = float,
    **options: Any,
) -> Any:
    """What a method says of every row, as a Dask DataFrame with the partitions and the index of X.

    Args:
        estimator: fitted.
        X: a Dask DataFrame.
        method: of the estimator, which takes a table and gives a value, or one for each column.
        columns: the names of the answer's columns.
        dtype: of its values.
        options: of the method.

    Raises:
        ValueError: the columns of X are not those of the fit.
    """
    validation.check_is_fitted(estimator)
    validation._check_feature_names(estimator, X._meta, reset=False)
    answer = _Answer(_travelling(estimator), method, tuple(columns), np.dtype(dtype), options)
    return X.map_partitions(answer, meta=answer.table(np.empty(0), X._meta.index), enforce_metadata=False)


class _Answer:
    """What a method says of one partition; it travels to workers."""

    def __init__(
        self,
        estimator: Any,
        method: str,
        columns: tuple[Any, ...],
        dtype: np.dtype[Any],
        options: Mapping[str, Any],
    ) -> None:
        self.estimator, self.method, self.options = estimator, method, dict(options)
        self.columns, self.dtype = columns, dtype

    def __call__(self, rows: pd.DataFrame) -> pd.DataFrame:
        # A partition that a filter has emptied has no answer, and no error.
        values = getattr(self.estimator, self.method)(rows, **self.options) if len(rows) else np.empty(0)
        return self.table(np.column_stack(values) if isinstance(values, tuple) else values, rows.index)

    def table(self, values: Any, index: pd.Index) -> pd.DataFrame:
        """The values as columns of the promised names and type."""
        rows = np.asarray(values).astype(self.dtype).reshape(-1, len(self.columns))
        return pd.DataFrame(rows, columns=list(self.columns), index=index)


def _travelling(estimator: Any) -> Any:
    """A copy without the rows of the fit, which predictions do not need."""
    travelling, posterior = copy(estimator), estimator.posterior_
    terms = tuple(replace(term, data=None) for term in posterior.model.terms)
    travelling.posterior_ = replace(posterior, model=replace(posterior.model.without_rows(), terms=terms))
    return travelling
