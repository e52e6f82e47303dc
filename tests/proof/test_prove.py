"""What a proof says of draws whose functions are known, and of random ones; certificates can be trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ocbnn.checking.check import as_rule_terms, check_rules
from ocbnn.checking.draws import DrawSet, margins_at
from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.posterior import Posterior
from ocbnn.posterior.allowed import EnforcementError
from ocbnn.posterior.enforce import keep_proved
from ocbnn.posterior.predict import predict
from ocbnn.proof import PROVED, REFUTED, UNDECIDED, prove, verify_proof, with_proofs
from ocbnn.regions import Everywhere
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Column, Schema, Target
from posterior_cases import class_constants, lines, random_posterior

GOOD, BAD = np.array([[0.5, 1.0]]), np.array([[0.5, 3.0]])


def status(posterior, rule, **options):
    proof = prove(posterior, [rule], **options)[0]
    return proof.status.ravel().tolist()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # Lines y = 0.5 x + 1 and y = -x + 1 over x from -2 to 2.
        ("always y <= 3.001", [PROVED, PROVED]),
        ("always y <= 2.1", [PROVED, REFUTED]),
        ("if x > 0 then y >= 0.5", [PROVED, REFUTED]),
        ("if x > 0 then 0.9 <= y <= 2.1", [PROVED, REFUTED]),
        ("always y <= 0.5 * x + 1.001", [PROVED, REFUTED]),
        ("always not 4 <= y <= 6", [PROVED, PROVED]),
        ("always not 1 <= y <= 1.5", [REFUTED, REFUTED]),
        ("always y >= 2 or y <= 1.9 + x ^ 2", [PROVED, PROVED]),
        ("if x > 0.5 then x * y >= 0.5", [PROVED, REFUTED]),
        ("if x > 1 then y = 1.75 within 0.26", [PROVED, REFUTED]),
        ("always y = 0.5 * x + 1 within 0.1", [PROVED, REFUTED]),
        ("if x > 0 then y <= 3 * cos(x / 4)", [PROVED, PROVED]),
        ("if sin(x) > 0.5 then y >= 0.5", [PROVED, REFUTED]),
    ],
)
def test_lines_keep_or_violate_what_lines_do(rule, expected):
    posterior = lines(np.array([[0.5, -1.0]]), np.array([[1.0, 1.0]]))
    assert status(posterior, rule) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("always label = green", [PROVED, REFUTED]),
        ("always label in {green, blue}", [PROVED, REFUTED]),
        ("always P(label = red) <= 0.25", [PROVED, REFUTED]),
        ("always P(label in {blue, green}) >= 0.75", [PROVED, REFUTED]),
        ("if site = north then 0.1 <= P(label = red) <= 0.3", [PROVED, REFUTED]),
        ("always P(label = red) <= 1", [PROVED, PROVED]),
    ],
)
def test_constant_probabilities_are_judged_as_they_are(rule, expected):
    posterior = class_constants(np.array([[[0.2, 0.6, 0.2], [0.2, 0.3, 0.5]]]))
    assert status(posterior, rule) == expected


def test_two_classes_have_one_logit():
    posterior = class_constants(np.array([[[0.2, 0.8], [0.6, 0.4]]]), classes=("no", "yes"))
    assert status(posterior, "always label = yes") == [PROVED, REFUTED]
    assert status(posterior, "always P(label = yes) >= 0.7") == [PROVED, REFUTED]


def mixed_schema() -> Schema:
    columns = (
        Column("age", "integer", (20.0, 80.0), center=50.0, scale=15.0),
        Column("dose", "continuous", (0.1, 50.0), transform="log", offset=0.5, center=1.0, scale=1.2),
        Column("flow", "continuous", (-40.0, 900.0), transform="asinh", offset=3.0, center=2.0, scale=1.5),
        Column("site", "category", (0.0, 2.0), levels=("a", "b", "c")),
        Column("sick", "binary", (0.0, 1.0), transform="none"),
        Column("rate", "continuous", (0.0, 1.0), indicator=True, missing=3, mean=0.4, center=0.5, scale=0.3),
    )
    return Schema(columns, Target("y", "regression", center=10.0, scale=3.0, observed=(0.0, 20.0)))


RULES = [
    "always 0 <= y <= 25",
    "if age > 60 and site in {a, c} then y <= 16 + rate",
    "if dose > 5 or flow < 0 then y >= 0.1 * age - 6",
    "if age + dose > 70 then y <= 18",
    "if dose * rate > 3 then y <= 20",
]


@pytest.mark.parametrize(
    "activation", ["tanh", *(pytest.param(each, marks=pytest.mark.slow) for each in ("rbf", "relu", "gelu"))]
)
def test_no_point_and_no_ascent_violates_what_is_proved_on_a_mixed_table(activation):
    model = Model.build(schema=mixed_schema(), hidden=(5, 4), activation=activation, noise=0.3)
    posterior = random_posterior(model, (2, 20), seed=1, spread=0.8)
    proofs = prove(posterior, RULES, boxes=300, seconds=60)
    seen = {PROVED: 0, REFUTED: 0, UNDECIDED: 0}
    for rule, proof in zip(RULES, proofs, strict=True):
        (term,) = as_rule_terms(posterior, [rule])
        points = term.fresh(5000, 7)
        violated = (margins_at(posterior, posterior.flat, term, points) > 0).any(axis=1)
        assert not violated[proof.proved.ravel()].any()
        if proof.proved.any():
            kept = posterior.with_kept(proof.proved)
            assert check_rules(kept, [rule], points=1000)[0].draws_violating.value == 0.0
        for draw, point in proof.points.items():
            coded = posterior.schema.encode(_frame(point))
            margin = margins_at(posterior, posterior.flat[draw][None], term, coded)
            assert margin.max() > 0
        for name, count in zip(seen, proof.counts.values(), strict=True):
            seen[name] += count
    assert seen[PROVED] > 30
    assert seen[REFUTED] > 10
    assert seen[UNDECIDED] < 40


def _frame(point):
    import pandas as pd

    return pd.DataFrame([point])


def test_a_large_network_is_proved_for_what_is_computed_in_float32():
    schema = Schema(
        tuple(Column(f"x{i}", "continuous", (-1.0, 1.0)) for i in range(2)),
        Target("y", "regression", center=0.0, scale=1.0),
    )
    model = Model.build(schema=schema, hidden=(100, 100), activation="tanh", noise=0.3)
    posterior = random_posterior(model, (1, 4), spread=0.05)
    (term,) = as_rule_terms(posterior, ["if 0 <= x0 <= 0.2 and 0 <= x1 <= 0.1 then y <= 0"])
    points = term.fresh(4000, 0)
    largest = posterior.values(points, posterior.flat).max()
    barely = f"if 0 <= x0 <= 0.2 and 0 <= x1 <= 0.1 then y <= {largest + 2e-3}"
    assert status(posterior, barely, seconds=60) == [PROVED] * 4
    never = f"if 0 <= x0 <= 0.2 and 0 <= x1 <= 0.1 then y <= {largest - 1e-3}"
    assert REFUTED in status(posterior, never, boxes=20)


def test_figure_1b_is_proved_in_seconds(figure_1b):
    proof = prove(figure_1b, seconds=60)[0]
    checked = check_rules(figure_1b, points=2000)[0]
    violating = round(checked.draws_violating.value * len(figure_1b.flat))
    assert proof.count(UNDECIDED) == 0
    assert proof.count(REFUTED) >= violating
    assert proof.count(PROVED) > 0.5 * len(figure_1b.flat)
    assert proof.seconds < 30


@pytest.fixture(scope="module")
def figure_1b():
    """Random functions of the size of Figure 1b's, moved so that many obey on [-0.3, 0.3]."""
    schema = Schema(
        (Column("x", "continuous", (-2.0, 2.0), transform="none"),), Target("y", "regression", scale=1.0)
    )
    rule = "if -0.3 <= x <= 0.3 then 2.5 <= y <= 3"
    model = Model.build(schema=schema, hidden=(10,), activation="rbf", noise=0.1, rules=[rule])
    posterior = random_posterior(model, (1, 200), spread=0.6)
    middle = posterior.values(np.zeros((1, 1)), posterior.flat)[:, 0]
    moved = posterior.draws.copy()
    moved[..., -1] += 2.75 - middle
    flatter = moved.copy()
    flatter[..., 20:30] *= 0.7
    centred = replace(posterior, draws=flatter)
    flatter[..., -1] += 2.75 - centred.values(np.zeros((1, 1)), centred.flat)[:, 0]
    return replace(posterior, draws=flatter)


def test_an_undecided_draw_counts_as_violating_and_says_what_is_left(figure_1b):
    proof = prove(figure_1b, boxes=1)[0]
    undecided = proof.status == UNDECIDED
    assert undecided.any()
    assert (proof.remaining[undecided] > 0).all()
    assert proof.unproved.value == pytest.approx((proof.status != PROVED).mean())
    assert (prove(figure_1b)[0].status[undecided] != UNDECIDED).all()


def test_certificates_hold_and_a_changed_one_does_not(figure_1b):
    proof = prove(figure_1b)[0]
    assert verify_proof(figure_1b, proof).holds
    columns, places = proof.cuts
    assert (columns >= 0).any()
    shorter = replace(proof, cuts=(columns[:-1], places[:-1]))
    longer = replace(proof, cuts=(np.append(columns, -1), np.append(places, 0.0)))
    first = int(np.argmax(columns >= 0))
    uncut = columns.copy()
    uncut[first] = -1
    elsewhere = places.copy()
    elsewhere[first] = 5.0
    more = replace(proof, status=np.where(proof.status == REFUTED, PROVED, proof.status))
    for wrong in (
        shorter,
        longer,
        replace(proof, cuts=(uncut, places)),
        replace(proof, cuts=(columns, elsewhere)),
        more,
    ):
        assert not verify_proof(figure_1b, wrong).holds
    other = replace(figure_1b, draws=figure_1b.draws * 3.0)
    assert not verify_proof(other, proof).holds


def test_keeping_the_proved_draws_leaves_no_violation(figure_1b):
    proofs = prove(figure_1b)
    kept = keep_proved(figure_1b, proofs)
    assert (kept.mask == proofs.proved).all()
    assert kept.enforced == figure_1b.rules
    check = with_proofs(kept, check_rules(kept, points=500), proofs)
    assert check[0].draws_violating.value == 0.0
    assert check[0].draws_unproved.value == 0.0
    assert "draws_unproved" in str(check)
    inside = np.linspace(-0.3, 0.3, 50)[:, None]
    assert ((predict(kept, inside).point >= 2.5) & (predict(kept, inside).point <= 3)).all()
    with pytest.raises(EnforcementError, match="larger budget"):
        keep_proved(figure_1b, prove(figure_1b, ["always y >= 100"]), ["always y >= 100"])


def test_what_cannot_be_bounded_is_said_and_not_proved():
    posterior = lines(np.array([[0.5, -1.0]]), np.array([[1.0, 1.0]]))
    own = Constraint.from_functions(Everywhere(), lambda x, y: y - 100.0)
    told = {own: "does not say how its margin is bounded", "always y ~ Normal(1, 1)": "all draws together"}
    for rule, words in told.items():
        proof = prove(posterior, [rule])[0]
        assert words in proof.reason
        assert proof.count(UNDECIDED) == 2
        assert words in str(proof)


def test_it_is_said_over_what_a_proof_speaks():
    model = Model.build(schema=mixed_schema(), hidden=(3,), noise=0.3)
    posterior = random_posterior(model, (1, 2), spread=0.1)
    over = prove(posterior, ["if age > 60 and site = a then y <= 1000"])[0].over
    assert "age 61 to 80 (rule, observed)" in over
    assert "dose 0.1 to 50 (observed)" in over
    assert "site as the rule says" in over
    assert "sick any" in over
    assert "no value missing" in over


def test_budgets_and_missing_rules_are_sentences():
    posterior = lines(np.array([[0.5]]), np.array([[1.0]]))
    with pytest.raises(OCBNNError, match="no rule to prove"):
        prove(posterior)
    with pytest.raises(OCBNNError, match="boxes is a budget"):
        prove(posterior, ["always y <= 3"], boxes=0)


@pytest.mark.parametrize("rule", ["always y <= 2.1", "if x > 0 then y >= 0.5", "always y increases with x"])
def test_noise_that_varies_is_not_what_is_proved(rule):
    """The same lines with a second output that would violate any of these."""
    posterior = lines(np.array([[0.5, -1.0]]), np.array([[1.0, 1.0]]))
    model = Model.build(schema=posterior.schema, hidden=(), noise="varying")
    (slope, intercept), noise = np.moveaxis(posterior.draws, -1, 0), np.full((1, 2), -9.0)
    varying = Posterior(np.stack([slope, noise, intercept, -noise], axis=-1), model)
    assert status(varying, rule) == status(posterior, rule) == [PROVED, REFUTED]


def test_draws_of_a_prior_are_proved_too():
    posterior = lines(np.array([[0.5, -1.0]]), np.array([[1.0, 1.0]]))
    proof = prove(DrawSet(posterior.draws, posterior.model), ["always y <= 2.1"])[0]
    assert proof.status.ravel().tolist() == [PROVED, REFUTED]
