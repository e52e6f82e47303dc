"""Effective draws per second of our engines against NumPyro's NUTS, on the same densities, in one run.

Every run is a process of its own, peers in turns, so that neither sees the other's devices or caches. Counted
are effective draws at the worst probe over the seconds from prior draws to the last draw, warm-up
included; seconds spent compiling (as JAX reports them) are stated apart. NumPyro starts from the positions
that our warm start found, at no charge. Beside it: one step of svgd against BlackJAX's, and one of bbb
against a matrix product.

    python benchmarks/inference.py [--quick] [--seeds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PEERS = ("ocbnn", "numpyro-parallel", "numpyro-vectorized")
TARGETS = {"figure1b": 10.0, "figure2": 3.0, "figure1": 3.0}


def compile_clock() -> list[float]:
    """Seconds that JAX has spent compiling so far, as a list of one number that keeps growing."""
    import jax

    spent = [0.0]

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile"):
            spent[0] += seconds

    jax.monitoring.register_event_duration_secs_listener(listen)
    return spent


def run_ours(name: str, seed: int, effective: float) -> dict[str, float]:
    """Our default chain engine, until the worst probe has that many effective draws."""
    from densities import DENSITIES, probes

    from ocbnn.inference import Settings, WarmStart, ess, infer

    spent = compile_clock()
    model = DENSITIES[name]()
    begin, compiled = time.perf_counter(), spent[0]
    same = Settings(warm=WarmStart(searches=0))  # no points but the model's own: the peers' density
    result = infer(model, "hmc", until=ess(effective), seed=seed, probes=probes(name), prepare_with=same)
    seconds = time.perf_counter() - begin
    found = result.diagnostics
    return {
        "ess": found.worst_bulk_ess,
        "rhat": found.worst_rhat,
        "seconds": seconds - (spent[0] - compiled),
        "compile_seconds": spent[0] - compiled,
    }


def run_numpyro(name: str, seed: int, method: str, draws: int) -> dict[str, float]:
    """NumPyro's NUTS with its defaults: one chain a core in parallel, or four vectorized."""
    import jax
    import numpy as np
    import numpyro
    from densities import DENSITIES, probes
    from numpyro.infer import MCMC, NUTS

    from ocbnn.checking.convergence import mixing
    from ocbnn.inference.density import Density, fixed_context
    from ocbnn.inference.engines.hmc import Hmc
    from ocbnn.inference.prepare import starting_positions
    from ocbnn.inference.warmstart import WarmStart
    from ocbnn.model.outputs import model_outputs

    numpyro.enable_x64()
    spent = compile_clock()
    model = DENSITIES[name]()
    chains = 2 if method == "parallel" else 4
    starts = starting_positions(model, chains, seed, Hmc())
    starts = WarmStart().optimise(Density(model), starts, fixed_context(model))
    kernel = NUTS(potential_fn=lambda w: -model.log_density(w))
    sampler = MCMC(
        kernel,
        num_warmup=500,
        num_samples=draws,
        num_chains=chains,
        chain_method=method,
        progress_bar=False,
    )
    begin, compiled = time.perf_counter(), spent[0]
    sampler.run(jax.random.key(seed), init_params=np.asarray(starts))
    samples = np.asarray(sampler.get_samples(group_by_chain=True))
    seconds = time.perf_counter() - begin
    compiling = spent[0] - compiled
    values = model_outputs(model, samples.reshape(-1, model.size), probes(name))
    found = mixing(values.reshape(chains, samples.shape[1], -1))
    return {
        "ess": float(found.bulk_ess.min()),
        "rhat": float(found.rhat.max()),
        "seconds": seconds - compiling,
        "compile_seconds": compiling,
    }


def one(peer: str, density: str, seed: int, quick: bool) -> dict[str, float]:
    """One run in a process of its own."""
    command = [sys.executable, __file__, "--peer", peer, "--density", density, "--seeds", str(seed)]
    environment = dict(os.environ)
    if peer == "numpyro-parallel":
        environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    outcome = subprocess.run(
        command + (["--quick"] if quick else []), env=environment, check=True, capture_output=True, text=True
    )
    return json.loads(outcome.stdout.strip().splitlines()[-1])


def compare(density: str, seeds: int, quick: bool) -> dict[str, Any]:
    """All peers in turns; medians over seeds, and our ratio to the better of NumPyro's two."""
    runs: dict[str, list[dict[str, float]]] = {peer: [] for peer in PEERS}
    for seed in range(seeds):
        for peer in PEERS:
            runs[peer].append(one(peer, density, seed, quick))
            print(density, peer, seed, runs[peer][-1], file=sys.stderr, flush=True)
    rates = {peer: statistics.median(r["ess"] / r["seconds"] for r in found) for peer, found in runs.items()}
    better = max(rates["numpyro-parallel"], rates["numpyro-vectorized"])
    return {"ess_per_second": rates, "ratio": rates["ocbnn"] / better, "runs": runs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer draws: a smoke run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--density", choices=tuple(TARGETS))
    given = parser.parse_args()
    if given.peer:
        effective, draws = (200.0, 200) if given.quick else (2000.0, 2000)
        if given.peer == "ocbnn":
            found = run_ours(given.density, given.seeds, effective)
        else:
            found = run_numpyro(given.density, given.seeds, given.peer.split("-")[1], draws)
        print(json.dumps(found))
        return 0
    results = {
        density: compare(density, given.seeds, given.quick)
        for density in ([given.density] if given.density else TARGETS)
    }
    print(f"{'density':<10} {'ours ESS/s':>11} {'parallel':>9} {'vectorized':>11} {'ratio':>7} {'target':>7}")
    for density, found in results.items():
        rates = found["ess_per_second"]
        print(
            f"{density:<10} {rates['ocbnn']:>11.0f} {rates['numpyro-parallel']:>9.1f} "
            f"{rates['numpyro-vectorized']:>11.1f} {found['ratio']:>7.1f} {TARGETS[density]:>7.0f}"
        )
    figures: dict[str, Any] = {"densities": results}
    if "figure1b" in results:
        figures["ess_per_second_vs_numpyro"] = results["figure1b"]["ratio"]
    missed = [density for density, found in results.items() if found["ratio"] < TARGETS[density]]
    if not given.density:
        import bbb_step
        import svgd_step

        figures |= svgd_step.measure() | bbb_step.measure()
        print(f"svgd_vs_blackjax {figures['svgd_vs_blackjax']:.1f}, at least {svgd_step.LIMIT:.0f}")
        print(f"bbb_matmul_fraction {figures['bbb_matmul_fraction']:.2f}, at least {bbb_step.LIMIT}")
        missed += ["svgd"] if figures["svgd_vs_blackjax"] < svgd_step.LIMIT else []
        missed += ["bbb"] if figures["bbb_matmul_fraction"] < bbb_step.LIMIT else []
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))
    if missed:
        print(f"below their target: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
