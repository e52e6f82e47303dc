"""Draws, and a rule at points: what all checks share."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ocbnn.checking.figures import CONFIDENCE, require_confidence
from ocbnn.errors import OCBNNError
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.model import Model
from ocbnn.model.outputs import block_rows, function_values, noise_values
from ocbnn.rules.margins import Placed, by_case, placed
from ocbnn.rules.requirement import Units
from ocbnn.schema import Schema, Target

if TYPE_CHECKING:
    from ocbnn.rules.constraint import Constraint

POINTS = 1000
GROUPS = 10
"""Of draws left out in turns, where there are no chains to leave out."""
Mask = Bool[np.ndarray, "chains draws"]


class Drawn:
    """Draws of a prior or a posterior; whoever holds `draws`, `model` and `kept` can be checked."""

    draws: Float[np.ndarray, "chains draws size"]
    model: Model
    kept: Mask | None

    @property
    def schema(self) -> Schema:
        """The table that the model was made for."""
        if self.model.schema is None:
            raise OCBNNError("The model has no schema, so raw rows mean nothing to it; build it with one.")
        return self.model.schema

    @property
    def target(self) -> Target:
        """What is predicted."""
        if self.schema.target is None:
            raise OCBNNError("The schema has no target; infer it with Schema.infer(frame, target=…).")
        return self.schema.target

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes of the target; empty for regression."""
        target = None if self.model.schema is None else self.model.schema.target
        return () if target is None else target.classes

    @property
    def has_chains(self) -> bool:
        """Whether draws follow one another in chains; else they are particles, or independent."""
        return self.draws.shape[0] > 1

    @property
    def mask(self) -> Mask:
        """Which draws are kept, also where nothing was rejected."""
        return np.ones(self.draws.shape[:2], dtype=bool) if self.kept is None else self.kept

    @property
    def flat(self) -> Float[np.ndarray, "S size"]:
        """The kept draws, one chain after the other."""
        return self.every if self.kept is None else self.draws[self.kept]

    @property
    def every(self) -> Float[np.ndarray, "S size"]:
        """All draws, rejected ones included, one chain after the other."""
        return self.draws.reshape(-1, self.draws.shape[2])

    def noise(
        self, coded: Float[np.ndarray, "n Q"], draws: Float[np.ndarray, "S size"] | None = None
    ) -> Float[np.ndarray, "S n_or_1"]:
        """The standard deviation of each draw's noise at coded inputs, raw (of log y if that is modelled).

        One column where it is the same at all inputs.

        Args:
            coded: the inputs.
            draws: flat; default: the kept ones.

        Raises:
            OCBNNError: the target is a class.
        """
        if self.classes:
            raise OCBNNError(f"{self.target.name!r} is a class, which has no noise.")
        some, inputs = self.flat if draws is None else draws, self.schema.to_model(coded)
        return noise_values(self.model, some, inputs) * self.target.scale

    def values(self, coded: Float[np.ndarray, "n Q"], draws: Float[np.ndarray, "S size"]) -> np.ndarray:
        """Φ of these draws at coded inputs: y raw `(S, n)`, or class probabilities `(S, n, C)`."""
        return function_values(self.model, draws, self.schema.to_model(coded))

    def point_values(self, coded: Float[np.ndarray, "n Q"], values: np.ndarray) -> np.ndarray:
        """The point prediction at coded inputs, from what the kept draws say there: their mean.

        On a log scale it is exp of the mean of the logs: about the median of y.
        """
        return self.middle(values)

    def middle(self, values: np.ndarray) -> np.ndarray:
        """The mean over draws `(S, …)` on the scale that is modelled, raw."""
        if self.classes or not self.target.is_log:
            return values.mean(axis=0)
        units = Units.of_noise(self.target)
        return np.asarray(units.raw(units.of(values).mean(axis=0)))

    @property
    def rules_in_force(self) -> tuple[Constraint, ...]:
        """The rules that predictions are made to satisfy."""
        return ()


@dataclass(frozen=True, eq=False)
class DrawSet(Drawn):
    """Draws by themselves, as pilots and priors have them."""

    draws: Float[np.ndarray, "chains draws size"]
    model: Model
    kept: Mask | None = None
    has_chains: bool = False


def draw_groups(drawn: Drawn) -> np.ndarray:
    """The group of each kept draw, to be left out in turns: its chain, or one of a few stretches of draws."""
    chain = np.nonzero(drawn.mask)[0]
    _, group = np.unique(chain, return_inverse=True)
    if drawn.has_chains and group.max(initial=0) >= 3:
        return group
    # A few chains say too little about the spread between groups: stretches of draws do.
    return np.minimum(np.arange(len(chain)) * GROUPS // max(len(chain), 1), GROUPS - 1)


class Halves(NamedTuple):
    """Two masks that share no draw: one to find a worst point, the other to estimate what happens there."""

    finding: Mask
    estimating: Mask
    how: str


def halves(drawn: Drawn) -> Halves:
    """Half of the chains and the other half; of a single chain its two stretches; else every other draw."""
    kept = drawn.mask
    alive = np.flatnonzero(kept.any(axis=1))
    first = np.zeros_like(kept)
    if drawn.has_chains and len(alive) > 1:
        first[alive[::2]] = True
        how = "found on half of the chains, estimated on the other half"
    elif drawn.has_chains:
        places = np.argwhere(kept)
        first[tuple(places[: len(places) // 2].T)] = True
        how = "one chain: found on its first half, estimated on its second, which depends on the first"
    else:
        first[tuple(np.argwhere(kept)[::2].T)] = True
        how = "found on every other draw, estimated on the others"
    finding, estimating = kept & first, kept & ~first
    if not (finding.any() and estimating.any()):
        return Halves(kept, kept, "one draw: found and estimated on the same, so too good")
    return Halves(finding, estimating, how)


def evenly(count: int, most: int) -> np.ndarray:
    """At most `most` of the numbers 0 to `count` − 1, evenly spaced, both ends among them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(int))


# A rule at points ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckOptions:
    """How a check is made.

    Attributes:
        points: fresh points of each rule's region.
        key: seed of the points and of the ascent.
        ascent: look for the worst point by ascent too, and not by sampling alone.
        by: a column by whose values, or quarters of its range, figures are given too.
        confidence: of the intervals.
        purpose: whose points these are: other purposes see other points, whatever their seeds.
    """

    points: int = POINTS
    key: int = 0
    ascent: bool = True
    by: str | None = None
    confidence: float = CONFIDENCE
    purpose: str = "fresh points"

    def __post_init__(self) -> None:
        require_confidence(self.confidence)
        require_points(self.points, self.key)


def require_points(points: int, key: int) -> None:
    """Refuse a number of points below 1, or a seed below 0, or either that is not a whole number."""
    if not is_whole(points) or points < 1:
        raise OCBNNError(f"points is a whole number, at least one point; got {points!r}.")
    if not is_whole(key) or key < 0:
        raise OCBNNError(f"key is the seed of the points, a whole number from 0 on; got {key!r}.")


def is_whole(number: object) -> bool:
    """Whether it is a whole number, of Python or NumPy; True and False do not count."""
    return isinstance(number, numbers.Integral) and not isinstance(number, bool)


def rule_name(term: RuleTerm) -> str:
    """What people call it, or its text."""
    return term.rule.name or term.rule.text(term.schema)


def case_blocks(
    drawn: Drawn, draws: Float[np.ndarray, "S size"], term: RuleTerm, points: Float[np.ndarray, "points Q"]
) -> Iterator[tuple[Placed, np.ndarray]]:
    """A rule at some of the points at a time, with what the draws say at the inputs of its cases, raw.

    Points are taken a few at a time, so that little is held; a population as a whole.
    """
    inputs = term.rule.requirement.inputs
    step = len(points) if inputs is None else block_rows(drawn.model, len(draws)) // inputs
    for begin in range(0, len(points), max(step, 1)):
        at = placed(term.rule, term.schema, points[begin : begin + max(step, 1)])
        yield at, drawn.values(at.inputs, draws)


def margins_at(
    drawn: Drawn, draws: Float[np.ndarray, "S size"], term: RuleTerm, points: Float[np.ndarray, "points Q"]
) -> Float[np.ndarray, "S cases"]:
    """By how much each draw violates a rule at the cases of these points, raw; above 0 violates."""
    blocks = case_blocks(drawn, draws, term, points)
    return np.concatenate([case_margins(drawn, term, at, values) for at, values in blocks], axis=1)


def shaped(drawn: Drawn, term: RuleTerm, at: Placed, values: np.ndarray) -> np.ndarray:
    """Values at the inputs of cases, case by case."""
    return np.asarray(by_case(term.rule, values, at.cases, bool(drawn.classes)))


def case_noise(
    drawn: Drawn, draws: Float[np.ndarray, "S size"], term: RuleTerm, at: Placed
) -> np.ndarray | None:
    """The noise at the inputs of cases, case by case, for rules that speak of observations; else None."""
    if drawn.classes or not term.rule.requirement.speaks_of_noise:
        return None
    noise = drawn.noise(at.inputs, draws)
    return shaped(drawn, term, at, np.broadcast_to(noise, (len(noise), len(at.inputs))))


def case_margins(drawn: Drawn, term: RuleTerm, at: Placed, values: np.ndarray) -> np.ndarray:
    """By how much values at the inputs of cases violate a rule; what is not a number violates every rule."""
    return term.rule.requirement.violation(at.demand, shaped(drawn, term, at, values))


def raw_point(schema: Schema, point: Float[np.ndarray, " Q"]) -> dict[str, object]:
    """A point in raw units, by column."""
    row = schema.decode(point[None, : len(schema.columns)]).iloc[0]
    return {str(name): value for name, value in row.to_dict().items()}


def raw_case(term: RuleTerm, point: Float[np.ndarray, " Q"]) -> dict[str, Any]:
    """The case of a point, raw, as fields of a check: its first input, and what differs in the others."""
    inputs = term.rule.requirement.cases(point[None], term.schema, term.rule.region)[0]
    first, *others = (raw_point(term.schema, each) for each in inputs)
    unlike = [{name: value for name, value in each.items() if value != first[name]} for each in others]
    distinct = [each for place, each in enumerate(unlike) if each and each not in unlike[:place]]
    return {"worst_point": first, "worst_others": tuple(distinct)}


def column_groups(
    schema: Schema, by: str, coded: Float[np.ndarray, "n Q"]
) -> Iterator[tuple[str, np.ndarray]]:
    """Groups of points by a column: its values where they are few, else quarters of the points."""
    column, values = schema.column(by), coded[:, schema.index(by)]
    distinct = np.unique(values)
    if column.kind in ("category", "binary") or len(distinct) <= 6:
        for value in distinct:
            raw = column.levels[int(value)] if column.levels else f"{value:g}"
            yield f"{by} = {raw}", values == value
        return
    ends = np.quantile(values, [0.25, 0.5, 0.75])
    quarter = np.searchsorted(ends, values, side="left")
    for index in np.unique(quarter):
        inside = quarter == index
        yield f"{values[inside].min():.3g} <= {by} <= {values[inside].max():.3g}", inside
