"""What the draws' functions say at any rows, block by block, in raw units.

Every block has the same shape, padded where rows are few, so that a row's prediction does not depend on the
rows it comes with, and little is ever compiled or held.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from jaxtyping import Float

from ocbnn.errors import OCBNNError
from ocbnn.inference.base import Precision, precision
from ocbnn.inference.outputs import LARGE, network_functions, padded
from ocbnn.likelihoods import Likelihood
from ocbnn.networks import Network
from ocbnn.posterior.draws import Posterior

ROWS, LEAST_ROWS = 512, 32
"""Rows of a block; fewer where draws are so many that a block would hold more than `MOST_VALUES`."""
MOST_VALUES = 4_000_000
TOGETHER = 64
"""Draws computed by one call."""

Table = pd.DataFrame | np.ndarray


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
    rows = _block_rows(len(weights) * max(len(target.classes), 1))
    for begin in range(0, len(inputs), rows):
        block = slice(begin, min(begin + rows, len(inputs)))
        there = padded(inputs[block], rows)
        with precision(kind):
            values = _evaluated(model.network, model.likelihood, weights, there)
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


def _block_rows(values_of_a_row: int) -> int:
    """A power of two that depends on the draws alone: a row's batch must not decide how it is computed."""
    most = max(MOST_VALUES // max(values_of_a_row, 1), 1)
    return int(np.clip(1 << (most.bit_length() - 1), LEAST_ROWS, ROWS))


def _evaluated(
    network: Network, likelihood: Likelihood, weights: np.ndarray, inputs: np.ndarray
) -> np.ndarray:
    parts = []
    for first in range(0, len(weights), TOGETHER):
        some = weights[first : first + TOGETHER]
        size = min(TOGETHER, 1 << (len(some) - 1).bit_length())  # few shapes are ever compiled
        values = network_functions(network, likelihood, padded(some, size), inputs)
        parts.append(np.asarray(values)[: len(some)])
    return np.concatenate(parts)
