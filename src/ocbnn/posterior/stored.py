"""What `model.json` holds, validated field by field, and the way from there to a model and back.

Only what this file names can come out of a saved model: numbers, text, and the classes in the tables below.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ocbnn.errors import FileError, OCBNNError
from ocbnn.inference.feed import rule_terms
from ocbnn.likelihoods import Balanced, Bernoulli, Categorical, Gaussian, Likelihood
from ocbnn.model import Model
from ocbnn.networks import MLP, Network
from ocbnn.posterior.draws import Posterior
from ocbnn.priors.base import Prior
from ocbnn.priors.conditional import ConditionalPrior, RuleTerm
from ocbnn.priors.isotropic import IsotropicGaussian
from ocbnn.priors.terms import TERMS, Term
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Schema

Arrays = dict[str, np.ndarray]
Dtype = Literal["F32", "F64", "U8"]

Count = Annotated[int, Field(ge=0, le=2**40)]
Width = Annotated[int, Field(ge=1, le=1_000_000)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Strict(BaseModel):
    """No field is unknown, none is guessed from another type."""

    model_config = ConfigDict(extra="forbid", strict=True, validate_by_name=True, validate_by_alias=True)


class StoredNetwork(Strict):
    """An MLP."""

    inputs: Width
    hidden: Annotated[list[Width], Field(max_length=100)]
    outputs: Width
    activation: Annotated[str, Field(max_length=100)]


class StoredLikelihood(Strict):
    """Gaussian, Bernoulli or categorical; `log_weights` where classes are weighted."""

    kind: Literal["gaussian", "bernoulli", "categorical"]
    noise: Positive | None = None
    noise_prior: Positive = 1.0
    outputs: Width = 1
    classes: Width = 2
    log_weights: list[Finite] | None = None


class StoredRule(Strict):
    """How a rule entered the prior; its words are in rules.yaml, its points beside the draws."""

    term: str
    settings: dict[str, bool | int | Finite | list[Finite] | None]
    strength: Positive
    strength_is_free: bool
    reduction: Literal["sum", "mean"]
    sampler: str | None
    drawn: Count
    enforced: bool


class StoredFile(Strict):
    """Size and checksum of one of the other files."""

    bytes: Count
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class StoredArray(Strict):
    """What one array of draws.safetensors has to look like."""

    dtype: Dtype
    shape: Annotated[list[Count], Field(max_length=3)]

    @property
    def bytes(self) -> int:
        """How much room it takes."""
        count = {"F32": 4, "F64": 8, "U8": 1}[self.dtype]
        for length in self.shape:
            count *= length
        return count


class StoredModel(Strict):
    """The content of model.json, without its own checksum."""

    format: Literal["ocbnn"]
    version: int
    written_by: str
    schema_: Annotated[dict[str, JsonValue], Field(alias="schema")]
    network: StoredNetwork
    likelihood: StoredLikelihood
    prior_scale: Positive | Literal["each"]
    rules: Annotated[list[StoredRule], Field(max_length=10_000)]
    conditional: bool
    arrays: Annotated[dict[str, StoredArray], Field(max_length=30_000)]
    provenance: dict[str, JsonValue]
    estimator: dict[str, JsonValue] | None
    files: dict[str, StoredFile]


# From objects to what is stored -----------------------------------------------------------------------------


def stored_network(network: Network) -> StoredNetwork:
    """An MLP's widths and activation; nothing else can be written down."""
    if not isinstance(network, MLP):
        raise FileError(
            f"A {type(network).__name__} holds Python functions, which cannot be saved: opening a model "
            "must not run code. Use an MLP, or keep the posterior in memory (pickle)."
        )
    return StoredNetwork(
        inputs=network.inputs,
        hidden=list(network.hidden),
        outputs=network.outputs,
        activation=network.activation,
    )


def stored_likelihood(likelihood: Likelihood) -> StoredLikelihood:
    """The likelihood's kind and settings."""
    match likelihood:
        case Gaussian(noise, noise_prior, outputs):
            return StoredLikelihood(kind="gaussian", noise=noise, noise_prior=noise_prior, outputs=outputs)
        case Bernoulli():
            return StoredLikelihood(kind="bernoulli")
        case Categorical(classes):
            return StoredLikelihood(kind="categorical", classes=classes)
        case Balanced(inner, log_weights):
            return stored_likelihood(inner).model_copy(update={"log_weights": list(log_weights)})
    raise FileError(f"A likelihood of the type {type(likelihood).__name__} cannot be saved.")


def stored_prior(prior: Prior | ConditionalPrior) -> tuple[float | Literal["each"], Arrays]:
    """The base prior's scale: one number, or one for each weight as an array."""
    base = prior.base if isinstance(prior, ConditionalPrior) else prior
    if not isinstance(base, IsotropicGaussian):
        raise FileError(f"A base prior of the type {type(base).__name__} cannot be saved.")
    if np.ndim(base.scale) == 0:
        return float(base.scale), {}
    return "each", {"prior_scale": np.asarray(base.scale, dtype=np.float64)}


def stored_rule(rule: RuleTerm, *, enforced: bool) -> StoredRule:
    """A rule's term, strength and sampler."""
    library: dict[str, type] = {name: type(known) for name, known in TERMS.items()}
    if library.get(rule.term.name) is not type(rule.term):
        raise FileError(f"The term {rule.term.name!r} is not one of the library's, so it cannot be saved.")
    fields: dict[str, Any] = vars(rule.term)
    settings = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return StoredRule(
        term=rule.term.name,
        settings=settings,
        strength=float(np.asarray(rule.points.strength)),
        strength_is_free=rule.strength_is_free,
        reduction=rule.reduction,
        sampler=rule.sampler,
        drawn=rule.drawn,
        enforced=enforced,
    )


def arrays_of(posterior: Posterior) -> Arrays:
    """Everything that is an array: draws, mask, points of the rules."""
    _, arrays = stored_prior(posterior.model.prior)
    draws = posterior.draws
    arrays["draws"] = draws if draws.dtype == np.float32 else draws.astype(np.float64)
    if posterior.kept is not None:
        arrays["kept"] = posterior.kept.astype(np.uint8)
    if posterior.log_density is not None:
        arrays["log_density"] = np.asarray(posterior.log_density, dtype=np.float64)
    if posterior.prior_correction is not None:
        arrays["prior_correction"] = np.asarray(posterior.prior_correction, dtype=np.float64)
    for index, rule in enumerate(posterior.rules):
        arrays[f"rules.{index}.points"] = np.asarray(rule.points.coded, dtype=np.float64)
        arrays[f"rules.{index}.weights"] = np.asarray(rule.points.weights, dtype=np.float64)
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


# And back ---------------------------------------------------------------------------------------------------


def restored_likelihood(stored: StoredLikelihood) -> Likelihood:
    """The likelihood that was stored."""
    if stored.kind == "gaussian":
        return Gaussian(stored.noise, stored.noise_prior, stored.outputs)
    plain = Bernoulli() if stored.kind == "bernoulli" else Categorical(stored.classes)
    return plain if stored.log_weights is None else Balanced(plain, tuple(stored.log_weights))


def restored_term(stored: StoredRule) -> Term:
    """The term that was stored, of one of the library's own types."""
    if stored.term not in TERMS:
        raise FileError(f"A rule has the term {stored.term!r}, which this version of ocbnn does not know.")
    settings = {n: tuple(v) if isinstance(v, list) else v for n, v in stored.settings.items()}
    try:
        return type(TERMS[stored.term])(**settings)
    except TypeError as error:
        raise FileError(f"The settings of the term {stored.term!r} are damaged: {error}.") from None


def require_shapes(stored: StoredModel, schema: Schema) -> MLP:
    """The network, after all declared shapes have been held against it: nothing is allocated before."""
    network = MLP(
        stored.network.inputs,
        tuple(stored.network.hidden),
        stored.network.outputs,
        stored.network.activation,
    )
    if network.inputs != schema.width:
        raise FileError(f"The network has {network.inputs} inputs, but the table gives {schema.width}.")
    size = network.size + restored_likelihood(stored.likelihood).size
    draws = stored.arrays.get("draws")
    if draws is None or len(draws.shape) != 3 or draws.shape[2] != size or 0 in draws.shape:
        raise FileError(f"The draws are missing, or are not of the {size} weights that the network has.")
    chains = draws.shape[:2]
    expected: dict[str, list[Any]] = {"kept": chains, "log_density": chains, "prior_scale": [network.size]}
    expected["prior_correction"] = [stored.likelihood.classes]
    for index in range(len(stored.rules)):
        points = stored.arrays.get(f"rules.{index}.points")
        if points is None or len(points.shape) != 2 or points.shape[1] != len(schema.columns):
            raise FileError(f"The points of rule {index + 1} are missing or of the wrong shape.")
        expected[f"rules.{index}.points"] = points.shape
        expected[f"rules.{index}.weights"] = points.shape[:1]
    for name, array in stored.arrays.items():
        if name != "draws" and expected.get(name) != array.shape:
            raise FileError(f"The array {name!r} has the shape {array.shape}, which fits nothing here.")
    missing = [name for name in expected if name.startswith("rules.") and name not in stored.arrays]
    if missing or (stored.prior_scale == "each") != ("prior_scale" in stored.arrays):
        raise FileError(f"The array {(missing or ['prior_scale'])[0]!r} is missing.")
    return network


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
    scale = arrays["prior_scale"] if stored.prior_scale == "each" else stored.prior_scale
    base = IsotropicGaussian(network.size, scale)
    try:
        terms = tuple(
            _restored_rule(each, rule, schema, arrays, index)
            for index, (each, rule) in enumerate(zip(stored.rules, constraints, strict=True))
        )
        prior = ConditionalPrior(base, network, likelihood, terms) if stored.conditional else base
        model = Model(network, likelihood, prior, schema)
        enforced = tuple(
            term for term, each in zip(rule_terms(model), stored.rules, strict=True) if each.enforced
        )
        return Posterior(
            arrays["draws"],
            model,
            stored.provenance,
            kept=arrays["kept"].astype(bool) if "kept" in arrays else None,
            prior_correction=arrays.get("prior_correction"),
            enforced=enforced,
            log_density=arrays.get("log_density"),
        )
    except FileError:
        raise
    except (OCBNNError, ValueError) as error:
        raise FileError(f"The parts of the saved model do not fit together: {error}") from None


def _restored_rule(
    stored: StoredRule, rule: Constraint, schema: Schema, arrays: Mapping[str, np.ndarray], index: int
) -> RuleTerm:
    points, weights = arrays[f"rules.{index}.points"], arrays[f"rules.{index}.weights"]
    # Points need a rule term to be located, and a rule term needs points: begin with none.
    empty = RuleTerm(rule, schema, restored_term(stored), None, stored.reduction)  # type: ignore[arg-type]
    located = empty.at(points, weights=weights, strength=stored.strength)
    return dataclasses.replace(
        empty,
        points=located,
        sampler=stored.sampler,
        data=points,
        drawn=stored.drawn,
        strength_is_free=stored.strength_is_free,
    )
