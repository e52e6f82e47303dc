"""Mean and spread of many draws at many rows: the rate against the machine's own matrix products, and memory.

    python benchmarks/predict.py [--full]

A 2×150 network, as for a credit table: 405,000 rows × 1,000 draws with `--full`, fewer rows otherwise; blocks
are the same size, so memory beyond the table and the draws does not grow. Prediction and a float32 product
run in turns in one process. Prints `predict_matmul_fraction` and the peak of memory above that after the
imports; fails below a half, or above 1 GB.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from ocbnn.model import Model
from ocbnn.model.networks import MLP
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.predict import predict
from ocbnn.schema import Column, Schema, Target

LEAST_FRACTION, MOST_GIGABYTES = 0.5, 1.0
COLUMNS, HIDDEN, DRAWS = 10, (150, 150), 1000
PRODUCT = 2048
TURN = 1024


def peak_gigabytes() -> float:
    """The largest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def posterior() -> Posterior:
    """Random draws of the network, in float32 as minibatch engines give them."""
    columns = tuple(Column(f"x{i}", "continuous", (-2.0, 2.0)) for i in range(COLUMNS))
    network = MLP(COLUMNS, HIDDEN)
    model = Model.build(schema=Schema(columns, Target("y", "regression")), network=network, noise=0.1)
    generator = np.random.default_rng(0)
    draws = generator.standard_normal((4, DRAWS // 4, model.size), dtype=np.float32)
    draws /= np.sqrt(np.asarray(model.network.fan_in(), dtype=np.float32))
    return Posterior(draws, model)


def matmul_rate() -> float:
    """Floating-point operations a second in a large float32 product; operands are made anew."""
    a = jnp.asarray(np.random.default_rng(1).standard_normal((PRODUCT, PRODUCT), dtype=np.float32))
    product = jax.jit(lambda left, right: left @ right)
    product(a, a).block_until_ready()
    begin = time.perf_counter()
    for _ in range(3):
        product(a, a).block_until_ready()
    return 3 * 2 * PRODUCT**3 / (time.perf_counter() - begin)


def main() -> int:
    """Predict in turns with products, then judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all 405,000 rows: some minutes")
    chosen = parser.parse_args()
    rows = 405_000 if chosen.full else 8 * TURN
    baseline = peak_gigabytes()
    draws = posterior()
    table = np.random.default_rng(2).standard_normal((405_000, COLUMNS))
    widths = (COLUMNS, *HIDDEN, 1)
    operations = 2 * sum(a * b for a, b in itertools.pairwise(widths)) * DRAWS
    predict(draws, table[:TURN], levels=(), coverage=None)
    fractions, step = [], max(TURN, rows // 20)
    for begin in range(0, rows, step):
        part = table[begin : min(begin + step, rows)]
        before = matmul_rate()
        start = time.perf_counter()
        predict(draws, part, levels=(), coverage=None)
        rate = operations * len(part) / (time.perf_counter() - start)
        fractions.append(2 * rate / (before + matmul_rate()))
    fraction, memory = statistics.median(fractions), peak_gigabytes() - baseline
    print(
        f"{rows:,} rows × {DRAWS:,} draws of {HIDDEN[0]}×{HIDDEN[1]} units: {fraction:.2f} of the rate of "
        f"float32 products (at least {LEAST_FRACTION}), {memory:.2f} GB above the imports (at most "
        f"{MOST_GIGABYTES})"
    )
    print(f"predict_matmul_fraction {fraction:.3f}")
    print(f"predict_peak_gigabytes {memory:.3f}")
    return 0 if fraction >= LEAST_FRACTION and memory <= MOST_GIGABYTES else 1


if __name__ == "__main__":
    sys.exit(main())
