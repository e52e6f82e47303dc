"""What all rules together allow at given rows, and predictions that stay within it.

Regression: a union of intervals of y for every row, the intersection of what each rule that applies there
allows (a value within its margin is an interval too). Classification: the classes all rules allow, and the
bounds on probabilities. Probabilistic rules forbid no single output, so they take no part.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linprog

from ocbnn.errors import OCBNNError
from ocbnn.posterior.draws import Posterior, function_blocks
from ocbnn.posterior.mixtures import Intervals, everything
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.margins import outside, total
from ocbnn.rules.requirement import Allowed, Shares
from ocbnn.schema import Schema

INSIDE = 1e-9
"""How far inside its bounds a probability is put where they leave room, so that rounding breaks no rule."""


class EnforcementError(OCBNNError, ValueError):
    """Rules that cannot be enforced as asked: nothing survives, or nothing is allowed at a row."""


class RowError(EnforcementError):
    """An error about rows, counted from the first of those it was found among; its words are of the first."""

    def __init__(self, rows: np.ndarray, words: str) -> None:
        self.rows, self.words = rows, words
        super().__init__(f"In row {rows[0]} {words}")


@dataclass(frozen=True, eq=False)
class RulesAt:
    """Rules at rows of a table.

    Attributes:
        rules: those in force.
        schema: of the rows.
        coded: the rows.
        first: the place of the first of them in the table, from which errors count.
    """

    rules: Sequence[Constraint]
    schema: Schema
    coded: Float[np.ndarray, "n Q"]
    first: int = 0

    def applying(self) -> Iterator[tuple[Constraint, np.ndarray, Any]]:
        """Every rule about single outputs that applies at some of the rows, with those rows and its demand.

        Rules that are judged by all draws together, or that compare several inputs, forbid no single output.
        """
        for rule in self.rules:
            if rule.is_predictive or not rule.requirement.is_pointwise:
                continue
            rows = np.flatnonzero(rule.applies(self.coded, self.schema))
            if rows.size:
                yield rule, rows, rule.demand(self.coded[rows], self.schema)

    def broken(self, values: np.ndarray) -> Bool[np.ndarray, "... n"]:
        """Whether any rule that applies is violated; values: raw y `(…, n)`, or probabilities `(…, n, C)`."""
        classes = _classes(self.schema)
        result = np.zeros(values.shape[:-1] if classes else values.shape, dtype=bool)
        for rule, rows, demand in self.applying():
            picked = values[..., rows, :] if classes else values[..., rows]
            result[..., rows] |= rule.requirement.violation(demand, picked) > 0
        return result

    def obeying(self, values: np.ndarray) -> Bool[np.ndarray, "S n"]:
        """Which draws obey all rules at each row, all where there are no rules; an error where none does."""
        obeying = ~self.broken(values)
        none = np.flatnonzero(~obeying.any(axis=0))
        if none.size:
            raise self.nothing_allowed(none, "are obeyed by none of the draws' functions")
        return obeying

    def listed(self, *, all_of_them: bool) -> Iterator[tuple[np.ndarray, Allowed]]:
        """The rows at which each rule applies, with the outputs that it allows there.

        Rules that cannot list them are an error with `all_of_them`, and left out without.
        """
        for rule, rows, demand in self.applying():
            allowed = rule.requirement.allowed(demand)
            if allowed is not None:
                yield rows, allowed
            elif all_of_them:
                raise RowError(
                    rows + self.first,
                    f"the outputs that the rule `{rule.text(self.schema)}` allows cannot be listed, so no "
                    "predictive can be truncated to them; enforce all rules by rejecting draws and none by "
                    "truncation.",
                )

    def intervals(self, *, all_of_them: bool = True) -> Intervals:
        """The outputs that all rules allow at each row, in raw units; an error where there are none."""
        allowed = everything(len(self.coded))
        for rows, here in self.listed(all_of_them=all_of_them):
            if here.outputs is None:
                continue
            one = _merged(Intervals(*(np.asarray(ends, dtype=float) for ends in here.outputs)))
            lower, upper = (np.tile(ends, (1, one.lower.shape[1])) for ends in everything(len(self.coded)))
            lower[:, 1:], upper[:, 1:] = np.inf, -np.inf
            lower[rows], upper[rows] = one
            allowed = _intersection(allowed, Intervals(lower, upper))
        empty = np.flatnonzero(~(allowed.lower <= allowed.upper).any(axis=1))
        if empty.size:
            raise self.nothing_allowed(empty, "have no common allowed output")
        return allowed

    def classes(self, *, all_of_them: bool = True) -> Bool[np.ndarray, "n C"]:
        """The classes that all class rules allow at each row; an error where there are none."""
        allowed = np.ones((len(self.coded), _classes(self.schema)), dtype=bool)
        for rows, here in self.listed(all_of_them=all_of_them):
            if here.classes is not None:
                allowed[rows] &= np.asarray(here.classes)
        empty = np.flatnonzero(~allowed.any(axis=1))
        if empty.size:
            raise self.nothing_allowed(empty, "have no common allowed class")
        return allowed

    def probabilities(
        self,
        predicted: Float[np.ndarray, "n C"],
        allowed: Bool[np.ndarray, "n C"],
        possible: Bool[np.ndarray, "n C"] | None = None,
    ) -> Float[np.ndarray, "n C"]:
        """Probabilities clipped to all bounds that apply at a row, and unchanged where they obey.

        Clipping a bound scales its classes, and the others, to the nearest allowed total: the distribution
        nearest in relative entropy. Where clipping one bound after the other breaks an earlier one, or the
        most probable class is not allowed, the nearest distribution in total variation is found by linear
        programming. Rules that cannot list what they allow are left out.

        Args:
            predicted: what the draws say.
            allowed: of which classes the most probable one has to be.
            possible: which may have a probability at all; default: those allowed.
        """
        possible = allowed if possible is None else possible
        result = np.array(predicted, dtype=float)
        found = list(self.listed(all_of_them=False))
        bounds = [(rows, here.shares) for rows, here in found if here.shares is not None]
        for rows, shares in bounds:
            result[rows] = _clipped(result[rows], shares, possible[rows])
        impossible = []
        for row in np.flatnonzero(_violated(found, result)):
            here = [(shares, int(np.searchsorted(rows, row))) for rows, shares in bounds if row in rows]
            nearest = _nearest_distribution(predicted[row], allowed[row], possible[row], here)
            if nearest is None:
                impossible.append(row)
            else:
                result[row] = nearest
        if impossible:
            what = "allow no common probabilities"
            if not possible[impossible[0]].all():
                what += " where a class that is not allowed gets none"
            raise self.nothing_allowed(np.array(impossible), what)
        still = np.flatnonzero(_violated(found, result))
        if still.size:
            raise self.nothing_allowed(still, "cannot be obeyed together")
        return result

    def nothing_allowed(self, rows: np.ndarray, what: str) -> RowError:
        """The error about these rows that names the first of them and the rules that apply there."""
        here = replace(self, coded=self.coded[rows[:1]])
        rules = [rule for rule, _, _ in here.applying()]
        named = [f"{rule.name!r}" if rule.name else f"`{rule.text(self.schema)}`" for rule in rules]
        row = self.schema.decode(here.coded).iloc[0].to_dict()
        where = ", ".join(f"{name} = {value}" for name, value in row.items())
        return RowError(
            rows + self.first,
            f"({where}) the rules {', '.join(named)} {what}. "
            "Correct the rules, or ask for a prediction elsewhere.",
        )


def ruled_blocks(
    posterior: Posterior, coded: Float[np.ndarray, "n Q"], rules: Sequence[Constraint] | None = None
) -> Iterator[tuple[slice, RulesAt, np.ndarray]]:
    """Blocks of the rows, the rules there (default: those in force), and Φ of the kept draws."""
    rules = posterior.rules_in_force if rules is None else rules
    for block, values in function_blocks(posterior, coded):
        yield block, RulesAt(rules, posterior.schema, coded[block], block.start), values


def _violated(
    found: Sequence[tuple[np.ndarray, Allowed]], probabilities: Float[np.ndarray, "n C"]
) -> Bool[np.ndarray, " n"]:
    """Whether the probabilities violate a class rule or a bound at each row."""
    result = np.zeros(len(probabilities), dtype=bool)
    for rows, here in found:
        there = probabilities[rows]
        if here.classes is not None:
            best = np.where(here.classes, there, -np.inf).max(axis=1)
            result[rows] |= ~(np.where(here.classes, -np.inf, there).max(axis=1) <= best)
        if here.shares is not None:
            result[rows] |= ~(_beyond(here.shares, there) <= 0)
    return result


def _beyond(shares: Shares, probabilities: Float[np.ndarray, "m C"]) -> Float[np.ndarray, " m"]:
    """How far the classes' total is outside of its bounds; 0 and below inside."""
    return np.asarray(outside(total(probabilities, shares.members), shares.lower, shares.upper))


def _classes(schema: Schema) -> int:
    return 0 if schema.target is None else len(schema.target.classes)


def _intersection(one: Intervals, other: Intervals) -> Intervals:
    lower = np.maximum(one.lower[:, :, None], other.lower[:, None, :]).reshape(len(one.lower), -1)
    upper = np.minimum(one.upper[:, :, None], other.upper[:, None, :]).reshape(len(one.lower), -1)
    return _merged(Intervals(lower, upper))


def _merged(intervals: Intervals) -> Intervals:
    """Sorted and disjoint, in as few slots as the fullest row needs."""
    empty = ~(intervals.lower <= intervals.upper)
    lower = np.where(empty, np.inf, intervals.lower)
    upper = np.where(empty, -np.inf, intervals.upper)
    order = np.argsort(lower, axis=1, kind="stable")
    lower, upper = (np.take_along_axis(ends, order, axis=1) for ends in (lower, upper))
    for k in range(1, lower.shape[1]):
        joined = (lower[:, k] <= upper[:, k - 1]) & (lower[:, k] <= upper[:, k])
        lower[:, k] = np.where(joined, lower[:, k - 1], lower[:, k])
        upper[:, k] = np.where(joined, np.maximum(upper[:, k], upper[:, k - 1]), upper[:, k])
        lower[:, k - 1] = np.where(joined, np.inf, lower[:, k - 1])
        upper[:, k - 1] = np.where(joined, -np.inf, upper[:, k - 1])
    order = np.argsort(lower, axis=1, kind="stable")
    lower, upper = (np.take_along_axis(ends, order, axis=1) for ends in (lower, upper))
    slots = max(int((lower <= upper).sum(axis=1).max(initial=1)), 1)
    return Intervals(lower[:, :slots], upper[:, :slots])


def _clipped(
    probabilities: Float[np.ndarray, "m C"], shares: Shares, possible: Bool[np.ndarray, "m C"]
) -> np.ndarray:
    """Each row with the classes' total moved to the nearest part of its bounds; obeying rows unchanged."""
    outside_of = np.flatnonzero(_beyond(shares, probabilities) > 0)
    result = probabilities.copy()
    for row in outside_of:
        members = np.asarray(shares.members)[row]
        present = float(probabilities[row, members].sum())
        ends = [
            _put_inside(present, float(low), float(high))
            for low, high in zip(shares.lower[row], shares.upper[row], strict=True)
            if low <= high
        ]
        if not ends or not (members & possible[row]).any() or not (~members & possible[row]).any():
            continue  # nothing can be moved: for the caller to refuse
        wanted = min(ends, key=lambda end: abs(end - present))
        for part, share in ((members, wanted), (~members, 1.0 - wanted)):
            result[row, part] = _scaled(probabilities[row, part], share, possible[row, part])
    return result


def _put_inside(total: float, low: float, high: float) -> float:
    room = min(INSIDE, 0.25 * (high - low))
    inner_low = low + room if low > 0 else low
    inner_high = high - room if high < 1 else high
    return float(np.clip(total, inner_low, inner_high))


def _scaled(
    part: Float[np.ndarray, " k"], total: float, possible: Bool[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """The part with another total; where there is nothing to scale, the possible classes share it."""
    present = part.sum()
    return part * (total / present) if present > 0 else possible * (total / possible.sum())


def _nearest_distribution(
    start: Float[np.ndarray, " C"],
    allowed: Bool[np.ndarray, " C"],
    possible: Bool[np.ndarray, " C"],
    bounds: list[tuple[Shares, int]],
) -> Float[np.ndarray, " C"] | None:
    """The distribution nearest in total variation that obeys; None where there is none.

    Obeying is a union of polytopes: one for each choice of an interval of every bound and of the allowed
    class that is most probable, which needs no choice where no other class is possible. Each is a linear
    programme over (p, t) with t ≥ |p − start|.
    """
    slots = [
        [
            (np.asarray(shares.members)[at], float(low), float(high))
            for low, high in zip(shares.lower[at], shares.upper[at], strict=True)
            if low <= high
        ]
        for shares, at in bounds
    ]
    rivals = possible & ~allowed
    leaders = np.flatnonzero(allowed) if rivals.any() else [-1]
    best: tuple[float, np.ndarray] | None = None
    for leader, *chosen in itertools.product(leaders, *slots):
        for room in (INSIDE, 0.0):
            found = _programme(start, rivals, possible, int(leader), chosen, room)
            # The solver is content with bounds that are met to seven digits.
            if found is not None and all(_within(found[1], *bound) for bound in chosen):
                best = found if best is None or found[0] < best[0] else best
                break
    return None if best is None else best[1]


def _within(probabilities: np.ndarray, members: np.ndarray, low: float, high: float) -> bool:
    return bool(low <= np.where(members, probabilities, 0.0).sum() <= high)


def _programme(
    start: np.ndarray, rivals: np.ndarray, possible: np.ndarray, leader: int, chosen: list[Any], room: float
) -> tuple[float, np.ndarray] | None:
    classes = len(start)
    rows, limits = [], []
    for members, low, high in chosen:
        inner = min(room, 0.25 * (high - low))
        rows += [-members.astype(float), members.astype(float)]
        limits += [-(low + inner if low > 0 else low), high - inner if high < 1 else high]
    for other in np.flatnonzero(rivals):
        difference = np.zeros(classes)
        difference[other], difference[leader] = 1.0, -1.0
        rows.append(difference)
        limits.append(-room)
    eye = np.eye(classes)
    constraints = [np.concatenate([row, np.zeros(classes)]) for row in rows]
    constraints += list(np.hstack([eye, -eye])) + list(np.hstack([-eye, -eye]))
    limits += [*start, *-start]
    cost = np.concatenate([np.zeros(classes), np.ones(classes)])
    total = np.concatenate([np.ones(classes), np.zeros(classes)])[None]
    most = [(0.0, None if may else 0.0) for may in possible] + [(0.0, None)] * classes
    answer = linprog(
        cost, A_ub=np.array(constraints), b_ub=np.array(limits), A_eq=total, b_eq=[1.0], bounds=most
    )
    if not answer.success or answer.x is None:
        return None
    found = np.where(possible, np.maximum(answer.x[:classes], 0.0), 0.0)
    return float(np.abs(found - start).sum()), found
