"""A learnt prior as a folder of plain files.

manifest.json        version, and the size and checksum of every other file
prior.json           network, likelihood, schema, rules' terms, findings
rules.yaml           the rules it has learnt, in words
prior.safetensors    mean and standard deviation of every weight, also before the rules; points of rules
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocbnn.amortize.findings import Findings
from ocbnn.amortize.prior import AmortizedPrior
from ocbnn.errors import FileError, OCBNNError
from ocbnn.model import pack
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.networks import Network
from ocbnn.schema import Schema
from ocbnn.storage.arrays import Arrays, array_bytes
from ocbnn.storage.documents import LARGEST_INPUT, json_bytes
from ocbnn.storage.folders import Folder, read_folder, write_folder
from ocbnn.storage.values import exact, from_exact, restored

KIND = "prior"
PRIOR, RULES, ARRAYS = "prior.json", "rules.yaml", "prior.safetensors"
LARGEST_ARRAYS = 2**30
GAUSSIAN, BASE = "learnt", "base"


@dataclass(frozen=True)
class LearntValues:
    """What makes a Gaussian an amortized prior."""

    likelihood: dict[str, Any]
    findings: Findings


@dataclass(frozen=True)
class PriorValues:
    """The content of prior.json."""

    schema: dict[str, Any]
    network: dict[str, Any]
    learnt: dict[str, Any]
    rules: list[dict[str, Any]]


def save(path: str | os.PathLike[str], prior: AmortizedPrior) -> None:
    """Write a prior as the folder `path`, in place of an earlier one; a crash leaves that one whole.

    Raises:
        FileError: a part that cannot be written down (Python functions), or a path that cannot be written.
    """
    rules, terms, arrays = pack.pack_terms(prior.learnt, [rule.name for rule in prior.rules], prior.schema)
    learnt, of_prior = pack_amortized(prior)
    content = PriorValues(prior.schema.to_json(), pack.pack_network(prior.network), learnt, terms)
    files = {PRIOR: json_bytes(vars(content)), RULES: rules, ARRAYS: array_bytes(arrays | of_prior)}
    write_folder(path, KIND, files)


def load(path: str | os.PathLike[str]) -> AmortizedPrior:
    """Read what `save` wrote.

    Raises:
        FileError: another format, or a file that is damaged, missing, too large, or does not fit the others.
    """
    return read_folder(path, KIND, _unpack_prior)


def _unpack_prior(folder: Folder) -> AmortizedPrior:
    stored = restored(PriorValues, folder.json(PRIOR), PRIOR)
    try:
        schema = Schema.from_json(stored.schema)
        network = pack.unpack_network(stored.network, schema)
        rules = pack.unpack_rules(folder.read(RULES, LARGEST_INPUT), stored.rules, schema)

        def fit(declared: Mapping[str, Any]) -> None:
            shapes = amortized_shapes(network.size) | pack.term_shapes(declared, rules, schema)
            pack.require_shapes(declared, shapes)

        arrays = folder.arrays(ARRAYS, fit, LARGEST_ARRAYS)
        terms = pack.unpack_terms(stored.rules, rules, schema, arrays)
        prior = unpack_amortized(stored.learnt, arrays, terms, schema, network)
        if len(prior.learnt) != len(terms):
            raise FileError("The rules that the prior has learnt are not those of its findings.")
        return prior
    except FileError:
        raise
    except (OCBNNError, ValueError, TypeError, OverflowError, ArithmeticError) as error:
        raise FileError(f"The parts of the saved prior do not fit together: {error}") from None


# A learnt prior within another folder -----------------------------------------------------------------------


def pack_amortized(prior: AmortizedPrior) -> tuple[dict[str, Any], Arrays]:
    """The prior without its rules and network, which saved folders store in their own places."""
    values = {"likelihood": pack.pack_likelihood(prior.likelihood), "findings": exact(prior.findings)}
    return values, pack.pack_gaussian(GAUSSIAN, prior.gaussian) | pack.pack_gaussian(BASE, prior.base)


def amortized_shapes(size: int) -> pack.Shapes:
    """The arrays of a prior over so many weights."""
    return pack.gaussian_shapes(GAUSSIAN, size) | pack.gaussian_shapes(BASE, size)


def unpack_amortized(
    values: Any,
    arrays: Mapping[str, np.ndarray],
    terms: Sequence[RuleTerm],
    schema: Schema,
    network: Network,
) -> AmortizedPrior:
    """The prior that was packed; of the terms, it has learnt the last, one for each finding."""
    stored = restored(LearntValues, from_exact(values), "The learnt prior")
    count = len(stored.findings.rules)
    if not 0 < count <= len(terms):
        raise FileError("The rules that the prior has learnt are not those of its findings.")
    likelihood = pack.unpack_likelihood(stored.likelihood)
    learnt = tuple(terms[len(terms) - count :])
    gaussian, base = pack.unpack_gaussian(GAUSSIAN, arrays), pack.unpack_gaussian(BASE, arrays)
    return AmortizedPrior(gaussian, base, learnt, schema, network, likelihood, stored.findings)
