"""Damage that disks, networks and people do to files."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np


def corrupted(generator: np.random.Generator, whole: bytes) -> bytes:
    """One bit turned, the end cut off, bytes put in, or bytes overwritten."""
    content = bytearray(whole)
    place = int(generator.integers(len(content)))
    match generator.integers(4):
        case 0:
            content[place] ^= 1 << int(generator.integers(8))
        case 1:
            content = content[:place]
        case 2:
            content[place:place] = generator.bytes(int(generator.integers(1, 50)))
        case 3:
            length = min(int(generator.integers(1, 200)), len(content) - place)
            content[place : place + length] = generator.bytes(length)
    return bytes(content)


def corruptions(folder: Path, count: int, seed: int = 0) -> Iterator[None]:
    """The folder with one of its files corrupted, so many times, and whole again afterwards."""
    generator = np.random.default_rng(seed)
    files = sorted(folder.iterdir())
    for _ in range(count):
        file = files[generator.integers(len(files))]
        whole = file.read_bytes()
        file.write_bytes(corrupted(generator, whole))
        yield
        file.write_bytes(whole)
