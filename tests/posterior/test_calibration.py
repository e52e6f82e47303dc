"""Calibration against cases in which beliefs and frequencies are known."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from ocbnn.errors import OCBNNError
from ocbnn.posterior.calibration import calibration
from posterior_cases import NOISE, class_constants, constants

ROWS = 400


def rows(count: int = ROWS) -> np.ndarray:
    return np.linspace(-2, 2, count)[:, None]


def test_a_true_model_is_calibrated_at_every_level() -> None:
    # Exactly the quantiles of the predictive: no Monte Carlo error is left.
    y = norm.ppf((np.arange(ROWS) + 0.5) / ROWS, 2.0, NOISE)
    found = calibration(constants(np.full((1, 5), 2.0)), rows(), y)
    assert [b.predicted for b in found.bins] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    np.testing.assert_allclose(
        [b.observed for b in found.bins], [b.predicted for b in found.bins], atol=1 / ROWS
    )
    assert found.coverage.observed == pytest.approx(0.9, abs=1 / ROWS)
    assert found.coverage.low < 0.9 < found.coverage.high
    assert found.error < 1 / ROWS


def test_a_model_that_is_too_sure_covers_too_little() -> None:
    y = norm.ppf((np.arange(ROWS) + 0.5) / ROWS, 2.0, 2 * NOISE)
    found = calibration(constants(np.full((1, 5), 2.0)), rows(), y)
    wanted = 2 * norm.cdf(norm.ppf(0.95) / 2) - 1
    assert found.coverage.observed == pytest.approx(wanted, abs=1 / ROWS)
    assert found.coverage.high < 0.9


def test_spread_between_draws_counts_as_uncertainty() -> None:
    two = constants(np.array([[0.0, 4.0]]))
    found = calibration(two, rows(), np.full(ROWS, 2.0))  # between both: the middle of the mixture
    assert found.bins[0].observed == 1.0


def binary(probability: float) -> object:
    return class_constants(np.full((1, 5, 2), [1 - probability, probability]), (), ("no", "yes"))


def table(count: int = ROWS) -> pd.DataFrame:
    return pd.DataFrame({"x": rows(count)[:, 0], "site": ["north", "south"] * (count // 2)})


def test_two_classes_compare_belief_and_frequency() -> None:
    y = np.array(["yes"] * 120 + ["no"] * 280)[np.random.default_rng(0).permutation(ROWS)]
    found = calibration(binary(0.3), table(), y)  # type: ignore[arg-type]
    assert found.what == "P(label = yes)"
    assert sum(b.rows for b in found.bins) == ROWS
    assert {round(b.predicted, 9) for b in found.bins} == {0.3}
    assert np.average([b.observed for b in found.bins], weights=[b.rows for b in found.bins]) == 0.3
    assert found.coverage.observed == 1.0  # no class alone has 0.9, so sets hold both


def test_a_set_leaves_out_classes_once_it_is_sure_enough() -> None:
    y = np.array(["yes"] * 380 + ["no"] * 20)
    found = calibration(binary(0.95), table(), y)  # type: ignore[arg-type]
    assert found.coverage.observed == 0.95


def test_more_classes_judge_the_predicted_one() -> None:
    posterior = class_constants(np.full((1, 5, 3), [0.6, 0.3, 0.1]))
    y = ["blue"] * 60 + ["green"] * 30 + ["red"] * 10
    found = calibration(posterior, table(100), y, bins=1)
    (only,) = found.bins
    assert (only.predicted, only.observed) == (pytest.approx(0.6), 0.6)
    assert found.error == pytest.approx(0.0, abs=1e-9)
    assert calibration(posterior, table(100), y, coverage=0.85).coverage.observed == 0.9


def test_bins_are_never_so_small_that_they_tell_of_single_rows() -> None:
    y = ["yes", "no"] * 12
    found = calibration(binary(0.5), table(24), y)  # type: ignore[arg-type]
    assert min(b.rows for b in found.bins) >= 10


def test_rows_and_target_must_fit() -> None:
    with pytest.raises(OCBNNError, match="24 rows and 3 values"):
        calibration(binary(0.5), table(24), ["yes"] * 3)  # type: ignore[arg-type]
