"""`conflict()` of an estimator: twins on the same rows, with the rules taken out."""

import numpy as np
import pandas as pd
import pytest

from ocbnn.errors import OCBNNError
from small_estimators import small_regressor


def table(rows: int = 40, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": generator.uniform(-2, 2, rows)})
    return frame, (2 * frame["x"] + generator.normal(0, 0.1, rows)).rename("y")


def test_the_twin_is_the_fit_without_rules_and_the_rule_costs_what_it_contradicts():
    frame, y = table()
    model = small_regressor(rules="if x > 1 then y <= 0", tolerance=0.99).fit(frame, y)
    held_out, truth = table(30, seed=1)
    (found,) = model.conflict(held_out, truth, points=50)
    free = small_regressor().fit(frame, y)
    assert np.array_equal(model._twin(()).draws, free.posterior_.draws)
    assert found.violation_without.value == 1.0
    assert found.log_score.without_rule > found.log_score.with_rule
    assert found.where["x"].iloc[0] > 0.5


def test_without_rules_there_is_no_conflict():
    model = small_regressor().fit(*table())
    with pytest.raises(OCBNNError, match="no rules"):
        model.conflict()
