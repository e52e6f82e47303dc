"""Rules as terms of the conditional prior (COCP, paper eq. 4): each is scored at points of its region.

    log p_C(w) = log p_f(w) + Σ_rules Σ_t weight_t · log p_g(Φ_w(x_t) | x_t)

Weights are 1 for `reduction="sum"`, the paper's equation, and 1/T for `"mean"`, whose strength does not
depend on the number of points; there points that a search has found share half of the rule's weight, and for
rules that are to hold everywhere the worst of them has it. Rules that are to be proved are scored on bounds
over boxes besides (`provable.py`). What may change between steps (points, boxes, strength) is in
`RulePoints`, a pytree that is an argument of every log-density here: changing it compiles nothing anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn import regions
from ocbnn.errors import ModelError
from ocbnn.model.networks import AnyArray, Network
from ocbnn.model.provable import Provable, RuleBoxes
from ocbnn.model.terms import TERMS, Calibration, Distance, Strength, Term
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.margins import by_case, placed
from ocbnn.rules.requirement import Units
from ocbnn.schema import Schema, Target
from ocbnn.seeds import seed_for

Reduction = Literal["sum", "mean"]
REFERENCE_POINTS = 128
POPULATION = "population"
"""Instead of a sampler's name, where the points of a rule are rows of the table themselves."""
EVERYWHERE_LEAD = 3.0
"""Thicknesses of a wall before the boundary, for rules that are to hold everywhere.

Where data push against a rule, all draws lie in its wall, and more strength alone does not change which
share of them violates. Of half a normal whose standard deviation is the wall's thickness, 13% lie beyond the
lead of 1.5 that keeps a rule on average, and 0.3% beyond this one. It is not larger: a rule that a function
keeps by three thicknesses adds nothing. It does not shrink where strength grows: a function that obeys at
points bends towards the boundary between them.
"""


class RulePoints(NamedTuple):
    """The points at which one rule is scored, and how much they count."""

    coded: Float[AnyArray, "T Q"]  # with the further coordinates of the rule's kind
    inputs: Float[AnyArray, "inputs D"]  # of all cases, one after the other
    demand: Any  # at each case, in model units
    weights: Float[AnyArray, " cases"]
    strength: Strength
    boxes: RuleBoxes | None = None  # of a rule that is to be proved


@dataclass(frozen=True)
class Scoring:
    """How rules are scored.

    Attributes:
        points: how many points each rule is scored at.
        reduction: "mean", or "sum", the paper's equation.
        term: a name in `TERMS`, a term, or one of those by rule name; default: each rule's own.
        strength: for all rules, or by rule name; default: each term's own, and inference searches for one.
        sampler: a name in `regions.SAMPLERS`; default: each region's own.
        corners: score at the region's vertices too.
        key: a seed. The points of a rule depend on it and on the region's geometry, not on the other rules.
    """

    points: int = 100
    reduction: Reduction = "mean"
    term: Term | str | Mapping[str, Term | str] | None = None
    strength: float | Mapping[str, float] | None = None
    sampler: str | None = None
    corners: bool = False
    key: int = 0

    def __post_init__(self) -> None:
        if self.reduction not in ("sum", "mean"):
            raise ModelError(f'reduction is "sum" or "mean", not {self.reduction!r}.')

    def of(self, rule: Constraint) -> Scoring:
        """The same with the term and the strength of one rule."""
        name = rule.name or ""
        term = self.term.get(name) if isinstance(self.term, Mapping) else self.term
        strength = self.strength.get(name) if isinstance(self.strength, Mapping) else self.strength
        return replace(self, term=term, strength=strength)


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
    provable: Provable | None = None  # the term on bounds, of a rule that is to be proved

    @classmethod
    def build(
        cls,
        rule: Constraint,
        schema: Schema,
        scoring: Scoring,
        *,
        bounded: bool,
        data: Float[np.ndarray, "n Q"] | None = None,
    ) -> RuleTerm:
        """Choose and calibrate the term, then draw the points; arguments as in `rule_terms`."""
        points, reduction = scoring.points, scoring.reduction
        sampler = "rows" if rule.is_over_rows else scoring.sampler
        assert not isinstance(scoring.term, Mapping)
        assert not isinstance(scoring.strength, Mapping)
        target = _target(schema)
        requirement = rule.requirement
        if rule.is_over_rows and data is None:
            raise ModelError(
                f"{_named(rule, schema)} is to hold over rows of the table, and there are none: give them, "
                "or write `holds: everywhere`."
            )
        if target.is_log and not requirement.monotone:
            raise ModelError(
                f"{_named(rule, schema)} cannot be said exactly where {target.name!r} is modelled on a log "
                f"scale: it speaks of distances or of a spread of {target.name}. Write limits instead, such "
                f"as `1 <= {target.name} <= 3`, or leave the log transform of the target out."
            )
        chosen = _chosen_term(rule, scoring.term)
        if rule.is_everywhere and scoring.term is None and isinstance(chosen, Distance):
            chosen = replace(chosen, lead=EVERYWHERE_LEAD, stays=True)
        free = scoring.strength is None and requirement.strength_is_found
        strength = float(chosen.default_strength if scoring.strength is None else scoring.strength)
        if not (strength > 0 and np.isfinite(strength)):
            raise ModelError(
                f"The strength of {_named(rule, schema)} must be positive and finite, not {strength}."
            )
        if points < 1:
            raise ModelError(f"{_named(rule, schema)} needs at least one point, not {points}.")
        demand = _reference(rule, schema)
        if not chosen.scores(requirement, demand):
            suited = ", ".join(repr(t.name) for t in TERMS.values() if t.scores(requirement, demand))
            raise ModelError(
                f"The term {chosen.name!r} cannot score {_named(rule, schema)}; terms that can: {suited}."
            )
        coded = rule_points(seed_for(scoring.key, "rule"), rule, schema, data, points, sampler)
        vertices = (
            rule_vertices(rule, schema) if scoring.corners and requirement.inputs is not None else coded[:0]
        )
        at = _placed(rule, schema, np.concatenate([coded, vertices]), None, reduction, strength)
        calibrated = chosen.calibrated(Calibration(requirement, demand, target, bounded, strength))
        return cls(
            rule, schema, calibrated, at, reduction, sampler, data, len(coded), free, corners=len(vertices)
        )

    @property
    def tolerance(self) -> float:
        """The violation its author accepts."""
        return self.rule.effective_tolerance

    @property
    def sampled_by(self) -> str:
        """The name of the sampler that its points come from, or `POPULATION`."""
        if _population(0, self.rule, self.schema, self.data, self.sampler) is not None:
            return POPULATION
        data = None if self.data is None else self.data[self.schema.complete(self.data)]
        return self.sampler or regions.default_sampler(self.rule.region, self.schema, data)

    @property
    def uses_rows(self) -> bool:
        """Whether the points it is scored at depend on rows of the table, besides those that were found."""
        return self.data is not None and self.sampled_by not in regions.WITHOUT_ROWS

    def at(
        self,
        coded: Float[np.ndarray, "T Q"],
        *,
        weights: Float[np.ndarray, " cases"] | None = None,
        strength: Strength | None = None,
    ) -> RulePoints:
        """This rule at given points; default: weights follow the reduction, and strength stays."""
        strength = self.points.strength if strength is None else strength
        boxes = None if self.points is None else self.points.boxes
        placed = _placed(self.rule, self.schema, coded, weights, self.reduction, strength)
        return placed._replace(boxes=boxes)

    def to_be_proved(self, network: Network) -> RuleTerm:
        """The same with a term on bounds, whose boxes are yet to be cut.

        Raises:
            ModelError: the rule cannot be proved of this network.
        """
        scale = self.rule.requirement.scale(_reference(self.rule, self.schema))
        provable = Provable.of(self.rule, self.schema, network, Distance(scale))
        boxes = provable.at(provable.space.roots)
        return replace(self, provable=provable, points=self.points._replace(boxes=boxes))

    def cut(self, draws: Float[np.ndarray, "S size"]) -> RuleTerm:
        """The same with boxes that are fine where bounds of these draws are loose, where it has any."""
        if self.provable is None:
            return self
        boxes = self.provable.partition(np.asarray(draws)[:, : self.provable.network.size])
        return replace(self, points=self.points._replace(boxes=boxes))

    def fresh(self, count: int, key: int, purpose: str = "fresh points") -> Float[np.ndarray, "count Q"]:
        """Points of the rule's region that nothing with another purpose has seen, whatever its seeds were.

        The population of a rule is the same for every purpose: its own points.
        """
        if self.rule.requirement.inputs is None:
            return np.asarray(self.points.coded, dtype=float)
        return rule_points(
            seed_for(key, f"points: {purpose}"), self.rule, self.schema, self.data, count, self.sampler
        )

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
        weights, own = jnp.asarray(points.weights, scores.dtype), self.drawn + self.corners
        if not self.joins_found or weights.shape[-1] <= own:
            return jnp.sum(weights * scores, axis=-1)
        found = weights[own:]
        least = _joined(scores[..., own:], found > 0.0)
        return jnp.sum(weights[:own] * scores[..., :own], axis=-1) + jnp.sum(found, axis=-1) * least

    @property
    def joins_found(self) -> bool:
        """Whether points that were found count by the worst of them, each as much as all.

        A mean is powerless against one point among a hundred. So it is for rules that are to hold everywhere,
        or to be proved, where the term is a wall: 0 for what obeys, and below 0 otherwise.
        """
        return self.rule.is_strict and self.reduction == "mean" and isinstance(self.term, Distance)


def _joined(scores: Array, counts: Array) -> Array:
    """−log(1 + Σ_t (e^{D_t} − 1)) of walls D_t = −scores ≥ 0, over the points that count.

    It is −D of a point that alone is violated, −ΣD where all D are small, and never more than log n below the
    worst of n points. A function that obeys scores 0.
    """
    walls = jnp.where(counts, -scores, 0.0)
    highest = jax.lax.stop_gradient(jnp.max(walls, axis=-1, keepdims=True))
    # Relative to the highest, so that nothing overflows: e^D − 1 = e^D · (1 − e^−D).
    parts = jnp.exp(walls - highest) * -jnp.expm1(-walls)
    return -(highest[..., 0] + jnp.log(jnp.exp(-highest[..., 0]) + jnp.sum(parts, axis=-1)))


def rule_terms(
    rules: Sequence[Constraint],
    schema: Schema,
    scoring: Scoring,
    *,
    bounded: bool,
    data: Float[np.ndarray, "n Q"] | None = None,
) -> tuple[RuleTerm, ...]:
    """The terms of these rules, for a network whose units are `bounded` or not.

    Args:
        rules: as `parse_rule` or `load_rules` give them.
        schema: the table they speak of.
        scoring: how they are scored.
        bounded: whether the network's activation is bounded, which some terms are calibrated by.
        data: coded rows, for samplers that use them.
    """
    names = [rule.name for rule in rules if rule.name is not None]
    for option in ("term", "strength"):
        given = getattr(scoring, option)
        unknown = sorted(set(given) - set(names)) if isinstance(given, Mapping) else []
        if unknown:
            raise ModelError(
                f"{option} is given for {unknown[0]!r}, but no rule has that name; names: {names}."
            )
    if data is not None:  # samplers that start from rows take them in one order, whatever the table's was
        by_name = sorted(range(len(schema.columns)), key=lambda index: schema.columns[index].name)
        data = data[np.lexsort(data[:, by_name].T)]
    return tuple(RuleTerm.build(rule, schema, scoring.of(rule), bounded=bounded, data=data) for rule in rules)


def rule_points(
    seed: Any,
    rule: Constraint,
    schema: Schema,
    data: Float[np.ndarray, "n Q"] | None,
    count: int,
    sampler: str | None = None,
) -> Float[np.ndarray, "count coordinates"]:
    """Points of a rule's region, with the further coordinates of its kind, uniform in [0, 1].

    They depend on the seed and on the region's geometry alone: not on how the rule is written, in which
    units, or in which order the columns stand. A population may be rows of the data.
    """
    population = _population(seed, rule, schema, data, sampler)
    if population is not None:
        return population
    coded = regions.sample(seed, rule.region, schema, data, count, sampler)
    further = rule.requirement.coordinates
    if not further:
        return coded
    generator = seed if isinstance(seed, np.random.Generator) else np.random.default_rng((seed, 7))
    return np.concatenate([coded, generator.random((count, further))], axis=1)


def _population(
    seed: Any,
    rule: Constraint,
    schema: Schema,
    data: Float[np.ndarray, "n Q"] | None,
    sampler: str | None,
) -> Float[np.ndarray, "rows Q"] | None:
    """The rows that are the population of a rule about one; None where points are sampled."""
    if rule.requirement.inputs is not None or data is None or sampler is not None:
        return None
    inside = data[rule.region.contains(data, schema) & schema.complete(data)]
    if not len(inside):
        return None
    return rule.requirement.population(inside, schema, np.random.default_rng(seed))


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


def _reference(rule: Constraint, schema: Schema) -> Any:
    """What the rule asks at a fixed set of points.

    The scale is part of what the rule means: it must not move with data, key or number of points.
    """
    points = rule_points(seed_for(0, "reference"), rule, schema, None, REFERENCE_POINTS)
    return _placed(rule, schema, points, None, "mean", 1.0).demand


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


def concatenated(arrays: list[Any]) -> Any:
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
