"""Intervals, half-spaces and the sets made of them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocbnn.language.expressions import Always
from ocbnn.regions import Box, Everywhere, HalfSpace, HalfSpaces, Interval, Predicate, Union
from ocbnn.regions.polytope import _normalised
from ocbnn.schema import Schema
from region_cases import MIXED, ROOMY, SQUARE, THIN, region

ends = st.integers(-3, 3).map(float) | st.sampled_from([-math.inf, math.inf])
intervals = st.builds(Interval, ends, ends, st.booleans(), st.booleans())
NUMBERS = np.arange(-4, 4.25, 0.25)


@given(intervals, intervals)
def test_an_intersection_holds_what_both_hold(first: Interval, second: Interval) -> None:
    both = first.contains(NUMBERS) & second.contains(NUMBERS)
    assert np.array_equal(first.intersect(second).contains(NUMBERS), both)


@given(intervals)
def test_an_interval_is_empty_when_it_holds_no_number(interval: Interval) -> None:
    assert interval.is_empty == (not interval.contains(np.linspace(-4, 4, 33)).any())


@given(intervals.filter(lambda interval: not interval.is_empty), st.booleans())
def test_closed_ends_are_the_outermost_numbers_inside(interval: Interval, integer: bool) -> None:
    low, high = interval.closed_ends(integer=integer)
    assert interval.contains(
        np.array([end for end in (low, high) if math.isfinite(end) and low <= high])
    ).all()
    step = (lambda end, way: end + way) if integer else (lambda end, way: math.nextafter(end, way * math.inf))
    beyond = [step(end, way) for end, way in ((low, -1), (high, 1)) if math.isfinite(end)]
    assert not interval.contains(np.array(beyond)).any()


def test_nan_is_in_no_interval() -> None:
    assert not Interval().contains(np.array([math.nan])).any()
    assert not Interval(0, 1).contains(np.array([math.nan])).any()


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(2, 3, False, True), "2 < age <= 3"),
        (Interval(low=2), "age >= 2"),
        (Interval(high=2.5, high_closed=False), "age < 2.5"),
        (Interval(2, 2), "age = 2"),
        (Interval(3, 2, False, False), "age > 3 and age < 2"),
    ],
)
def test_an_interval_reads_as_a_condition(interval: Interval, words: str) -> None:
    assert interval.text("age") == words


def test_open_and_closed_ends_tell_thresholds_apart() -> None:
    points = np.zeros((3, 8))
    points[:, 0] = [2, 2.5, 3]
    assert region("2 <= creatinine < 3").contains(points, MIXED).tolist() == [True, True, False]
    assert region("2 < creatinine <= 3").contains(points, MIXED).tolist() == [False, True, True]


def test_half_spaces_tell_strict_faces_apart() -> None:
    points = np.array([[0.5, 0.5], [0.25, 0.5]])
    assert region("x1 + x2 < 1", SQUARE).contains(points, SQUARE).tolist() == [False, True]
    assert region("x1 + x2 <= 1", SQUARE).contains(points, SQUARE).tolist() == [True, True]


def test_a_half_space_reads_as_a_condition() -> None:
    assert HalfSpace({"b": -2.0, "a": 1.0}, 3.0, strict=True).text() == "a - 2 * b < 3"
    assert HalfSpace({"a": -1.0, "b": -1.0}, -3.0).text() == "a + b >= 3"
    assert region("creatinine = lactate").text() == "creatinine - lactate = 0"


@pytest.mark.parametrize("condition", [*ROOMY.values(), *THIN.values()])
def test_a_regions_text_is_a_condition_for_the_same_region(condition: str) -> None:
    found = region(condition)
    again = region(found.text())
    points = Everywhere().limits(MIXED).from_unit(np.random.default_rng(0).random((2000, 8)))
    assert np.array_equal(found.contains(points, MIXED), again.contains(points, MIXED))


def test_sets_are_values() -> None:
    box = Box({"age": Interval(18, 35)}, {"ward": frozenset({"ICU"})})
    same = Box({"age": Interval(18.0, 35.0)}, {"ward": frozenset(["ICU"])})
    face = HalfSpace({"a": 1, "b": 0}, 2)
    assert box == same
    assert len({box, same, HalfSpaces(box, (face,)), Predicate(box, (), Always()), Union((box,))}) == 4
    assert face == HalfSpace({"a": 1.0}, 2.0)
    assert "age" in repr(box)
    with pytest.raises(AttributeError):
        box.intervals = {}  # type: ignore[misc]


def test_ruled_columns_are_those_that_decide_membership() -> None:
    assert Everywhere().columns() == frozenset()
    assert region("age > 3 and ward = ICU or creatinine + lactate > 2").columns() == {
        "age",
        "ward",
        "creatinine",
        "lactate",
    }


@pytest.mark.parametrize("condition", [*ROOMY.values(), *THIN.values()])
def test_vertices_are_distinct_points_inside(condition: str) -> None:
    found = region(condition)
    corners = found.vertices(MIXED)
    assert 1 <= len(corners) <= 64
    assert found.contains(corners, MIXED).all()
    assert len(np.unique(corners, axis=0)) == len(corners)
    low, high = np.array([column.bounds for column in MIXED.columns]).T
    assert ((corners >= low) & (corners <= high)).all()
    assert np.array_equal(corners, found.vertices(MIXED))


def test_a_boxs_vertices_are_its_corners() -> None:
    corners = region("0.25 <= x1 <= 0.5", SQUARE).vertices(SQUARE)
    assert corners[:, 0] == pytest.approx([0.25, 0.5], abs=1e-6)
    assert corners[:, 1] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("width", [0.25, 1e-5, 1e-14])
def test_the_vertices_at_open_ends_are_inside_however_narrow_the_region(width: float) -> None:
    narrow = Box({"x1": Interval(0.25, 0.25 + width, low_closed=False, high_closed=False)})
    corners = narrow.vertices(SQUARE)
    assert len(corners) == 2
    assert narrow.contains(corners, SQUARE).all()
    assert sorted(corners[:, 0]) == pytest.approx([0.25, 0.25 + width], abs=2e-6 * width + 1e-16)


def test_a_triangles_vertices_are_its_three_corners() -> None:
    corners = region("x1 >= 0 and x2 >= 0 and x1 + x2 < 1", SQUARE).vertices(SQUARE)
    assert sorted(map(tuple, corners.round(5))) == [(0, 0), (0, 1), (1, 0)]


def test_vertices_keep_to_their_limit_in_many_columns() -> None:
    condition = " and ".join(f"{name} > 1" for name in ("creatinine", "lactate", "urine", "age", "visits"))
    assert len(region(condition).vertices(MIXED, limit=10)) == 10
    assert len(region(condition).vertices(MIXED)) == 32


def test_a_region_without_inputs_has_no_vertices() -> None:
    assert region("2 < visits < 3").vertices(MIXED).shape == (0, 8)
    assert Union(()).vertices(MIXED).shape == (0, 8)


def test_half_spaces_with_huge_coefficients_are_normalised_as_small_ones_are() -> None:
    matrix, bound = np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([3.0, 1.0])
    expected = (np.array([[1.0, 2.0], [0.0, 0.0]]) / np.sqrt(5.0), np.array([3.0 / np.sqrt(5.0), 1.0]))
    for factor in (1.0, 1e200, 1e-200):
        found = _normalised(matrix * factor, bound * np.array([factor, 1.0]))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x > 1", [True, False, False]),
        ("x != 3", [True, False, False]),
        ("not x > 5", [True, False, False]),
        ("x * z > -100", [True, False, False]),
        ("x + z > -100", [True, False, False]),
        ("sex != female", [True, True, False]),
        ("x > 1 or z > 1", [True, True, True]),
    ],
)
def test_a_condition_that_needs_a_missing_value_does_not_hold(condition: str, expected: list[bool]) -> None:
    frame = pd.DataFrame(
        {"x": [2.0, np.nan, np.nan], "z": [2.0, 3.0, 4.0], "sex": ["male", "male", None], "w": [1.0, 2, 3]}
    )
    declared = {"sex": {"levels": ["male", "female"]}, "x": {"kind": "continuous"}}
    schema = Schema.infer(frame, target=pd.Series([1.5, 2, 3]), columns=declared, missing="indicator")
    assert region(condition, schema).contains(schema.encode(frame), schema).tolist() == expected
