"""Every engine of the table through the protocol of `inference/base.py`."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from engines import Driven, compiled_drives, context_of, drive
from ocbnn.inference.density import Density
from ocbnn.inference.engines import ENGINES
from ocbnn.inference.engines.base import Engine, Info
from ocbnn.model import Model

MEMBERS, STEPS = 3, 4
EVERY = pytest.mark.parametrize("name", list(ENGINES))
KINDS = pytest.mark.parametrize("kind", ["float32", "float64"])
DETERMINISTIC = {"svgd", "ensemble"}  # steps that use no random numbers


@cache
def density() -> Density:
    """A small network with a rule and learnt noise."""
    x = np.linspace(-2.0, 2.0, 7)
    frame = pd.DataFrame({"x": x, "y": np.sin(x)})
    return Density(
        Model.build(frame=frame, target="y", rules=["if 0 <= x <= 1 then 0 <= y <= 1"], hidden=(3,), points=5)
    )


def positions() -> np.ndarray:
    return 0.3 * np.random.default_rng(0).normal(size=(MEMBERS, density().size))


@cache
def driven(name: str, kind: str, *, data: bool = True, strength: float = 1.0, seed: int = 1) -> Driven:
    """A few steps, as NumPy arrays."""
    with jax.enable_x64(kind == "float64"):
        context = context_of(density().model)
        points = tuple(each._replace(strength=jnp.asarray(strength)) for each in context.points)
        context = context._replace(points=points, nodes=points)
        if not data:
            context = context._replace(data=None)
        start = jnp.asarray(positions(), kind)
        result = drive(ENGINES[name](), density(), start, context, STEPS, jax.random.key(seed))
        return jax.tree.map(np.asarray, result)


@EVERY
def test_it_is_an_engine_under_its_own_name(name: str) -> None:
    engine = ENGINES[name]()
    assert isinstance(engine, Engine)
    assert engine.name == name
    assert engine.warmup >= 0
    with pytest.raises(AttributeError):
        engine.name = "other"  # type: ignore[misc]
    assert hash(engine) == hash(ENGINES[name]())


@EVERY
@pytest.mark.parametrize(("chains", "cores"), [(1, 1), (1, 2), (4, 2), (5, 2), (50, 8)])
def test_its_groups_hold_every_chain_once(name: str, chains: int, cores: int) -> None:
    groups = ENGINES[name]().groups(chains, cores)
    assert sum(groups) == chains
    assert min(groups) >= 1


@EVERY
@KINDS
def test_shapes_and_precision_stay(name: str, kind: str) -> None:
    state, draws, info = driven(name, kind)
    engine = ENGINES[name]()
    floats = [leaf for leaf in jax.tree.leaves(state) if np.issubdtype(leaf.dtype, np.floating)]
    assert floats
    assert jax.tree.leaves(state)[0].shape[0] == MEMBERS
    assert {leaf.dtype for leaf in floats} == {np.dtype(kind)}
    assert all(np.all(np.isfinite(leaf)) for leaf in floats)
    assert isinstance(info, Info)
    assert info.log_density.shape == info.acceptance.shape == info.diverged.shape == (STEPS, MEMBERS)
    assert info.log_density.dtype == kind
    assert info.diverged.dtype == bool
    assert np.all((info.acceptance >= 0) & (info.acceptance <= 1))
    assert np.all(np.asarray(info.work) >= 1)
    assert (engine.has_chains) == (draws is not None)
    with jax.enable_x64(kind == "float64"):
        final = np.asarray(engine.draws(jax.random.key(2), jax.tree.map(jnp.asarray, state), 6))
    if engine.has_chains:
        assert draws.shape == (MEMBERS, STEPS, density().size)
        assert draws.dtype == final.dtype == kind
        np.testing.assert_array_equal(final, draws[:, -1:])
    else:
        assert final.ndim == 3
        assert final.shape[2] == density().size
        assert final.dtype == kind


@EVERY
def test_the_same_key_gives_the_same_result_and_another_key_another(name: str) -> None:
    first = jax.tree.leaves(driven(name, "float64").state)
    again = jax.tree.leaves(driven.__wrapped__(name, "float64").state)
    other = jax.tree.leaves(driven(name, "float64", seed=2).state)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.array_equal(first[0], other[0]) == (name in DETERMINISTIC)


@EVERY
def test_it_runs_without_data(name: str) -> None:
    state, _, info = driven(name, "float64", data=False)
    assert np.all(np.isfinite(info.log_density))
    assert not np.any(info.diverged)
    assert not np.array_equal(jax.tree.leaves(state)[0], positions())


@EVERY
def test_another_strength_moves_it_elsewhere_and_compiles_nothing_anew(name: str) -> None:
    usual = driven(name, "float64")
    compiled = compiled_drives()
    stronger = driven(name, "float64", strength=1e4)
    assert compiled_drives() == compiled
    assert not np.array_equal(usual.info.log_density, stronger.info.log_density)
