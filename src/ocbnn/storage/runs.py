"""The folder of a run: its parts are written as they come, so that an interrupted run can be resumed.

    run.json                     what the run is; a run that differs in it is another one
    prepared.safetensors         frozen points, strengths and starting positions
    chunk-000007.safetensors     draws, infos and the state after them

There is no manifest, for the folder grows: every part has its checksum, its name and its run inside.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ocbnn.errors import FileError, InferenceError
from ocbnn.resources import free_memory
from ocbnn.storage.arrays import Arrays, array_bytes, parse_arrays
from ocbnn.storage.documents import json_bytes, parse_json
from ocbnn.storage.files import checksum, read_file, write_bytes
from ocbnn.storage.values import restored

RUN, SEAL = "run.json", "ocbnn"
LARGEST_RUN = 32 * 2**20


class RunFolder:
    """The folder of one run; files appear in it whole.

    Args:
        path: of the folder.
        writes: whether this process writes; another one does otherwise.
    """

    def __init__(self, path: str | os.PathLike[str], *, writes: bool = True) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InferenceError(f"The folder of a run is text or a Path, not {path!r}.")
        self.path = Path(path)
        self.run, self.writes = "", writes

    def open(self, description: Mapping[str, Any], *, resume: bool) -> None:
        """Begin a run here, or make sure that the one begun here is the one to be resumed."""
        wanted = json.loads(json.dumps(description))
        self.run = identity(wanted)
        if resume:
            self._require_same(wanted)
            return
        if os.path.lexists(self.path / RUN):
            raise InferenceError(
                f"{self.path} already holds a run. Give resume=True to go on with it, or another folder."
            )
        if any(self.path.glob("*.safetensors")):
            raise InferenceError(f"{self.path} holds parts of another run. Give another folder.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InferenceError(
                f"{self.path} cannot be the folder of a run ({error.strerror or error}). Give another."
            ) from None
        self._write(RUN, json_bytes(wanted))

    def _require_same(self, wanted: Mapping[str, Any]) -> None:
        if not os.path.lexists(self.path / RUN):
            raise InferenceError(f"There is no run to resume in {self.path}: {RUN} is missing.")
        found = read_run(self.path)
        changed = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        if changed:
            what = ", ".join(f"{name} (was {found.get(name)}, is {wanted.get(name)})" for name in changed)
            raise InferenceError(f"The run in {self.path} is another one: {what}. Resume with the same.")

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write named arrays as one file, whole or not at all."""
        if not self.writes:
            return
        of = {"name": name, "run": self.run}
        # One entry: safetensors writes several in any order, and the same run is to give the same bytes.
        seal = json.dumps({**of, "sha256": digest_of(arrays, of)})
        self._write(f"{name}.safetensors", array_bytes(arrays, {SEAL: seal}))

    def load(self, name: str) -> Arrays | None:
        """Read it back; None where it does not exist."""
        file = self.path / f"{name}.safetensors"
        if not os.path.lexists(file):
            return None
        try:
            arrays, metadata = parse_arrays(read_file(file, free_memory(), links=False), file.name)
            of = restored(dict[str, str], parse_json(metadata.get(SEAL, "{}").encode(), SEAL), SEAL)
        except FileError as error:
            raise _damaged(file, str(error).rstrip(".")) from None
        if of.pop("sha256", None) != digest_of(arrays, of):
            raise _damaged(file, "its checksum is wrong")
        if of != {"name": name, "run": self.run}:
            raise _damaged(
                file, f"it is {of['name']} of {'this' if of['run'] == self.run else 'another'} run"
            )
        return arrays

    def chunks(self) -> list[Arrays]:
        """All chunks in order, up to the first that is missing."""
        found: list[Arrays] = []
        while (chunk := self.load(chunk_name(len(found)))) is not None:
            found.append(chunk)
        return found

    def _write(self, name: str, content: bytes) -> None:
        file = self.path / name
        try:
            write_bytes(file, content)
        except FileError as error:
            reason = getattr(error.__cause__, "strerror", None) or error
            raise InferenceError(
                f"{file} could not be written ({reason}). All that was written before it is whole: make "
                "room, and go on with resume=True."
            ) from None


def chunk_name(number: int) -> str:
    """The name of a chunk, without its ending."""
    return f"chunk-{number:06d}"


def read_run(folder: Path) -> dict[str, Any]:
    """What a run is.

    Raises:
        InferenceError: the file is damaged.
    """
    file = folder / RUN
    try:
        found = parse_json(read_file(file, LARGEST_RUN, links=False), RUN)
        if not isinstance(found, dict):
            raise FileError("it holds no fields")
    except FileError as error:
        said = str(error).rstrip(".")
        raise InferenceError(f"{file} is damaged ({said}); start anew in another folder.") from None
    return found


def is_run(folder: Path) -> bool:
    """Whether a folder holds nothing but a run, or the beginning of one."""
    return folder.is_dir() and all(
        each.name == RUN or each.suffix in (".safetensors", ".partial") for each in folder.iterdir()
    )


def identity(description: Mapping[str, Any]) -> str:
    return checksum(json.dumps(description, sort_keys=True).encode())[:32]


def digest_of(arrays: Mapping[str, np.ndarray], of: Mapping[str, str]) -> str:
    """Of names, shapes, contents and what they are of: a file can be damaged and still be readable."""
    digest = hashlib.sha256(repr(sorted(of.items())).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _damaged(file: Path, why: str) -> InferenceError:
    is_chunk = file.name.startswith("chunk")
    again = "delete it and all chunks after it" if is_chunk else "delete the folder's files"
    return InferenceError(f"{file} is damaged ({why}); {again}, then run again.")
