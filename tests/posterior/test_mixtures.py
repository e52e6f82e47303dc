"""Mixtures of normals, whole and restricted, against scipy and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import kstest, lognorm, norm, truncnorm

from ocbnn.posterior.mixtures import (
    Intervals,
    Mixture,
    quantiles,
    restricted_log_moments,
    restricted_moments,
    sample_restricted,
    shortest_interval,
)

INFINITY = np.inf


@pytest.fixture(scope="module", params=[1, 3], ids=["one spread", "a spread for each row"])
def mixture(request):
    generator = np.random.default_rng(0)
    mean = generator.normal(scale=2.0, size=(6, 3))
    return Mixture(mean, generator.uniform(0.2, 1.0, size=(6, request.param)))


def normals(mixture, row):
    """Means and spreads of one row."""
    return mixture.mean[:, row], mixture.sd[:, row if mixture.sd.shape[1] > 1 else 0]


@pytest.fixture(scope="module")
def allowed():
    lower = np.array([[-INFINITY, 1.0], [0.5, INFINITY], [-2.0, 0.3]])
    upper = np.array([[-0.5, INFINITY], [0.9, -INFINITY], [-1.0, 4.0]])
    return Intervals(lower, upper)


def density(mixture, row, y):
    return norm.pdf(y, *normals(mixture, row)).mean()


def test_quantiles_solve_the_mixtures_distribution_function(mixture):
    found = quantiles(mixture, (0.01, 0.5, 0.975))
    for row in range(3):
        for at, level in enumerate((0.01, 0.5, 0.975)):
            root = brentq(
                lambda y, r=row, p=level: norm.cdf(y, *normals(mixture, r)).mean() - p,
                -30,
                30,
                xtol=1e-13,
            )
            assert found[row, at] == pytest.approx(root, abs=1e-10)


@pytest.mark.parametrize("restricted", [False, True])
def test_the_shortest_interval_covers_exactly_and_no_other_of_a_fine_grid_is_much_shorter(
    mixture, allowed, restricted
):
    within = allowed if restricted else None
    found = shortest_interval(mixture, 0.8, within)
    tails = np.linspace(0.0005, 0.1995, 400)
    ends = quantiles(mixture, (*tails, *(tails + 0.8)), within)
    lengths = ends[:, 400:] - ends[:, :400]
    for row in range(3):
        low, high = found[row]
        slots = zip(allowed.lower[row], allowed.upper[row], strict=True) if restricted else [(-40.0, 40.0)]
        pieces = [(max(a, -40.0), min(b, 40.0)) for a, b in slots if a < b]
        law = norm(*normals(mixture, row))

        def mass(a, b, law=law):
            return (law.cdf(b) - law.cdf(a)).mean()

        total = sum(mass(a, b) for a, b in pieces)
        inside = sum(mass(max(a, low), min(b, high)) for a, b in pieces if max(a, low) < min(b, high))
        assert inside / total == pytest.approx(0.8, abs=1e-8)
        assert high - low <= lengths[row].min() * 1.01


def test_the_shortest_interval_of_a_normal_is_its_central_one():
    found = shortest_interval(Mixture(np.array([[1.0, -3.0]]), np.array([[2.0]])), 0.9)
    np.testing.assert_allclose(found, np.array([[1.0], [-3.0]]) + 2 * norm.ppf([0.05, 0.95]), atol=0.05)


def test_one_draw_restricted_to_one_interval_is_a_truncated_normal():
    mean, sd = np.array([[0.3, -4.0, 0.0]]), np.array([[0.7]])
    allowed = Intervals(np.array([[-1.0], [0.0], [-INFINITY]]), np.array([[0.5], [INFINITY], [-2.0]]))
    moments = restricted_moments(Mixture(mean, sd), allowed)
    found = quantiles(Mixture(mean, sd), (0.05, 0.5, 0.99), allowed)
    for row in range(3):
        a, b = (float((end[row, 0] - mean[0, row]) / sd[0, 0]) for end in allowed)
        exact = truncnorm(a, b, mean[0, row], sd[0, 0])
        assert moments.total_mean[row] == pytest.approx(exact.mean(), rel=1e-7)
        assert moments.total_sd[row] == pytest.approx(exact.std(), rel=1e-4)  # scipy's own error in the tail
        np.testing.assert_allclose(found[row], exact.ppf([0.05, 0.5, 0.99]), rtol=1e-7)


def test_masses_and_moments_of_several_intervals_are_the_integrals(mixture, allowed):
    moments = restricted_moments(mixture, allowed)
    for row in range(3):
        totals = np.zeros(3)
        for k in range(2):
            low, high = allowed.lower[row, k], allowed.upper[row, k]
            if low > high:
                assert moments.mass[row, k] == 0.0
                continue
            low, high = max(low, -12.0), min(high, 12.0)
            parts = [
                quad(lambda y, p=power, r=row: y**p * density(mixture, r, y), low, high, limit=200)[0]
                for power in range(3)
            ]
            assert moments.mass[row, k] == pytest.approx(parts[0], rel=1e-7)
            assert moments.mean[row, k] == pytest.approx(parts[1] / parts[0], rel=1e-6, abs=1e-8)
            totals += parts
        mean = totals[1] / totals[0]
        assert moments.total_mean[row] == pytest.approx(mean, rel=1e-6)
        assert moments.total_sd[row] == pytest.approx(np.sqrt(totals[2] / totals[0] - mean**2), rel=1e-5)


def test_restricted_quantiles_are_allowed_and_have_their_level(mixture, allowed):
    levels = (0.001, 0.2, 0.5, 0.8, 0.999)
    found = quantiles(mixture, levels, allowed)
    for row in range(3):
        total = restricted_moments(mixture, allowed).total_mass[row]
        for level, value in zip(levels, found[row], strict=True):
            inside = (allowed.lower[row] <= value) & (value <= allowed.upper[row])
            assert inside.any()
            below = Intervals(allowed.lower[row : row + 1], np.minimum(allowed.upper[row : row + 1], value))
            here = mixture.at(np.array([row]))
            assert restricted_moments(here, below).total_mass[0] / total == pytest.approx(level, abs=1e-9)


def test_a_level_that_falls_into_a_gap_gives_an_allowed_end():
    two = Mixture(np.array([[0.0], [10.0]]), np.array([[1.0], [1.0]]))
    allowed = Intervals(np.array([[-INFINITY, 8.0]]), np.array([[2.0, INFINITY]]))
    below, within, above = quantiles(two, (0.5 - 1e-6, 0.5, 0.5 + 1e-6), allowed)[0]
    exact = norm.ppf((1 - 2e-6) * norm.cdf(2.0))  # half of what is allowed is below the gap
    np.testing.assert_allclose([below, above], [exact, 10.0 - exact], atol=1e-8)
    assert below <= 2.0
    assert above >= 8.0
    assert min(abs(within - 2.0), abs(within - 8.0)) < 1e-9
    assert not 2.0 < within < 8.0


def test_the_variance_between_draws_is_that_of_their_truncated_means(mixture, allowed):
    moments = restricted_moments(mixture, allowed)
    mean, sd = normals(mixture, 1)
    a, b = (0.5 - mean) / sd, (0.9 - mean) / sd
    weight = norm.cdf(b) - norm.cdf(a)
    means = truncnorm.mean(a, b, mean, sd)
    expected = np.cov(means, aweights=weight, ddof=0)
    assert moments.between[1] == pytest.approx(float(expected), rel=1e-5)


def test_samples_of_the_restricted_mixture_follow_its_distribution(mixture, allowed):
    samples = sample_restricted(np.random.default_rng(1), mixture, allowed, 4000)
    for row in range(3):
        inside = (samples[:, row, None] >= allowed.lower[row]) & (samples[:, row, None] <= allowed.upper[row])
        assert inside.any(axis=1).all()
    levels = np.linspace(0.02, 0.98, 25)
    exact = quantiles(mixture, tuple(levels), allowed)
    for row in range(3):
        below = (samples[:, row] <= exact[row][:, None] + 1e-9).mean(axis=1)
        assert np.abs(below - levels).max() < 4 * 0.5 / np.sqrt(4000)


def test_far_tails_keep_their_digits():
    far = Mixture(np.array([[0.0]]), np.array([[1.0]]))
    allowed = Intervals(np.array([[6.0]]), np.array([[INFINITY]]))
    moments = restricted_moments(far, allowed)
    assert moments.total_mass[0] == pytest.approx(norm.sf(6.0), rel=1e-12)
    assert moments.total_mean[0] == pytest.approx(norm.pdf(6.0) / norm.sf(6.0), rel=1e-12)
    samples = sample_restricted(np.random.default_rng(0), far, allowed, 2000)[:, 0]
    assert kstest(norm.sf(samples) / norm.sf(6.0), "uniform").pvalue > 1e-3


def test_quantiles_have_their_level_where_draws_differ_in_noise_by_seven_orders():
    """Within the narrow peaks Newton's steps are small, however far the root is."""
    generator = np.random.default_rng(235)
    unequal = Mixture(generator.standard_t(2, (500, 8)), 10.0 ** generator.uniform(-6, 1, (500, 1)))
    levels = (0.05, 0.5, 0.9)
    for level, values in zip(levels, quantiles(unequal, levels).T, strict=True):
        below = norm.cdf(values, unequal.mean, unequal.sd).mean(axis=0)
        np.testing.assert_allclose(below, level, atol=1e-8)


def test_moments_of_lognormals_within_intervals_are_integrals(mixture, allowed):
    found = restricted_log_moments(mixture, allowed)
    for row in range(3):
        for k in range(2):
            low, high = allowed.lower[row, k], allowed.upper[row, k]
            if low > high:
                assert found.mass[row, k] == 0
                continue
            ends = max(low, -15.0), min(high, 15.0)
            mass, first, second = (
                quad(lambda t, p=power, at=row: np.exp(p * t) * density(mixture, at, t), *ends, limit=400)[0]
                for power in (0, 1, 2)
            )
            assert found.mass[row, k] == pytest.approx(mass, rel=1e-6)
            assert found.mean[row, k] == pytest.approx(first / mass, rel=1e-6)
            assert found.second[row, k] == pytest.approx(second / mass, rel=1e-6)


def test_the_shortest_interval_in_other_units_is_shortest_there():
    one = Mixture(np.array([[0.4]]), np.array([[0.7]]))
    ((low, high),) = np.exp(shortest_interval(one, 0.8, raw=np.exp))
    law = lognorm(0.7, scale=np.exp(0.4))
    assert law.cdf(high) - law.cdf(low) == pytest.approx(0.8, abs=1e-9)
    tails = np.linspace(1e-4, 0.1999, 2001)
    assert high - low == pytest.approx((law.ppf(tails + 0.8) - law.ppf(tails)).min(), rel=1e-3)
