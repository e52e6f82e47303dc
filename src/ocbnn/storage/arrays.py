"""Named arrays as safetensors: the header says what is in the file, and is checked before memory is taken."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import BinaryIO

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ocbnn.errors import FileError
from ocbnn.storage.documents import parse_json
from ocbnn.storage.values import restored

Arrays = dict[str, np.ndarray]
WIDTHS = {"F64": 8, "F32": 4, "I64": 8, "I32": 4, "U32": 4, "U8": 1, "BOOL": 1}
LARGEST_HEADER = 4 * 2**20
METADATA = "__metadata__"


@dataclass(frozen=True)
class Declared:
    """What a header says of one array."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    def __post_init__(self) -> None:
        if self.dtype not in WIDTHS:
            raise FileError(f"an array of the type {self.dtype!r:.40} is not expected")
        start, end = self.data_offsets
        if min(self.shape, default=1) < 0 or not 0 <= start <= end:
            raise FileError("an array has a negative size")
        if WIDTHS[self.dtype] * prod(self.shape) != end - start:
            raise FileError(f"an array of the shape {self.shape} takes another number of bytes than it has")


Header = dict[str, Declared]
Fits = Callable[[Mapping[str, Declared]], None]


def array_bytes(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> bytes:
    """The arrays as one file."""
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return save(whole, None if metadata is None else dict(metadata))


def read_header(stream: BinaryIO, size: int, name: str) -> tuple[Header, dict[str, str]]:
    """What a file of `size` bytes says it holds, if it is long enough for that, and its metadata.

    Raises:
        FileError: it is not a file of arrays, or its header does not fit its size.
    """
    length = int.from_bytes(stream.read(8), "little")
    if length > min(LARGEST_HEADER, size - 8):
        raise FileError(f"{name} is damaged: it is not a file of arrays.")
    fields = parse_json(stream.read(length), name)
    if not isinstance(fields, dict):
        raise FileError(f"{name} is damaged: it is not a file of arrays.")
    metadata = restored(dict[str, str], fields.pop(METADATA, {}), name)
    header: Header = restored(dict[str, Declared], fields, name)
    room = sum(each.data_offsets[1] - each.data_offsets[0] for each in header.values())
    if room != size - 8 - length:
        raise FileError(f"{name} is damaged: it has {size:,} bytes, but its arrays take {room:,}.")
    return header, metadata


def parse_arrays(content: bytes, name: str) -> tuple[Arrays, dict[str, str]]:
    """The arrays of a file, and its metadata."""
    _, metadata = read_header(io.BytesIO(content), len(content), name)
    try:
        return load(content), metadata
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise FileError(f"{name} is damaged: {error}.") from None
