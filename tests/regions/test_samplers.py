"""What each sampler's points are distributed like."""

from __future__ import annotations

import math
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy import stats

from ocbnn.errors import RegionError
from ocbnn.language.expressions import Condition
from ocbnn.regions import SAMPLERS, Everywhere, default_sampler, region_of, sample
from ocbnn.schema import Column, Schema, Target
from random_conditions import GRID, SCHEMA, conditions
from region_cases import MIXED, ROOMY, SQUARE, THIN, mixed_rows, region

EVEN = ("uniform", "sobol", "walk")
DATA = mixed_rows()
TRIANGLE = region("x1 >= 0 and x2 >= 0 and x1 + x2 < 1", SQUARE)
N = 4000


def column(points: np.ndarray, name: str) -> np.ndarray:
    return points[:, MIXED.index(name)]


@pytest.mark.parametrize("sampler", EVEN)
def test_points_of_a_box_are_uniform_in_every_column(sampler: str) -> None:
    points = sample(
        5, region("2 < lactate <= 5 and 30 <= age < 40 and ward != surgery"), MIXED, None, N, sampler
    )
    assert stats.kstest(column(points, "lactate"), stats.uniform(2, 3).cdf).pvalue > 0.01
    assert stats.kstest(column(points, "creatinine"), stats.uniform(0, 4.4).cdf).pvalue > 0.01
    assert stats.chisquare(np.bincount(column(points, "age").astype(int))[30:40]).pvalue > 0.01
    assert stats.chisquare(np.bincount(column(points, "ward").astype(int))[[0, 2]]).pvalue > 0.01
    assert stats.chisquare(np.bincount(column(points, "smoker").astype(int))).pvalue > 0.01
    cells, _, _ = np.histogram2d(column(points, "lactate"), column(points, "creatinine"), bins=5)
    assert stats.chisquare(cells.ravel()).pvalue > 0.01


@pytest.mark.parametrize("sampler", EVEN)
def test_points_of_a_triangle_are_uniform(sampler: str) -> None:
    points = sample(11, TRIANGLE, SQUARE, None, N, sampler)
    # Uniform on the triangle: P(x1 < x) = 1 − (1 − x)², and given x1, x2 is uniform on (0, 1 − x1).
    assert stats.kstest(points[:, 0], lambda x: 1 - (1 - x) ** 2).pvalue > 0.01
    assert stats.kstest(points[:, 1] / (1 - points[:, 0]), stats.uniform.cdf).pvalue > 0.01


@pytest.mark.parametrize("sampler", ["uniform", "sobol"])
def test_the_share_of_a_box_that_half_spaces_keep_is_their_volume(sampler: str) -> None:
    everywhere = sample(2, Everywhere(), SQUARE, None, 1 << 14, sampler)
    share = region("x1 + 2 * x2 < 1", SQUARE).contains(everywhere, SQUARE).mean()
    assert share == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / (1 << 14)))


def test_sobol_points_leave_smaller_gaps_than_independent_ones() -> None:
    def largest_gap(sampler: str) -> float:
        points = sample(3, region("x1 >= 0", SQUARE), SQUARE, None, 1024, sampler)
        return float(np.diff(np.sort(points[:, 0]), prepend=0, append=1).max())

    # One point in each of 1024 cells leaves no gap wider than two; independent points leave one of about 7.
    assert largest_gap("sobol") <= 2 / 1024 + 1e-9
    assert largest_gap("uniform") > 4 / 1024


def test_walk_matches_the_exact_mean_and_covariance_of_a_triangle() -> None:
    points = sample(1, TRIANGLE, SQUARE, None, N, "walk")
    # The centroid is (1/3, 1/3), each variance 1/18 and the covariance −1/36.
    assert points.mean(axis=0) == pytest.approx([1 / 3, 1 / 3], abs=4 * math.sqrt(1 / 18 / N))
    assert np.cov(points, rowvar=False) == pytest.approx(np.array([[2, -1], [-1, 2]]) / 36, abs=0.005)


def test_walk_covers_a_wedge_ten_thousand_times_longer_than_wide() -> None:
    points = sample(1, region("0 < x1 - x2 < 0.0001", SQUARE), SQUARE, None, N, "walk")
    assert stats.kstest(points[:, 0], stats.uniform.cdf).pvalue > 0.01
    assert stats.kstest((points[:, 0] - points[:, 1]) * 1e4, stats.uniform.cdf).pvalue > 0.01


def test_walk_is_uniform_on_a_simplex_given_by_an_equality() -> None:
    schema = Schema(
        tuple(Column(name, "continuous", (0.0, 1.0)) for name in "abc"), Target("y", "regression")
    )
    points = sample(1, region("a + b + c = 1 and a >= 0 and b >= 0 and c >= 0", schema), schema, None, N)
    assert np.abs(points.sum(axis=1) - 1).max() == 0
    for index in range(3):
        assert stats.kstest(points[:, index], stats.beta(1, 2).cdf).pvalue > 0.01


def test_walk_draws_whole_numbers_as_rejection_does() -> None:
    where = region("age + 10 * creatinine - 5 * smoker > 100 and visits + lactate < 4")
    walked, drawn = (sample(1, where, MIXED, None, N, name) for name in ("walk", "uniform"))
    for name in ("age", "creatinine", "smoker", "visits", "lactate"):
        first, second = column(walked, name), column(drawn, name)
        error = math.sqrt((first.var() + second.var()) / N)
        assert abs(first.mean() - second.mean()) < 4 * error


def test_equal_whole_numbers_are_found() -> None:
    points = sample(1, region("age = 10 * visits + smoker"), MIXED, None, 200)
    assert np.array_equal(column(points, "age"), 10 * column(points, "visits") + column(points, "smoker"))
    assert len(np.unique(column(points, "visits"))) > 5


@pytest.mark.parametrize("sampler", EVEN)
def test_points_of_a_union_are_uniform_though_its_parts_overlap(sampler: str) -> None:
    points = sample(4, region("x1 < 0.6 or x2 < 0.5 or x1 < 0.3", SQUARE), SQUARE, None, N, sampler)
    left, below = points[:, 0] < 0.6, points[:, 1] < 0.5
    volumes = np.array([0.3, 0.3, 0.2])  # both, only the left, only below
    counts = [np.sum(left & below), np.sum(left & ~below), np.sum(~left & below)]
    assert stats.chisquare(counts, volumes / volumes.sum() * N).pvalue > 0.01


def test_a_part_without_volume_gets_its_share_of_a_union() -> None:
    points = sample(4, region("x1 = 0.25 or x1 > 0.5", SQUARE), SQUARE, None, 1000)
    assert np.mean(points[:, 0] == 0.25) == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / 1000))


def test_parts_that_cannot_be_hit_are_left_out_of_a_union() -> None:
    where = region("x1 < 0.5 or x1 + x2 < 0 and x1 - x2 > 1 and x1 > 0.9 and x2 > 0.9", SQUARE)
    assert (sample(1, where, SQUARE, None, 50)[:, 0] < 0.5).all()


def test_rows_keep_what_goes_together_in_the_columns_a_rule_does_not_name() -> None:
    points = sample(1, region("age < 35 and urine < 30"), MIXED, DATA, 500, "rows")
    together = {tuple(row) for row in DATA[:, [0, 1, 4, 5, 6, 7]]}
    assert all(tuple(point) in together for point in points[:, [0, 1, 4, 5, 6, 7]])
    assert stats.kstest(column(points, "urine"), stats.uniform(0, 30).cdf).pvalue > 0.01
    assert stats.chisquare(np.bincount(column(points, "age").astype(int), minlength=35)).pvalue > 0.01


def test_rows_come_from_near_the_region() -> None:
    points = sample(1, region("creatinine > 3"), MIXED, DATA, 500, "rows")
    near = np.sort(DATA[:, 0])[-100]
    donors = DATA[DATA[:, 0] >= near][:, 1]
    # `lactate` goes with `creatinine` in the data, so donors of high creatinine have high lactate.
    assert np.isin(column(points, "lactate"), donors).all()
    assert column(points, "lactate").mean() > DATA[:, 1].mean() + 1


def test_rows_inside_the_region_are_all_donors() -> None:
    points = sample(1, region("creatinine > 1"), MIXED, DATA, 5000, "rows")
    inside = DATA[DATA[:, 0] > 1]
    assert len(inside) > 100
    assert len(np.unique(column(points, "urine"))) == len(inside)


def test_everywhere_rows_are_the_rows() -> None:
    points = sample(1, Everywhere(), MIXED, DATA, 100, "rows")
    assert {tuple(row) for row in points} <= {tuple(row) for row in DATA}


def test_hull_points_are_convex_combinations() -> None:
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    points = sample(1, Everywhere(), SQUARE, corners, 1000, "hull")
    assert (points >= 0).all()
    assert (points.sum(axis=1) <= 1 + 1e-12).all()
    # Three draws among three rows are all different 6 times in 27: those points are strictly between.
    assert np.mean((points > 0).all(axis=1) & (points.sum(axis=1) < 1 - 1e-9)) == pytest.approx(
        6 / 27, abs=0.05
    )


def test_hull_points_spread_as_combinations_of_few_rows_do() -> None:
    rows = np.random.default_rng(0).uniform(0, 1, (6172, 2))
    points = sample(1, Everywhere(), SQUARE, rows, 2000, "hull")
    # Σ wᵢ² of a Dirichlet(1, 1, 1) is 1/2 on average, so half of the variance of a row is left.
    assert points.var(axis=0) == pytest.approx([1 / 24, 1 / 24], rel=0.15)


def test_hull_copies_discrete_columns_from_one_row() -> None:
    points = sample(1, region("creatinine < 2"), MIXED, DATA, 500, "hull")
    together = {tuple(row) for row in DATA[:, 3:]}
    assert all(tuple(point) in together for point in points[:, 3:])


def test_brownian_leaves_the_observed_range_where_the_region_is_unbounded() -> None:
    points = sample(1, region("lactate > 6"), MIXED, DATA, 1000, "brownian")
    assert column(points, "lactate").max() > 12
    assert column(points, "visits").min() < 0  # no bound was declared
    assert column(points, "urine").min() >= 0


def test_brownian_needs_no_data() -> None:
    points = sample(1, region("x1 > 2", SQUARE), SQUARE, None, 500, "brownian")
    assert points[:, 0].min() > 2
    assert points[:, 0].max() > 3


def test_brownian_stays_within_a_bounded_region() -> None:
    points = sample(1, region("0.2 < x1 < 0.3", SQUARE), SQUARE, None, 500, "brownian")
    assert ((points[:, 0] > 0.2) & (points[:, 0] < 0.3)).all()
    assert points[:, 1].max() > 1.2


def test_an_equality_on_a_continuous_column_is_met_exactly() -> None:
    for sampler in SAMPLERS:
        points = sample(1, region("lactate = 2.1 and age > 30"), MIXED, DATA, 50, sampler)
        assert (column(points, "lactate") == 2.1).all()


def test_rows_outside_declared_bounds_are_no_donors() -> None:
    wrong = DATA.copy()
    wrong[:200, MIXED.index("age")] = 200
    for sampler in ("rows", "hull", "brownian"):
        points = sample(1, region("creatinine > 1"), MIXED, wrong, 200, sampler)
        assert column(points, "age").max() <= 120
    with pytest.raises(RegionError, match="declared bounds"):
        sample(1, region("creatinine > 1"), MIXED, wrong[:200], 10, "rows")


def test_rows_are_the_default_in_tables_of_more_than_three_columns() -> None:
    assert default_sampler(region(ROOMY["box"]), MIXED, DATA) == "rows"
    assert default_sampler(region(THIN["wedge"]), MIXED, DATA) == "rows"


def test_even_points_are_the_default_in_few_columns_or_without_data() -> None:
    rows = np.full((5, 2), 0.5)
    assert default_sampler(TRIANGLE, SQUARE, rows) == "sobol"
    assert default_sampler(region(ROOMY["box"]), MIXED, None) == "sobol"
    assert default_sampler(region(ROOMY["union"]), MIXED, DATA[:0]) == "sobol"


@pytest.mark.parametrize("condition", THIN.values(), ids=THIN)
def test_walk_is_the_default_where_half_spaces_are_thin(condition: str) -> None:
    assert default_sampler(region(condition), MIXED, None) == "walk"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_five_thousand_points_of_a_box_in_eight_columns_take_less_than_50_ms(sampler: str) -> None:
    where = region(ROOMY["box"])
    SAMPLERS[sampler](0, where, MIXED, DATA, 10)

    def seconds() -> float:
        start = time.process_time()
        SAMPLERS[sampler](0, where, MIXED, DATA, 5000)
        return time.process_time() - start

    assert min(seconds() for _ in range(5)) < 0.05


@settings(max_examples=60, deadline=None, derandomize=True)
@given(conditions)
def test_any_region_gives_points_inside_or_a_region_error(condition: Condition) -> None:
    where = region_of(condition, SCHEMA)
    inside = GRID[where.contains(GRID, SCHEMA)]
    try:
        points = sample(0, where, SCHEMA, GRID[::50], 20)
    except RegionError:
        assert not len(inside)
    else:
        assert points.shape == (20, 5)
        assert where.contains(points, SCHEMA).all()


def test_bad_arguments_are_errors_that_say_what_to_do() -> None:
    with pytest.raises(RegionError, match="use one of uniform, sobol, rows"):
        sample(1, TRIANGLE, SQUARE, None, 5, "halton")
    with pytest.raises(RegionError, match="pass data, or use sampler='sobol'"):
        sample(1, TRIANGLE, SQUARE, None, 5, "rows")
    with pytest.raises(RegionError, match="0 or more"):
        sample(1, TRIANGLE, SQUARE, None, -1)
    with pytest.raises(RegionError, match="schema of 2 columns"):
        sample(1, TRIANGLE, SQUARE, DATA, 5)


def test_rows_with_missing_values_are_no_donors_and_points_are_complete() -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(50, 4)), columns=list("abcd"))
    frame.loc[5:, "b"] = np.nan
    schema = Schema.infer(frame, missing="indicator")
    coded = schema.encode(frame)
    points = sample(0, Everywhere(), schema, coded, 200, "rows")
    assert np.array_equal(np.unique(points, axis=0), np.unique(coded[:5], axis=0))
    without_any = Schema.infer(frame.assign(a=[np.nan] * 5 + [1.0] * 45), missing="indicator")
    nothing = without_any.encode(frame.assign(a=[np.nan] * 5 + [1.0] * 45))
    assert np.isfinite(sample(0, Everywhere(), without_any, nothing, 20)).all()
    with pytest.raises(RegionError, match="none is complete"):
        sample(0, Everywhere(), without_any, nothing, 20, "rows")
