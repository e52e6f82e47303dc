"""What this machine can take: free memory, work that ends, and files that are small enough to read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ocbnn.errors import FileError, ResourceError

MEMORY = Path("/proc/meminfo")
CONTAINER = Path("/sys/fs/cgroup")
UNKNOWN = 32 * 2**30
"""Bytes, where the system does not say."""
BEYOND = 10**30
"""More than anything has: integers of any length are compared with it before they become floats."""
SMALL = 16 * 2**20
"""Bytes below which nobody looks whether they are free."""
OPERATIONS = 1e11
"""A second: more than two fast cores do, so that estimates of time are too short rather than too long."""
LONGEST = 7 * 86_400
"""Seconds: what would take longer than a week is a mistake of typing."""


def require_memory(needed: int | float, what: str, remedy: str) -> None:
    """Refuse what would take more memory than is free.

    Args:
        needed: bytes, an estimate from below.
        what: what takes them, such as "A network of 3,000 weights".
        remedy: a sentence.

    Raises:
        ResourceError: with the estimate, what is free, and the remedy.
    """
    needed = min(needed, BEYOND)
    if needed <= SMALL:
        return
    free = free_memory()
    if needed > free:
        raise ResourceError(f"{what} would take at least {_size(needed)}; {_size(free)} are free. {remedy}")


def require_work(operations: int | float, what: str, remedy: str) -> None:
    """Refuse what would take longer than a week on a fast machine.

    Args:
        operations: additions and multiplications, an estimate from below.
        what: what takes them.
        remedy: a sentence.

    Raises:
        ResourceError: with the estimate, the limit, and the remedy.
    """
    days = min(operations, BEYOND) / OPERATIONS / 86_400
    if days * 86_400 > LONGEST:
        raise ResourceError(
            f"{what} would take at least {days:,.0f} days; the limit is {LONGEST // 86_400} days. {remedy}"
        )


def read_small_file(path: str | os.PathLike[str], most: int) -> bytes:
    """The content of a plain file of at most `most` bytes; devices and pipes are not read.

    Raises:
        FileError: no such file, something else in its place, too many bytes, or the system refuses.
    """
    path = Path(path)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            require_plain(path, os.fstat(file.fileno()).st_mode)
            content = file.read(most + 1)
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise FileError(f"{path} is a folder; give a file.") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(content) > most:
        raise FileError(f"{path} is larger than {most:,} bytes, the limit for a file of this kind.")
    return content


def _without_waiting(path: str, flags: int) -> int:
    """Open a pipe that nobody writes to at once, to see that it is one."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def require_plain(path: Path, mode: int) -> None:
    """Refuse a folder, a device or a pipe where a file is expected; `mode` is the status of the path."""
    if stat.S_ISDIR(mode):
        raise FileError(f"{path} is a folder; give a file.")
    if not stat.S_ISREG(mode):
        raise FileError(f"{path} is a device or a pipe, which is not read; give a file.")


def decoded(content: bytes, path: str | os.PathLike[str]) -> str:
    """UTF-8 text, with or without a byte order mark.

    Raises:
        FileError: another encoding, or bytes that are not text; with the line.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileError(f"{path} is UTF-16 text. Save it as UTF-8.")
    if b"\0" in content:
        line = content[: content.index(b"\0")].count(b"\n") + 1
        raise FileError(f"{path} holds a NUL byte in line {line}, so it is not UTF-8 text. Save it as UTF-8.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileError(
            f"{path} is not UTF-8 text: line {line} holds the byte {content[error.start]:#x}. Is it Latin-1? "
            "Save it as UTF-8."
        ) from None


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:,.3g} {unit}" if count < 1000 else f"{count:,.0f} {unit}"
        count /= 1000
    raise AssertionError


def free_memory(memory: Path = MEMORY, container: Path = CONTAINER) -> int:
    """Bytes that this process can still take: of the machine, and of the container it runs in, if it does.

    On Linux caches that would make room count as free; elsewhere all the memory of the machine does.
    """
    return min(_of_machine(memory), _of_container(container))


def _of_machine(memory: Path) -> int:
    try:
        lines = dict(line.split(":", 1) for line in memory.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return UNKNOWN


def _of_container(container: Path) -> int:
    try:
        limit, used = (int((container / name).read_text()) for name in ("memory.max", "memory.current"))
        cached = dict(line.split() for line in (container / "memory.stat").read_text().splitlines())
        return max(limit - used + int(cached.get("file", 0)), 0)
    except (OSError, ValueError):  # no container, or "max": no limit
        return UNKNOWN
