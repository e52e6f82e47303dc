"""`action = 1`, `label in {green, blue}`: the most probable class is one of these."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.expressions import Probability, text
from ocbnn.language.reading import read_classes
from ocbnn.rules.formulas import class_members
from ocbnn.rules.margins import largest
from ocbnn.rules.ranges import Ranges, class_indices
from ocbnn.rules.requirement import Allowed, Array, Requirement, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.schema import Label, Schema, Target


class AllowedClasses(NamedTuple):
    """The most probable class is one of these."""

    allowed: Array  # (m, C) bool


@dataclass(frozen=True)
class Classes(Requirement):
    """The most probable class is one of these, in the schema's order of classes."""

    classes: tuple[Label, ...]

    margin_of_logs = True

    def demand(self, cases: Array, schema: Schema, units: Units) -> AllowedClasses:
        return AllowedClasses(class_members(self.classes, len(cases), schema))

    def margin(self, demand: AllowedClasses, values: Array) -> Array:
        """The largest forbidden probability less the largest allowed one; of logarithms, the log-odds."""
        xp = values.__array_namespace__()
        allowed = largest(xp.where(demand.allowed, values, -xp.inf))
        return largest(xp.where(demand.allowed, -xp.inf, values)) - allowed

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return text(Probability(self.classes), target_name, names)[2:-1]

    def impossible(self, demand: AllowedClasses) -> np.ndarray:
        return ~np.any(demand.allowed, axis=-1)

    def allowed(self, demand: AllowedClasses) -> Allowed:
        return Allowed(classes=demand.allowed)

    def ranges(self, schema: Schema, tolerance: float) -> Ranges:
        return Ranges(winners=class_indices(self.classes, schema))


def read(sentence: Sentence, tree: Branch, target: Target) -> Classes | None:
    """Statements about a target with classes, other than its probabilities and its distribution."""
    return Classes(read_classes(sentence, tree)) if target.task == "classification" else None
