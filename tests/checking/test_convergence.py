"""R-hat and effective draws: the figures are arviz-stats' own."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats

from chain_values import correlated, independent, sticky
from ocbnn.checking import convergence
from ocbnn.checking.convergence import bulk_ess, mixing, rhat

CASES = {
    "independent": independent(),
    "correlated": correlated(0.9),
    "anticorrelated": correlated(-0.8),
    "ties": sticky(),
    "disagreeing": independent() + np.array([0.0, 0.0, 0.0, 2.0])[:, None, None],
    "other scale": independent() * np.array([1.0, 1.0, 1.0, 3.0])[:, None, None],
    "odd length": independent(draws=37),
    "four draws": independent(draws=4),
    "five draws": independent(draws=5),
    "two chains": independent(chains=2, draws=50),
    "trend": independent() + np.linspace(0, 5, 500)[:, None],
}


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_figures_equal_those_of_arviz_stats(values: np.ndarray) -> None:
    axes = {"chain_axis": 0, "draw_axis": 1}
    found = mixing(values)
    np.testing.assert_allclose(found.rhat, array_stats.rhat(values, method="rank", **axes), rtol=1e-12)
    bulk = array_stats.ess(values, method="bulk", **axes)
    np.testing.assert_allclose(found.bulk_ess, bulk, rtol=1e-9)
    tail = array_stats.ess(values, method="tail", prob=(0.05, 0.95), **axes)
    np.testing.assert_allclose(found.tail_ess, tail, rtol=1e-9)
    np.testing.assert_array_equal(rhat(values), found.rhat)
    np.testing.assert_array_equal(bulk_ess(values), found.bulk_ess)


def test_figures_do_not_depend_on_the_blocks_they_are_computed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    values = correlated(0.5)
    whole = mixing(values)
    monkeypatch.setattr(convergence, "BLOCK", 5000)
    for one, other in zip(whole, mixing(values), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_autoregression_has_the_effective_draws_that_theory_says() -> None:
    values = correlated(0.8, draws=5000, quantities=20)
    expected = 4 * 5000 * (1 - 0.8) / (1 + 0.8)
    # An ESS of this size has a relative error of a few percent; the mean of 20 of them a fifth of that.
    np.testing.assert_allclose(bulk_ess(values).mean(), expected, rtol=0.05)


def test_only_the_quantities_that_are_not_finite_are_unknown() -> None:
    values = independent()
    values[2, 7, 3] = np.nan
    known = np.isfinite(mixing(values).rhat)
    np.testing.assert_array_equal(known, [True, True, True, False, True, True])
