"""JSON, YAML and TOML, read with distrust: sizes and depths are limited, and nothing in them can run.

YAML has no aliases (a few can unfold to gigabytes), no tags of its own, and no key twice.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from ocbnn.errors import FileError
from ocbnn.storage.files import read_file

LARGEST_INPUT = 1_000_000
"""Bytes of a file that a user writes: rules, columns, settings. What people review is far below it."""
DEEPEST = 50
"""Lists and mappings within each other."""
LONGEST_NUMBER = 400
"""Characters of a number; the largest float64 has 309 digits."""
SCALARS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp")}
COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
HINT = (
    "(A rule with `:` or `#` in it, or a backtick at its start, goes in double quotes, or after `rule: >` on "
    "a line of its own.)"
)


class DocumentError(FileError):
    """A file that cannot be read as what it should be.

    Attributes:
        message: the cause and the remedy.
        line: the 1-based line, where it is known.
    """

    def __init__(self, path: Path, message: str, line: int | None = None) -> None:
        self.message, self.line = message, line
        super().__init__(f"{path}: " + ("" if line is None else f"line {line}: ") + message)


# JSON -------------------------------------------------------------------------------------------------------


def json_bytes(value: Any) -> bytes:
    """Plain values as JSON, one document with a line break at its end.

    Raises:
        FileError: a value that JSON or UTF-8 does not have.
    """
    try:
        return (json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError as error:
        raise FileError(
            f"{error.object[error.start : error.end]!r} is half of a character (a lone surrogate), which no "
            "file can hold. Correct the name or text that has it."
        ) from None
    except (TypeError, ValueError) as error:
        raise FileError(f"This cannot be written as JSON: {error}.") from None


def parse_json(content: bytes, name: str) -> Any:
    """The values of a JSON document; NaN, infinities and keys given twice are refused."""
    try:
        return json.loads(
            content.decode("utf-8"),
            parse_constant=_refused,
            parse_float=_finite,
            object_pairs_hook=_distinct,
        )
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} is damaged: {error}.") from None


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is given twice")
    return fields


# YAML and TOML, as users write them -------------------------------------------------------------------------


def read_text(path: str | PathLike[str]) -> str:
    """A text file in UTF-8.

    Raises:
        DocumentError: it cannot be read, is too large, or is not UTF-8.
    """
    path = Path(path)
    try:
        content = read_file(path, LARGEST_INPUT)
    except FileError as error:
        raise DocumentError(path, str(error).replace(str(path), "this")) from None
    return decoded(content, path)


def decoded(content: bytes, path: Path) -> str:
    """UTF-8 text, with or without a byte order mark.

    Raises:
        DocumentError: another encoding, or bytes that are not text; with the line.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DocumentError(path, "the file is UTF-16 text. Save it as UTF-8.")
    if b"\0" in content:
        line = content[: content.index(b"\0")].count(b"\n") + 1
        why = "the file holds a NUL byte, so it is not UTF-8 text. Save it as UTF-8."
        raise DocumentError(path, why, line)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content[: error.start].count(b"\n") + 1, content[error.start]
        why = f"the file is not UTF-8 text: it holds the byte {byte:#x}. Is it Latin-1? Save it as UTF-8."
        raise DocumentError(path, why, line) from None


def read_toml(path: str | PathLike[str]) -> dict[str, Any]:
    """The tables of a TOML file."""
    content = read_text(path)
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise DocumentError(Path(path), f"the file is not well-formed TOML: {error}.") from None
    except (RecursionError, ValueError) as error:
        raise DocumentError(Path(path), f"the file cannot be read as TOML: {error}.") from None


def read_yaml(path: str | PathLike[str]) -> yaml.Node | None:
    """The document of a YAML file, as `parse_yaml` gives it."""
    return parse_yaml(read_text(path), Path(path))


def parse_yaml(text: str, path: Path) -> yaml.Node | None:
    """A YAML document with its lines; None where it is empty. `yaml_value` gives the values.

    Raises:
        DocumentError: with the path and the line.
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
        for each in _nodes(node):
            _require_plain(each)
    except _Refused as error:
        raise DocumentError(path, str(error), error.line) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise DocumentError(
            path, f"the file is not well-formed YAML: {error.problem}. {HINT}", line
        ) from None
    except yaml.YAMLError as error:
        said = str(error).splitlines()[0]
        raise DocumentError(path, f"the file is not well-formed YAML: {said}.") from None
    except RecursionError:
        raise DocumentError(path, "the file is nested too deeply.") from None
    return node


def yaml_fields(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    """The fields of a mapping by name; a name is the text that was written."""
    return {str(key.value): value for key, value in node.value}


def yaml_value(node: yaml.Node) -> Any:
    """The node as text, number, truth value, date, None, list or mapping."""
    if isinstance(node, yaml.MappingNode):
        return {name: yaml_value(value) for name, value in yaml_fields(node).items()}
    if isinstance(node, yaml.SequenceNode):
        return [yaml_value(each) for each in node.value]
    return yaml.constructor.SafeConstructor().construct_object(node)


class _Refused(yaml.YAMLError):
    """What the file may not hold, with its line."""

    def __init__(self, message: str, mark: yaml.Mark) -> None:
        self.line = mark.line + 1
        super().__init__(message)


class _Loader(yaml.SafeLoader):
    """Refuses aliases and depth while it reads."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise _Refused("aliases (`*…`) are not read; write it out.", mark)
        if self.depth > DEEPEST:
            raise _Refused("the file is nested too deeply.", mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _nodes(node: yaml.Node | None) -> Iterator[yaml.Node]:
    if node is None:
        return
    yield node
    if isinstance(node, yaml.CollectionNode):
        for each in node.value:
            yield from _nodes(each[1] if isinstance(node, yaml.MappingNode) else each)


def _require_plain(node: yaml.Node) -> None:
    """Refuse tags, keys given twice, keys that are no text, and values that are not what they say."""
    if node.tag not in (SCALARS if isinstance(node, yaml.ScalarNode) else COLLECTIONS):
        raise _Refused(f"the tag {_tag(node)} is not read; leave it out.", node.start_mark)
    if isinstance(node, yaml.ScalarNode):
        _require_scalar(node)
    elif isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                raise _Refused("a key has to be text.", key.start_mark)
            if key.value in names:
                raise _Refused(f"`{key.value}` is given twice.", key.start_mark)
            names.add(key.value)


def _require_scalar(node: yaml.ScalarNode) -> None:
    is_number = node.tag.endswith((":int", ":float"))
    shown = repr(str(node.value)[:40])
    if is_number and len(node.value) > LONGEST_NUMBER:
        raise _Refused(f"{shown}… is too long for a number; put text in quotes.", node.start_mark)
    try:
        value = yaml_value(node)
    except (ValueError, OverflowError, IndexError, KeyError, AttributeError, yaml.YAMLError):
        raise _Refused(f"{shown} is not {_tag(node)}; put text in quotes.", node.start_mark) from None
    if is_number and isinstance(value, int) and abs(value) > 10**308:
        raise _Refused(f"{shown}… is too large a number; put text in quotes.", node.start_mark)


def _tag(node: yaml.Node) -> str:
    return node.tag.replace("tag:yaml.org,2002:", "!!")
