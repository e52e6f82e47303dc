"""Networks over a flat vector."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ocbnn.errors import ModelError
from ocbnn.model.networks import ACTIVATIONS, MLP, FunctionNetwork, Network

X = np.random.default_rng(0).normal(size=(5, 3))
NONLINEARITIES = {
    "rbf": lambda z: np.exp(-(z**2)),
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0.0),
    "gelu": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
}


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def plain_mlp(w, x, widths, nonlinearity):
    """The naive twin: one layer after the other, cut out of w by hand."""
    start, values = 0, x
    for layer, (before, after) in enumerate(itertools.pairwise(widths)):
        weights = w[start : start + before * after].reshape(before, after)
        biases = w[start + before * after : start + (before + 1) * after]
        start += (before + 1) * after
        values = values @ weights + biases
        values = nonlinearity(values) if layer < len(widths) - 2 else values
    assert start == len(w)
    return values


@pytest.mark.parametrize(
    ("activation", "hidden"),
    [("rbf", ()), ("tanh", (4,)), *[(activation, (5, 2, 3)) for activation in ACTIVATIONS]],
    ids=str,
)
@pytest.mark.parametrize("computed", [{}, {"sums_below": 60}, {"sums_below": 10**6}], ids=str)
def test_an_mlp_is_its_layers_one_after_the_other(activation, hidden, computed):
    network = MLP(3, hidden, 2, activation, **computed)
    w = np.random.default_rng(1).normal(size=network.size)
    expected = plain_mlp(w, X, network.widths, NONLINEARITIES[activation])
    np.testing.assert_allclose(network.apply(w, X), expected, rtol=1e-10, atol=1e-12)


def test_one_input_and_one_unit_are_no_special_case():
    network = MLP(1, (1,), 1, "tanh")
    w = np.array([0.5, -0.2, 2.0, 0.1])
    expected = 2.0 * np.tanh(0.5 * X[:, :1] - 0.2) + 0.1
    np.testing.assert_allclose(network.apply(w, X[:, :1]), expected, rtol=1e-12)


def test_figure_1_has_31_weights():
    assert MLP(1, (10,)).size == 31


def test_bounded_says_whether_the_last_hidden_layer_is():
    assert MLP(3, (4,), activation="rbf").bounded
    assert MLP(3, (4,), activation="tanh").bounded
    assert not MLP(3, (4,), activation="relu").bounded
    assert not MLP(3, (4,), activation="gelu").bounded
    assert not MLP(3, (), activation="rbf").bounded


def test_fan_in_counts_the_units_that_feed_a_weight():
    np.testing.assert_array_equal(MLP(3, (2,), 1).fan_in(), [3.0] * 6 + [1.0] * 2 + [2.0] * 2 + [1.0])


def test_the_weights_of_one_output_move_that_output_alone():
    network = MLP(3, (4,), 2)
    w = np.random.default_rng(1).normal(size=network.size)
    moved = w.copy()
    moved[network.output_places(1)] += 1.0
    before, after = (np.asarray(network.apply(each, X)) for each in (w, moved))
    np.testing.assert_array_equal(before[:, 0], after[:, 0])
    assert (before[:, 1] != after[:, 1]).all()
    assert len(network.output_places(1)) == 5
    moved = w.copy()
    moved[network.output_places(1)[-1]] += 1.0
    np.testing.assert_allclose(network.apply(moved, X)[:, 1], before[:, 1] + 1.0, rtol=1e-12)


@pytest.mark.parametrize("signs", [(), (1, -1, 0)], ids=str)
def test_a_linear_part_is_a_linear_network_beside_the_layers(signs):
    network = MLP(3, (4, 5), 2, "tanh", signs, linear=True)
    w = np.random.default_rng(1).normal(size=network.size)
    places = network.linear_places()
    layers, linear = MLP(3, (4, 5), 2, "tanh", signs), MLP(3, (), 2, "tanh", signs)
    expected = layers.apply(np.delete(w, places), X) + linear.apply(np.append(w[places], [0.0, 0.0]), X)
    np.testing.assert_allclose(network.apply(w, X), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(np.delete(network.fan_in(), places), layers.fan_in())
    np.testing.assert_array_equal(network.fan_in()[places], linear.fan_in()[:-2])
    assert not network.bounded
    assert set(places[1::2]) < set(network.output_places(1))


def test_without_hidden_layers_there_is_nothing_to_stand_beside():
    network = MLP(3, (), 2, linear=True)
    assert network.size == MLP(3, (), 2).size
    assert network.plain
    assert len(network.linear_places()) == 0


def test_outputs_follow_the_dtype_of_the_weights():
    network = MLP(3, (4,))
    assert network.apply(jnp.ones(network.size, jnp.float32), X).dtype == jnp.float32
    assert network.apply(jnp.ones(network.size), X).dtype == jnp.float64


def test_initial_weights_are_a_function_of_the_key():
    network = MLP(3, (4,))
    assert network.initial(0).shape == (network.size,)
    np.testing.assert_array_equal(network.initial(7), network.initial(jax.random.key(7)))
    assert not np.array_equal(network.initial(0), network.initial(1))


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda: MLP(1, (3,), activation="swish"), "no activation 'swish'.*rbf, tanh, relu, gelu"),
        (lambda: MLP(1, (0,)), "at least one unit"),
        (lambda: FunctionNetwork.wrap(lambda params, x: x, {}), "no array"),
    ],
)
def test_networks_that_cannot_be_are_refused(make, cause):
    with pytest.raises(ModelError, match=cause):
        make()


def _quadratic(params, x):
    return (x**2) @ params["square"]["weights"] + params["bias"]


EXAMPLE = {"square": {"weights": np.array([1.0, 2.0, 3.0])}, "bias": np.array(0.5)}


def test_a_users_function_is_a_network_over_a_flat_vector():
    network = FunctionNetwork.wrap(_quadratic, EXAMPLE)
    assert isinstance(network, Network)
    assert network.size == 4
    w = network.ravel(EXAMPLE)
    np.testing.assert_array_equal(w, network.example)
    np.testing.assert_allclose(
        network.apply(w, X)[:, 0], X**2 @ EXAMPLE["square"]["weights"] + 0.5, rtol=1e-12
    )
    gradient = jax.grad(lambda v: jnp.sum(network.apply(v, X)))(w)
    np.testing.assert_allclose(gradient, [5.0, *(X**2).sum(axis=0)], rtol=1e-12)


def test_a_users_function_also_runs_in_float32():
    network = FunctionNetwork.wrap(_quadratic, EXAMPLE)
    with jax.enable_x64(False):
        outputs = network.apply(network.initial(0), X)
    assert outputs.dtype == jnp.float32
    assert outputs.shape == (5, 1)


def test_a_users_network_starts_near_its_example():
    network = FunctionNetwork.wrap(_quadratic, EXAMPLE, bounded=True)
    assert network.bounded
    starts = np.stack([network.initial(key) for key in range(200)])
    error = 0.1 / np.sqrt(200)
    np.testing.assert_allclose(starts.mean(axis=0), network.example, atol=5 * error)


def test_the_mlp_is_the_same_function_when_wrapped():
    mlp = MLP(3, (4,), 2, "gelu")
    w = mlp.initial(0)
    wrapped = FunctionNetwork.wrap(lambda params, x: mlp.apply(params, x), np.asarray(w), outputs=2)
    np.testing.assert_array_equal(wrapped.apply(w, X), mlp.apply(w, X))
