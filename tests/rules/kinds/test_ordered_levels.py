"""A category whose levels are declared ordered is compared level by level."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from language_schemas import number
from ocbnn import Schema, lint
from ocbnn.checking.check import as_rule_terms
from ocbnn.checking.draws import CheckOptions, margins_at
from ocbnn.checking.violations import judge
from ocbnn.errors import RuleError, SchemaError
from ocbnn.model import Model
from ocbnn.model.conditional import rule_points
from ocbnn.posterior.draws import Posterior
from ocbnn.proof import PROVED, REFUTED, prove
from ocbnn.rules import parse_rule
from ocbnn.rules.margins import margins
from ocbnn.schema import Column, Target
from posterior_cases import random_posterior

LEVELS = ("low", "some", "mid", "high")
GRADE = Column("grade", "category", (0.0, 3.0), levels=LEVELS, ordered=True)
COLUMNS = (number("x"), GRADE, Column("site", "category", (0.0, 1.0), levels=("north", "south")))
NUMBER = Schema(COLUMNS, Target("y", "regression", center=1.0, scale=2.0, observed=(-3.0, 5.0)))
LOG = Schema(COLUMNS, Target("y", "regression", center=1.0, scale=0.3, observed=(1.0, 9.0), transform="log"))
TWO = Schema(COLUMNS, Target("label", "classification", ("no", "yes")))
THREE = Schema(COLUMNS, Target("label", "classification", ("red", "green", "blue")))
RULES = [
    (NUMBER, "always y increases with grade"),
    (NUMBER, "if x > 0 then y decreases with grade"),
    (NUMBER, "if grade in {low, mid, high} and site = north then y increases with grade"),
    (LOG, "always y increases with grade"),
    (TWO, "always P(label = yes) increases with grade"),
    (TWO, "always P(label = no) increases with grade"),
    (THREE, "always P(label in {red, blue}) decreases with grade"),
]


def codes_of(rule: str, schema: Schema = NUMBER, count: int = 300) -> np.ndarray:
    constraint = parse_rule(rule, schema)
    points = rule_points(0, constraint, schema, None, count)
    cases = constraint.requirement.cases(points, schema, constraint.region)
    assert (np.delete(cases, 1, axis=-1) == np.delete(cases[:, :1], 1, axis=-1)).all()
    assert constraint.region.contains(cases.reshape(-1, 3), schema).all()
    return cases[..., 1]


def test_neighbours_in_the_declared_order_are_compared() -> None:
    pairs = codes_of("always y increases with grade")
    assert set(map(tuple, pairs.tolist())) == {(0, 1), (1, 2), (2, 3)}


def test_levels_outside_of_the_region_are_passed_over() -> None:
    pairs = codes_of("if grade in {low, mid, high} then y increases with grade")
    assert set(map(tuple, pairs.tolist())) == {(0, 2), (2, 3)}


def brute_force(schema: Schema, rule: str, draws: Posterior, points: np.ndarray) -> np.ndarray:
    """The largest margin of each draw over all pairs of levels of the region, at the given inputs."""
    constraint = parse_rule(rule, schema)
    kind = constraint.requirement
    unit = 0.5 if schema.target.classes else schema.target.raw_scale
    worst = np.full(len(draws.flat), -np.inf)
    for one in range(len(LEVELS)):
        for two in range(one + 1, len(LEVELS)):
            pair = np.stack([points[:, :3]] * 2, axis=1)
            pair[:, 0, 1], pair[:, 1, 1] = one, two
            inside = constraint.region.contains(pair.reshape(-1, 3), schema).reshape(-1, 2).all(axis=1)
            values = draws.values(pair[inside].reshape(-1, 3), draws.flat)
            if schema.target.classes:
                members = [schema.target.classes.index(label) for label in kind.classes]
                values = values[..., members].sum(axis=-1)
            change = np.diff(values.reshape(len(draws.flat), -1, 2), axis=-1)[..., 0]
            against = (-change if kind.rises else change) * (len(LEVELS) - 1) / (two - one)
            worst = np.maximum(worst, (against - 0.01 * unit).max(axis=1, initial=-np.inf))
    return worst


@pytest.mark.parametrize(("schema", "rule"), RULES)
def test_obeying_all_neighbours_is_obeying_all_pairs(schema: Schema, rule: str) -> None:
    drawn = random_posterior(Model.build(schema=schema, hidden=(4,), activation="tanh"), (1, 30), spread=0.4)
    (term,) = as_rule_terms(drawn, [rule])
    points = term.fresh(40, 3)
    # Every level of the region at every x, with the step down and up.
    every = np.repeat(points, 2 * len(LEVELS), axis=0)
    every[:, 1] = np.tile(np.repeat(np.arange(len(LEVELS)), 2), len(points))
    every[:, -1] = np.tile([0.0, 1.0], len(LEVELS) * len(points))
    every = every[term.rule.region.contains(every[:, :3], schema)]
    found = margins_at(drawn, drawn.flat, term, every).max(axis=1)
    assert np.allclose(found, brute_force(schema, rule, drawn, points), atol=1e-6)


def test_a_fall_of_more_than_the_slack_by_steps_violates_and_less_does_not() -> None:
    constraint = parse_rule("always y increases with grade", NUMBER)
    points = rule_points(0, constraint, NUMBER, None, 50)
    for share, violated in ((0.009, False), (0.011, True)):
        found = margins(constraint, NUMBER, points, lambda c, s=share: -s * 2.0 * c[:, 1] / 3)
        assert (found > 0).all() == violated
        assert (found > 0).any() == violated


@pytest.mark.parametrize(("schema", "rule"), RULES)
def test_its_text_comes_back_and_so_does_the_schema(schema: Schema, rule: str) -> None:
    constraint = parse_rule(rule, schema)
    assert constraint.text(schema) == rule
    stored = schema.to_json()
    assert stored["columns"][1]["ordered"] is True
    assert Schema.from_json(stored) == schema
    del stored["columns"][0]["ordered"]  # as an older version wrote it
    assert Schema.from_json(stored) == schema


def test_words_of_trends_work_for_levels() -> None:
    for verb, rises in {"rises": True, "grows": True, "falls": False}.items():
        rule = parse_rule(f"always y {verb} with grade", NUMBER)
        assert rule.text(NUMBER) == f"always y {'increases' if rises else 'decreases'} with grade"


def test_the_search_finds_the_step_that_violates() -> None:
    drawn = random_posterior(Model.build(schema=NUMBER, hidden=(4,), activation="tanh"), (2, 20), spread=0.4)
    (term,) = as_rule_terms(drawn, ["always y increases with grade"])
    check, _ = judge(drawn, term, CheckOptions(points=200))
    assert check.epsilon_worst is not None
    assert check.epsilon_mean is not None
    assert check.epsilon_worst.value >= check.epsilon_mean.value
    (other,) = check.worst_others
    assert LEVELS.index(other["grade"]) == LEVELS.index(check.worst_point["grade"]) + 1
    assert set(other) == {"grade"}


@pytest.mark.parametrize(("schema", "rule"), RULES)
def test_no_case_violates_what_is_proved(schema: Schema, rule: str) -> None:
    """Lines, of which some rise by chance, and bent functions, of which those that are nearly flat obey."""
    for hidden, spread in (((), 0.4), ((4,), 0.01), ((4,), 0.4)):
        model = Model.build(schema=schema, hidden=hidden, activation="tanh")
        drawn = random_posterior(model, (1, 20 if hidden else 200), seed=2, spread=spread)
        (proof,) = prove(drawn, [rule], boxes=100, seconds=60)
        assert not proof.reason
        (term,) = as_rule_terms(drawn, [rule])
        violated = (margins_at(drawn, drawn.flat, term, term.fresh(1000, 5)) > 0).any(axis=1)
        assert not (violated & proof.proved.ravel()).any()
        assert (proof.count(PROVED) > 0) == ((hidden, spread) != ((4,), 0.4))
        assert (proof.count(REFUTED) > 0) == (spread == 0.4)


def test_it_goes_by_the_prior() -> None:
    model = Model.build(schema=NUMBER, rules=["always y increases with grade"], activation="tanh")
    assert not model.formed
    assert [term.rule.text(NUMBER) for term in model.terms] == ["always y increases with grade"]
    with pytest.raises(RuleError, match="with numbers can hold so"):
        Model.build(
            schema=NUMBER,
            rules=[parse_rule("always y increases with grade", NUMBER, by="construction")],
            activation="tanh",
        )


def test_lint_knows_the_order() -> None:
    def said(*texts: str) -> list[tuple[str, str]]:
        rules = [parse_rule(text, NUMBER) for text in texts]
        return [(finding.kind, finding.severity) for finding in lint(rules, NUMBER)]

    rises = "always y increases with grade"
    assert said(rises) == []
    assert said(rises, "if grade = low then y >= 3", "if grade = high then y <= 1") == [
        ("contradiction", "error")
    ]
    assert said(rises, "if grade = low then y <= 1", "if grade = high then y >= 3") == []
    assert said(rises, "always y decreases with grade") == [("contradiction", "warning")]
    assert said(rises, "always y with grade = low >= y with grade = mid + 1") == [("contradiction", "error")]
    assert said("if grade = mid then y increases with grade") == [("empty-output", "error")]


def test_rows_that_run_against_it_are_found_and_unseen_labels_have_no_place() -> None:
    kind = parse_rule("always y increases with grade", NUMBER).requirement
    rows = np.array(
        [[0.0, 3, 0], [0.0, 0, 0], [0.0, 2, 0], [1.0, 0, 0], [1.0, 3, 0], [2.0, -1, 0], [2.0, 1, 0]]
    )
    observed = np.array([1.0, 1.0, 5.0, 1.0, 3.0, 9.0, 1.0])
    assert kind.against_rows(rows, observed, NUMBER).tolist() == [[2, 0]]


REFUSED = {
    "always y changes by at most 2 per grade": "have an order, but no distances",
    "always y is convex in grade": "have an order, but no distances",
    "always y increases with site": r"'site': \{'levels': \['north', 'south', …\], 'ordered': True\}",
    "if grade > low then y increases with x": "a condition names levels",
}


@pytest.mark.parametrize(("rule", "said"), REFUSED.items())
def test_what_levels_cannot_say_is_refused(rule: str, said: str) -> None:
    with pytest.raises(RuleError, match=said):
        parse_rule(rule, NUMBER)


def test_one_level_has_no_neighbour() -> None:
    one = replace(GRADE, levels=("low",), observed=(0.0, 0.0))
    with pytest.raises(RuleError, match="has one level, so nothing can be compared"):
        parse_rule("always y increases with grade", replace(NUMBER, columns=(one,)))


FRAME = pd.DataFrame({"grade": ["mid", "low", "high"], "x": [1.0, 2.0, 4.0], "y": [1.0, 2.0, 3.0]})


def test_it_is_declared_with_the_levels() -> None:
    declared = {"grade": {"levels": ["low", "mid", "high"], "ordered": True}}
    column = Schema.infer(FRAME, target="y", columns=declared).column("grade")
    assert (column.levels, column.ordered) == (("low", "mid", "high"), True)
    assert not Schema.infer(FRAME, target="y").column("grade").ordered


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"grade": {"ordered": True}}, "its levels are declared in their order"),
        ({"grade": {"levels": ["low", "mid", "high"], "ordered": "yes"}}, "True or False, not 'yes'"),
        ({"x": {"ordered": True}}, "its levels are declared in their order"),
        ({"x": {"kind": "continuous", "levels": [1, 2, 4], "ordered": True}}, "only a category has levels"),
        ({"y": {"ordered": True}}, "'ordered' is not an option"),
    ],
)
def test_a_wrong_declaration_is_refused(declared: dict, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        Schema.infer(FRAME, target="y", columns=declared)
