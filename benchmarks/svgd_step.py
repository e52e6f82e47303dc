"""One step of svgd against BlackJAX's own, on the same density, in one process, in turns.

The recidivism network of the paper: 9 inputs, two hidden layers of 100 units (11,201 weights), 50 particles,
batches of 62 rows, Adagrad. Both steps are compiled and get the same particles. Prints `svgd_vs_blackjax`,
the median over turns of BlackJAX's seconds over ours, and fails below 15.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.svgd import Svgd
from ocbnn.model import Data, Model
from ocbnn.model.likelihoods import Bernoulli
from ocbnn.model.networks import MLP
from ocbnn.model.priors import IsotropicGaussian

LIMIT = 15.0
INPUTS, HIDDEN, PARTICLES, BATCH, ROWS, TURNS = 9, (100, 100), 50, 62, 6172, 9


def steps() -> tuple[Callable[[], object], Callable[[], object]]:
    """Our step and BlackJAX's, each on its own state."""
    random = np.random.default_rng(0)
    inputs = jnp.asarray(random.normal(size=(BATCH, INPUTS)), jnp.float32)
    y = jnp.asarray(random.integers(0, 2, BATCH), jnp.float32)
    network = MLP(INPUTS, HIDDEN, 1)
    density = Density(Model(network, Bernoulli(), IsotropicGaussian(network.size)))
    context = Context(Data(inputs, y, jnp.full(BATCH, ROWS / BATCH, jnp.float32)), (), ())
    particles = jnp.stack([network.initial(seed) for seed in range(PARTICLES)])

    engine = Svgd(optimizer="adagrad", learning_rate=0.5, decay="constant")
    key = jax.random.key(0)
    state = engine.init(density, key, particles, context)
    ours = jax.jit(lambda state, context: engine.step(density, key, state, context)[0])

    gradient = jax.grad(lambda w: density.log_density(w, context))
    peer = blackjax.svgd(gradient, optax.adagrad(0.5))
    peer_state = peer.init(particles, {"length_scale": 1.0})
    theirs = jax.jit(peer.step)
    return lambda: ours(state, context), lambda: theirs(peer_state)


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    begin = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - begin


def steady(work: Callable[[], object], calls: int) -> float:
    """The median of calls in a row, as in a run: the first ones find the other's data in the caches."""
    for _ in range(max(1, calls // 5)):
        seconds(work)
    return statistics.median(seconds(work) for _ in range(calls))


def measure(turns: int = TURNS) -> dict[str, float]:
    """Median seconds of both, and the median of their ratio."""
    ours, theirs = steps()
    mine, peers = [], []
    for _ in range(turns):
        mine.append(steady(ours, 15))
        peers.append(steady(theirs, 3))
    ratios = [peer / own for peer, own in zip(peers, mine, strict=True)]
    return {
        "svgd_vs_blackjax": statistics.median(ratios),
        "svgd_step_seconds": statistics.median(mine),
        "blackjax_svgd_step_seconds": statistics.median(peers),
    }


def main() -> int:
    """Measure and judge."""
    figures = measure()
    print(
        f"svgd_vs_blackjax {figures['svgd_vs_blackjax']:.1f} (at least {LIMIT:.0f}): "
        f"{1e3 * figures['svgd_step_seconds']:.1f} ms against "
        f"{1e3 * figures['blackjax_svgd_step_seconds']:.0f} ms"
    )
    return 0 if figures["svgd_vs_blackjax"] >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
