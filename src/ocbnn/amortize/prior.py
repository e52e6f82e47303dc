"""The amortized prior (AOCP): rules learnt once into a Gaussian over weights, for any number of data sets.

prior = AmortizedPrior.learn(["always x * y >= 0"], schema, hidden=(10,))
print(prior.findings)
model = Model.build(frame=frame, target="y", base=prior, noise=0.1)     # and again for the next frame

Method, measurements and what differs from the paper: docs/amortize.md.

A saved prior is a folder of plain files:

    manifest.json        version, and the size and checksum of every other file
    prior.json           network, likelihood, schema, rules' terms, findings
    rules.yaml           the rules it has learnt, in words
    prior.safetensors    mean and standard deviation of every weight, also before the rules; points of rules
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from ocbnn.amortize.findings import (
    Findings,
    RuleFinding,
    band_ratio,
    checked,
    chosen_concentration,
    concentrated,
    far_and_wide,
    far_from,
    raw_outputs,
)
from ocbnn.amortize.learning import Elsewhere, Learning, Learnt, Problem, claims, closest, learn
from ocbnn.amortize.objectives import Objective, allowed_outputs, asked_distribution
from ocbnn.amortize.objectives import divergence as named_divergence
from ocbnn.errors import FileError, ModelError, OCBNNError, OCBNNWarning
from ocbnn.inference.feed import Feed
from ocbnn.model import pack
from ocbnn.model.conditional import RuleTerm, Scoring, rule_points, rule_terms
from ocbnn.model.likelihoods import Likelihood, Noise, VaryingGaussian
from ocbnn.model.model import Model, default_likelihood
from ocbnn.model.networks import MLP, Key, Network
from ocbnn.model.outputs import enabled_precision, precision
from ocbnn.model.priors import DiagonalGaussian, IsotropicGaussian, LayerScales, Prior, as_diagonal
from ocbnn.model.programs import release_programs
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema
from ocbnn.seeds import seed_for
from ocbnn.storage.arrays import Arrays, array_bytes
from ocbnn.storage.documents import LARGEST_INPUT, json_bytes
from ocbnn.storage.folders import Folder, read_folder, write_folder
from ocbnn.storage.values import exact, from_exact, restored

WIDE_INPUTS = 1024
CLAIMED_POINTS, CLAIMED_SAMPLES = 512, 256
"""Of the objective's own figures, after learning."""
KIND = "prior"
PRIOR, RULES, ARRAYS = "prior.json", "rules.yaml", "prior.safetensors"
LARGEST_ARRAYS = 2**30
GAUSSIAN, BASE = "learnt", "base"


@dataclass(frozen=True, eq=False)
class AmortizedPrior:
    """A Gaussian over a network's weights that has learnt rules; a `Prior`, usable wherever one is.

    Attributes:
        gaussian: mean and standard deviation of every weight.
        base: the same before any rule was learnt.
        learnt: the rules it has learnt, as the posterior checks and enforces them.
        schema: the table, in whose units it was learnt.
        network: whose weights it is about.
        likelihood: gave outputs their meaning.
        findings: how well it keeps its rules, by Monte Carlo of itself.
    """

    gaussian: DiagonalGaussian
    base: DiagonalGaussian
    learnt: tuple[RuleTerm, ...]
    schema: Schema
    network: Network
    likelihood: Likelihood
    findings: Findings

    @property
    def rules(self) -> tuple[Constraint, ...]:
        """The rules it has learnt."""
        return tuple(term.rule for term in self.learnt)

    @property
    def size(self) -> int:
        return self.gaussian.size

    def log_density(self, w: Float[Array, " size"]) -> Float[Array, ""]:
        return self.gaussian.log_density(w)

    def sample(self, key: Key) -> Float[Array, " size"]:
        return self.gaussian.sample(key)

    def draws(self, count: int, seed: int = 0) -> Float[np.ndarray, "count size"]:
        """Independent draws of the weights, in float64."""
        return self.gaussian.draws(count, seed)

    @classmethod
    def learn(
        cls,
        rules: Sequence[Constraint | str],
        schema: Schema,
        network: Network | None = None,
        *,
        hidden: Sequence[int] = (10,),
        activation: str = "rbf",
        base: Prior | None = None,
        noise: Noise = None,
        data: pd.DataFrame | None = None,
        objective: Literal["auto", "linearized", "monte-carlo"] = "auto",
        divergence: str = "total-variation",
        observation: bool = False,
        concentration: float | None = None,
        sampler: str | None = None,
        learning: Learning | None = None,
        seed: int = 0,
    ) -> AmortizedPrior:
        """Learn the Gaussian closest to `base` that keeps the rules within their tolerances.

        Args:
            rules: constraints, or rules in words.
            schema: the table the rules speak of; data sets that use the prior are read in its units.
            network: any network; an MLP of the widths `hidden` unless given.
            hidden: units of each hidden layer.
            activation: "rbf", "tanh", "relu" or "gelu".
            base: the Gaussian prior before rules; N(0, 1) on every weight unless given.
            noise: standard deviation of y in raw units, where rules speak of observations.
            data: rows that say which inputs are realistic, for samplers that use them; their target is not
                looked at.
            objective: "linearized" (paper, appendix B), "monte-carlo" (exact, any number of classes), or
                "auto", which is the latter.
            divergence: for rules that ask for a distribution, a name in `amortize.objectives.DIVERGENCES`.
            observation: rules speak of Y, noise included, rather than of Φ_w.
            concentration: what the learnt standard deviations are divided by; unless given, the smallest
                number from 1 on at which draws keep the rules within tolerance.
            sampler: a name in `regions.SAMPLERS`; each region has its own otherwise.
            learning: steps, points, samples; `Learning.paper(steps)` is the paper's way.
            seed: of everything that is drawn.
        """
        with precision(enabled_precision()):
            constraints = [parse_rule(rule, schema) if isinstance(rule, str) else rule for rule in rules]
            likelihood = default_likelihood(schema, noise)
            network = network or MLP(schema.width, tuple(hidden), likelihood.outputs, activation)
            learning = learning or Learning.for_network(network)
            gaussian_base = _gaussian_base(base, network)
            _require_learnable(constraints, schema, likelihood, objective, observation, noise)
            release_programs()
            linearized = objective == "linearized"
            coded = None if data is None else schema.encode(data)
            scoring = Scoring(points=learning.points, sampler=sampler, key=seed)
            terms = rule_terms(constraints, schema, scoring, bounded=network.bounded, data=coded)
            model = Model(network, likelihood, gaussian_base, terms, schema)
            wide = far_and_wide(schema, coded, WIDE_INPUTS, seed_for(seed, "wide inputs"))
            inputs = schema.to_model(wide)
            values = raw_outputs(model, gaussian_base, inputs, seed)
            problem = Problem(
                network,
                gaussian_base,
                tuple(constraints),
                tuple(_budget(rule, divergence) for rule in constraints),
                Objective(
                    likelihood,
                    named_divergence(divergence),
                    noise=getattr(likelihood, "noise", None),
                    observation=observation,
                    linearized=linearized,
                    smooth=not linearized and not (isinstance(network, MLP) and network.plain),
                ),
                Elsewhere(inputs, values.mean(axis=0), np.maximum(values.std(axis=0), 1e-6)),
            )
            learnt = closest(
                problem, learn(problem, Feed(model, seed_for(seed, "learning points"), None), learning, seed)
            )
            gaussian, found, concentration = _finished(problem, learnt, model, concentration, seed)
            far = schema.to_model(far_from(terms, schema, wide))
            findings = Findings(
                rules=found,
                objective="linearized" if linearized else "monte-carlo",
                divergence=divergence,
                observation=observation,
                concentration=concentration,
                kl=gaussian.kl_to(gaussian_base),
                band=band_ratio(model, gaussian, gaussian_base, far, seed),
            )
        for words in findings.complaints():
            warnings.warn(words, OCBNNWarning, stacklevel=2)
        return cls(gaussian, gaussian_base, terms, schema, network, likelihood, findings)

    def check(self, network: Network, schema: Schema) -> None:
        """Refuse a network or a table other than those the prior was learnt for.

        Raises:
            ModelError: what differs, and what to do.
        """
        if network is not self.network and network != self.network:
            raise ModelError(
                f"The amortized prior was learnt for {self.network!r}, not for {network!r}: its weights mean "
                "nothing there. Leave the network out (the prior brings its own), or learn a prior for it."
            )
        difference = schema_difference(self.schema, schema)
        if difference:
            raise ModelError(
                f"The amortized prior was learnt for another table: {difference}. Pass schema=prior.schema "
                "to read the new rows in the prior's units, or learn a prior for this table."
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the prior as the folder `path`, in place of an earlier one; a crash leaves that one whole.

        Raises:
            FileError: a part that cannot be written down (Python functions), or a path that cannot be
                written.
        """
        names = [rule.name for rule in self.rules]
        rules, terms, arrays = pack.pack_terms(self.learnt, names, self.schema)
        learnt, of_prior = pack_amortized(self)
        content = PriorValues(self.schema.to_json(), pack.pack_network(self.network), learnt, terms)
        files = {PRIOR: json_bytes(vars(content)), RULES: rules, ARRAYS: array_bytes(arrays | of_prior)}
        write_folder(path, KIND, files)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AmortizedPrior:
        """The prior that `save` wrote. Opening a file never runs code of its author.

        Raises:
            FileError: another format, or a file that is damaged, missing, too large, or does not fit the
                others.
        """
        return read_folder(path, KIND, _unpack_prior)

    def __repr__(self) -> str:
        rules = ", ".join(repr(rule.name) for rule in self.findings.rules)
        return f"<amortized prior over {self.size} weights; {rules}>\n{self.findings}"


def schema_difference(known: Schema, given: Schema) -> str | None:
    """What differs in the meaning of model inputs and of the target; ranges and bounds may differ."""
    if known.names != given.names:
        return f"its columns are {', '.join(known.names)}, those given {', '.join(given.names)}"
    pairs: list[tuple[Any, Any, tuple[str, ...]]] = [
        (own, other, ("kind", "levels", "transform", "center", "scale", "offset", "indicator", "mean"))
        for own, other in zip(known.columns, given.columns, strict=True)
    ]
    if known.target is not None and given.target is not None:
        pairs.append((known.target, given.target, ("task", "classes", "center", "scale", "transform")))
    for own, other, fields in pairs:
        for name in fields:
            before, after = getattr(own, name), getattr(other, name)
            if before != after:
                return f"{own.name!r} has the {name} {before!r}, the one given {after!r}"
    return None


def _gaussian_base(base: Prior | None, network: Network) -> DiagonalGaussian:
    if isinstance(base, LayerScales):  # the rules are learnt given the scales
        base = base.held
    gaussian = as_diagonal(IsotropicGaussian.for_network(network) if base is None else base)
    if gaussian is None:
        raise ModelError(
            f"An amortized prior stays close to a Gaussian base prior, and {type(base).__name__} is not "
            "Gaussian; use IsotropicGaussian or DiagonalGaussian."
        )
    if gaussian.size != network.size:
        raise ModelError(
            f"The base prior is over {gaussian.size} weights, but the network has {network.size}."
        )
    return gaussian


def _require_learnable(
    rules: Sequence[Constraint],
    schema: Schema,
    likelihood: Likelihood,
    objective: str,
    observation: bool,
    noise: Noise,
) -> None:
    if not rules:
        raise ModelError("There are no rules to learn; without any, use the base prior itself.")
    if objective not in ("auto", "linearized", "monte-carlo"):
        raise ModelError(f'objective is "auto", "linearized" or "monte-carlo", not {objective!r}.')
    assert schema.target is not None
    if schema.target.is_log:
        raise ModelError(
            f"Rules are learnt into a prior on the scale of {schema.target.name!r} itself, not of its log. "
            "Leave the log transform of the target out, or give the rules to the fit (rules=)."
        )
    if isinstance(likelihood, VaryingGaussian):
        raise ModelError(
            'noise="varying" is an output of the network with a prior of its own, which no rule teaches. '
            "Give a number, or learn the rules in the fit (rules=)."
        )
    if objective == "linearized" and likelihood.outputs > 1:
        raise ModelError(
            "The linearised predictive is for regression and for two classes (the paper leaves more "
            f'open), and {schema.target.name!r} has {likelihood.outputs}; use objective="monte-carlo".'
        )
    for rule in rules:
        if rule.by == "construction":
            raise ModelError(
                f"The rule `{rule.text(schema)}` is to hold by construction, and an amortized prior learns "
                "its rules. Leave `by` out, or give the rule to a fit without an amortized prior (rules=)."
            )
        _require_view(rule, schema, objective)
    speaks_of_noise = observation or any(rule.requirement.speaks_of_noise for rule in rules)
    if speaks_of_noise and schema.target.task == "regression" and noise is None:
        raise ModelError(
            "These rules speak of observations, noise included, so the noise must be known: give noise=…, a "
            f"standard deviation in the units of {schema.target.name!r}."
        )


def _require_view(rule: Constraint, schema: Schema, objective: str) -> None:
    """Refuse a rule that offers nothing which the objective can learn from."""
    requirement = rule.requirement
    demand = rule.demand(rule_points(seed_for(0, "learnable"), rule, schema, None, 1), schema)
    if rule.is_predictive:
        asked_distribution(requirement, demand)
        if not requirement.is_pointwise:
            raise ModelError(
                f"An amortized prior cannot learn the rule `{rule.text(schema)}`: it asks for a distribution "
                "over several inputs together. Add it as a conditional term (rules=)."
            )
    elif objective == "linearized" and allowed_outputs(requirement, demand) is None:
        raise ModelError(
            f"The linearised predictive has no closed form for the rule `{rule.text(schema)}`: it needs "
            'draws of the weights; use objective="monte-carlo".'
        )


def _budget(rule: Constraint, divergence: str) -> float:
    """The largest shortfall that the rule's tolerance allows."""
    tolerance = rule.effective_tolerance
    return named_divergence(divergence).budget(tolerance) if rule.is_predictive else tolerance


def _finished(
    problem: Problem, learnt: Learnt, model: Model, concentration: float | None, seed: int
) -> tuple[DiagonalGaussian, tuple[RuleFinding, ...], float]:
    """The prior after concentration, and what draws of it show of every rule."""
    terms = model.terms
    check = partial(checked, model, observation=problem.objective.observation, seed=seed)

    def kept(gaussian: DiagonalGaussian) -> bool:
        checks = (check(gaussian, term, purpose="concentration") for term in terms)
        return all(each.violation.value <= each.tolerance for each in checks)

    if concentration is None:
        concentration = chosen_concentration(learnt.gaussian, kept)
    gaussian = concentrated(learnt.gaussian, concentration)
    points = tuple(term.at(term.fresh(CLAIMED_POINTS, seed, "learning")) for term in terms)
    claimed = claims(problem, gaussian, points, CLAIMED_SAMPLES, seed)
    found = tuple(
        RuleFinding(check(gaussian, term, purpose="findings"), float(claim), float(multiplier))
        for term, claim, multiplier in zip(terms, claimed, learnt.multipliers, strict=True)
    )
    return gaussian, found, concentration


# Saving -----------------------------------------------------------------------------------------------------


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
        terms = pack.unpack_terms(stored.rules, rules, schema, network, arrays)
        prior = unpack_amortized(stored.learnt, arrays, terms, schema, network)
        if len(prior.learnt) != len(terms):
            raise FileError("The rules that the prior has learnt are not those of its findings.")
        return prior
    except FileError:
        raise
    except (OCBNNError, ValueError, TypeError, OverflowError, ArithmeticError) as error:
        raise FileError(f"The parts of the saved prior do not fit together: {error}") from None


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
