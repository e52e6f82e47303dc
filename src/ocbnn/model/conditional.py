"""The conditional prior (COCP): any base prior times the terms of any number of rules (paper eq. 4).

    log p_C(w) = log p_f(w) + Σ_rules Σ_t weight_t · log p_g(Φ_w(x_t) | x_t)

Weights are 1 for `reduction="sum"`, the paper's equation, and 1/T for `"mean"`, whose strength does not
depend on the number of points. What may change between steps (points, strength) is in `RulePoints`, a pytree
that is an argument of every log-density here, so that changing it compiles nothing anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn import regions
from ocbnn.errors import ModelError
from ocbnn.model.likelihoods import Likelihood
from ocbnn.model.networks import AnyArray, Network
from ocbnn.model.priors import IsotropicGaussian, Prior
from ocbnn.model.terms import TERMS, OutputDensity, Setting, Strength, Term, default_term
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.located import (
    AllowedClasses,
    AllowedIntervals,
    AllowedValues,
    Located,
    NormalMixture,
    ProbabilityIntervals,
    TargetClassProbabilities,
    TargetProbability,
    in_model_units,
)
from ocbnn.schema import Schema, Target

Reduction = Literal["sum", "mean"]
REFERENCE_POINTS = 128


class RulePoints(NamedTuple):
    """The points at which one rule is scored, and how much they count."""

    coded: Float[AnyArray, "T Q"]
    inputs: Float[AnyArray, "T D"]
    located: Located  # in model units
    weights: Float[AnyArray, " T"]
    strength: Strength


@dataclass(frozen=True, eq=False)
class RuleTerm:
    """One rule with its calibrated term and its points."""

    rule: Constraint
    schema: Schema
    term: Term
    points: RulePoints
    reduction: Reduction = "mean"
    sampler: str | None = None
    data: Float[np.ndarray, "n Q"] | None = None
    drawn: int = 0  # how many points are drawn; the others are corners of the region, or were found
    strength_is_free: bool = False  # nobody has given one: inference looks for it
    corners: int = 0  # how many points after those drawn are corners of the region

    @classmethod
    def build(
        cls,
        rule: Constraint,
        schema: Schema,
        *,
        bounded: bool,
        data: Float[np.ndarray, "n Q"] | None = None,
        points: int = 100,
        reduction: Reduction = "mean",
        term: Term | str | None = None,
        strength: float | None = None,
        sampler: str | None = None,
        corners: bool = False,
        key: int = 0,
    ) -> RuleTerm:
        """Choose and calibrate the term, then draw the points; arguments as in `conditional_prior`."""
        target = _target(schema)
        chosen = _chosen_term(rule, schema, term)
        # `y ~ D` at more strength only makes functions narrower than D.
        free = strength is None and not isinstance(chosen, OutputDensity)
        strength = float(chosen.default_strength if strength is None else strength)
        if not (strength > 0 and np.isfinite(strength)):
            raise ModelError(
                f"The strength of {_named(rule, schema)} must be positive and finite, not {strength}."
            )
        if points < 1:
            raise ModelError(f"{_named(rule, schema)} needs at least one point, not {points}.")
        # The scale is part of what the rule means: it must not move with data, key or number of points.
        reference = regions.sample(rule_seed(0, rule, schema), rule.region, schema, None, REFERENCE_POINTS)
        setting = Setting(_located(rule, schema, reference), target, bounded, strength)
        if not isinstance(setting.located, chosen.accepts):
            suited = ", ".join(repr(t.name) for t in TERMS.values() if isinstance(setting.located, t.accepts))
            raise ModelError(
                f"The term {chosen.name!r} cannot score {_named(rule, schema)}; terms that can: {suited}."
            )
        coded = regions.sample(rule_seed(key, rule, schema), rule.region, schema, data, points, sampler)
        vertices = rule.region.vertices(schema) if corners else coded[:0]
        coded = np.concatenate([coded, vertices])
        placed = _placed(rule, schema, coded, _reduction_weights(len(coded), reduction), strength)
        calibrated = chosen.calibrated(setting)
        return cls(
            rule, schema, calibrated, placed, reduction, sampler, data, points, free, corners=len(vertices)
        )

    @property
    def tolerance(self) -> float:
        """The violation its author accepts."""
        return self.rule.effective_tolerance

    def at(
        self,
        coded: Float[np.ndarray, "T Q"],
        *,
        weights: Float[np.ndarray, " T"] | None = None,
        strength: Strength | None = None,
    ) -> RulePoints:
        """This rule at given points; weights follow the reduction, and strength stays, unless given."""
        if weights is None:
            weights = _reduction_weights(len(coded), self.reduction)
        strength = self.points.strength if strength is None else strength
        return _placed(self.rule, self.schema, coded, weights, strength)

    def fresh(self, count: int, key: int, purpose: str = "fresh points") -> Float[np.ndarray, "count Q"]:
        """Points of the rule's region that nothing with another purpose has seen, whatever its seeds were."""
        # Chunks of minibatch engines count upwards from the rule's own seed: any number added may be theirs.
        seed = _digest(f"{purpose}\n{rule_seed(key, self.rule, self.schema)}")
        return regions.sample(seed, self.rule.region, self.schema, self.data, count, self.sampler)

    def log_density(self, value: Array, points: RulePoints) -> Float[Array, ""]:
        """Σ_t weight_t · log p_g(value_t | x_t), value as `Likelihood.function` gives it at these points."""
        scores = self.term.log_density(self.rule.output, points.located, value, points.strength)
        return jnp.sum(jnp.asarray(points.weights, scores.dtype) * scores, axis=-1)


@dataclass(frozen=True, eq=False)
class ConditionalPrior:
    """Base prior × terms, over the network's weights.

    It is no `Prior` itself: its log-density lacks its normaliser, and draws of it are an engine's work.
    """

    base: Prior
    network: Network
    likelihood: Likelihood
    rules: tuple[RuleTerm, ...] = ()

    @property
    def size(self) -> int:
        return self.base.size

    @property
    def points(self) -> tuple[RulePoints, ...]:
        """The points of every rule, in the order of the rules."""
        return tuple(rule.points for rule in self.rules)

    def log_density(
        self, w: Float[Array, " size"], points: Sequence[RulePoints] | None = None
    ) -> Float[Array, ""]:
        """The sum log p_f(w) + Σ_rules log p_g; `points` replaces those drawn when the prior was built."""
        log_base = self.base.log_density(w)
        return log_base + jnp.sum(self.rule_log_densities(w, points)) if self.rules else log_base

    def rule_log_densities(
        self, w: Float[Array, " size"], points: Sequence[RulePoints] | None = None
    ) -> Float[Array, " rules"]:
        """What each rule adds to the log-density."""
        points = self.points if points is None else tuple(points)
        if len(points) != len(self.rules):
            raise ModelError(f"There are {len(self.rules)} rules, but points for {len(points)} were given.")
        if not self.rules:
            return jnp.zeros((0,))
        # One pass through the network for all rules: many small products cost more than a large one.
        inputs = _concatenated([each.inputs for each in points])
        values = self.likelihood.function(self.network.apply(w, inputs))
        ends = np.cumsum([each.inputs.shape[0] for each in points])[:-1]
        return jnp.stack(
            [
                rule.log_density(value, each)
                for rule, value, each in zip(self.rules, jnp.split(values, ends), points, strict=True)
            ]
        )


def conditional_prior(
    rules: Sequence[Constraint],
    schema: Schema,
    network: Network,
    likelihood: Likelihood,
    base: Prior | None = None,
    *,
    data: Float[np.ndarray, "n Q"] | None = None,
    points: int = 100,
    reduction: Reduction = "mean",
    term: Term | str | Mapping[str, Term | str] | None = None,
    strength: float | Mapping[str, float] | None = None,
    sampler: str | None = None,
    corners: bool = False,
    key: int = 0,
) -> ConditionalPrior:
    """The conditional prior of these rules.

    Args:
        rules: as `parse_rule` or `load_rules` give them.
        schema: the table they speak of.
        network: Φ_w over model inputs.
        likelihood: gives outputs their meaning.
        base: the prior before rules; N(0, 1) on every weight unless given.
        data: coded rows, for samplers that use them.
        points: how many points each rule is scored at.
        reduction: "mean", or "sum", the paper's equation.
        term: another term than each rule's default: a name in `TERMS`, a term, or one of those by rule name.
        strength: for all rules, or by rule name; each term has its own otherwise.
        sampler: a name in `regions.SAMPLERS`; each region has its own otherwise.
        corners: score at the region's vertices too.
        key: a seed. The points of a rule depend on it and on the rule's text, not on the other rules.
    """
    base = IsotropicGaussian.for_network(network) if base is None else base
    if base.size != network.size:
        raise ModelError(f"The base prior is over {base.size} weights, but the network has {network.size}.")
    if reduction not in ("sum", "mean"):
        raise ModelError(f'reduction is "sum" or "mean", not {reduction!r}.')
    names = [rule.name for rule in rules if rule.name is not None]
    for option, given in (("term", term), ("strength", strength)):
        unknown = sorted(set(given) - set(names)) if isinstance(given, Mapping) else []
        if unknown:
            raise ModelError(
                f"{option} is given for {unknown[0]!r}, but no rule has that name; names: {names}."
            )
    terms = tuple(
        RuleTerm.build(
            rule,
            schema,
            bounded=network.bounded,
            data=data,
            points=points,
            reduction=reduction,
            term=term.get(rule.name or "") if isinstance(term, Mapping) else term,
            strength=strength.get(rule.name or "") if isinstance(strength, Mapping) else strength,
            sampler=sampler,
            corners=corners,
            key=key,
        )
        for rule in rules
    )
    return ConditionalPrior(base, network, likelihood, terms)


def rule_seed(key: int, rule: Constraint, schema: Schema) -> int:
    """A seed that depends on the key and on what the rule says, and on nothing else, in every process."""
    return _digest(f"{int(key)}\n{rule.text(schema)}")


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def _chosen_term(rule: Constraint, schema: Schema, term: Term | str | None) -> Term:
    if term is None:
        return default_term(rule.output)
    if not isinstance(term, str):
        return term
    if term not in TERMS:
        raise ModelError(f"There is no term {term!r}; choose one of {', '.join(TERMS)}.")
    return TERMS[term]


def _placed(
    rule: Constraint, schema: Schema, coded: np.ndarray, weights: np.ndarray, strength: Strength
) -> RulePoints:
    coded = np.asarray(coded, dtype=float)
    return RulePoints(coded, schema.to_model(coded), _located(rule, schema, coded), weights, strength)


def _reduction_weights(points: int, reduction: Reduction) -> np.ndarray:
    return np.full(points, 1.0 if reduction == "sum" else 1.0 / max(points, 1))


def _located(rule: Constraint, schema: Schema, coded: Float[np.ndarray, "T Q"]) -> Located:
    """What the rule asks for at these points, in model units, refused where it asks for the impossible."""
    target = _target(schema)
    located = in_model_units(rule.locate(coded, schema), target)
    impossible = np.flatnonzero(_impossible(located))
    if impossible.size:
        witness = schema.decode(coded[impossible[:1]]).iloc[0].to_dict()
        where = ", ".join(f"{name} = {value}" for name, value in witness.items())
        raise ModelError(
            f"{_named(rule, schema)} allows no output at all where {where}: no network can obey it there. "
            "Restrict its region, or correct its bounds."
        )
    return located


def _impossible(located: Located) -> np.ndarray:
    """At which points no output can obey."""
    match located:
        case AllowedIntervals(lower, upper):
            return ~np.any(lower <= upper, axis=-1)
        case ProbabilityIntervals(_, lower, upper):
            return ~np.any((lower <= upper) & (lower <= 1.0) & (upper >= 0.0), axis=-1)
        case AllowedClasses(allowed):
            return ~np.any(allowed, axis=-1)
        case AllowedValues(values, weights, margin):
            met = np.isfinite(np.where(weights > 0, values, 0.0)).all(axis=-1)
            return ~(met & np.any(weights > 0, axis=-1) & (margin > 0))
        case TargetProbability(_, probability):
            return ~((probability >= 0.0) & (probability <= 1.0))
        case TargetClassProbabilities(probability):
            return ~np.all((probability >= 0.0) & (probability <= 1.0), axis=-1)
        case NormalMixture(weight, mean, sd):
            return ~np.all((weight <= 0) | (np.isfinite(mean) & (sd > 0)), axis=-1)
    return np.zeros(0, dtype=bool)


def _concatenated(arrays: list[Any]) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    constant = all(isinstance(array, np.ndarray) for array in arrays)
    return np.concatenate(arrays) if constant else jnp.concatenate(arrays)


def _target(schema: Schema) -> Target:
    if schema.target is None:
        raise ModelError("Rules speak of a target, but the schema has none: Schema.infer(frame, target=…).")
    return schema.target


def _named(rule: Constraint, schema: Schema) -> str:
    return f"rule {rule.name!r} ({rule.text(schema)})" if rule.name else f"the rule `{rule.text(schema)}`"
