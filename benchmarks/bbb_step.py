"""One step of bbb against this machine's own float32 matrix product, both in one process, in turns.

Two hidden layers of 150 units, 8 inputs, a batch of 4,096 rows, 5 draws. Of the step's work only the
multiplications by weights are counted (once forward, twice backward); random numbers, activations, the
optimiser and everything else are its overhead. Prints `bbb_matmul_fraction`, the median over turns of the
rate of the step over the rate of a 2,048 × 2,048 product, and fails below 0.4.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.model import Data, Model
from ocbnn.model.likelihoods import Bernoulli
from ocbnn.model.networks import MLP
from ocbnn.model.priors import IsotropicGaussian

LIMIT = 0.4
INPUTS, HIDDEN, BATCH, DRAWS, ROWS = 8, (150, 150), 4096, 5, 405_000
STEPS, TURNS, SIDE, PRODUCTS = 5, 11, 2048, 2


def step_flops(network: MLP) -> float:
    """Multiplications and additions of one step: a product with each layer's weights, 3 times, each draw."""
    layers = zip(network.widths[:-1], network.widths[1:], strict=True)
    return 3.0 * 2.0 * BATCH * sum(before * after for before, after in layers) * DRAWS


def steps_of_bbb(network: MLP) -> Callable[[], object]:
    """Several steps in one compiled loop, as a run makes them."""
    random = np.random.default_rng(0)
    inputs = jnp.asarray(random.normal(size=(BATCH, INPUTS)), jnp.float32)
    y = jnp.asarray(random.integers(0, 2, BATCH), jnp.float32)
    context = Context(Data(inputs, y, jnp.full(BATCH, ROWS / BATCH, jnp.float32)), (), ())
    density = Density(Model(network, Bernoulli(), IsotropicGaussian(network.size)))
    engine = Bbb(draws_per_step=DRAWS)
    state = engine.init(density, jax.random.key(0), network.initial(0)[None], context)

    def several(state: object, context: Context, key: jax.Array) -> object:
        step = lambda state, key: engine.step(density, key, state, context)  # noqa: E731
        return jax.lax.scan(step, state, jax.random.split(key, STEPS))

    compiled = jax.jit(several)
    return lambda: compiled(state, context, jax.random.key(1))


def products() -> Callable[[], object]:
    """A few large products, each of the last one's result."""
    matrix = jnp.asarray(np.random.default_rng(1).normal(size=(SIDE, SIDE)) / SIDE**0.5, jnp.float32)
    compiled = jax.jit(lambda a: jax.lax.fori_loop(0, PRODUCTS, lambda _, b: a @ b, a))
    return lambda: compiled(matrix)


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    begin = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - begin


def measure(turns: int = TURNS) -> dict[str, float]:
    """The median rates of both over turns, and `bbb_matmul_fraction`, the median of their ratio."""
    network = MLP(INPUTS, HIDDEN, 1)
    step, product = steps_of_bbb(network), products()
    seconds(step), seconds(product)
    step_rates, product_rates = [], []
    for _ in range(turns):
        step_rates.append(STEPS * step_flops(network) / seconds(step))
        product_rates.append(PRODUCTS * 2.0 * SIDE**3 / seconds(product))
    ratios = [step_rate / rate for step_rate, rate in zip(step_rates, product_rates, strict=True)]
    return {
        "bbb_matmul_fraction": statistics.median(ratios),
        "bbb_step_seconds": step_flops(network) / statistics.median(step_rates),
        "bbb_step_flops_per_second": statistics.median(step_rates),
        "matmul_flops_per_second": statistics.median(product_rates),
    }


def main() -> int:
    """Measure and judge."""
    figures = measure()
    print(
        f"bbb_matmul_fraction {figures['bbb_matmul_fraction']:.2f} (at least {LIMIT}): "
        f"a step in {1e3 * figures['bbb_step_seconds']:.0f} ms, "
        f"{figures['bbb_step_flops_per_second'] / 1e9:.0f} GFLOP/s of "
        f"{figures['matmul_flops_per_second'] / 1e9:.0f}"
    )
    return 0 if figures["bbb_matmul_fraction"] >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
