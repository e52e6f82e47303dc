"""What networks say at many inputs for many draws, in blocks of few shapes, in the precision of the draws."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.model.likelihoods import Likelihood
from ocbnn.model.model import Model
from ocbnn.model.networks import MLP, Network

Precision = Literal["float64", "float32"]

CHUNK = 65_536
"""Draw-input pairs computed at once: with 150 hidden units in float64, 80 MB of activations a layer."""
MOST_ROWS = 1024
LARGE = 10_000
"""Weights above which a network is large."""


@contextlib.contextmanager
def precision(kind: Precision) -> Iterator[None]:
    """Numbers of that kind in this thread only, whatever the caller's JAX configuration is."""
    with jax.enable_x64(kind == "float64"):
        yield


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
    members = _padded_size(len(weights), max(chunk // rows, 1))
    for begin in range(0, max(len(inputs), 1), rows):
        block = slice(begin, min(begin + rows, len(inputs)))
        there = padded(inputs[block], rows)
        parts = []
        for first in range(0, max(len(weights), 1), members):
            some = weights[first : first + members]
            with precision("float64" if draws.dtype == np.float64 else "float32"):
                values = network_functions(model.network, model.likelihood, padded(some, members), there)
                parts.append(np.asarray(values)[: len(some), : block.stop - block.start])
        yield block, np.concatenate(parts)


# Static by value: models that share an architecture share the compiled code, and no data are kept alive.
@partial(jax.jit, static_argnums=(0, 1))
def network_functions(network: Network, likelihood: Likelihood, draws: Array, inputs: Array) -> Array:
    """What rules speak of for every draw at every input: y in model units, or class probabilities."""
    large = network.size > LARGE
    fast = replace(network, units_first=True) if large and isinstance(network, MLP) else network

    def function(w: Array) -> Array:
        return likelihood.function(fast.apply(w, inputs))

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
