"""A true rule helps where there are no data, and beside it, and costs nothing far away (law 3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from ocbnn import OCBNNRegressor
from ocbnn.inference.engines.mclmc import Mclmc
from ocbnn.posterior.conflict import log_scores

PLACES = {"in the gap": (-0.5, 0.5), "beside it": (0.5, 1.0), "far away": (2.0, 3.0)}
LOSS = 0.5 * 0.3**2
"""Nats a row that a prediction loses if it is off by 0.3 of its standard deviation."""


class Known(NamedTuple):
    """A function that is known, and a true rule where there are no rows."""

    truth: Callable[[np.ndarray], np.ndarray]
    rule: str


KNOWN = {
    "a cosine": Known(np.cos, "if -0.5 <= x <= 0.5 then 0.6 <= y <= 1.1"),
    "a bump": Known(lambda x: 2 * np.exp(-2 * x**2), "if -0.5 <= x <= 0.5 then 1 <= y <= 2.1"),
}


def scores(known: Known, seed: int, rules: list[str], new: pd.DataFrame, y: np.ndarray, **options: object):
    """Log scores of new rows under a fit to 40 rows that leave a gap around 0."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(1.0, 3.0, 40) * generator.choice([-1.0, 1.0], 40)
    observed = pd.Series(known.truth(x) + generator.normal(0, 0.1, 40), name="y")
    fitted = OCBNNRegressor(rules=rules, random_state=seed, **options).fit(pd.DataFrame({"x": x}), observed)
    return log_scores(fitted.posterior_, new, y)


def gains(known: Known, seeds: range, **options: object) -> dict[str, np.ndarray]:
    """What the rule adds to the mean log score, by place and data set."""
    generator = np.random.default_rng(10**6)
    found: dict[str, list[float]] = {place: [] for place in PLACES}
    rows = {place: generator.uniform(*ends, 200) for place, ends in PLACES.items()}
    for seed in seeds:
        x = np.concatenate(list(rows.values()))
        noise = np.random.default_rng(seed).normal(0, 0.1, len(x))
        new, y = pd.DataFrame({"x": x}), known.truth(x) + noise
        with_rule, without = (scores(known, seed, rules, new, y, **options) for rules in ([known.rule], []))
        for place, each in zip(PLACES, np.split(with_rule - without, len(PLACES)), strict=True):
            found[place].append(float(each.mean()))
    return {place: np.array(each) for place, each in found.items()}


def in_errors(gain: np.ndarray) -> float:
    """The mean gain over data sets in its standard errors."""
    return float(gain.mean() / (gain.std(ddof=1) / np.sqrt(len(gain))))


@cache
def measured(name: str) -> dict[str, np.ndarray]:
    return gains(KNOWN[name], range(20))


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_a_true_rule_helps_in_and_beside_its_region_and_costs_nothing_far_away(name):
    found = measured(name)
    print(name, {place: (each.mean(), in_errors(each)) for place, each in found.items()})
    assert in_errors(found["in the gap"]) > 2
    assert in_errors(found["beside it"]) > 1
    assert in_errors(found["far away"]) > -2


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_a_rule_that_moves_predictions_far_away_by_three_tenths_of_a_standard_deviation_is_noticed(name):
    assert in_errors(measured(name)["far away"] - LOSS) < -2


def test_a_true_rule_helps_in_and_beside_its_region_in_a_short_run():
    options = {"hidden": 5, "draws": 100, "chains": 4, "noise": "constant", "engine": Mclmc(warmup=100)}
    found = gains(KNOWN["a bump"], range(2), **options)
    assert (found["in the gap"] > LOSS).all()
    assert (found["beside it"] > LOSS).all()
    assert found["far away"].mean() > -LOSS
