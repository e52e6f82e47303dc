"""Rules scored on bounds: the term that makes networks provable (`holds: proved`).

A network that keeps a rule at points is seldom one that can be proved to keep it everywhere: bounds of its margin
over boxes are loose where it bends. So a rule that is to be proved has a second term, on bounds themselves,

    −Σ_b wall(upper bound of the margin on box b)

over a fixed number of boxes that together are the rule's region. A kind says how its margin is bounded
(`Requirement.bound`), here as in a proof. The bounds are cheaper than those of a proof, as every gradient takes them:
one pass from the first layer to the last carries each unit as a line of the inputs, the same for both sides, with an
error beside it:

    z(x) = A x + c ± e on the box,   f(z) = s z + m ± b

With s the least or the largest f′ there, f − s z rises or falls, so that its ends are its extremes. Where a
quantity is affine in outputs its line is compared with intervals, and the tighter counts. Slopes of the outputs are intervals of products. Rounding is left to the proof, which judges afterwards with bounds of its own.

Boxes are chosen by draws: the box whose bound is loosest is cut, along the column that helps most, until there are
as many as there shall be (`partition`). Only the box counts, not a half-space or formula that cuts a part of it off.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import ModelError
from ocbnn.model.boxes import Groups, Some, Space
from ocbnn.model.networks import ACTIVATIONS, MLP, AnyArray, Network
from ocbnn.model.shapes import SHAPES, slope_span, span
from ocbnn.model.terms import Distance, Strength
from ocbnn.rules.bounding import Case, MarginBound
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.margins import largest
from ocbnn.rules.requirement import Units
from ocbnn.schema import Schema

BOXES = 128
ALIKE = 1e-6
"""Errors of lines that are less than this apart are alike."""
CUT_TOGETHER = 8
"""Boxes that are cut at a time: choosing them one by one changes little and takes as often longer."""


class RuleBoxes(NamedTuple):
    """Boxes at which the bound of a rule's margin is scored, and how much they count: a pytree."""

    part: AnyArray  # (B,) of the region
    low: Float[AnyArray, "B Q"]  # coded
    high: Float[AnyArray, "B Q"]
    ends: tuple[tuple[AnyArray, AnyArray], ...]  # model inputs (B, D): of the box, then of a case
    factor: Float[AnyArray, "M B"]  # of each quantity
    slopes: Float[AnyArray, "M B D"]
    constant: Float[AnyArray, "M B"]
    weights: Float[AnyArray, " B"]

    @property
    def some(self) -> Some:
        """The boxes that count."""
        counts = np.flatnonzero(np.asarray(self.weights) > 0)
        return Some(*(np.asarray(each)[counts] for each in (self.part, self.low, self.high)))

    @property
    def table(self) -> Float[np.ndarray, "B columns"]:
        """The boxes that count, to be kept: part, low and high ends."""
        part, low, high = self.some
        return np.concatenate([part[:, None], low, high], axis=1)


def network_rows(rows: np.ndarray, outputs: int, classes: int) -> np.ndarray:
    """Rows over y, or over a logit for each class, as rows over the network's outputs."""
    if not classes:
        return np.concatenate([rows, np.zeros((*rows.shape[:-1], outputs - 1))], axis=-1)
    return rows[..., 1:] if outputs == 1 else rows


def unprovable(rule: Constraint, space: Space, bound: MarginBound | None) -> str:
    """Why nothing can be proved of a rule; empty where something can."""
    if rule.is_predictive:
        return "it is about all draws together, not about each of them"
    if bound is None:
        return "its kind does not say how its margin is bounded"
    for column in {each.derivative for each in bound.quantities if each.derivative is not None}:
        if not space.is_convex_along(space.schema.names[column]):
            return "its region has gaps along the column that outputs are compared along"
    return ""


@dataclass(frozen=True, eq=False)
class Provable:
    """The term on the bounds of one rule's margin, for one network."""

    rule: Constraint
    schema: Schema
    network: MLP
    wall: Distance

    def __reduce__(self) -> Any:
        return type(self), (self.rule, self.schema, self.network, self.wall)  # readings are functions

    @classmethod
    def of(cls, rule: Constraint, schema: Schema, network: Network, wall: Distance) -> Provable:
        """The term, where the rule can be proved of this network.

        Raises:
            ModelError: it cannot, with the reason.
        """
        named = f"The rule `{rule.text(schema)}` is to be proved, but"
        remedy = "Write `holds: everywhere`, or leave `holds` out."
        if not isinstance(network, MLP) or network.activation not in SHAPES:
            known = ", ".join(SHAPES)
            raise ModelError(f"{named} bounds are known of an MLP with {known} alone. Give one. {remedy}")
        found = cls(rule, schema, network, wall)
        reason = unprovable(rule, found.space, found.structure) if found.space.count else ""
        if reason:
            raise ModelError(f"{named} {reason}. {remedy}")
        return found

    @cached_property
    def space(self) -> Space:
        """The region as boxes."""
        return Space.of(self.rule.region, self.schema)

    @cached_property
    def structure(self) -> MarginBound | None:
        """What the kind says of the margin: the same on all boxes, but for numbers that `at` takes out."""
        return self._bound(self.space.roots)

    def _bound(self, some: Some) -> MarginBound | None:
        assert self.schema.target is not None
        units = Units.of_model(self.schema.target)
        return self.rule.requirement.bound(self.space.boxes(some), self.schema, units)

    def _cases(self, bound: MarginBound, some: Some) -> tuple[Case, ...]:
        return bound.cases or (Case(self.space.boxes(some), np.ones(some.low.shape[1], dtype=bool)),)

    @cached_property
    def _rows(self) -> Float[np.ndarray, "k R outputs"]:
        assert self.structure is not None
        assert self.schema.target is not None
        rows = network_rows(self.structure.rows, self.network.outputs, len(self.schema.target.classes))
        return np.swapaxes(rows, 0, 1)

    @cached_property
    def _shared(self) -> list[np.ndarray]:
        """Model inputs (D,) of each input of a case that have the value that they have in the box."""
        assert self.structure is not None
        widths = [column.width for column in self.schema.columns]
        return [np.repeat(case.same, widths) for case in self._cases(self.structure, self.space.roots)]

    def at(self, some: Some, count: int = BOXES) -> RuleBoxes:
        """These boxes, each counting 1, and so many in all: what is added counts for nothing.

        Every box has to be bounded. A mean over boxes would be powerless against one of them.
        """
        inside = ~self.space.outside(some)
        weights = np.zeros(max(count, len(some.part)))
        weights[: len(some.part)] = inside
        some = some.take(np.minimum(np.arange(len(weights)), len(some.part) - 1))
        bound = self._bound(some)
        assert bound is not None
        cases = self._cases(bound, some)
        ends = [self.space.model_ends(some)]
        for case in cases:
            there = Some(some.part, case.boxes.low, case.boxes.high)
            ends.append(self.space.model_ends(there, ~case.same))
        quantities = bound.quantities
        linear = self.space.in_model(np.stack([each.slopes for each in quantities], axis=1), some)
        return RuleBoxes(
            *some,
            tuple(ends),
            np.stack([each.factor for each in quantities]),
            np.swapaxes(linear.slopes, 0, 1),
            np.stack([each.constant for each in quantities]) + linear.constant.T,
            weights,
        )

    def of_table(self, table: Float[np.ndarray, "B columns"]) -> RuleBoxes:
        """The boxes that `RuleBoxes.table` gave.

        Raises:
            ModelError: they are not boxes of the region.
        """
        columns = len(self.schema.columns)
        part, low, high = np.split(np.asarray(table, dtype=float), [1, 1 + columns], axis=1)
        known = np.isin(part, np.arange(self.space.count)).all() and (low <= high).all()
        if not (known and 0 < len(table) <= BOXES and high.shape == low.shape):
            raise ModelError(f"The boxes of the rule `{self.rule.text(self.schema)}` lie outside of it.")
        return self.at(Some(part[:, 0].astype(int), low, high))

    def log_density(self, w: Float[Array, " size"], boxes: RuleBoxes, strength: Strength) -> Float[Array, ""]:
        """What the bounds on all boxes add to the log-density of the network's weights."""
        scores = self.wall.of(self.margins(w, boxes), strength)
        return jnp.sum(jnp.asarray(boxes.weights, scores.dtype) * scores)

    def margins(self, w: Float[Array, " size"], boxes: RuleBoxes) -> Float[Array, " B"]:
        """An upper bound of the margin on each box."""
        assert self.structure is not None
        w = jnp.asarray(w)
        whole, *cases = (
            _Box.of(jnp.asarray(low, w.dtype), jnp.asarray(high, w.dtype), self.space.groups)
            for low, high in boxes.ends
        )
        factor, slopes, constant = (
            jnp.asarray(each, w.dtype) for each in (boxes.factor, boxes.slopes, boxes.constant)
        )
        layers, quantities = self.network.unravel(w), self.structure.quantities
        columns = [self.space.starts[each] for each in self._derivatives]
        parts = []
        for rows, shared, box in zip(self._rows, self._shared, cases, strict=True):
            found = _reached(layers, self.network.activation, columns, jnp.asarray(rows, w.dtype), box)
            if not shared.all():  # what is not shared with the other inputs is bounded by itself
                together = shared[:, None, None]
                shift, radius = box.range(jnp.where(together, 0.0, found.forms))
                found = found._replace(
                    forms=jnp.where(together, found.forms, 0.0),
                    center=found.center + shift,
                    error=found.error + radius,
                )
            parts.append(found)
        found = jax.tree.map(lambda *each: reduce(jnp.add, each), *parts)
        upper = []
        for number, quantity in enumerate(quantities):
            row, size = quantity.row, factor[number]
            beside, limit = whole.scaled(slopes[number].T[..., None])
            bound = constant[number] + beside[:, 0]
            moved = jnp.add(*whole.range(limit))[:, 0]
            if quantity.derivative is not None:
                place = self._derivatives.index(quantity.derivative)
                steep = jnp.where(size > 0, found.steep[:, row, place], found.shallow[:, row, place])
                bound = bound + moved + size * steep
            elif not quantity.exact:
                lines = jnp.add(*whole.range(size[:, None] * found.forms[..., row, None] + limit))[:, 0]
                lines = lines + size * found.center[:, row] + jnp.abs(size) * found.error[:, row]
                end = jnp.where(size > 0, found.most[:, row], found.least[:, row])
                bound = bound + jnp.minimum(lines, moved + size * end)
            upper.append(bound)
        return self.structure.margin(upper)

    @cached_property
    def _derivatives(self) -> list[int]:
        """Columns by which derivatives are asked for."""
        assert self.structure is not None
        return sorted({each.derivative for each in self.structure.quantities if each.derivative is not None})

    @cached_property
    def _looseness(self) -> Any:
        """Bounds on average over draws, box by box."""

        def looseness(draws: Array, boxes: RuleBoxes) -> Array:
            return jnp.mean(jax.vmap(lambda w: self.margins(w, boxes))(draws), axis=0)

        return jax.jit(looseness)

    def partition(self, draws: Float[np.ndarray, "S size"], count: int = BOXES) -> RuleBoxes:
        """So many boxes, which together are the region, fine where bounds of these draws are high.

        Fewer where nothing is left to cut, but never because bounds are low enough: coarser boxes would ask
        for more of functions than they need to.
        """
        some, weights = self.space.roots, np.asarray(draws)
        columns = some.low.shape[1]
        batch = 2 * CUT_TOGETHER * columns

        def scores(boxes: Some) -> np.ndarray:
            found = [
                np.asarray(self._looseness(weights, self.at(boxes.take(slice(first, first + batch)), batch)))
                for first in range(0, len(boxes.part), batch)
            ]
            # What is not a number is as loose as can be.
            whole = np.nan_to_num(np.concatenate(found), nan=1e30, posinf=1e30)[: len(boxes.part)]
            return np.where(self.space.outside(boxes), -np.inf, whole)

        known = scores(some)
        while len(known) < count:
            first, second = self.space.cuts(some)
            possible = np.asarray(np.isfinite(first).any(axis=1))
            worst = np.argsort(np.where(possible, -known, np.inf), kind="stable")
            worst = worst[: min(CUT_TOGETHER, count - len(known))]
            worst = worst[np.isfinite(known[worst]) & possible[worst]]
            if not len(worst):
                break
            # Every way to cut each of them: the lower halves, then the upper ones.
            which = np.repeat(worst, columns)
            along = np.tile(np.arange(columns), len(worst))
            lower, upper = first[which, along], second[which, along]
            can = np.isfinite(lower)
            halves = [some.take(which), some.take(which)]
            each = np.flatnonzero(can)
            halves[0].high[each, along[each]] = lower[each]
            halves[1].low[each, along[each]] = upper[each]
            found = scores(_joined(halves)).reshape(2, len(worst), columns)
            cost = np.where(can.reshape(len(worst), columns), found.sum(axis=0), np.inf)
            best = np.argmin(cost, axis=1) + columns * np.arange(len(worst))
            kept = np.setdiff1d(np.arange(len(known)), worst)
            some = _joined([some.take(kept), *(half.take(best) for half in halves)])
            known = np.concatenate([known[kept], *found.reshape(2, -1)[:, best]])
        return self.at(some, count)


def _joined(parts: Sequence[Some]) -> Some:
    return Some(*(np.concatenate(each) for each in zip(*parts, strict=True)))


class _Box(NamedTuple):
    """Boxes as x = middle + radius · t with |t| <= 1; in a category's group x itself, where it may be 1."""

    middle: Array  # (B, D)
    radius: Array
    possible: Array  # (B, D) of groups: whether this input may be 1
    groups: Groups

    @classmethod
    def of(cls, low: Array, high: Array, groups: Groups) -> _Box:
        grouped = np.zeros(low.shape[1], dtype=bool)
        for start, stop in groups:
            grouped[start:stop] = True
        middle = jnp.where(grouped, 0.0, (low + high) / 2)
        return cls(middle, jnp.where(grouped, 1.0, (high - low) / 2), high > 0, groups)

    def scaled(self, forms: Float[Array, "D B n"]) -> tuple[Float[Array, "B n"], Float[Array, "D B n"]]:
        """Forms of x as numbers and forms of t."""
        middle, radius = self.middle.T[..., None], self.radius.T[..., None]
        return jnp.sum(forms * middle, axis=0), forms * radius

    def range(self, forms: Float[Array, "D B n"]) -> tuple[Float[Array, "B n"], Float[Array, "B n"]]:
        """The middle and the radius of forms of t."""
        radius, begin = jnp.zeros(forms.shape[1:], forms.dtype), 0
        middle = radius
        for start, stop in self.groups:
            radius = radius + jnp.sum(jnp.abs(forms[begin:start]), axis=0)
            possible, group = self.possible[:, None, start:stop], jnp.moveaxis(forms[start:stop], 0, -1)
            most = largest(jnp.where(possible, group, -jnp.inf))
            least = -largest(jnp.where(possible, -group, -jnp.inf))
            middle, radius, begin = middle + (most + least) / 2, radius + (most - least) / 2, stop
        return middle, radius + jnp.sum(jnp.abs(forms[begin:]), axis=0)


class _Reached(NamedTuple):
    """Rows of the outputs on each box: forms of t, center ± error; intervals, of derivatives too."""

    forms: Array  # (D, B, R)
    center: Array  # (B, R)
    error: Array
    least: Array
    most: Array
    shallow: Array  # (B, R, columns)
    steep: Array


def _reached(
    layers: Sequence[tuple[Array, Array]],
    activation: str,
    columns: Sequence[int],
    rows: Float[Array, "R outputs"],
    box: _Box,
) -> _Reached:
    (first, biases), *rest = layers
    outputs, places = rows.T, np.array(columns, dtype=int)
    if not rest:
        first, biases = first @ outputs, biases @ outputs
    boxes, inputs = box.middle.shape
    forms = box.radius.T[..., None] * first[:, None]
    center, error = box.middle @ first + biases, jnp.zeros((boxes, len(biases)), first.dtype)
    middle, radius = box.range(forms)
    least, most = center + middle - radius, center + middle + radius
    # Derivatives by the columns that are asked for, one behind the other.
    shallow = steep = jnp.broadcast_to(first[places], (boxes, len(places), first.shape[1]))
    function = ACTIVATIONS[activation].function
    for number, (weights, biases) in enumerate(rest, start=1):
        units, direct = forms.shape[2], weights[:0]
        if weights.shape[0] > units:  # the last layer reads the inputs too
            weights, direct = weights[:units], weights[units:]
        if number == len(rest):
            weights, direct, biases = weights @ outputs, direct @ outputs, biases @ outputs
        least_slope, most_slope = slope_span(activation, least, most)
        below, above = span(activation, least, most)
        ends, width = (function(least), function(most)), most - least
        errors = [
            0.5 * (ends[1] - ends[0] - least_slope * width),
            0.5 * (most_slope * width - ends[1] + ends[0]),
        ]
        # Any mean of two such pairs of lines is one: mostly the closer pair, and smooth in the weights.
        squares = [jnp.square(jnp.maximum(each, 0.0) + ALIKE) for each in errors]
        share = squares[1] / (squares[0] + squares[1])
        slope = share * least_slope + (1.0 - share) * most_slope
        added = jnp.maximum(share * errors[0] + (1.0 - share) * errors[1], 0.0)
        offset = 0.5 * (ends[0] + ends[1] - slope * (least + most))
        size = jnp.abs(weights)
        center = (slope * center + offset) @ weights + biases
        error = (jnp.abs(slope) * error + added) @ size
        forms = (slope * forms) @ weights
        mean, apart = (below + above) / 2 @ weights + biases, (above - below) / 2 @ size
        corners = [one[:, None] * other for one in (least_slope, most_slope) for other in (shallow, steep)]
        slow, fast = reduce(jnp.minimum, corners), reduce(jnp.maximum, corners)
        turn, spread = (slow + fast) / 2 @ weights, (fast - slow) / 2 @ size
        if len(direct):
            beside, linear = box.scaled(jnp.broadcast_to(direct[:, None], (inputs, boxes, direct.shape[1])))
            shift, radius = box.range(linear)
            center, forms, turn = center + beside, forms + linear, turn + direct[places]
            mean, apart = mean + beside + shift, apart + radius
        shallow, steep = turn - spread, turn + spread
        # Lines would tighten these on small boxes, but hardly on as few as these, at seven times the cost.
        least, most = mean - apart, mean + apart
    return _Reached(forms, center, error, least, most, jnp.swapaxes(shallow, 1, 2), jnp.swapaxes(steep, 1, 2))
