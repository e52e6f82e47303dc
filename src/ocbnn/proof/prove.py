"""Does a rule hold everywhere in its region? Draw by draw: proved, refuted with a point, or undecided.

    proofs = prove(posterior)
    print(proofs)                     # the wage: 982 of 1,000 draws proved, 12 refuted, 6 undecided …
    kept = keep_proved(posterior, proofs)

Sampling and ascent can only refute: the paper's Definition 4.2 is about every x. Here bounds of each draw's network
over boxes decide. What is proved is proved of these draws, over the inputs that `RuleProof.over` names, and of what
`predict` computes, rounding included. An undecided draw counts as one that violates.
"""  # noqa: E501

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ocbnn.checking.check import Rule, as_rule_terms
from ocbnn.checking.draws import Drawn, margins_at, raw_point, rule_name
from ocbnn.checking.figures import CONFIDENCE, Figure, require_confidence, share_figure
from ocbnn.checking.results import Attempt, RuleCheck, RuleChecks
from ocbnn.checking.search import climb
from ocbnn.errors import OCBNNError
from ocbnn.model.conditional import RuleTerm, rule_vertices
from ocbnn.model.outputs import shown_by_form
from ocbnn.progress import Report, Tick, reporting
from ocbnn.proof.branch import Bounder, Outcome, replay, search
from ocbnn.proof.results import PROVED, REJECTED, UNDECIDED, Proofs, RuleProof
from ocbnn.seeds import seed_for

BOXES, SECONDS = 2000, 300.0
ATTACKED_AT = 512
"""Fresh points at which every draw is tried before anything is bounded."""
CLIMBED = 256
"""Draws that an ascent looks at together."""


def prove(
    drawn: Drawn,
    rules: Sequence[Rule] | None = None,
    *,
    boxes: int = BOXES,
    seconds: float = SECONDS,
    key: int = 0,
    confidence: float = CONFIDENCE,
    progress: bool | Report = False,
) -> Proofs:
    """Prove, refute or leave undecided that each draw keeps each rule everywhere in its region.

    Args:
        drawn: draws of a posterior, or of a prior.
        rules: in words, constraints, or rules of a model; default: the model's own.
        boxes: that each draw may take, for each rule. Boxes that are needed can grow with the power of the
            number of columns, and with the range of each.
        seconds: for all rules together, attacks included.
        key: seed of the attack.
        confidence: of the intervals.
        progress: a bar, or a function that takes a `Tick`.

    Raises:
        ModelError: a network whose bounds are not known.
    """
    require_confidence(confidence)
    for name, value in (("boxes", boxes), ("seconds", seconds)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise OCBNNError(f"{name} is a budget, a number above 0; got {value!r}.")
    terms = as_rule_terms(drawn, rules)
    if not terms:
        raise OCBNNError("There is no rule to prove: the model has none. Give some: prove(rules=[…]).")
    started, found = time.monotonic(), list[RuleProof]()
    with reporting(progress) as report:
        for number, term in enumerate(terms):
            left = max(seconds - (time.monotonic() - started), 0.0) / (len(terms) - number)
            found.append(_proof(drawn, term, boxes, left, key, confidence, report))
    share = np.where(drawn.mask, ~np.logical_and.reduce([each.proved for each in found]), False)
    return Proofs(tuple(found), _figure(drawn, share, confidence))


def _figure(drawn: Drawn, share: np.ndarray, confidence: float) -> Figure:
    return share_figure(
        share.astype(float), drawn.mask, has_chains=drawn.has_chains, draws=drawn.draws, confidence=confidence
    )


def _proof(
    drawn: Drawn,
    term: RuleTerm,
    boxes: int,
    seconds: float,
    key: int,
    confidence: float,
    report: Report,
) -> RuleProof:
    started, name = time.monotonic(), rule_name(term)
    shown = shown_by_form(drawn.model, term.rule, drawn.flat)
    if shown is not None and shown.all():
        status = np.where(drawn.mask, PROVED, REJECTED).astype(np.int32)
        nothing = _figure(drawn, np.zeros(drawn.mask.shape), confidence)
        return RuleProof(
            name=name,
            text=term.rule.text(term.schema),
            over="all inputs, by construction: the weights of every draw have the signs that it asks for",
            status=status,
            unproved=nothing._replace(low=0.0, high=0.0),
            remaining=np.zeros(drawn.mask.shape),
            seconds=time.monotonic() - started,
        )
    bounder = Bounder.of(drawn, term)
    reason = _unprovable(bounder)
    count = len(bounder.weights)
    if reason:
        outcome = Outcome(np.full(count, UNDECIDED, dtype=np.int8), {}, np.ones(count))
    else:
        refuted = dict[int, np.ndarray]()
        _try(drawn, term, _points(term, key), refuted)

        def told(decided: int, of: int) -> None:
            report(Tick.of(f"prove {name}", decided, of, time.monotonic() - started))

        told(len(refuted), count)
        left = seconds - (time.monotonic() - started)
        outcome = search(
            bounder,
            refuted,
            partial(climbed, drawn, term, key),
            boxes=boxes,
            seconds=left,
            told=told,
        )
    status = np.full(drawn.mask.shape, REJECTED, dtype=np.int32)
    status[drawn.mask] = outcome.status
    remaining = np.zeros(drawn.mask.shape)
    remaining[drawn.mask] = outcome.remaining
    return RuleProof(
        name=name,
        text=term.rule.text(term.schema),
        over=bounder.space.words(),
        status=status,
        unproved=_figure(drawn, (status != PROVED) & drawn.mask, confidence),
        points={draw: raw_point(term.schema, point) for draw, point in sorted(outcome.points.items())},
        remaining=remaining,
        boxes=outcome.boxes,
        seconds=time.monotonic() - started,
        reason=reason,
        cuts=outcome.certificate(),
    )


def _unprovable(bounder: Bounder) -> str:
    """Why nothing can be proved of a rule; empty where something can."""
    rule = bounder.term.rule
    if rule.is_predictive:
        return "it is about all draws together, not about each of them"
    if not len(bounder.space.roots.part):
        return ""
    bound = bounder.bound_of(bounder.space.boxes(bounder.space.roots))
    if bound is None:
        return "its kind does not say how its margin is bounded"
    for column in {each.derivative for each in bound.quantities if each.derivative is not None}:
        if not bounder.space.is_convex_along(bounder.drawn.schema.names[column]):
            return "its region has gaps along the column that outputs are compared along"
    return ""


def _points(term: RuleTerm, key: int) -> Float[np.ndarray, "n Q"]:
    """Fresh points of a rule's region, and its corners."""
    fresh = term.fresh(ATTACKED_AT, key, "attack")
    return np.concatenate([fresh, rule_vertices(term.rule, term.schema)])


def climbed(drawn: Drawn, term: RuleTerm, key: int, draws: np.ndarray) -> dict[int, np.ndarray]:
    """Which of some draws violate a rule where an ascent looks, and where."""
    found: dict[int, np.ndarray] = {}
    for first in range(0, len(draws), CLIMBED):
        some = draws[first : first + CLIMBED]
        seed = seed_for(key, "attack", first)
        options: dict[str, int] = {"starts": 500, "rounds": 15, "most": CLIMBED}
        points = climb(drawn, term, drawn.flat[some], seed, score="worst draw", **options)
        if len(points):
            _try(drawn, term, points, found, some)
    return found


def _try(
    drawn: Drawn,
    term: RuleTerm,
    points: Float[np.ndarray, "n Q"],
    found: dict[int, np.ndarray],
    draws: np.ndarray | None = None,
) -> None:
    """Add the draws that violate the rule at one of the points, each with its worst."""
    draws = np.arange(len(drawn.flat)) if draws is None else draws
    step = max(1_000_000 // max(len(draws), 1), 1)
    for begin in range(0, len(points), step):
        some = points[begin : begin + step]
        margins = margins_at(drawn, drawn.flat[draws], term, some)
        worst = margins.argmax(axis=1)
        for row in np.flatnonzero(margins.max(axis=1) > 0):
            found.setdefault(int(draws[row]), some[worst[row]])


# What it is for ---------------------------------------------------------------------------------------------


def with_proofs(
    drawn: Drawn, checks: RuleChecks, proofs: Proofs, confidence: float = CONFIDENCE
) -> RuleChecks:
    """The checks with the share of kept draws that are not proved beside the other figures."""
    known = {each.text: each.proved for each in proofs if not each.reason}

    def added(check: RuleCheck, proved: np.ndarray | None) -> RuleCheck:
        if proved is None:
            return check
        unproved = _figure(drawn, ~proved & drawn.mask, confidence)
        # A draw that is not proved may still satisfy the rule: more than is accepted refutes nothing.
        shown: Attempt = "met" if unproved.high <= check.tolerance else "not shown at this tolerance"
        return replace(check, draws_unproved=unproved, levels={**check.levels, "proved": shown})

    rules = tuple(added(each, known.get(each.text)) for each in checks)
    every = all(each.text in known for each in checks if each.epsilon_mean is not None)
    together = np.logical_and.reduce([known[each.text] for each in checks if each.text in known])
    overall = checks.overall
    if overall is not None and known and every:
        overall = added(overall, together)
    return RuleChecks(rules, overall)


class Verified(NamedTuple):
    """What a certificate was found to say.

    Attributes:
        name: the rule.
        draws: how many draws it claims to prove.
        boxes: how many boxes it has.
        proved: of how many draws every box was bounded again.
        whole: whether the boxes are all of the region, and no more.
    """

    name: str
    draws: int
    boxes: int
    proved: int
    whole: bool

    @property
    def holds(self) -> bool:
        """Whether all that it claims is so."""
        return self.whole and self.proved == self.draws


def verify_proof(drawn: Drawn, proof: RuleProof, rules: Sequence[Rule] | None = None) -> Verified:
    """Bound every box of a proof again, and see that they are all of the region.

    Args:
        drawn: the draws that the proof speaks of; a mask may have become smaller since.
        proof: of one rule.
        rules: among which that rule is; default: the model's own.
    """
    term = next(
        (each for each in as_rule_terms(drawn, rules) if each.rule.text(each.schema) == proof.text), None
    )
    if term is None or proof.status.shape != drawn.mask.shape:
        raise OCBNNError(f"The proof of {proof.name!r} is not about these draws and rules.")
    # All draws that were kept when it was proved, some of which may have been rejected since.
    every = _Every(drawn)
    draws = np.flatnonzero(proof.proved.ravel())
    shown = shown_by_form(drawn.model, term.rule, every.flat[draws])
    if shown is not None:
        return Verified(proof.name, len(draws), 0, int(shown.sum()), whole=True)
    bounder = Bounder.of(every, term)
    fine, whole = replay(bounder, draws, *proof.cuts)
    return Verified(proof.name, len(draws), len(proof.cuts[0]), int(fine.sum()), whole)


class _Every(Drawn):
    """All draws, rejected ones included."""

    def __init__(self, drawn: Drawn) -> None:
        self.draws, self.model, self.kept = drawn.draws, drawn.model, None
