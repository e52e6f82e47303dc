"""One file, written whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from ocbnn.errors import FileError


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a file beside `path` that then takes its place: there is never half a file.

    A device such as /dev/stdout or /dev/full is written to as it is.

    Raises:
        FileError: a folder is there, or the disk refuses.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise FileError(f"{path} is a folder; give the name of a file.")
        if path.exists() and not path.is_file():
            write(path)
            return
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
        try:
            write(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}.") from error


def write_text(path: Path, text: str) -> None:
    """The same for text, as UTF-8."""
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))
