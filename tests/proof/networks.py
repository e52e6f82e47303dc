"""Networks over random boxes, from nearly no width to all of the range: shared by tests of proofs."""

from __future__ import annotations

import numpy as np

from ocbnn.model.networks import MLP
from ocbnn.model.outputs import precision

ACTIVATIONS = ("rbf", "tanh", "relu", "gelu")
ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0], [-2.0, 0.5]])


def network(
    activation: str, hidden: tuple[int, ...] = (6, 5), inputs: int = 3, *, linear: bool = False
) -> MLP:
    return MLP(inputs, hidden, 2, activation, linear=linear)


def draws(net: MLP, count: int, seed: int = 0, spread: float = 1.5) -> np.ndarray:
    scale = spread * np.sqrt(1.0 / np.maximum(net.fan_in(), 2.0))
    return np.random.default_rng(seed).normal(size=(count, net.size)) * scale


def boxes(count: int, inputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Widths from 1e-12 to 10, some of them 0."""
    generator = np.random.default_rng(seed)
    center = generator.normal(size=(count, inputs))
    radius = 10.0 ** generator.uniform(-12.3, 0.7, size=(count, 1)) * generator.random((count, inputs))
    radius *= generator.random((count, inputs)) > 0.1
    return center - radius, center + radius


def points_in(low: np.ndarray, high: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """(B, count, D): inside, and at corners."""
    generator = np.random.default_rng(seed)
    share = generator.random((len(low), count, low.shape[1]))
    share = np.where(generator.random((len(low), count, 1)) < 0.3, np.round(share), share)
    return np.clip(low[:, None] + share * (high - low)[:, None], low[:, None], high[:, None])


def values(net: MLP, weights: np.ndarray, points: np.ndarray, kind: str = "float64") -> np.ndarray:
    """(B, count, outputs), each box by its own weights, in the given precision."""
    import jax

    with precision(kind):
        found = jax.vmap(net.apply)(weights.astype(kind), points.astype(kind))
        return np.asarray(found).astype(float)
