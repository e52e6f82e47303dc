"""Saved models: a folder of plain files, and nothing in it that could run.

    model.json           version, network, likelihood, schema, prior, rules' terms, provenance, checksums
    rules.yaml           the rules in words
    draws.safetensors    draws, and the points at which rules were scored
    diagnostics.json     how the run went

`ocbnn fit` keeps two things beside them: `without_rules/`, a posterior of the same rows without any rule, and
`evidence.json`, what a report says.

`save` writes it whole or not at all; `load` believes nothing: sizes are held against each other before
anything is allocated, every file against its checksum, every field against its type. Rows of the training
table are not saved, apart from what the rules' points took from them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from ocbnn._version import __version__
from ocbnn.errors import FileError, OCBNNError, RuleError
from ocbnn.model.conditional import ConditionalPrior
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.stored import (
    StoredModel,
    arrays_of,
    model_rules,
    require_shapes,
    restored_posterior,
    stored_learnt,
    stored_rules,
    stored_scale,
    stored_truncation,
    written_names,
)
from ocbnn.resources import free_memory
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import dump_rules
from ocbnn.schema import Schema
from ocbnn.storing.documents import (
    LARGEST_RULES,
    LARGEST_TEXT,
    checked,
    checked_arrays,
    checked_rules,
    declared_arrays,
    declared_files,
    first_complaint,
    json_text,
    opened,
    read_json,
    sealed,
    written_arrays,
)
from ocbnn.storing.folders import existing_folder, read_file, write_folder
from ocbnn.storing.parts import Arrays, stored_likelihood, stored_network

VERSION = 1
MODEL, RULES, DRAWS, DIAGNOSTICS = "model.json", "rules.yaml", "draws.safetensors", "diagnostics.json"
WITHOUT_RULES, EVIDENCE = "without_rules", "evidence.json"
NAMES = (MODEL, RULES, DRAWS, DIAGNOSTICS, WITHOUT_RULES, EVIDENCE)
"""All that the folder of a saved model may hold."""
TOLD = (
    "status",
    "converged",
    "diagnostics",
    "acceptance",
    "divergences",
    "seconds",
    "unmet",
    "not_shown",
)
"""What of the provenance is in diagnostics.json too."""
LARGEST_DRAWS = 8 * 2**30
LARGEST_DIAGNOSTICS = 4 * 2**20
NO_RULES = b"[]\n"


class Loaded(NamedTuple):
    """What a saved model holds."""

    posterior: Posterior
    estimator: dict[str, Any] | None
    diagnostics: dict[str, Any]


def save(
    path: str | os.PathLike[str],
    posterior: Posterior,
    *,
    estimator: Mapping[str, Any] | None = None,
    beside: Mapping[str, bytes] | None = None,
) -> None:
    """Write a posterior as the folder `path`, in place of an earlier one; a crash leaves that one whole.

    Args:
        path: a folder of its own.
        posterior: with an MLP, the library's terms, and rules that can be said in words.
        estimator: plain JSON values to keep with it: how `load` gets the estimator back.
        beside: further files by name, such as those of `without_rules/`.

    Raises:
        FileError: a part that cannot be written down (Python functions), or a path that cannot be written.
    """
    write_folder(path, {**packed(posterior, estimator=estimator), **(beside or {})}, replaces=NAMES)


def packed(posterior: Posterior, *, estimator: Mapping[str, Any] | None = None) -> dict[str, bytes]:
    """The files of a saved posterior by name.

    Raises:
        FileError: a part that cannot be written down.
    """
    arrays = arrays_of(posterior)
    diagnostics = {name: posterior.provenance[name] for name in TOLD if name in posterior.provenance}
    files = {
        RULES: _rules_text(posterior),
        DRAWS: written_arrays(arrays),
        DIAGNOSTICS: json_text(diagnostics),
    }
    files[MODEL] = sealed(_stored(posterior, arrays, files, estimator))
    for name, most in ((MODEL, LARGEST_TEXT), (DIAGNOSTICS, LARGEST_DIAGNOSTICS), (RULES, LARGEST_RULES)):
        if len(files[name]) > most:
            raise FileError(f"{name} would have {len(files[name]):,} bytes, more than {most:,}.")
    return files


def load(path: str | os.PathLike[str], *, largest: int | None = None) -> Loaded:
    """Read what `save` wrote.

    Args:
        path: the folder.
        largest: bytes of draws that may be read into memory; 8 GiB unless given, or a quarter of the memory
            that is free where that is less.

    Raises:
        FileError: a newer format, or a file that is damaged, missing, too large, or does not fit the others.
    """
    folder = existing_folder(path)
    # A file can have more bytes than it takes on the disk, and reading takes two copies of them.
    most = min(LARGEST_DRAWS, free_memory() // 4) if largest is None else largest
    text = read_file(folder, MODEL, LARGEST_TEXT)
    stored = opened(text, str(folder / MODEL), StoredModel, format="ocbnn", version=VERSION)
    try:
        schema = Schema.from_json(stored.schema_)
        network = require_shapes(stored, schema)
        diagnostics = read_json(checked(folder, DIAGNOSTICS, stored.files, LARGEST_DIAGNOSTICS), DIAGNOSTICS)
        constraints = _constraints(folder, stored, schema)
        arrays = checked_arrays(
            checked(folder, DRAWS, stored.files, most, stored.arrays), DRAWS, stored.arrays
        )
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
    own = [term.rule for term in posterior.rules]
    if any(term.rule not in own for term in posterior.enforced):
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
            prior_scale=stored_scale(model.base),
            learnt=stored_learnt(model.base),
            rules=stored_rules(posterior),
            conditional=isinstance(model.prior, ConditionalPrior),
            arrays=declared_arrays(arrays),
            provenance=dict(posterior.provenance),
            truncated=stored_truncation(posterior),
            estimator=None if estimator is None else dict(estimator),
            files=declared_files(files),
        )
    except RuleError as error:
        raise FileError(f"The model cannot be saved: {error}") from None
    except ValidationError as error:
        raise FileError(f"The model cannot be saved: {first_complaint(error)}.") from None


def _rules_text(posterior: Posterior) -> bytes:
    terms, names = model_rules(posterior.model), written_names(posterior.model)
    rules = [replace(term.rule, name=name) for term, name in zip(terms, names, strict=True)]
    if not rules:
        return NO_RULES
    try:
        return dump_rules(rules, posterior.schema).encode()
    except RuleError as error:
        raise FileError(f"The model cannot be saved: {error}") from None


def _constraints(folder: Any, stored: StoredModel, schema: Schema) -> tuple[Constraint, ...]:
    if not stored.rules and checked(folder, RULES, stored.files, LARGEST_RULES) == NO_RULES:
        return ()
    return checked_rules(folder, RULES, stored.files, schema)
