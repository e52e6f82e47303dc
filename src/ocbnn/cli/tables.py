"""Tables: read from CSV (plain or gzipped) and Parquet, written whole or not at all."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ocbnn.cli.failures import InputError

if TYPE_CHECKING:
    import pandas as pd

    from ocbnn.cli.voice import Voice

FORMATS = (".csv", ".csv.gz", ".parquet")
UNREADABLE = (OSError, EOFError, ValueError, zlib.error)  # pandas' and pyarrow's own are ValueErrors
SHOWN_ROWS = 5


def read_table(path: Path) -> pd.DataFrame:
    """A CSV (plain or gzipped) or Parquet file.

    Raises:
        InputError: no such file, another format, contents that are not what the name says, or a header that
            names a column twice or not at all.
    """
    import pandas as pd

    kind = table_format(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the file with the table in it.")
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        if kind == ".parquet":
            return _numbered(pd.read_parquet(path))
        header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False)
        frame = pd.read_csv(path)
    except ImportError:
        raise InputError(f"Reading {path} needs pyarrow: pip install pyarrow. Or save it as CSV.") from None
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read: {str(error).strip().rstrip('.')}.") from error
    _check_header([str(name) for name in header.iloc[0]], path)
    return frame


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows numbered from 0, as those of a CSV are; an index with a name is a column of the file."""
    unnamed = all(name is None for name in frame.index.names)
    return frame.reset_index(drop=unnamed)


def table_format(path: Path) -> str:
    """The ending of a file that holds a table."""
    for ending in FORMATS:
        if path.name.lower().endswith(ending):
            return ending
    raise InputError(f"{path} is not a table this command reads; give a .csv, .csv.gz or .parquet file.")


def _check_header(names: Sequence[str], path: Path) -> None:
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if "" in names:
        place = names.index("") + 1
        raise InputError(
            f"Column {place} of {path} has no name. Name it, or leave it out; row numbers that pandas wrote "
            "are left out with `to_csv(…, index=False)`."
        )
    if repeated:
        raise InputError(f"{path} has several columns named {repeated[0]!r}; keep one, or rename them.")
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        mark = next(mark for mark in ";\t|" if mark in names[0])
        raise InputError(
            f"{path} has one column, called {names[0][:60]!r}: its values seem to be separated by {mark!r}. "
            "Save it with commas between values and a point in decimals."
        )


def require_columns(frame: pd.DataFrame, names: Sequence[str], path: Path) -> None:
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
        f"0. Missing in: {where}. To keep them, fill the values first.",
        "yellow",
    )
    return frame[~incomplete]


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """The table in the format of its name."""
    from ocbnn.storage.files import write_whole

    kind = table_format(path)

    def write(part: Path) -> None:
        if kind == ".parquet":
            frame.to_parquet(part, index=False)
        else:
            frame.to_csv(part, index=False, compression="gzip" if kind == ".csv.gz" else None)

    try:
        write_whole(path, write)
    except ImportError:
        raise InputError(f"Writing {path} needs pyarrow: pip install pyarrow. Or write a .csv.") from None


def require_writable(path: Path, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse, before any work is done, a place where nothing can be written, or where an input is."""
    place = path.resolve()
    for each in inputs:
        if each is not None and (each.resolve() == place or place in each.resolve().parents):
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


def require_folder(path: Path, kind: str, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse, before any work, a folder that cannot be written, or holds anything but an earlier one."""
    from ocbnn.storage.folders import require_replaceable

    require_writable(path, inputs)
    require_replaceable(path, kind)


def shown_name(path: Path) -> str:
    """The name of a file as text: systems allow names that are not UTF-8, and reports do not."""
    return os.fsencode(path.name).decode(errors="replace")
