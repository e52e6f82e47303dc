"""`holds: proved`: fits whose draws can be proved to keep a rule everywhere, and verdicts that say so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ocbnn
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.engines.mclmc import Mclmc
from ocbnn.inference.prepare import Settings
from ocbnn.inference.strength import StrengthSearch
from ocbnn.inference.warmstart import WarmStart
from ocbnn.proof import PROVED
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema

ENGINES = {"mclmc": Mclmc(steps=10, warmup=40), "bbb": Bbb(steps=300)}


def fitted(engine: str, holds: str) -> ocbnn.OCBNNRegressor:
    """A line that wants to rise above the rule's limit beyond its rows."""
    x = np.linspace(-2, 2, 30)
    frame, y = pd.DataFrame({"x": x, "z": np.cos(9 * x)}), pd.Series(1 + 0.5 * x, name="y")
    schema = Schema.infer(frame.assign(y=y), target="y", columns={"x": {"bounds": (-2, 6)}})
    model = ocbnn.OCBNNRegressor(
        rules=[parse_rule("if x > 2.5 then y <= 3.5", schema, holds=holds)],
        columns={"x": {"bounds": (-2, 6)}},
        hidden=(5,),
        noise=0.2,
        engine=ENGINES[engine],
        draws=30,
        chains=2 if engine == "mclmc" else None,
        cores=1,
        random_state=0,
        preparation=Settings(WarmStart(steps=300, searches=1), StrengthSearch(most=30, effective=30)),
    )
    return model.fit(frame, y)


@pytest.fixture(scope="module")
def proved() -> ocbnn.OCBNNRegressor:
    return fitted("mclmc", "proved")


@pytest.mark.filterwarnings("ignore")
def test_draws_are_proved_and_the_outcome_says_so(proved: ocbnn.OCBNNRegressor) -> None:
    (outcome,) = proved.outcomes_
    assert outcome.check.asked == "proved"
    assert outcome.check.draws_unproved is not None
    assert outcome.check.draws_unproved.value == 0.0
    assert outcome.violation == 0.0
    (proof,) = proved.prove(boxes=500, seconds=60)
    assert proof.count(PROVED) == len(proved.posterior_.flat)


@pytest.mark.filterwarnings("ignore")
def test_a_check_makes_the_proof_that_the_rule_asks_for(proved: ocbnn.OCBNNRegressor) -> None:
    (check,) = proved.check_rules(points=50, ascent=False)
    assert check.asked == "proved"
    assert check.at("proved") == check.verdict
    assert check.draws_unproved is not None
    assert check.violation == check.draws_unproved


@pytest.mark.filterwarnings("ignore")
def test_boxes_are_saved_with_the_model(proved: ocbnn.OCBNNRegressor, tmp_path) -> None:
    proved.save(tmp_path / "model")
    loaded = ocbnn.load(tmp_path / "model")
    (rule,), (same,) = proved.posterior_.model.terms, loaded.posterior_.model.terms
    assert same.rule.holds == "proved"
    np.testing.assert_array_equal(same.points.boxes.table, rule.points.boxes.table)
    weights = proved.posterior_.flat[0, : proved.posterior_.model.network.size]
    before, after = (each.posterior_.model.rule_log_densities(weights, None) for each in (proved, loaded))
    np.testing.assert_allclose(before, after, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_variational_posterior_can_be_fitted_for_proof() -> None:
    shares = {
        holds: fitted("bbb", holds).prove(boxes=500, seconds=60)[0].unproved.value
        for holds in ("on average", "proved")
    }
    assert shares["proved"] == 0.0
    assert shares["on average"] >= shares["proved"]
