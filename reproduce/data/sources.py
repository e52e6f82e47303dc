"""Where tables come from: a path that is given, the folder `$OCBNN_DATA`, or a download.

`$OCBNN_DATA` has one folder for each data set: `compas/`, `credit/`, `mimic3/` or `mimic3_demo/`, with the
files as they are published, packed (.gz) or not. A file is compared with its checksum whenever it is used.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import shutil
import tempfile
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import platformdirs

from ocbnn import FileError

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
        columns: which columns the checksum is of, in lower case; empty: of all bytes. For files that
            circulate with and without columns that nobody needs.
        remedy: what to do where it cannot be downloaded.
    """

    folder: str
    file: str
    url: str
    sha256: str
    columns: tuple[str, ...] = ()
    remedy: str = ""


def locate(source: Source, path: Anywhere | None = None) -> Path:
    """The file of a source on this machine, its checksum verified; downloaded if there is none.

    Args:
        source: what to look for.
        path: the file, or a folder that it is in; default: `$OCBNN_DATA`, then a download.

    Raises:
        FileError: the file is not where `path` says, cannot be downloaded, or is not the published one.
    """
    if path is not None:
        given = Path(path)
        found = given if given.is_file() else in_folder(given, source.file)
        found = found or in_folder(given / source.folder, source.file)
        if found is None:
            raise FileError(f"{given} is neither {source.file} nor a folder with it (.gz or not).")
        return verified(found, source)
    data = data_folder()
    found = None if data is None else in_folder(data / source.folder, source.file)
    return downloaded(source) if found is None else verified(found, source)


def data_folder() -> Path | None:
    """The folder `$OCBNN_DATA`; None where the variable is not set."""
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    if not Path(given).is_dir():
        raise FileError(f"The environment variable {VARIABLE} names {given}, which is not a folder.")
    return Path(given)


def in_folder(folder: Path, name: str) -> Path | None:
    """The file of this name in a folder, packed or not, in upper or lower case."""
    if not folder.is_dir():
        return None
    wanted = {name.lower(), f"{name.lower()}.gz"}
    found = [entry for entry in sorted(folder.iterdir()) if entry.name.lower() in wanted]
    files = [entry for entry in found if entry.is_file()]
    if found and not files:
        raise FileError(f"{found[0]} is a folder where a file should be. Put {name} itself there.")
    return files[0] if files else None


def verified(path: Path, source: Source) -> Path:
    """The path itself, where the file is the published one.

    Raises:
        FileError: it is another file, or only a part of it.
    """
    if flaw := _flaw(path, source):
        raise FileError(f"{path}: {flaw} {_by_hand(source)}")
    return path


def downloaded(source: Source, cache: Path | None = None) -> Path:
    """The file in the user's cache; fetched where it is not there, or not whole."""
    folder = (cache or platformdirs.user_cache_path("ocbnn")) / source.folder
    target = folder / f"{source.file}.gz"
    if target.is_file() and not _flaw(target, source):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            packed = Path(scratch) / target.name
            _fetch(source, packed)
            if flaw := _flaw(packed, source):
                raise FileError(f"{source.url}: {flaw} It was not kept. {_by_hand(source)}")
            packed.replace(target)  # whole or not at all
    except OSError as error:
        raise FileError(f"{target} cannot be written: {error.strerror or error}.") from None
    return target


def _fetch(source: Source, target: Path) -> None:
    """Download into a packed file; refused where fewer bytes came than were announced."""
    try:
        with urllib.request.urlopen(source.url, timeout=TIMEOUT) as answer, gzip.open(target, "wb") as file:
            shutil.copyfileobj(answer, file)
            announced, came = answer.headers.get("Content-Length"), file.tell()
    except (http.client.HTTPException, OSError) as error:
        raise FileError(f"{source.url} could not be downloaded ({error}). {_by_hand(source)}") from None
    if announced is not None and came < int(announced):
        raise FileError(
            f"{source.url}: the download ended after {came:,} of {int(announced):,} bytes, and was not kept. "
            f"Try again. {_by_hand(source)}"
        )


def _by_hand(source: Source) -> str:
    return (
        f"{source.remedy} Then pass its path, or put it into {source.folder}/ in a folder that the "
        f"environment variable {VARIABLE} names."
    ).strip()


def _flaw(path: Path, source: Source) -> str:
    """What is wrong with a file, in a sentence; empty where it is the published one."""
    try:
        found = digest(path, source.columns)
    except FileError as error:
        return str(error)
    if found == source.sha256:
        return ""
    return (
        f"This is not the file that was expected, or not all of it: its checksum is {found}, not "
        f"{source.sha256}."
    )


def digest(path: Path, columns: tuple[str, ...] = ()) -> str:
    """The sha256 of a file's unpacked bytes, or of some of its columns whatever the others are.

    Columns are compared by their values, not by how they are written: 1 and 1.0 are equal, quotes and the
    order of rows (they are sorted by the first column) do not matter.

    Raises:
        FileError: a file that is damaged, is not a table, or lacks these columns.
    """
    try:
        if columns:
            return _digest_of_columns(path, columns)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise FileError(
            f"{path.name} is not a table of text ({error}), so it is not the file that was expected."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path.name} is damaged or cannot be read ({error}).") from None


def _digest_of_columns(path: Path, columns: tuple[str, ...]) -> str:
    frame = read_columns(path, columns)
    ordered = frame.sort_values(columns[0], kind="stable")
    total = hashlib.sha256()
    for name in columns:
        values = ordered[name]
        if values.dtype.kind in "biuf":
            total.update(values.to_numpy("float64").tobytes())
        else:
            total.update("\n".join(values.astype("string").fillna("").str.strip()).encode())
    return total.hexdigest()


def read_columns(path: Path, columns: tuple[str, ...], **options: object) -> pd.DataFrame:
    """These columns of a CSV file, their names in lower case; `options` are those of `pandas.read_csv`."""
    frame = pd.read_csv(path, usecols=lambda name: name.lower() in columns, low_memory=False, **options)  # type: ignore[call-overload]
    frame.columns = [name.lower() for name in frame.columns]
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise FileError(f"{path.name} has no column {missing[0]!r}, so it is not the file that was expected.")
    return frame[list(columns)]
