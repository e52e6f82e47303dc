"""Every sampler through its protocol, on regions of every kind over an eight-column mixed table."""

from __future__ import annotations

import numpy as np
import pytest

from ocbnn.errors import RegionError
from ocbnn.model.conditional import rule_points
from ocbnn.regions import SAMPLERS, sample
from ocbnn.rules import parse_rule
from ocbnn.schema import Schema
from region_cases import MIXED, ROOMY, THIN, mixed_rows, region

DATA = mixed_rows()
BY_REJECTION = {"uniform", "sobol"}
N = 300


def assert_valid(points: np.ndarray, condition: str) -> None:
    assert points.shape == (N, len(MIXED.columns))
    assert points.dtype == np.float64
    assert region(condition).contains(points, MIXED).all()
    for index, column in enumerate(MIXED.columns):
        values = points[:, index]
        assert np.isfinite(values).all()
        assert (values >= column.bounds[0]).all()
        assert (values <= column.bounds[1]).all()
        if column.kind != "continuous":
            assert np.array_equal(values, np.round(values))
        if column.kind == "binary":
            assert np.isin(values, [0, 1]).all()
        if column.kind == "category":
            assert np.isin(values, range(len(column.levels))).all()


@pytest.mark.parametrize("condition", ROOMY.values(), ids=ROOMY)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_points_are_inside_within_declared_bounds_and_of_their_kinds(sampler: str, condition: str) -> None:
    assert_valid(SAMPLERS[sampler](1, region(condition), MIXED, DATA, N), condition)


@pytest.mark.parametrize("condition", THIN.values(), ids=THIN)
@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name not in BY_REJECTION])
def test_thin_half_spaces_are_no_obstacle_but_to_rejection(sampler: str, condition: str) -> None:
    assert_valid(SAMPLERS[sampler](1, region(condition), MIXED, DATA, N), condition)


@pytest.mark.parametrize("sampler", sorted(BY_REJECTION))
def test_rejection_names_the_sampler_for_thin_half_spaces(sampler: str) -> None:
    with pytest.raises(RegionError, match="sampler='walk'"):
        SAMPLERS[sampler](1, region(THIN["equality"]), MIXED, DATA, N)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_key_gives_the_same_points_and_another_key_others(sampler: str) -> None:
    for condition in (ROOMY["half-space over kinds"], ROOMY["union"]):
        where = region(condition)
        first, again, other = (SAMPLERS[sampler](key, where, MIXED, DATA, 50) for key in (3, 3, 4))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_any_number_of_points_can_be_asked_for(sampler: str) -> None:
    for condition in (
        ROOMY["box"],
        ROOMY["union"],
        THIN["wedge"] if sampler == "walk" else ROOMY["half-space"],
    ):
        for n in (0, 1, 7):
            assert SAMPLERS[sampler](1, region(condition), MIXED, DATA, n).shape == (n, 8)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_arguments_are_left_as_they_were(sampler: str) -> None:
    before = DATA.copy()
    SAMPLERS[sampler](1, region(ROOMY["box"]), MIXED, DATA, N)
    assert np.array_equal(DATA, before)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    "condition", ["age > 130", "2 < visits < 3", "lactate > 3 and lactate < 2", "lactate - lactate > 1"]
)
def test_a_region_without_inputs_is_an_error(sampler: str, condition: str) -> None:
    with pytest.raises(RegionError):
        sample(1, region(condition), MIXED, DATA, 10, sampler)


def test_a_sampler_of_your_own_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def last_row(key: object, where: object, schema: Schema, data: np.ndarray, n: int) -> np.ndarray:
        return np.repeat(data[-1:], n, axis=0)

    monkeypatch.setitem(SAMPLERS, "last row", last_row)
    points = sample(0, region(ROOMY["union"]), MIXED, DATA, 5, "last row")
    np.testing.assert_array_equal(points, np.repeat(DATA[MIXED.complete(DATA)][-1:], 5, axis=0))
    rule = parse_rule("always y >= 0", MIXED)
    used = rule_points(0, rule, MIXED, DATA, 8, "last row")
    np.testing.assert_array_equal(used, points[:1].repeat(8, axis=0))
