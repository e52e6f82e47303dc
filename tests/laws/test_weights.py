"""A row of weight ten is ten copies of it; class weights narrow nothing (law 5)."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import pytest

from ocbnn import OCBNNClassifier
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.run import infer
from ocbnn.model import Model
from ocbnn.model.networks import MLP
from ocbnn.model.priors import IsotropicGaussian
from ocbnn.schema import Schema


def line(rows: int = 12) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    x = generator.normal(size=rows)
    return pd.DataFrame({"x": x, "y": 1 + 2 * x + generator.normal(0, 0.5, rows)})


@pytest.mark.parametrize("noise", [None, 0.5])
def test_weights_and_copies_have_the_same_log_density(noise):
    frame = line()
    schema = Schema.infer(frame, target="y")
    options = {"schema": schema, "hidden": (5,), "noise": noise}
    weights = np.where(np.arange(len(frame)) == 3, 10.0, 1.0)
    copied = pd.concat([frame, *[frame.iloc[[3]]] * 9])
    with jax.enable_x64(True):
        one = Model.build(frame=frame, target="y", row_weights=weights, **options)
        other = Model.build(frame=copied, target="y", **options)
        for seed in range(5):
            w = one.initial(seed)
            assert float(one.log_density(w)) == pytest.approx(float(other.log_density(w)), abs=1e-6)


@pytest.mark.slow
def test_ten_copies_of_a_table_narrow_the_band_of_a_line_by_the_root_of_ten():
    frame = line(30)
    schema = Schema.infer(frame, target="y")
    network = MLP(1, (), 1)
    sds = []
    for copies in (1, 10):
        model = Model.build(
            frame=frame,
            target="y",
            schema=schema,
            network=network,
            base=IsotropicGaussian(network.size, 100.0),
            noise=0.5,
            row_weights=np.full(30, float(copies)),
        )
        draws = infer(model, Hmc(warmup=200), draws=1500, seed=copies).draws.reshape(-1, 2)
        sds.append(draws.std(axis=0))
    np.testing.assert_allclose(sds[0] / sds[1], np.sqrt(10), rtol=0.05)


@pytest.mark.parametrize("weight", [None, "balanced"])
def test_class_weights_do_not_narrow_the_band_of_a_rare_class(weight):
    """Ten positives of 1,000, intercept only: the log-odds' standard deviation is 1/√(n p (1 − p)), 0.318."""
    frame = pd.DataFrame({"x": np.tile([0.0, 1.0], 500)})
    y = pd.Series((np.arange(1000) < 10).astype(int), name="y")
    # The column says nothing, and the prior keeps it so: an intercept alone is left.
    prior = IsotropicGaussian(2, np.array([1e-3, 10.0]))
    model = OCBNNClassifier(hidden=(), prior=prior, class_weight=weight, draws=1000, random_state=0)
    p = model.fit(frame, y).sample_function(frame.iloc[:1])[:, 0, 1]
    assert np.std(np.log(p / (1 - p))) == pytest.approx(0.318, rel=0.1)
