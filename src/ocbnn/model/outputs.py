"""What networks say at many inputs for many draws, in blocks of few shapes, in the precision of the draws."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ocbnn.errors import OCBNNError
from ocbnn.model.forms import kept_by_form
from ocbnn.model.likelihoods import Gaussian, Likelihood, Noisy
from ocbnn.model.model import Model
from ocbnn.model.networks import MLP, Network
from ocbnn.model.programs import release_programs
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.requirement import Units

Precision = Literal["float64", "float32"]

CHUNK = 65_536
"""Draw-input pairs computed at once: with 150 hidden units in float64, 80 MB of activations a layer."""
MOST_ROWS = 1024
LARGE = 10_000
"""Weights above which a network is large."""
ROWS, ROWS_OF_LARGE, LEAST_ROWS = 512, 1024, 32
"""Rows of a block; fewer where draws are so many that a block would hold more than `MOST_VALUES`."""
MOST_VALUES = 4_000_000
TOGETHER = 64
"""Draws computed by one call."""


class _Process:
    """Whether JAX can compute in this process: its threads do not survive a fork."""

    used = False
    forked = False

    @classmethod
    def after_fork(cls) -> None:
        cls.forked = cls.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.after_fork)


@contextlib.contextmanager
def precision(kind: Precision) -> Iterator[None]:
    """Numbers of that kind in this thread only, whatever the caller's JAX configuration is.

    Raises:
        OCBNNError: the process was forked from one that had computed, so that JAX would wait for ever.
    """
    if _Process.forked:
        raise OCBNNError(
            "This process was forked from one in which JAX had computed. It would wait for ever, because "
            'threads do not survive a fork. Use threads, multiprocessing.get_context("spawn") or '
            '"forkserver", or joblib with the backend "loky" or "threading".'
        )
    _Process.used = True
    with jax.enable_x64(kind == "float64"):
        yield


def enabled_precision() -> Precision:
    """The kind of numbers in this thread."""
    return "float64" if jax.dtypes.canonicalize_dtype(float) == np.float64 else "float32"


def model_outputs(
    model: Model,
    draws: Float[np.ndarray, "... size"],
    inputs: Float[np.ndarray, "n D"],
    chunk: int = CHUNK,
) -> np.ndarray:
    """What rules speak of for every draw: y `(…, n)` in model units, or class probabilities `(…, n, C)`.

    Computed in the precision of the draws, at most `chunk` draw-input pairs at once, in blocks padded to
    powers of two, so that few shapes are ever compiled. All of it is held here; `output_blocks` is for
    callers who need only a summary.
    """
    draws = np.asarray(draws)
    joined = np.concatenate([values for _, values in output_blocks(model, draws, inputs, chunk)], axis=1)
    return joined.reshape(draws.shape[:-1] + joined.shape[1:])


def output_blocks(
    model: Model,
    draws: Float[np.ndarray, "... size"],
    inputs: Float[np.ndarray, "n D"],
    chunk: int = CHUNK,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of the inputs, each with what all draws, flattened, say there: `(draws, block[, C])`."""
    draws = np.asarray(draws)
    draws = draws if draws.dtype == np.float32 else draws.astype(np.float64)
    weights = draws.reshape(-1, draws.shape[-1])[:, : model.network.size]
    inputs = np.asarray(inputs, dtype=draws.dtype)
    rows = _padded_size(len(inputs), min(MOST_ROWS, chunk))
    together = _padded_size(len(weights), max(chunk // rows, 1))
    for begin in range(0, max(len(inputs), 1), rows):
        block = slice(begin, min(begin + rows, len(inputs)))
        there = padded(inputs[block], rows)
        parts = []
        for first in range(0, max(len(weights), 1), together):
            some = weights[first : first + together]
            with precision("float64" if draws.dtype == np.float64 else "float32"):
                values = network_functions(model.network, model.likelihood, padded(some, together), there)
                parts.append(np.asarray(values)[: len(some), : block.stop - block.start])
        yield block, np.concatenate(parts)


# Static by value: models that share an architecture share the compiled code, and no data are kept alive.
@partial(jax.jit, static_argnums=(0, 1, 4))
def network_functions(
    network: Network, likelihood: Likelihood, draws: Array, inputs: Array, noise: bool = False
) -> Array:
    """What rules speak of for every draw at every input: y in model units, or class probabilities.

    With `noise`, the standard deviation of the noise there; draws then have the likelihood's parameters, too.
    """
    large = network.size > LARGE

    def function(w: Array) -> Array:
        outputs = network.apply(w[: network.size], inputs)
        if noise:
            assert isinstance(likelihood, Noisy)
            return jnp.asarray(likelihood.scale(w[network.size :], outputs))
        return likelihood.function(outputs)

    # A batched product of large matrices is slower than one product after the other; small ones are not.
    values = jax.lax.map(function, draws) if large else jax.vmap(function)(draws)
    return values if values.ndim == 2 else jnp.exp(values)


def _padded_size(count: int, most: int) -> int:
    """The next power of two, so that shapes are few; at most the largest power of two within `most`."""
    return int(min(1 << max(count - 1, 0).bit_length(), 1 << (max(most, 1).bit_length() - 1)))


def padded(rows: np.ndarray, size: int) -> np.ndarray:
    """The rows, and zeros up to so many."""
    if len(rows) == size:
        return rows
    return np.concatenate([rows, np.zeros((size - len(rows), rows.shape[1]), rows.dtype)])


def shown_by_form(
    model: Model, rule: Constraint, draws: Float[np.ndarray, "S size"]
) -> Bool[np.ndarray, " S"] | None:
    """Of each draw whether the signs of its weights show that it keeps the rule at every input.

    The weights are looked at as `predict` uses them. None: the network does not keep the rule by its form.
    """
    if model.schema is None or not kept_by_form(model.network, rule, model.schema):
        return None
    kind = working_precision(model)
    weights = np.asarray(draws, dtype=kind)[:, : model.network.size]
    found = np.zeros(len(weights), dtype=bool)
    with precision(kind):
        for first in range(0, len(weights), TOGETHER):
            some = weights[first : first + TOGETHER]
            found[first : first + TOGETHER] = np.asarray(_with_signs(model.network, padded(some, TOGETHER)))[
                : len(some)
            ]
    return found


@partial(jax.jit, static_argnums=0)
def _with_signs(network: MLP, draws: Array) -> Array:
    return jax.vmap(network.keeps_signs)(draws)


# In raw units, block by block -------------------------------------------------------------------------------


def function_blocks(
    model: Model, draws: Float[np.ndarray, "S size"], inputs: Float[np.ndarray, "n D"]
) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of model inputs with Φ there: y in raw units `(S, b)`, or class probabilities `(S, b, C)`.

    Every block has the same shape, padded where rows are few, so that a row's prediction does not depend on
    the rows it comes with, and little is ever compiled or held.
    """
    target = None if model.schema is None else model.schema.target
    assert target is not None
    for block, values in _blocks(model, draws, inputs):
        yield block, values if values.ndim == 3 else target.to_raw(values)


def _blocks(
    model: Model, draws: Float[np.ndarray, "S size"], inputs: Float[np.ndarray, "n D"], noise: bool = False
) -> Iterator[tuple[slice, np.ndarray]]:
    """The same in model units, of Φ or of the noise."""
    release_programs()
    kind = working_precision(model)
    weights = np.asarray(draws if noise else draws[:, : model.network.size], dtype=kind)
    inputs = np.asarray(inputs, dtype=kind)
    rows = block_rows(model, len(weights))
    for begin in range(0, len(inputs), rows):
        block = slice(begin, min(begin + rows, len(inputs)))
        there = padded(inputs[block], rows)
        values = _evaluated(model.network, model.likelihood, weights, there, kind, noise)
        yield block, values[:, : block.stop - block.start].astype(float)


def function_values(
    model: Model, draws: Float[np.ndarray, "S size"], inputs: Float[np.ndarray, "n D"]
) -> np.ndarray:
    """Φ of every draw at every model input, raw: `(S, n)` or `(S, n, C)`. All of it is held."""
    blocks = [values for _, values in function_blocks(model, draws, inputs)]
    if blocks:
        return np.concatenate(blocks, axis=1)
    classes = model.schema.target.classes if model.schema and model.schema.target else ()
    return np.zeros((len(draws), 0, *([len(classes)] if classes else [])))


def noise_values(
    model: Model, draws: Float[np.ndarray, "S size"], inputs: Float[np.ndarray, "n D"]
) -> Float[np.ndarray, "S n_or_1"]:
    """The standard deviation of the noise of every draw, in model units; one column where it is constant.

    Raises:
        OCBNNError: the likelihood has no noise.
    """
    likelihood = model.likelihood
    if not isinstance(likelihood, Noisy):
        raise OCBNNError(f"{likelihood!r} is about classes, which have no noise.")
    if isinstance(likelihood, Gaussian):
        if likelihood.noise is not None:
            return np.full((len(draws), 1), likelihood.noise)
        return np.exp(draws[:, model.network.size :].astype(float))
    blocks = [values for _, values in _blocks(model, draws, inputs, noise=True)]
    return np.concatenate(blocks, axis=1) if blocks else np.zeros((len(draws), 0))


def row_log_likelihoods(model: Model, draws: Float[np.ndarray, "S size"]) -> Float[np.ndarray, "S n"]:
    """Of every draw and every row of the model's data weight · log p(y | Φ_w(x)), y in raw units.

    Raises:
        OCBNNError: the model holds no rows.
    """
    data, target = model.data, None if model.schema is None else model.schema.target
    if data is None:
        raise OCBNNError("The model holds no rows, so they have no likelihood: a saved model has none.")
    size = min(max(CHUNK // max(len(data.inputs), 1), 1), len(draws))
    found = np.empty((len(draws), len(data.inputs)))
    for first in range(0, len(draws), size):
        some = draws[first : first + size].astype(float)
        with precision("float64"):
            values = jax.vmap(lambda w: model.row_log_likelihoods(w, data))(jnp.asarray(padded(some, size)))
            found[first : first + len(some)] = np.asarray(values)[: len(some)]
    if target is None or target.classes:
        return found
    slope = Units.of_model(target).log_slope(target.to_raw(data.y))
    return found + slope * (1.0 if data.weights is None else np.asarray(data.weights, dtype=float))


def working_precision(model: Model) -> Precision:
    """float64 for small networks, where it is cheap; float32 for large ones: half the time."""
    return "float32" if model.network.size > LARGE else "float64"


def block_rows(model: Model, draws: int) -> int:
    """Rows of a block: a power of two that depends on model and number of draws alone.

    A row's batch must not decide how it is computed.
    """
    target = None if model.schema is None else model.schema.target
    most = ROWS_OF_LARGE if model.network.size > LARGE else ROWS
    held = max(MOST_VALUES // max(draws * max(len(target.classes) if target else 0, 1), 1), 1)
    return int(np.clip(1 << (held.bit_length() - 1), LEAST_ROWS, most))


def _evaluated(
    network: Network,
    likelihood: Likelihood,
    weights: np.ndarray,
    inputs: np.ndarray,
    kind: Precision,
    noise: bool,
) -> np.ndarray:
    """Groups of draws side by side: within one, only products use all cores, and activations cost as much."""

    def some(first: int) -> np.ndarray:
        group = weights[first : first + TOGETHER]
        size = min(TOGETHER, 1 << (len(group) - 1).bit_length())  # few shapes are ever compiled
        with precision(kind):
            values = network_functions(network, likelihood, padded(group, size), inputs, noise)
            return np.asarray(values)[: len(group)]

    starts = range(0, len(weights), TOGETHER)
    if len(starts) == 1:
        return some(0)
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        return np.concatenate(list(pool.map(some, starts)))
