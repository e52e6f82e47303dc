"""A frozen density and where to start: what preparation hands to the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from ocbnn.inference.base import Context, Density
from ocbnn.inference.checkpoint import Arrays
from ocbnn.inference.feed import fixed_context, rule_terms, with_rules
from ocbnn.model import Model
from ocbnn.model.conditional import RulePoints, RuleTerm


@dataclass(frozen=True, eq=False)
class Strengths:
    """The strength of every rule, whether pilots found it, and why a rule cannot be met (empty if it can)."""

    values: Float[np.ndarray, " rules"]
    searched: np.ndarray
    reasons: tuple[str, ...]

    @classmethod
    def given(cls, model: Model) -> Strengths:
        """The strengths a model has."""
        rules = rule_terms(model)
        values = np.array([float(rule.points.strength) for rule in rules])
        return cls(values, np.zeros(len(rules), bool), ("",) * len(rules))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A frozen density and where to start.

    Attributes:
        density: what every chunk is compiled for, of pilots, the kept run and later runs of the model; points
            and strengths reach it through a context.
        model: with its final points and strengths.
        positions: of every member.
        context: rows, points and nodes, for engines that always see the same.
        strengths: how each rule came by its strength.
        work: gradients spent.
        seconds: by phase.
    """

    density: Density
    model: Model
    positions: Float[np.ndarray, "members size"]
    context: Context
    strengths: Strengths
    work: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def with_strengths(self, values: Sequence[float] | np.ndarray) -> Prepared:
        """The same points and nodes with other strengths: nothing is compiled anew."""
        rules = [
            replace(rule, points=_strong(rule.points, value))
            for rule, value in zip(rule_terms(self.model), values, strict=True)
        ]
        model = with_rules(self.model, rules)
        nodes = tuple(_strong(each, value) for each, value in zip(self.context.nodes, values, strict=True))
        strengths = replace(self.strengths, values=np.asarray(values, dtype=float))
        return replace(self, model=model, context=fixed_context(model, nodes), strengths=strengths)

    def with_points(self, rules: Sequence[RuleTerm]) -> Prepared:
        """The same with other points for some rules; nodes of those are their points."""
        before = zip(rules, rule_terms(self.model), self.context.nodes, strict=True)
        nodes = tuple(nodes if new is old else new.points for new, old, nodes in before)
        model = with_rules(self.model, rules)
        return replace(self, model=model, context=fixed_context(model, nodes))

    def arrays(self) -> Arrays:
        """All that cannot be had again from the model and the seed without the work."""
        arrays: Arrays = {
            "positions": np.asarray(self.positions),
            "strengths": self.strengths.values,
            "searched": self.strengths.searched.astype(np.uint8),
            "reasons": np.frombuffer("\n".join(self.strengths.reasons).encode(), np.uint8),
            "work": np.asarray(self.work, np.int64),
        }
        for index, (points, nodes) in enumerate(zip(self.context.points, self.context.nodes, strict=True)):
            arrays[f"points.{index}"] = np.asarray(points.coded)
            arrays[f"weights.{index}"] = np.asarray(points.weights)
            arrays[f"nodes.{index}"] = np.asarray(nodes.coded)
            arrays[f"node_weights.{index}"] = np.asarray(nodes.weights)
        return arrays

    @classmethod
    def restored(cls, model: Model, arrays: Arrays) -> Prepared:
        """What `arrays` gave, for the same model."""
        reasons = tuple(arrays["reasons"].tobytes().decode().split("\n"))
        strengths = Strengths(arrays["strengths"], arrays["searched"].astype(bool), reasons)
        rules, nodes = [], []
        for index, rule in enumerate(rule_terms(model)):
            strength = float(strengths.values[index])
            points = rule.at(arrays[f"points.{index}"], weights=arrays[f"weights.{index}"], strength=strength)
            rules.append(replace(rule, points=points))
            few = rule.at(
                arrays[f"nodes.{index}"], weights=arrays[f"node_weights.{index}"], strength=strength
            )
            nodes.append(few)
        density = density_of(model)
        model = with_rules(model, rules)
        context = fixed_context(model, tuple(nodes))
        work = int(arrays["work"])
        return cls(density, model, arrays["positions"], context, strengths, work)


def density_of(model: Model) -> Density:
    """A model's density, always the same: runs that differ in seed alone compile nothing anew."""
    density: Density = model.kept.setdefault("density", Density(model))
    return density


def _strong(points: RulePoints, strength: float) -> RulePoints:
    return points._replace(strength=float(strength))
