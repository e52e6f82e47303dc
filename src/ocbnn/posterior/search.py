"""Rules as this room takes them, and points at which draws break them most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ocbnn.checking.search import Score, worst_points
from ocbnn.errors import OCBNNError
from ocbnn.model.conditional import RuleTerm
from ocbnn.posterior.allowed import EnforcementError
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.functions import model_function_blocks, whole
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule

SEARCHED_DRAWS = 200
"""Draws that the ascent looks at, evenly spaced: it has to find a place, not to estimate."""

Rule = RuleTerm | Constraint | str


def require_points(points: int, key: int) -> None:
    """Refuse a number of fresh points, or a seed, that is none."""
    if not whole(points) or points < 1:
        raise OCBNNError(f"points is a whole number, at least one point; got {points!r}.")
    if not whole(key) or key < 0:
        raise OCBNNError(f"key is the seed of the points, a whole number from 0 on; got {key!r}.")


def evenly(count: int, most: int) -> np.ndarray:
    """At most `most` of the numbers 0 to `count` − 1, evenly spaced, both ends among them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(int))


def as_rule_terms(posterior: Posterior, rules: Sequence[Rule] | None) -> tuple[RuleTerm, ...]:
    """Rules with what sampling their regions needs; the model's own unless given."""
    if rules is None:
        return posterior.rules
    data = posterior.model.data
    schema = posterior.schema
    coded = None if data is None else schema.to_raw(np.asarray(data.inputs, dtype=float))
    terms = []
    for rule in rules:
        if isinstance(rule, RuleTerm):
            terms.append(rule)
            continue
        constraint = parse_rule(rule, schema) if isinstance(rule, str) else rule
        bounded = posterior.model.network.bounded
        terms.append(RuleTerm.build(constraint, schema, bounded=bounded, data=coded, points=1))
    return tuple(terms)


def deterministic(posterior: Posterior, rules: Sequence[Rule] | None) -> tuple[RuleTerm, ...]:
    """The rules that can be enforced; an error where a probabilistic one was named, or there is none."""
    terms = as_rule_terms(posterior, rules)
    probabilistic = [term for term in terms if term.rule.output.is_probabilistic]
    if rules is not None and probabilistic:
        raise EnforcementError(
            f"{rule_name(probabilistic[0])!r} says how outputs are distributed: no single output breaks it, "
            "so it cannot be enforced; leave it out, and read its divergences instead."
        )
    terms = tuple(term for term in terms if not term.rule.output.is_probabilistic)
    if not terms:
        raise EnforcementError("There is no deterministic rule to enforce; give rules=[…].")
    return terms


def rule_name(term: RuleTerm) -> str:
    """What people call it, or its text."""
    return term.rule.name or term.rule.text(term.schema)


def outputs_at(
    posterior: Posterior, draws: Float[np.ndarray, "S size"]
) -> Callable[[Float[np.ndarray, "n D"]], np.ndarray]:
    """Model inputs → what rules speak of, in model units: what the ascent climbs on."""
    target = posterior.target

    def outputs(inputs: Float[np.ndarray, "n D"]) -> np.ndarray:
        values = np.concatenate([v for _, v in model_function_blocks(posterior, inputs, draws)], axis=1)
        return values if posterior.classes else (values - target.center) / target.scale

    return outputs


def climb(
    posterior: Posterior,
    rule: RuleTerm,
    draws: Float[np.ndarray, "S size"],
    key: Any,
    *,
    score: Score = "share of draws",
    count: int = 8,
    starts: int = 1000,
    rounds: int = 20,
    of_mean: bool = False,
    most: int = SEARCHED_DRAWS,
) -> Float[np.ndarray, "m Q"]:
    """Points at which these draws, or with `of_mean` their mean, break the rule most, the worst first."""
    some = draws[evenly(len(draws), most)]
    of_draws = outputs_at(posterior, some)

    def functions(inputs: Float[np.ndarray, "n D"]) -> np.ndarray:
        values = of_draws(inputs)
        return values.mean(axis=0, keepdims=True) if of_mean else values

    return worst_points(key, rule, functions, count=count, score=score, starts=starts, rounds=rounds).coded
