"""Intervals: exact where events are rare, honest about dependence and rejection."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, t

from ocbnn.checking.figures import (
    clopper_pearson,
    effective_draws,
    jackknife,
    leave_one_out,
    mean_figure,
    share_figure,
)


def everyone(shape):
    return np.ones(shape, dtype=bool)


def autoregressive(generator, chains, draws, correlation):
    series = np.empty((chains, draws))
    series[:, 0] = generator.normal(size=chains)
    for step in range(1, draws):
        noise = generator.normal(size=chains) * np.sqrt(1 - correlation**2)
        series[:, step] = correlation * series[:, step - 1] + noise
    return series


@pytest.mark.parametrize(("seen", "count"), [(0, 50), (1, 50), (17, 40), (40, 40)])
def test_the_exact_interval_is_scipys(seen, count):
    exact = binomtest(seen, count).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(clopper_pearson(seen / count, count), (exact.low, exact.high), rtol=1e-9)


def test_zero_of_fifty_particles_leaves_up_to_seven_in_a_hundred():
    figure = share_figure(np.zeros((1, 50)), everyone((1, 50)), has_chains=False)
    assert figure.value == 0.0
    assert figure.high == pytest.approx(0.0711, abs=1e-4)
    assert figure.effective == 50


def test_dependent_draws_count_as_fewer():
    series = autoregressive(np.random.default_rng(0), 4, 2000, 0.9)
    exact = 8000 * (1 - 0.9) / (1 + 0.9)
    found = effective_draws(series, everyone(series.shape), has_chains=True)
    assert found == pytest.approx(exact, rel=0.25)
    assert effective_draws(series, everyone(series.shape), has_chains=False) == 8000


def test_where_nothing_was_seen_the_margins_say_how_many_draws_there_are():
    margins = autoregressive(np.random.default_rng(1), 4, 500, 0.95) - 10.0
    never = np.zeros_like(margins)
    figure = share_figure(never, everyone(never.shape), has_chains=True, instead=margins)
    assert figure.effective < 150
    assert figure.high == pytest.approx(1 - 0.025 ** (1 / figure.effective), rel=1e-6)


def test_intervals_of_dependent_shares_cover_the_truth():
    generator = np.random.default_rng(2)
    covered = 0
    for _ in range(100):
        events = (autoregressive(generator, 4, 250, 0.8) > 0.6745).astype(float)
        figure = share_figure(events, everyone(events.shape), has_chains=True)
        covered += figure.low <= 0.25 <= figure.high
    assert covered >= 87  # 95 expected; 87 is 3.7 standard errors below


def test_after_rejection_the_error_is_that_of_a_ratio_estimator():
    generator = np.random.default_rng(3)
    values, widths = [], []
    for _ in range(200):
        series = generator.normal(size=(4, 250))
        kept = generator.random((4, 250)) < 0.3
        figure = mean_figure(series, kept, has_chains=True)
        assert figure.value == pytest.approx(series[kept].mean())
        values.append(figure.value)
        widths.append((figure.high - figure.low) / (2 * 1.96))
    assert np.mean(widths) == pytest.approx(np.std(values), rel=0.2)


def test_the_jackknife_of_a_mean_is_the_t_interval_of_the_groups():
    groups = np.random.default_rng(0).normal(size=10)
    without = np.array([np.delete(groups, i).mean() for i in range(10)])
    expected = t.ppf(0.975, 9) * groups.std(ddof=1) / np.sqrt(10)
    assert jackknife(without) == pytest.approx(expected)


def test_weights_that_leave_a_group_out_give_the_mean_of_the_others():
    series, groups = np.random.default_rng(0).normal(size=7), np.array([0, 0, 1, 2, 2, 2, 1])
    expected = [series[groups != group].mean() for group in range(3)]
    np.testing.assert_allclose(leave_one_out(groups) @ series, expected)


def test_chains_that_stand_still_count_as_one_draw_each_and_those_that_move_by_their_moves():
    never, kept = np.zeros((4, 100)), everyone((4, 100))
    still = np.ones((4, 100, 3))
    moving = still.copy()
    moving[:2] = np.random.default_rng(4).normal(size=(2, 100, 3))
    lazy = np.repeat(moving[:, :50], 2, axis=1)

    def effective(draws, chains=True):
        return share_figure(never, kept, has_chains=chains, instead=never - 1.0, draws=draws).effective

    assert [effective(draws) for draws in (None, still, moving, lazy)] == [4, 4, 202, 102]
    assert effective(still, chains=False) == 400
    kept[0] = False
    assert effective(moving) == 102
