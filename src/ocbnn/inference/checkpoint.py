"""Long runs are safe: draws go to disk as they come, each file whole or absent.

folder/run.json                 what the run is: engine, settings, seed, fingerprint of model and data
folder/prepared.safetensors     frozen points, strengths and starting positions
folder/chunk-000007.safetensors draws, infos and the state after them
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Arrays
from ocbnn.model import Model
from ocbnn.model.priors import as_diagonal

if TYPE_CHECKING:
    from ocbnn.inference.loop import RunOptions


class RunFolder:
    """The folder of one run; files appear in it atomically."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InferenceError(f"The folder of a run is text or a Path, not {path!r}.")
        self.path = Path(path)

    def open(self, description: Mapping[str, Any], *, resume: bool) -> None:
        """Begin a run here, or make sure that the one begun here is the one to be resumed."""
        wanted = json.loads(json.dumps(description))
        file = self.path / "run.json"
        if not resume:
            if file.exists():
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
            self._write(file, json.dumps(wanted, indent=1).encode())
            return
        if not file.exists():
            raise InferenceError(f"There is no run to resume in {self.path}: run.json is missing.")
        try:
            found = json.loads(file.read_text())
        except ValueError as error:
            raise InferenceError(f"{file} is damaged ({error}); start anew in another folder.") from None
        changed = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        if changed:
            what = ", ".join(f"{name} (was {found.get(name)}, is {wanted.get(name)})" for name in changed)
            raise InferenceError(f"The run in {self.path} is another one: {what}. Resume with the same.")

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write named arrays as one file, whole or not at all."""
        whole = {key: np.asarray(value, order="C") for key, value in arrays.items()}
        self._write(self.path / f"{name}.safetensors", save(whole, {"sha256": checksum(whole)}))

    def load(self, name: str) -> Arrays | None:
        """Read it back; None where it does not exist."""
        file = self.path / f"{name}.safetensors"
        if not file.exists():
            return None
        try:
            with safe_open(file, framework="np") as stored:
                arrays = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118 - no mapping
                expected = (stored.metadata() or {}).get("sha256")
        except (SafetensorError, OSError, ValueError) as error:
            raise InferenceError(_damaged(file, str(error))) from None
        if expected != checksum(arrays):
            raise InferenceError(_damaged(file, "its checksum is wrong"))
        return arrays

    def chunks(self) -> list[Arrays]:
        """All chunks in order, up to the first that is missing."""
        found: list[Arrays] = []
        while (chunk := self.load(f"chunk-{len(found):06d}")) is not None:
            found.append(chunk)
        return found

    def _write(self, file: Path, content: bytes) -> None:
        partial = file.with_suffix(".partial")
        try:
            with open(partial, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, file)
        except BaseException as error:
            partial.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise InferenceError(
                f"{file} could not be written ({error.strerror or error}). All that was written before it is "
                "whole: make room, and go on with resume=True."
            ) from None


def _damaged(file: Path, why: str) -> str:
    again = (
        "delete it and all chunks after it" if file.name.startswith("chunk") else "delete the folder's files"
    )
    return f"{file} is damaged ({why}); {again}, then run again."


def checksum(arrays: Mapping[str, np.ndarray]) -> str:
    """Of names, shapes and contents: a file can be damaged and still be readable."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def flatten_state(states: list[Any]) -> Arrays:
    """The states of all groups as named arrays; keys of random numbers are not among them."""
    leaves = [jax.tree.leaves(state) for state in states]
    return {
        f"state.{g}.{i}": np.asarray(leaf) for g, group in enumerate(leaves) for i, leaf in enumerate(group)
    }


def restore_state(like: list[Any], arrays: Arrays) -> list[Any]:
    """States of the same structure as `like` with the stored arrays."""
    restored = []
    for g, state in enumerate(like):
        leaves, structure = jax.tree.flatten(state)
        stored = [arrays[f"state.{g}.{i}"] for i in range(len(leaves))]
        restored.append(jax.tree.unflatten(structure, stored))
    return restored


def description(model: Model, run: RunOptions, settings: Any) -> dict[str, Any]:
    """All that draws depend on, to be compared when a run is resumed."""
    rules = model.terms
    base = model.base
    gaussian = as_diagonal(base)
    parts = getattr(base, "__dict__", base) if gaussian is None else [gaussian.mean, gaussian.sd]
    return {
        "format": 1,
        "engine": run.engine.name,
        "settings": repr(run.engine),
        "prepare": repr(settings),
        **{name: getattr(run, name) for name in ("members", "seed", "thin", "batch", "cores")},
        "rules": [rule.rule.text(rule.schema) for rule in rules],
        "terms": [_words(rule.term) for rule in rules],
        "tolerances": [rule.tolerance for rule in rules],
        "network": _words(model.network),
        "likelihood": _words(model.likelihood),
        "prior": fingerprint([_words(type(base)), parts]),
        "data": fingerprint(model.data, [rule.points for rule in rules]),
    }


def _words(part: Any) -> str:
    """What it prints, without addresses, which another process does not share."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(part))


def fingerprint(*parts: Any) -> str:
    """A hash of arrays and of anything that prints the same when it is the same."""
    digest = hashlib.sha256()
    for part in jax.tree.leaves(parts):
        is_array = hasattr(part, "__array__")
        digest.update(np.ascontiguousarray(part).tobytes() if is_array else _words(part).encode())
        digest.update(repr(np.shape(part)).encode())
    return digest.hexdigest()[:32]
