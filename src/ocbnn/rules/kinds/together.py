"""Several relations joined by `and`: all of them hold at every input of the region."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocbnn.language.syntax import branches
from ocbnn.rules.bounding import Boxes, MarginBound, together
from ocbnn.rules.kinds.relations import Relation
from ocbnn.rules.margins import largest
from ocbnn.rules.requirement import Array, Requirement, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.regions import Region
    from ocbnn.schema import Label, Schema, Target

Reader = Callable[["Sentence", "Branch", "Target"], Relation | None]


class Scaled(NamedTuple):
    """What one part asks, and its own scale."""

    asked: Any
    scale: Array  # (m,)


@dataclass(frozen=True)
class Together(Requirement):
    """All parts hold; a case has the inputs of all of them, and margins are in scales of their own."""

    parts: tuple[Relation, ...]

    monotone = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", sum(part.inputs or 0 for part in self.parts))
        object.__setattr__(self, "coordinates", sum(part.coordinates for part in self.parts))

    def cases(self, points: Array, schema: Schema, region: Region) -> Array:
        inputs = points[:, : len(schema.columns)]
        at, found = len(schema.columns), []
        for part in self.parts:
            further = points[:, at : at + part.coordinates]
            found.append(part.cases(np.concatenate([inputs, further], axis=1), schema, region))
            at += part.coordinates
        return np.concatenate(found, axis=1)

    def demand(self, cases: Array, schema: Schema, units: Units) -> tuple[Scaled, ...]:
        asked = [part.demand(cases[:, of], schema, units) for part, of in self._places()]
        scales = [np.full(len(cases), part.scale(each)) for part, each in zip(self.parts, asked, strict=True)]
        return tuple(map(Scaled, asked, scales))

    def margin(self, demand: tuple[Scaled, ...], values: Array) -> Array:
        """The largest margin of the parts, each in its own scale."""
        classes = bool(self.parts[0].classes)
        margins = [
            part.margin(asked, values[..., of, :] if classes else values[..., of]) / scale
            for (part, of), (asked, scale) in zip(self._places(), demand, strict=True)
        ]
        return largest(margins[0].__array_namespace__().stack(margins, axis=-1))

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound | None:
        """The bounds of all parts, each with inputs of its own."""
        found = [part.bound(boxes, schema, units) for part in self.parts]
        return together([each for each in found if each is not None]) if all(found) else None

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return " and ".join(part.text(target_name, names) for part in self.parts)

    def columns(self) -> frozenset[str]:
        return frozenset().union(*(part.columns() for part in self.parts))

    def along(self) -> tuple[tuple[str, tuple[Label, ...]], ...]:
        return tuple(dict.fromkeys(each for part in self.parts for each in part.along()))

    def require_region(self, region: Region) -> None:
        for part in self.parts:
            part.require_region(region)

    def against_rows(self, coded: np.ndarray, observed: np.ndarray, schema: Schema) -> np.ndarray | None:
        found = [part.against_rows(coded, observed, schema) for part in self.parts]
        pairs = [each for each in found if each is not None]
        return np.unique(np.concatenate(pairs), axis=0) if pairs else None

    def differences(
        self, column: str, first: float, second: float, schema: Schema
    ) -> dict[tuple[Label, ...], tuple[float, float]]:
        found: dict[tuple[Label, ...], tuple[float, float]] = {}
        for part in self.parts:
            for classes, (low, high) in part.differences(column, first, second, schema).items():
                known = found.get(classes, (-np.inf, np.inf))
                found[classes] = (max(low, known[0]), min(high, known[1]))
        return found

    def form(self, schema: Schema) -> Mapping[str, int] | None:
        """That of all parts, where each has one and no two contradict each other."""
        found: dict[str, int] = {}
        for part in self.parts:
            form = part.form(schema)
            if form is None or any(found.get(name, sign) != sign for name, sign in form.items()):
                return None
            found |= form
        return found

    def ignores(self) -> frozenset[str]:
        return frozenset().union(*(part.ignores() for part in self.parts))

    def _places(self) -> Iterator[tuple[Relation, slice]]:
        """Each part with the inputs that are its own."""
        at = 0
        for part in self.parts:
            yield part, slice(at, at + (part.inputs or 0))
            at += part.inputs or 0


def reader(relations: Sequence[Reader]) -> Callable[[Sentence, Branch, Target], Relation | Together | None]:
    """What reads one relation of these kinds, or several joined by `and`."""

    def read(sentence: Sentence, tree: Branch, target: Target) -> Relation | Together | None:
        if not any(branch.data == "relation" for branch in tree.iter_subtrees()):
            return None
        items = _joined(tree)
        found = [each(sentence, _one(sentence, item), target) for item in items for each in relations]
        parts = tuple(part for part in found if part is not None)
        if len(parts) == 1:
            return parts[0]
        for part, item in zip(parts, items, strict=True):
            if part.inputs is None:
                raise sentence.error("This compares groups of cases; write a rule of its own for it.", item)
        return Together(parts)

    return read


def _joined(tree: Branch) -> list[Branch]:
    if tree.data != "conjunction":
        return [tree]
    return [item for branch in branches(tree) for item in _joined(branch)]


def _one(sentence: Sentence, tree: Branch) -> Branch:
    """What is inside of a relation; an error for anything else that stands beside one."""
    if tree.data == "relation":
        return branches(tree)[0]
    if tree.data in ("negated", "disjunction"):
        what = "negated" if tree.data == "negated" else "joined by `or`"
        raise sentence.error(f"A relation between outputs cannot be {what}.", tree)
    raise sentence.error(
        "Relations stand alone, or are joined to other relations by `and`. Write another rule for this.", tree
    )
