"""Damage that disks, networks and people do to files, and what an attacker does, who makes checksums fit."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ocbnn.storage.files import checksum
from ocbnn.storage.folders import MANIFEST, sealed


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
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    for _ in range(count):
        file = files[generator.integers(len(files))]
        whole = file.read_bytes()
        file.write_bytes(corrupted(generator, whole))
        yield
        file.write_bytes(whole)


def forge(folder: Path, name: str, content: bytes | None = None) -> None:
    """Replace a file of a saved folder, if a content is given, and let the manifest fit it."""
    if content is not None:
        (folder / name).write_bytes(content)
    content = (folder / name).read_bytes()
    manifest = json.loads((folder / MANIFEST).read_text())["content"]
    manifest["files"][name] = {"bytes": len(content), "sha256": checksum(content)}
    (folder / MANIFEST).write_bytes(sealed(manifest))


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object], name: str = "model.json") -> None:
    """Change a JSON file of a saved folder, and let the manifest fit it."""
    content = json.loads((folder / name).read_text())
    change(content)
    forge(folder, name, json.dumps(content).encode())


def rewrite_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest, with a checksum that fits."""
    manifest = json.loads((folder / MANIFEST).read_text())["content"]
    change(manifest)
    (folder / MANIFEST).write_bytes(sealed(manifest))
