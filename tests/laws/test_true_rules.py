"""A true rule helps where there are no data, and beside it, and costs nothing far away (law 3)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ocbnn import OCBNNRegressor
from ocbnn.posterior.conflict import log_scores

RULE = "if -0.5 <= x <= 0.5 then 0.6 <= y <= 1.1"
PLACES = {"in the gap": (-0.5, 0.5), "beside it": (0.5, 1.0), "far away": (2.0, 3.0)}


def truth(x: np.ndarray) -> np.ndarray:
    return np.cos(x)


def scores(seed: int, rules: list[str], new: pd.DataFrame, y: np.ndarray, **options: object) -> np.ndarray:
    """Log scores of new rows under a fit to 40 rows that leave a gap around 0."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(1.0, 3.0, 40) * generator.choice([-1.0, 1.0], 40)
    observed = pd.Series(truth(x) + generator.normal(0, 0.1, 40), name="y")
    fitted = OCBNNRegressor(rules=rules, random_state=seed, **options).fit(pd.DataFrame({"x": x}), observed)
    return log_scores(fitted.posterior_, new, y)


def gains(seeds: range, **options: object) -> dict[str, np.ndarray]:
    """What the rule adds to the mean log score, by place and data set."""
    generator = np.random.default_rng(10**6)
    found: dict[str, list[float]] = {place: [] for place in PLACES}
    rows = {place: generator.uniform(*ends, 200) for place, ends in PLACES.items()}
    for seed in seeds:
        x = np.concatenate(list(rows.values()))
        new, y = pd.DataFrame({"x": x}), truth(x) + np.random.default_rng(seed).normal(0, 0.1, len(x))
        gain = scores(seed, [RULE], new, y, **options) - scores(seed, [], new, y, **options)
        for place, each in zip(PLACES, np.split(gain, len(PLACES)), strict=True):
            found[place].append(float(each.mean()))
    return {place: np.array(each) for place, each in found.items()}


@pytest.mark.slow
def test_a_true_rule_helps_in_and_beside_its_region_and_costs_nothing_far_away():
    found = gains(range(20))
    error = {place: each.std(ddof=1) / np.sqrt(20) for place, each in found.items()}
    print({place: (each.mean(), error[place]) for place, each in found.items()})
    assert found["in the gap"].mean() > 2 * error["in the gap"]
    assert found["beside it"].mean() > 0
    assert found["far away"].mean() > -2 * error["far away"]
