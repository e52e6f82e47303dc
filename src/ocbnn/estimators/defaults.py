"""Choices that a user need not make: size, prior and budget, by the size of the table.

The engine is chosen by `inference.engines.choose`, the minibatch by `inference.feed.default_batch`.

Measured with `benchmarks/estimators.py`; docs/estimators.md has the figures.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ocbnn.errors import ModelError, OCBNNError
from ocbnn.gates import LEAST_REACH, Gate
from ocbnn.model.networks import MLP
from ocbnn.model.priors import IsotropicGaussian, Prior
from ocbnn.schema.reading import did_you_mean

SMALL_TABLE = 5_000
MOST_MIXED = 200
"""Model inputs up to which their correlations are looked at: the matrix is part of the model."""
NUMBER_SCALES, CLASS_SCALES = (1.0, 1.0), (0.5, 50.0)
"""Of hidden weights and biases, and of the last layer.

Classes are often nearly certain, so logits are far larger than standardised targets.
"""
REACH = 0.0
"""How far beyond its region a rule moves predictions, in standard deviations of the columns: not at all.

With 0.05, a row at that distance was moved against the data.
"""
DRAWS = 1000
"""Of each chain, and in all for engines without chains.

Eight chains of 1,000 are worth some 3,000 independent draws on small tables: enough for a verdict on
convergence, and for a log-loss that varies by less than 1% from seed to seed. Of 250 they are not. In all,
1,000 show a tolerance of 0.01 where 500 do not.
"""
GATE_SCALES = {"hidden": 10.0, "number": NUMBER_SCALES[1], "class": CLASS_SCALES[1]}
"""Of weights from gates to hidden units, and to outputs.

The first is large beside what units see otherwise, so that they can be at their ends throughout a region and
functions flat in it. The others are those of the last layer: in a region without rows a rule may demand
anything, and beyond what it demands functions vary as much as they do elsewhere.
"""


def hidden_units(hidden: Any, rows: int) -> tuple[int, ...]:
    """The widths asked for, or one small layer for small tables and two larger ones for large tables."""
    if hidden is None:
        return (20,) if rows <= SMALL_TABLE else (50, 50)
    single = isinstance(hidden, int | np.integer) and not isinstance(hidden, bool)
    widths = (hidden,) if single else hidden
    if isinstance(widths, str) or not isinstance(widths, Sequence | np.ndarray):
        raise ModelError(f"hidden is a number of units, or one for each layer, not {hidden!r}.")
    return tuple(positive(width, "hidden, the number of units of each layer,") for width in widths)


def mixing(
    inputs: Float[np.ndarray, "n D"], weights: Float[np.ndarray, " n"]
) -> tuple[tuple[float, ...], ...] | None:
    """What makes weights of columns that move together alike a priori: a root of the columns' correlations.

    With M = R^½ the weights of columns have the covariance M·Mᵀ = R: a bet that the outcome follows what many
    columns say together rather than the little in which they differ. Uncorrelated columns stay as they are.
    M is scaled so that a hidden unit's input varies as much as with independent weights. The correlations of
    few rows are drawn towards none, by as many rows as there are columns. None for one column, or too many.
    """
    width = inputs.shape[1]
    if not 1 < width <= MOST_MIXED:
        return None
    total = float(weights.sum())
    centred = inputs - np.average(inputs, axis=0, weights=weights)
    spread = np.sqrt(np.average(centred**2, axis=0, weights=weights))
    standard = centred / np.where(spread > 0, spread, 1.0)
    correlation = (standard * weights[:, None]).T @ standard
    np.fill_diagonal(correlation, total)
    values, vectors = np.linalg.eigh((correlation + width * np.eye(width)) / (total + width))
    values = np.maximum(values, 0.0) * width / np.sum(values**2)
    root = (vectors * np.sqrt(values)) @ vectors.T
    return tuple(tuple(float(value) for value in row) for row in root)


def reach(given: Any) -> float:
    """How far beyond its region a rule moves predictions: 0, a number, or math.inf."""
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if not (number and (given == 0 or given >= LEAST_REACH)):
        raise ModelError(
            f"reach is 0, a number of standard deviations from {LEAST_REACH} on, or math.inf for as far as "
            f"smooth functions take it, not {given!r}."
        )
    return float(given)


def telling(gates: Sequence[Gate], inputs: Float[np.ndarray, "n D"]) -> tuple[Gate, ...]:
    """Those that are not open at every row: such a one would say nothing, and be a second bias."""
    return tuple(gate for gate in gates if not np.all(gate.openness(jnp.asarray(inputs)) > 0.5))


def base_prior(prior: Any, network: MLP, *, classification: bool) -> Prior:
    """Independent Gaussians, σ/√fan-in for weights, so that wide layers do not mean larger functions.

    A number is σ of the last layer's weights; its biases have a standard deviation of 1.
    """
    if isinstance(prior, Prior):
        return prior
    to_hidden, to_outputs = network.gate_sizes
    steps = np.repeat(
        [GATE_SCALES["hidden"], GATE_SCALES["class" if classification else "number"]],
        [to_hidden, to_outputs],
    )
    hidden, last = CLASS_SCALES if classification else NUMBER_SCALES
    prior = last if prior is None else prior
    if isinstance(prior, bool) or not isinstance(prior, int | float | np.number) or not prior > 0:
        raise ModelError(f"prior is a positive number (the scale of outputs) or a Prior, not {prior!r}.")
    scale = hidden / np.sqrt(network.fan_in()[: network.size - len(steps)])
    weights = network.widths[-2] * network.outputs
    scale[-network.outputs - weights :] *= float(prior) / hidden
    scale[-network.outputs :] = 1.0
    return IsotropicGaussian(network.size, np.concatenate([scale, steps]))


def draw_count(draws: Any) -> int:
    """Draws of each chain, or in all for engines without chains."""
    return DRAWS if draws is None else positive(draws, "draws")


def positive(value: Any, what: str) -> int:
    """A positive whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ModelError(f"{what} is a positive whole number, not {value!r}.")
    return int(value)


def require_options(
    function: Callable[..., Any], options: Mapping[str, Any], ours: Collection[str] = ()
) -> None:
    """Refuse options that the function does not have, or that are `ours` to give, before it is called."""
    parameters = inspect.signature(function).parameters.values()
    known = [each.name for each in parameters if each.kind == each.KEYWORD_ONLY or each.name == "rules"]
    known = [name for name in known if name not in ours]
    for name in options:
        if name not in known:
            raise OCBNNError(
                f"There is no option {name!r} here; there are {', '.join(known)}.{did_you_mean(name, known)}"
            )
