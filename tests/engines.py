"""A tiny driver of engines, and a linear model whose posterior is known: shared by the tests of inference."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.base import Engine, Info
from ocbnn.model import Data, Model
from ocbnn.model.conditional import RulePoints

NOISE = 0.4
VALUE_RULE = "if 0 <= a <= 2 then y = 1.5 within 0.8"


class Driven(NamedTuple):
    """What a few steps gave: the last state, every step's draws if they are collected along, and infos."""

    state: Any
    draws: Any  # (chains, steps, size), or None
    info: Info  # leaves with the steps in front


def context_of(model: Model, dtype: Any = None) -> Context:
    """All rows and the points of the model's own rules, as arrays that a compiled function takes."""
    points = model.points
    context = Context(model.data, points, points)
    kind = jnp.result_type(float) if dtype is None else dtype
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, kind), context)


def drive(engine: Engine, density: Density, positions: Any, context: Context, steps: int, key: Any) -> Driven:
    """So many steps with one context, in one compiled loop."""
    return _drive(engine, density, steps, jnp.asarray(positions), context, key)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _drive(
    engine: Engine, density: Density, steps: int, positions: Any, context: Context, key: Any
) -> Driven:
    init_key, step_key = jax.random.split(key)

    def one(state: Any, key: Any) -> tuple[Any, Any]:
        state, info = engine.step(density, key, state, context)
        along = engine.draws(key, state, 1)[:, 0] if engine.has_chains else None
        return state, (along, info)

    state = engine.init(density, init_key, positions, context)
    state, (draws, info) = jax.lax.scan(one, state, jax.random.split(step_key, steps))
    return Driven(state, None if draws is None else jnp.swapaxes(draws, 0, 1), info)


def compiled_drives() -> int:
    """How many programs `drive` has compiled so far."""
    return int(_drive._cache_size())


class LinearGaussian(NamedTuple):
    """A linear model with its posterior N(mean, precision⁻¹) in closed form.

    `information` is the precision without the rule: what an anchored ensemble perturbs.
    """

    model: Model
    mean: np.ndarray
    precision: np.ndarray
    information: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        return np.linalg.inv(self.precision)


def linear_gaussian(rule: bool, rows: int = 12) -> LinearGaussian:
    """Two correlated inputs and a bias, known noise, N(0, 1) prior; with or without a rule of one value.

    A value's term is the logarithm of a Gaussian with the standard deviation margin/2: still closed form.
    """
    random = np.random.default_rng(7)
    a = random.normal(0.5, 1.0, rows)
    b = 0.6 * a + random.normal(0.0, 0.7, rows)
    y = 0.8 * a - 0.5 * b + 0.3 + random.normal(0.0, NOISE, rows)
    model = Model.build(
        frame=pd.DataFrame({"a": a, "b": b, "y": y}),
        target="y",
        rules=[VALUE_RULE] if rule else [],
        hidden=(),
        noise=NOISE,
        standardize=False,
        points=20,
        strength=5.0,
    )
    assert isinstance(model.data, Data)
    features = np.column_stack([model.data.inputs, np.ones(rows)])
    information = np.eye(3) + features.T @ features / NOISE**2
    precision, linear = information, features.T @ np.asarray(model.data.y) / NOISE**2
    for points in model.points:
        more_precision, more_linear = _of_rule(points)
        precision, linear = precision + more_precision, linear + more_linear
    return LinearGaussian(model, np.linalg.solve(precision, linear), precision, information)


def _of_rule(points: RulePoints) -> tuple[np.ndarray, np.ndarray]:
    """What a rule of one value adds to the precision and to precision times mean."""
    features = np.column_stack([points.inputs, np.ones(len(points.inputs))])
    peaks: Any = points.demand
    weight = np.asarray(points.weights) * float(points.strength) / (0.5 * np.asarray(peaks.margin)) ** 2
    return features.T @ (weight[:, None] * features), features.T @ (weight * np.asarray(peaks.values)[:, 0])
