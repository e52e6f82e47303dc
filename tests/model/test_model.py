"""The model: parts that add up, units, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats

from ocbnn.errors import ModelError
from ocbnn.model.likelihoods import Bernoulli, Categorical, Gaussian
from ocbnn.model.model import Data, Model, unstandardized
from ocbnn.model.networks import MLP, FunctionNetwork
from ocbnn.model.priors import IsotropicGaussian
from ocbnn.model.terms import NegativeExponential
from ocbnn.schema import Schema

BAND = "if -0.3 <= x <= 0.3 then 2.5 <= y <= 3"


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def frame():
    x = np.array([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
    return pd.DataFrame({"x": x, "y": -(x**4) + 3 * x**2 + 1})


def some_weights(model, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=model.size))


@pytest.fixture(scope="module")
def model(frame):
    return Model.build(frame=frame, target="y", rules=[BAND], hidden=(4,))


def test_the_log_density_is_prior_plus_likelihood_and_all_parts_are_there(model, frame):
    w = some_weights(model)
    weights, noise = np.asarray(w[:-1]), np.exp(float(w[-1]))
    y = (frame["y"] - frame["y"].mean()) / model.schema.target.scale
    outputs = np.asarray(model.apply(w, model.data.inputs))[:, 0]
    expected = scipy.stats.norm.logpdf(weights).sum() + scipy.stats.norm.logpdf(y, outputs, noise).sum()
    expected += scipy.stats.halfnorm.logpdf(noise) + np.log(noise)
    expected += float(jax.jit(model.rule_log_densities)(weights)[0])
    assert model.size == 14
    parts = jax.jit(lambda v: (model.log_density(v), model.log_prior(v), model.log_likelihood(v)))(w)
    assert float(parts[0]) == pytest.approx(expected, rel=1e-10)
    assert float(parts[1] + parts[2]) == pytest.approx(expected, rel=1e-10)


def test_it_can_be_compiled_mapped_and_differentiated(model):
    draws = jnp.asarray(np.random.default_rng(0).normal(size=(3, model.size)))
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(model.log_density)))(draws)
    assert gradients.shape == (3, model.size)
    assert np.all(np.isfinite(gradients))
    alone = jax.jit(model.log_density)(draws[2])
    assert float(values[2]) == pytest.approx(float(alone), rel=1e-12)


def test_a_start_has_all_parameters_and_depends_on_the_key(model):
    starts = [model.initial(0), model.initial(jax.random.key(0)), model.initial(1)]
    assert starts[0].shape == (model.size,)
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])


def test_float32_gives_the_same_density_to_its_precision(model):
    w = some_weights(model)
    with jax.enable_x64(False):
        single = jax.jit(model.log_density)(jnp.asarray(np.asarray(w), jnp.float32))
    assert single.dtype == jnp.float32
    assert float(single) == pytest.approx(float(jax.jit(model.log_density)(w)), rel=1e-4)


def test_weighted_minibatches_add_up_to_all_rows(model):
    w = some_weights(model, 1)
    batches = [
        Data(model.data.inputs[rows], model.data.y[rows], np.full(2, 3.0))
        for rows in (slice(0, 2), slice(2, 4), slice(4, 6))
    ]
    log_likelihood = jax.jit(model.log_likelihood)
    mean = np.mean([float(log_likelihood(w, batch)) for batch in batches])
    assert mean == pytest.approx(float(log_likelihood(w)), rel=1e-12)


def test_row_weights_count_rows_several_times(frame):
    weights = np.array([2.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    settings = {"schema": Schema.infer(frame, target="y"), "noise": 0.5, "hidden": (2,)}
    weighted = Model.build(frame=frame, row_weights=weights, **settings)
    repeated = Model.build(frame=frame.iloc[[0, 0, 1, 2, 4, 5]], **settings)
    w = some_weights(weighted)
    counted, copied = (float(jax.jit(each.log_likelihood)(w)) for each in (weighted, repeated))
    assert counted == pytest.approx(copied, rel=1e-12)


def test_without_data_it_is_its_prior(frame):
    schema = Schema.infer(frame, target="y")
    for alone in (
        Model.build(schema=schema, rules=[BAND], noise=0.1),
        Model.build(frame=frame, target="y", rules=[BAND], noise=0.1, prior_only=True),
    ):
        w = some_weights(alone)
        assert alone.data is None
        density, prior, likelihood = jax.jit(
            lambda v, each=alone: (each.log_density(v), each.log_prior(v), each.log_likelihood(v))
        )(w)
        assert float(density) == float(prior)
        assert float(likelihood) == 0.0


def test_noise_is_given_in_raw_units_and_the_prior_of_learnt_noise_has_the_spread_of_y(frame):
    spread = Schema.infer(frame, target="y").target.scale
    assert Model.build(frame=frame, target="y", noise=0.1).likelihood.noise == pytest.approx(0.1 / spread)
    assert Model.build(frame=frame, target="y").likelihood.noise_prior == pytest.approx(1.0)
    raw = Model.build(frame=frame, target="y", standardize=False)
    assert raw.likelihood.noise_prior == pytest.approx(spread)
    assert Model.build(frame=frame, target="y", noise=0.1, standardize=False).likelihood.noise == 0.1


def test_noise_that_varies_is_a_second_output_in_units_of_the_spread_of_y(frame):
    spread = Schema.infer(frame, target="y").target.scale
    model = Model.build(frame=frame, target="y", noise="varying", hidden=(4,))
    raw = Model.build(frame=frame, target="y", noise="varying", standardize=False)
    assert (model.network.outputs, model.likelihood.noise_prior) == (2, pytest.approx(1.0))
    assert raw.likelihood.noise_prior == pytest.approx(spread)
    assert model.size == model.network.size
    assert model.hyperparameters(some_weights(model)) == {}


def test_unstandardised_model_units_are_raw_units(frame):
    schema = unstandardized(Schema.infer(frame, target="y"))
    np.testing.assert_array_equal(schema.to_model(schema.encode(frame)), frame[["x"]])
    np.testing.assert_array_equal(schema.target.to_model(frame["y"]), frame["y"])


@pytest.mark.parametrize("unit", [1e6, 1e-6])
def test_the_unit_of_y_changes_nothing(unit):
    x = np.linspace(-1.0, 1.0, 30)
    frame = pd.DataFrame({"x": x, "y": 1.0 + np.sin(3 * x)})
    in_unit = frame.assign(y=frame["y"] * unit)
    rules = [
        "if -0.3 <= x <= 0.3 then 0.5 * {u} <= y <= {u}",
        "if x > 0 then not {u} <= y <= 1.2 * {u}",
        "always y >= {u} * (x - 2)",
        "always y = 2 * {u} or y = {u}",
        "if x < 0 then y ~ Normal({u}, 0.1 * {u})",
    ]
    settings = {"target": "y", "hidden": (3,), "points": 10}
    plain = Model.build(frame=frame, rules=[rule.format(u="1") for rule in rules], **settings)
    scaled = Model.build(frame=in_unit, rules=[rule.format(u=f"{unit:.7f}") for rule in rules], **settings)
    w = some_weights(plain)
    parts = [
        jax.jit(lambda v, p, each=each: (each.log_prior(v, p), each.rule_log_densities(v[:-1], p)))(w, points)
        for each, points in ((plain, plain.points), (scaled, _at_the_points_of(plain, scaled)))
    ]
    np.testing.assert_allclose(parts[1][0], parts[0][0], rtol=1e-9)
    np.testing.assert_allclose(parts[1][1], parts[0][1], rtol=1e-9)
    np.testing.assert_allclose(scaled.data.y, plain.data.y, rtol=1e-9)


def _at_the_points_of(model, other):
    """Points follow a rule's text, which a unit changes: place the other model's rules at this one's."""
    return tuple(rule.at(points.coded) for rule, points in zip(other.terms, model.points, strict=True))


def test_binary_targets_have_one_logit_and_more_classes_one_each():
    frame = pd.DataFrame({"x": np.arange(6.0), "label": ["a", "b"] * 3, "kind": ["u", "v", "w"] * 2})
    binary = Model.build(frame=frame[["x", "label"]], target="label", rules=["if x > 2 then label = a"])
    several = Model.build(frame=frame[["x", "kind"]], target="kind", rules=["if x > 2 then kind in {u, v}"])
    assert isinstance(binary.likelihood, Bernoulli)
    assert isinstance(several.likelihood, Categorical)
    for model, classes in ((binary, 2), (several, 3)):
        w = some_weights(model)
        log_probabilities = model.function(w, model.data.inputs)
        assert log_probabilities.shape == (6, classes)
        np.testing.assert_allclose(np.exp(log_probabilities).sum(axis=1), 1.0, rtol=1e-12)
        assert np.isfinite(jax.jit(model.log_density)(w))


def test_the_function_of_a_regression_is_its_mean(model):
    w = some_weights(model)
    np.testing.assert_array_equal(
        model.function(w, model.data.inputs), model.apply(w, model.data.inputs)[:, 0]
    )


def test_ones_own_network_and_base_prior_take_the_place_of_the_defaults(frame):
    network = FunctionNetwork.wrap(
        lambda params, x: params["a"] * x[:, 0] + params["b"], {"a": np.array(1.0), "b": np.array(0.0)}
    )
    base = IsotropicGaussian(2, 3.0)
    model = Model.build(frame=frame, target="y", rules=[BAND], network=network, base=base, noise=0.1)
    assert model.size == 2
    assert model.base is base
    assert np.all(np.isfinite(jax.jit(jax.grad(model.log_density))(some_weights(model))))


def test_a_series_beside_the_frame_is_a_target(frame):
    beside = Model.build(frame=frame[["x"]], target=frame["y"], rules=[BAND], noise=0.1)
    among = Model.build(frame=frame, target="y", rules=[BAND], noise=0.1)
    w = some_weights(among)
    assert float(jax.jit(beside.log_density)(w)) == float(jax.jit(among.log_density)(w))


def test_terms_and_strength_reach_the_rules(frame):
    model = Model.build(
        frame=frame, target="y", rules=[BAND], term=NegativeExponential(raw=True), strength=50.0, points=7
    )
    assert model.terms[0].term.unit == pytest.approx(1.0 / model.schema.target.scale)
    assert model.points[0].strength == 50.0
    assert model.points[0].inputs.shape == (7, 1)


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda frame: Model.build(), "needs a table"),
        (lambda frame: Model.build(frame=frame), "what is predicted"),
        (
            lambda frame: Model.build(schema=Schema.infer(frame, target="y"), frame=frame[["x"]]),
            "no column 'y'",
        ),
        (lambda frame: Model.build(frame=frame, target="y", row_weights=np.ones(2)), "each of the 6 rows"),
        (lambda frame: Model.build(frame=frame, target="y", network=MLP(1, (2,), 3)), "asks for 1 outputs"),
        (
            lambda frame: Model(MLP(1, (2,)), Gaussian(0.1), IsotropicGaussian(3)),
            "over 3 weights, but the network has 7",
        ),
        (
            lambda frame: Model.build(frame=frame.assign(y=["a", "b"] * 3), target="y", noise=0.1),
            "has no noise",
        ),
        (
            lambda frame: Model.build(frame=frame.assign(y=["a", "b"] * 3), target="y", noise="varying"),
            "has no noise",
        ),
        (
            lambda frame: Model.build(frame=frame, target="y", noise="varying", network=MLP(1, (2,))),
            "a second output of the network, but this one has 1",
        ),
        (lambda frame: Model.build(frame=frame, target="y", noise="loud"), "\"varying\" where .* not 'loud'"),
        (
            lambda frame: Model.build(frame=frame, target="y", noise=-1.0),
            "positive standard deviation .* -1.0",
        ),
        (lambda frame: Model.build(frame=frame, target="y", noise=True), "not True"),
        (lambda frame: Model.build(frame=frame.assign(y=["a"] * 6), target="y"), "the one class 'a'"),
    ],
)
def test_models_that_cannot_be_are_refused(frame, make, cause):
    with pytest.raises(ModelError, match=cause):
        make(frame)
