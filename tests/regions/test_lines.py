"""Along a column: inputs stay in the region, and reach its ends."""

from __future__ import annotations

import numpy as np
import pytest

from language_schemas import DOSES
from ocbnn.regions import sample
from ocbnn.regions.lines import moved, off_axis, on_axis, stretch
from ocbnn.rules import parse_rule
from ocbnn.schema import Column

CONDITIONS = [
    "dose > 3",
    "dose + age / 10 < 8 and dose > 1",
    "(dose - 5) ^ 2 + (age - 45) ^ 2 / 81 < 9",
    "dose < 2 or dose > 7",
    "visits >= 3 and visits + age / 20 < 8",
]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("name", ["dose", "visits", "smoker", "drug"])
def test_no_input_leaves_the_region_whatever_it_is_moved_to(condition, name):
    region = parse_rule(f"if {condition} then y > 1", DOSES).region
    points = sample(0, region, DOSES, None, 200)
    index, column = DOSES.index(name), DOSES.column(name)
    low, high = region.limits(DOSES).low[index], region.limits(DOSES).high[index]
    to = np.random.default_rng(1).uniform(low, high, len(points))
    to = to if column.kind == "continuous" else np.round(to)
    found = moved(points, name, to, region, DOSES)
    assert region.contains(found, DOSES).all()
    assert np.array_equal(np.delete(found, index, axis=1), np.delete(points, index, axis=1))


def test_a_stretch_ends_where_the_region_does():
    region = parse_rule("if dose + age / 10 < 8 and dose > 1 then y > 1", DOSES).region
    points = sample(0, region, DOSES, None, 100)
    low, high = stretch(points, "dose", region, DOSES)
    assert np.allclose(low, 1.0, atol=1e-6)
    assert np.allclose(high, 8.0 - points[:, DOSES.index("age")] / 10, atol=1e-6)


def test_whole_numbers_end_at_whole_numbers():
    region = parse_rule("if visits + age / 20 < 8 then y > 1", DOSES).region
    points = sample(0, region, DOSES, None, 100)
    _, high = stretch(points, "visits", region, DOSES)
    expected = np.minimum(np.ceil(8 - points[:, DOSES.index("age")] / 20) - 1, 9)
    assert np.array_equal(high, expected)


@pytest.mark.parametrize("transform", ["standardize", "log", "asinh", "none"])
def test_the_axis_of_the_model_and_back(transform):
    column = Column("x", "continuous", (1.0, 9.0), transform=transform, center=0.3, scale=2.0, offset=0.5)
    values = np.linspace(1.0, 9.0, 7)
    assert np.allclose(off_axis(column, on_axis(column, values)), values)
    assert (np.diff(on_axis(column, values)) > 0).all()
