"""How far regions go: thresholds, declared bounds, observed ranges, and a quarter past what was observed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ocbnn.regions import sample
from ocbnn.schema import Column, Schema, Target
from region_cases import MIXED, SQUARE, region


def ends(condition: str, name: str, schema: Schema = MIXED) -> tuple[float, float]:
    low, high = region(condition, schema).bounding_box(schema)
    return low[schema.index(name)], high[schema.index(name)]


def one(column: Column) -> Schema:
    return Schema((column,), Target("y", "regression"))


def test_a_column_no_rule_names_ends_at_its_bounds_else_where_it_was_observed() -> None:
    assert ends("always", "lactate") == (0.0, 8.0)
    assert ends("always", "urine") == (0.0, 500.0)
    assert ends("always", "creatinine") == (0.0, 4.4)


def test_a_threshold_within_what_was_observed_ends_there() -> None:
    assert ends("lactate >= 4", "lactate") == (4.0, 8.0)


def test_past_a_threshold_beyond_what_was_observed_a_region_goes_on_by_a_quarter_of_the_range() -> None:
    assert ends("lactate >= 30", "lactate") == (30.0, 32.0)
    assert ends("lactate <= -5", "lactate") == (-7.0, -5.0)
    assert ends("visits > 40", "visits") == (41.0, 44.0)


def test_near_the_end_of_what_was_observed_a_region_is_no_sliver() -> None:
    assert ends("lactate >= 7.9", "lactate") == (7.9, 9.9)


def test_declared_bounds_hold_beyond_what_was_observed() -> None:
    assert ends("urine >= 450", "urine") == (450.0, 500.0)
    assert ends("age > 110", "age") == (111.0, 120.0)
    assert ends("creatinine <= 0.1", "creatinine") == (0.0, 0.1)


def test_an_integer_below_35_is_at_most_34() -> None:
    assert ends("age < 35", "age") == (0.0, 34.0)
    assert ends("18.5 <= age <= 34.5", "age") == (19.0, 34.0)


def test_one_outlier_does_not_stretch_a_region() -> None:
    generator = np.random.default_rng(0)
    values = np.append(generator.uniform(0, 1, 1999), 50_708.0)
    frame = pd.DataFrame({"utilisation": values, "y": generator.normal(size=2000)})
    schema = Schema.infer(frame, target="y")
    low, high = ends("utilisation > 0.6", "utilisation", schema)
    assert low == pytest.approx(0.6)
    assert high < 1.1
    rows = schema.encode(frame)
    for sampler in ("uniform", "sobol", "rows"):
        assert sample(0, region("utilisation > 0.6", schema), schema, rows, 500, sampler).max() < 1.1


def test_half_spaces_beyond_what_was_observed_are_reached() -> None:
    low, high = region("x1 + x2 >= 4", SQUARE).bounding_box(SQUARE)
    # A quarter of both ranges past the face: x1 + x2 = 4.5 at the far corner.
    assert high == pytest.approx([2.25, 2.25])
    assert low == pytest.approx([1.75, 1.75])


def test_half_spaces_within_what_was_observed_are_cut_back_to() -> None:
    low, high = region("x1 + x2 <= 0.5", SQUARE).bounding_box(SQUARE)
    assert low == pytest.approx([0, 0])
    assert high == pytest.approx([0.5, 0.5])


def test_a_half_space_of_one_threshold_goes_as_far_as_the_threshold_would() -> None:
    schema = Schema(
        (Column("a", "continuous", (0.0, 8.0)), Column("b", "continuous", (5.0, 5.0), bounds=(5.0, 5.0))),
        Target("y", "regression"),
    )
    # b cannot but be 5, yet its face counts as a range of 5 in the quarter that is cleared.
    low, high = region("a + b >= 35", schema).bounding_box(schema)
    assert low[0] == pytest.approx(30.0)
    assert high[0] == pytest.approx(30.0 + 0.25 * (8 + 5))


def test_a_predicate_beyond_what_was_observed_grows_until_it_is_hit() -> None:
    points = sample(0, region("x1 * x2 > 2", SQUARE), SQUARE, None, 200)
    assert (points.prod(axis=1) > 2).all()
    assert points.max() <= 2.0


def test_log_columns_go_on_by_a_quarter_of_their_logarithms_and_stay_above_their_offset() -> None:
    schema = one(Column("dose", "continuous", (1.0, 10_000.0), transform="log"))
    low, high = ends("dose <= 0.1", "dose", schema)
    assert (low, high) == pytest.approx((0.01, 0.1))
    assert ends("dose >= 100000", "dose", schema) == pytest.approx((1e5, 1e6))
    points = sample(0, region("dose < 0.001", schema), schema, None, 100)
    assert np.isfinite(schema.to_model(points)).all()


def test_a_constant_column_stays_where_it_is_unless_ruled() -> None:
    schema = one(Column("x", "continuous", (3.0, 3.0)))
    assert ends("always", "x", schema) == (3.0, 3.0)
    assert ends("x >= 5", "x", schema) == (5.0, 5.75)


def test_ends_cross_where_nothing_is_left() -> None:
    for condition, name in (("age > 130", "age"), ("2 < visits < 3", "visits"), ("smoker = 2", "smoker")):
        low, high = ends(condition, name)
        assert low > high
