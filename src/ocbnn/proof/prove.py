"""Does a rule hold everywhere in its region? Draw by draw: proved, refuted with a point, or undecided.

    proofs = prove(posterior)
    print(proofs)                     # the wage: 982 of 1,000 draws proved, 12 refuted, 6 undecided …
    kept = keep_proved(posterior, proofs)

Sampling and ascent can only refute: the paper's Definition 4.2 is about every x. Here bounds of each draw's network
over boxes decide. What is proved is proved of these draws, over the inputs that `RuleProof.over` names, and of what
`predict` computes, rounding included. An undecided draw counts as one that violates.
"""  # noqa: E501

from __future__ import annotations

import math
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
from ocbnn.checking.results import RuleCheck, RuleChecks, Verdict
from ocbnn.checking.search import climb
from ocbnn.errors import OCBNNError
from ocbnn.model.conditional import RuleTerm, rule_vertices
from ocbnn.model.outputs import shown_by_form
from ocbnn.model.provable import unprovable
from ocbnn.progress import Report, Tick, reporting
from ocbnn.proof.branch import Bounder, Outcome, replay, search
from ocbnn.proof.results import PROVED, REFUTED, REJECTED, UNDECIDED, Proofs, RuleProof
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


def asked_proofs(
    drawn: Drawn,
    rules: Sequence[Rule] | None = None,
    known: Proofs | None = None,
    *,
    key: int = 0,
    progress: bool | Report = False,
) -> Proofs | None:
    """What is known to be proved, else the proofs of those rules that ask for one; None where none does."""
    asked = [term for term in as_rule_terms(drawn, rules) if term.rule.is_proved]
    return prove(drawn, asked, key=key, progress=progress) if known is None and asked else known


def _figure(drawn: Drawn, share: np.ndarray, confidence: float) -> Figure:
    return share_figure(
        share.astype(float), drawn.mask, has_chains=drawn.has_chains, draws=drawn.draws, confidence=confidence
    )


def _quiet(tick: Tick) -> None:
    pass


def _proof(
    drawn: Drawn,
    term: RuleTerm,
    boxes: int,
    seconds: float,
    key: int,
    confidence: float,
    report: Report,
) -> RuleProof:
    return _decided(drawn, term, boxes, seconds, key, confidence, report)[0]


def _decided(
    drawn: Drawn,
    term: RuleTerm,
    boxes: int,
    seconds: float,
    key: int,
    confidence: float = CONFIDENCE,
    report: Report = _quiet,
) -> tuple[RuleProof, Float[np.ndarray, "found Q"]]:
    """The proof of one rule, and the coded points that refute draws."""
    started, name = time.monotonic(), rule_name(term)
    shown = shown_by_form(drawn.model, term.rule, drawn.flat)
    by_form = shown is not None and bool(shown.all())
    rows = None if by_form else _margins_of_rows(drawn, term, drawn.flat)
    over, reason = "", ""
    if by_form:
        status = np.full(len(drawn.flat), PROVED, dtype=np.int8)
        over = "all inputs, by construction: the weights of every draw have the signs that it asks for"
        outcome = Outcome(status, {}, np.zeros(len(status)))
    elif rows is not None:
        status = np.where(rows <= 0, PROVED, REFUTED).astype(np.int8)
        over = f"the {len(term.points.coded):,} rows that its means are over, of which it is computed"
        outcome = Outcome(status, {}, np.zeros(len(status)))
    else:
        bounder = Bounder.of(drawn, term)
        reason, over = _unprovable(bounder), bounder.space.words()
        outcome = _searched(bounder, key, boxes, seconds, started, report, reason)
    status = np.full(drawn.mask.shape, REJECTED, dtype=np.int32)
    status[drawn.mask] = outcome.status
    remaining = np.zeros(drawn.mask.shape)
    remaining[drawn.mask] = outcome.remaining
    unproved = _figure(drawn, (status != PROVED) & drawn.mask, confidence)
    proof = RuleProof(
        name=name,
        text=term.rule.text(term.schema),
        over=over,
        status=status,
        unproved=unproved._replace(low=0.0, high=0.0) if by_form else unproved,
        points={draw: raw_point(term.schema, point) for draw, point in sorted(outcome.points.items())},
        remaining=remaining,
        boxes=outcome.boxes,
        seconds=time.monotonic() - started,
        reason=reason,
        cuts=outcome.certificate(),
    )
    width = len(term.schema.columns) + term.rule.requirement.coordinates
    return proof, np.array(list(outcome.points.values())).reshape(-1, width)


def _searched(
    bounder: Bounder, key: int, boxes: int, seconds: float, started: float, report: Report, reason: str
) -> Outcome:
    """What an attack, and branch and bound, find of every draw."""
    drawn, term, count = bounder.drawn, bounder.term, len(bounder.weights)
    if reason:
        return Outcome(np.full(count, UNDECIDED, dtype=np.int8), {}, np.ones(count))
    refuted = dict[int, np.ndarray]()
    _try(drawn, term, _points(term, key), refuted)

    def told(decided: int, of: int) -> None:
        report(Tick.of(f"prove {rule_name(term)}", decided, of, time.monotonic() - started))

    told(len(refuted), count)
    attack = partial(climbed, drawn, term, key)
    left = seconds - (time.monotonic() - started)
    return search(bounder, refuted, attack, boxes=boxes, seconds=left, told=told)


def _margins_of_rows(
    drawn: Drawn, term: RuleTerm, draws: Float[np.ndarray, "S size"]
) -> Float[np.ndarray, " S"] | None:
    """Margins of a rule about rows, which are finitely many and so are computed; None for any other."""
    if term.rule.is_predictive or term.rule.requirement.inputs is not None:
        return None
    return margins_at(drawn, draws, term, np.asarray(term.points.coded)).max(axis=1)


def _unprovable(bounder: Bounder) -> str:
    """Why nothing can be proved of a rule; empty where something can."""
    rule, space = bounder.term.rule, bounder.space
    if rule.is_predictive:
        return unprovable(rule, space, None)
    return unprovable(rule, space, bounder.bound_of(space.boxes(space.roots))) if space.count else ""


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
    known = {each.text: each.status for each in proofs if not each.reason}
    rules = tuple(
        proved_check(drawn, each, known[each.text], confidence) if each.text in known else each
        for each in checks
    )
    every = all(each.text in known for each in checks if each.epsilon_mean is not None)
    overall = checks.overall
    if overall is not None and known and every:
        all_rules = [known[each.text] for each in checks if each.text in known]
        # A draw that one proof refutes is refuted, and one that all prove is proved.
        status = np.max(all_rules, axis=0)
        status = np.where(np.any([each == REFUTED for each in all_rules], axis=0), REFUTED, status)
        overall = proved_check(drawn, overall, np.where(drawn.mask, status, REJECTED), confidence)
    return RuleChecks(rules, overall)


def proved_check(
    drawn: Drawn, check: RuleCheck, status: np.ndarray, confidence: float = CONFIDENCE
) -> RuleCheck:
    """The check of a rule with the share of kept draws that are not proved beside the other figures.

    Of a rule that is to be proved the verdict is about that share. It is unmet where draws are refuted beyond
    the tolerance: an undecided draw may still satisfy the rule.
    """
    unproved, refuted = (
        _figure(drawn, wrong & drawn.mask, confidence) for wrong in (status != PROVED, status == REFUTED)
    )
    shown: Verdict = "not shown at this tolerance"
    if unproved.high <= check.tolerance:
        shown = "met"
    elif refuted.low > check.tolerance:
        shown = "unmet"
    found = replace(check, draws_unproved=unproved, levels={**check.levels, "proved": shown})
    if check.asked != "proved" or check.by_construction:
        return found
    spread = math.sqrt(unproved.value * (1.0 - unproved.value) / max(unproved.effective, 1.0))
    return replace(found, verdict=shown, error=spread, error_of_points=0.0)


def judged_by_proof(
    drawn: Drawn, term: RuleTerm, check: RuleCheck, key: int, *, boxes: int, seconds: float
) -> tuple[RuleCheck, Float[np.ndarray, "found Q"]]:
    """The check of a rule that is to be proved, with the proof, and the coded points that refute draws."""
    proof, found = _decided(drawn, term, boxes, seconds, key)
    return proved_check(drawn, check, proof.status), found


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
    rows = _margins_of_rows(every, term, every.flat[draws])
    if rows is not None:
        return Verified(proof.name, len(draws), 0, int((rows <= 0).sum()), whole=True)
    bounder = Bounder.of(every, term)
    fine, whole = replay(bounder, draws, *proof.cuts)
    return Verified(proof.name, len(draws), len(proof.cuts[0]), int(fine.sum()), whole)


class _Every(Drawn):
    """All draws, rejected ones included."""

    def __init__(self, drawn: Drawn) -> None:
        self.draws, self.model, self.kept = drawn.draws, drawn.model, None
