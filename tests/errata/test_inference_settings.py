"""Errata I3, I5 and I6: where the paper's text and its code differ, both are settings of our engines."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from engines import context_of, drive, linear_gaussian
from ocbnn.inference.density import Density
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.engines.svgd import Svgd

PAPER = {"optimizer": "adagrad", "decay": "constant"}
MEMBERS = 2


def started(engine: Bbb, positions: Any = None) -> Any:
    positions = jnp.full((MEMBERS, 2000), 0.25) if positions is None else positions
    density: Any = None  # the initial q depends on the settings alone
    return engine.init(density, jax.random.key(0), positions, density).q


def test_i3_means_start_where_the_text_or_the_code_has_them() -> None:
    np.testing.assert_array_equal(started(Bbb(initial_mean="zero")).mean, 0.0)
    np.testing.assert_array_equal(started(Bbb(initial_mean="start")).mean, 0.25)
    drawn = np.asarray(started(Bbb(initial_mean="normal")).mean)
    # 4,000 draws of N(0, 1): 4 standard errors.
    assert abs(drawn.mean()) < 4 / np.sqrt(drawn.size)
    assert abs(drawn.std() - 1.0) < 4 / np.sqrt(2 * drawn.size)


@pytest.mark.parametrize(
    ("raw", "scale"), [(-0.5, 0.474), (0.0, 0.693), (1.0, 1.313), (np.log(np.expm1(1.0)), 1.0)]
)
def test_i3_standard_deviations_start_where_the_text_or_the_code_has_them(raw: float, scale: float) -> None:
    softplus = float(np.log1p(np.exp(raw)))
    assert round(softplus, 3) == scale
    q = started(Bbb(initial_scale=softplus))
    np.testing.assert_allclose(q.scale, softplus, rtol=1e-6)
    np.testing.assert_allclose(q.raw_scale, raw, atol=1e-6)


@pytest.mark.parametrize(
    "engine",
    [Svgd(learning_rate=rate, **PAPER) for rate in (0.75, 0.5)]
    + [Bbb(learning_rate=rate, **PAPER) for rate in (0.1, 0.5)],
    ids=["svgd-text", "svgd-code", "bbb-text", "bbb-code"],
)
def test_i5_the_first_step_of_adagrad_is_the_learning_rate_and_the_rate_does_not_fall(engine: Any) -> None:
    """Steps are rate·g/√Σg²: the first moves every weight by the rate, the k-th with equal g by rate/√k."""
    parameters, gradient = jnp.zeros(3), jnp.asarray([1e-3, -2.0, 50.0])
    state = engine.ascent.init(parameters)
    for step in range(1, 5):
        moved, state = engine.ascent.climb(parameters, gradient, state)
        expected = engine.learning_rate * np.sign(gradient) / np.sqrt(step)
        np.testing.assert_allclose(moved - parameters, expected, rtol=1e-4)
        parameters = moved


def test_i6_a_step_is_one_minibatch_and_counts_as_one() -> None:
    exact = linear_gaussian(rule=False)
    density, context = Density(exact.model), context_of(exact.model)
    assert context.data is not None
    batch = context._replace(
        data=context.data._replace(
            inputs=context.data.inputs[:4], y=context.data.y[:4], weights=jnp.full(4, 3.0)
        )
    )
    engine = Svgd(steps=10, learning_rate=0.5, **PAPER)
    assert engine.warmup == 10
    state, _, info = drive(engine, density, jnp.ones((MEMBERS, 3)), batch, 1, jax.random.key(0))
    assert info.log_density.shape == (1, MEMBERS)
    # One update of that batch alone: every weight has moved by exactly the learning rate.
    np.testing.assert_allclose(np.abs(state.positions - 1.0), 0.5, rtol=1e-4)
    expected = density.log_density(jnp.ones(3), batch)
    np.testing.assert_allclose(info.log_density, np.full((1, MEMBERS), expected), rtol=1e-5)
