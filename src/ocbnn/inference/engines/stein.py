"""Stein's operator on a set of particles: the svgd direction, and how far particles are from a density.

Everything is in matrix form: products of n×n with n×d matrices, never an array n×n×d.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.resources import require_memory

Positions = Float[Array, "n size"]


def squared_distances(positions: Positions) -> Float[Array, "n n"]:
    """‖x_i − x_j‖² by the Gram matrix, with an exactly zero diagonal."""
    count = len(positions)
    require_memory(
        3.0 * count**2 * positions.dtype.itemsize,
        f"The distances between {count:,} particles",
        "Ask for fewer.",
    )
    # Distances do not know the origin, but rounding does: |x|² + |y|² − 2xy cancels least near it.
    centred = positions - jnp.mean(positions, axis=0)
    gram = centred @ centred.T
    norms = jnp.diagonal(gram)
    squared = jnp.maximum(norms[:, None] + norms[None, :] - 2.0 * gram, 0.0)
    return jnp.where(jnp.eye(len(positions), dtype=bool), 0.0, squared)


def median_bandwidth(squared: Float[Array, "n n"]) -> Float[Array, ""]:
    """The bandwidth h = med² / log n, med the median distance of two particles (Liu & Wang 2016).

    It is 1 for a single particle, and where more than half of the pairs coincide.
    """
    n = len(squared)
    if n < 2:
        return jnp.ones((), squared.dtype)
    pairs = squared[np.tril_indices(n, -1)]
    middle = jnp.sqrt(ordered(pairs, (len(pairs) - 1) // 2, len(pairs) // 2))
    bandwidth = jnp.mean(middle) ** 2 / math.log(n)
    return jnp.where(bandwidth > 0, bandwidth, jnp.ones((), squared.dtype))


def ordered(values: Float[Array, " count"], *ranks: int) -> Float[Array, " ranks"]:
    """Those of the non-negative numbers that have the given ranks in ascending order, counted from 0.

    XLA's sort of the distances of 50 particles takes 5% of an svgd step. Bits of floats that are not
    negative, read as integers, are in the floats' order, so a number is found bit by bit from the highest
    down, exactly.
    """
    width = 8 * values.dtype.itemsize
    unsigned = jnp.dtype(f"uint{width}")
    bits = jax.lax.bitcast_convert_type(values, unsigned)
    wanted = len(values) - jnp.asarray(ranks)  # so many are as large or larger

    def with_next_bit(step: Array, found: Array) -> Array:
        tried = found | (jnp.ones((), unsigned) << (width - 1 - step).astype(unsigned))
        return jnp.where(jnp.sum(bits >= tried[:, None], axis=1) >= wanted, tried, found)

    found = jax.lax.fori_loop(0, width, with_next_bit, jnp.zeros(len(ranks), unsigned))
    return jax.lax.bitcast_convert_type(found, values.dtype)


def stein_direction(
    positions: Positions, scores: Positions, bandwidth: float | Array | None = None
) -> Positions:
    """Where svgd moves each particle (Liu & Wang 2016, eq. 8), with k(x, y) = exp(−‖x − y‖²/h).

        φ(x_i) = 1/n Σ_j [k(x_j, x_i) ∇log p(x_j) + ∇_{x_j} k(x_j, x_i)]
        φ      = (K (G − (2/h) X) + (2/h) diag(K1) X) / n

    Args:
        positions: X, a row for each particle.
        scores: G, the gradients of the log-density there.
        bandwidth: h; the median heuristic unless given.
    """
    squared = squared_distances(positions)
    h = median_bandwidth(squared) if bandwidth is None else jnp.asarray(bandwidth, squared.dtype)
    kernel = jnp.exp(-squared / h)
    centred = (2.0 / h) * (positions - jnp.mean(positions, axis=0))
    repelled = jnp.sum(kernel, axis=1)[:, None] * centred
    return (kernel @ (scores - centred) + repelled) / len(positions)


def stein_kernel(positions: Positions, scores: Positions, scale: float = 1.0) -> Float[Array, "n n"]:
    """Stein's kernel u(x, y) of the inverse multiquadric k = (c² + ‖x − y‖²)^(−1/2) (Gorham & Mackey 2017).

        u = k s_x·s_y + s_x·∇_y k + s_y·∇_x k + tr ∇_x ∇_y k

    Its mean over independent x, y of the density whose scores s are is zero.
    """
    squared = squared_distances(positions)
    base = scale * scale + squared
    kernel = 1.0 / jnp.sqrt(base)
    centred = positions - jnp.mean(positions, axis=0)
    crossed = scores @ centred.T
    own = jnp.diagonal(crossed)
    # (s_x − s_y)·(x − y) for all pairs
    aligned = own[:, None] + own[None, :] - crossed - crossed.T
    trace = positions.shape[1] / base - 3.0 * squared / (base * base)
    return kernel * (scores @ scores.T + aligned / base + trace)


def kernel_stein_discrepancy(positions: Positions, scores: Positions, scale: float = 1.0) -> Float[Array, ""]:
    """How far particles are from the density with these scores: 0 only for the density itself.

    The square root of the mean of Stein's kernel over all pairs, each particle with itself included, which
    makes it non-negative.
    """
    return jnp.sqrt(jnp.maximum(jnp.mean(stein_kernel(positions, scores, scale)), 0.0))
