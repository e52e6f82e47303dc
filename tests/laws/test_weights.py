"""A row of weight ten is ten copies of it; class weights narrow nothing (law 5)."""

from __future__ import annotations

from functools import cache

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


@pytest.mark.parametrize("noise", [None, 0.5, "varying"])
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


@pytest.mark.parametrize("classes", [("no", "yes"), ("amber", "blue", "red")])
def test_weights_and_copies_of_rows_with_classes_have_the_same_log_density(classes):
    frame = line()[["x"]].assign(y=np.resize(classes, 12))
    schema = Schema.infer(frame, target="y")
    weights = np.where(np.arange(len(frame)) == 3, 10.0, 1.0)
    copied = pd.concat([frame, *[frame.iloc[[3]]] * 9])
    with jax.enable_x64(True):
        one = Model.build(frame=frame, target="y", row_weights=weights, schema=schema, hidden=(5,))
        other = Model.build(frame=copied, target="y", schema=schema, hidden=(5,))
        without = Model.build(frame=frame, target="y", schema=schema, hidden=(5,))
        for seed in range(5):
            w = one.initial(seed)
            expected = float(other.log_density(w))
            assert float(one.log_density(w)) == pytest.approx(expected, abs=1e-6)
            assert float(without.log_density(w)) != pytest.approx(expected, abs=1e-3)


@cache
def bands_of_a_line() -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations of the two weights of a line, of a table and of ten copies of it."""
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
    return sds[0], sds[1]


def narrowed_by_the_root_of_ten(one: np.ndarray, ten: np.ndarray) -> bool:
    return bool(np.all(np.abs(one / ten / np.sqrt(10) - 1.0) < 0.05))


@pytest.mark.slow
def test_ten_copies_of_a_table_narrow_the_band_of_a_line_by_the_root_of_ten():
    one, ten = bands_of_a_line()
    assert narrowed_by_the_root_of_ten(one, ten), one / ten


@pytest.mark.slow
@pytest.mark.parametrize("weight", [0, 1])
def test_a_band_that_is_three_tenths_too_narrow_or_too_wide_is_noticed(weight):
    one, ten = bands_of_a_line()
    for factor in (0.7, 1.3):
        planted = np.where(np.arange(2) == weight, factor, 1.0) * ten
        assert not narrowed_by_the_root_of_ten(one, planted)


def band_of_a_rare_class(weight: str | None, **fit: np.ndarray) -> float:
    """Of ten positives of 1,000, intercept only: the standard deviation of the log-odds."""
    frame = pd.DataFrame({"x": np.tile([0.0, 1.0], 500)})
    y = pd.Series((np.arange(1000) < 10).astype(int), name="y")
    # The column says nothing, and the prior keeps it so: an intercept alone is left.
    prior = IsotropicGaussian(2, np.array([1e-3, 10.0]))
    model = OCBNNClassifier(hidden=(), prior=prior, class_weight=weight, draws=1000, random_state=0)
    p = model.fit(frame, y, **fit).sample_function(frame.iloc[:1])[:, 0, 1]
    return float(np.std(np.log(p / (1 - p))))


@pytest.mark.parametrize("weight", [None, "balanced"])
def test_class_weights_do_not_narrow_the_band_of_a_rare_class(weight):
    """It is 1/√(n p (1 − p))."""
    assert band_of_a_rare_class(weight) == pytest.approx(0.318, rel=0.1)


def test_class_weights_in_the_likelihood_would_be_noticed():
    """Balanced ones weigh each positive 50 times: as if there were 500 of them."""
    weights = np.where(np.arange(1000) < 10, 50.0, 1000 / 1980)
    planted = band_of_a_rare_class(None, sample_weight=weights)
    assert planted == pytest.approx(1 / np.sqrt(250), rel=0.1)
    assert planted != pytest.approx(0.318, rel=0.1)
