"""Saved models: a folder of plain files, and nothing in it that could run.

    manifest.json        version, and the size and checksum of every other file
    model.json           network, likelihood, schema, prior, rules' terms, provenance
    rules.yaml           the rules in words
    draws.safetensors    draws, and the points at which rules were scored
    diagnostics.json     how the run went

`ocbnn fit` keeps two things beside them: `without_rules/`, a posterior of the same rows without any rule, and
`evidence.json`, what a report says. Rows of the training table are not saved, apart from what the rules'
points took from them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ocbnn.amortize.prior import AmortizedPrior, amortized_shapes, pack_amortized, unpack_amortized
from ocbnn.errors import FileError, OCBNNError, RuleError
from ocbnn.model import Model, pack
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.forms import kept_by_form
from ocbnn.model.likelihoods import Likelihood
from ocbnn.model.networks import MLP
from ocbnn.model.priors import Prior
from ocbnn.posterior.draws import Posterior
from ocbnn.resources import free_memory
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import RuleEntry
from ocbnn.schema import Schema
from ocbnn.storage.arrays import Arrays, Declared, array_bytes
from ocbnn.storage.documents import LARGEST_INPUT, json_bytes
from ocbnn.storage.folders import LARGEST_TEXT, Folder, read_folder, write_folder
from ocbnn.storage.values import restored

KIND = "model"
MODEL, RULES, DRAWS, DIAGNOSTICS = "model.json", "rules.yaml", "draws.safetensors", "diagnostics.json"
TOLD = ("status", "converged", "diagnostics", "acceptance", "divergences", "seconds", "unmet", "not_shown")
"""What of the provenance is in diagnostics.json too."""
LARGEST_DRAWS = 8 * 2**30
LARGEST_DIAGNOSTICS = 4 * 2**20


class Loaded(NamedTuple):
    """What a saved model holds."""

    posterior: Posterior
    estimator: dict[str, Any] | None
    diagnostics: dict[str, Any]


@dataclass(frozen=True)
class ModelValues:
    """The content of model.json.

    Attributes:
        schema: the table.
        network, likelihood: with the name of their kind.
        base: a Gaussian base prior; None where it has learnt rules.
        learnt: a base prior that has learnt rules: the last ones of `rules`.
        rules: how each rule entered the prior.
        enforced: for each rule, whether draws were rejected for it.
        formed: how many rules the network keeps by its form: those before the learnt ones.
        truncated: the rules that predictions are restricted to, as in a file of rules.
        provenance: of the posterior.
        estimator: how `load` gets the estimator back.
    """

    schema: dict[str, Any]
    network: dict[str, Any]
    likelihood: dict[str, Any]
    base: dict[str, Any] | None
    learnt: dict[str, Any] | None
    rules: list[dict[str, Any]]
    enforced: list[bool]
    truncated: list[dict[str, Any]]
    provenance: dict[str, Any]
    estimator: dict[str, Any] | None
    formed: int = 0


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
    write_folder(path, KIND, pack_posterior(posterior, estimator))


def load(path: str | os.PathLike[str], *, largest: int | None = None) -> Loaded:
    """Read what `save` wrote.

    Args:
        path: the folder.
        largest: bytes of draws that may be read into memory; default: 8 GiB, or a quarter of the memory
            that is free where that is less.

    Raises:
        FileError: another format, or a file that is damaged, missing, too large, or does not fit the others.
    """
    return read_folder(path, KIND, lambda folder: unpack_posterior(folder, largest))


# From a posterior to files ----------------------------------------------------------------------------------


def pack_posterior(posterior: Posterior, estimator: Mapping[str, Any] | None = None) -> dict[str, bytes]:
    """The files of a saved posterior by name."""
    model, schema = posterior.model, posterior.schema
    enforced = [term.rule for term in posterior.enforced]
    own = [term.rule for term in posterior.rules]
    if any(rule not in own for rule in enforced):
        raise FileError(
            "The model cannot be saved: a rule was enforced on it that is not among its own. Enforce it "
            "again after loading, or fit with it."
        )
    terms = (*model.terms, *model.formed, *model.learnt)
    rules, values, arrays = pack.pack_terms(terms, _written_names(model), schema)
    learnt, base = None, None
    if isinstance(model.base, AmortizedPrior):
        learnt, of_prior = pack_amortized(model.base)
    else:
        base, of_prior = pack.pack_base(model.base)
    content = ModelValues(
        schema=schema.to_json(),
        network=pack.pack_network(model.network),
        likelihood=pack.pack_likelihood(model.likelihood),
        base=base,
        learnt=learnt,
        rules=values,
        enforced=[term.rule in enforced for term in terms],
        truncated=[_entry(rule, schema) for rule in posterior.truncated],
        provenance=dict(posterior.provenance),
        estimator=None if estimator is None else dict(estimator),
        formed=len(model.formed),
    )
    files = {
        MODEL: json_bytes(vars(content)),
        RULES: rules,
        DRAWS: array_bytes(arrays | of_prior | _drawn(posterior)),
        DIAGNOSTICS: json_bytes(
            {name: posterior.provenance[name] for name in TOLD if name in posterior.provenance}
        ),
    }
    for name, most in ((MODEL, LARGEST_TEXT), (DIAGNOSTICS, LARGEST_DIAGNOSTICS), (RULES, LARGEST_INPUT)):
        if len(files[name]) > most:
            raise FileError(
                f"The model cannot be saved: {name} would have {len(files[name]):,} bytes, more than the "
                f"limit of {most:,}. Use fewer or shorter rules, names or levels."
            )
    return files


def _written_names(model: Model) -> list[str | None]:
    """What the rules are called in rules.yaml, where a name is given once.

    One that a learnt rule shares with another says which it is.
    """
    names = [term.rule.name for term in (*model.terms, *model.formed)]
    for term in model.learnt:
        name = term.rule.name
        while name is not None and name in names:
            name = f"{name} (learnt)"
        names.append(name)
    return names


def _entry(rule: Constraint, schema: Schema) -> dict[str, Any]:
    try:
        return RuleEntry.of(rule, schema).model_dump(exclude_none=True)
    except RuleError as error:
        raise FileError(f"The model cannot be saved: {error}") from None


def _drawn(posterior: Posterior) -> Arrays:
    draws = posterior.draws
    arrays = {"draws": draws if draws.dtype == np.float32 else draws.astype(np.float64)}
    if posterior.kept is not None:
        arrays["kept"] = posterior.kept.astype(np.uint8)
    if posterior.log_density is not None:
        arrays["log_density"] = np.asarray(posterior.log_density, dtype=np.float64)
    return arrays


# And back ---------------------------------------------------------------------------------------------------


def unpack_posterior(folder: Folder, largest: int | None = None) -> Loaded:
    """The posterior in a folder, without its data: shapes are compared before arrays are read."""
    # A file can have more bytes than it takes on the disk, and reading takes two copies of them.
    most = min(LARGEST_DRAWS, free_memory() // 4) if largest is None else largest
    stored = restored(ModelValues, folder.json(MODEL), MODEL)
    try:
        schema = Schema.from_json(stored.schema)
        network = pack.unpack_network(stored.network, schema)
        rules = pack.unpack_rules(folder.read(RULES, LARGEST_INPUT), stored.rules, schema)
        likelihood = pack.unpack_likelihood(stored.likelihood)
        size = network.size + likelihood.size

        def fit(declared: Mapping[str, Declared]) -> None:
            """Refuse arrays that do not fit the network, the prior and the rules."""
            draws = declared.get("draws")
            if draws is None or len(draws.shape) != 3 or draws.shape[2] != size or 0 in draws.shape:
                raise FileError(f"The draws are missing, or not of the network's {size} weights.")
            learnt = stored.learnt is not None
            base = amortized_shapes(network.size) if learnt else pack.base_shapes(stored.base, network.size)
            optional = {name: draws.shape[:2] for name in ("kept", "log_density") if name in declared}
            of_rules = pack.term_shapes(declared, rules, schema)
            pack.require_shapes(declared, {"draws": draws.shape, **optional, **base, **of_rules})

        arrays = folder.arrays(DRAWS, fit, most)
        terms = pack.unpack_terms(stored.rules, rules, schema, network, arrays)
        posterior = _unpacked(stored, schema, network, likelihood, terms, arrays)
    except FileError:
        raise
    except (OCBNNError, ValueError, TypeError, OverflowError, ArithmeticError) as error:
        raise FileError(f"The parts of the saved model do not fit together: {error}") from None
    return Loaded(posterior, stored.estimator, folder.json(DIAGNOSTICS, LARGEST_DIAGNOSTICS))


def _unpacked(
    stored: ModelValues,
    schema: Schema,
    network: MLP,
    likelihood: Likelihood,
    terms: tuple[RuleTerm, ...],
    arrays: Arrays,
) -> Posterior:
    if len(stored.enforced) != len(terms):
        raise FileError("The rules for which draws were rejected are not those of the model.")
    own = terms
    if stored.learnt is None:
        base: Prior = pack.unpack_base(stored.base, arrays, network.size)
    else:
        base = unpack_amortized(stored.learnt, arrays, terms, schema, network)
        own = terms[: len(terms) - len(base.learnt)]
    scored = len(own) - stored.formed
    formed = own[scored:] if 0 <= stored.formed <= len(own) else ()
    if len(formed) != stored.formed or not all(kept_by_form(network, term.rule, schema) for term in formed):
        raise FileError(
            "The rules that hold by construction are not those that the network keeps by its form."
        )
    model = Model(network, likelihood, base, own[:scored], schema, formed=formed)
    flagged = [term.rule for term, flag in zip(terms, stored.enforced, strict=True) if flag]
    return Posterior(
        arrays["draws"],
        model,
        stored.provenance,
        kept=arrays["kept"].astype(bool) if "kept" in arrays else None,
        enforced=tuple(term for term in model.rules if term.rule in flagged),
        truncated=_truncation(stored.truncated, schema),
        log_density=arrays.get("log_density"),
    )


def _truncation(entries: list[dict[str, Any]], schema: Schema) -> tuple[Constraint, ...]:
    if len(json_bytes(entries)) > LARGEST_INPUT:
        raise FileError(f"The rules to truncate by have more than {LARGEST_INPUT:,} characters.")
    return tuple(restored(RuleEntry, each, "A rule to truncate by").constraint(schema) for each in entries)
