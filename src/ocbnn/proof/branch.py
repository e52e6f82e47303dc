"""Branch and bound: every draw's network on all of a rule's region, box by box.

One first-in-first-out queue holds the boxes of all draws. A batch of them is bounded at once, always as many, so
that each program is compiled once. A box whose margin is at most 0 everywhere is done, as is one outside the region.
In any other two points are tried, the corner where the bound is largest and the middle: a point that violates
refutes the draw. Then the box is halved where its bound is loosest.

The record of cuts is the certificate: the same queue, told where to cut, must end with every box bounded (`replay`).
"""  # noqa: E501

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.checking.draws import Drawn, margins_at
from ocbnn.model.boxes import UNIT, Linear, Some, Space, highest
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.likelihoods import Likelihood
from ocbnn.model.networks import MLP, Network
from ocbnn.model.outputs import precision, working_precision
from ocbnn.model.provable import network_rows
from ocbnn.proof.bounds import Spread
from ocbnn.proof.results import PROVED, REFUTED, UNDECIDED
from ocbnn.rules.bounding import Boxes, Case, MarginBound
from ocbnn.rules.formulas import UndefinedError
from ocbnn.rules.margins import placed
from ocbnn.rules.requirement import Units

HELD = 400_000
"""Numbers of the largest array of a batch: more do not fit into a core's cache, and take longer each."""
MOST_PAIRS, LEAST_PAIRS = 512, 16
LEAF = -1
"""In a record: the box was bounded, or lies outside."""


class Queue:
    """Pairs of draw and box, first in, first out."""

    def __init__(self, draw: np.ndarray, some: Some) -> None:
        self.chunks: deque[tuple[np.ndarray, Some]] = deque([(draw, some)])

    def push(self, draw: np.ndarray, some: Some) -> None:
        if len(draw):
            self.chunks.append((draw, some))

    def take(self, count: int, alive: np.ndarray) -> tuple[np.ndarray, Some]:
        """At most so many of the first pairs whose draw is alive; those of others are dropped."""
        taken: list[tuple[np.ndarray, Some]] = []
        missing = count
        while self.chunks and missing:
            draw, some = self.chunks.popleft()
            kept = alive[draw]
            if not kept.all():
                draw, some = draw[kept], some.take(kept)
            if len(draw) > missing:
                self.chunks.appendleft((draw[missing:], some.take(slice(missing, None))))
                draw, some = draw[:missing], some.take(slice(missing))
            if len(draw):
                taken.append((draw, some))
                missing -= len(draw)
        if not taken:
            return np.zeros(0, dtype=int), Some(np.zeros(0, dtype=int), np.zeros((0, 0)), np.zeros((0, 0)))
        draws, boxes = zip(*taken, strict=True)
        return np.concatenate(draws), Some(*(np.concatenate(each) for each in zip(*boxes, strict=True)))


@dataclass(frozen=True, eq=False)
class Bounder:
    """Bounds of one rule's margin for draws of one model."""

    drawn: Drawn
    term: RuleTerm
    space: Space
    spread: Spread
    weights: Float[np.ndarray, "S size"]  # as `predict` uses them, in float64
    pairs: int

    @classmethod
    def of(cls, drawn: Drawn, term: RuleTerm) -> Bounder:
        """For the kept draws.

        Raises:
            ModelError: a network whose bounds are not known.
        """
        model = drawn.model
        kind = working_precision(model)
        unit = float(np.finfo(np.dtype(kind)).eps) / 2
        space = Space.of(term.rule.region, drawn.schema, unit)
        spread = Spread(model.network, unit, space.groups)  # type: ignore[arg-type]
        weights = drawn.flat[:, : model.network.size].astype(kind).astype(np.float64)
        assert isinstance(model.network, MLP)
        widths = model.network.widths
        most = max(2 * before * after for before, after in pairwise(widths))
        fitting = 1 << max((HELD // most).bit_length() - 1, 0)
        pairs = int(np.clip(fitting, LEAST_PAIRS, MOST_PAIRS))
        return cls(drawn, term, space, spread, weights, pairs)

    def bound_of(self, boxes: Boxes) -> MarginBound | None:
        """What the rule's kind says of its margin on these boxes; None: it cannot be bounded."""
        units = Units.of_model(self.drawn.target)
        return self.term.rule.requirement.bound(boxes, self.drawn.schema, units)

    def __call__(self, draw: np.ndarray, some: Some) -> Bounded:
        """Bounds of at most `pairs` margins."""
        count = len(draw)
        every = np.resize(np.arange(count), self.pairs)
        draw, some = draw[every], some.take(every)
        bound = self.bound_of(self.space.boxes(some))
        assert bound is not None
        upper, slopes = self._quantities(bound, draw, some)
        with np.errstate(invalid="ignore"):
            margin = np.asarray(bound.margin(list(upper.T)))
        margin = margin + self._rounding
        margin = np.where(np.isnan(margin), np.inf, margin)
        # The corner of the quantity that decides, where one does.
        decisive = np.argmin(np.abs(upper - margin[:, None]), axis=1)
        steepest = slopes.slopes[np.arange(len(draw)), decisive]
        return Bounded(margin[:count], steepest[:count], self._scores(slopes, some, steepest)[:count])

    @property
    def _rounding(self) -> float:
        """Of class probabilities beyond that of their logits, and of the margin itself."""
        return 64 * max(len(self.drawn.classes), 1) * self.spread.unit if self.drawn.classes else 0.0

    def _quantities(
        self, bound: MarginBound, draw: np.ndarray, some: Some
    ) -> tuple[Float[np.ndarray, "P M"], _Slopes]:
        """Upper bounds of the quantities, and the lines that they come from."""
        low, high = self.space.model_ends(some)
        lines = self._lines(bound, draw, some)
        count, pair = len(bound.rows), np.arange(len(draw))
        found, constant = [], []
        for quantity in bound.quantities:
            place = np.where(quantity.factor > 0, quantity.row, quantity.row + count)
            size = np.abs(quantity.factor)
            with np.errstate(invalid="ignore"):
                limit = self.space.in_model(quantity.slopes[:, None], some)
                if quantity.derivative is None:
                    slopes, read = size[:, None] * lines.slopes[pair, place], lines.constant[pair, place]
                else:
                    slopes = np.zeros_like(low)
                    read = lines.steepest[pair, place, self.space.starts[quantity.derivative]]
                    read = read + quantity.drifts * (lines.drift[:, quantity.row] + self._output_error)
                found.append(slopes + limit.slopes[:, 0])
                last = size * read + limit.constant[:, 0] + quantity.constant
                magnitude = size * np.abs(read) + np.abs(quantity.constant)
                constant.append(last if quantity.exact else last + self._reading_error(magnitude, size))
        linear = Linear(np.stack(found, axis=1), np.stack(constant, axis=1))
        with np.errstate(invalid="ignore"):
            upper = self.space.most(linear, some, low, high)
        gaps = np.sum([quantity.gap for quantity in bound.quantities], axis=0)
        return upper, _Slopes(linear.slopes, lines.looseness, gaps)

    def _lines(self, bound: MarginBound, draw: np.ndarray, some: Some) -> _Lines:
        """Upper lines of the bound's rows and of their opposites, input by input of a case."""
        by_derivative = any(each.derivative is not None for each in bound.quantities)
        cases = bound.cases or (Case(bound.boxes, np.ones(bound.boxes.low.shape[1], dtype=bool)),)
        parts = []
        for number, (boxes, same) in enumerate(cases):
            rows = network_rows(
                bound.rows[:, number], self.drawn.model.network.outputs, len(self.drawn.classes)
            )
            both = jnp.asarray(np.concatenate([rows, -rows]))
            low, high = self.space.model_ends(Some(some.part, boxes.low, boxes.high), ~same)
            with precision("float64"):
                layers = self.spread.layers(self.weights[draw], low, high)
                slopes, constant, looseness = map(np.asarray, self.spread.forms(layers, both))
                drift = np.abs(rows) @ np.asarray(layers.last_drift)[..., None]
                if by_derivative:
                    steepest = np.asarray(self.spread.jacobian(layers, both)[1])
                else:
                    steepest = np.zeros((0, 0, 0))
            shared = np.repeat(same, [column.width for column in self.drawn.schema.columns])
            if not same.all():  # what is not shared with the other inputs is bounded by itself
                own = np.where(shared, 0.0, slopes)
                constant = constant + highest(own, low, high, self.space.groups)
                slopes = np.where(shared, slopes, 0.0)
            parts.append(_Lines(slopes, constant, looseness, steepest, drift[..., 0]))
        return _Lines(*(np.sum(each, axis=0) for each in zip(*parts, strict=True)))

    def _reading_error(self, magnitude: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Of limits in model units, and of what is predicted in raw ones, which margins are computed in.

        y = scale·v + center is off by two units of the last place, exp(…) of it by eight.
        """
        target = self.drawn.target
        if target.classes:
            return 64 * self.spread.unit * size + 16 * UNIT * magnitude
        center = abs(target.center) / target.scale
        return 16 * UNIT * (magnitude + size * (center + (1.0 / target.scale if target.is_log else 0.0)))

    @property
    def _output_error(self) -> float:
        """Of an output in model units, or of a logit, beyond its drift: as it becomes what rules speak of."""
        target = self.drawn.target
        if target.classes:
            return 256 * self.spread.unit
        return 16 * UNIT * (1.0 + abs(target.center) / target.scale)

    def _scores(self, slopes: _Slopes, some: Some, steepest: np.ndarray) -> Float[np.ndarray, "P Q"]:
        """How much each column is to blame for a bound that is not good enough."""
        low, high = self.space.model_ends(some)
        moved = np.abs(steepest) * (high - low)
        by_input = slopes.looseness + 1e-3 * moved
        starts = self.space.starts
        scores = np.add.reduceat(by_input, starts, axis=1)
        whole = self.space.roots
        spans = np.maximum(whole.high.max(axis=0) - whole.low.min(axis=0), 1e-300)
        shares = (some.high - some.low) / spans
        named = np.isin(self.drawn.schema.names, list(self.term.rule.requirement.columns()))
        with np.errstate(invalid="ignore", over="ignore"):
            scores = scores + np.minimum(slopes.gap, 1e100)[:, None] * named * shares + 1e-9 * shares
        return np.nan_to_num(scores, nan=0.0, posinf=1e200)


class _Lines(NamedTuple):
    """Upper lines of rows and of their opposites, and upper bounds of their derivatives."""

    slopes: Float[np.ndarray, "P 2R D"]
    constant: Float[np.ndarray, "P 2R"]
    looseness: Float[np.ndarray, "P D"]
    steepest: Float[np.ndarray, "P 2R D"]
    drift: Float[np.ndarray, "P R"]


class _Slopes(NamedTuple):
    slopes: Float[np.ndarray, "P M D"]
    looseness: Float[np.ndarray, "P D"]
    gap: Float[np.ndarray, " P"]


class Bounded(NamedTuple):
    """On each box: an upper bound of the margin, where its line rises, how loose it is along each column."""

    margin: Float[np.ndarray, " P"]
    slopes: Float[np.ndarray, "P D"]
    scores: Float[np.ndarray, "P Q"]


@dataclass
class Outcome:
    """What branch and bound found, draw by draw.

    Attributes:
        status: `PROVED`, `REFUTED` or `UNDECIDED`.
        points: of refuted draws, coded points that they violate the rule at.
        remaining: the share of the region that was not bounded.
        boxes: how many were looked at.
        record: draw, column and place of every cut, in the order of the queue; `LEAF` where there was none.
    """

    status: np.ndarray
    points: dict[int, np.ndarray]
    remaining: Float[np.ndarray, " S"]
    boxes: int = 0
    record: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def certificate(self) -> tuple[np.ndarray, np.ndarray]:
        """Columns and places of the cuts of all proved draws."""
        if not self.record:
            return np.zeros(0, dtype=np.int32), np.zeros(0)
        draw, column, place = (np.concatenate(each) for each in zip(*self.record, strict=True))
        kept = self.status[draw] == PROVED
        return column[kept].astype(np.int32), place[kept]


Told = Callable[[int, int], None]
"""Draws decided, of all."""
Attack = Callable[[np.ndarray], dict[int, np.ndarray]]
"""Some draws → those that were found to violate, each with a point."""
PATIENCE = 32
"""Boxes a draw, on average, after which those that are left are attacked: cheaper than many boxes more."""


def search(
    bounder: Bounder,
    refuted: dict[int, np.ndarray],
    attack: Attack,
    *,
    boxes: int,
    seconds: float,
    told: Told | None = None,
) -> Outcome:
    """Decide every draw that is not refuted yet, as far as the budget goes.

    Args:
        bounder: of the rule.
        refuted: draws that an attack has refuted, with the coded points.
        attack: looks for points that violate, once, among the draws that are not decided soon.
        boxes: that each draw may take.
        seconds: for all of them.
        told: hears how many draws are decided.
    """
    count = len(bounder.weights)
    status = np.full(count, UNDECIDED, dtype=np.int8)
    status[list(refuted)] = REFUTED
    remaining = np.ones(count)
    outcome = Outcome(status, dict(refuted), remaining)
    alive = status == UNDECIDED
    used, waiting = np.zeros(count, dtype=int), np.zeros(count, dtype=int)
    roots, started = bounder.space.roots, time.monotonic()
    first = np.repeat(np.flatnonzero(alive), len(roots.part))
    every = np.tile(np.arange(len(roots.part)), int(alive.sum()))
    np.add.at(waiting, first, 1)
    status[alive & (waiting == 0)], remaining[alive & (waiting == 0)] = PROVED, 0.0
    alive &= waiting > 0
    queue = Queue(first, roots.take(every))
    evaluate, patience = Predicted(bounder), PATIENCE * len(first)
    while time.monotonic() - started < seconds:
        draw, some = queue.take(bounder.pairs, alive)
        if not len(draw):
            break
        if outcome.boxes <= patience < outcome.boxes + len(draw):
            for which, point in attack(np.flatnonzero(alive)).items():
                outcome.points[which], status[which], alive[which] = point, REFUTED, False
        outcome.boxes += len(draw)
        np.add.at(used, draw, 1)
        np.subtract.at(waiting, draw, 1)
        column = np.full(len(draw), LEAF)
        place = np.zeros(len(draw))
        done = bounder.space.outside(some)
        open_boxes = np.flatnonzero(~done)
        if len(open_boxes):
            inside, whose = some.take(open_boxes), draw[open_boxes]
            found = bounder(whose, inside)
            done[open_boxes] = found.margin <= 0
            left = np.flatnonzero(found.margin > 0)
            inside, whose, places = inside.take(left), whose[left], open_boxes[left]
            for point, which in evaluate.violated(whose, inside, found.slopes[left]):
                if alive[which]:
                    outcome.points[which], status[which], alive[which] = point, REFUTED, False
            lower, upper = bounder.space.cuts(inside)
            scores = np.where(np.isnan(lower), -np.inf, found.scores[left])
            best = np.argmax(scores, axis=1) if len(left) else np.zeros(0, dtype=int)
            each = np.arange(len(left))
            cut = np.isfinite(lower[each, best])
            alive[whose[~cut]] = False  # nothing is left to cut: undecided

            children = _halves(inside.take(cut), best[cut], lower[each, best][cut], upper[each, best][cut])
            column[places[cut]], place[places[cut]] = best[cut], lower[each, best][cut]
            parents = np.repeat(whose[cut], 2)
            queue.push(parents, children)
            np.add.at(waiting, parents, 1)
        outcome.record.append((draw, column, place))
        np.subtract.at(remaining, draw[done], bounder.space.volumes(some.take(done)))
        finished = alive & (waiting == 0)
        status[finished], alive[finished], remaining[finished] = PROVED, False, 0.0
        alive[used >= boxes] = False
        if told is not None:
            told(int((~alive).sum()), count)
    remaining[status == REFUTED] = 0.0
    np.clip(remaining, 0.0, 1.0, out=remaining)
    return outcome


def _halves(some: Some, column: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Some:
    """The two halves of each box, one after the other."""
    twice = some.take(np.repeat(np.arange(len(column)), 2))
    low, high = twice.low.copy(), twice.high.copy()
    each = np.arange(len(column))
    high[2 * each, column] = lower
    low[2 * each + 1, column] = upper
    return Some(twice.part, low, high)


def replay(
    bounder: Bounder, proved: np.ndarray, columns: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Bound all boxes of a certificate again.

    Returns:
        Which of the `proved` draws are proved by it, and whether the certificate fits the region: every cut
        leads to two boxes, and none is left over.
    """
    roots = bounder.space.roots
    fine = np.zeros(len(bounder.weights), dtype=bool)
    fine[proved] = True
    queue = Queue(
        np.repeat(proved, len(roots.part)), roots.take(np.tile(np.arange(len(roots.part)), len(proved)))
    )
    alive, at = np.ones(len(fine), dtype=bool), 0
    while True:
        draw, some = queue.take(bounder.pairs, alive)
        if not len(draw):
            return fine[proved], at == len(columns)
        column, place = columns[at : at + len(draw)], places[at : at + len(draw)]
        at += len(draw)
        if len(column) < len(draw):
            return fine[proved] & False, False
        leaf = np.flatnonzero(column == LEAF)
        left = leaf[~bounder.space.outside(some.take(leaf))]
        if len(left):
            fine[draw[left[bounder(draw[left], some.take(left)).margin > 0]]] = False
        split = np.flatnonzero(column != LEAF)
        inside, best = some.take(split), column[split]
        each = np.arange(len(split))
        if ((best < 0) | (best >= some.low.shape[1])).any():
            return fine[proved] & False, False
        lower, upper = (ends[each, best] for ends in bounder.space.cuts(inside))
        # A number may be cut anywhere inside; whole numbers and codes only between two of them.
        anywhere = lower == upper
        within = (place[split] > inside.low[each, best]) & (place[split] < inside.high[each, best])
        if not np.where(anywhere, within, lower == place[split]).all():
            return fine[proved] & False, False
        upper = np.where(anywhere, place[split], upper)
        children = _halves(inside, best, place[split], upper)
        queue.push(np.repeat(draw[split], 2), children)


# Points that violate ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Predicted:
    """What draws predict at points, one point for each draw."""

    bounder: Bounder

    def violated(
        self, draw: np.ndarray, some: Some, slopes: Float[np.ndarray, "P D"]
    ) -> Iterator[tuple[np.ndarray, int]]:
        """Points of these boxes that violate the rule, each with its draw: corners, then middles."""
        if not len(draw):
            return
        space = self.bounder.space
        points = np.concatenate([space.corners(slopes, some), space.middles(some)])
        draws = np.tile(draw, 2)
        inside = space.region.contains(points, space.schema)
        # Kinds with coordinates of their own, such as a step, are tried at one end of them or the other.
        further = self.bounder.term.rule.requirement.coordinates
        ends = np.resize([0.0, 1.0], (len(points), 1)) * np.ones(further)
        points = np.concatenate([points, ends], axis=1)
        points, draws = points[inside], draws[inside]
        for begin in range(0, len(points), self.bounder.pairs):
            block = slice(begin, begin + self.bounder.pairs)
            wrong = np.flatnonzero(self.margins(draws[block], points[block]) > 0) + begin
            # One point for each draw; what is told as a violation is one of `predict`, computed as it does.
            _, first = np.unique(draws[wrong], return_index=True)
            wrong = wrong[first]
            if len(wrong):
                drawn, term = self.bounder.drawn, self.bounder.term
                each = margins_at(drawn, drawn.flat[draws[wrong]], term, points[wrong])
                for place in wrong[np.diagonal(each) > 0]:
                    yield points[place], int(draws[place])

    def margins(self, draw: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The margin of each draw at its own point."""
        drawn, rule = self.bounder.drawn, self.bounder.term.rule
        found = np.full(len(draw), -np.inf)
        try:
            at = placed(rule, drawn.schema, points)
        except UndefinedError as error:
            fine = np.flatnonzero(error.defined)
            if len(fine):
                found[fine] = self.margins(draw[fine], points[fine])
            return found
        kind = working_precision(drawn.model)
        every = np.resize(np.arange(len(draw)), self.bounder.pairs)
        inputs = drawn.schema.to_model(at.inputs).reshape(at.cases, -1, drawn.schema.width)
        with precision(kind):
            values = _pairwise(
                drawn.model.network,
                drawn.model.likelihood,
                self.bounder.weights[draw[every]].astype(kind),
                inputs[every].astype(kind),
            )
        values = np.asarray(values).astype(float)[: len(draw)]
        values = values if drawn.classes else drawn.target.to_raw(values)
        if rule.requirement.inputs == 1:
            values = values[:, 0]
        return rule.requirement.violation(at.demand, values)


@partial(jax.jit, static_argnums=(0, 1))
def _pairwise(network: Network, likelihood: Likelihood, draws: Array, inputs: Array) -> Array:
    """What rules speak of for each draw at its own inputs (P, k, D)."""
    values = jax.vmap(lambda w, x: likelihood.function(network.apply(w, x)))(draws, inputs)
    return values if values.ndim == 2 else jnp.exp(values)
