"""What tests of chains share: moments in Monte Carlo standard errors, quadrature, models of few weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from arviz_stats.base import array_stats

from ocbnn.inference.density import Context, Density
from ocbnn.model import Model
from ocbnn.model.networks import FunctionNetwork
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema

MOST_STANDARD_ERRORS = 4.0


class Moments(NamedTuple):
    """Mean and variance of every coordinate of w."""

    mean: np.ndarray
    variance: np.ndarray


def standard_errors_away(draws: Any, exact: Moments) -> np.ndarray:
    """How far draws `(chains, draws, size)` are from the exact mean and variance: `(2, size)` in MCSE.

    The variance is taken as the mean of (w − μ)² around the known μ. So both are means, and their errors come
    from the effective sample size of the very quantity that is averaged.
    """
    draws = np.asarray(draws)

    def away(values: np.ndarray, expected: np.ndarray) -> np.ndarray:
        error = array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")
        return (values.mean(axis=(0, 1)) - expected) / error

    return np.stack([away(draws, exact.mean), away((draws - exact.mean) ** 2, exact.variance)])


def assert_exact(draws: Any, exact: Moments) -> None:
    """Mean and variance within 4 Monte Carlo standard errors, of chains that are worth a verdict."""
    ess = array_stats.ess(np.asarray(draws), chain_axis=0, draw_axis=1, method="bulk")
    assert np.min(ess) > 500, ess
    away = standard_errors_away(draws, exact)
    assert np.all(np.abs(away) <= MOST_STANDARD_ERRORS), away


def quadrature(density: Density, context: Context, *grids: np.ndarray) -> Moments:
    """Moments by the trapezoidal rule on an even grid for each weight; a grid of one place fixes a weight."""
    places = np.stack([axis.ravel() for axis in np.meshgrid(*grids, indexing="ij")], axis=-1)
    values = np.asarray(_log_densities(density, jnp.asarray(places), context))
    weights = np.exp(values - values.max())
    for place, grid in zip(places.T, grids, strict=True):
        at_ends = (place == grid[0]) | (place == grid[-1])
        assert len(grid) == 1 or weights[at_ends].max() < 1e-8, "the grid is too narrow"
    weights /= weights.sum()
    mean = weights @ places
    return Moments(mean, weights @ (places - mean) ** 2)


@partial(jax.jit, static_argnums=0)
def _log_densities(density: Density, places: Any, context: Context) -> Any:
    return jax.vmap(density.log_density, in_axes=(0, None))(places, context)


def at_strength(context: Context, strength: float) -> Context:
    """The same points and nodes with another strength."""

    def strong(sets: Any) -> Any:
        return tuple(each._replace(strength=jnp.asarray(strength)) for each in sets)

    return context._replace(points=strong(context.points), nodes=strong(context.nodes))


def only_rules(context: Context, *chosen: int) -> Context:
    """The same shapes, but no point of any other rule counts."""

    def silenced(sets: Any) -> Any:
        return tuple(
            each if index in chosen else each._replace(weights=jnp.zeros_like(each.weights))
            for index, each in enumerate(sets)
        )

    return context._replace(points=silenced(context.points), nodes=silenced(context.nodes))


def weighted(context: Context, weight: float) -> Context:
    """The same rows, each counted so many times: not at all leaves the prior."""
    assert context.data is not None
    weights = jnp.full(context.data.inputs.shape[0], weight)
    return context._replace(data=context.data._replace(weights=weights))


@dataclass(eq=False)
class Normal(Density):
    """N(0, scales²) by itself, without a model: it compiles in no time."""

    scales: tuple[float, ...] = ()

    @classmethod
    def of(cls, *scales: float) -> Normal:
        model: Any = None
        return cls(model, scales)

    @property
    def size(self) -> int:
        return len(self.scales)

    def log_density(self, w: Any, context: Context) -> Any:
        return -0.5 * jnp.sum((w / jnp.asarray(self.scales)) ** 2)

    surrogate = log_density

    def for_few(self, chains: int) -> Normal:
        return self


NOTHING = Context(None, (), ())


def curved_network() -> FunctionNetwork:
    """Two weights, and outputs that are not linear in them."""

    def function(w: Any, x: Any) -> Any:
        return w[0] + w[1] * x[:, 0] + 0.5 * w[0] * w[1] * x[:, 0] ** 2

    return FunctionNetwork.wrap(function, np.zeros(2))


def raw_model(y: list[Any], rules: dict[str, str], **settings: Any) -> Model:
    """A model in raw units of a target over one column x, evenly spread over [−1, 1]; rules by name."""
    frame = pd.DataFrame({"x": np.linspace(-1.0, 1.0, len(y)), "y": y})
    schema = Schema.infer(frame, target="y")
    constraints = [parse_rule(text, schema, name=name) for name, text in rules.items()]
    return Model.build(frame=frame, target="y", rules=constraints, standardize=False, **settings)


def typed_context(model: Model) -> Context:
    """All rows, each with the weight 1, and all points; what is true or false stays so."""
    context = Context(model.data, model.points, model.points)
    return weighted(jax.tree.map(jnp.asarray, context), 1.0)
