"""Files that hold a table: found in folders, their columns compared, and read in pieces by pyarrow."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ocbnn.errors import OCBNNError, SchemaError
from ocbnn.schema.reading import did_you_mean, listed
from ocbnn.storage.documents import decoded
from ocbnn.storage.files import opened

FORMATS = (".csv", ".csv.gz", ".parquet")
BLOCK = 65_536
"""Rows that are held at once."""
CSV_BYTES = 8 * 2**20
"""Of a CSV file that are read at once."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars (|)"}
LOOKED_AT = 100
"""Rows that decide on the separator, where the header leaves several."""
LARGEST_HEADER = 2**20
"""Bytes at the beginning of a CSV file that are looked at for its header."""
UNREADABLE = (OSError, EOFError, ValueError, zlib.error)  # pandas' and pyarrow's own are ValueErrors
INDEX = re.compile(r"__index_level_\d+__")
"""The name that pandas gives in Parquet files to row labels without one."""


def table_format(path: Path) -> str:
    """The ending of a file that holds a table, or nothing."""
    return next((ending for ending in FORMATS if path.name.lower().endswith(ending)), "")


def require_format(path: Path) -> str:
    """The same of a file that must hold a table.

    Raises:
        SchemaError: its name has another ending.
    """
    found = table_format(path)
    if not found:
        raise SchemaError(
            f"{path} is not a table that ocbnn reads or writes; give a .csv, .csv.gz or .parquet file."
        )
    return found


def table_files(folder: Path) -> list[Path]:
    """The tables in a folder and the folders within, sorted; names with _ or . in front are not among them.

    Raises:
        OCBNNError: the folder has no such file, or does not exist, or one is a pipe or device.
    """
    if not folder.is_dir():
        raise SchemaError(f"{folder} is no folder and no file.")
    found = []
    for inner, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "._"]
        found += [Path(inner, name) for name in files if name[0] not in "._" and table_format(Path(name))]
    if not found:
        raise SchemaError(
            f"{folder} is a folder that holds no table; give a table, or a folder of {', '.join(FORMATS)} "
            "files."
        )
    for path in found:
        with opened(path, links=True):  # one that would make readers wait is refused
            pass
    return sorted(found)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """What stops the reading of a table, as a sentence.

    Raises:
        SchemaError: the file is damaged, or pyarrow is missing.
    """
    try:
        yield
    except OCBNNError:
        raise
    except ImportError:
        raise needs_pyarrow(f"Reading {path}") from None
    except UNREADABLE as error:
        raise SchemaError(f"{path} cannot be read: {str(error).strip().rstrip('.')}.") from None


def needs_pyarrow(what: str) -> SchemaError:
    """The error where pyarrow is missing."""
    return SchemaError(f"{what} needs pyarrow: pip install 'ocbnn[parquet]'.")


# Headers ----------------------------------------------------------------------------------------------------


def csv_header(path: Path) -> tuple[list[str], str]:
    """The names in the header of a CSV file, and what separates them; only the beginning is read.

    Raises:
        SchemaError: it has none, or one that cannot be used.
    """
    with reading(path), gzip.open(path) if table_format(path) == ".csv.gz" else open(path, "rb") as file:
        content = file.read(LARGEST_HEADER)
    whole = content[: content.rfind(b"\n") + 1] or content
    require_content(whole, path)
    separator = separator_of(whole)
    names: list[str] = next(csv_records(whole, separator))
    require_names(names, path)
    return names, separator


def require_content(content: bytes, path: Path) -> None:
    """Refuse a CSV file that is empty, or is not UTF-8."""
    if not decoded(content, path).strip():
        raise SchemaError(f"{path} cannot be read: it is empty. Its first line names the columns.")


def csv_records(content: bytes, separator: str) -> Any:
    """The lines of a CSV file as lists of texts."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    return csv.reader(text, delimiter=separator, strict=True)


def separator_of(content: bytes) -> str:
    """The separator of the header; where there may be several, one that suits the rows below it."""

    def widths(separator: str) -> list[int]:
        try:
            return [len(record) for record in islice(csv_records(content, separator), LOOKED_AT)]
        except csv.Error:
            return [0]

    found = {separator: widths(separator) for separator in SEPARATORS}
    several = [separator for separator, each in found.items() if each[0] > 1]
    fitting = [separator for separator in several if len(set(found[separator]) - {0}) == 1]
    return max(fitting or several, key=lambda separator: found[separator][0], default=",")


def require_names(names: Sequence[Any], path: Path) -> None:
    """Refuse columns without a name, or two of one name."""
    if not names:
        raise SchemaError(f"The first line of {path} is blank; it names the columns.")
    repeated = Counter(names)
    for place, name in enumerate(names, start=1):
        if not isinstance(name, str) or not name.strip():
            raise SchemaError(
                f"Column {place} of {path} has no name. Name it, or leave it out; row numbers that pandas "
                "wrote are left out with `to_csv(…, index=False)`."
            )
        if repeated[name] > 1:
            raise SchemaError(f"{path} has several columns named {name!r}; keep one, or rename them.")


# Columns ----------------------------------------------------------------------------------------------------


def stored_types(path: Path) -> dict[str, Any]:
    """The columns of a file with their Arrow types; None in a CSV file, which does not say them."""
    if table_format(path) != ".parquet":
        return dict.fromkeys(csv_header(path)[0])
    with reading(path):
        import pyarrow.parquet as parquet

        schema = parquet.read_schema(path)
    require_names(schema.names, path)
    return {each.name: each.type for each in schema if not INDEX.fullmatch(each.name)}


def shown_types(path: Path) -> dict[str, Any]:
    """The same; of a CSV file the types that its beginning shows."""
    found = stored_types(path)
    if table_format(path) == ".parquet":
        return found
    with reading(path), open_csv(path) as reader:
        if reader.schema.names != list(found):
            raise ValueError(f"its header names {listed(list(found))}, and pyarrow reads another")
        return dict(zip(found, reader.schema.types, strict=True))


def require_alike(
    files: Sequence[Path],
    types_of: Callable[[Path], Mapping[str, Any]],
    names: Sequence[str] | None = None,
    exact: Collection[str] = (),
) -> dict[str, Any]:
    """The types of columns that all files must have, as the first file says them.

    Args:
        files: to compare.
        types_of: gives the types of a file.
        names: of the columns; default: those of the first file.
        exact: columns whose types must be the same; those of others must be of one family.

    Raises:
        SchemaError: a file that cannot be read, lacks a column, or has one of another type, with its name.
    """
    known: dict[str, tuple[Any, Path]] = {}
    for path in files:
        found = types_of(path)
        names = list(found) if names is None else names
        for name in names:
            if name not in found:
                raise SchemaError(
                    f"{path} has no column {name!r}; there are {listed(list(found))}."
                    f"{did_you_mean(name, found)}"
                )
            kind = found[name]
            if kind is None:
                continue
            first, where = known.setdefault(name, (kind, path))
            if family(first) != family(kind) or (name in exact and first != kind):
                raise SchemaError(
                    f"The column {name!r} of {path} holds {kind}, and that of {where} {first}. "
                    "Write all files of a folder with the same types."
                )
    return {name: kind for name, (kind, _) in known.items()}


def family(kind: Any) -> str:
    """Numbers of any width are alike, and so are texts, plain or in a dictionary."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return family(kind.value_type)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return "number"
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return "text" if is_text else str(kind)


# In pieces --------------------------------------------------------------------------------------------------


def open_csv(path: Path, types: Mapping[str, Any] | None = None) -> Any:
    """A CSV file as a stream of batches, whose whole numbers are numbers like others."""
    import pyarrow as arrow
    from pyarrow import csv

    known = {
        name: arrow.float64() if family(kind) == "number" else kind for name, kind in (types or {}).items()
    }
    return csv.open_csv(
        gzip.open(path) if table_format(path) == ".csv.gz" else str(path),
        read_options=csv.ReadOptions(block_size=CSV_BYTES),
        parse_options=csv.ParseOptions(delimiter=csv_header(path)[1]),
        convert_options=csv.ConvertOptions(column_types=known, strings_can_be_null=True),
    )


def blocks_of(path: Path, names: Sequence[str], types: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """The batches of a file, each with the number of its row group."""
    with reading(path):
        if table_format(path) != ".parquet":
            with open_csv(path, types) as reader:
                for batch in reader:
                    yield 0, batch.select(list(names))
            return
        import pyarrow.parquet as parquet

        with parquet.ParquetFile(path) as file:
            for index in range(file.num_row_groups):
                for batch in file.iter_batches(BLOCK, row_groups=[index], columns=list(names)):
                    yield index, batch


def largest_group(path: Path) -> int:
    """The number of rows in the largest row group of a Parquet file."""
    import pyarrow.parquet as parquet

    found = parquet.read_metadata(path)
    return max((found.row_group(index).num_rows for index in range(found.num_row_groups)), default=0)
