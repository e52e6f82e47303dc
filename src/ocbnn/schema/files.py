"""Files that hold a table: found in folders, compared, and read in pieces by pyarrow."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ocbnn.errors import SchemaError

FORMATS = (".csv", ".csv.gz", ".parquet")
BLOCK = 65_536
"""Rows that are held at once."""
CSV_BYTES = 8 * 2**20
"""Of a CSV file that are read at once."""
UNREADABLE = (OSError, EOFError, ValueError, zlib.error)  # pandas' and pyarrow's own are ValueErrors
NEEDED = "Reading {path} in pieces needs pyarrow: pip install 'ocbnn[parquet]'."


def table_format(path: Path) -> str:
    """The ending of a file that holds a table, or nothing."""
    return next((ending for ending in FORMATS if path.name.lower().endswith(ending)), "")


def table_files(folder: Path) -> list[Path]:
    """The tables in a folder and the folders within, sorted; names with _ or . in front are not among them.

    Raises:
        SchemaError: the folder has no such file, or does not exist.
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
    return sorted(found)


def require_alike(files: Sequence[Path]) -> dict[str, Any]:
    """The types of the columns of the first file; the others must have these columns, with such types.

    Raises:
        SchemaError: a file that cannot be read, lacks a column, or has one of another type, with its name.
    """
    first: dict[str, Any] = {}
    for path in files:
        found = column_types(path)
        first = first or found
        for name, kind in first.items():
            if name not in found:
                raise SchemaError(f"{path} has no column {name!r}, which {files[0]} has.")
            if family(found[name]) != family(kind):
                raise SchemaError(
                    f"The column {name!r} of {path} holds {found[name]}, and that of {files[0]} {kind}. "
                    "Write all files of a folder with the same types."
                )
    return first


def column_types(path: Path) -> dict[str, Any]:
    """The Arrow types of the columns of a file; of a CSV file, those of its beginning.

    Raises:
        SchemaError: it cannot be read, or pyarrow is missing.
    """
    try:
        import pyarrow.parquet as parquet

        if table_format(path) == ".parquet":
            schema = parquet.read_schema(path)
        else:
            with open_csv(path) as reader:
                schema = reader.schema
    except ImportError:
        raise SchemaError(NEEDED.format(path=path)) from None
    except UNREADABLE as error:
        raise unreadable(path, error) from None
    return {each.name: each.type for each in schema}


def family(kind: Any) -> str:
    """Numbers of any width are alike, and so are texts, plain or in a dictionary."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return family(kind.value_type)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return "number"
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return "text" if is_text else str(kind)


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
        convert_options=csv.ConvertOptions(column_types=known, strings_can_be_null=True),
    )


def blocks_of(path: Path, names: Sequence[str], types: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """The batches of a file, each with the number of its row group."""
    import pyarrow.parquet as parquet

    try:
        if table_format(path) != ".parquet":
            with open_csv(path, types) as reader:
                for batch in reader:
                    yield 0, batch.select(list(names))
            return
        with parquet.ParquetFile(path) as file:
            for index in range(file.num_row_groups):
                for batch in file.iter_batches(BLOCK, row_groups=[index], columns=list(names)):
                    yield index, batch
    except SchemaError:
        raise
    except UNREADABLE as error:
        raise unreadable(path, error) from None


def largest_group(path: Path) -> int:
    import pyarrow.parquet as parquet

    found = parquet.read_metadata(path)
    return max((found.row_group(index).num_rows for index in range(found.num_row_groups)), default=0)


def unreadable(path: Path, error: Exception) -> SchemaError:
    return SchemaError(f"{path} cannot be read: {str(error).strip().rstrip('.')}.")
