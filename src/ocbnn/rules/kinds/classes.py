"""`action = 1`, `label in {green, blue}`: the most probable class is one of these."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.expressions import Number, Probability, text
from ocbnn.language.reading import read_classes
from ocbnn.rules.bounding import Boxes, MarginBound, joined
from ocbnn.rules.formulas import class_members, target_of
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

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound | None:
        """Some allowed class is ahead of every forbidden one, in log-odds."""
        known = target_of(schema).classes
        allowed = [index for index, label in enumerate(known) if label in self.classes]
        others = [index for index in range(len(known)) if index not in allowed]
        logits = np.eye(len(known))
        if not others:
            bound = MarginBound(boxes, np.zeros((1, 1, len(known))))
            return replace(bound, margin=bound.reading(0, 1.0, Number(-1.0)))
        rows = [logits[other] - logits[each] for each in allowed for other in others]
        bound = MarginBound(boxes, np.array(rows)[:, None])
        readings = iter([bound.reading(row, 1.0) for row in range(len(rows))])
        ahead = [joined([next(readings) for _ in others], together=True) for _ in allowed]
        margin = joined(ahead, together=False)
        return None if margin is None else replace(bound, margin=margin)

    def ranges(self, schema: Schema, tolerance: float) -> Ranges:
        return Ranges(winners=class_indices(self.classes, schema))


def read(sentence: Sentence, tree: Branch, target: Target) -> Classes | None:
    """Statements about a target with classes, other than its probabilities and its distribution."""
    return Classes(read_classes(sentence, tree)) if target.task == "classification" else None
