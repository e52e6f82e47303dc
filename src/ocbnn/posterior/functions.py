"""What the draws' functions say at any rows, block by block, in raw units.

Every block has the same shape, padded where rows are few, so that a row's prediction does not depend on the
rows it comes with, and little is ever compiled or held.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
from jaxtyping import Float

from ocbnn.errors import OCBNNError
from ocbnn.model.likelihoods import Likelihood
from ocbnn.model.networks import Network
from ocbnn.model.outputs import LARGE, Precision, network_functions, padded, precision
from ocbnn.posterior.draws import Posterior

ROWS, ROWS_OF_LARGE, LEAST_ROWS = 512, 1024, 32
"""Rows of a block; fewer where draws are so many that a block would hold more than `MOST_VALUES`."""
MOST_VALUES = 4_000_000
TOGETHER = 64
"""Draws computed by one call."""

Table = pd.DataFrame | np.ndarray


def whole(number: object) -> bool:
    """Whether it is a whole number, of Python or NumPy; True and False are none."""
    return isinstance(number, numbers.Integral) and not isinstance(number, bool)


def as_coded(posterior: Posterior, table: Table) -> Float[np.ndarray, "n Q"]:
    """Raw rows as coded ones; coded rows as they are."""
    if isinstance(table, pd.DataFrame):
        return posterior.schema.encode(table)
    coded = np.asarray(table, dtype=float)
    if coded.ndim != 2 or coded.shape[1] != len(posterior.schema.columns):
        raise OCBNNError(
            f"Rows are a DataFrame, or coded rows of the shape (n, {len(posterior.schema.columns)}); "
            f"got the shape {coded.shape}."
        )
    return coded


def function_blocks(
    posterior: Posterior, table: Table, draws: Float[np.ndarray, "S size"] | None = None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of the rows with Φ there: y in raw units `(S, b)`, or class probabilities `(S, b, C)`.

    Args:
        posterior: whose draws are used.
        table: a DataFrame, or coded rows.
        draws: some of its draws, flat; all kept ones unless given.
    """
    yield from model_function_blocks(posterior, posterior.schema.to_model(as_coded(posterior, table)), draws)


def model_function_blocks(
    posterior: Posterior,
    inputs: Float[np.ndarray, "n D"],
    draws: Float[np.ndarray, "S size"] | None = None,
) -> Iterator[tuple[slice, np.ndarray]]:
    """The same at model inputs."""
    model = posterior.model
    kind = working_precision(posterior)
    flat = posterior.flat if draws is None else draws
    weights = np.asarray(flat[:, : model.network.size], dtype=kind)
    inputs = np.asarray(inputs, dtype=kind)
    target = posterior.target
    most = ROWS_OF_LARGE if model.network.size > LARGE else ROWS
    rows = _block_rows(len(weights) * max(len(target.classes), 1), most)
    for begin in range(0, len(inputs), rows):
        block = slice(begin, min(begin + rows, len(inputs)))
        there = padded(inputs[block], rows)
        values = _evaluated(model.network, model.likelihood, weights, there, kind)
        values = values[:, : block.stop - block.start].astype(float)
        yield block, values if values.ndim == 3 else target.center + target.scale * values


def function_draws(posterior: Posterior, table: Table) -> np.ndarray:
    """Φ of every kept draw at every row: y raw `(S, n)`, or class probabilities `(S, n, C)`.

    All of it is held here; `predict` and `function_blocks` are for tables of any length.
    """
    blocks = [values for _, values in function_blocks(posterior, table)]
    if blocks:
        return np.concatenate(blocks, axis=1)
    classes = (len(posterior.classes),) if posterior.classes else ()
    return np.zeros((len(posterior.flat), 0, *classes))


def working_precision(posterior: Posterior) -> Precision:
    """float64 for small networks, where it is cheap; float32 for large ones: half the time."""
    return "float32" if posterior.model.network.size > LARGE else "float64"


def _block_rows(values_of_a_row: int, most: int) -> int:
    """A power of two that depends on the model alone: a row's batch must not decide how it is computed."""
    held = max(MOST_VALUES // max(values_of_a_row, 1), 1)
    return int(np.clip(1 << (held.bit_length() - 1), LEAST_ROWS, most))


def _evaluated(
    network: Network, likelihood: Likelihood, weights: np.ndarray, inputs: np.ndarray, kind: Precision
) -> np.ndarray:
    """Groups of draws side by side: within one, only products use all cores, and activations cost as much."""

    def some(first: int) -> np.ndarray:
        group = weights[first : first + TOGETHER]
        size = min(TOGETHER, 1 << (len(group) - 1).bit_length())  # few shapes are ever compiled
        with precision(kind):
            values = network_functions(network, likelihood, padded(group, size), inputs)
            return np.asarray(values)[: len(group)]

    starts = range(0, len(weights), TOGETHER)
    if len(starts) == 1:
        return some(0)
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        return np.concatenate(list(pool.map(some, starts)))
