"""Records as JSON values, and back: pydantic validates what comes back.

JSON has neither NaN nor infinity. `plain` writes null for them, for people and programs that read results.
`exact` writes them so that `from_exact` gives them back.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ocbnn.errors import FileError, OCBNNError

NUMBER, PAIRS = "__number__", "__pairs__"
NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
Kind = TypeVar("Kind")


def plain(value: Any) -> Any:
    """The same as JSON values: records become objects, what is not finite null, what is not plain text."""
    return _converted(value, lossless=False)


def plain_text(value: Any, indent: int = 1) -> str:
    """One JSON document, with a line break at its end."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def exact(value: Any) -> Any:
    """The same as JSON values, from which `from_exact` makes equal ones, but for records and tuples.

    Raises:
        FileError: something that has no such values.
    """
    return _converted(value, lossless=True)


def _converted(value: Any, *, lossless: bool) -> Any:
    match value:
        case None | bool() | str() | int():
            return value
        case float() if math.isfinite(value):
            return float(value)
        case float():
            return {NUMBER: str(value)} if lossless else None
        case Mapping() if lossless and not _has_plain_keys(value):
            return {PAIRS: [[exact(name), exact(each)] for name, each in value.items()]}
        case Mapping():
            return {str(name): _converted(each, lossless=lossless) for name, each in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return _converted(value._asdict(), lossless=lossless)
        case list() | tuple():
            return [_converted(each, lossless=lossless) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Fields that do not count when records are compared are of no consequence.
        fields = [each.name for each in dataclasses.fields(value) if each.compare]
        return {name: _converted(getattr(value, name), lossless=lossless) for name in fields}
    if hasattr(value, "tolist"):  # of NumPy
        return _converted(value.tolist(), lossless=lossless)
    if lossless:
        raise FileError(f"A {type(value).__name__} cannot be saved: it has no plain values.")
    return str(value)


def _has_plain_keys(value: Mapping[Any, Any]) -> bool:
    """JSON's keys are text, and a label may be anything."""
    return all(isinstance(key, str) for key in value) and not set(value) & {PAIRS, NUMBER}


def from_exact(value: Any) -> Any:
    """What `exact` was called on, with lists for tuples and mappings for records."""
    if isinstance(value, list):
        return [from_exact(each) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {NUMBER}:
        return NUMBERS[value[NUMBER]]
    if set(value) == {PAIRS}:
        return {from_exact(key): from_exact(each) for key, each in value[PAIRS]}
    return {key: from_exact(each) for key, each in value.items()}


def restored(kind: type[Kind], value: Any, what: str) -> Kind:
    """The record of this kind with these values, validated field by field.

    No field is unknown, and none is converted from another type.

    Raises:
        FileError: with `what`, the field and what is wrong with it.
    """
    try:
        (record,) = _adapter(kind).validate_json(json.dumps([value]))  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][1:]))[:200]
        raise FileError(f"{what} is damaged: {where}: {first['msg']}.") from None
    except (OCBNNError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise FileError(f"{what} is damaged: {error}") from None
    return record


@cache
def _adapter(kind: Any) -> Any:
    # A record alone would take its own configuration; within a tuple it takes this one.
    return TypeAdapter(tuple[kind], config=ConfigDict(extra="forbid", strict=True))


def packed(value: Any, kinds: Mapping[str, type], what: str) -> dict[str, Any]:
    """A record of one of several kinds, with the name of its kind.

    Raises:
        UnsavableError: a kind of the user's own, which may be code.
    """
    for name, kind in kinds.items():
        if type(value) is kind:
            return {"kind": name, **exact(value)}
    raise UnsavableError(
        f"A {what} of the type {type(value).__name__} cannot be saved: it may hold Python functions, and "
        "opening a saved model must not run code. Use one of ocbnn's own, or keep it in memory (pickle)."
    )


def unpacked(value: Any, kinds: Mapping[str, type], what: str) -> Any:
    """The record that `packed` was called on."""
    fields = dict(value) if isinstance(value, dict) else {}
    name = fields.pop("kind", None)
    if not isinstance(name, str) or name not in kinds:
        raise FileError(f"The {what} is damaged: its kind is {name!r:.80}, not one of {', '.join(kinds)}.")
    return restored(kinds[name], fields, f"The {what}")


class UnsavableError(FileError):
    """A part that can be used, but by design not be saved, such as a Python function."""
