"""Bounds over boxes hold at every point of them, by random points, by mpmath's intervals, by autodiff."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from ocbnn.errors import ModelError
from ocbnn.model.boxes import UNIT, largest
from ocbnn.model.networks import ACTIVATIONS as KNOWN
from ocbnn.model.networks import MLP, FunctionNetwork
from ocbnn.model.outputs import precision
from ocbnn.model.shapes import ELEMENTARY, SHAPES, slope_span, span
from ocbnn.proof.bounds import Spread
from proof.networks import ACTIVATIONS, ROWS, boxes, draws, network, points_in, values

mpmath.mp.dps = 40
EXACT = {
    "rbf": lambda z: mpmath.exp(-z * z),
    "tanh": mpmath.tanh,
    "relu": lambda z: max(z, mpmath.mpf(0)),
    "gelu": lambda z: (
        z / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf("0.044715") * z**3)))
    ),
}


def upper(spread, weights, low, high, rows=ROWS):
    with precision("float64"):
        layers = spread.layers(weights, low, high)
        forms = spread.forms(layers, jnp.asarray(rows))
        return np.asarray(largest(forms.slopes, low, high, spread.groups) + forms.constant)


def test_every_activation_can_be_bounded():
    assert SHAPES.keys() == KNOWN.keys()


def test_other_networks_are_refused_with_a_remedy():
    own = FunctionNetwork.wrap(lambda w, x: x @ w, np.ones((2, 1)))
    with pytest.raises(ModelError, match="check_rules"):
        Spread(own)


# With a linear part and without. What a linear part is added to is in the quick one too.
DEPTHS = [pytest.param(hidden, False, marks=pytest.mark.slow) for hidden in ((), (7,), (6, 5), (4, 4, 4))]
DEPTHS += [((6, 5), True), pytest.param((7,), True, marks=pytest.mark.slow)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("hidden", "linear"), DEPTHS)
def test_no_point_of_a_box_is_above_its_bound(activation, hidden, linear):
    net, count = network(activation, hidden, linear=linear), 64
    weights = draws(net, count)
    low, high = boxes(count, 3)
    bound = upper(Spread(net), weights, low, high)
    inside = values(net, weights, points_in(low, high, 200)) @ ROWS.T
    assert (inside <= bound[:, None]).all()


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_no_point_is_above_its_bound_where_the_weights_that_count_are_computed(activation, kind):
    net, count = MLP(3, (6, 5), 2, activation, (1, -1, 0), linear=True), 64
    weights = draws(net, count).astype(kind).astype(float)
    low, high = (ends.astype(np.float32).astype(float) for ends in boxes(count, 3))
    spread = Spread(net, float(np.finfo(kind).eps) / 2)
    places = points_in(low, high, 200).astype(kind).astype(float)
    bound = upper(spread, weights, low, np.maximum(low, high))
    inside = values(net, weights, np.clip(places, low[:, None], high[:, None]), kind)
    # Rows of the outputs are summed outside of the network: each output by itself here.
    assert (inside <= bound[:, None, :2]).all()
    assert (np.delete(bound, [2, 3], axis=1) - inside.max(axis=1)).min() < 0.1


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bounds_close_in_on_the_function_as_boxes_shrink(activation):
    net = network(activation, linear=True)
    weights, center = draws(net, 64), np.random.default_rng(1).normal(size=(64, 3))
    there = values(net, weights, center[:, None])[:, 0] @ ROWS.T
    for radius, gap in ((1e-4, 1e-2), (1e-8, 1e-6), (0.0, 1e-11)):
        bound = upper(Spread(net), weights, center - radius, center + radius)
        assert (bound >= there).all()
        assert (bound - there).max() < gap


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_halving_every_side_quarters_what_is_left_open(activation):
    # Linear bounds converge with the square of the width; intervals would only halve.
    net = network(activation)
    weights, center = draws(net, 64), np.random.default_rng(1).normal(size=(64, 3))
    gaps = []
    for radius in (0.02, 0.01):
        low, high = center - radius, center + radius
        bound = upper(Spread(net), weights, low, high)
        corners = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
        inside = values(net, weights, low[:, None] + corners * (high - low)[:, None]) @ ROWS.T
        gaps.append((bound - inside.max(axis=1)).sum())
    assert gaps[1] < 0.35 * gaps[0] or activation == "relu"


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bounds_hold_for_the_exact_function_at_forty_digits(activation):
    net = network(activation, (4, 3), 2)
    weights = draws(net, 12)
    low, high = boxes(12, 2, seed=3)
    bound = upper(Spread(net), weights, low, high)
    points = points_in(low, high, 8, seed=4)
    for number in range(12):
        with precision("float64"):
            layers = [(np.asarray(w), np.asarray(b)) for w, b in net.unravel(weights[number])]
        for point in points[number]:
            exact = [mpmath.mpf(x) for x in point]
            for place, (matrix, biases) in enumerate(layers):
                exact = [
                    mpmath.fsum(a * mpmath.mpf(w) for a, w in zip(exact, column, strict=True)) + mpmath.mpf(b)
                    for column, b in zip(matrix.T, biases, strict=True)
                ]
                if place < len(layers) - 1:
                    exact = [EXACT[activation](z) for z in exact]
            for row, end in zip(ROWS, bound[number], strict=True):
                assert mpmath.fsum(mpmath.mpf(r) * z for r, z in zip(row, exact, strict=True)) <= mpmath.mpf(
                    end
                )


@pytest.mark.parametrize("activation", ["tanh", "rbf"])
def test_bounds_overlap_those_of_interval_arithmetic_and_are_tighter_on_small_boxes(activation):
    net = network(activation, (4, 3), 2)
    weights = draws(net, 20)
    low, high = boxes(20, 2, seed=5)
    bound = upper(Spread(net), weights, low, high, np.concatenate([ROWS, -ROWS]))
    tighter = []
    for number in range(20):
        with precision("float64"):
            layers = [(np.asarray(w), np.asarray(b)) for w, b in net.unravel(weights[number])]
        iv = mpmath.iv
        state = [iv.mpf([a, b]) for a, b in zip(low[number], high[number], strict=True)]
        for place, (matrix, biases) in enumerate(layers):
            state = [
                sum((a * iv.mpf(float(w)) for a, w in zip(state, column, strict=True)), iv.mpf(float(b)))
                for column, b in zip(matrix.T, biases, strict=True)
            ]
            if place < len(layers) - 1 and activation == "rbf":
                state = [iv.exp(-(z**2)) for z in state]
            elif place < len(layers) - 1:
                state = [1 - 2 / (iv.exp(2 * z) + 1) for z in state]
        for index, row in enumerate(ROWS):
            total = sum(iv.mpf(float(r)) * z for r, z in zip(row, state, strict=True))
            ours = -bound[number, len(ROWS) + index], bound[number, index]
            theirs = [float(mpmath.mp.make_mpf(end)) for end in total._mpi_]
            assert ours[0] <= theirs[1]  # both hold the function, so they meet
            assert ours[1] >= theirs[0]
            if (high[number] - low[number]).max() > 1e-9:
                tighter.append((ours[1] - ours[0]) <= 1.001 * (theirs[1] - theirs[0]))
    assert np.mean(tighter) > 0.95


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("linear", [False, True])
def test_bounds_hold_for_what_is_computed_in_float32(activation, linear):
    net, count = network(activation, linear=linear), 64
    weights = draws(net, count).astype(np.float32).astype(float)
    low, high = (end.astype(np.float32).astype(float) for end in boxes(count, 3))
    unit = float(np.finfo(np.float32).eps) / 2
    bound = upper(Spread(net, unit), weights, low, high)
    predicted = values(net, weights, points_in(low, high, 100), "float32") @ ROWS.T
    assert (predicted <= bound[:, None]).all()
    exact = upper(Spread(net), weights, low, high)
    assert ((bound - exact) < 0.01).all()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("hidden", "linear"), DEPTHS)
def test_bounds_of_the_jacobian_hold_the_derivatives_at_every_point(activation, hidden, linear):
    net, count = network(activation, hidden, linear=linear), 64
    weights = draws(net, count)
    low, high = boxes(count, 3, seed=2)
    points = points_in(low, high, 40)
    spread = Spread(net)
    with precision("float64"):
        layers = spread.layers(weights, low, high)
        least, most = (np.asarray(end) for end in spread.jacobian(layers, jnp.asarray(ROWS)))

        def derivatives(w, x):
            return ROWS @ jax.jacobian(lambda each: net.apply(w, each[None])[0])(x)

        found = np.asarray(
            jax.vmap(jax.vmap(derivatives, (None, 0)))(jnp.asarray(weights), jnp.asarray(points))
        )
    assert (found >= least[:, None]).all()
    assert (found <= most[:, None]).all()
    point = (high - low).max(axis=1) < 1e-9
    if activation != "relu":
        assert (most - least)[point].max() < 1e-6


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_round_as_their_shape_says(activation):
    z = np.concatenate([np.linspace(-12, 12, 2001), 10.0 ** np.linspace(-12, 2, 200)])
    for kind, unit in (("float64", UNIT), ("float32", 2.0**-24)):
        with precision(kind):
            given = jnp.asarray(z.astype(kind))
            computed = np.asarray(jax.jit(KNOWN[activation].function)(given)).astype(float)
        for place, value in zip(np.asarray(given).astype(float), computed, strict=True):
            exact = EXACT[activation](mpmath.mpf(place))
            assert abs(mpmath.mpf(value) - exact) <= ELEMENTARY / 2 * unit * (1 + abs(place))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_shapes_hold_what_they_say_of_values_slopes_and_curvature(activation):
    z = np.linspace(-9, 9, 6001)
    shape = SHAPES[activation]
    with precision("float64"):
        value = np.asarray(KNOWN[activation].function(jnp.asarray(z)))
        slope = np.asarray(shape.derivative(jnp.asarray(z)))
        assert (np.abs(slope) <= shape.steepest).all()
        smooth = np.abs(z)[1:-1] > 0.01 if shape.kinks else np.ones(len(z) - 2, dtype=bool)
        bent = np.abs(np.diff(value, 2) / (z[1] - z[0]) ** 2)[smooth]
        assert (bent <= shape.curvature + 1e-5).all()
        generator = np.random.default_rng(0)
        for _ in range(200):
            first, last = np.sort(generator.integers(len(z), size=2))
            ends = jnp.asarray(z[first]), jnp.asarray(z[last])
            for found, (least, most) in (
                (value, span(activation, *ends)),
                (slope, slope_span(activation, *ends)),
            ):
                assert found[first : last + 1].min() >= float(least) - 1e-12
                assert found[first : last + 1].max() <= float(most) + 1e-12


def test_one_of_the_levels_of_a_category_is_one():
    # A linear model on three one-hot inputs: its largest value is that of the best level that is left.
    net = MLP(3, (), 2, "tanh")
    weights = draws(net, 1)
    spread = Spread(net, groups=((0, 3),))
    matrix, biases = weights[0][:6].reshape(3, 2), weights[0][6:]
    for allowed in ([1, 1, 1], [1, 0, 1], [0, 1, 0]):
        high = np.array([allowed], dtype=float)
        low = high * (high.sum() == 1)
        bound = upper(spread, weights, low, high)[0]
        levels = [matrix[level] + biases for level in range(3) if allowed[level]]
        assert bound == pytest.approx(np.max(ROWS @ np.transpose(levels), axis=1), abs=1e-12)


def test_slopes_are_handed_from_program_to_program():
    """On boxes of nearly no width a slope is noise; the line has to be placed for the slope that is used."""
    net = network("tanh", (8, 8))
    weights = np.repeat(draws(net, 1), 256, axis=0)
    center = np.random.default_rng(0).normal(size=(256, 3))
    width = 10.0 ** np.linspace(-17, -10, 256)[:, None]
    low, high = center - width, center + width
    bound = upper(Spread(net), weights, low, high)
    inside = values(net, weights, points_in(low, high, 50)) @ ROWS.T
    assert (inside <= bound[:, None]).all()
    assert (bound - inside.max(axis=1)).max() < 1e-8
