"""Relations of outputs at several inputs, on known functions: by brute force, in any units, in any region."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from language_schemas import DOSES, number
from ocbnn.model.conditional import rule_points
from ocbnn.model.terms import TERMS, Calibration
from ocbnn.rules import parse_rule
from ocbnn.rules.margins import margins
from ocbnn.rules.requirement import RAW, Units
from ocbnn.schema import Column, Schema, Target

TWO = Schema((number("x"), number("z")), Target("y", "regression", center=1.0, scale=2.0))
THREE = replace(DOSES, target=Target("label", "classification", classes=("blue", "green", "red")))
SHARE = replace(DOSES, columns=(*DOSES.columns, number("share")))
UNIT = 2.0
"""sd(y) of the schema `TWO`."""


def random_function(seed):
    """A small tanh network of two inputs, raw y."""
    generator = np.random.default_rng(seed)
    first, bias, last = generator.normal(size=(2, 6)), generator.normal(size=6), generator.normal(size=6)
    return lambda coded: np.tanh(coded[:, :2] @ first + bias) @ last


def found_margins(rule, schema, function, count=400, units=RAW):
    """Margins at many points with the kind's own further coordinates."""
    constraint = parse_rule(rule, schema)
    points = rule_points(0, constraint, schema, None, count)
    return margins(constraint, schema, points, function, units)


def slopes_on_a_grid(function, low=-3.0, high=3.0, zs=25, xs=61):
    """The steepest fall and rise over all pairs of a grid that are at least 1% of the range apart."""
    falls, changes = [], []
    x = np.linspace(low, high, xs)
    for z in np.linspace(-3, 3, zs):
        y = function(np.column_stack([x, np.full(xs, z)]))
        i, j = np.triu_indices(xs, 1)
        slope = (y[j] - y[i]) / (x[j] - x[i])
        falls.append((-slope).max())
        changes.append(np.abs(slope).max())
    return max(falls), max(changes)


@pytest.mark.parametrize("seed", range(8))
def test_the_worst_fall_is_that_of_all_pairs_on_a_grid(seed):
    function = random_function(seed)
    fall, change = slopes_on_a_grid(function)
    # Margins are per range of the column (6), with a slack of 1% of sd(y).
    up = found_margins("always y increases with x", TWO, function, 4096)
    assert up.max() == pytest.approx(6 * fall - 0.01 * UNIT, abs=0.12 * 6 * change)
    limit = found_margins("always y changes by at most 0.5 per x", TWO, function, 4096)
    assert limit.max() == pytest.approx(6 * change - 3.0, abs=0.12 * 6 * change)


def test_inside_a_region_only_what_lies_in_it_counts():
    def valley(coded):
        return coded[:, 0] ** 2

    assert found_margins("if x > 0 then y increases with x", TWO, valley).max() <= 0
    assert found_margins("if x < 0 then y decreases with x", TWO, valley).max() <= 0
    assert found_margins("if x > -0.5 then y increases with x", TWO, valley).max() > 0
    assert found_margins("if x + z > 0 and z < 0 then y increases with x", TWO, valley).max() <= 0


def test_flat_functions_obey_and_cost_nothing():
    for rule in (
        "always y increases with x",
        "always y does not depend on z",
        "always y with x = 1 >= y with x = 0",
    ):
        constraint = parse_rule(rule, TWO)
        points = rule_points(0, constraint, TWO, None, 50)
        demand = constraint.demand(points, TWO, Units.of_model(TWO.target))
        values = jnp.zeros((50, constraint.requirement.inputs))
        term = TERMS["distance"].calibrated(
            Calibration(constraint.requirement, demand, TWO.target, True, 1000.0)
        )
        for strength in (1e3, 1e6):
            assert (term.log_density(constraint.requirement, demand, values, strength) == 0).all()


def test_a_fall_of_more_than_one_per_cent_over_the_range_violates_and_less_does_not():
    for share, violated in ((0.009, False), (0.011, True)):
        falling = found_margins("always y increases with x", TWO, lambda c, s=share: -s * UNIT * c[:, 0] / 6)
        assert (falling > 0).any() == violated
        assert (falling > 0).all() == violated


@pytest.mark.parametrize(
    "rule",
    [
        "always y increases with dose",
        "if dose > 2 then y changes by at most 3 per dose",
        "always y does not depend on drug",
        "always y does not depend on dose by more than 1",
        "always y with drug = a >= y with drug = b + 3",
        "always y increases with dose and y does not depend on smoker",
    ],
)
def test_margins_do_not_depend_on_the_unit_of_y(rule):
    constraint = parse_rule(rule, DOSES)
    points = rule_points(0, constraint, DOSES, None, 64)
    weights = np.random.default_rng(0).normal(size=len(DOSES.columns))

    def function(coded):
        return coded @ weights + 3 * np.sin(coded[:, 0])

    target = DOSES.target
    raw = margins(constraint, DOSES, points, function)
    standard = margins(
        constraint,
        DOSES,
        points,
        lambda c: (function(c) - target.center) / target.scale,
        Units.of_model(target),
    )
    assert np.allclose(raw, standard)
    logged = replace(DOSES, target=replace(target, transform="log", center=1.0, scale=0.5))
    positive = margins(constraint, logged, points, lambda c: np.exp(np.sin(function(c))))
    inside = margins(
        constraint, logged, points, lambda c: (np.sin(function(c)) - 1.0) / 0.5, Units.of_model(logged.target)
    )
    assert np.allclose(positive, inside)


def test_the_unit_of_a_column_changes_no_margin_of_a_trend():
    def schema(scale):
        return Schema((number("x", -3 * scale, 3 * scale), number("z")), TWO.target)

    function = random_function(3)
    found = [
        found_margins("always y increases with x", schema(s), lambda c, s=s: function(c / [s, 1.0]), 128)
        for s in (1.0, 1000.0)
    ]
    assert np.allclose(*found)


def test_steps_of_whole_numbers_are_whole_and_at_least_one():
    constraint = parse_rule("if visits > 2 then y increases with visits", DOSES)
    cases = constraint.requirement.cases(
        rule_points(0, constraint, DOSES, None, 300), DOSES, constraint.region
    )[..., DOSES.index("visits")]
    assert np.array_equal(cases, np.round(cases))
    assert (cases[:, 1] - cases[:, 0] >= 1).all()
    assert (cases.min(), cases.max()) == (3, 9)


def test_a_trend_along_a_binary_column_compares_no_with_yes():
    constraint = parse_rule("always y increases with smoker", DOSES)
    cases = constraint.requirement.cases(
        rule_points(0, constraint, DOSES, None, 20), DOSES, constraint.region
    )[..., DOSES.index("smoker")]
    assert np.array_equal(cases, np.tile([0.0, 1.0], (20, 1)))


def test_invariance_is_the_spread_over_all_levels():
    effects = np.array([0.0, 0.3, -0.4])
    found = found_margins(
        "always y does not depend on drug by more than 0.5",
        DOSES,
        lambda c: effects[c[:, 6].astype(int)] + c[:, 1],
    )
    assert np.allclose(found, 0.7 - 0.5)


def test_invariance_in_a_region_compares_its_levels_only():
    effects = np.array([0.0, 0.1, 50.0])
    rule = "if drug in {a, b} then y does not depend on drug by more than 0.5"
    assert np.allclose(found_margins(rule, DOSES, lambda c: effects[c[:, 6].astype(int)]), 0.1 - 0.5)


def test_invariance_along_a_number_compares_values_across_its_range():
    found = found_margins("always y does not depend on x by more than 1", TWO, lambda c: c[:, 0])
    assert found.max() > 3
    assert (found_margins("always y does not depend on z", TWO, lambda c: c[:, 0]) < 0).all()


@pytest.mark.parametrize(
    ("sign", "more", "difference", "violated"),
    [
        (">=", "", 0.0, False),
        (">=", "+ 3", 2.9, False),
        (">=", "+ 3", 2.7, True),
        ("<=", "- 1", -2.0, False),
        ("<=", "- 1", -0.5, True),
        ("=", "within 2", 1.9, False),
        ("=", "within 2", -2.1, True),
        ("=", "+ 3 within 2", 1.1, False),
        ("=", "+ 3 within 2", 0.9, True),
    ],
)
def test_a_contrast_is_the_difference_between_two_values(sign, more, difference, violated):
    rule = f"always y with drug = a {sign} y with drug = c {more}"
    found = found_margins(rule, DOSES, lambda c: np.where(c[:, 6] == 0, difference, 0.0) + c[:, 1])
    assert (found > 0).all() == violated
    assert (found > 0).any() == violated


def test_probabilities_of_many_classes():
    def probabilities(coded):
        logits = np.stack([0 * coded[:, 0], -coded[:, 0] / 10, coded[:, 0] / 10], axis=-1)
        return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)

    assert (found_margins("always P(label = red) increases with dose", THREE, probabilities) <= 0).all()
    assert (
        found_margins("always P(label in {green, red}) increases with dose", THREE, probabilities) <= 0
    ).any()
    assert (found_margins("always P(label = green) increases with dose", THREE, probabilities) > 0).any()
    assert (found_margins("always P(label = green) falls with dose", THREE, probabilities) <= 0).all()


@pytest.mark.parametrize(
    ("bend", "convex", "concave"), [(1.0, True, False), (-1.0, False, True), (0.0, True, True)]
)
def test_the_second_difference_is_that_of_a_parabola(bend, convex, concave):
    def function(coded):
        return bend * coded[:, 0] ** 2 + 7 * coded[:, 0] + coded[:, 1]

    for form, obeyed in (("convex", convex), ("concave", concave)):
        found = found_margins(f"always y is {form} in x", TWO, function)
        # Over the range of 6 a parabola lies bend · 6² / 4 below its chord.
        sign = 1 if form == "concave" else -1
        assert np.allclose(found, sign * bend * 9 - 0.01 * UNIT)
        assert (found <= 0).all() == obeyed


@pytest.mark.parametrize("seed", range(4))
def test_the_worst_bend_is_that_of_all_triples_on_a_grid(seed):
    function = random_function(seed)
    x, worst = np.linspace(-3, 3, 61), -np.inf
    for z in np.linspace(-3, 3, 25):
        y = function(np.column_stack([x, np.full(61, z)]))
        for half in range(3, 31):
            above = y[half:-half] - (y[2 * half :] + y[: -2 * half]) / 2
            worst = max(worst, (above / (2 * half / 60) ** 2).max())
    found = found_margins("always y is convex in x", TWO, function, 4096)
    assert found.max() == pytest.approx(worst - 0.01 * UNIT, rel=0.15, abs=0.2)


def test_whole_numbers_are_bent_at_whole_numbers():
    found = found_margins("always y is convex in visits", DOSES, lambda c: c[:, 9] ** 2)
    assert (found <= 0).all()
    assert (found_margins("always y is concave in visits", DOSES, lambda c: c[:, 9] ** 2) > 0).any()


ROWS = np.column_stack(
    [np.linspace(0, 10, 40), *np.zeros((5, 40)), np.repeat([0.0, 1.0, 2.0], [20, 15, 5]), *np.zeros((5, 40))]
)
"""Rows of the schema `DOSES`, in three groups of `drug`."""


def test_parity_is_the_largest_difference_of_group_means_over_the_rows():
    constraint = parse_rule("if dose > 2 then mean y is equal over drug within 0.5", DOSES)
    points = rule_points(0, constraint, DOSES, ROWS, 10)
    assert len(points) == (ROWS[:, 0] > 2).sum()
    found = margins(constraint, DOSES, points, lambda c: c[:, 0])
    means = [points[points[:, 6] == group, 0].mean() for group in range(3)]
    assert found == pytest.approx([max(means) - min(means) - 0.5])


def test_many_rows_are_stratified_by_group():
    rows = np.tile(ROWS, (200, 1))
    points = rule_points(0, parse_rule("always mean y is equal over drug", DOSES), DOSES, rows, 10)
    assert np.unique(points[:, 6], return_counts=True)[1].tolist() == [666, 666, 666]


def test_parity_of_probabilities():
    constraint = parse_rule("always mean P(label = red) is equal over drug within 0.1", THREE)
    points = rule_points(0, constraint, THREE, ROWS, 10)

    def probabilities(coded):
        share = np.where(coded[:, 6] == 1, 0.5, 0.2)
        return np.stack([1 - share, 0 * share, share], axis=-1)

    assert margins(constraint, THREE, points, probabilities) == pytest.approx([0.2])


SHARES = [
    ("always share P(label = red) > 0.5 is equal over drug within 0.1", THREE, RAW),
    ("if share > 1 then share y > 90 is equal over drug", SHARE, RAW),
    ("always share y > 90 is equal over drug within 0.1", DOSES, RAW),
    ("always share y > 90 is equal over drug within 0.1", DOSES, Units(100.0, 20.0)),
    ("always share y > 90 is equal over drug within 0.1", DOSES, Units(4.6, 0.2, log=True)),
]


@pytest.mark.parametrize(("rule", "schema", "units"), SHARES)
def test_parity_of_shares_counts_rows_above_the_number_and_its_smooth_margin_is_near(rule, schema, units):
    constraint = parse_rule(rule, schema)
    kind, classes = constraint.requirement, bool(schema.target.classes)
    generator = np.random.default_rng(0)
    rows = np.column_stack([np.ones((2000, len(schema.columns) - 1)) * 2.0, np.ones(2000) * 2.0])
    rows[:, 6] = generator.integers(0, 3, 2000)
    answers = generator.normal(size=(5, 1, 2000)) + 0.4 * rows[:, 6]
    raw = 1 / (1 + np.exp(-answers)) if classes else 85 + 15 * answers
    raw = raw if classes else np.maximum(raw, 1.0)
    above = raw > (0.5 if classes else 90)
    shares = np.stack([above[..., rows[:, 6] == group].mean(axis=-1) for group in range(3)])
    values = np.stack([1 - raw, 0 * raw, raw], axis=-1) if classes else units.of(raw)
    demand = kind.demand(rows[None], schema, units)
    allowed = 0.1 if kind.most else 0.005
    assert kind.violation(demand, values) == pytest.approx(np.ptp(shares, axis=0) - allowed)
    # Half a width off, a row counts by 0.38 more or less; 40 rows of a group are about that near.
    assert kind.margin(demand, values) == pytest.approx(np.ptp(shares, axis=0) - allowed, abs=0.02)
    values[0, 0, 0] = np.nan
    assert kind.violation(demand, values)[0, 0] == np.inf


def test_all_parts_have_to_hold():
    rule = "always y increases with x and y does not depend on z by more than 1"
    for (slope, effect), violated in zip(product((1, -1), (0.1, 1)), (False, True, True, True), strict=True):
        found = found_margins(rule, TWO, lambda c, s=slope, e=effect: s * c[:, 0] + e * c[:, 1])
        assert (found > 0).any() == violated


@pytest.mark.parametrize(
    ("rule", "schema"),
    [
        ("always y increases with x", TWO),
        ("always y changes by at most 0.5 per x", TWO),
        ("always y does not depend on z", TWO),
        ("always y with x = 1 = y with x = -1 within 0.1", TWO),
        ("always y is convex in x", TWO),
        ("always mean P(label = red) is equal over smoker within 0.01", THREE),
        ("always share P(label = red) > 0.4 is equal over smoker within 0.01", THREE),
        ("always P(label = red) falls with dose and P(label = red) does not depend on drug", THREE),
    ],
)
def test_gradients_agree_with_finite_differences(rule, schema):
    constraint = parse_rule(rule, schema)
    kind = constraint.requirement
    points = rule_points(0, constraint, schema, None, 6)
    demand = constraint.demand(points, schema, Units.of_model(schema.target))
    classes = len(schema.target.classes)
    cases = constraint.requirement.cases(points, schema, constraint.region)
    shape = (*cases.shape[:2], *([classes] if classes else []))
    with jax.enable_x64(True):
        outputs = jnp.asarray(np.random.default_rng(1).normal(size=shape))
        direction = jnp.asarray(np.random.default_rng(2).normal(size=shape))
        term = TERMS["distance"].calibrated(Calibration(kind, demand, schema.target, True, 1000.0))

        def score(values):
            values = jax.nn.softmax(values) if classes else values
            return jnp.sum(term.log_density(kind, demand, values, 1000.0))

        slope = jnp.vdot(jax.grad(score)(outputs), direction)
        step = 1e-6
        difference = (score(outputs + step * direction) - score(outputs - step * direction)) / (2 * step)
    assert float(slope) == pytest.approx(float(difference), rel=1e-5)
    assert abs(float(slope)) > 0


@pytest.mark.parametrize(
    ("rule", "pairs"),
    [
        ("always y increases with x", [(1, 0)]),
        ("always y decreases with x", [(2, 3)]),
        ("always y with x = 1 >= y with x = 2", [(2, 3)]),
        ("always y with x = 1 <= y with x = 2", [(1, 0)]),
        ("always y changes by at most 3 per x", [(1, 0)]),
    ],
)
def test_pairs_of_rows_that_contradict_it_are_found(rule, pairs):
    rows = np.array([[2.0, 0.0], [1.0, 0.0], [1.0, 1.0], [2.0, 1.0], [3.0, 2.0]])
    observed = np.array([1.0, 5.0, 1.0, 3.0, -9.0])
    found = parse_rule(rule, TWO).requirement.against_rows(rows, observed, TWO)
    assert [tuple(pair) for pair in found] == pairs


def test_a_log_column_is_stepped_along_its_logarithm():
    column = Column("x", "continuous", (1.0, 10_000.0), transform="log", center=4.0, scale=2.0, offset=0.0)
    schema = Schema((column,), TWO.target)
    constraint = parse_rule("always y increases with x", schema)
    cases = constraint.requirement.cases(
        rule_points(0, constraint, schema, None, 500), schema, constraint.region
    )[..., 0]
    assert (cases[:, 1] > cases[:, 0]).all()
    assert (cases[:, 0] < 20).mean() > 0.05
