"""How far draws keep rules, on fresh points: the one judge of the library.

Pilots choose strengths by it, a fit is judged by it, and `check_rules`, the amortized prior and the report show
it. A rule that is judged draw by draw has four figures with distinct names, each with an interval:

| figure | meaning |
| --- | --- |
| epsilon_mean | share of draw-point pairs that violate; what the tolerance speaks of |
| epsilon_worst | share of draws that violate at the worst point (paper, Definition 4.2): found on half of the chains by sampling and ascent, estimated on the other half |
| draws_violating | share of draws that violate at any of the points tried: a lower bound |
| points_violating | share of points whose point prediction violates (the paper's tables) |

A rule that is judged by all draws together has named divergences between the predictive and D_y instead. All of
it holds for draws of a prior as for those of a posterior.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ocbnn.checking.draws import POINTS, CheckOptions, Drawn, DrawSet, margins_at
from ocbnn.checking.figures import CONFIDENCE
from ocbnn.checking.results import RuleCheck, RuleChecks
from ocbnn.checking.violations import check_all, judge
from ocbnn.model.conditional import RuleTerm, Scoring
from ocbnn.model.model import Model
from ocbnn.resources import require_memory, require_work
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule

PILOT_POINTS = 2048
PILOT_DRAWS = 1000  # of all chains together, evenly spaced

Rule = RuleTerm | Constraint | str


def check_rules(
    drawn: Drawn,
    rules: Sequence[Rule] | None = None,
    *,
    points: int = POINTS,
    key: int = 0,
    ascent: bool = True,
    by: str | None = None,
    confidence: float = CONFIDENCE,
) -> RuleChecks:
    """How far the draws keep each rule, and all of them.

    Args:
        drawn: draws of a posterior, or of a prior.
        rules: in words, constraints, or rules of a model; default: the model's own.
        points: fresh points of each rule's region.
        key: seed of the points and of the ascent.
        ascent: look for the worst point by ascent too, and not by sampling alone.
        by: a column by whose values, or quarters of its range, figures are given too.
        confidence: of the intervals.
    """
    options = CheckOptions(points, key, ascent, by, confidence)
    if by is not None:
        drawn.schema.index(by)
    # A check holds a truth value for each draw and point.
    pairs = int(points) * len(drawn.flat)
    what, remedy = f"A check of {len(drawn.flat):,} draws at {points:,} points", "Ask for fewer points."
    require_memory(pairs, what, remedy)
    require_work(2 * pairs * drawn.model.size, what, remedy)
    seen = [judge(drawn, term, options) for term in as_rule_terms(drawn, rules, points)]
    results = tuple(result for result, _ in seen)
    observed = [violations for _, violations in seen if violations is not None]
    return RuleChecks(results, check_all(drawn, results, observed, options))


def check_rule(drawn: Drawn, term: RuleTerm, options: CheckOptions) -> RuleCheck:
    """How far the draws keep one rule."""
    return judge(drawn, term, options)[0]


def as_rule_terms(
    drawn: Drawn, rules: Sequence[Rule] | None, population: int = POINTS
) -> tuple[RuleTerm, ...]:
    """Rules with what sampling their regions needs; default: the model's own.

    A rule about a population that is not the model's own speaks of so many points of its region.
    """
    if rules is None:
        return drawn.model.rules
    data, schema = drawn.model.data, drawn.schema
    coded = None if data is None else schema.to_raw(np.asarray(data.inputs, dtype=float))
    terms = []
    for rule in rules:
        if isinstance(rule, RuleTerm):
            terms.append(rule)
            continue
        constraint = parse_rule(rule, schema) if isinstance(rule, str) else rule
        # The points that a rule is scored at do not matter here, unless they are its population.
        scoring = Scoring(points=population if constraint.requirement.inputs is None else 1)
        bounded = drawn.model.network.bounded
        terms.append(RuleTerm.build(constraint, schema, scoring, bounded=bounded, data=coded))
    return tuple(terms)


def pilot_check(
    model: Model,
    term: RuleTerm,
    draws: Float[np.ndarray, "chains draws size"],
    key: int,
    *,
    has_chains: bool,
    ascent: bool = False,
) -> RuleCheck:
    """How far draws keep a rule, quickly: at most 1,000 of them, on 2,048 points; `ascent` finds more."""
    return pilot_findings(model, term, draws, key, has_chains=has_chains, ascent=ascent)[0]


def pilot_findings(
    model: Model,
    term: RuleTerm,
    draws: Float[np.ndarray, "chains draws size"],
    key: int,
    *,
    has_chains: bool,
    ascent: bool = False,
) -> tuple[RuleCheck, Float[np.ndarray, "found Q"]]:
    """The same, with the points besides the fresh ones that draws were found to violate, the worst first."""
    options = CheckOptions(PILOT_POINTS, key, ascent=ascent, purpose="pilot")
    check, seen = judge(DrawSet(spaced(draws), model, has_chains=has_chains), term, options)
    if seen is None:
        return check, np.zeros((0, len(term.schema.columns)))
    worst = np.argsort(-seen.shares[: len(seen.tried)], kind="stable")
    return check, seen.tried[worst[seen.shares[worst] > 0.0]]


def most_violated(
    model: Model, term: RuleTerm, draws: Float[np.ndarray, "chains draws size"], key: int, count: int
) -> Float[np.ndarray, "found Q"]:
    """Of fresh points of the rule's region, at most `count` at which most draws violate it."""
    points = term.fresh(PILOT_POINTS, key, "between")
    flat = spaced(draws).reshape(-1, draws.shape[-1])
    shares = (margins_at(DrawSet(draws, model), flat, term, points) > 0).mean(axis=0)
    worst = np.argsort(-shares, kind="stable")[:count]
    return points[worst[shares[worst] > 0.0]]


def spaced(
    draws: Float[np.ndarray, "chains draws size"], most: int = PILOT_DRAWS
) -> Float[np.ndarray, "chains draws size"]:
    """At most so many of them, evenly spaced along the chains."""
    return draws[:, :: max(1, math.ceil(draws.shape[0] * draws.shape[1] / most))]
