"""Where do functions violate a rule most? Found by ascent on the margin inside the rule's region.

Rules are violated between points and in corners, and random points in ten dimensions never see a corner. So
starts are many: fresh points of the region, the same with the columns that the rule does not name spread
evenly over their limits (Sobol), corners, and copies pushed to edges. The best of them climb, without
derivatives, in batches of one fixed shape (the network compiles once), never leaving the region nor the
declared bounds. In the end every level of every category is tried, and the whole numbers beside.

    worst = worst_points(0, rule, functools.partial(model_outputs, model, draws), count=16)
    worst.coded[worst.margin > 0]      # points at which some draw violates the rule, the worst first
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import qmc

from ocbnn import regions
from ocbnn.checking.draws import Drawn, case_noise, evenly
from ocbnn.model.conditional import RuleTerm, rule_points, rule_vertices
from ocbnn.model.outputs import function_values
from ocbnn.regions.limits import Limits, observed_width
from ocbnn.rules.margins import by_case, margins, placed
from ocbnn.rules.requirement import Units
from ocbnn.schema import Schema

Outputs = Callable[[Float[np.ndarray, "n D"]], np.ndarray]
"""Model inputs → y `(draws, n)` in model units, or class probabilities `(draws, n, C)`."""

Score = Literal["worst draw", "share of draws"]
"""How the draws' margins at a point become the one number that is climbed: `scored`."""

BATCH = 512
"""Points evaluated at once, always as many."""
CLIMBERS = 32
"""Points that climb side by side; each has `BATCH / CLIMBERS` children a round."""
SEARCHED_DRAWS = 200
"""Draws that a search looks at, evenly spaced: it has to find a place, not to estimate."""
CHECK_STARTS, CHECK_ROUNDS = 2000, 20
"""Of a search among draws: with these it finds 95 of 100 planted pockets of a thousandth of the box."""
FOUND = CLIMBERS
"""Points that a search among draws gives back at the most."""
PULLS = 12
"""Halvings of a step that leaves the region: it ends within 1/4,096 of itself from the face crossed."""
FIRST_STEP, LAST_STEP = 0.5, 0.002
"""Standard deviation of steps in the first and in the last round, as shares of a column's width."""


class WorstPoints(NamedTuple):
    """Distinct points of a rule's region, the worst first.

    Attributes:
        coded: the points, with the further coordinates of the rule's kind.
        margin: the largest over the draws, in model units.
        score: what was climbed.
    """

    coded: Float[np.ndarray, "count Q"]
    margin: Float[np.ndarray, " count"]
    score: Float[np.ndarray, " count"]


def worst_points(
    key: Any,
    rule: RuleTerm,
    outputs_at: Outputs,
    *,
    count: int = 16,
    score: Score = "worst draw",
    starts: int = 2000,
    rounds: int = 30,
) -> WorstPoints:
    """At most `count` points at which the given functions violate the rule most, or come closest to it.

    None for rules that are judged by all draws together, and for those whose points make one case.

    Args:
        key: anything `numpy.random.default_rng` takes.
        rule: with its region, and the sampler and rows that say which inputs are realistic.
        outputs_at: the functions; called with batches of always the same shape.
        count: how many points to give back; fewer where climbers met.
        score: what is climbed: see `scored`.
        starts: fresh points of the region to start from; its vertices and pushed copies join them.
        rounds: of ascent.
    """
    if not searchable(rule) or rule.rule.is_predictive:
        width = len(rule.schema.columns) + rule.rule.requirement.coordinates
        return WorstPoints(np.zeros((0, width)), np.zeros(0), np.zeros(0))
    evaluate = partial(_evaluated, rule, outputs_at, score)
    return highest_points(key, rule, evaluate, count=count, starts=starts, rounds=rounds)


def highest_points(
    key: Any,
    rule: RuleTerm,
    evaluate: Callable[[Float[np.ndarray, "n Q"]], tuple[np.ndarray, np.ndarray]],
    *,
    count: int,
    starts: int,
    rounds: int,
) -> WorstPoints:
    """The climb itself, of any score: `evaluate` gives (margin, score) of coded points of the region."""
    generator = np.random.default_rng(key)
    space = SearchSpace.of(rule)
    fresh = rule_points(generator, rule.rule, rule.schema, rule.data, max(starts, CLIMBERS), rule.sampler)
    vertices = rule_vertices(rule.rule, rule.schema)[: None if space.moving.all() else 0]
    pool = np.concatenate([fresh, space.spread(generator, fresh), vertices, space.pushed(generator, fresh)])
    margins, scores = evaluate(pool)
    first = _chosen(generator, scores)
    best = WorstPoints(pool[first], margins[first], scores[first])
    for step in np.geomspace(FIRST_STEP, LAST_STEP, rounds):
        children = space.children(generator, best.coded, fresh, float(step))
        best = _survivors(best, WorstPoints(children, *evaluate(children)))
    for column in np.flatnonzero(space.limits.discrete & space.moving):
        beside = space.beside(best.coded, int(column))
        best = _survivors(best, WorstPoints(beside, *evaluate(beside)))
    return _distinct(best, space.limits, count)


def searchable(rule: RuleTerm) -> bool:
    """Whether the rule has points that can be searched one by one; a population has not."""
    return rule.rule.requirement.inputs is not None


def climb(
    drawn: Drawn,
    rule: RuleTerm,
    draws: Float[np.ndarray, "S size"],
    key: Any,
    *,
    score: Score = "share of draws",
    starts: int = CHECK_STARTS,
    rounds: int = CHECK_ROUNDS,
    most: int = SEARCHED_DRAWS,
) -> Float[np.ndarray, "m Q"]:
    """Points at which these draws violate the rule most, the worst first."""
    units = Units.of_model(drawn.target)
    some = draws[evenly(len(draws), most)]

    def outputs(inputs: Float[np.ndarray, "n D"]) -> np.ndarray:
        values = function_values(drawn.model, some, inputs)
        return values if drawn.classes else units.of(values)

    return worst_points(key, rule, outputs, count=FOUND, score=score, starts=starts, rounds=rounds).coded


def farthest(
    drawn: Drawn, rule: RuleTerm, draws: Float[np.ndarray, "S size"], key: Any
) -> Float[np.ndarray, "m Q"]:
    """Points at which the predictive of these draws is farthest from what a predictive rule asks for."""
    some = draws[evenly(len(draws), SEARCHED_DRAWS)]

    def gaps(points: Float[np.ndarray, "n Q"]) -> tuple[np.ndarray, np.ndarray]:
        at = placed(rule.rule, rule.schema, points)
        values = by_case(rule.rule, drawn.values(at.inputs, some), at.cases, bool(drawn.classes))
        gap = rule.rule.requirement.gaps(at.demand, values, case_noise(drawn, some, rule, at))
        return gap, gap

    return highest_points(key, rule, gaps, count=FOUND, starts=1000, rounds=20).coded


def scored(
    margins: Float[np.ndarray, "draws n"], score: Score
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """The largest margin over the draws, and the score: above 0 exactly where some draw breaks the rule.

    - `worst draw`: the largest margin itself.
    - `share of draws`: the share with a margin above 0, told apart within one draw's worth by how near the
      next draw is to breaking the rule, so that there is always a way up.

    A margin that is not finite counts as obeying: there the output is broken, or no output obeys, which are
    findings about the run and about the rule, and not points at which a network can learn to do better.
    """
    margins = np.where(np.isfinite(margins), margins, -np.inf)
    largest = margins.max(axis=0)
    if score == "worst draw":
        return largest, largest
    broken = margins > 0
    nearest = np.where(broken, -np.inf, margins).max(axis=0)
    nearness = 1.0 / (1.0 - nearest)  # 1 at the edge, 0 far away
    share = broken.mean(axis=0)
    return largest, np.where(largest > 0, share + nearness / (2 * len(margins)), largest)


@dataclass(frozen=True)
class SearchSpace:
    """Where a rule's points may move, and how far a step goes in each column.

    Of a rule that is to hold over rows, only columns that its condition names move by themselves; all others
    stay those of a row, and change together.
    """

    region: regions.Region
    schema: Schema
    limits: Limits
    width: Float[np.ndarray, " Q"]  # in the column's own units, or its logarithm's
    offset: Float[np.ndarray, " Q"]  # of columns that are stepped in as logarithms, else nan
    moving: Bool[np.ndarray, " Q"]  # the columns in which points move by themselves

    @classmethod
    def of(cls, rule: RuleTerm) -> SearchSpace:
        """The region of a rule, with the schema's limits for the columns that it does not name."""
        limits = rule.rule.region.limits(rule.schema)
        columns = rule.schema.columns
        logs = np.array([column.transform == "log" for column in columns], dtype=bool)
        offset = np.where(logs, [column.offset for column in columns], np.nan)
        observed = np.array([observed_width(column) for column in columns])
        width = np.minimum(limits.high - limits.low, observed)
        with np.errstate(all="ignore"):
            of_logs = np.log((limits.high + offset) / (limits.low + offset))
        # A log column whose limits touch the end of its domain is endless; a few e-folds are a good step.
        width = np.where(logs, np.minimum(np.nan_to_num(of_logs, nan=1.0, posinf=4.0), 4.0), width)
        further = rule.rule.requirement.coordinates
        limits = Limits(
            np.append(limits.low, np.zeros(further)),
            np.append(limits.high, np.ones(further)),
            np.append(limits.discrete, np.zeros(further, dtype=bool)),
            (*limits.codes, *[None] * further),
        )
        width, offset = np.append(width, np.ones(further)), np.append(offset, np.full(further, np.nan))
        space = cls(rule.rule.region, rule.schema, limits, width, offset, np.ones(len(width), dtype=bool))
        return replace(space, moving=space._ruled()) if rule.rule.is_over_rows else space

    def contains(self, coded: Float[np.ndarray, "n Q"]) -> Bool[np.ndarray, " n"]:
        """Which points are inside the region."""
        return np.asarray(self.region.contains(coded[:, : len(self.schema.columns)], self.schema))

    def pushed(
        self, generator: np.random.Generator, points: Float[np.ndarray, "n Q"]
    ) -> Float[np.ndarray, "m Q"]:
        """Copies of a quarter of the points with about half of their columns pushed to an end."""
        some = points[: max(len(points) // 4, 1)]
        mask = self.moving & (generator.random(some.shape) < 0.5)
        return self.inside(some, np.where(mask, self._ends(generator, some), some))

    def spread(
        self, generator: np.random.Generator, points: Float[np.ndarray, "n Q"]
    ) -> Float[np.ndarray, "n Q"]:
        """The points with every column that the region does not name spread over its limits.

        A sampler may take these columns from rows, which leave most of the box empty.
        """
        free = self.moving & ~self._ruled()
        free[len(self.schema.columns) :] = False  # further coordinates are uniform already
        if not free.any():
            return points[:0]
        share = qmc.Sobol(int(free.sum()), rng=generator).random(1 << (len(points) - 1).bit_length())
        low, high = self.limits.low[free], self.limits.high[free]
        offset, share = self.offset[free], share[: len(points)]
        with np.errstate(all="ignore"):
            of_logs = (low + offset) * np.exp(share * np.log((high + offset) / (low + offset))) - offset
        even = low + share * (high - low)
        end = points.copy()
        end[:, free] = np.where(np.isfinite(of_logs), of_logs, even)
        end = np.where(self.limits.discrete, np.clip(np.round(end), self.limits.low, self.limits.high), end)
        for index, codes in enumerate(self.limits.codes):
            if codes is not None and free[index]:
                end[:, index] = codes[generator.integers(len(codes), size=len(end))]
        return self.inside(points, end)

    def beside(self, points: Float[np.ndarray, "n Q"], column: int) -> Float[np.ndarray, "m Q"]:
        """The points with other values of a discrete column, one after the other: every code, or ± 1."""
        codes = self.limits.codes[column]
        if codes is None:
            values = points[:, column] + np.array([[-1.0], [1.0]])
        else:
            values = np.repeat(codes[:, None], len(points), axis=1)
        start = np.tile(points, (len(values), 1))
        end = start.copy()
        end[:, column] = values.ravel()
        return self.inside(start, end)

    def _ruled(self) -> Bool[np.ndarray, " Q"]:
        """The columns that the region names, and the further coordinates."""
        ruled = np.ones(len(self.width), dtype=bool)
        ruled[: len(self.schema.columns)] = np.isin(self.schema.names, list(self.region.columns()))
        return ruled

    def children(
        self,
        generator: np.random.Generator,
        parents: Float[np.ndarray, "climbers Q"],
        pool: Float[np.ndarray, "n Q"],
        step: float,
    ) -> Float[np.ndarray, "batch Q"]:
        """New points inside the region, `BATCH` in all; child i is of parent i mod the number of parents.

        A child takes one of five ways: a Gaussian step in some columns, a step to the ends of some columns,
        columns of another climber, the step between two other points, or all ruled columns of a fresh point.
        """
        every = np.resize(np.arange(len(parents)), BATCH)
        start = parents[every]
        some = self._some_columns(generator)
        others = parents[generator.permutation(every)]
        one, two = pool[generator.integers(len(pool), size=(2, BATCH))]
        ways = [
            np.where(some, self._stepped(generator, start, step), start),
            np.where(some, self._ends(generator, start), start),
            np.where(some, others, start),
            np.where(self.limits.discrete, start, start + step * generator.random((BATCH, 1)) * (one - two)),
        ]
        ways = [np.where(self.moving, way, start) for way in ways]
        ways.append(np.where(self._ruled() | ~self.moving, one, start))
        way = generator.choice(len(ways), size=BATCH, p=[0.5, 0.2, 0.1, 0.1, 0.1])
        return self.inside(start, np.select([way[:, None] == i for i in range(len(ways))], ways))

    def inside(
        self, start: Float[np.ndarray, "n Q"], end: Float[np.ndarray, "n Q"]
    ) -> Float[np.ndarray, "n Q"]:
        """The ends, pulled back towards their starts, which are inside, as far as the region asks.

        What a step keeps of its length is found by halving, so a step that crosses a face ends just inside
        it. Discrete columns go all the way, or, where that leaves the region, not at all.
        """
        # A row of the data may lie outside what is drawn; it may stay there, but not go further out.
        end = np.clip(end, np.minimum(start, self.limits.low), np.maximum(start, self.limits.high))
        outside = np.flatnonzero(~self.contains(end))
        if not len(outside):
            return end
        discrete = self.limits.discrete
        near = np.where(discrete, end[outside], start[outside])
        near = np.where(self.contains(near)[:, None], near, start[outside])
        far = np.where(discrete, near, end[outside])
        kept, lost, inner = np.zeros(len(outside)), np.ones(len(outside)), near
        for _ in range(PULLS):
            share = (kept + lost) / 2
            tried = near + share[:, None] * (far - near)
            good = self.contains(tried)
            inner = np.where(good[:, None], tried, inner)
            kept, lost = np.where(good, share, kept), np.where(good, lost, share)
        result = end.copy()
        result[outside] = inner
        return result

    def _some_columns(self, generator: np.random.Generator) -> Bool[np.ndarray, "batch Q"]:
        """Which columns each child changes: one, a few or most of them."""
        columns = len(self.width)
        share = columns ** -generator.random((BATCH, 1))
        chosen = generator.random((BATCH, columns)) < share
        chosen[np.arange(BATCH), generator.integers(columns, size=BATCH)] = True
        return chosen

    def _stepped(
        self, generator: np.random.Generator, points: Float[np.ndarray, "n Q"], step: float
    ) -> Float[np.ndarray, "n Q"]:
        """Gaussian steps; whole numbers move by one at least, codes are drawn anew among the others."""
        moves = step * self.width * generator.standard_normal(points.shape)
        stretched = (points + self.offset) * np.exp(np.clip(moves, -30, 30)) - self.offset
        stepped = np.where(np.isnan(self.offset), points + moves, stretched)
        rounded = np.round(stepped)
        whole = rounded + (rounded == points) * generator.choice([-1.0, 1.0], size=points.shape)
        return self._coded_anew(generator, points, np.where(self.limits.discrete, whole, stepped))

    def _ends(
        self, generator: np.random.Generator, points: Float[np.ndarray, "n Q"]
    ) -> Float[np.ndarray, "n Q"]:
        """The low or the high end of every column; codes are drawn anew among the others."""
        low_side = generator.random(points.shape) < 0.5
        return self._coded_anew(generator, points, np.where(low_side, self.limits.low, self.limits.high))

    def _coded_anew(
        self,
        generator: np.random.Generator,
        points: Float[np.ndarray, "n Q"],
        moved: Float[np.ndarray, "n Q"],
    ) -> Float[np.ndarray, "n Q"]:
        """The moved points; binaries and categories get another code than before where there is one."""
        for index, codes in enumerate(self.limits.codes):
            if codes is not None:
                place = np.clip(np.searchsorted(codes, points[:, index]), 0, len(codes) - 1)
                away = generator.integers(1, max(len(codes), 2), size=len(points))
                moved[:, index] = codes[(place + away) % len(codes)]
        return moved


def _evaluated(
    rule: RuleTerm, outputs_at: Outputs, score: Score, coded: Float[np.ndarray, "n Q"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Largest margin and score of every point, in batches of one shape."""
    target = rule.schema.target
    assert target is not None

    def functions(inputs: Float[np.ndarray, "n Q"]) -> np.ndarray:
        return np.asarray(outputs_at(rule.schema.to_model(inputs)))

    found = []
    for begin in range(0, len(coded), BATCH):
        batch = np.resize(coded[begin : begin + BATCH], (BATCH, coded.shape[1]))
        there = margins(rule.rule, rule.schema, batch, functions, Units.of_model(target))
        with np.errstate(all="ignore"):
            found.append(scored(np.asarray(there), score))
    largest, scores = (np.concatenate(parts)[: len(coded)] for parts in zip(*found, strict=True))
    return largest, scores


def _chosen(generator: np.random.Generator, scores: Float[np.ndarray, " n"]) -> np.ndarray:
    """Who climbs: half are the best of all, which may share one hill; half win among a few drawn by lot."""
    best = np.argsort(-scores, kind="stable")[: CLIMBERS // 2]
    groups = np.array_split(generator.permutation(len(scores)), CLIMBERS - len(best))
    return np.concatenate([best, [group[np.argmax(scores[group])] for group in groups]])


def _survivors(parents: WorstPoints, children: WorstPoints) -> WorstPoints:
    """Each parent's best child takes its place if it scores higher."""
    count = len(parents.score)
    best = np.argmax(children.score.reshape(-1, count), axis=0)
    chosen = best * count + np.arange(count)
    better = children.score[chosen] > parents.score
    return WorstPoints(
        np.where(better[:, None], children.coded[chosen], parents.coded),
        np.where(better, children.margin[chosen], parents.margin),
        np.where(better, children.score[chosen], parents.score),
    )


def distinct(
    rule: RuleTerm, coded: Float[np.ndarray, "n Q"], score: Float[np.ndarray, " n"], count: int
) -> Float[np.ndarray, "m Q"]:
    """At most `count` of these points of a rule, those of the highest score, without near doubles."""
    return _distinct(WorstPoints(coded, score, score), SearchSpace.of(rule).limits, count).coded


def _distinct(found: WorstPoints, limits: Limits, count: int) -> WorstPoints:
    """The best of each heap of points within a hundredth of the limits, the worst violation first."""
    size = np.where(limits.high > limits.low, limits.high - limits.low, 1.0)
    kept: list[int] = []
    for index in np.argsort(-found.score, kind="stable"):
        apart = np.abs(found.coded[kept] - found.coded[index]) / size
        if len(kept) < count and (not kept or (apart.max(axis=1) > 0.01).all()):
            kept.append(int(index))
    return WorstPoints(found.coded[kept], found.margin[kept], found.score[kept])
