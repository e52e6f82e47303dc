"""The path that a user takes who gives a table and a rule alone, on a tiny table and a small network."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ocbnn import OCBNNRegressor
from ocbnn.inference.engines.mclmc import MOST_BEYOND, Mclmc
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema


def test_a_rule_is_met_by_the_default_engine_after_warm_start_and_strength_search():
    x = np.concatenate([np.linspace(-2, -1, 8), np.linspace(1, 2, 8)])
    noise = np.random.default_rng(0).normal(0, 0.3, 16)  # a line would be above the rule in the gap
    frame, y = pd.DataFrame({"x": x}), pd.Series(x**2 + noise, name="y")
    schema = Schema.infer(frame, target=y)
    rule = parse_rule("if -0.5 <= x <= 0.5 then y <= 1", schema, tolerance=0.05)
    fitted = OCBNNRegressor(rules=[rule], hidden=(4,), chains=4, draws=100, random_state=0).fit(frame, y)
    provenance, (outcome,) = fitted.posterior_.provenance, fitted.outcomes_
    assert provenance["engine"] == "mclmc"
    assert provenance["settings"]["why"].startswith("mclmc: 16 rows")
    assert "strength" in provenance["seconds"]  # pilots have run
    assert outcome.found_strength
    assert outcome.check.verdict == "met"
    assert outcome.strength >= 1000.0
    assert (fitted.sample_function(pd.DataFrame({"x": [-0.4, 0.0, 0.4]})) <= 1.0).mean() > 0.95
    error = float(provenance["diagnostics"]["bias"].split("variance ")[1].split(" ")[0])
    assert error <= MOST_BEYOND * Mclmc().energy_error
