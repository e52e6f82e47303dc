"""What a gradient costs as points T, inputs Q, rows N, weights M and chains grow: exponents and a plot.

One axis grows at a time from a common base, far enough that the work and not the dispatch is measured; the
exponent is the slope of log seconds over log size. Fails where one exceeds 1.15: all of this work is linear,
and a slope of exactly 1 is measured within about a tenth on a shared machine.

    python benchmarks/scaling.py [--plot FILE.png] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from ocbnn.model import Data, Model
from ocbnn.schema import Column, Schema, Target

LIMIT = 1.15
BASE = {"T": 256, "Q": 8, "N": 1024, "units": 64, "chains": 4}
SIZES = {
    "T": (1024, 2048, 4096, 8192),
    "Q": (64, 128, 256, 512),
    "N": (4096, 8192, 16384, 32768),
    "units": (256, 512, 1024, 2048),
    "chains": (8, 16, 32, 64),
}


def seconds(T: int, Q: int, N: int, units: int, chains: int, turns: int = 7) -> tuple[float, int]:
    """The median time of the gradients of all chains, and the number of weights."""
    random = np.random.default_rng(0)
    columns = tuple(Column(f"x{i}", "continuous", (-2.0, 2.0)) for i in range(Q))
    schema = Schema(columns, Target("y", "regression", observed=(-2.0, 2.0)))
    model = Model.build(
        schema=schema,
        rules=["if x0 > 0 then y > 0"],
        hidden=(units,),
        noise=0.1,
        points=T,
        strength=10.0,
        sampler="uniform",
    )
    inputs = jnp.asarray(random.normal(size=(N, Q)), jnp.float32)
    y = jnp.asarray(random.normal(size=N), jnp.float32)
    points = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), model.points)
    positions = jnp.stack([model.initial(seed) for seed in range(chains)])
    gradient = jax.grad(lambda w, x, y, p: model.log_prior(w, p) + model.log_likelihood(w, Data(x, y)))
    all_chains = jax.jit(lambda q, x, y, p: jax.lax.map(lambda w: gradient(w, x, y, p), q))
    jax.block_until_ready(all_chains(positions, inputs, y, points))
    times = []
    for _ in range(turns):
        begin = time.perf_counter()
        jax.block_until_ready(all_chains(positions, inputs, y, points))
        times.append(time.perf_counter() - begin)
    return min(times), model.size


def measure() -> dict[str, dict[str, list[float] | float]]:
    """Sizes, seconds and the exponent of every axis; units are told as the number of weights M."""
    found: dict[str, dict[str, list[float] | float]] = {}
    for axis, sizes in SIZES.items():
        runs = [seconds(**{**BASE, axis: size}) for size in sizes]
        weights = [count for _, count in runs]
        along = [float(size) for size in (weights if axis == "units" else sizes)]
        times = [spent for spent, _ in runs]
        exponent = float(np.polyfit(np.log(along), np.log(times), 1)[0])
        found["M" if axis == "units" else axis] = {"sizes": along, "seconds": times, "exponent": exponent}
    return found


def plot(found: dict[str, dict[str, list[float] | float]], file: Path) -> None:
    """One line an axis, both scales logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for axis, line in found.items():
        sizes = np.asarray(line["sizes"])
        axes.loglog(sizes / sizes[0], line["seconds"], "o-", label=f"{axis}: exponent {line['exponent']:.2f}")
    axes.set(xlabel="growth of that size", ylabel="seconds for the gradients of all chains")
    axes.legend()
    figure.savefig(file, dpi=150)


def main() -> int:
    """Measure, print, plot and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = measure()
    for axis, line in found.items():
        shown = ", ".join(f"{1e3 * each:.1f}" for each in line["seconds"])  # type: ignore[union-attr]
        print(f"{axis:<7} exponent {line['exponent']:.2f} (at most {LIMIT}): {shown} ms")
    if given.plot:
        plot(found, given.plot)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    return 0 if statistics.fmean(line["exponent"] <= LIMIT for line in found.values()) == 1 else 1  # type: ignore[operator]


if __name__ == "__main__":
    sys.exit(main())
