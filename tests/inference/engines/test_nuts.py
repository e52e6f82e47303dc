"""The No-U-Turn sampler through our seam: the exact density alone, bounded trajectories, honest infos."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chain_checks import at_strength, raw_model, typed_context
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.nuts import Nuts

MEMBERS, STEPS = 4, 20


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@cache
def case() -> tuple[Density, Context]:
    rules = {"band": "if -0.5 <= x <= 0.5 then 0 <= y <= 1"}
    model = raw_model([0.5, 0.1, 0.9, 1.4], rules, hidden=(), noise=0.5, points=6, strength=5.0)
    return Density(model), typed_context(model)


@partial(jax.jit, static_argnums=0)
def _run(engine: Nuts, step_size: Any, context: Context, key: Any) -> Any:
    """Steps with the step size as an argument: one compilation for all of them."""
    density = case()[0]
    state = engine.init(density, key, jnp.tile(jnp.asarray([[0.2, 0.4]]), (MEMBERS, 1)), context)
    state = state._replace(tuning=state.tuning._replace(step_size=step_size))
    first = state
    state, info = jax.lax.scan(
        lambda state, key: engine.step(density, key, state, context), state, jax.random.split(key, STEPS)
    )
    return first, state, info


def run(step_size: float, context: Context | None = None, seed: int = 0) -> Any:
    engine = Nuts(warmup=0, max_doublings=4)
    return _run(engine, jnp.asarray(step_size), context or case()[1], jax.random.key(seed))


def test_every_chain_is_a_group_of_its_own() -> None:
    assert Nuts().groups(3, 2) == (1, 1, 1)


def test_the_state_carries_the_density_and_gradient_of_where_it_is() -> None:
    density, context = case()
    _, state, info = run(0.3)
    exact = jax.jit(jax.vmap(jax.value_and_grad(density.log_density), in_axes=(0, None)))(
        state.chains.position, context
    )
    np.testing.assert_allclose(state.chains.logdensity, exact[0], rtol=1e-12)
    np.testing.assert_allclose(state.chains.logdensity_grad, exact[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(info.log_density[-1], state.chains.logdensity)
    assert len(np.unique(np.asarray(state.chains.position)[:, 0])) == MEMBERS


def test_nodes_play_no_part() -> None:
    context = case()[1]
    weak = context._replace(nodes=at_strength(context, 1e-3).nodes)
    np.testing.assert_array_equal(run(0.3)[1].chains.position, run(0.3, weak)[1].chains.position)


def test_doublings_bound_the_work() -> None:
    _, _, info = run(1e-4)
    np.testing.assert_array_equal(info.work, 2**4 - 1)
    assert np.all(np.asarray(run(0.3)[2].work) < 2**4)
    assert not np.any(info.diverged)


def test_steps_that_are_far_too_long_diverge_and_leave_the_position() -> None:
    first, state, info = run(300.0)
    assert np.all(info.diverged)
    assert np.all(np.asarray(info.acceptance) < 1e-6)
    np.testing.assert_array_equal(state.chains.position, first.chains.position)


def test_without_warmup_nothing_is_tuned() -> None:
    _, state, _ = run(0.3)
    assert float(state.tuning.step_size) == 0.3
    np.testing.assert_array_equal(state.tuning.inverse_mass, 1.0)
    assert int(state.tuning.iteration) == STEPS
