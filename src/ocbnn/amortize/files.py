"""A learnt prior as a folder of plain files.

prior.json           version, network, likelihood, schema, rules' terms, findings, checksums
rules.yaml           the rules it has learnt, in words
prior.safetensors    mean and standard deviation of every weight, also before the rules; points of rules
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, JsonValue, ValidationError

from ocbnn._version import __version__
from ocbnn.amortize.prior import AmortizedPrior
from ocbnn.amortize.stored import StoredLearnt, gaussian_arrays, restored_amortized, stored_amortized
from ocbnn.errors import FileError, OCBNNError, RuleError
from ocbnn.model.networks import MLP
from ocbnn.model.priors import DiagonalGaussian
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import dump_rules
from ocbnn.schema import Schema
from ocbnn.storing.documents import (
    LARGEST_TEXT,
    checked,
    checked_arrays,
    checked_rules,
    declared_arrays,
    declared_files,
    first_complaint,
    opened,
    sealed,
    written_arrays,
)
from ocbnn.storing.folders import existing_folder, read_file, write_folder
from ocbnn.storing.parts import (
    StoredArray,
    StoredFile,
    StoredNetwork,
    StoredRule,
    Strict,
    restored_network,
    restored_rule,
    rule_arrays,
    stored_network,
    stored_rule,
)

VERSION = 1
PRIOR, RULES, ARRAYS = "prior.json", "rules.yaml", "prior.safetensors"
LARGEST_ARRAYS = 2**30
GAUSSIAN, BASE = ("mean", "sd"), ("base_mean", "base_sd")


class StoredPrior(Strict):
    """The content of prior.json, without its own checksum."""

    format: Literal["ocbnn-prior"]
    version: int
    written_by: str
    schema_: Annotated[dict[str, JsonValue], Field(alias="schema")]
    network: StoredNetwork
    learnt: StoredLearnt
    rules: Annotated[list[StoredRule], Field(max_length=10_000)]
    arrays: Annotated[dict[str, StoredArray], Field(max_length=30_000)]
    files: dict[str, StoredFile]


def save(path: str | os.PathLike[str], prior: AmortizedPrior) -> None:
    """Write a prior as the folder `path`, in place of an earlier one; a crash leaves that one whole.

    Raises:
        FileError: a part that cannot be written down (Python functions), or a path that cannot be written.
    """
    arrays = gaussian_arrays(GAUSSIAN, prior.gaussian) | gaussian_arrays(BASE, prior.base)
    for index, term in enumerate(prior.learnt):
        arrays |= rule_arrays(index, term)
    arrays = {name: np.ascontiguousarray(array, dtype=np.float64) for name, array in arrays.items()}
    try:
        rules = dump_rules(prior.rules, prior.schema).encode()
    except RuleError as error:
        raise FileError(f"The prior cannot be saved: {error}") from None
    files = {RULES: rules, ARRAYS: written_arrays(arrays)}
    try:
        stored = StoredPrior(
            format="ocbnn-prior",
            version=VERSION,
            written_by=f"ocbnn {__version__}",
            schema_=prior.schema.to_json(),
            network=stored_network(prior.network),
            learnt=stored_amortized(prior),
            rules=[stored_rule(term, enforced=False) for term in prior.learnt],
            arrays=declared_arrays(arrays),
            files=declared_files(files),
        )
    except ValidationError as error:
        raise FileError(f"The prior cannot be saved: {first_complaint(error)}.") from None
    write_folder(path, {PRIOR: sealed(stored), **files})


def load(path: str | os.PathLike[str]) -> AmortizedPrior:
    """Read what `save` wrote.

    Raises:
        FileError: a newer format, or a file that is damaged, missing, too large, or does not fit the others.
    """
    folder = existing_folder(path)
    text = read_file(folder, PRIOR, LARGEST_TEXT)
    stored = opened(text, str(folder / PRIOR), StoredPrior, format="ocbnn-prior", version=VERSION)
    try:
        schema = Schema.from_json(stored.schema_)
        network = restored_network(stored.network, schema)
        constraints = checked_rules(folder, RULES, stored.files, schema)
        if len(constraints) != len(stored.rules):
            raise FileError(f"{RULES} has {len(constraints)} rules, but the prior {len(stored.rules)}.")
        _require_shapes(stored, schema, network, constraints)
        content = checked(folder, ARRAYS, stored.files, LARGEST_ARRAYS, stored.arrays)
        arrays = checked_arrays(content, ARRAYS, stored.arrays)
        terms = tuple(
            restored_rule(each, rule, schema, arrays, index)
            for index, (each, rule) in enumerate(zip(stored.rules, constraints, strict=True))
        )
        gaussian, base = (DiagonalGaussian(*(arrays[name] for name in names)) for names in (GAUSSIAN, BASE))
        return restored_amortized(stored.learnt, gaussian, base, terms, schema, network)
    except FileError as error:
        raise FileError(f"{folder} cannot be loaded: {error}") from None
    except (OCBNNError, ValueError, TypeError, KeyError, OverflowError, ArithmeticError) as error:
        raise FileError(f"{folder} is damaged, or not a saved prior: {error}") from None


def _require_shapes(
    stored: StoredPrior, schema: Schema, network: MLP, constraints: Sequence[Constraint]
) -> None:
    """Compare all declared shapes with the network, the table and the rules, before arrays are read."""
    expected: dict[str, Any] = {name: [network.size] for name in (*GAUSSIAN, *BASE)}
    for index, rule in enumerate(constraints):
        points = stored.arrays.get(f"rules.{index}.points")
        width = len(schema.columns) + rule.requirement.coordinates
        if points is None or len(points.shape) != 2 or points.shape[1] != width:
            raise FileError(f"The points of rule {index + 1} are missing or of the wrong shape.")
        expected[f"rules.{index}.points"] = points.shape
        expected[f"rules.{index}.weights"] = [1] if rule.requirement.inputs is None else points.shape[:1]
    if {name: array.shape for name, array in stored.arrays.items()} != expected:
        raise FileError(f"{ARRAYS} has other arrays than the network and the rules ask for.")
