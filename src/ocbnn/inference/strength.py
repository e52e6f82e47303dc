"""Strength follows tolerance: a user says how much violation is acceptable, pilots find how strong a rule must be.

Each round runs a short pilot posterior (an optimum obeys long before the mass does) and measures every rule
on fresh points. A rule whose violation is not shown to be within its tolerance gets more strength, another
less, by decades until both sides are known and by bisection of the logarithm after that. The smallest
strength at which the tolerance was met is frozen. `judge` measures again, on the kept draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from ocbnn.inference.base import Engine, Precision
from ocbnn.inference.diagnostics import worst_ess
from ocbnn.inference.feed import rule_terms
from ocbnn.inference.loop import Loop
from ocbnn.inference.measure import Measured, measure, unmet_reason
from ocbnn.inference.outputs import model_outputs
from ocbnn.inference.prepared import Prepared, Strengths
from ocbnn.inference.progress import Tick
from ocbnn.inference.result import RuleOutcome
from ocbnn.inference.tuning import SETTLING, settling

MOST_PROBED = 16


@dataclass(frozen=True)
class StrengthSearch:
    """Settings of the search.

    Attributes:
        rounds: pilots at the most.
        ratio: the search ends when too little and enough are closer than this factor.
        factor: the step while only one of the two is known.
        lowest: how far below its term's own strength a rule's may go, as a factor.
        highest: how far above.
        effective: effective draws of a pilot of chains, at the worst of its probes.
        most: draws of each chain in a pilot.
        steps: of a pilot of an engine that optimises.
    """

    rounds: int = 12
    ratio: float = 2.5
    factor: float = 10.0
    lowest: float = 1e-3
    highest: float = 1e5
    effective: float = 400.0
    most: int = 1000
    steps: int = 500

    def find(
        self,
        prepared: Prepared,
        engine: Engine,
        kind: Precision,
        seed: int,
        batch: int | None,
        cores: int,
        report: Callable[[Tick], None],
    ) -> Prepared:
        """The same density with strengths that meet the tolerances, or come as close as the range allows."""
        rules = rule_terms(prepared.model)
        free = np.array([rule.strength_is_free for rule in rules], dtype=bool)
        if not free.any():
            return prepared
        bracket = _Bracket(self, prepared.strengths.values, free)
        tunings: list[Any] | None = None
        for number in range(self.rounds):
            report(Tick("strength", number, self.rounds, 0.0))
            prepared = prepared.with_strengths(bracket.now)
            loop = Loop.start(prepared, engine, kind, seed + number, cores, batch=batch, tunings=tunings)
            draws, prepared = self._pilot(prepared, loop, first=number == 0)
            if engine.collects == "along" and not engine.stochastic:
                tunings = [settling(state.tuning, engine.warmup) for state in loop.states]
            measured = [measure(prepared.model, rule, draws, seed + number) for rule in rules]
            bracket.learn([m.shown_within(r.tolerance) for m, r in zip(measured, rules, strict=True)])
            if bracket.settled:
                break
        strengths = Strengths(bracket.now, free, ("",) * len(rules))
        return replace(prepared.with_strengths(bracket.now), strengths=strengths)

    def _pilot(
        self, prepared: Prepared, loop: Loop, *, first: bool
    ) -> tuple[Float[np.ndarray, "chains draws size"], Prepared]:
        """Draws of a short run, and the same density with the run's end as its start."""
        engine = loop.engine
        if engine.collects == "at-end":
            for _ in range(-(-self.steps // loop.length)):
                chunk = loop.advance()
            draws = loop.final_draws(200)
            return draws, replace(prepared, work=prepared.work + chunk.work)
        work, warmup = 0, engine.warmup if first else int(SETTLING * engine.warmup)
        for _ in range(-(-warmup // loop.length)):
            work += loop.advance().work
        kept: list[np.ndarray] = []
        while True:
            chunk = loop.advance()
            assert chunk.positions is not None
            kept.append(chunk.positions)
            work += chunk.work
            draws = np.concatenate(kept, axis=1)
            if draws.shape[1] >= self.most or _effective(prepared, draws) >= self.effective:
                break
        return draws, replace(prepared, positions=draws[:, -1], work=prepared.work + work)


class _Bracket:
    """For each rule the largest strength known to be too little and the smallest known to be enough."""

    def __init__(self, search: StrengthSearch, start: np.ndarray, free: np.ndarray) -> None:
        self.search, self.free, self.now = search, free, np.array(start, dtype=float)
        self.floor, self.ceiling = start * search.lowest, start * search.highest
        self.little = np.full(len(start), -np.inf)
        self.enough = np.full(len(start), np.inf)
        self.settled = False

    def learn(self, met: list[bool]) -> None:
        """Narrow the brackets by one pilot and set the strengths to try next, or those found."""
        for index in np.flatnonzero(self.free):
            if met[index]:
                self.enough[index] = min(self.enough[index], self.now[index])
            else:
                self.little[index] = max(self.little[index], self.now[index])
                if self.enough[index] <= self.now[index]:  # another rule's change took it back
                    self.enough[index] = np.inf
        following = np.array([self._next(i) if self.free[i] else self.now[i] for i in range(len(self.now))])
        self.settled = bool(np.all(following == self.now))
        self.now = following

    def _next(self, index: int) -> float:
        little, enough = self.little[index], self.enough[index]
        if np.isinf(enough):
            return float(min(self.now[index] * self.search.factor, self.ceiling[index]))
        if np.isinf(little):
            return float(max(self.now[index] / self.search.factor, self.floor[index]))
        if enough / little <= self.search.ratio:
            return float(enough)
        return float(np.sqrt(little * enough))


def _effective(prepared: Prepared, draws: Float[np.ndarray, "chains draws size"]) -> float:
    """Effective draws of the functions at a few of the rules' own points."""
    inputs = np.concatenate([rule.points.inputs for rule in rule_terms(prepared.model)])
    chosen = inputs[np.linspace(0, len(inputs) - 1, min(MOST_PROBED, len(inputs))).astype(int)]
    chains, count, size = draws.shape
    values = model_outputs(prepared.model, draws.reshape(-1, size), chosen)
    return worst_ess(values.reshape(chains, count, -1))


def judge(
    prepared: Prepared, draws: Float[np.ndarray, "chains draws size"], seed: int
) -> tuple[RuleOutcome, ...]:
    """How every rule fares under the kept draws, on points that neither the prior nor a pilot has seen."""
    outcomes = []
    for index, rule in enumerate(rule_terms(prepared.model)):
        measured: Measured = measure(prepared.model, rule, draws, seed + 10**6)
        met = measured.violation <= rule.tolerance
        outcomes.append(
            RuleOutcome(
                name=rule.rule.name or rule.rule.text(rule.schema),
                strength=float(rule.points.strength),
                found_strength=bool(prepared.strengths.searched[index]),
                tolerance=rule.tolerance,
                violation=measured.violation,
                error=measured.error,
                met=met,
                reason="" if met else unmet_reason(prepared.model, rule, measured),
            )
        )
    return tuple(outcomes)
