"""Parts of a model as plain, validated values: networks, likelihoods, rules' terms, arrays; and back again.

Only what this file names can come out of a saved file: numbers, text, and the classes in the tables below.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ocbnn.errors import FileError
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.likelihoods import Balanced, Bernoulli, Categorical, Gaussian, Likelihood
from ocbnn.model.networks import MLP, Network
from ocbnn.model.terms import TERMS, Term
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
    """An MLP; earlier versions also wrote `mixing` and `gates`, which are read only to be refused."""

    inputs: Width
    hidden: Annotated[list[Width], Field(max_length=100)]
    outputs: Width
    activation: Annotated[str, Field(max_length=100)]
    mixing: Annotated[JsonValue, Field(exclude=True)] = None
    gates: Annotated[JsonValue, Field(exclude=True)] = None


class StoredLikelihood(Strict):
    """Gaussian, Bernoulli or categorical; `log_weights` where classes are weighted."""

    kind: Literal["gaussian", "bernoulli", "categorical"]
    noise: Positive | None = None
    noise_prior: Positive = 1.0
    outputs: Width = 1
    classes: Width = 2
    log_weights: list[Finite] | None = None


class StoredRule(Strict):
    """How a rule entered the prior; its words are in rules.yaml, its points beside the draws.

    `name` is the rule's own where rules.yaml, in which a name stands once, had to give it another.
    """

    term: str
    settings: dict[str, bool | int | Finite | list[Finite] | None]
    strength: Positive
    strength_is_free: bool
    reduction: Literal["sum", "mean"]
    sampler: str | None
    drawn: Count
    enforced: bool
    name: str | None = None


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


def stored_rule(rule: RuleTerm, *, enforced: bool, name: str | None = None) -> StoredRule:
    """A rule's term, strength and sampler; its own name where it is written under another."""
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
        name=name,
    )


def rule_arrays(index: int, rule: RuleTerm) -> Arrays:
    """The points of a rule."""
    return {
        f"rules.{index}.points": np.asarray(rule.points.coded, dtype=np.float64),
        f"rules.{index}.weights": np.asarray(rule.points.weights, dtype=np.float64),
    }


# And back ---------------------------------------------------------------------------------------------------


def restored_network(stored: StoredNetwork, schema: Schema) -> MLP:
    """The network that was stored, if this version has such networks and it takes what the table gives."""
    for part, content in (("gates", stored.gates), ("mixing", stored.mixing)):
        if content not in (None, []):
            raise FileError(
                f"The network has {part}, which this version of ocbnn no longer supports. Fit again with "
                "this version."
            )
    network = MLP(stored.inputs, tuple(stored.hidden), stored.outputs, stored.activation)
    if network.inputs != schema.width:
        raise FileError(f"The network has {network.inputs} inputs, but the table gives {schema.width}.")
    return network


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


def restored_rule(
    stored: StoredRule, rule: Constraint, schema: Schema, arrays: Mapping[str, np.ndarray], index: int
) -> RuleTerm:
    """A rule with its term and points.

    Samplers that start from rows start from the points drawn for the rule: training rows are not in the file,
    and corners and points that a search has found are no rows one could meet.
    """
    points, weights = arrays[f"rules.{index}.points"], arrays[f"rules.{index}.weights"]
    rule = rule if stored.name is None else dataclasses.replace(rule, name=stored.name)
    # Points are placed by a rule term, and a rule term needs points: begin with none.
    empty = RuleTerm(rule, schema, restored_term(stored), None, stored.reduction)  # type: ignore[arg-type]
    at = empty.at(points, weights=weights, strength=stored.strength)
    return dataclasses.replace(
        empty,
        points=at,
        sampler=stored.sampler,
        data=points[: stored.drawn or None, : len(schema.columns)],
        drawn=stored.drawn,
        strength_is_free=stored.strength_is_free,
    )
