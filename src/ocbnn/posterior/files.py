"""Saved models: a folder of plain files, and nothing in it that could run.

    model.json           version, network, likelihood, schema, prior, rules' terms, provenance, checksums
    rules.yaml           the rules in words
    draws.safetensors    draws, and the points at which rules were scored
    diagnostics.json     how the run went

`save` writes it whole or not at all; `load` believes nothing: sizes are held against each other before
anything is allocated, every file against its checksum, every field against its type. Rows of the training
table are not saved, apart from what the rules' points took from them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as read_arrays
from safetensors.numpy import save as written_arrays

from ocbnn._version import __version__
from ocbnn.errors import FileError, OCBNNError, RuleError
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.folders import checksum, existing_folder, read_file, write_folder
from ocbnn.posterior.stored import (
    Arrays,
    Dtype,
    StoredArray,
    StoredFile,
    StoredModel,
    arrays_of,
    require_shapes,
    restored_posterior,
    stored_likelihood,
    stored_network,
    stored_prior,
    stored_rule,
)
from ocbnn.priors.conditional import ConditionalPrior
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import LARGEST_FILE as LARGEST_RULES
from ocbnn.rules.files import dump_rules, load_rules
from ocbnn.schema import Schema

VERSION = 1
MODEL, RULES, DRAWS, DIAGNOSTICS = "model.json", "rules.yaml", "draws.safetensors", "diagnostics.json"
LARGEST_TEXT = 32 * 2**20
LARGEST_DRAWS = 8 * 2**30
LARGEST_HEADER = 4 * 2**20
NO_RULES = b"[]\n"
DTYPES: dict[str, Dtype] = {"float32": "F32", "float64": "F64", "uint8": "U8"}


class Loaded(NamedTuple):
    """What a saved model holds."""

    posterior: Posterior
    estimator: dict[str, Any] | None
    diagnostics: dict[str, Any]


def save(
    path: str | os.PathLike[str], posterior: Posterior, *, estimator: Mapping[str, Any] | None = None
) -> None:
    """Write a posterior as the folder `path`, in place of an earlier one; a crash leaves that one whole.

    Args:
        path: a folder of its own.
        posterior: with an MLP, the library's terms, and rules that can be said in words.
        estimator: plain JSON values to keep with it: how `load` gets the estimator back.

    Raises:
        FileError: a part that cannot be written down (Python functions), or a path that cannot be written.
    """
    arrays = arrays_of(posterior)
    diagnostics = {
        name: posterior.provenance[name]
        for name in ("status", "converged", "diagnostics", "acceptance", "divergences", "seconds", "unmet")
        if name in posterior.provenance
    }
    files = {
        RULES: _rules_text(posterior),
        DRAWS: written_arrays(arrays),
        DIAGNOSTICS: _text(diagnostics),
    }
    content = _stored(posterior, arrays, files, estimator).model_dump(by_alias=True, mode="json")
    files[MODEL] = _text({"checksum": checksum(_canonical(content)), "content": content})
    for name, most in ((MODEL, LARGEST_TEXT), (DIAGNOSTICS, LARGEST_TEXT), (RULES, LARGEST_RULES)):
        if len(files[name]) > most:
            raise FileError(f"{name} would have {len(files[name]):,} bytes, more than {most:,}.")
    write_folder(path, files)


def load(path: str | os.PathLike[str], *, largest: int = LARGEST_DRAWS) -> Loaded:
    """Read what `save` wrote.

    Args:
        path: the folder.
        largest: bytes of draws that may be read into memory.

    Raises:
        FileError: a newer format, or a file that is damaged, missing, too large, or does not fit the others.
    """
    folder = existing_folder(path)
    stored = _model(read_file(folder, MODEL, LARGEST_TEXT), str(folder / MODEL))
    try:
        schema = Schema.from_json(stored.schema_)
        network = require_shapes(stored, schema)
        diagnostics = _json(_checked(folder, DIAGNOSTICS, stored, LARGEST_TEXT), DIAGNOSTICS)
        constraints = _constraints(folder, stored, schema)
        arrays = _arrays(_checked(folder, DRAWS, stored, largest), stored)
        posterior = restored_posterior(stored, schema, network, constraints, arrays)
    except FileError as error:
        raise FileError(f"{folder} cannot be loaded: {error}") from None
    except (OCBNNError, ValueError, TypeError, OverflowError, ArithmeticError) as error:
        raise FileError(f"{folder} is damaged, or not a saved model: {error}") from None
    return Loaded(posterior, stored.estimator, diagnostics)


def _stored(
    posterior: Posterior, arrays: Arrays, files: Mapping[str, bytes], estimator: Mapping[str, Any] | None
) -> StoredModel:
    model = posterior.model
    enforced = [rule.rule for rule in posterior.enforced]
    if any(rule not in [own.rule for own in posterior.rules] for rule in enforced):
        raise FileError(
            "The model cannot be saved: a rule was enforced on it that is not among its own. Enforce it "
            "again after loading, or fit with it."
        )
    try:
        return StoredModel(
            format="ocbnn",
            version=VERSION,
            written_by=f"ocbnn {__version__}",
            schema_=posterior.schema.to_json(),
            network=stored_network(model.network),
            likelihood=stored_likelihood(model.likelihood),
            prior_scale=stored_prior(model.prior)[0],
            rules=[stored_rule(rule, enforced=rule.rule in enforced) for rule in posterior.rules],
            conditional=isinstance(model.prior, ConditionalPrior),
            arrays={
                name: StoredArray(dtype=DTYPES[array.dtype.name], shape=list(array.shape))
                for name, array in arrays.items()
            },
            provenance=dict(posterior.provenance),
            estimator=None if estimator is None else dict(estimator),
            files={name: StoredFile(bytes=len(c), sha256=checksum(c)) for name, c in files.items()},
        )
    except ValidationError as error:
        raise FileError(f"The model cannot be saved: {_first_complaint(error)}.") from None


def _rules_text(posterior: Posterior) -> bytes:
    if not posterior.rules:
        return NO_RULES
    try:
        return dump_rules([rule.rule for rule in posterior.rules], posterior.schema).encode()
    except RuleError as error:
        raise FileError(f"The model cannot be saved: {error}") from None


def _text(value: Any) -> bytes:
    try:
        return (json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise FileError(f"The model cannot be saved: {error}.") from None


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _json(content: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(content.decode("utf-8"), parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} is damaged: {error}.") from None
    if not isinstance(value, dict):
        raise FileError(f"{name} is damaged: it holds no fields.")
    return value


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _model(content: bytes, name: str) -> StoredModel:
    whole = _json(content, name)
    inner = whole.get("content")
    if not isinstance(inner, dict) or inner.get("format") != "ocbnn":
        raise FileError(f"{name} does not describe a model saved by ocbnn, or is damaged.")
    version = inner.get("version")
    if isinstance(version, int) and version > VERSION:
        raise FileError(
            f"{name} has the format version {version}, written by {inner.get('written_by')!s:.80}; this is "
            f"ocbnn {__version__}, which reads versions up to {VERSION}. Update ocbnn."
        )
    try:
        if whole.get("checksum") != checksum(_canonical(inner)):
            raise FileError(f"{name} is damaged: its content does not have its checksum.")
        stored = StoredModel.model_validate(inner)
    except ValidationError as error:
        raise FileError(f"{name} is damaged: {_first_complaint(error)}.") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} is damaged: {error}") from None
    if stored.version != VERSION:
        raise FileError(f"{name} has the format version {stored.version}, which never was.")
    return stored


def _first_complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg']}"


def _checked(folder: Any, name: str, stored: StoredModel, most: int) -> bytes:
    """The file's content, if it has the size and the checksum it was written with."""
    expected = stored.files.get(name)
    if expected is None:
        raise FileError(f"model.json does not know {name}.")
    if expected.bytes > most:
        raise FileError(
            f"{name} has {expected.bytes:,} bytes, more than the limit of {most:,}. If you trust it, raise "
            "the limit: ocbnn.posterior.files.load(path, largest=…)."
        )
    if name == DRAWS:
        room = sum(array.bytes for array in stored.arrays.values())
        if not room <= expected.bytes <= room + LARGEST_HEADER:
            raise FileError(f"{name} has {expected.bytes:,} bytes, but its arrays take {room:,}.")
    content = read_file(folder, name, expected.bytes)
    if len(content) != expected.bytes or checksum(content) != expected.sha256:
        raise FileError(
            f"{name} is damaged: it has {len(content):,} of {expected.bytes:,} bytes, or other ones than it "
            "was written with."
        )
    return content


def _arrays(content: bytes, stored: StoredModel) -> Arrays:
    try:
        arrays = read_arrays(content)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise FileError(f"{DRAWS} is damaged: {error}.") from None
    found = {name: (DTYPES.get(array.dtype.name), list(array.shape)) for name, array in arrays.items()}
    if found != {name: (array.dtype, array.shape) for name, array in stored.arrays.items()}:
        raise FileError(f"{DRAWS} holds other arrays than model.json says.")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise FileError(f"{DRAWS} is damaged: the array {name!r} is not finite.")
    return arrays


def _constraints(folder: Any, stored: StoredModel, schema: Schema) -> tuple[Constraint, ...]:
    content = _checked(folder, RULES, stored, LARGEST_RULES)
    if not stored.rules and content == NO_RULES:
        return ()
    return load_rules(folder / RULES, schema)
