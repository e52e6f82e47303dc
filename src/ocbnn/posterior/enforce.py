"""Making violations impossible (paper section 5, "Ensuring Hard Constraints").

    rejected = reject(posterior)            # keep only draws that obey at every one of many points
    predict(rejected.posterior, rows).point
    truncate(posterior).predict(rows)       # or: restrict the predictive at each row to what is allowed there

Rejection says something about whole functions, and needs draws that obey; truncation works row by row with any
draws. A mean of obeying draws can disobey (half at 0.5, half at 3, forbidden between 1 and 2.5), so under either
the point prediction is the mean within the allowed component of largest mass, and for classes the best allowed.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from ocbnn.checking.check import Rule, as_rule_terms
from ocbnn.checking.draws import margins_at, require_points, rule_name
from ocbnn.checking.figures import CONFIDENCE, Figure, require_confidence, share_figure
from ocbnn.checking.search import climb, searchable
from ocbnn.errors import OCBNNError
from ocbnn.model.conditional import RuleTerm, rule_vertices
from ocbnn.posterior.allowed import EnforcementError
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.truncate import Truncated, enforceable, truncate
from ocbnn.proof.results import REFUTED, UNDECIDED, Proofs
from ocbnn.seeds import seed_for

__all__ = ["EnforcementError", "Rejection", "Truncated", "keep_proved", "reject", "truncate"]

POINTS = 2000
BATCH = 256
"""Draws that are searched together."""
STEP = 512
"""Points whose margins are held at a time."""
ROUNDS = 20
"""Searches in a batch at the most: each takes out the draws that it finds to violate."""


@dataclass(frozen=True, eq=False)
class Rejection:
    """What rejection kept.

    Attributes:
        posterior: with the mask; its draws satisfy the rules, and so do its predictions, for rules that speak
            of each input alone.
        acceptance: share of draws kept, with its interval.
        by_chain: share of each chain's draws.
        empty_chains: chains, counted from 0, of which nothing was kept; they no longer have a say.
        by_rule: share of draws that break each rule, by its name or text, whatever the other rules say: every
            rule is tried, and searched for, on all draws.
        points: fresh points tried for each rule.
        points_found: points found by ascent and tried too.
        unfinished: rules whose search still found draws that violate when its rounds ran out, by name; not
            those of which all draws that were searched then are rejected.
    """

    posterior: Posterior
    acceptance: Figure
    by_chain: Float[np.ndarray, " chains"]
    empty_chains: tuple[int, ...]
    by_rule: dict[str, float]
    points: int
    points_found: int
    unfinished: tuple[str, ...] = ()

    def __str__(self) -> str:
        kept, total = int(self.posterior.mask.sum()), self.posterior.mask.size
        words = (
            f"{kept:,} of {total:,} draws kept (acceptance {self.acceptance}), tried at {self.points:,} "
            f"points of each rule and {self.points_found} found by ascent"
        )
        if self.empty_chains:
            named = ", ".join(str(chain + 1) for chain in self.empty_chains)
            words += f"; nothing was kept of chain {named}, so what only those chains saw is lost"
        if self.unfinished:
            named = ", ".join(repr(rule) for rule in self.unfinished)
            words += (
                f"; the search still found draws that break {named} when it stopped after {ROUNDS} rounds, "
                "so some of those kept may break it too"
            )
        return words


def reject(
    posterior: Posterior,
    rules: Sequence[Rule] | None = None,
    *,
    points: int = POINTS,
    key: int = 0,
    ascent: bool = True,
    confidence: float = CONFIDENCE,
) -> Rejection:
    """Keep only draws that satisfy all deterministic rules at every one of many points.

    Args:
        posterior: the draws; a mask that it has stays in force.
        rules: in words, constraints, or rules of a model; default: the model's own.
        points: fresh points of each rule's region.
        key: seed of the points and of the ascent.
        ascent: also search between the points, for one batch of draws after the other, until no draw is found
            to violate a rule or the rounds run out (`unfinished`). Points that are found are tried on all
            draws.
        confidence: of the interval of the acceptance rate.

    Raises:
        EnforcementError: nothing survives.
    """
    require_confidence(confidence)
    require_points(points, key)
    terms = enforceable(posterior, rules, points)
    flat = posterior.flat
    breaks = np.zeros((len(terms), len(flat)), dtype=bool)
    unjudged = np.zeros_like(breaks)
    found_in_all = 0
    for index, term in enumerate(terms):
        tried = term.fresh(points, key)
        if searchable(term):
            tried = np.concatenate([tried, rule_vertices(term.rule, term.schema)])
        breaks[index] = _violate(posterior, term, flat, tried)
    if ascent and not breaks.any(axis=0).all():  # if nothing is left, there is nothing to search for
        for index, term in enumerate(terms):
            if not searchable(term):
                continue
            still = np.flatnonzero(~breaks[index])
            breaks[index, still], unjudged[index, still], found = _searched(posterior, term, flat[still], key)
            found_in_all += found
    kept = ~breaks.any(axis=0)
    by_rule = {rule_name(term): float(each.mean()) for term, each in zip(terms, breaks, strict=True)}
    if not kept.any():
        raise _nothing_survives(len(flat), by_rule)
    unfinished = [rule_name(term) for term, each in zip(terms, unjudged, strict=True) if (each & kept).any()]
    before = posterior.mask
    mask = before.copy()
    mask[before] = kept
    enforced = replace(posterior, kept=mask, enforced=(*posterior.enforced, *terms))
    share = np.where(before, mask, 0).astype(float)
    return Rejection(
        posterior=enforced,
        acceptance=share_figure(
            share, before, has_chains=posterior.has_chains, draws=posterior.draws, confidence=confidence
        ),
        by_chain=mask.sum(axis=1) / np.maximum(before.sum(axis=1), 1),
        empty_chains=tuple(int(chain) for chain in np.flatnonzero(~mask.any(axis=1))),
        by_rule=by_rule,
        points=points,
        points_found=found_in_all,
        unfinished=tuple(unfinished),
    )


def _violate(
    posterior: Posterior,
    term: RuleTerm,
    draws: Float[np.ndarray, "S size"],
    coded: Float[np.ndarray, "n Q"],
) -> Bool[np.ndarray, " S"]:
    """Which draws violate the rule at any of the points."""
    result = np.zeros(len(draws), dtype=bool)
    for begin in range(0, len(coded) if searchable(term) else 1, STEP):
        some = coded[begin : begin + STEP] if searchable(term) else coded
        result |= (margins_at(posterior, draws, term, some) > 0).any(axis=1)
    return result


def _searched(
    posterior: Posterior, term: RuleTerm, draws: Float[np.ndarray, "S size"], key: int
) -> tuple[Bool[np.ndarray, " S"], Bool[np.ndarray, " S"], int]:
    """Which draws break the rule at points found by ascent, on which rounds ran out, and how many points."""
    breaks, unjudged = np.zeros((2, len(draws)), dtype=bool)
    pool = np.asarray(term.points.coded)[:0]
    for first in range(0, len(draws), BATCH):
        batch = np.arange(first, min(first + BATCH, len(draws)))
        if len(pool):  # what earlier batches broke, later ones may break too
            breaks[batch] |= _violate(posterior, term, draws[batch], pool)
        for number in range(ROUNDS):
            alive = batch[~breaks[batch]]
            if not len(alive):
                break
            points = climb(
                posterior,
                term,
                draws[alive],
                seed_for(key, "enforce", first, number),
                score="worst draw",
                starts=500,
                rounds=15,
                most=BATCH,
            )
            if not len(points):
                break
            found = _violate(posterior, term, draws[alive], points)
            if not found.any():
                break
            breaks[alive[found]] = True
            pool = np.concatenate([pool, points])
        else:
            unjudged[batch] = True
    kept = np.flatnonzero(~breaks)
    if len(pool) and len(kept):  # what later batches broke, earlier ones may break too
        breaks[kept] = _violate(posterior, term, draws[kept], pool)
    return breaks, unjudged, len(pool)


def _nothing_survives(count: int, by_rule: dict[str, float]) -> OCBNNError:
    worst = max(by_rule, key=lambda name: by_rule[name])
    return EnforcementError(
        f"None of the {count:,} draws obeys all rules at all points; {worst!r} alone is broken by "
        f"{by_rule[worst]:.0%} of them. Fit with the rules in the prior, raise their strength, draw more, or "
        "use truncate, which restricts predictions row by row and needs no obeying draw."
    )


def keep_proved(posterior: Posterior, proofs: Proofs, rules: Sequence[Rule] | None = None) -> Posterior:
    """Only the draws that are proved to keep every rule: each holds at every input of its region.

    Args:
        posterior: that was proved of.
        proofs: what `prove` said of it.
        rules: those that were given to `prove`.

    Raises:
        EnforcementError: no draw is proved.
    """
    kept = posterior.mask & proofs.proved
    if not kept.any():
        worst = max(proofs, key=lambda each: each.unproved.value)
        raise EnforcementError(
            f"No draw is proved to keep every rule; of {worst.name!r} {worst.count(UNDECIDED):,} are "
            f"undecided and {worst.count(REFUTED):,} refuted{': ' if worst.reason else ''}{worst.reason}. "
            "Give a larger budget of boxes and seconds, or fit with the rules in the prior."
        )
    terms = as_rule_terms(posterior, rules)
    return replace(posterior, kept=kept, enforced=(*posterior.enforced, *terms))
