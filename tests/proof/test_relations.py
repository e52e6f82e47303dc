"""Relations between outputs are proved of draws that keep them, on every kind of column, and of no others."""

from __future__ import annotations

import numpy as np
import pytest

from ocbnn.checking.check import as_rule_terms
from ocbnn.checking.draws import margins_at
from ocbnn.checking.search import climb
from ocbnn.model import Model
from ocbnn.model.networks import ACTIVATIONS
from ocbnn.proof import PROVED, REFUTED, UNDECIDED, prove, verify_proof
from ocbnn.schema import Column, Schema, Target
from posterior_cases import random_posterior

COLUMNS = (
    Column("age", "integer", (20.0, 80.0), center=50.0, scale=15.0),
    Column("dose", "continuous", (0.1, 50.0), transform="log", offset=0.5, center=1.0, scale=1.2),
    Column("flow", "continuous", (-40.0, 90.0), transform="asinh", offset=3.0, center=2.0, scale=1.5),
    Column("site", "category", (0.0, 2.0), levels=("a", "b", "c")),
    Column("sick", "binary", (0.0, 1.0), transform="none"),
)
NUMBER = Schema(COLUMNS, Target("y", "regression", center=10.0, scale=3.0, observed=(0.0, 20.0)))
LOG = Schema(COLUMNS, Target("y", "regression", center=1.0, scale=0.3, observed=(1.0, 9.0), transform="log"))
TWO = Schema(COLUMNS, Target("label", "classification", ("no", "yes")))
THREE = Schema(COLUMNS, Target("label", "classification", ("red", "green", "blue")))
OF_Y = [
    "always y increases with dose",
    "if age > 40 then y decreases with age",
    "always y changes by at most 0.6 per flow",
    "always y increases with sick",
    "if sick = 1 then y with site = a >= y with site = b - 0.5",
    "always y does not depend on sick by more than 1.5",
    "always y does not depend on site by more than 2",
    "if site in {a, c} then y does not depend on site by more than 2",
    "always y does not depend on dose by more than 4",
    "if age > 30 then y does not depend on age by more than 4",
    "always y increases with dose and y does not depend on sick by more than 2",
]
OF_YES = [
    "always P(label = yes) increases with dose",
    "always P(label = yes) with site = a >= P(label = yes) with site = b",
    "always P(label = yes) does not depend on sick by more than 0.1",
    "always P(label = yes) does not depend on flow by more than 0.4",
]
CASES = [
    ("number", NUMBER, OF_Y),
    ("log", LOG, OF_Y[:2] + OF_Y[4:6]),
    ("two classes", TWO, OF_YES),
    ("three classes", THREE, ["always P(label = red) does not depend on sick by more than 0.1"]),
]


@pytest.mark.parametrize(("name", "schema", "rules"), CASES, ids=[name for name, _, _ in CASES])
def test_no_case_violates_what_is_proved(name, schema, rules):
    model = Model.build(schema=schema, hidden=(4,), activation="tanh")
    drawn = random_posterior(model, (1, 40), seed=2, spread=0.35)
    seen = {PROVED: 0, REFUTED: 0, UNDECIDED: 0}
    for rule, proof in zip(rules, prove(drawn, rules, boxes=150, seconds=60), strict=True):
        assert not proof.reason
        (term,) = as_rule_terms(drawn, [rule])
        violated = (margins_at(drawn, drawn.flat, term, term.fresh(4000, 5)) > 0).any(axis=1)
        assert not (violated & proof.proved.ravel()).any(), rule
        for status, count in zip(seen, proof.counts.values(), strict=True):
            seen[status] += count
    print(name, seen)
    assert seen[PROVED] > 3 * len(rules)
    assert seen[REFUTED] > 0
    assert verify_proof(drawn, proof, rules).holds


def test_slopes_are_not_proved_over_regions_with_gaps_along_the_column():
    model = Model.build(schema=NUMBER, hidden=(4,), activation="tanh")
    drawn = random_posterior(model, (1, 2), spread=0.1)
    gap = prove(drawn, ["if dose < 1 or dose > 10 then y increases with dose"])[0]
    assert "gaps along the column" in gap.reason
    beside = prove(drawn, ["if age < 30 or age > 60 then y increases with dose"], boxes=5)[0]
    assert not beside.reason


POINTS, ROUNDS = 25_000, 4
SOUND = {
    "number": (
        NUMBER,
        [*OF_Y, "always y <= 40", "if age > 40 then y >= 0.2 * age - 25", "always y = 10 within 25"],
    ),
    "log": (LOG, [*OF_Y[:2], "always y <= 400"]),
    "two": (TWO, [*OF_YES, "always P(label = yes) >= 0.02", "if dose > 20 then label = yes"]),
    "three": (THREE, ["always P(label = red) <= 0.9", "if dose > 20 then label in {red, green}"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", SOUND)
def test_points_and_ascents_violate_nothing_that_is_proved(name: str, activation: str) -> None:
    schema, rules = SOUND[name]
    model = Model.build(schema=schema, hidden=(5, 4), activation=activation)
    drawn = random_posterior(model, (1, 40), seed=3, spread=0.3)
    proved = 0
    for rule, proof in zip(rules, prove(drawn, rules, boxes=300, seconds=200), strict=True):
        kept = drawn.flat[(proof.status == PROVED).ravel()]
        proved += len(kept)
        if not len(kept):
            continue
        (term,) = as_rule_terms(drawn, [rule])
        for key in range(ROUNDS):
            assert not (margins_at(drawn, kept, term, term.fresh(POINTS, key)) > 0).any(), rule
            found = climb(drawn, term, kept, key, score="worst draw", starts=300, rounds=10, most=16)
            assert not len(found) or not (margins_at(drawn, kept, term, np.asarray(found)) > 0).any(), rule
    assert proved > 10 * len(rules)
