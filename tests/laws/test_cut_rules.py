"""A rule cut in two by its region has the same verdicts and the same predictions, within error (law 2)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from law_fits import Answers, answers, difference, unseen
from ocbnn import OCBNNRegressor

WHOLE = ("if -0.6 <= x <= 0.6 then 0.8 <= y <= 1.6",)
CUT = ("if -0.6 <= x <= 0 then 0.8 <= y <= 1.6", "if 0 < x <= 0.6 then 0.8 <= y <= 1.6")
PROBES = pd.DataFrame({"x": np.linspace(-1.9, 1.9, 13)})


def table() -> tuple[pd.DataFrame, pd.Series]:
    """A curve with a gap around 0, where the rule asks for a bump that the data do not show."""
    generator = np.random.default_rng(3)
    x = np.concatenate([generator.uniform(-2, -0.7, 20), generator.uniform(0.7, 2, 20)])
    return pd.DataFrame({"x": x}), pd.Series(np.sin(2 * x) + generator.normal(0, 0.1, 40), name="y")


@cache
def fitted(rules: tuple[str, ...]) -> tuple[Answers, tuple[str, ...]]:
    verdicts: set[str] = set()

    class Told(OCBNNRegressor):
        def fit(self, X, y, **run):
            super().fit(X, y, **run)
            verdicts.update(outcome.check.verdict for outcome in self.outcomes_)
            return self

    seeds = range(100 * len(rules), 100 * len(rules) + 8)
    found = answers(lambda seed: Told(rules=list(rules), random_state=seed), *table(), PROBES, seeds)
    return found, tuple(sorted(verdicts))


@pytest.mark.slow
def test_a_rule_cut_in_two_gives_the_same_predictions_and_verdicts():
    (whole, said), (cut, said_of_parts) = fitted(WHOLE), fitted(CUT)
    found = difference(whole, cut)
    print(found, said, said_of_parts)
    assert said == said_of_parts
    assert found.precise, str(found)
    assert found.none, str(found)


@pytest.mark.slow
def test_a_planted_defect_at_any_probe_is_seen_in_mean_and_band():
    assert unseen(fitted(WHOLE)[0], fitted(CUT)[0]) == []
