"""What the draws' functions say at rows of a table, in raw units."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from jaxtyping import Float

from ocbnn.errors import OCBNNError
from ocbnn.model import outputs
from ocbnn.posterior.draws import Posterior

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
        draws: some of its draws, flat; default: all kept ones.
    """
    inputs = posterior.schema.to_model(as_coded(posterior, table))
    yield from outputs.function_blocks(posterior.model, posterior.flat if draws is None else draws, inputs)


def function_draws(posterior: Posterior, table: Table) -> np.ndarray:
    """Φ of every kept draw at every row: y raw `(S, n)`, or class probabilities `(S, n, C)`.

    All of it is held here; `predict` and `function_blocks` are for tables of any length.
    """
    return posterior.values(as_coded(posterior, table), posterior.flat)
