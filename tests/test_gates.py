"""Gates: open in a rule's region, closed a short way outside."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ocbnn.checking.search import SearchSpace
from ocbnn.errors import ModelError
from ocbnn.gates import MOST_CELLS, Edge, Gate, gates_of
from ocbnn.model.conditional import RuleTerm
from ocbnn.regions import sample
from ocbnn.rules import parse_rule
from ocbnn.schema import Column, Schema
from region_cases import MIXED, ROOMY, THIN, mixed_rows, region

REACH = 0.05
SCALED = Schema(
    tuple(
        column
        if column.kind in ("category", "binary")
        else replace(column, center=float(np.mean(column.observed)), scale=float(np.ptp(column.observed)) / 4)
        for column in MIXED.columns
    ),
    MIXED.target,
)
"""Columns as `Schema.infer` would standardise them, more or less."""
LOGGED = Schema(
    (replace(SCALED.columns[0], transform="log", offset=0.1, center=0.5, scale=0.7), *SCALED.columns[1:]),
    MIXED.target,
)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def openness(gate: Gate, coded: np.ndarray, schema: Schema = SCALED) -> np.ndarray:
    return np.asarray(gate.openness(jnp.asarray(schema.to_model(coded))))


def only(condition: str, schema: Schema = SCALED) -> Gate:
    (gate,) = gates_of([region(condition, schema)], schema, REACH)
    return gate


@pytest.mark.parametrize("condition", [words for words in (ROOMY | THIN).values() if words != "always"])
@pytest.mark.parametrize("schema", [SCALED, LOGGED], ids=["standardised", "one log"])
@pytest.mark.parametrize("reach", [0.0, REACH])
def test_a_gate_is_open_in_the_whole_region(condition, schema, reach):
    """In single precision, at points drawn, at corners, and at the edges that a search goes to."""
    there = region(condition, schema)
    points = np.concatenate([there.vertices(schema), sample(0, there, schema, mixed_rows(), 60)])
    points = np.resize(points, (124, points.shape[1]))  # of one shape, for one compilation
    rule = RuleTerm.build(parse_rule(f"if {condition} then y > 0", schema), schema, bounded=True, points=1)
    edges = SearchSpace.of(rule).pushed(np.random.default_rng(0), points)
    inputs = jnp.asarray(schema.to_model(np.concatenate([points, edges])), jnp.float32)
    for gate in gates_of([there], schema, reach):
        np.testing.assert_allclose(gate.openness(inputs), 1.0, atol=1e-6)


@pytest.mark.parametrize("kind", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("schema", [SCALED, LOGGED], ids=["standardised", "one log"])
@pytest.mark.parametrize(
    ("condition", "at_the_end"),
    [("creatinine > 2", 0), ("creatinine >= 2", 1), ("creatinine < 2", 0), ("2 < creatinine < 3", 0)],
)
def test_a_step_minds_whether_an_end_is_open(condition, at_the_end, schema, kind):
    rows = np.repeat(mixed_rows()[:1], 2, axis=0)
    rows[:, 0] = [2.0, 2.001 if ">" in condition or "2 <" in condition else 1.999]
    (gate,) = gates_of([region(condition, schema)], schema, 0.0)
    found = gate.openness(jnp.asarray(schema.to_model(rows), kind))
    np.testing.assert_array_equal(found, [at_the_end, 1.0])


def test_a_step_beyond_the_largest_row_leaves_that_row_out():
    """An end that is the same in single precision a little further on: 5.08 is not a binary fraction."""
    column = Column("flavanoids", "continuous", (0.6, 3.8), center=2.03, scale=0.997)
    schema = Schema((column,), MIXED.target)
    (gate,) = gates_of([region("flavanoids > 5.08", schema)], schema, 0.0)
    inputs = jnp.asarray(schema.to_model(np.array([[5.08], [5.0802]])), jnp.float32)
    np.testing.assert_array_equal(gate.openness(inputs), [0.0, 1.0])


@pytest.mark.parametrize("schema", [SCALED, LOGGED], ids=["standardised", "one log"])
@pytest.mark.parametrize(("condition", "side"), [("creatinine > 2", 1), ("creatinine < 2", -1)])
def test_a_step_is_at_the_open_end_itself(condition, side, schema):
    """Nothing between the end and the points a search goes to is left without a gate: rows may be there."""
    rows = np.repeat(mixed_rows()[:1], 3, axis=0)
    rows[:, 0] = 2.0 + side * np.array([0.0, 1e-9, 1e-7])
    (gate,) = gates_of([region(condition, schema)], schema, 0.0)
    np.testing.assert_array_equal(openness(gate, rows, schema), [0.0, 1.0, 1.0])


def test_a_piece_that_no_row_can_be_in_is_left_out():
    """Creatinine enters as log(value + 0.1)."""
    assert gates_of([region("creatinine <= -3 or age > 50", LOGGED)], LOGGED, REACH) == gates_of(
        [region("age > 50", LOGGED)], LOGGED, REACH
    )


@pytest.mark.parametrize(
    "condition", [ROOMY["box"], ROOMY["half-space"], ROOMY["half-space over kinds"], ROOMY["union"]]
)
def test_a_gate_is_closed_away_from_the_region(condition):
    """Nearest points are looked for among very many of the region: a distance that no formula has given."""
    there, generator = region(condition, SCALED), np.random.default_rng(0)
    low = np.array([column.observed[0] for column in SCALED.columns])
    high = np.array([column.observed[1] for column in SCALED.columns])
    rows = low + generator.random((3000, len(low))) * (high - low)
    rows[:, 3:] = np.round(rows[:, 3:])
    inside = there.contains(rows, SCALED)
    inputs = SCALED.to_model(rows)
    distances = np.linalg.norm(inputs[~inside][:200, None] - inputs[inside][None], axis=2).min(axis=1)
    far = distances > 2.0
    assert far.sum() > 5
    assert openness(only(condition), rows[~inside][:200][far]).max() < 1e-3


def test_openness_falls_with_the_distance_from_a_box():
    column = SCALED.column("creatinine")
    rows = np.repeat(mixed_rows()[:1], 4, axis=0)
    rows[:, 0] = 2.0 - column.scale * REACH * np.array([-5.0, 0.0, 1.0, 2.0])
    np.testing.assert_allclose(openness(only("creatinine >= 2"), rows), np.exp([0.0, 0.0, -0.5, -2.0]))


def test_distance_from_a_half_space_is_along_its_normal_in_model_units():
    gate, rows = only("creatinine + lactate < 4"), mixed_rows()[:50]
    values = SCALED.values(rows)
    scales = np.array([SCALED.column(name).scale for name in ("creatinine", "lactate")])
    distance = np.maximum(values["creatinine"] + values["lactate"] - 4, 0) / np.linalg.norm(scales)
    np.testing.assert_allclose(openness(gate, rows), np.exp(-0.5 * (distance / REACH) ** 2), atol=1e-12)


def test_a_level_opens_its_gate_and_no_other_does():
    rows = np.repeat(mixed_rows()[:1], 3, axis=0)
    rows[:, 6] = [0, 1, 2]
    for condition, expected in (("ward = surgery", [0, 1, 0]), ("ward in {ICU, medical}", [1, 0, 1])):
        np.testing.assert_allclose(openness(only(condition), rows), expected, atol=1e-12)


def test_the_next_whole_number_is_outside():
    rows = np.repeat(mixed_rows()[:1], 2, axis=0)
    rows[:, 4] = [4, 5]
    closed, open_ = openness(only("visits > 4"), rows)
    assert open_ == 1.0
    assert closed < 0.1


@pytest.mark.parametrize(
    "condition",
    ["always", "sin(lactate) > 0.5", ROOMY["union of kinds"]],
    ids=["everywhere", "a predicate alone", "a predicate among others"],
)
def test_a_region_without_edges_has_no_gate(condition):
    assert gates_of([region(condition, SCALED)], SCALED, REACH) == ()


def test_a_plane_over_a_column_that_enters_as_a_log_is_no_edge():
    assert gates_of([region("creatinine + lactate < 4", LOGGED)], LOGGED, REACH) == ()


def test_an_end_outside_of_a_log_is_no_edge():
    assert gates_of([region("creatinine > -3 and age < 30", LOGGED)], LOGGED, REACH) == gates_of(
        [region("age < 30", LOGGED)], LOGGED, REACH
    )


def test_a_region_of_very_many_pieces_has_no_gate():
    pieces = [f"{k / 10} < lactate < {k / 10 + 0.05}" for k in range(MOST_CELLS + 1)]
    assert gates_of([region(" or ".join(pieces), SCALED)], SCALED, REACH) == ()
    assert len(only(" or ".join(pieces[1:])).cells) == MOST_CELLS


def test_equal_regions_share_a_gate_and_an_infinite_reach_needs_none():
    twice = [region("age < 30", SCALED), region("age < 30", SCALED), region("age < 40", SCALED)]
    assert len(gates_of(twice, SCALED, REACH)) == 2
    assert gates_of(twice, SCALED, math.inf) == ()


@pytest.mark.parametrize("reach", [1e-9, -1.0, math.inf, math.nan])
def test_a_gates_reach_is_nothing_or_a_number(reach):
    with pytest.raises(ModelError, match="reach of a gate"):
        Gate(reach, ((Edge((0,), (1.0,), 0.0),),))


def test_a_gate_without_cells_is_refused():
    with pytest.raises(ModelError, match="at least one cell"):
        Gate(0.1, ())
