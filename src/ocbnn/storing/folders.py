"""A folder of a few files that is written whole or not at all, and read with distrust.

Writing goes to a new folder beside the old one, which takes its place by renaming. Between the two renames
the old one is called `.<name>.old`; if a crash leaves it so, reading finds it there and the next writing
puts it back first.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from ocbnn.errors import FileError


def checksum(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write_folder(
    path: str | os.PathLike[str], files: Mapping[str, bytes], *, replaces: Collection[str] = ()
) -> Path:
    """Write the files as the folder `path`, in place of an earlier folder of the same files.

    Args:
        path: the folder.
        files: contents by name; `a/b` lies in a folder `a` within.
        replaces: further names that an earlier folder may hold, and that go with it.

    Raises:
        FileError: something else is at `path`, or the disk refuses; what was there is then still whole.
    """
    target = _resolved(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _settle(target)
        require_own_folder(target, (*files, *replaces))
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
        try:
            os.chmod(fresh, 0o777 & ~_umask())
            for name, content in files.items():
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                _write(fresh / name, content)
            for folder in {(fresh / name).parent for name in files}:
                _synchronise(folder)
            _replace(target, fresh)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        _synchronise(target.parent)
    except OSError as error:
        raise FileError(f"{target} cannot be written: {error.strerror or error}.") from error
    shutil.rmtree(_aside(target), ignore_errors=True)
    return target


def require_own_folder(path: str | os.PathLike[str], names: Collection[str]) -> None:
    """Refuse a path at which there is something other than a folder of nothing but these names.

    Raises:
        FileError: with what is in the way.
    """
    target = _resolved(path)
    if not target.exists():
        return
    if not target.is_dir():
        raise FileError(f"{target} is a file; a saved model is a folder. Give another path.")
    known = {Path(name).parts[0] for name in names}
    foreign = sorted(each.name for each in target.iterdir() if each.name not in known)
    if foreign:
        raise FileError(
            f"{target} holds {foreign[0]!r}, which is not of a saved model; it would be lost. "
            "Give a folder of its own."
        )


def existing_folder(path: str | os.PathLike[str]) -> Path:
    """The folder to read: `path`, or what a crash while it was replaced has left beside it."""
    target = _resolved(path)
    if not target.exists() and _aside(target).is_dir():
        return _aside(target)
    if not target.is_dir():
        what = "is no folder" if target.exists() else "does not exist"
        raise FileError(f"{target} {what}; a saved model is a folder, as `save` writes it.")
    return target


def read_file(folder: Path, name: str, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes; nothing is read where there is more.

    Raises:
        FileError: no such file, a link, pipe or device in its place, or too many bytes.
    """
    file = folder / name
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(file, flags)
    except FileNotFoundError:
        raise FileError(f"{folder} is not a saved model, or not a whole one: {name} is missing.") from None
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror or error}.") from None
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"{file} is not a plain file, so it is not read.")
        if status.st_size > most:
            raise FileError(
                f"{file} has {status.st_size:,} bytes, more than the {most:,} it can rightly have; "
                "it is damaged, or not what it says."
            )
        try:
            content = stream.read(most + 1)
        except OSError as error:
            raise FileError(f"{file} cannot be read: {error.strerror or error}.") from None
    if len(content) > most:
        raise FileError(f"{file} grows while it is read; it is not a saved model at rest.")
    return content


def _resolved(path: str | os.PathLike[str]) -> Path:
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


def _settle(target: Path) -> None:
    """Undo or finish what a crash has left half done."""
    aside = _aside(target)
    if not aside.is_dir():
        return
    if target.exists():
        shutil.rmtree(aside)
    else:
        os.rename(aside, target)


def _write(file: Path, content: bytes) -> None:
    with open(file, "xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _replace(target: Path, fresh: Path) -> None:
    if not target.exists():
        os.rename(fresh, target)
        return
    os.rename(target, _aside(target))
    try:
        os.rename(fresh, target)
    except OSError:
        os.rename(_aside(target), target)
        raise


def _synchronise(folder: Path) -> None:
    """Make the names in a folder last, on systems that let folders be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
