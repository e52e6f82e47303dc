"""The conditional prior (COCP): any base prior times the terms of any number of rules (paper eq. 4).

    log p_C(w) = log p_f(w) + Σ_rules Σ_t weight_t · log p_g(Φ_w(x_t) | x_t)

Weights are 1 for `reduction="sum"`, the paper's equation, and 1/T for `"mean"`, whose strength does not
depend on the number of points. What may change between steps (points, strength) is in `RulePoints`, a pytree
that is an argument of every log-density here, so that changing it compiles nothing anew.
"""

from __future__ import annotations

import hashlib
import itertools
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
from ocbnn.model.terms import TERMS, Calibration, Strength, Term
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.margins import by_case, placed
from ocbnn.rules.requirement import Units
from ocbnn.schema import Schema, Target

Reduction = Literal["sum", "mean"]
REFERENCE_POINTS = 128


class RulePoints(NamedTuple):
    """The points at which one rule is scored, and how much they count."""

    coded: Float[AnyArray, "T Q"]  # with the further coordinates of the rule's kind
    inputs: Float[AnyArray, "inputs D"]  # of all cases, one after the other
    demand: Any  # at each case, in model units
    weights: Float[AnyArray, " cases"]
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
        requirement = rule.requirement
        chosen = _chosen_term(rule, term)
        free = strength is None and requirement.strength_is_found
        strength = float(chosen.default_strength if strength is None else strength)
        if not (strength > 0 and np.isfinite(strength)):
            raise ModelError(
                f"The strength of {_named(rule, schema)} must be positive and finite, not {strength}."
            )
        if points < 1:
            raise ModelError(f"{_named(rule, schema)} needs at least one point, not {points}.")
        # The scale is part of what the rule means: it must not move with data, key or number of points.
        reference = rule_points(rule_seed(0, rule, schema), rule, schema, None, REFERENCE_POINTS)
        demand = _placed(rule, schema, reference, None, "mean", strength).demand
        if not chosen.scores(requirement, demand):
            suited = ", ".join(repr(t.name) for t in TERMS.values() if t.scores(requirement, demand))
            raise ModelError(
                f"The term {chosen.name!r} cannot score {_named(rule, schema)}; terms that can: {suited}."
            )
        coded = rule_points(rule_seed(key, rule, schema), rule, schema, data, points, sampler)
        vertices = rule_vertices(rule, schema) if corners and requirement.inputs is not None else coded[:0]
        at = _placed(rule, schema, np.concatenate([coded, vertices]), None, reduction, strength)
        calibrated = chosen.calibrated(Calibration(requirement, demand, target, bounded, strength))
        return cls(
            rule, schema, calibrated, at, reduction, sampler, data, points, free, corners=len(vertices)
        )

    @property
    def tolerance(self) -> float:
        """The violation its author accepts."""
        return self.rule.effective_tolerance

    def at(
        self,
        coded: Float[np.ndarray, "T Q"],
        *,
        weights: Float[np.ndarray, " cases"] | None = None,
        strength: Strength | None = None,
    ) -> RulePoints:
        """This rule at given points; default: weights follow the reduction, and strength stays."""
        strength = self.points.strength if strength is None else strength
        return _placed(self.rule, self.schema, coded, weights, self.reduction, strength)

    def fresh(self, count: int, key: int, purpose: str = "fresh points") -> Float[np.ndarray, "count Q"]:
        """Points of the rule's region that nothing with another purpose has seen, whatever its seeds were.

        The population of a rule is the same for every purpose: its own points.
        """
        if self.rule.requirement.inputs is None:
            return np.asarray(self.points.coded, dtype=float)
        # Chunks of minibatch engines count upwards from the rule's own seed: any number added may be theirs.
        seed = _digest(f"{purpose}\n{rule_seed(key, self.rule, self.schema)}")
        return rule_points(seed, self.rule, self.schema, self.data, count, self.sampler)

    def fresh_inputs(self, count: int, key: int) -> Float[np.ndarray, "count Q"]:
        """Inputs of fresh points, without the further coordinates of the rule's kind."""
        return self.fresh(count, key)[:, : len(self.schema.columns)]

    def log_density(self, value: Array, points: RulePoints) -> Float[Array, ""]:
        """Σ_t weight_t · log p_g(value_t | x_t), value as `Likelihood.function` gives it at the inputs."""
        classes = bool(_target(self.schema).classes)
        value = by_case(self.rule, value, points.weights.shape[-1], classes)
        if classes and not self.term.reads_logs:
            value = jnp.exp(value)
        scores = self.term.log_density(self.rule.requirement, points.demand, value, points.strength)
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


def rule_points(
    seed: Any,
    rule: Constraint,
    schema: Schema,
    data: Float[np.ndarray, "n Q"] | None,
    count: int,
    sampler: str | None = None,
) -> Float[np.ndarray, "count coordinates"]:
    """Points of a rule's region, with the further coordinates of its kind, uniform in [0, 1]."""
    coded = regions.sample(seed, rule.region, schema, data, count, sampler)
    further = rule.requirement.coordinates
    if not further:
        return coded
    generator = seed if isinstance(seed, np.random.Generator) else np.random.default_rng((seed, 7))
    return np.concatenate([coded, generator.random((count, further))], axis=1)


def rule_vertices(rule: Constraint, schema: Schema) -> Float[np.ndarray, "corners coordinates"]:
    """The corners of a rule's region, each with the further coordinates of its kind at either end."""
    corners = rule.region.vertices(schema)
    ends = np.array(list(itertools.product((0.0, 1.0), repeat=rule.requirement.coordinates)))
    return np.concatenate([np.repeat(corners, len(ends), axis=0), np.tile(ends, (len(corners), 1))], axis=1)


def _chosen_term(rule: Constraint, term: Term | str | None) -> Term:
    if term is None:
        term = rule.requirement.default_term
    if not isinstance(term, str):
        return term
    if term not in TERMS:
        raise ModelError(f"There is no term {term!r}; choose one of {', '.join(TERMS)}.")
    return TERMS[term]


def _placed(
    rule: Constraint,
    schema: Schema,
    points: np.ndarray,
    weights: np.ndarray | None,
    reduction: Reduction,
    strength: Strength,
) -> RulePoints:
    """The rule at these points, in model units, refused where it asks for the impossible."""
    points = np.asarray(points, dtype=float)
    at = placed(rule, schema, points, Units.of_model(_target(schema)))
    impossible = np.flatnonzero(rule.requirement.impossible(at.demand))
    if impossible.size:
        first = at.inputs.reshape(at.cases, -1, at.inputs.shape[-1])[impossible[0], :1]
        witness = schema.decode(first).iloc[0].to_dict()
        where = ", ".join(f"{name} = {value}" for name, value in witness.items())
        raise ModelError(
            f"{_named(rule, schema)} allows no output at all where {where}: no network can obey it there. "
            "Restrict its region, or correct its bounds."
        )
    if weights is None:
        weights = np.full(at.cases, 1.0 if reduction == "sum" else 1.0 / max(at.cases, 1))
    return RulePoints(points, schema.to_model(at.inputs), at.demand, weights, strength)


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
