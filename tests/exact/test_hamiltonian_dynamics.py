"""hmc with gradients of a surrogate: still exact, since its proposals are reversible and keep volume.

The surrogate is deliberately poor: 2 of a rule's 100 points.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chain_checks import (
    Moments,
    assert_exact,
    curved_network,
    quadrature,
    raw_model,
    standard_errors_away,
    typed_context,
)
from engines import drive
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.hmc import Hmc, force_of, leapfrog
from ocbnn.model.outputs import Precision

POINTS = 100
CHAINS, WARMUP, KEPT = 24, 200, 3000
# No adaptation: with gradients this poor, no step size is so small that all is accepted.
ENGINE = Hmc(adapt=False, step_size=0.1, trajectory=1.0)


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        case()  # not first within a trace
        yield


@cache
def case() -> tuple[Density, Context]:
    """A rule scored at 100 points whose gradient comes from two of the left half."""
    model = raw_model(
        [0.8, -0.3, 0.5, 0.2],
        rules={"band": "if -1 <= x <= 1 then -0.1 <= y <= 0.6"},
        network=curved_network(),
        noise=0.7,
        points=POINTS,
        strength=40.0,
    )
    context = typed_context(model)
    (points,) = context.points
    # As many nodes as points, of which two count: one shape, one compilation.
    counting = np.argsort(np.asarray(points.inputs)[:, 0])[[10, 45]]
    weights = jnp.zeros(POINTS).at[counting].set(0.5)
    return Density(model), context._replace(nodes=(points._replace(weights=weights),))


def moments(context: Context) -> Moments:
    return quadrature(case()[0], context, *([np.linspace(-6.0, 6.0, 301)] * 2))


def draws(context: Context, seed: int) -> np.ndarray:
    start_key, key = jax.random.split(jax.random.key(seed))
    starts = 0.3 * jax.random.normal(start_key, (CHAINS, 2))
    return np.asarray(drive(ENGINE, case()[0], starts, context, WARMUP + KEPT, key).draws)[:, WARMUP:]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_poor_gradients_change_no_moment(seed: int) -> None:
    _, context = case()
    assert_exact(draws(context, seed), moments(context))


@pytest.mark.slow
def test_all_points_in_the_gradient_give_the_same_moments() -> None:
    _, context = case()
    assert_exact(draws(context._replace(nodes=context.points), 1), moments(context))


def test_accepting_with_the_surrogate_would_be_noticed() -> None:
    _, context = case()
    wrong = draws(context._replace(points=context.nodes), 1)
    assert_exact(wrong, moments(context._replace(points=context.nodes)))
    assert np.max(np.abs(standard_errors_away(wrong, moments(context)))) > 20


def moved(place: Any, steps: int, kind: Precision = "float64") -> Any:
    """The end `(positions, momenta)` of a trajectory, both flat in one vector; `kind` is of gradients."""
    density, context = case()
    positions, momenta = place[None, :2], place[None, 2:]
    gradient = force_of(density, context, kind)(positions)
    step, inverse_mass = jnp.asarray(0.07), jnp.asarray([0.5, 2.0])
    ends = leapfrog(density, context, positions, momenta, gradient, step, inverse_mass, steps, kind)
    return jnp.concatenate([ends[0][0], ends[1][0]])


KINDS: tuple[Precision, ...] = ("float64", "float32")
PLACES = np.random.default_rng(0).normal(0.0, 0.7, (4, 4))


def test_gradients_are_not_those_of_the_density_here() -> None:
    density, context = case()
    exact, poor = (
        np.asarray(jax.jit(jax.vmap(jax.grad(part), in_axes=(0, None)))(PLACES[:, :2], context))
        for part in (density.log_density, density.surrogate)
    )
    assert np.all(np.linalg.norm(exact - poor, axis=1) > 0.1 * np.linalg.norm(exact, axis=1))


@pytest.mark.parametrize(("kind", "steps"), [("float64", 40), ("float32", 40), ("float32", 600)])
def test_a_trajectory_with_turned_momenta_leads_back(kind: Precision, steps: int) -> None:
    """Gradients in float32, the default, are rounded, but alike on the way back: positions are in float64."""
    assert Hmc().gradients == "float32"
    move = jax.jit(jax.vmap(lambda place: moved(place, steps, kind)))
    turned = np.array([1.0, 1.0, -1.0, -1.0])
    ends = np.asarray(move(PLACES))
    assert ends.dtype == np.float64
    assert np.min(np.linalg.norm(ends - PLACES, axis=1)) > 0.1
    back = turned * np.asarray(move(turned * ends))
    np.testing.assert_allclose(back, PLACES, atol=1e-10)


def test_rounded_gradients_lead_elsewhere_but_not_far() -> None:
    """So that the precision is not ignored: the way back is exact though the way is another."""
    exact, rounded = (np.asarray(jax.jit(jax.vmap(partial(moved, steps=40, kind=k)))(PLACES)) for k in KINDS)
    assert 1e-9 < np.abs(exact - rounded).max() < 1e-3


def test_positions_in_float32_would_not_lead_back() -> None:
    turned = np.array([1.0, 1.0, -1.0, -1.0], np.float32)
    with jax.enable_x64(False):
        move = jax.jit(jax.vmap(lambda place: moved(place, 600, "float32")))
        back = turned * np.asarray(move(turned * np.asarray(move(PLACES.astype(np.float32)))))
    assert np.abs(back - PLACES).max() > 1e-7


def test_a_trajectory_keeps_volume() -> None:
    jacobians = np.asarray(jax.jit(jax.vmap(jax.jacfwd(lambda place: moved(place, 40))))(PLACES))
    assert np.min(np.abs(jacobians - np.eye(4)).max(axis=(1, 2))) > 0.1
    np.testing.assert_allclose(np.linalg.det(jacobians), 1.0, atol=1e-10)
