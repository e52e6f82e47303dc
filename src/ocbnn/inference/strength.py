"""Strength follows tolerance: a user says how much violation is acceptable, pilots find the strength for it.

Each round runs a short pilot posterior (an optimum obeys long before the mass does) and measures every rule
on fresh points. The search starts at the terms' own strengths and never goes below: a rule that is kept
anyway has no wall that is wider than its term's. A rule whose violation is not shown to be well within its
tolerance gets more strength, as much as its violation asks for: half a decade to a decade. The smallest
strength at which that was shown is frozen, or else the one with the least violation. `judge` measures again,
on the kept draws.

Strength alone does not mend a rule that is kept at its points and broken between them, and in ten columns a
hundred points leave much between them. So while no strength is known to be enough, points where draws of the
pilot broke a rule join its own; a rule that is not far from its tolerance then gets half a decade only.

Points and strength of rules that are to hold everywhere are found before, by `everywhere.hold_everywhere`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import jax
import numpy as np
from jaxtyping import Float

from ocbnn.checking.check import kept_check, most_violated, pilot_check, pilot_findings, spaced
from ocbnn.checking.draws import DrawSet
from ocbnn.checking.explain import (
    contradicting_rows,
    learnt_unmet_reason,
    not_shown_reason,
    unmet_reason,
)
from ocbnn.checking.results import RuleCheck
from ocbnn.checking.search import searchable
from ocbnn.inference.density import Context, Prepared, Strengths
from ocbnn.inference.diagnostics import worst_ess
from ocbnn.inference.engines.base import Engine
from ocbnn.inference.everywhere import hold_everywhere
from ocbnn.inference.loop import Loop, RunOptions
from ocbnn.inference.result import RuleOutcome
from ocbnn.inference.warmstart import WarmStart, starting_positions, with_found
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.outputs import model_outputs
from ocbnn.progress import Tick
from ocbnn.proof.prove import BOXES, judged_by_proof
from ocbnn.seeds import seed_for

MOST_PROBED = 16
PILOT_DRAWS = 400
ALONE_CHAINS, ALONE_STRENGTH, ALONE_STEPS = 8, 1e3, 1500
NEAR = 5.0
"""Times the tolerance: within it points mend a rule at least as much as more strength does."""
LEAST_STEP = math.sqrt(10.0)
"""The least factor by which strength grows: what is just enough in a pilot may be too little in the run."""
HELPED = 0.9  # times the violation before: more points help, and so the strength may be enough
PROVED_DRAWS, PILOT_BOXES, PILOT_SECONDS = 64, 500, 15.0
"""Draws of a pilot that are proved or not, and the budget of each rule: enough to see what fails."""
CUT_FOR = 32
"""Draws of a pilot for which boxes are cut anew."""
VERDICT_SECONDS = 60.0
"""Of the proof of each rule that judges the kept draws."""
ENDED = 2  # pilots that were worse, one after the other: more strength does not help
WORSE = 0.1  # so much more violation at more strength is no noise: the engine cannot follow


Finding = tuple[RuleCheck, np.ndarray]
"""How draws keep a rule, and the points found that they violate, the worst first."""


@dataclass(frozen=True)
class StrengthSearch:
    """Settings of the search.

    Attributes:
        rounds: pilots at the most.
        rounds_proved: the same where a rule is to be proved: each finds further points and boxes.
        bursts: of chains, at the most, after which points are looked for that violate rules that are to hold
            everywhere.
        ratio: the search ends when too little and enough are within this factor.
        factor: the largest step while enough is not known.
        highest: how far above its term's own strength a rule's may go, as a factor: the wall is then a
            thousandth of the rule's scale thick, and more would only stop the chains.
        effective: effective draws of a pilot of chains, at the worst of its probes.
        most: draws of each chain in a pilot, where these are worth too little.
        found: points that may join a rule's after a pilot, for engines that always see the same ones.
        most_found: how many may join in all.
        most_everywhere: how many found points a rule has at the most that is to hold everywhere.
        aim: how much of the tolerance a pilot may use up. Draws that violate a rule are rare and come in
            runs, and the run is longer than its pilots, so that pilots show too little of them. And a verdict
            needs the whole interval, of draws and points, within the tolerance.
        steps: of a pilot of an engine that optimises, over which its learning rate falls as in a whole run.
    """

    rounds: int = 12
    rounds_proved: int = 20
    bursts: int = 24
    ratio: float = 10.0
    factor: float = 10.0
    highest: float = 1e3
    effective: float = 400.0
    most: int = 100
    found: int = 32
    most_found: int = 128
    most_everywhere: int = 512
    aim: float = 0.5
    steps: int = 1000

    def find(self, prepared: Prepared, run: RunOptions, report: Callable[[Tick], None]) -> Prepared:
        """The same density with strengths that meet the tolerances, or come as close as the range allows."""
        engine, seed = run.engine, run.seed
        pilot = replace(run, engine=self._shortened(engine), thin=1)
        if self.found:
            prepared = hold_everywhere(
                prepared, pilot, report, bursts=self.bursts, most=self.most_everywhere, aim=self.aim
            )
        rules = prepared.model.terms
        free = np.array([rule.strength_is_free for rule in rules], dtype=bool)
        everywhere = np.array([rule.rule.is_everywhere for rule in rules], dtype=bool)
        if not (free & ~everywhere).any():
            return replace(prepared, strengths=Strengths(prepared.strengths.values, free))
        tolerances = [rule.tolerance for rule in rules]
        proved = np.array([rule.rule.is_proved for rule in rules], dtype=bool)
        bracket = _Bracket(self, prepared.strengths.values, free & ~everywhere, tolerances, proved)
        rounds = self.rounds_proved if proved.any() else self.rounds
        room = [0 if engine.stochastic or not self.found else self.most_found] * len(rules)
        for number in range(rounds):
            report(Tick("strength", number, rounds, 0.0))
            prepared = prepared.with_strengths(bracket.now)
            own = replace(pilot, seed=seed_for(seed, "pilot", number))
            loop = Loop.start(prepared, own)
            fresh = seed_for(seed, "pilot check", number)
            judged = partial(_findings, prepared.model, fresh, engine.has_chains)
            draws, findings, prepared = self._pilot(prepared, loop, judged)
            checks = [check for check, _ in findings]
            compiling = prepared.seconds.get("compile", 0.0) + loop.compile_seconds
            prepared = replace(prepared, seconds={**prepared.seconds, "compile": compiling})
            if engine.has_chains and not engine.stochastic:
                settled = [state.tuning.settling(engine.warmup) for state in loop.states]
                prepared = replace(prepared, tunings=[jax.tree.leaves(tuning) for tuning in settled])
            rules = prepared.model.terms
            met = [check.shown_within(self.aim * check.tolerance) for check in checks]
            bearable = [check.shown_within(check.tolerance) for check in checks]
            violations = [check.violation.value for check in checks]
            between = seed_for(seed, "between", number)
            worst = {i: found for i, (_, found) in enumerate(findings) if rules[i].rule.is_proved}
            wanting = [
                i for i in bracket.searched if not met[i] and (i in worst or not bracket.can_be_enough(i))
            ]
            prepared, filled = self._filled(prepared, draws, between, wanting, room, worst)
            for index in filled:
                if index in worst:  # what was enough at other points says nothing of these
                    bracket.restart(index)
            near = frozenset(i for i in filled if i in worst or violations[i] <= NEAR * rules[i].tolerance)
            held = bracket.hold(near & worst.keys(), {i: violations[i] for i in worst})
            bracket.learn(met, violations, held, bearable, near)
            if bracket.settled:
                break
        found = bracket.found()
        return replace(prepared.with_strengths(found), strengths=Strengths(found, free))

    def _filled(
        self,
        prepared: Prepared,
        draws: Float[np.ndarray, "chains draws size"],
        seed: int,
        wanting: Sequence[int],
        room: list[int],
        worst: Mapping[int, Float[np.ndarray, "found Q"]],
    ) -> tuple[Prepared, list[int]]:
        """The same density with points where the pilot broke rules, and which rules were given some.

        `worst` are points that a search has found, for rules that are to hold everywhere.
        """
        rules, filled = list(prepared.model.terms), list[int]()
        for index in wanting:
            rule, nodes = (
                rules[index].cut(spaced(draws, CUT_FOR).reshape(-1, draws.shape[2])),
                prepared.context.nodes[index],
            )
            if rule is not rules[index]:
                rules[index] = rule
                filled.append(index)
            # Nodes stand for points in few dimensions alone, where points are close to each other.
            covered = rule.rule.is_predictive or nodes.coded is not rule.points.coded
            covered = covered and index not in worst
            if covered or not searchable(rule) or not room[index]:
                continue
            most = min(self.found, room[index])
            if index in worst:
                found = worst[index][:most]
            else:
                found = most_violated(prepared.model, rule, draws, seed, most)
            if len(found):
                room[index] -= len(found)
                rules[index] = with_found(rule, found)
                filled = sorted({*filled, index})
        return prepared.with_points(rules), filled

    def _shortened(self, engine: Engine) -> Engine:
        """An engine that optimises, with fewer steps; one that draws along is as it is."""
        if engine.has_chains or engine.warmup <= self.steps or not hasattr(engine, "steps"):
            return engine
        return replace(engine, steps=self.steps)  # type: ignore[type-var]

    def _pilot(
        self, prepared: Prepared, loop: Loop, judged: Callable[[np.ndarray], list[Finding]]
    ) -> tuple[Float[np.ndarray, "chains draws size"], list[Finding], Prepared]:
        """Draws of a short run, how they keep the rules, and the density with the run's end as its start.

        It ends as soon as it is clear of every rule whether it is kept; where the worst case has to be
        searched for, that is asked at the end alone.
        """
        quick = not any(rule.rule.is_proved for rule in prepared.model.terms)
        engine = loop.engine
        if not engine.has_chains:
            work = sum(loop.advance().work for _ in range(loop.warm_chunks))
            draws = loop.final_draws(PILOT_DRAWS)
            return draws, judged(draws), replace(prepared, work=prepared.work + work)
        work = sum(loop.advance().work for _ in range(loop.warm_chunks))
        kept: list[np.ndarray] = []
        while True:
            chunk = loop.advance()
            assert chunk.positions is not None
            kept.append(chunk.positions)
            work += chunk.work
            draws = np.concatenate(kept, axis=1)
            done = draws.shape[1] >= self.most or _effective(prepared, draws) >= self.effective
            if not (done or quick):
                continue
            findings = judged(draws)
            aims = [(check, self.aim * check.tolerance) for check, _ in findings]
            if done or all(check.shown_within(aim) or check.shown_beyond(aim) for check, aim in aims):
                return draws, findings, replace(prepared, positions=draws[:, -1], work=prepared.work + work)


def _findings(
    model: Model, seed: int, has_chains: bool, draws: Float[np.ndarray, "chains draws size"]
) -> list[Finding]:
    def one(rule: RuleTerm) -> Finding:
        check, found = pilot_findings(model, rule, draws, seed, has_chains=has_chains)
        if not rule.rule.is_proved:
            return check, found
        pilot = DrawSet(spaced(draws, PROVED_DRAWS), model, has_chains=has_chains)
        budget = {"boxes": PILOT_BOXES, "seconds": PILOT_SECONDS}
        return judged_by_proof(pilot, rule, check, seed, **budget)  # type: ignore[arg-type]

    return [one(rule) for rule in model.terms]


class _Bracket:
    """For each rule the largest strength known to be too little and the smallest known to be enough."""

    def __init__(
        self,
        search: StrengthSearch,
        start: np.ndarray,
        free: np.ndarray,
        tolerances: Sequence[float],
        everywhere: np.ndarray | None = None,
    ) -> None:
        self.search, self.free, self.now = search, free, np.array(start, dtype=float)
        self.aims = search.aim * np.array(tolerances, dtype=float)
        everywhere = np.zeros(len(start), dtype=bool) if everywhere is None else everywhere
        # A wall at the worst points is stiff: it grows in smaller steps, and is not thinned out again.
        self.factor = np.where(everywhere, math.sqrt(search.factor), search.factor)
        self.ratio = np.where(everywhere, np.inf, search.ratio)
        self.ceiling = start * search.highest
        self.little = np.full(len(start), -np.inf)
        self.enough = np.full(len(start), np.inf)
        self.least = np.full(len(start), np.inf)  # violation, and the strength it was seen at
        self.least_at = self.now.copy()
        self.worse = np.zeros(len(start), dtype=int)  # pilots since then that were clearly worse
        self.held_at = np.full(len(start), np.nan)
        self.held_with = np.full(len(start), np.nan)  # the violation then
        self.settled = False

    @property
    def searched(self) -> list[int]:
        """The rules whose strength is searched for."""
        return [int(index) for index in np.flatnonzero(self.free)]

    def hold(
        self, rules: frozenset[int], improving: Mapping[int, float] = MappingProxyType({})
    ) -> frozenset[int]:
        """Those of the rules that shall be tried again as they are: once at each strength.

        Of those in `improving`, with their violations, for as long as more points lessen these.
        """
        held = frozenset(
            index
            for index in rules
            if self.held_at[index] != self.now[index]
            or (index in improving and improving[index] < HELPED * self.held_with[index])
        )
        for index in held:
            self.held_at[index] = self.now[index]
            self.held_with[index] = improving.get(index, np.nan)
        return held

    def restart(self, index: int) -> None:
        """Forget what was seen of a rule: it has been given points that change what is enough."""
        self.little[index], self.enough[index], self.least[index] = -np.inf, np.inf, np.inf
        self.least_at[index], self.worse[index] = self.now[index], 0

    def found(self) -> Float[np.ndarray, " rules"]:
        """The smallest strength known to be enough, or that of the least violation."""
        return np.where(self.free, np.where(np.isinf(self.enough), self.least_at, self.enough), self.now)

    def can_be_enough(self, index: int) -> bool:
        """Whether more strength than now is known to meet the rule's tolerance."""
        return bool(self.now[index] < self.enough[index] < np.inf)

    def learn(
        self,
        met: Sequence[bool],
        violations: Sequence[float],
        held: frozenset[int] = frozenset(),
        bearable: Sequence[bool] = (),
        mended: frozenset[int] = frozenset(),
    ) -> None:
        """Narrow the brackets by one pilot and set the strengths to try next, or those found.

        Rules that are `held` have changed since: they keep their strength, and the pilot says nothing of it.
        Rules that are `mended` by further points take the least step. A violation that is `bearable`, though
        not what was aimed at, and that more strength has not lessened is left at that.
        """
        moving = [index for index in self.searched if index not in held]
        for index in moving:
            self.worse[index] += violations[index] > self.least[index] + WORSE
            if violations[index] < self.least[index]:
                self.least[index], self.least_at[index] = violations[index], self.now[index]
                self.worse[index] = 0
            elif bearable and bearable[index]:
                self.worse[index] = ENDED
            if met[index]:
                self.enough[index] = min(self.enough[index], self.now[index])
            else:
                self.little[index] = max(self.little[index], self.now[index])
                if self.enough[index] <= self.now[index]:  # another rule's change took it back
                    self.enough[index] = np.inf
        steps = [1.0 if i in mended else float(violations[i] / self.aims[i]) for i in range(len(self.now))]
        following = np.array(
            [self._next(i, steps[i]) if i in moving else self.now[i] for i in range(len(steps))]
        )
        # What was enough in a pilot needs no further one.
        self.settled = not held and bool(np.all((following == self.now) | (following == self.enough)))
        self.now = following

    def _next(self, index: int, excess: float) -> float:
        """The strength after a violation of `excess` times what was aimed at."""
        little, enough = self.little[index], self.enough[index]
        if np.isinf(enough):
            if self.worse[index] >= ENDED:
                return float(self.now[index])
            # Violations fall about with the root of strength.
            step = float(np.clip(excess**2, LEAST_STEP, self.factor[index]))
            return float(min(self.now[index] * step, self.ceiling[index]))
        if np.isinf(little) or enough / little <= self.ratio[index]:
            return float(enough)
        return float(np.sqrt(little * enough))


def _effective(prepared: Prepared, draws: Float[np.ndarray, "chains draws size"]) -> float:
    """Effective draws of the functions at a few of the rules' own points."""
    inputs = np.concatenate([rule.points.inputs for rule in prepared.model.terms])
    chosen = inputs[np.linspace(0, len(inputs) - 1, min(MOST_PROBED, len(inputs))).astype(int)]
    chains, count, size = draws.shape
    values = model_outputs(prepared.model, draws.reshape(-1, size), chosen)
    return worst_ess(values.reshape(chains, count, -1))


def judge(
    prepared: Prepared, draws: Float[np.ndarray, "chains draws size"], seed: int, *, has_chains: bool
) -> tuple[RuleOutcome, ...]:
    """How every rule fares under the kept draws, on points that neither the prior nor a pilot has seen."""
    model, outcomes, verdict = prepared.model, [], seed_for(seed, "verdict")
    kept = DrawSet(spaced(draws), model, has_chains=has_chains)

    def checked(rule: RuleTerm) -> RuleCheck:
        check = kept_check(model, rule, draws, verdict, has_chains=has_chains)
        if not rule.rule.is_proved or check.by_construction:
            return check
        return judged_by_proof(kept, rule, check, verdict, boxes=BOXES, seconds=VERDICT_SECONDS)[0]

    for index, rule in enumerate(model.terms):
        check = checked(rule)
        found = bool(prepared.strengths.searched[index])
        outcome = _outcome(rule, check, float(rule.points.strength), found=found)
        if outcome.unmet:
            alone = _fitted_alone(prepared, index, seed_for(seed, "alone", index))
            reason = unmet_reason(model, rule, check, alone, found=found)
            outcome = replace(outcome, reason=reason, rows=contradicting_rows(model, rule).some)
        outcomes.append(outcome)
    for rule in model.formed:
        check = checked(rule)
        outcomes.append(_outcome(rule, check, math.nan, found=False))
    for rule in model.learnt:
        check = checked(rule)
        outcome = replace(_outcome(rule, check, math.nan, found=False), learnt=True)
        if outcome.unmet:
            reason = learnt_unmet_reason(model, rule, check)
            outcome = replace(outcome, reason=reason, rows=contradicting_rows(model, rule).some)
        outcomes.append(outcome)
    return tuple(outcomes)


def _outcome(rule: RuleTerm, check: RuleCheck, strength: float, *, found: bool) -> RuleOutcome:
    """The verdict on a rule; why it is unmet is left to say."""
    doubtful = check.verdict == "not shown at this tolerance"
    return RuleOutcome(check, strength, found, reason=not_shown_reason(rule, check) if doubtful else "")


def _fitted_alone(prepared: Prepared, index: int, seed: int) -> RuleCheck | None:
    """How far networks fitted to one rule only, at great strength and without data, still violate it.

    None for rules that are judged by all draws together: they do not speak of each network.
    """
    rules = prepared.model.terms
    if rules[index].rule.is_predictive:
        return None
    points = tuple(
        rule.points._replace(strength=max(float(rule.points.strength), ALONE_STRENGTH) if i == index else 0.0)
        for i, rule in enumerate(rules)
    )
    start = starting_positions(prepared.model, ALONE_CHAINS, seed)
    fitted = WarmStart(ALONE_STEPS).optimise(prepared.density.held, start, Context(None, points, points))
    return pilot_check(prepared.model, rules[index], fitted[:, None], seed, has_chains=False)
