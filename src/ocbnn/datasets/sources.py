"""Where tables come from: a path that is given, the folder `$OCBNN_DATA`, or a download with a checksum.

No data file is part of the package. `$OCBNN_DATA` has one folder for each data set: `compas/`, `credit/`,
`mimic3/` or `mimic3_demo/`, with the files as they are published, packed (.gz) or not.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import platformdirs

from ocbnn.errors import FileError

VARIABLE = "OCBNN_DATA"
TIMEOUT = 60.0
Anywhere = str | os.PathLike[str]


@dataclass(frozen=True)
class Source:
    """One published file.

    Attributes:
        folder: its folder's name in `$OCBNN_DATA`.
        file: its name, unpacked; upper or lower case.
        url: where it is published.
        sha256: what `digest` gives for it.
        columns: which columns the checksum is of, in the order of the first of them; of all bytes if empty.
            For files that circulate with and without columns that nobody needs.
        remedy: what to do where it cannot be downloaded.
    """

    folder: str
    file: str
    url: str
    sha256: str
    columns: tuple[str, ...] = ()
    remedy: str = ""


def locate(source: Source, path: Anywhere | None = None) -> Path:
    """The file of a source on this machine, downloaded if need be.

    Args:
        source: what to look for.
        path: the file, or a folder that it is in; `$OCBNN_DATA`, then a download, unless given.

    Raises:
        FileError: it is not where `path` says, or it cannot be downloaded, or is another file than expected.
    """
    if path is not None:
        given = Path(path)
        found = given if given.is_file() else in_folder(given, source.file) or in_data(given, source)
        if found is None:
            raise FileError(f"{given} is neither {source.file} nor a folder with it (.gz or not).")
        return found
    found = in_data(data_folder(), source)
    return found if found is not None else downloaded(source)


def data_folder() -> Path | None:
    """The folder `$OCBNN_DATA`, where it is set and exists."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given and Path(given).is_dir() else None


def in_data(folder: Path | None, source: Source) -> Path | None:
    """The file in a folder that is laid out as `$OCBNN_DATA` is."""
    return None if folder is None else in_folder(folder / source.folder, source.file)


def in_folder(folder: Path, name: str) -> Path | None:
    """The file of this name in a folder, packed or not, in any case."""
    if not folder.is_dir():
        return None
    wanted = {name.lower(), f"{name.lower()}.gz"}
    return next((entry for entry in sorted(folder.iterdir()) if entry.name.lower() in wanted), None)


def downloaded(source: Source, cache: Path | None = None) -> Path:
    """The file in the user's cache, fetched and verified if it is not there yet."""
    folder = (cache or platformdirs.user_cache_path("ocbnn")) / source.folder
    target = folder / f"{source.file}.gz"
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fetched = Path(scratch) / source.file
        _fetch(source, fetched)
        try:
            found = digest(fetched, source.columns)
        except FileError as error:
            raise FileError(f"{source.url}: {error} It was not kept. {_by_hand(source)}") from None
        if found != source.sha256:
            raise FileError(
                f"{source.url} is not the file that was expected (its checksum is {found}, not "
                f"{source.sha256}), so it was not kept. {_by_hand(source)}"
            )
        packed = Path(scratch) / target.name
        with fetched.open("rb") as plain, gzip.open(packed, "wb") as compressed:
            shutil.copyfileobj(plain, compressed)
        packed.replace(target)  # whole or not at all
    return target


def _fetch(source: Source, target: Path) -> None:
    try:
        with urllib.request.urlopen(source.url, timeout=TIMEOUT) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (urllib.error.URLError, OSError) as error:
        raise FileError(f"{source.url} could not be downloaded ({error}). {_by_hand(source)}") from None


def _by_hand(source: Source) -> str:
    return (
        f"{source.remedy} Then pass its path, or put it into {source.folder}/ in a folder that the "
        f"environment variable {VARIABLE} names."
    ).strip()


def digest(path: Path, columns: tuple[str, ...] = ()) -> str:
    """The sha256 of a file's unpacked bytes, or of some of its columns whatever the others are.

    Columns are compared by their values, not by how they are written: 1 and 1.0 are equal, quotes and the
    order of rows (they are sorted by the first column) do not matter.

    Raises:
        FileError: a file that is no table, or has not these columns.
    """
    if columns:
        return _digest_of_columns(path, columns)
    total = hashlib.sha256()
    with _opener(path)(path, "rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def _digest_of_columns(path: Path, columns: tuple[str, ...]) -> str:
    try:
        frame = pd.read_csv(path, usecols=lambda name: name.lower() in columns, low_memory=False)
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise FileError(
            f"{path.name} is no table of text ({error}), so it is not the file that was expected."
        ) from None
    frame.columns = [name.lower() for name in frame.columns]
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise FileError(f"{path.name} has no column {missing[0]!r}, so it is not the file that was expected.")
    ordered = frame[list(columns)].sort_values(columns[0], kind="stable")
    total = hashlib.sha256()
    for name in columns:
        values = ordered[name]
        if values.dtype.kind in "biuf":
            total.update(values.to_numpy("float64").tobytes())
        else:
            total.update("\n".join(values.astype("string").fillna("").str.strip()).encode())
    return total.hexdigest()


def _opener(path: Path) -> Callable:
    return gzip.open if path.suffix == ".gz" else open
