"""What the engines that follow gradients share: how learning rates fall."""

from __future__ import annotations

import numpy as np
import pytest

from ocbnn.inference.engines.optimiser import DECAYS


@pytest.mark.parametrize(
    ("decay", "shares"),
    [
        ("constant", [1.0, 1.0, 1.0, 1.0]),
        ("cosine", [1.0, 0.5 * (1 + np.cos(0.4 * np.pi)), 0.5 * (1 + np.cos(0.8 * np.pi)), 0.0]),
        ("exponential", [1.0, 1e-2, 1e-4, 1e-5]),
    ],
)
def test_learning_rates_fall_as_their_names_say_over_all_steps(decay: str, shares: list[float]) -> None:
    schedule = DECAYS[decay](0.3, 1000)
    rates = [float(schedule(step)) for step in (0, 400, 800, 1000)]
    np.testing.assert_allclose(rates, 0.3 * np.array(shares), rtol=1e-4, atol=1e-12)
