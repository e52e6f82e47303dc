"""What the kinds share that compare outputs at several inputs: the quantity compared, its unit, and words.

A relation speaks of y, or of the total probability of some classes, in raw units. Its margin is a difference
in these units, so that it holds for log y too. `unit` is sd(y); for probabilities it is 0.5, the largest
standard deviation of an event. A relation without an amount of its own has a slack of 1% of that unit, and
its wall begins within the slack: functions that are flat, or equal, satisfy it and cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocbnn.language.expressions import Output, Probability, constant, label_text, name_text, text
from ocbnn.language.reading import Role, read_expression
from ocbnn.language.syntax import name_of, no_column, quoted
from ocbnn.regions.lines import moved, off_axis, on_axis, stretch
from ocbnn.rules.bounding import Floats, MarginBound, Reading, Upper, joined, share, share_readings
from ocbnn.rules.formulas import class_members, target_of
from ocbnn.rules.margins import total
from ocbnn.rules.requirement import Array, Requirement, Units

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.regions import Region
    from ocbnn.schema import Column, Label, Schema, Target

SLACK = 0.01
"""Of the unit: what rounding may do, and what nobody can tell from nothing."""
SCALE_OF_SLACK = 20.0
"""A relation's scale, in slacks: the wall of the default term then begins 4.7% of it, within the slack."""
SHORTEST = 0.01
"""The shortest step along a column, as a share of the stretch inside the region."""
STEEPEST_SHARE = 0.25 * (1 + 1e-12)
"""By how much a probability changes with its log-odds, at most."""
SMALLEST_SHARE = 1e-3
"""Of the column's range: differences over shorter steps are divided by this, for rounding would be seen."""


class Numbers(NamedTuple):
    """y, in units that are `scale` raw ones; the center drops out of differences."""

    scale: Array  # (m, 1)


class Logs(NamedTuple):
    """As `Numbers`, where log y is modelled: y is exp(`scale` · value + `center`)."""

    scale: Array  # (m, 1)
    center: Array  # (m, 1)


class Members(NamedTuple):
    """The total probability of these classes."""

    members: Array  # (m, 1, C)


Quantity = Numbers | Logs | Members


def raw(quantity: Quantity, values: Array) -> Array:
    """What is compared `(…, m, k)`, in raw units up to a constant."""
    if isinstance(quantity, Members):
        return total(values, quantity.members)
    if isinstance(quantity, Numbers):
        return values * quantity.scale
    logs = values * quantity.scale + quantity.center
    return logs.__array_namespace__().exp(logs)


def _positive(values: Array) -> Array:
    return values.__array_namespace__().maximum(values, 0.0)


def _exp(units: Units, values: Array) -> Array:
    """What y is where its log is modelled, in raw units."""
    with np.errstate(over="ignore"):
        return values.__array_namespace__().exp(values * units.scale + units.center)


@dataclass(frozen=True)
class Relation(Requirement):
    """Compares y, or the total probability of `classes`, at inputs that differ in one column.

    Attributes:
        classes: whose probability is compared; none: y itself.
        column: in which the inputs differ.
    """

    classes: tuple[Label, ...]
    column: str

    monotone = True

    def columns(self) -> frozenset[str]:
        return frozenset({self.column})

    def along(self) -> tuple[tuple[str, tuple[Label, ...]], ...]:
        return ((self.column, self.classes),)

    def quantity(self, cases: Array, schema: Schema, units: Units) -> Quantity:
        """How values at the cases become the quantity."""
        if self.classes:
            return Members(class_members(self.classes, len(cases), schema)[:, None, :])
        scale = np.full((len(cases), 1), units.scale)
        return Logs(scale, np.full_like(scale, units.center)) if units.log else Numbers(scale)

    def unit(self, schema: Schema) -> float:
        """sd(y) in raw units, or 0.5 for a probability."""
        return 0.5 if self.classes else target_of(schema).raw_scale

    def outputs(self, schema: Schema) -> int:
        """Outputs that a row of a bound is over: y, or a logit for each class."""
        return len(target_of(schema).classes) or 1

    def _members(self, schema: Schema) -> list[int]:
        return [i for i, label in enumerate(target_of(schema).classes) if label in self.classes]

    def _pairs(self, schema: Schema) -> list[Floats]:
        """The logit of each member less that of each other class.

        P(members) changes by at most a quarter of the largest change of any of these: its derivative is
        P · (1 − P) times the change of the members' logits less that of the others', each a weighted mean.
        """
        logits, members = np.eye(self.outputs(schema)), self._members(schema)
        others = [index for index in range(len(logits)) if index not in members]
        return [logits[member] - logits[other] for member in members for other in others]

    def difference(
        self, bound: MarginBound, ends: tuple[int, int], schema: Schema, units: Units
    ) -> Reading | None:
        """An upper bound of the quantity at one input of a case, less that at another, in raw units.

        Both are bounded together: what they share cancels. exp(y), and a probability, change by at most
        their steepest slope times the change of y, or of log-odds.
        """
        weights = np.zeros(bound.rows.shape[1:])
        if not self.classes:
            weights[list(ends), 0] = 1.0, -1.0
            together = bound.reading(bound.row(weights), 1.0)
            if not units.log:
                return lambda upper: units.scale * together(upper)
            singles = []
            for end, sign in zip(ends, (1.0, -1.0), strict=True):
                single = np.zeros_like(weights)
                single[end, 0] = 1.0
                row = bound.row(single)
                singles.append((bound.reading(row, sign), bound.reading(row, 1.0)))

            def of_logs(upper: Upper) -> Floats:
                first, second = singles[0][1](upper), singles[1][1](upper)
                xp = first.__array_namespace__()
                apart = _exp(units, first) - _exp(units, -singles[1][0](upper))
                steepest = units.scale * _exp(units, xp.maximum(first, second))
                with np.errstate(invalid="ignore"):
                    return xp.fmin(apart, steepest * xp.maximum(together(upper), 0.0))

            return of_logs
        shares = [share_readings(bound, self._members(schema), end) for end in ends]
        if shares[0] is None or shares[1] is None:
            return None
        most, least = shares[0][1], shares[1][0]  # log-odds
        joint = list[Reading]()
        for pair in self._pairs(schema):
            weights = np.zeros(bound.rows.shape[1:])
            weights[list(ends)] = pair, -pair
            joint.append(bound.reading(bound.row(weights), 1.0))
        ahead = joined(joint, together=True)
        assert ahead is not None
        shift = ahead

        def of_shares(upper: Upper) -> Array:
            apart = share(most(upper)) - share(least(upper))
            return apart.__array_namespace__().minimum(apart, _positive(shift(upper)) * STEEPEST_SHARE)

        return of_shares

    def climb(self, bound: MarginBound, sign: float, schema: Schema, units: Units) -> Reading | None:
        """An upper bound of sign · ∂quantity/∂column, in raw units by model units of the column, at least 0.

        With the rounding of differences of two outputs over the shortest step.
        """
        drifts = 2.0 / SMALLEST_SHARE
        if not self.classes:
            steep = bound.steepness(bound.row(np.ones((1, 1))), sign, self.column, drifts)
            if not units.log:
                return lambda upper: units.scale * _positive(steep(upper))
            highest = bound.reading(0, 1.0)
            return lambda upper: units.scale * _exp(units, highest(upper)) * _positive(steep(upper))
        steeps = [
            bound.steepness(bound.row(sign * pair[None]), 1.0, self.column, drifts)
            for pair in self._pairs(schema)
        ]
        ahead = joined(steeps, together=True)
        return None if ahead is None else lambda upper: _positive(ahead(upper)) * STEEPEST_SHARE

    def what(self, target_name: str, names: Collection[str]) -> str:
        """`y`, or `P(label = green)`."""
        quantity = Probability(self.classes) if self.classes else Output()
        return text(quantity, target_name, names)

    def against_rows(self, coded: np.ndarray, observed: np.ndarray, schema: Schema) -> np.ndarray | None:
        """Pairs of neighbours, along the column, among rows that agree in all other columns."""
        if self.classes or self.inputs != 2:
            return None
        index = schema.index(self.column)
        others = np.delete(coded, index, axis=1)
        _, group = np.unique(others, axis=0, return_inverse=True)
        order = np.lexsort((coded[:, index], group.ravel()))
        first, second = order[:-1], order[1:]
        known = ~schema.unseen(coded)[:, index]
        same = (group.ravel()[first] == group.ravel()[second]) & (coded[first, index] < coded[second, index])
        same &= known[first]
        pairs = np.stack([first[same], second[same]], axis=1)
        return self._broken_pairs(pairs, coded, observed, schema)

    def _broken_pairs(
        self, pairs: np.ndarray, coded: np.ndarray, observed: np.ndarray, schema: Schema
    ) -> np.ndarray:
        if not len(pairs):
            return pairs
        # Observed values are raw ones, also where log y is modelled.
        demand = self.demand(coded[pairs], schema, Units())
        return pairs[self.violation(demand, observed[pairs]) > 0]


def pairs_along(
    points: Array, name: str, region: Region, schema: Schema, shortest: float = SHORTEST
) -> Array:
    """Pairs of inputs `(m, 2, Q)` around each point, both in the region, the lower one first.

    `points` have one further coordinate. At 0 the step is the shortest share of the stretch of the column
    that lies inside the region around the point, at 1 all of it, in between spread evenly on a log scale; the
    point says where on the stretch the pair lies. Positions are on the axis on which the model sees the
    column. Steps of whole numbers are whole.
    """
    inputs, share = points[:, :-1], shortest ** (1.0 - points[:, -1])
    column, index = schema.column(name), schema.index(name)
    low, high = stretch(inputs, name, region, schema)
    first, last = on_axis(column, low), on_axis(column, high)
    length = last - first
    place = (on_axis(column, inputs[:, index]) - first) / np.where(length > 0, length, 1.0)
    start = first + np.clip(place, 0.0, 1.0) * length * (1.0 - share)
    ends = [off_axis(column, start), off_axis(column, start + share * length)]
    if column.kind != "continuous":
        ends[1] = np.where(ends[1] > ends[0], ends[1], np.minimum(ends[0] + 1, high))
        ends[0] = np.where(ends[0] < ends[1], ends[0], np.maximum(ends[1] - 1, low))
    within = (np.clip(end, low, high) for end in ends)
    return np.stack([moved(inputs, name, end, region, schema) for end in within], axis=1)


def neighbours_along(points: Array, name: str, region: Region, schema: Schema) -> Array:
    """Pairs of neighbouring levels `(m, 2, Q)` around each point, both in the region, the lower one first.

    `points` have one further coordinate: below a half it asks for the point's level with the one before, else
    with the one after; at the first and the last level there is one choice. Levels outside of the region are
    passed over. A point whose level is alone in the region is both inputs.
    """
    inputs, index = points[:, :-1], schema.index(name)
    own, codes = inputs[:, index], np.arange(len(schema.column(name).levels))
    tried = np.repeat(inputs, len(codes), axis=0)
    tried[:, index] = np.tile(codes, len(inputs))
    inside = region.contains(tried, schema).reshape(len(inputs), len(codes))
    before = np.where(inside & (codes < own[:, None]), codes, -1.0).max(axis=1)
    after = np.where(inside & (codes > own[:, None]), codes, len(codes)).min(axis=1)
    upwards = (after < len(codes)) & ((points[:, -1] >= 0.5) | (before < 0))
    pairs = np.stack([inputs, inputs], axis=1)
    pairs[:, 0, index] = np.where(upwards | (before < 0), own, before)
    pairs[:, 1, index] = np.where(upwards, after, own)
    return pairs


def step_share(cases: Array, name: str, schema: Schema) -> Array:
    """The step of each pair `(m,)`, as a share of the column's observed range, at least 0.001."""
    column, index = schema.column(name), schema.index(name)
    ends = on_axis(column, np.asarray(column.observed))
    length = ends[1] - ends[0] if ends[1] > ends[0] else 1.0
    step = on_axis(column, cases[:, 1, index]) - on_axis(column, cases[:, 0, index])
    return np.maximum(step / length, SMALLEST_SHARE)


# Reading ----------------------------------------------------------------------------------------------------


def read_quantity(sentence: Sentence, tree: Branch, target: Target) -> tuple[Label, ...]:
    """The classes whose probability is meant; none: the target itself, a number."""
    name = name_text(target.name)
    if tree.data == "name" and sentence.schema.is_target(name_of(tree)) and target.classes:
        raise sentence.error(
            f"{name} is a class, not a number: classes have no order. Speak of a probability, such as "
            f"`P({name} = …)`.",
            tree,
        )
    found = read_expression(sentence, tree, "output")
    if isinstance(found, Output):
        return ()
    if isinstance(found, Probability):
        return found.classes
    wanted = f"`P({name} = …)`" if target.classes else f"`{name}`"
    raise sentence.error(f"What is compared here is {wanted} alone, not {sentence.slice(tree)}.", tree)


def read_column(sentence: Sentence, tree: Branch) -> Column:
    """The column along which outputs are compared."""
    name = name_of(tree)
    if name in sentence.schema.names:
        return sentence.schema.column(name)
    if sentence.schema.is_target(name):
        raise sentence.error(f"{quoted(name)} is the target; a column of the inputs is expected here.", tree)
    raise no_column(sentence, tree)


def read_ordered(sentence: Sentence, tree: Branch, example: str, *, distances: bool = False) -> Column:
    """The same, where its values have an order, and where asked `distances` too."""
    column = read_column(sentence, tree)
    if column.kind != "category":
        return column
    name, levels = name_text(column.name), ", ".join(map(repr, column.levels[:2]))
    first, second = (
        f"{example} with {name} = {label_text(level)}" for level in (*column.levels, *column.levels)[:2]
    )
    if not column.has_order:
        declared = f"columns={{{column.name!r}: {{'levels': [{levels}, …], 'ordered': True}}}}"
        remedy = "Put numbers in its place, such as ranks" if distances else f"Declare one: {declared}"
        raise sentence.error(
            f"{name} is a category: a category has no order unless levels are declared ordered. {remedy}, "
            f"or compare two levels: `{first} <= {second}`.",
            tree,
        )
    if distances:
        raise sentence.error(
            f"The levels of {name} have an order, but no distances. Put numbers in their place, or compare "
            f"two levels: `{first} = {second} within …`.",
            tree,
        )
    if len(column.levels) == 1:
        raise sentence.error(
            f"{name} has one level, so nothing can be compared. Declare all its levels, in their order: "
            f"columns={{{column.name!r}: {{'levels': [{levels}, …], 'ordered': True}}}}.",
            tree,
        )
    return column


def read_amount(
    sentence: Sentence, tree: Branch, target: Target, what: str, *, positive: bool = True
) -> float:
    """A number in units of the quantity; above 0 where it is a size."""
    role: Role = "probability" if target.classes else "output"
    value = constant(read_expression(sentence, tree, role))
    if value is None:
        raise sentence.error(f"{what} is a number, not {sentence.slice(tree)}.", tree)
    if positive and value <= 0:
        raise sentence.error(f"{what} has to be above 0.", tree)
    if target.classes and abs(value) > 1:
        raise sentence.error(
            f"{value:g} cannot be a difference of probabilities, which lies in [-1, 1].", tree
        )
    return value
