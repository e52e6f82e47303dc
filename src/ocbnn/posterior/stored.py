"""What `model.json` holds, validated field by field, and the way from there to a model and back.

Only what this file names can come out of a saved model: numbers, text, and the classes in the tables below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, JsonValue

from ocbnn.amortize.prior import AmortizedPrior
from ocbnn.amortize.stored import StoredLearnt, gaussian_arrays, restored_amortized, stored_amortized
from ocbnn.errors import FileError, OCBNNError
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.networks import MLP
from ocbnn.model.priors import DiagonalGaussian, IsotropicGaussian, Prior
from ocbnn.posterior.draws import Posterior
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import RuleEntry
from ocbnn.schema import Schema
from ocbnn.storing.documents import LARGEST_RULES
from ocbnn.storing.parts import (
    Arrays,
    Positive,
    StoredArray,
    StoredFile,
    StoredLikelihood,
    StoredNetwork,
    StoredRule,
    Strict,
    restored_likelihood,
    restored_network,
    restored_rule,
    rule_arrays,
    stored_rule,
)

GAUSSIAN = ("prior_mean", "prior_sd")
BASE = ("base_mean", "base_sd")


class StoredModel(Strict):
    """The content of model.json, without its own checksum.

    The base prior is N(0, prior_scale²), one scale for "each" weight, or a "gaussian" with means; `learnt`
    says what that has learnt. Of `rules`, those it has learnt are the last ones. `truncated` are the rules
    that predictions are restricted to, as in a file of rules; the first models had only their words.
    """

    format: Literal["ocbnn"]
    version: int
    written_by: str
    schema_: Annotated[dict[str, JsonValue], Field(alias="schema")]
    network: StoredNetwork
    likelihood: StoredLikelihood
    prior_scale: Positive | Literal["each", "gaussian"]
    learnt: StoredLearnt | None = None
    rules: Annotated[list[StoredRule], Field(max_length=10_000)]
    arrays: Annotated[dict[str, StoredArray], Field(max_length=30_000)]
    provenance: dict[str, JsonValue]
    truncated: Annotated[list[RuleEntry | str], Field(max_length=10_000, default_factory=list)]
    estimator: dict[str, JsonValue] | None
    files: dict[str, StoredFile]


# From objects to what is stored -----------------------------------------------------------------------------


def stored_scale(base: Prior) -> float | Literal["each", "gaussian"]:
    """The base prior's scale, or how it is stored as arrays."""
    if isinstance(base, AmortizedPrior | DiagonalGaussian):
        return "gaussian"
    if not isinstance(base, IsotropicGaussian):
        raise FileError(f"A base prior of the type {type(base).__name__} cannot be saved.")
    return float(base.scale) if np.ndim(base.scale) == 0 else "each"


def stored_learnt(base: Prior) -> StoredLearnt | None:
    """What the base prior has learnt, if it has."""
    return stored_amortized(base) if isinstance(base, AmortizedPrior) else None


def prior_arrays(base: Prior) -> Arrays:
    """What of the base prior is an array."""
    match base:
        case AmortizedPrior() as amortized:
            return gaussian_arrays(GAUSSIAN, amortized.gaussian) | gaussian_arrays(BASE, amortized.base)
        case DiagonalGaussian() as gaussian:
            return gaussian_arrays(GAUSSIAN, gaussian)
        case IsotropicGaussian(_, scale) if np.ndim(scale):
            return {"prior_scale": np.asarray(scale, dtype=np.float64)}
    return {}


def model_rules(model: Model) -> tuple[RuleTerm, ...]:
    """The rules the model is conditioned on, then all that its base prior has learnt."""
    return (*model.terms, *model.learnt)


def written_names(model: Model) -> list[str | None]:
    """What `model_rules` are called in a file of rules, where a name is given once.

    One that a learnt rule shares with another says which it is.
    """
    names = [term.rule.name for term in model.terms]
    for term in model.learnt:
        name = term.rule.name
        while name is not None and name in names:
            name = f"{name} (learnt)"
        names.append(name)
    return names


def stored_rules(posterior: Posterior) -> list[StoredRule]:
    """How each of the model's rules entered the prior, and whether draws were rejected for it."""
    model, enforced = posterior.model, [term.rule for term in posterior.enforced]
    return [
        stored_rule(
            term, enforced=term.rule in enforced, name=None if name == term.rule.name else term.rule.name
        )
        for term, name in zip(model_rules(model), written_names(model), strict=True)
    ]


def stored_truncation(posterior: Posterior) -> list[RuleEntry | str]:
    """The rules that predictions are restricted to, with all that is known of them."""
    return [RuleEntry.of(rule, posterior.schema) for rule in posterior.truncated]


def arrays_of(posterior: Posterior) -> Arrays:
    """Everything that is an array: draws, mask, points of the rules."""
    arrays = prior_arrays(posterior.model.base)
    draws = posterior.draws
    arrays["draws"] = draws if draws.dtype == np.float32 else draws.astype(np.float64)
    if posterior.kept is not None:
        arrays["kept"] = posterior.kept.astype(np.uint8)
    if posterior.log_density is not None:
        arrays["log_density"] = np.asarray(posterior.log_density, dtype=np.float64)
    for index, rule in enumerate(model_rules(posterior.model)):
        arrays |= rule_arrays(index, rule)
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


# And back ---------------------------------------------------------------------------------------------------


def require_shapes(stored: StoredModel, schema: Schema) -> MLP:
    """The network, after all declared shapes have been held against it: nothing is allocated before."""
    network = restored_network(stored.network, schema)
    size = network.size + restored_likelihood(stored.likelihood).size
    draws = stored.arrays.get("draws")
    if draws is None or len(draws.shape) != 3 or draws.shape[2] != size or 0 in draws.shape:
        raise FileError(f"The draws are missing, or are not of the {size} weights that the network has.")
    chains = draws.shape[:2]
    expected: dict[str, list[Any]] = {"kept": chains, "log_density": chains}
    of_prior = _prior_names(stored)
    expected |= {name: [network.size] for name in of_prior}
    for index in range(len(stored.rules)):
        points = stored.arrays.get(f"rules.{index}.points")
        if points is None or len(points.shape) != 2 or points.shape[1] != len(schema.columns):
            raise FileError(f"The points of rule {index + 1} are missing or of the wrong shape.")
        expected[f"rules.{index}.points"] = points.shape
        expected[f"rules.{index}.weights"] = points.shape[:1]
    for name, array in stored.arrays.items():
        if name != "draws" and expected.get(name) != array.shape:
            raise FileError(f"The array {name!r} has the shape {array.shape}, which fits nothing here.")
    needed = [*of_prior, *(name for name in expected if name.startswith("rules."))]
    missing = [name for name in needed if name not in stored.arrays]
    if missing:
        raise FileError(f"The array {missing[0]!r} is missing.")
    return network


def _prior_names(stored: StoredModel) -> tuple[str, ...]:
    """The arrays of the base prior."""
    if stored.prior_scale == "gaussian":
        return GAUSSIAN if stored.learnt is None else GAUSSIAN + BASE
    return ("prior_scale",) if stored.prior_scale == "each" else ()


def restored_posterior(
    stored: StoredModel,
    schema: Schema,
    network: MLP,
    constraints: Sequence[Constraint],
    arrays: Mapping[str, np.ndarray],
) -> Posterior:
    """The posterior that was stored, without its data.

    Samplers that start from rows start from the rule's own points: training rows are not in the file.
    """
    likelihood = restored_likelihood(stored.likelihood)
    if len(constraints) != len(stored.rules):
        raise FileError(f"rules.yaml has {len(constraints)} rules, but the model {len(stored.rules)}.")
    try:
        terms = tuple(
            restored_rule(each, rule, schema, arrays, index)
            for index, (each, rule) in enumerate(zip(stored.rules, constraints, strict=True))
        )
        own = len(terms) - (0 if stored.learnt is None else stored.learnt.rules)
        base = _restored_base(stored, schema, network, terms[max(own, 0) :], arrays)
        model = Model(network, likelihood, base, terms[:own], schema)
        flagged = [term.rule for term, each in zip(terms, stored.rules, strict=True) if each.enforced]
        return Posterior(
            arrays["draws"],
            model,
            stored.provenance,
            kept=arrays["kept"].astype(bool) if "kept" in arrays else None,
            enforced=tuple(term for term in model.rules if term.rule in flagged),
            truncated=_restored_truncation(stored, schema),
            log_density=arrays.get("log_density"),
        )
    except FileError:
        raise
    except (OCBNNError, ValueError) as error:
        raise FileError(f"The parts of the saved model do not fit together: {error}") from None


def _restored_truncation(stored: StoredModel, schema: Schema) -> tuple[Constraint, ...]:
    entries = [RuleEntry(rule=each) if isinstance(each, str) else each for each in stored.truncated]
    if sum(len(each.model_dump_json()) for each in entries) > LARGEST_RULES:
        raise FileError(f"The rules to truncate by have more than {LARGEST_RULES:,} characters.")
    return tuple(each.constraint(schema) for each in entries)


def _restored_base(
    stored: StoredModel,
    schema: Schema,
    network: MLP,
    learnt: tuple[RuleTerm, ...],
    arrays: Mapping[str, np.ndarray],
) -> Prior:
    if stored.prior_scale == "each":
        return IsotropicGaussian(network.size, arrays["prior_scale"])
    if stored.prior_scale != "gaussian":
        return IsotropicGaussian(network.size, stored.prior_scale)
    gaussian = DiagonalGaussian(*(arrays[name] for name in GAUSSIAN))
    if stored.learnt is None:
        return gaussian
    base = DiagonalGaussian(*(arrays[name] for name in BASE))
    return restored_amortized(stored.learnt, gaussian, base, learnt, schema, network)
