"""Figure 1b from a sentence to converged draws, over many seeds; and the same engine on a mixed table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ocbnn.checking.check import check_rules
from ocbnn.inference import ess, infer
from ocbnn.model import Model
from ocbnn.posterior.draws import Posterior

GRID = np.linspace(-5.0, 5.0, 41)[:, None]


def figure1b() -> Model:
    x = np.array([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
    frame = pd.DataFrame({"x": x, "y": -(x**4) + 3 * x**2 + 1})
    rules = ["if -0.3 <= x <= 0.3 then 2.5 <= y <= 3"]
    return Model.build(frame=frame, target="y", rules=rules, noise=0.1, standardize=False)


def mixed_table() -> pd.DataFrame:
    random = np.random.default_rng(3)
    n = 120
    frame = pd.DataFrame(
        {
            "pressure": random.normal(80.0, 10.0, n),
            "lactate": random.gamma(2.0, 1.0, n),
            "urine": random.normal(50.0, 15.0, n),
            "age": random.integers(20, 90, n),
            "visits": random.integers(0, 6, n),
            "smoker": random.integers(0, 2, n),
            "ward": random.choice(["icu", "surgery", "medical"], n),
            "sex": random.choice(["f", "m"], n),
        }
    )
    frame["dose"] = 0.05 * frame["age"] + 0.6 * frame["lactate"] + random.normal(0.0, 0.4, n)
    return frame


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_every_seed_converges_from_prior_draws_without_a_stuck_chain(seed):
    result = infer(figure1b(), "hmc", until=ess(2000), seed=seed, probes=GRID)
    assert not result.diagnostics.stuck
    assert result.diagnostics.worst_rhat <= 1.01
    assert result.diagnostics.worst_bulk_ess >= 2000
    assert result.converged
    assert result.rules[0].violation <= result.rules[0].tolerance
    assert not result.unmet


@pytest.mark.slow
def test_a_mixed_table_with_two_overlapping_rules_obeys_where_ascent_looks():
    model = Model.build(
        frame=mixed_table(),
        target="dose",
        rules=["if age > 60 and ward = icu then dose >= 2", "if lactate > 4 then 2.5 <= dose <= 8"],
        hidden=(8,),
    )
    result = infer(model, "hmc", draws=500, seed=1)
    assert not result.diagnostics.stuck
    assert not result.unmet
    for found in check_rules(Posterior.from_result(result), points=500):
        assert found.points_found > 0
        assert found.epsilon_mean.low <= found.tolerance  # what the tolerance speaks of
        assert found.epsilon_mean.value <= 1.5 * found.tolerance
        # At the worst place that ascent finds on half of the chains, nearly all draws of the others obey.
        assert found.epsilon_worst.high <= 0.25
        assert found.points_violating.value == 0.0
