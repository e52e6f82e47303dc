"""JSON with its own checksum, and arrays as declared: what every saved folder is made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as read_arrays
from safetensors.numpy import save as written_arrays

from ocbnn._version import __version__
from ocbnn.errors import FileError
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import LARGEST_FILE as LARGEST_RULES
from ocbnn.rules.files import load_rules
from ocbnn.schema import Schema
from ocbnn.storing.folders import checksum, read_file
from ocbnn.storing.parts import Arrays, Dtype, StoredArray, StoredFile

__all__ = ["LARGEST_RULES", "LARGEST_TEXT", "written_arrays"]

LARGEST_TEXT = 32 * 2**20
LARGEST_HEADER = 4 * 2**20
DTYPES: dict[str, Dtype] = {"float32": "F32", "float64": "F64", "uint8": "U8"}
Content = TypeVar("Content", bound=BaseModel)


def json_text(value: Any) -> bytes:
    """Plain values as JSON; what is not plain, or not finite, is refused."""
    try:
        return (json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise FileError(f"The model cannot be saved: {error}.") from None


def sealed(content: BaseModel) -> bytes:
    """A document with the checksum of its content."""
    plain = content.model_dump(by_alias=True, mode="json")
    return json_text({"checksum": checksum(_canonical(plain)), "content": plain})


def opened(text: bytes, name: str, kind: type[Content], *, format: str, version: int) -> Content:
    """The content of a sealed document, validated field by field."""
    whole = read_json(text, name)
    inner = whole.get("content")
    if not isinstance(inner, dict) or inner.get("format") != format:
        raise FileError(f"{name} does not describe a model saved by ocbnn, or is damaged.")
    written = inner.get("version")
    if isinstance(written, int) and written > version:
        raise FileError(
            f"{name} has the format version {written}, written by {inner.get('written_by')!s:.80}; this is "
            f"ocbnn {__version__}, which reads versions up to {version}. Update ocbnn."
        )
    try:
        if whole.get("checksum") != checksum(_canonical(inner)):
            raise FileError(f"{name} is damaged: its content does not have its checksum.")
        stored = kind.model_validate(inner)
    except ValidationError as error:
        raise FileError(f"{name} is damaged: {first_complaint(error)}.") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} is damaged: {error}") from None
    if written != version:
        raise FileError(f"{name} has the format version {written}, which never was.")
    return stored


def read_json(content: bytes, name: str) -> dict[str, Any]:
    """The fields of a JSON document; NaN and infinities are none."""
    try:
        value = json.loads(content.decode("utf-8"), parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} is damaged: {error}.") from None
    if not isinstance(value, dict):
        raise FileError(f"{name} is damaged: it holds no fields.")
    return value


def first_complaint(error: ValidationError) -> str:
    """Where the first thing is wrong, and what."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg']}"


def declared_arrays(arrays: Arrays) -> dict[str, StoredArray]:
    """What the file of arrays will hold."""
    return {
        name: StoredArray(dtype=DTYPES[array.dtype.name], shape=list(array.shape))
        for name, array in arrays.items()
    }


def declared_files(files: Mapping[str, bytes]) -> dict[str, StoredFile]:
    """Sizes and checksums of the other files."""
    return {name: StoredFile(bytes=len(c), sha256=checksum(c)) for name, c in files.items()}


def checked(
    folder: Path,
    name: str,
    files: Mapping[str, StoredFile],
    most: int,
    arrays: Mapping[str, StoredArray] | None = None,
) -> bytes:
    """The file's content, if it has the size and checksum it was written with, and room for its arrays."""
    expected = files.get(name)
    if expected is None:
        raise FileError(f"model.json does not know {name}.")
    if expected.bytes > most:
        remedy = " If you trust it, raise the limit: ocbnn.posterior.files.load(path, largest=…)."
        raise FileError(
            f"{name} has {expected.bytes:,} bytes, more than the limit of {most:,}."
            + ("" if arrays is None else remedy)
        )
    if arrays is not None:
        room = sum(array.bytes for array in arrays.values())
        if not room <= expected.bytes <= room + LARGEST_HEADER:
            raise FileError(f"{name} has {expected.bytes:,} bytes, but its arrays take {room:,}.")
    content = read_file(folder, name, expected.bytes)
    if len(content) != expected.bytes or checksum(content) != expected.sha256:
        raise FileError(
            f"{name} is damaged: it has {len(content):,} of {expected.bytes:,} bytes, or other ones than it "
            "was written with."
        )
    return content


def checked_arrays(content: bytes, name: str, declared: Mapping[str, StoredArray]) -> Arrays:
    """The arrays, if they are those declared, and finite."""
    try:
        arrays = read_arrays(content)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise FileError(f"{name} is damaged: {error}.") from None
    found = {key: (DTYPES.get(array.dtype.name), list(array.shape)) for key, array in arrays.items()}
    if found != {key: (array.dtype, array.shape) for key, array in declared.items()}:
        raise FileError(f"{name} holds other arrays than model.json says.")
    for key, array in arrays.items():
        if not np.isfinite(array).all():
            raise FileError(f"{name} is damaged: the array {key!r} is not finite.")
    return arrays


def checked_rules(
    folder: Path, name: str, files: Mapping[str, StoredFile], schema: Schema
) -> tuple[Constraint, ...]:
    """The rules in words, from a file that is what it was."""
    checked(folder, name, files, LARGEST_RULES)
    return load_rules(folder / name, schema)


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")
