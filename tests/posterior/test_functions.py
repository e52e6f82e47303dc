"""What draws say at rows: the same as plain NumPy, whatever else is in the batch."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.model.outputs import LARGE, ROWS, working_precision
from ocbnn.posterior.draws import Posterior, function_blocks, function_draws
from posterior_cases import CENTER, SCALE, number_schema, random_posterior


@pytest.fixture(scope="module")
def small():
    return random_posterior(Model.build(schema=number_schema(2), hidden=(4, 3), activation="tanh"), (2, 35))


@pytest.fixture(scope="module")
def large():
    return random_posterior(
        Model.build(schema=number_schema(2), hidden=(101, 103), noise=0.1), (1, 5), spread=0.1
    )


def twin(posterior, coded):
    """The forward pass by hand, draw by draw."""
    network, result = posterior.model.network, []
    for w in posterior.flat:
        values, at = coded, 0
        for layer, (before, after) in enumerate(zip(network.widths[:-1], network.widths[1:], strict=True)):
            weights = w[at : at + before * after].reshape(before, after)
            values = values @ weights + w[at + before * after : at + (before + 1) * after]
            at += (before + 1) * after
            if layer < len(network.hidden):
                values = np.tanh(values) if network.activation == "tanh" else np.exp(-(values**2))
        result.append(values[:, 0] * SCALE + CENTER)
    return np.array(result)


def test_function_draws_agree_with_a_forward_pass_by_hand(small):
    coded = np.random.default_rng(1).normal(size=(ROWS + 7, 2))
    np.testing.assert_allclose(function_draws(small, coded), twin(small, coded), rtol=1e-11, atol=1e-11)


def test_large_networks_are_computed_in_single_precision_and_small_ones_in_double(small, large):
    assert large.model.network.size > LARGE
    assert working_precision(large.model) == "float32"
    assert working_precision(small.model) == "float64"
    coded = np.random.default_rng(1).normal(size=(20, 2))
    np.testing.assert_allclose(function_draws(large, coded), twin(large, coded), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("which", ["small", "large"])
def test_a_row_is_predicted_the_same_in_any_batch(which, request):
    posterior = request.getfixturevalue(which)
    coded = np.random.default_rng(2).normal(size=(ROWS + 100, 2))
    together = function_draws(posterior, coded)
    for row in (0, 3, ROWS - 1, ROWS, ROWS + 99):
        alone = function_draws(posterior, coded[row : row + 1])
        np.testing.assert_array_equal(alone[:, 0], together[:, row])
    order = np.random.default_rng(3).permutation(len(coded))
    np.testing.assert_array_equal(function_draws(posterior, coded[order]), together[:, order])


def test_many_draws_make_smaller_blocks_and_the_same_predictions(small):
    many = Posterior(np.tile(small.draws[:1], (1, 250, 1)), small.model)
    coded = np.random.default_rng(2).normal(size=(300, 2))
    sizes = [block.stop - block.start for block, _ in function_blocks(many, coded)]
    assert sizes == [256, 44]
    first = np.concatenate([values[:35] for _, values in function_blocks(many, coded)], axis=1)
    np.testing.assert_allclose(first, function_draws(small, coded)[:35], rtol=1e-12)


def test_a_frame_and_its_coded_rows_are_the_same_and_other_shapes_are_refused(small):
    frame = pd.DataFrame({"x2": [0.5, -1.0], "extra": ["a", "b"], "x1": [1.0, 2.0]})
    np.testing.assert_array_equal(
        function_draws(small, frame), function_draws(small, np.array([[1.0, 0.5], [2.0, -1.0]]))
    )
    assert function_draws(small, np.zeros((0, 2))).shape == (70, 0)
    with pytest.raises(OCBNNError, match="coded rows of the shape"):
        function_draws(small, np.zeros((3, 5)))
