"""`OCBNNRegressor(noise="varying")`: noise learnt as a function of the inputs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ocbnn
from ocbnn import OCBNNRegressor
from ocbnn.errors import ModelError
from ocbnn.inference.density import density_of, fixed_context
from ocbnn.inference.engines import ENGINES
from ocbnn.inference.warmstart import HELD_NOISE, WarmStart, starting_positions
from ocbnn.model.outputs import noise_values, precision
from ocbnn.report import gather
from ocbnn.report.evidence import Evidence
from ocbnn.report.sentences import noise_sentence
from small_estimators import blood_pressures, small_regressor

FEW = {"hidden": (10,), "chains": 4, "draws": 250, "random_state": 0}
"""Of the default path, enough to know a function of one column."""
RULE = "if age > 60 then 150 <= pressure <= 400"


@pytest.fixture(scope="module")
def fitted() -> OCBNNRegressor:
    return small_regressor(noise="varying", rules=RULE, tolerance=0.999, chains=5).fit(*blood_pressures())


def test_a_fit_knows_its_noise_at_each_row_in_raw_units(fitted):
    frame, _ = blood_pressures()
    noise = fitted.posterior_.noise(fitted.schema_.encode(frame))
    assert noise.shape == (5, 40)
    assert (noise > 0).all()
    assert (np.ptp(noise, axis=1) > 0).all()
    _, sd = fitted.predict(frame, return_std=True)
    expected = fitted.sample_function(frame).var(axis=0) + (noise**2).mean(axis=0)
    np.testing.assert_allclose(sd**2, expected, rtol=1e-6)


def test_what_is_saved_predicts_exactly_the_same(fitted, tmp_path):
    frame, _ = blood_pressures()
    fitted.save(tmp_path / "model")
    again = ocbnn.load(tmp_path / "model")
    assert again.noise == "varying"
    for one, other in (
        (again.predict_quantiles(frame, [0.1, 0.9]), fitted.predict_quantiles(frame, [0.1, 0.9])),
        (again.sample_predictive(frame), fitted.sample_predictive(frame)),
        (again.enforce().predict_interval(frame), fitted.enforce().predict_interval(frame)),
    ):
        assert np.array_equal(one, other)
    before, after = fitted.posterior_.model.base, again.posterior_.model.base
    assert after.names == before.names
    assert np.array_equal(after.order, before.order)
    w = fitted.posterior_.flat[0]
    assert float(after.log_density(w)) == float(before.log_density(w))


def test_rules_and_their_enforcement_work_as_ever(fitted):
    frame, _ = blood_pressures()
    old = (frame["age"] > 60).to_numpy()
    samples = fitted.enforce().sample_predictive(frame, 40)
    assert ((samples[:, old] >= 150) & (samples[:, old] <= 400)).all()
    assert fitted.check_rules(points=50).overall is not None


def test_it_goes_with_a_log_scale_missing_values_and_weights():
    frame, y = blood_pressures()
    frame.loc[::7, "dose"] = np.nan
    model = small_regressor(noise="varying", target_transform="log", missing="indicator")
    model.fit(frame, y, sample_weight=np.arange(40) % 3)
    quantiles = model.predict_quantiles(frame, [0.05, 0.5, 0.95])
    assert (np.diff(quantiles, axis=1) > 0).all()
    assert (quantiles > 0).all()
    assert model.posterior_.noise(model.schema_.encode(frame)).shape == (2, 40)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("mclmc", "bbb") else pytest.mark.slow)
        for name in sorted(set(ENGINES) - {"ensemble"})  # which draws it everywhere else here
    ],
)
def test_every_engine_draws_it(name):
    frame, y = blood_pressures(12)
    short = {"hmc": {"warmup": 4}, "nuts": {"warmup": 4}, "mclmc": {"warmup": 4}, "sgld": {"warmup": 4}}
    engine = ENGINES[name](**short.get(name, {"steps": 4}))
    with pytest.warns(ocbnn.errors.OCBNNWarning):
        model = small_regressor(noise="varying", engine=engine, draws=4).fit(frame, y)
    assert np.isfinite(model.predict(frame, return_std=True)).all()


def test_the_report_says_how_noise_varies(fitted):
    frame, y = blood_pressures(30, seed=1)
    evidence = gather(fitted.posterior_, frame=frame, y=y, points=20)
    sentence = noise_sentence(evidence)
    assert "at the quietest case" in sentence
    assert "at the loudest" in sentence
    assert [scale.layer for scale in evidence.prior.scales][-1] == "variation of the noise"
    assert noise_sentence(Evidence.from_json(evidence.to_json())) == sentence
    assert any("a priori where the network" in each for each in fitted.posterior_.provenance["data_choices"])


def test_while_warming_up_the_noise_is_held_small_and_the_same_everywhere():
    model = small_regressor(noise="varying").fit(*blood_pressures()).posterior_.model
    with precision("float32"):
        start = starting_positions(model, 3, 0)
        after = WarmStart(steps=300).optimise(density_of(model).held, start, fixed_context(model))
        noise = noise_values(model, after, model.data.inputs)
        outputs = np.stack([np.asarray(model.apply(w, model.data.inputs)) for w in after])
    np.testing.assert_allclose(noise, HELD_NOISE, rtol=1e-5)
    assert (outputs[..., 0] - model.data.y).std() < 3 * HELD_NOISE  # of a network of four units


def test_noise_that_is_none_is_refused():
    for noise in ("loud", 0, np.inf, True, [1.0]):
        with pytest.raises(ModelError, match='"varying" where it depends on the inputs'):
            small_regressor(noise=noise).fit(*blood_pressures())


def heteroscedastic(rows: int, seed: int) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.uniform(-2.0, 2.0, rows)
    noise = 0.1 * np.exp(0.6 * x)
    y = np.sin(2.0 * x) + noise * generator.normal(size=rows)
    return pd.DataFrame({"x": x}), pd.Series(y, name="y"), noise


@pytest.mark.slow
def test_known_noise_is_recovered_and_intervals_cover_in_every_region():
    frame, y, _ = heteroscedastic(300, 1)
    model = OCBNNRegressor(noise="varying", rules="always -2 <= y <= 2", **FEW).fit(frame, y)
    rows, truth, noise = heteroscedastic(3000, 2)
    found = model.posterior_.noise(model.schema_.encode(rows)).mean(axis=0)
    inner = (rows["x"].abs() < 1.8).to_numpy()
    assert np.abs(np.log(found / noise))[inner].max() < 0.5
    low, high = model.predict_interval(rows, 0.9).T
    held = (low <= truth) & (truth <= high)
    for region in np.array_split(np.argsort(rows["x"]), 4):
        assert held.iloc[region].mean() == pytest.approx(0.9, abs=0.07)  # with one number: 1.0 to 0.76
    assert model.check_rules()[0].verdict != "unmet"


@pytest.mark.slow
def test_noise_that_is_constant_is_found_to_be_nearly_so():
    frame, _, _ = heteroscedastic(300, 1)
    y = np.sin(2.0 * frame["x"]) + 0.3 * np.random.default_rng(3).normal(size=300)
    model = OCBNNRegressor(noise="varying", **FEW).fit(frame, y.rename("y"))
    rows = pd.DataFrame({"x": np.linspace(-1.9, 1.9, 50)})
    noise = model.posterior_.noise(model.schema_.encode(rows)).mean(axis=0)
    assert np.abs(np.log(noise / 0.3)).max() < 0.25
