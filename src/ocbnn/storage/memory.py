"""How much memory is free: what is read from a file must not take more."""

from __future__ import annotations

import os
from pathlib import Path

MEMORY = Path("/proc/meminfo")
CONTAINER = Path("/sys/fs/cgroup")
UNKNOWN = 32 * 2**30
"""Bytes, where the system does not say."""


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
