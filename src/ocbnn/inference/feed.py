"""What each step sees: always the same rows and points, or a minibatch and fresh points every time.

Data stay on the host, or in files that are read as they are needed; a chunk's minibatches and points are put
together there, shuffled anew each pass, and handed over stacked along a first axis of steps. All of it
depends on the seed and the chunk's number alone, so a resumed run sees what an uninterrupted one would have
seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from ocbnn.checking.search import searchable
from ocbnn.inference.density import Context
from ocbnn.model import Data, Model
from ocbnn.model.conditional import RulePoints, RuleTerm, rule_points
from ocbnn.model.model import Stream
from ocbnn.seeds import seed_for

ALL_ROWS, BATCH = 2048, 1024


def default_batch(model: Model) -> int | None:
    """Rows of a minibatch where nobody says: all of them (None) while they are few."""
    return None if model.rows <= ALL_ROWS else BATCH


@dataclass(frozen=True, eq=False)
class Feed:
    """Stacked contexts of a stochastic engine's steps.

    Attributes:
        model: whose data and rules are fed.
        seed: of shuffling and of points.
        batch: rows of a minibatch; None for all rows at every step.
        share: which of how many equal shares of each minibatch this process puts together.
    """

    model: Model
    seed: int
    batch: int | None
    share: tuple[int, int] = (0, 1)
    dtype: Any = np.float32

    def chunk(self, number: int, steps: int) -> Context:
        """The contexts of steps `number · steps` to `(number + 1) · steps`, stacked."""
        rules = self.model.terms
        points = tuple(self._points(rule, number, steps) for rule in rules)
        return Context(self._rows(number, steps), points, ())

    def one(self, number: int) -> Context:
        """The context of a single step."""
        return jax.tree.map(lambda leaf: leaf[0], self.chunk(number, 1))

    def _rows(self, number: int, steps: int) -> Data | None:
        data = self.model.data
        if data is None:
            return None
        total = self.model.rows
        size = total if self.batch is None else min(self.batch, total)
        place, shares = self.share
        own = -(-size // shares)  # rows of each share, the last ones of which may count for nothing
        if self._stream is not None:
            # The row groups of a share stand for themselves: each has as many rows of a minibatch.
            taken = self._stream.take(self.seed, number * steps * own, steps * own)
            inputs, y = (np.asarray(leaf).astype(self.dtype, copy=False) for leaf in (taken.inputs, taken.y))
            weights = np.full((steps, own), self._stream.rows / own, self.dtype)
            return Data(inputs.reshape(steps, own, -1), y.reshape(steps, own), weights)
        weights = np.ones(total) if data.weights is None else np.asarray(data.weights)
        order = self._order(number * steps * size, steps * size, total)
        index = order.reshape(steps, size)
        scaled = weights[index] * (total / size)
        if shares > 1:
            index, scaled = (np.pad(each, ((0, 0), (0, shares * own - size))) for each in (index, scaled))
            some = slice(place * own, (place + 1) * own)
            index, scaled = index[:, some], scaled[:, some]
        return Data(
            np.asarray(data.inputs)[index].astype(self.dtype),
            np.asarray(data.y)[index].astype(self.dtype),
            scaled.astype(self.dtype),
        )

    @cached_property
    def _stream(self) -> Stream | None:
        """The rows in files that this process reads."""
        return None if self.model.stream is None else self.model.stream.share(*self.share)

    def _order(self, start: int, count: int, total: int) -> np.ndarray:
        """Rows `start` to `start + count` of the endless sequence of shuffled passes."""
        passes = range(start // total, (start + count - 1) // total + 1)
        seeds = [seed_for(self.seed, "rows", turn) for turn in passes]
        orders = [np.random.default_rng(seed).permutation(total) for seed in seeds]
        offset = start - passes[0] * total
        return np.concatenate(orders)[offset : offset + count]

    def _points(self, rule: RuleTerm, number: int, steps: int) -> RulePoints:
        """Fresh points for every step; those that were found by ascent, and corners, are in all of them.

        The population of a rule is the same at every step.
        """
        if not searchable(rule):
            return jax.tree.map(lambda leaf: self._repeated(leaf, steps), rule.points)
        key = seed_for(self.seed, "points", number)
        fresh = rule_points(key, rule.rule, rule.schema, rule.data, steps * rule.drawn, rule.sampler)
        order = np.random.default_rng(seed_for(key, "order"))
        fresh = order.permutation(fresh)  # each step a fair share of a sobol set
        kept = np.asarray(rule.points.coded)[rule.drawn :]
        tail = np.broadcast_to(kept, (steps, *kept.shape))
        coded = np.concatenate([fresh.reshape(steps, rule.drawn, kept.shape[1]), tail], axis=1)
        flat = rule.at(coded.reshape(-1, coded.shape[-1]))

        def stacked(leaf: Any) -> np.ndarray:
            array = np.asarray(leaf)
            return _cast(array.reshape(steps, -1, *array.shape[1:]), self.dtype)

        return RulePoints(
            stacked(flat.coded),
            stacked(flat.inputs),
            jax.tree.map(stacked, flat.demand),
            self._repeated(rule.points.weights, steps),
            np.full(steps, rule.points.strength, self.dtype),  # type: ignore[arg-type]
            jax.tree.map(lambda leaf: self._repeated(leaf, steps), rule.points.boxes),
        )

    def _repeated(self, leaf: Any, steps: int) -> np.ndarray:
        array = _cast(np.asarray(leaf), self.dtype)
        return np.broadcast_to(array, (steps, *array.shape))


def _cast(leaf: np.ndarray, dtype: Any) -> np.ndarray:
    return leaf.astype(dtype) if leaf.dtype.kind == "f" else leaf
