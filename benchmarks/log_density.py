"""One gradient of Figure 1b's posterior through `Model` against the same formula by hand in plain JAX.

Both run in one process, in turns, each turn a compiled loop of many gradients, so that neither the machine's
mood nor the cost of a call decides. Prints the median ratio of a turn, and fails above 1.2.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from ocbnn.model import Model
from ocbnn.model.terms import NegativeExponential

LIMIT = 1.2
GRADIENTS = 3000
TURNS = 21
NOISE, GAMMA, TAU0, TAU1 = 0.1, 1e4, 15.0, 2.0
LogDensity = Callable[[jax.Array], jax.Array]


def toy() -> tuple[np.ndarray, np.ndarray]:
    """Toy 1 of the paper: six rows of −x⁴ + 3x² + 1."""
    x = np.array([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
    return x, -(x**4) + 3 * x**2 + 1


def through_the_model() -> tuple[LogDensity, np.ndarray, Model]:
    """Figure 1b's posterior from the rule's own words, with the points the model drew."""
    x, y = toy()
    model = Model.build(
        frame=pd.DataFrame({"x": x, "y": y}),
        target="y",
        rules=["if -0.3 <= x <= 0.3 then 2.5 <= y <= 3"],
        standardize=False,
        hidden=(10,),
        noise=NOISE,
        term=NegativeExponential(TAU0, TAU1, raw=True),
        strength=GAMMA,
        reduction="sum",
        points=100,
    )
    return model.log_density, model.points[0].inputs, model


def by_hand(points: np.ndarray) -> LogDensity:
    """The same posterior as one would write it for this figure alone."""
    x, y = (jnp.asarray(column) for column in toy())
    inside = jnp.asarray(points[:, 0])
    constant = -0.5 * 31 * np.log(2 * np.pi) - 6 * (np.log(NOISE) + 0.5 * np.log(2 * np.pi))

    def network(w: jax.Array, inputs: jax.Array) -> jax.Array:
        z = inputs[:, None] * w[:10] + w[10:20]
        return jnp.exp(-(z**2)) @ w[20:30] + w[30]

    def indicator(g: jax.Array) -> jax.Array:
        return 0.25 * (jnp.tanh(-TAU0 * g) + 1) * (jnp.tanh(-TAU1 * g) + 1)

    def log_density(w: jax.Array) -> jax.Array:
        residual = (y - network(w, x)) / NOISE
        value = network(w, inside)
        penalty = jnp.sum(indicator(value - 2.5) + indicator(3.0 - value))
        return constant - 0.5 * jnp.sum(w**2) - 0.5 * jnp.sum(residual**2) - GAMMA * penalty

    return log_density


def looped(log_density: LogDensity) -> LogDensity:
    """Many gradients in one call; each starts where the last one points, so that none can be left out."""
    gradient = jax.grad(log_density)

    def step(_: int, w: jax.Array) -> jax.Array:
        return w + 1e-12 * jnp.clip(gradient(w), -1.0, 1.0)

    return jax.jit(lambda w: jax.lax.fori_loop(0, GRADIENTS, step, w))


def seconds_per_gradient(loop: LogDensity, start: jax.Array) -> float:
    """The time of one turn."""
    begin = time.perf_counter()
    loop(start).block_until_ready()
    return (time.perf_counter() - begin) / GRADIENTS


def main() -> int:
    """Check that both are the same function, then time them in turns."""
    with jax.enable_x64(True):
        general, points, model = through_the_model()
        special = by_hand(points)
        starts = [model.initial(key) for key in range(5)]
        for w in starts:
            np.testing.assert_allclose(general(w), special(w), rtol=1e-9)
            np.testing.assert_allclose(jax.grad(general)(w), jax.grad(special)(w), rtol=1e-7, atol=1e-5)
        loops = [looped(general), looped(special)]
        for loop in loops:
            loop(starts[0]).block_until_ready()
        times = [[seconds_per_gradient(loop, starts[turn % 5]) for loop in loops] for turn in range(TURNS)]
    through_model, hand = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(general_time / hand_time for general_time, hand_time in times)
    print(
        f"gradient of Figure 1b's posterior: model {1e6 * through_model:.2f} µs, "
        f"by hand {1e6 * hand:.2f} µs, ratio {ratio:.2f} (at most {LIMIT})"
    )
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
