"""Tables: read as they are or refused, understood together with declared columns and rules, and written."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocbnn.cli.command import InputError
from ocbnn.errors import SchemaError
from ocbnn.resources import free_memory, require_memory
from ocbnn.schema.files import (
    SEPARATORS,
    csv_header,
    csv_records,
    needs_pyarrow,
    reading,
    require_content,
    require_format,
    require_names,
    separator_of,
    table_format,
)
from ocbnn.storage.files import read_file

if TYPE_CHECKING:
    import pandas as pd

    from ocbnn.cli.voice import Voice
    from ocbnn.estimators.large import LargeTable
    from ocbnn.rules.constraint import Constraint
    from ocbnn.schema import Schema

EXPANSION = 4
"""Bytes in memory for a byte of a Parquet file, about."""
SHOWN_ROWS = 5


# From a file to a table -------------------------------------------------------------------------------------


def read_table(path: Path, voice: Voice, decimal: str = ".") -> pd.DataFrame:
    """A CSV (plain or gzipped) or Parquet file; one row for each of its rows, numbered from 0.

    Args:
        path: of the file; its ending says what it holds.
        voice: is told which separator was found, if it is not a comma.
        decimal: the decimal mark of a CSV file, "." or ",".

    Raises:
        OCBNNError: no such file, another format, contents that are not what the name says, or rows that do
            not fit the header.
    """
    kind = require_format(path)
    if decimal not in (".", ","):
        raise InputError(f"--decimal is '.' or ',', not {decimal!r}.")
    most = free_memory() // 4  # bytes, text and numbers are held side by side
    content = read_file(path, most)
    with reading(path):
        if kind == ".parquet":
            return _read_parquet(content, path)
        unpacked = _unpacked(content, most, path) if kind == ".csv.gz" else content
        return _read_csv(unpacked, path, voice, decimal)


def _read_parquet(content: bytes, path: Path) -> pd.DataFrame:
    import pandas as pd
    import pyarrow.parquet as parquet

    found = parquet.read_metadata(io.BytesIO(content))
    require_memory(8.0 * found.num_rows * found.num_columns, f"{path}", "Give fewer rows or columns.")
    frame = pd.read_parquet(io.BytesIO(content))
    require_names(list(frame.columns), path)
    # An index with a name is a column of the file.
    return frame.reset_index(drop=all(name is None for name in frame.index.names))


def _read_csv(content: bytes, path: Path, voice: Voice, decimal: str) -> pd.DataFrame:
    import pandas as pd

    require_content(content, path)
    content = content.rstrip(b"\r\n") + b"\n"  # blank lines at the end are no rows
    separator = separator_of(content)
    names, rows = _checked_rows(content, separator, path)
    _tell_separator(path, separator, voice)
    # From pandas 3.1 on numbers are read to the last bit, and asking for it is deprecated.
    since = tuple(int(part) for part in pd.__version__.split(".")[:2])
    exact: dict[str, Any] = {} if since >= (3, 1) else {"float_precision": "round_trip"}
    frame = pd.read_csv(
        io.BytesIO(content),
        sep=separator,
        decimal=decimal,
        encoding="utf-8-sig",
        index_col=False,
        skip_blank_lines=False,
        low_memory=False,
        **exact,
    )
    if len(frame) != rows or frame.shape[1] != len(names):
        raise InputError(f"{path} has {rows:,} rows, but {len(frame):,} were read. Check its quotes.")
    return frame.set_axis(names, axis=1)


def _tell_separator(path: Path, separator: str, voice: Voice) -> None:
    if separator != ",":
        voice.say(f"The values in {path} are separated by {SEPARATORS[separator]}.")


def _unpacked(content: bytes, most: int, path: Path) -> bytes:
    with gzip.open(io.BytesIO(content)) as file:
        unpacked = file.read(most + 1)
    if len(unpacked) > most:
        raise InputError(f"{path} holds more than {most:,} bytes, a quarter of the memory that is free.")
    return unpacked


def _checked_rows(content: bytes, separator: str, path: Path) -> tuple[list[str], int]:
    """The names in the header, and how many rows are below it; a blank line is a row without values.

    Raises:
        InputError: a header that cannot be used, or a row that is longer or shorter.
    """
    records = csv_records(content, separator)
    try:
        names = next(records)
        require_names(names, path)
        rows = 0
        for record in records:
            rows += 1
            if record and len(record) != len(names):
                raise InputError(
                    f"Line {records.line_num} of {path} has {len(record)} values, but its header names "
                    f"{len(names)} columns. Give every row one value for each column, in quotes where it "
                    f"contains {separator!r}. (For decimal commas, separate values by ; and say --decimal ,)"
                )
    except csv.Error as error:
        raise InputError(f"{path} cannot be read: line {records.line_num}: {error}.") from None
    return names, rows


# From a table to what is fitted -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Inputs:
    """A table as it was understood, with its rules.

    Attributes:
        frame: the rows, inputs and target; complete but for columns with an indicator of missing values.
        schema: of the whole table.
        rules: as constraints.
        columns: what was declared about columns, for estimators.
        adopted: whether the schema is that of a learnt prior, which brings its own.
        groups: the group of each row, whose rows are held out together or not at all; None for no groups.
        source: the table in files, where it is larger than what is held; `frame` is then some rows by chance.
    """

    frame: pd.DataFrame
    schema: Schema
    rules: tuple[Constraint, ...]
    columns: Mapping[str, Mapping[str, Any]]
    adopted: bool = False
    groups: pd.Series | None = None
    source: LargeTable | None = None

    @property
    def target(self) -> str:
        """The name of the column to predict."""
        assert self.schema.target is not None
        return self.schema.target.name


def read_inputs(
    table: Path,
    target: str,
    rules: Path | None,
    voice: Voice,
    *,
    task: str | None = None,
    columns: Path | None = None,
    ignore: Sequence[str] | None = None,
    group: str | None = None,
    decimal: str = ".",
    missing: str | None = None,
    target_transform: str | None = None,
    schema: Schema | None = None,
    hold_out: float = 0.0,
    seed: int = 0,
) -> Inputs:
    """The table, schema and rules behind three files; a schema that is given is that of a learnt prior.

    Of a table that is read in pieces, `hold_out` is the share of rows kept from the fit.

    Raises:
        OCBNNError: any of them cannot be used, with the cause and the remedy.
    """
    from ocbnn.rules.files import load_rules

    declared = {} if columns is None else read_columns(columns)
    left_out = {*(ignore or ()), *(() if group is None else (group,))}
    if target in (ignore or ()):
        raise InputError(f"{target!r} is the target, so it cannot be ignored.")
    source = None
    if is_read_in_pieces(table):
        source = _large_table(table, target, sorted(left_out), group, decimal, hold_out, seed, missing, voice)
        frame, left_out = source.sample, set()
    else:
        frame = read_table(table, voice, decimal)
    require_columns(frame, [*left_out, target], table)
    groups = None if group is None else _groups(frame, group, target, schema)
    frame = frame.drop(columns=list(left_out))
    if target_transform is not None:
        key = "y" if "y" in declared and "y" not in frame else target
        declared[key] = {**declared.get(key, {}), "transform": target_transform}
    if schema is None:
        shown = declared if source is None else source.declared(declared, task)
        known = _inferred(frame, target, table, task=task, columns=shown, missing=missing)
    else:
        known = schema
        _require_fitting(schema, target, task, columns)
        require_columns(frame, schema.names, table)
    constraints = () if rules is None else load_rules(rules, known)
    complete = complete_rows(frame, [*needed_columns(known), target], voice)
    groups = None if groups is None else groups.loc[complete.index]
    source = None if source is None or source.whole else source
    return Inputs(complete, known, constraints, declared, schema is not None, groups, source)


def is_read_in_pieces(table: Path) -> bool:
    """Whether a table is a folder, or a Parquet file that would fill much of the memory."""
    if table.is_dir():
        return True
    if table.suffix.lower() != ".parquet" or not table.is_file():
        return False
    return EXPANSION * table.stat().st_size > free_memory() // 4


def _large_table(
    table: Path,
    target: str,
    ignore: Sequence[str],
    group: str | None,
    decimal: str,
    hold_out: float,
    seed: int,
    missing: str | None,
    voice: Voice,
) -> LargeTable:
    from ocbnn.estimators.large import LargeTable

    if group is not None:
        raise InputError(f"--group holds out groups of a table in memory, and {table} is read in pieces.")
    if decimal != ".":
        raise InputError(f"--decimal is of a single CSV file, and {table} is a folder.")
    voice.say(f"Reading {table} once, to see what its columns hold.")
    read = LargeTable(table, target, tuple(ignore), hold_out, seed, missing)
    for path in read.files:
        if table_format(path) != ".parquet":
            _tell_separator(path, csv_header(path)[1], voice)
    if read.left_out:
        where = ", ".join(f"{name} ({count:,})" for name, count in read.incomplete.items())
        voice.say(
            f"{read.left_out:,} of {read.rows:,} rows have missing values and are left out. Missing in: "
            f"{where}. To keep them, fill the values first, or fit with --missing indicator.",
            "yellow",
        )
    return read


def _groups(frame: pd.DataFrame, group: str, target: str, schema: Schema | None) -> pd.Series:
    """The group of each row.

    Raises:
        InputError: the column is the target or an input of a learnt prior, or a row has no group.
    """
    if group == target or (schema is not None and group in schema.names):
        what = "the target" if group == target else "an input of the prior"
        raise InputError(
            f"--group {group}: the column is {what}, and a group is neither. Name another column."
        )
    absent = frame[group].isna()
    if absent.any():
        raise InputError(
            f"--group {group}: {int(absent.sum()):,} rows have no value there, the first is row "
            f"{absent.idxmax()}, counted from 0. Give every row its group, or leave such rows out."
        )
    return frame[group]


def read_unseen(table: Path, schema: Schema, voice: Voice, decimal: str = ".") -> pd.DataFrame:
    """Complete rows of a table with all columns of a model and its target."""
    frame = read_table(table, voice, decimal)
    assert schema.target is not None
    require_columns(frame, [*schema.names, schema.target.name], table)
    return complete_rows(frame, [*needed_columns(schema), schema.target.name], voice)


def needed_columns(schema: Schema) -> list[str]:
    """The input columns in which every row needs a value: those without an indicator of missing ones."""
    return [column.name for column in schema.columns if not column.indicator]


def require_columns(frame: pd.DataFrame, names: Iterable[str], path: Path) -> None:
    """Refuse a table without one of these columns, or without any row."""
    from ocbnn.schema.reading import did_you_mean, listed

    known = list(frame.columns)
    for name in names:
        if name not in known:
            raise InputError(
                f"{path} has no column {name!r}; there are {listed(known)}.{did_you_mean(name, known)}"
            )
    if not len(frame):
        raise InputError(f"{path} has no rows.")


def complete_rows(frame: pd.DataFrame, names: Sequence[str], voice: Voice) -> pd.DataFrame:
    """The rows with a value in each of these columns; says how many are left out, and for which columns.

    Raises:
        InputError: no row is complete.
    """
    absent = frame[list(names)].isna()
    incomplete = absent.any(axis=1)
    count = int(incomplete.sum())
    if not count:
        return frame
    by_column = absent.sum().sort_values(ascending=False)
    where = ", ".join(f"{name} ({number})" for name, number in by_column.items() if number)
    if count == len(frame):
        raise InputError(
            f"Every row has a missing value: {where}. Fill them, or leave such a column out with --ignore."
        )
    rows = [str(row) for row in frame.index[incomplete][:SHOWN_ROWS]]
    shown = ", ".join(rows) + (", …" if count > SHOWN_ROWS else "")
    voice.say(
        f"{count:,} of {len(frame):,} rows have missing values and are left out: rows {shown}, counted from "
        f"0. Missing in: {where}. To keep them, fill the values first, or fit with --missing indicator.",
        "yellow",
    )
    return frame[~incomplete]


def _inferred(frame: pd.DataFrame, target: str, table: Path, **options: Any) -> Schema:
    from ocbnn.schema import Schema

    for name in frame.columns:
        if re.fullmatch(r"Unnamed: \d+", name):
            raise InputError(
                f"{table} has a column {name!r}, a name that pandas gives to a column without one. Are "
                f"these row numbers? Leave them out with --ignore '{name}', or rename the column."
            )
    try:
        return Schema.infer(frame, target=target, **options)
    except SchemaError as error:
        text = str(error)
        if "columns=" in text or "drop" in text.lower():
            text += " (Here, --ignore COLUMN leaves a column out, and --columns FILE declares what it is.)"
        raise InputError(f"{table}: {text}") from error


def _require_fitting(schema: Schema, target: str, task: str | None, columns: Path | None) -> None:
    """Refuse what a user says besides a learnt prior, where it does not fit it."""
    known = schema.target
    assert known is not None
    if columns is not None:
        raise InputError("--columns: the prior brings its columns; declare them when it is learnt.")
    if target != known.name:
        raise InputError(f"The prior was learnt for the target {known.name!r}, not for {target!r}.")
    if task is not None and task != known.task:
        raise InputError(f"The prior was learnt for {known.task}, not for {task!r}.")


def read_columns(path: Path) -> dict[str, dict[str, Any]]:
    """What a YAML file declares about columns: a mapping of names to options.

    Raises:
        OCBNNError: a file that cannot be read, or holds something else.
    """
    from ocbnn.storage.documents import read_yaml, yaml_value

    node = read_yaml(path)
    found = None if node is None else yaml_value(node)
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise InputError(
            f"{path} does not declare columns; write one line for each: "
            "`age: {unit: years, bounds: [18, 120]}`."
        )
    return found


# From results to a file -------------------------------------------------------------------------------------


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """The table in the format of its name."""
    from ocbnn.storage.files import write_whole

    kind = require_format(path)

    def write(part: Path) -> None:
        if kind == ".parquet":
            frame.to_parquet(part, index=False)
        else:
            frame.to_csv(part, index=False, compression="gzip" if kind == ".csv.gz" else None)

    try:
        write_whole(path, write)
    except ImportError:
        raise needs_pyarrow(f"Writing {path}") from None


def require_writable(path: Path, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse, before any work is done, a place where nothing can be written, or where an input is."""
    for each in inputs:
        if each is not None and is_within(each, path):
            raise InputError(
                f"{each} is an input, and {path} would be written over it. Give --out a place of its own."
            )
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise InputError(f"{path} cannot be written: {parent} is not a folder.")
    if not os.access(parent, os.W_OK):
        raise InputError(f"{path} cannot be written: there is no permission to write in {parent}.")


def is_within(path: Path, folder: Path) -> bool:
    """Whether a path is a folder, or somewhere in it."""
    return _real(path) == _real(folder) or _real(folder) in _real(path).parents


def _real(path: Path) -> Path:
    """The path without symbolic links; one in a loop stays as it is."""
    return Path(os.path.realpath(path))


def require_folder(path: Path, kind: str, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse, before any work, a folder that cannot be written, or holds anything but an earlier one."""
    from ocbnn.storage.folders import require_replaceable

    require_writable(path, inputs)
    require_replaceable(path, kind)


def shown_name(path: Path) -> str:
    """The name of a file as text: systems allow names that are not UTF-8, and reports do not."""
    return os.fsencode(path.name).decode(errors="replace")
