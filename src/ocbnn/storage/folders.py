"""A folder with one manifest that lists every file in it, with size and checksum.

    model/manifest.json      format, version, kind, and `files`: bytes and SHA-256 by name
    model/…                  what the manifest lists, also in folders within

A folder is written whole or not at all: as a new folder beside the old one, which takes its place by
renaming. Between two renames the old one is called `.<name>.old`. If a crash leaves it so, readers find it
there, and the next writer puts it back first. Only an empty folder is replaced, or one that is still as its
own manifest says.

Readers see one version: a file that does not match the manifest is an error, unless the manifest has changed
in the meantime; then they begin again.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from ocbnn._version import __version__
from ocbnn.errors import FileError, InferenceError, OCBNNError
from ocbnn.storage.arrays import Arrays, Fits, parse_arrays, read_header
from ocbnn.storage.documents import json_bytes, parse_json
from ocbnn.storage.files import (
    alone,
    checksum,
    explained,
    opened,
    partial,
    read_file,
    retire,
    size_and_checksum,
    synchronise,
    write_through,
)
from ocbnn.storage.runs import RUN, RunFolder, chunk_name, identity, read_run
from ocbnn.storage.values import plain, restored

MANIFEST = "manifest.json"
FORMAT, VERSION = "ocbnn", 2
EARLIER = ("model.json", "prior.json")
"""What folders of version 1 had instead of a manifest."""
LARGEST_TEXT = 32 * 2**20
LARGEST_MANIFEST = 2**20
ATTEMPTS = 20
"""How often a reader begins again while others save."""
Result = TypeVar("Result")


class FileFacts(NamedTuple):
    """Size and checksum of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a folder is, and all that is in it."""

    format: str
    version: int
    kind: str
    written_by: str
    files: dict[str, FileFacts]

    def __post_init__(self) -> None:
        for name in self.files:
            parts = name.split("/")
            if Path(name).is_absolute() or not all(parts) or {".", ".."} & {*parts} or "\\" in name:
                raise FileError(f"{name!r:.80} is not a name of a file in this folder")


@dataclass(frozen=True)
class Folder:
    """One version of a folder, to be read.

    Attributes:
        path: where it is.
        manifest: what it holds.
        prefix: the folder within that names are relative to.
        contents: files by name, where they are not on the disk yet.
    """

    path: Path
    manifest: Manifest
    prefix: str = ""
    contents: Mapping[str, bytes] | None = None

    @classmethod
    def in_memory(cls, kind: str, files: Mapping[str, bytes]) -> Folder:
        """The folder that `write_folder` would write."""
        return cls(Path(), _manifest(kind, files), contents=files)

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self.manifest.files

    def within(self, name: str) -> Folder | None:
        """The folder of this name within, if there is one."""
        prefix = f"{self.prefix}{name}/"
        found = any(each.startswith(prefix) for each in self.manifest.files)
        return replace(self, prefix=prefix) if found else None

    def read(self, name: str, most: int = LARGEST_TEXT) -> bytes:
        """The content of a file, if it has the size and checksum it was written with.

        Raises:
            FileError: it is not listed, missing, larger than `most`, or damaged.
        """
        name = self.prefix + name
        facts = self.manifest.files.get(name)
        if facts is None:
            raise FileError(f"{MANIFEST} does not list {name}.")
        if facts.bytes > most:
            raise FileError(f"{name} has {facts.bytes:,} bytes, more than the limit of {most:,}.")
        with self._opened(name) as (stream, size):
            content = stream.read(facts.bytes + 1) if size == facts.bytes else b""
        if (len(content), checksum(content)) != facts:
            raise FileError(f"{name} is damaged: it is not what was written.")
        return content

    def json(self, name: str, most: int = LARGEST_TEXT) -> dict[str, Any]:
        """The fields of a JSON file."""
        fields = parse_json(self.read(name, most), self.prefix + name)
        if not isinstance(fields, dict):
            raise FileError(f"{self.prefix}{name} is damaged: it holds no fields.")
        return fields

    def arrays(self, name: str, fits: Fits, most: int) -> Arrays:
        """The arrays of a file, all of them finite; `fits` refuses shapes before they take memory."""
        with self._opened(self.prefix + name) as (stream, size):
            fits(read_header(stream, size, name)[0])
        arrays, _ = parse_arrays(self.read(name, most), name)
        for key, array in arrays.items():
            if not np.isfinite(array).all():
                raise FileError(f"{name} is damaged: the array {key!r} is not finite.")
        return arrays

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[tuple[BinaryIO, int]]:
        if self.contents is None:
            with opened(self.path / name, links=False) as found:
                yield found
        else:
            yield io.BytesIO(self.contents[name]), len(self.contents[name])


# Writing ----------------------------------------------------------------------------------------------------


def write_folder(path: str | os.PathLike[str], kind: str, files: Mapping[str, bytes]) -> Path:
    """Write the files and their manifest as the folder `path`, in place of an earlier one.

    Args:
        path: the folder.
        kind: what it holds: "model" or "prior".
        files: contents by name; `a/b` lies in a folder `a` within.

    Raises:
        FileError: something else is at `path`, or the disk refuses; what was there is then still whole.
    """
    target = resolved(path)
    manifest = plain(_manifest(kind, files))
    with explained(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        require_replaceable(target, kind)
        with partial(target, folder=True) as fresh:
            for name, content in {**files, MANIFEST: sealed(manifest)}.items():
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                write_through(fresh / name, content)
            for folder in {(fresh / name).parent for name in files} | {fresh}:
                synchronise(folder)
            with alone(target.parent):
                _settle(target)
                _require_replaceable(target, kind)
                _swap(target, fresh)
        synchronise(target.parent)
    return target


def _manifest(kind: str, files: Mapping[str, bytes]) -> Manifest:
    facts = {name: FileFacts(len(content), checksum(content)) for name, content in files.items()}
    return Manifest(FORMAT, VERSION, kind, f"ocbnn {__version__}", facts)


def sealed(manifest: Mapping[str, Any]) -> bytes:
    """A manifest with its own checksum."""
    return json_bytes({"checksum": checksum(json_bytes(manifest)), "content": manifest})


def require_replaceable(path: str | os.PathLike[str], kind: str) -> None:
    """Refuse a path at which there is anything but an empty folder, or one of this kind as it was written.

    Raises:
        FileError: with what would be lost.
    """
    target = resolved(path)
    if target.exists():
        with explained(target), alone(target.parent):
            _require_replaceable(target, kind)


def _require_replaceable(target: Path, kind: str) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise FileError(f"{target} is a file; a saved model is a folder. Give another path.")
    names = names_in(target)
    if not names:
        return
    if MANIFEST not in names:
        raise FileError(
            f"{target} holds {min(names)!r}, and no {MANIFEST} of ocbnn says that it may be replaced; it "
            "would be lost. Give a folder of its own."
        )
    manifest = read_manifest(target)
    if manifest.kind != kind:
        raise FileError(
            f"{target} holds a saved {manifest.kind}, not a {kind}; it would be lost. "
            "Give a folder of its own."
        )
    foreign = sorted(names - {*manifest.files, MANIFEST})
    if foreign:
        raise FileError(
            f"{target} holds {foreign[0]!r}, which is not of a saved model; it would be lost. "
            "Give a folder of its own."
        )
    changed = [name for name in sorted(names - {MANIFEST}) if not is_whole(target, manifest, name)]
    if changed:
        raise FileError(
            f"{changed[0]!r} in {target} is not as ocbnn wrote it: it was edited or is damaged, and would be "
            "lost. Move it away, or give another folder."
        )


def is_whole(folder: Path, manifest: Manifest, name: str) -> bool:
    """Whether a file has the size and checksum it was written with."""
    return size_and_checksum(folder / name) == manifest.files[name]


def names_in(folder: Path) -> set[str]:
    """All that is in a folder and the folders within, empty ones included."""
    names = set()
    for inner, folders, files in os.walk(folder):
        own = Path(inner).relative_to(folder)
        empty = [
            each for each in folders if Path(inner, each).is_symlink() or not any(Path(inner, each).iterdir())
        ]
        names |= {(own / each).as_posix() for each in (*files, *empty)}
    return names


def _settle(target: Path) -> None:
    """Undo or finish what a crash has left half done."""
    aside = _aside(target)
    if aside.is_dir():
        if target.exists():
            retire(aside, target)
        else:
            os.rename(aside, target)


def _swap(target: Path, fresh: Path) -> None:
    if not target.exists():
        os.rename(fresh, target)
        return
    aside = _aside(target)
    os.rename(target, aside)
    try:
        os.rename(fresh, target)
    except BaseException:
        os.rename(aside, target)
        raise
    retire(aside, target)


# Reading ----------------------------------------------------------------------------------------------------


def read_folder(path: str | os.PathLike[str], kind: str, read: Callable[[Folder], Result]) -> Result:
    """What `read` makes of one version of a folder, also while other processes save other versions.

    Args:
        path: the folder.
        kind: what it has to hold.
        read: is called with the folder, and again where another version took its place meanwhile.

    Raises:
        FileError: the folder is of another kind or version, or a file in it is damaged or missing.
    """
    target = resolved(path)
    for attempt in range(ATTEMPTS):
        written = _written(target)
        place, manifest = found(target)
        if manifest.kind != kind:
            raise FileError(f"{target} holds a saved {manifest.kind}; expected a {kind}.")
        try:
            return read(Folder(place, manifest))
        except FileError as error:
            if written is None or _written(target) != written:
                time.sleep(0.01 * attempt)
                continue
            raise FileError(f"{target} cannot be loaded: {error}") from None
    raise FileError(f"{target} is saved again and again while it is read. Try again later.")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, if it is whole and of this version."""
    file = folder / MANIFEST
    if not file.exists() and (folder.parent / MANIFEST).exists():
        raise FileError(f"{folder} is a part of {folder.parent}, and not a saved model by itself.")
    if not file.exists() and any((folder / name).exists() for name in EARLIER):
        raise FileError(
            f"{folder} was saved by an earlier version of ocbnn, whose folders had no {MANIFEST}. This "
            "version does not read it: fit again."
        )
    if not file.exists():
        raise FileError(f"{folder} is not a saved model, or not a whole one: {MANIFEST} is missing.")
    whole = parse_json(read_file(file, LARGEST_MANIFEST, links=False), str(file))
    inner = whole.get("content") if isinstance(whole, dict) else None
    if not isinstance(inner, dict) or inner.get("format") != FORMAT:
        raise FileError(f"{file} does not describe a folder saved by ocbnn, or is damaged.")
    version = inner.get("version")
    if isinstance(version, int) and version != VERSION:
        remedy = "Update ocbnn" if version > VERSION else "Fit again"
        raise FileError(
            f"{file} has the format version {version}, written by {inner.get('written_by')!s:.80}; this is "
            f"ocbnn {__version__}, which reads version {VERSION}. {remedy}."
        )
    if whole.get("checksum") != checksum(json_bytes(inner)):
        raise FileError(f"{file} is damaged: its content does not have its checksum.")
    return restored(Manifest, inner, str(file))


def found(target: Path) -> tuple[Path, Manifest]:
    """The folder, or what a crash or another process that is just replacing it has left beside it."""
    for place in (target, _aside(target)):
        if place.is_dir():
            with contextlib.suppress(FileError):
                return place, read_manifest(place)
    if not target.is_dir():
        what = "is not a folder" if target.exists() else "does not exist"
        raise FileError(f"{target} {what}; a saved model is a folder, as `save` writes it.")
    return target, read_manifest(target)


def _written(target: Path) -> tuple[Path, int, int, int] | None:
    """Where a folder is and when it was saved, also if its content is the same; None between two renames."""
    for place in (target, _aside(target)):
        with contextlib.suppress(OSError):
            status = os.stat(place / MANIFEST)
            return place, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
    return None


def listed_names(folder: Path) -> frozenset[str]:
    """The names of all files of a saved folder; none for any other folder."""
    with contextlib.suppress(FileError):
        return frozenset({MANIFEST, *read_manifest(folder).files})
    return frozenset()


def resolved(path: str | os.PathLike[str]) -> Path:
    """The absolute path of a folder, without a link at its end."""
    try:
        target = Path(path).expanduser().absolute()
        target = target.resolve() if target.is_symlink() else target
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise FileError(f"{path!r} is not a path of a folder: {error}.") from None
    if not target.name:
        raise FileError(f"{target} cannot be a saved model; give a folder of its own.")
    return target


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


# Verifying --------------------------------------------------------------------------------------------------


class Verification(NamedTuple):
    """Whether a folder is whole.

    Attributes:
        kind: what it holds.
        files: how many files were compared with their checksums.
        problems: what is missing or damaged, one sentence each; empty where the folder is whole.
        foreign: names of files that are no part of it.
    """

    kind: str
    files: int
    problems: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def verify(path: str | os.PathLike[str]) -> Verification:
    """Compare every file of a saved model, prior or run with the checksum it was written with.

    Raises:
        FileError: there is no folder.
    """
    target = resolved(path)
    runs = [each for each in (target, *sorted(target.glob("*"))) if os.path.lexists(each / RUN)]
    try:
        parts = [_verify_run(run) for run in runs] or [_verify_saved(target)]
    except OCBNNError as error:
        if not target.is_dir():
            raise
        return Verification("folder", 0, (str(error),))
    return Verification(
        parts[0].kind,
        sum(part.files for part in parts),
        tuple(problem for part in parts for problem in part.problems),
        tuple(name for part in parts for name in part.foreign),
    )


def _verify_saved(target: Path) -> Verification:
    place, manifest = found(target)
    problems = []
    for name in manifest.files:
        try:
            if not is_whole(place, manifest, name):
                problems.append(f"{name} is damaged: it is not what was written.")
        except FileError as error:
            problems.append(str(error))
    foreign = names_in(place) - {*manifest.files, MANIFEST}
    return Verification(manifest.kind, len(manifest.files), tuple(problems), tuple(sorted(foreign)))


def _verify_run(folder: Path) -> Verification:
    run = RunFolder(folder)
    run.run = identity(read_run(folder))
    parts = sorted(file.stem for file in folder.glob("*.safetensors"))
    problems = []
    for name in parts:
        try:
            run.load(name)
        except InferenceError as error:
            problems.append(str(error))
    chunks = [name for name in parts if name.startswith("chunk-")]
    missing = [name for number in range(len(chunks)) if (name := chunk_name(number)) not in chunks]
    problems += [f"{name}.safetensors is missing: the run goes on from there." for name in missing[:1]]
    known = {RUN, *(f"{name}.safetensors" for name in parts)}
    foreign = sorted(each.name for each in folder.iterdir() if each.name not in known)
    return Verification("run", len(parts) + 1, tuple(problems), tuple(foreign))
