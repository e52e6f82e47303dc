"""`Schema`: all columns together, and the way between raw, coded and model units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, get_args

import numpy as np
import pandas as pd

from ocbnn.errors import SchemaError
from ocbnn.schema import infer
from ocbnn.schema.columns import (
    UNSEEN,
    Column,
    Missing,
    Target,
    Task,
    Unseen,
    require_choice,
    require_name,
)
from ocbnn.schema.reading import did_you_mean, listed


@dataclass(frozen=True)
class Schema:
    """The input columns, in order, and the target where there is one."""

    columns: tuple[Column, ...]
    target: Target | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns:
            raise SchemaError("A schema needs at least one input column.")
        require_distinct(self.names)
        if self.target is not None and self.target.name in self.names:
            raise SchemaError(
                f"{self.target.name!r} is the target and also an input column; rename one, or drop the input."
            )

    @classmethod
    def infer(
        cls,
        frame: pd.DataFrame,
        *,
        target: str | pd.Series | None = None,
        task: Task | None = None,
        columns: Mapping[str, Mapping[str, Any]] | None = None,
        missing: Missing | None = None,
        unseen: Unseen | None = None,
    ) -> Self:
        """The schema a table shows.

        Args:
            frame: the table, one row per case.
            target: the column to predict, or a Series beside the frame (one without a name is called "y").
            task: "regression" or "classification", where the guess is wrong.
            columns: per column, what to declare: kind, unit, bounds, transform, offset, levels, and
                ordered: True where the levels stand in their order. For the target, by its name or as "y":
                unit, levels (all classes, also those that do not occur), transform ("log" models log y).
            missing: "indicator" gives each column with missing values a further model input, 1 where the
                value is missing; default: None, `encode` refuses missing values.
            unseen: "other" accepts labels outside a category's levels, as 0 in every model
                input of the column; default: None, `encode` refuses them.

        Raises:
            SchemaError: a table that cannot be read, or a declaration that does not fit it.

        >>> Schema.infer(pd.DataFrame({"age": [31, 64], "ward": ["ICU", "surgery"]})).names
        ('age', 'ward')
        """
        declared = declarations(columns)
        if missing is not None:
            require_choice(missing, get_args(Missing), "the way of missing values, or None to refuse them")
        if unseen is not None:
            require_choice(unseen, get_args(Unseen), "the way of unseen labels, or None to refuse them")
        _require_frame(frame)
        outcome, inputs = _target_and_inputs(frame, target)
        name = "y" if outcome is None or outcome.name is None else str(outcome.name)
        if outcome is not None and "y" in declared and "y" not in (*inputs, name):
            # In rules `y` always means the target; it does so here.
            if name in declared:
                raise SchemaError(f"columns= declares the target twice, as 'y' and as {name!r}; keep one.")
            declared[name] = declared.pop("y")
        for other in declared:
            if other not in inputs and (outcome is None or other != name):
                raise SchemaError(
                    f"columns= names {other!r}, which is not in the table.{did_you_mean(other, inputs)}"
                )
        if task is not None and outcome is None:
            raise SchemaError(f"The task {task!r} needs a target: Schema.infer(frame, target=…).")
        found = [
            infer.infer_column(
                frame[column], column, declared.get(column, {}), indicate=missing == "indicator"
            )
            for column in inputs
        ]
        return cls(
            tuple(replace(each, other=unseen == "other" and each.kind == "category") for each in found),
            None if outcome is None else infer.infer_target(outcome, name, task, declared.get(name, {})),
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the input columns."""
        return tuple(column.name for column in self.columns)

    @property
    def width(self) -> int:
        """D, the number of model inputs."""
        return sum(column.width for column in self.columns)

    def index(self, name: str) -> int:
        """The position of a column among the coded ones."""
        _require_column(name, self.names)
        return self.names.index(name)

    def column(self, name: str) -> Column:
        """The column of that name."""
        return self.columns[self.index(name)]

    def is_target(self, name: str) -> bool:
        """Whether the name means the target: its own, or `y` where no input column is called so."""
        if self.target is None:
            return False
        return name == self.target.name or (name == "y" and "y" not in self.names)

    @property
    def with_indicator(self) -> tuple[str, ...]:
        """The names of the columns that may have missing values."""
        return tuple(column.name for column in self.columns if column.indicator)

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        """Raw rows as (n, Q) coded ones; other columns and the order of columns do not matter.

        A missing value is NaN where its column has an indicator.

        Raises:
            SchemaError: a missing column, a missing or infinite value, an unseen category; with its place.
        """
        if not isinstance(frame, pd.DataFrame):
            raise SchemaError(f"Schema.encode takes a pandas DataFrame, not a {type(frame).__name__}.")
        for name in self.names:
            _require_column(name, frame.columns)
            if (frame.columns == name).sum() > 1:
                raise SchemaError(f"The table has several columns named {name!r}; keep one.")
        coded = np.empty((len(frame), len(self.columns)))
        for position, column in enumerate(self.columns):
            coded[:, position] = column.encode(frame[column.name])
        return coded

    def decode(self, coded: np.ndarray) -> pd.DataFrame:
        """(n, Q) coded rows as raw ones: the inverse of `encode`."""
        values = self._coded(coded)
        return pd.concat([column.decode(values[:, i]) for i, column in enumerate(self.columns)], axis=1)

    def to_model(self, coded: np.ndarray) -> np.ndarray:
        """(n, Q) coded rows as (n, D) model inputs."""
        values = self._coded(coded)
        return np.concatenate(
            [column.to_model(values[:, i]) for i, column in enumerate(self.columns)], axis=1
        )

    def to_raw(self, inputs: np.ndarray) -> np.ndarray:
        """(n, D) model inputs as (n, Q) coded rows: the inverse of `to_model`."""
        values = np.asarray(inputs, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.width:
            raise SchemaError(f"Model inputs have the shape (n, {self.width}), not {values.shape}.")
        ends = np.cumsum([column.width for column in self.columns])
        blocks = np.split(values, ends[:-1], axis=1)
        return np.stack(
            [column.to_raw(block) for column, block in zip(self.columns, blocks, strict=True)], axis=1
        )

    def complete(self, coded: np.ndarray) -> np.ndarray:
        """Which of the coded rows (n, Q) have a value in every column, and known levels alone."""
        return ~(np.isnan(coded) | self.unseen(coded)).any(axis=1)

    def unseen(self, coded: np.ndarray) -> np.ndarray:
        """Where coded rows have a label outside the levels, (n, Q)."""
        return np.array([column.kind == "category" for column in self.columns]) & (coded == UNSEEN)

    def outside(self, coded: np.ndarray) -> np.ndarray:
        """Where coded rows lie outside of what was observed, (n, Q).

        A number lies below or above the observed range; a label is not a level. A missing value lies nowhere.
        """
        low, high = np.array([column.observed for column in self.columns]).T
        numeric = np.array([column.kind != "category" for column in self.columns])
        with np.errstate(invalid="ignore"):
            beyond = (coded < low) | (coded > high)
        return (numeric & beyond) | self.unseen(coded)

    def values(self, coded: np.ndarray) -> dict[str, np.ndarray]:
        """The (n,) coded columns by name: what expressions evaluate on."""
        return {name: coded[..., i] for i, name in enumerate(self.names)}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, from which `from_json` makes an equal schema."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "target": None if self.target is None else self.target.to_json(),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The schema `to_json` was called on."""
        if not isinstance(stored, Mapping) or set(stored) != {"columns", "target"}:
            raise SchemaError("A stored schema is a mapping with the two fields 'columns' and 'target'.")
        columns, target = stored["columns"], stored["target"]
        if not isinstance(columns, Sequence):
            raise SchemaError(f"The columns of a stored schema are a list, not {columns!r}.")
        return cls(
            tuple(Column.from_json(column) for column in columns),
            None if target is None else Target.from_json(target),
        )

    def _coded(self, coded: np.ndarray) -> np.ndarray:
        values = np.asarray(coded, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.columns):
            raise SchemaError(f"Coded rows have the shape (n, {len(self.columns)}), not {values.shape}.")
        wrong = ~np.isfinite(values) & ~(
            np.isnan(values) & np.array([column.indicator for column in self.columns])
        )
        if wrong.any():
            row, position = np.argwhere(wrong)[0]
            raise SchemaError(f"Column {self.names[position]!r} is {values[row, position]} in row {row}.")
        return values


def declarations(columns: Any) -> dict[str, Mapping[str, Any]]:
    """What `columns=` declares, by name."""
    if columns is not None and not isinstance(columns, Mapping):
        raise SchemaError(
            f"columns= is a mapping from names to what is declared, such as "
            f"{{'age': {{'kind': 'continuous'}}}}, not {columns!r}."
        )
    return dict(columns or {})


def _target_and_inputs(
    frame: pd.DataFrame, target: str | pd.Series | None
) -> tuple[pd.Series | None, list[str]]:
    """The target's values, and the names of the columns that are inputs."""
    names = list(frame.columns)
    if target is None or isinstance(target, pd.Series):
        return target, names
    _require_column(target, names)
    return frame[target], [name for name in names if name != target]


def _require_frame(frame: Any) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise SchemaError(f"Schema.infer takes a pandas DataFrame, not a {type(frame).__name__}.")
    for name in frame.columns:
        require_name(name)
    require_distinct(tuple(frame.columns))
    if not len(frame):
        raise SchemaError("The table has no rows, so nothing can be inferred from it; give at least one row.")


def require_distinct(names: tuple[str, ...]) -> None:
    """Refuse a name that occurs twice."""
    for name, count in Counter(names).items():
        if count > 1:
            raise SchemaError(f"The table has several columns named {name!r}; rename all but one.")


def _require_column(name: str, known: Any) -> None:
    if name not in known:
        raise SchemaError(
            f"There is no column {name!r}; there are {listed(list(known))}.{did_you_mean(name, list(known))}"
        )
