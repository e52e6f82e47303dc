"""Options of an estimator as a TOML file, so that a fit can be told to the letter and done again.

    draws = 200
    hidden = [50, 50]
    prior = 0.2                      # how far outputs may go
    class_weight = "balanced"

    [engine]
    name = "bbb"
    steps = 2000                     # and any other option of that engine

    [preparation.strength]           # any option of StrengthSearch; `strength = false` searches none
    rounds = 6

    [preparation.warm]               # any option of WarmStart; `warm = false` starts at prior draws

`ocbnn fit --settings FILE` reads it; `OCBNNClassifier(**read_settings(path))` does the same.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ocbnn.errors import FileError, OCBNNError
from ocbnn.inference.engines import ENGINES
from ocbnn.inference.engines.base import Engine
from ocbnn.inference.prepare import Settings
from ocbnn.inference.strength import StrengthSearch
from ocbnn.inference.warmstart import Start, WarmStart
from ocbnn.schema.reading import did_you_mean
from ocbnn.storage.documents import read_toml

SIMPLE: Mapping[str, Any] = {
    "draws": int,
    "chains": int,
    "batch": int,
    "hidden": tuple[int, ...],
    "activation": str,
    "prior": float,
    "tolerance": float,
    "class_weight": str,
    "missing": str,
    "unseen": str,
    "target_transform": str,
    "noise": float | Literal["varying", "constant"],
    "cores": int,
}
"""Options that are one number, text or list."""
PARTS = {"warm": WarmStart, "strength": StrengthSearch}


def read_settings(path: str | Path) -> dict[str, Any]:
    """Keyword arguments of an estimator.

    Raises:
        FileError: a file that cannot be read, or an option that does not exist.
    """
    return _Reader(str(path)).options(read_toml(path))


def written_settings(estimator: Any) -> str:
    """The options of an estimator as `read_settings` reads them; what is the default is left out."""
    given = estimator.get_params(deep=False)
    default = type(estimator)().get_params(deep=False)
    lines = [
        f"{name} = {_toml(given[name])}"
        for name in SIMPLE
        if given.get(name) is not None and _toml(given[name]) != _toml(default[name])
    ]
    engine = given["engine"]
    name, changed = (
        (engine, []) if isinstance(engine, str) else (engine.name, _changed(engine, type(engine)()))
    )
    lines += ["", "[engine]", f"name = {_toml(name)}", *changed]
    if given.get("preparation") is not None:
        lines += _preparation_lines(given["preparation"])
    return "\n".join(lines) + "\n"


def plain_preparation(preparation: Settings) -> dict[str, Any]:
    """The preparation as the table of options that a file would hold."""
    plain: dict[str, Any] = tomllib.loads("\n".join(_preparation_lines(preparation)))["preparation"]
    return plain


def read_preparation(given: Mapping[str, Any], path: str) -> Settings:
    """What `plain_preparation` was called on; `path` is named in errors."""
    settings: Settings = _Reader(path).options({"preparation": given})["preparation"]
    return settings


def _preparation_lines(preparation: Settings) -> list[str]:
    lines = ["", "[preparation]", f"nodes = {_toml(preparation.nodes)}"]
    if preparation.start is not None:
        lines.append(f"start = {_toml(preparation.start)}")
    tables: list[str] = []
    for name, kind in PARTS.items():
        part = getattr(preparation, name)
        if part is None:
            lines.append(f"{name} = false")
        else:
            tables += ["", f"[preparation.{name}]", *_changed(part, kind())]
    return lines + tables


def _changed(given: Any, default: Any) -> list[str]:
    values = {each.name: getattr(given, each.name) for each in fields(given) if each.init}
    return [f"{name} = {_toml(v)}" for name, v in values.items() if v != getattr(default, name)]


def _toml(value: Any) -> str:
    """Numbers, texts, truth values and lists are written alike in TOML and JSON, but for infinity."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value == math.inf:
        return "inf"
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise FileError(f"{value!r} cannot be written into a settings file.") from None


class _Reader:
    """Reads tables of options; its errors name the file and the option."""

    def __init__(self, path: str) -> None:
        self.path = path

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        self._known(given, (*SIMPLE, "engine", "preparation"), "")
        found = {name: self._read(SIMPLE[name], given[name], name) for name in SIMPLE if name in given}
        if "engine" in given:
            found["engine"] = self._engine(self._table(given["engine"], "engine"))
        if "preparation" in given:
            found["preparation"] = self._preparation(self._table(given["preparation"], "preparation"))
        return found

    def _engine(self, given: Mapping[str, Any]) -> Engine | str:
        name = given.get("name")
        if name == "auto" and len(given) == 1:
            return "auto"
        if name not in ENGINES:
            hint = did_you_mean(name, ENGINES)
            raise FileError(f"{self.path}: [engine] needs a name, one of {', '.join(ENGINES)}.{hint}")
        return self._built(ENGINES[name], {key: v for key, v in given.items() if key != "name"}, "engine")

    def _preparation(self, given: Mapping[str, Any]) -> Settings:
        plain: dict[str, Any] = {"nodes": bool, "start": Start}
        self._known(given, (*PARTS, *plain), "[preparation] ")
        options = {
            name: self._read(kind, given[name], f"[preparation] {name}")
            for name, kind in plain.items()
            if name in given
        }
        for name, kind in PARTS.items():
            if given.get(name) is False:
                options[name] = None
            elif name in given:
                where = f"preparation.{name}"
                options[name] = self._built(kind, self._table(given[name], where), where)
        return Settings(**options)

    def _built(self, kind: Any, given: Mapping[str, Any], where: str) -> Any:
        self._known(given, [each.name for each in fields(kind) if each.init], f"[{where}] ")
        return self._read(kind, dict(given), f"[{where}]")

    def _read(self, kind: Any, value: Any, where: str) -> Any:
        try:
            return TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            what = ".".join(str(each) for each in first["loc"])
            place = f"{where} {what}" if what else where
            raise FileError(f"{self.path}: {place}: {first['msg']}, not {first['input']!r}.") from None
        except OCBNNError as error:
            raise FileError(f"{self.path}: {where}: {error}") from None

    def _table(self, value: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise FileError(f"{self.path}: {where} is a table of options, [{where}], not {value!r}.")
        return value

    def _known(self, given: Mapping[str, Any], known: Any, where: str) -> None:
        for name in given:
            if name not in known:
                raise FileError(
                    f"{self.path}: {where}has no option {name!r}; there are {', '.join(known)}."
                    f"{did_you_mean(name, known)}"
                )
