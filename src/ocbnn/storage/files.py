"""One file: read with a limit on its size, written whole or not at all.

A file or folder is written under the name `.<name>.<token>.partial` beside its place, and takes that place by
renaming. The writer holds a lock on it. So the next writer of the same place can tell what a killed process
has left behind, and removes it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path

from ocbnn.errors import FileError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PATIENCE = 60.0
"""Seconds to wait while another process puts something into the same folder: that takes milliseconds."""


def checksum(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


# Reading ----------------------------------------------------------------------------------------------------


def read_file(path: Path, most: int, *, links: bool = True) -> bytes:
    """The content of a regular file of at most `most` bytes; nothing is read where there is more.

    Args:
        path: of the file.
        most: bytes.
        links: follow a symbolic link; False for files of a folder that a stranger may have made.

    Raises:
        FileError: no such file, a folder, pipe, device or link in its place, or too many bytes.
    """
    with opened(path, links=links) as (stream, size):
        if size > most:
            raise FileError(f"{path} has {size:,} bytes, more than the limit of {most:,}.")
        content = stream.read(most + 1)
    if len(content) > most:
        raise FileError(f"{path} grows while it is read; the limit is {most:,} bytes.")
    return content


def size_and_checksum(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a regular file, read block by block."""
    with opened(path, links=False) as (stream, _):
        digest = hashlib.file_digest(stream, "sha256")
        return stream.tell(), digest.hexdigest()


@contextlib.contextmanager
def opened(path: Path, *, links: bool) -> Iterator[tuple[BufferedReader, int]]:
    """A regular file and its size; pipes and devices are neither read nor waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise FileError(f"{path} is missing: there is no such file.") from None
    except (OSError, ValueError) as error:
        is_link = getattr(error, "errno", None) == errno.ELOOP
        reason = "it is a link" if is_link else getattr(error, "strerror", None) or error
        raise FileError(f"{path} cannot be read: {reason}.") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or a pipe, which is not read"
        raise FileError(f"{path} is {what}; give a file.")
    with os.fdopen(descriptor, "rb") as stream:
        try:
            yield stream, status.st_size
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror or error}.") from None


# Writing ----------------------------------------------------------------------------------------------------


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a file beside `path` that then takes its place: there is never half a file.

    A device such as /dev/stdout or /dev/full is written to as it is.

    Raises:
        FileError: a folder is there, or the disk refuses; what was there is then still whole.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise FileError(f"{path} is a folder; give the name of a file.")
        if path.exists() and not path.is_file():
            write(path)
            return
        with partial(path, folder=False) as part:
            write(part)
            part.replace(path)


def write_text(path: Path, text: str) -> None:
    """The same for text, as UTF-8."""
    write_whole(path, lambda part: part.write_bytes(text.encode()))


def write_bytes(path: Path, content: bytes) -> None:
    """The same for bytes, which also survive a power failure."""
    write_whole(path, lambda part: write_through(part, content))
    synchronise(path.parent)


def write_through(path: Path, content: bytes) -> None:
    """Write a file, and wait until the disk has it."""
    with open(path, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """What the disk refuses, as a sentence."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}.") from error


@contextlib.contextmanager
def partial(target: Path, *, folder: bool) -> Iterator[Path]:
    """A file or folder beside the target, to be renamed; removed where it still exists afterwards.

    What killed processes have left of earlier ones is removed first.
    """
    part = _part(target)
    with alone(target.parent) as certain:
        if certain:
            _sweep(target)
        if folder:
            part.mkdir()
        else:
            part.touch()
        lock = _lock(part)
    try:
        yield part
    finally:
        remove(part)
        if lock is not None:
            os.close(lock)


def discard(target: Path) -> None:
    """Remove a folder so that no part of it can be mistaken for the whole, wherever this is interrupted."""
    if target.exists():
        with explained(target), alone(target.parent) as certain:
            if certain:
                _sweep(target)
            retire(target, target)


def retire(path: Path, target: Path) -> None:
    """Remove a folder under the name of a part of `target`, so that the next writer can finish it."""
    part = _part(target)
    os.rename(path, part)
    remove(part)


def _part(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Hold a folder against other writers; False where the system has no locks.

    Raises:
        FileError: another process holds it for longer than it takes to write.
    """
    deadline = time.monotonic() + PATIENCE
    while (lock := _lock(folder)) == BUSY:
        if time.monotonic() > deadline:
            raise FileError(f"Another process is writing in {folder}, and does not end. Try again later.")
        time.sleep(0.01)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


BUSY = -1


def _lock(path: Path) -> int | None:
    """A lock, to be closed; `BUSY` where another process has it, None where the system has no locks."""
    if fcntl is None:
        return None  # type: ignore[unreachable]
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        return BUSY if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return descriptor


def _sweep(target: Path) -> None:
    """Remove what killed processes have left of the target."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{16}\.partial")
    for each in target.parent.iterdir():
        lock = _lock(each) if pattern.fullmatch(each.name) else None
        if lock is not None and lock != BUSY:
            remove(each)
            os.close(lock)


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there and the disk allows it."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def synchronise(folder: Path) -> None:
    """Make the names in a folder last, on systems that let folders be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
