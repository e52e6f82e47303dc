"""What this machine can take: free memory and disk, and work that ends."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ocbnn.errors import ResourceError

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


def require_disk(place: Path, needed: int | float, what: str, remedy: str) -> None:
    """Refuse what would take more of a disk than is free.

    Args:
        place: a folder on the disk.
        needed: bytes, an estimate from below.
        what: what takes them.
        remedy: a sentence.

    Raises:
        ResourceError: with the estimate, what is free, and the remedy.
    """
    free = shutil.disk_usage(place).free
    if needed > free:
        raise ResourceError(
            f"{what} would take at least {_size(needed)} in {place}; {_size(free)} are free. {remedy}"
        )


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
