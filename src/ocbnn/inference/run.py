"""From a model to draws: prepare (warm start, found points, strength, nodes), then the loop, then a verdict.

    result = infer(model, engine="hmc", until=ess(2000), seed=0)
    result.draws, result.status

The points and strengths that a posterior belongs to are frozen before any draw is kept, and shared by all
chains; they are in `result.model`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ocbnn.inference.base import Engine, InferenceError, Precision, precision
from ocbnn.inference.diagnostics import diagnose_run, probe_inputs, worst_ess
from ocbnn.inference.engines import choose, default_members
from ocbnn.inference.feed import Feed, rule_terms
from ocbnn.inference.loop import CHUNK, Chunk, Loop
from ocbnn.inference.outputs import model_outputs
from ocbnn.inference.prepare import Settings, prepare
from ocbnn.inference.prepared import Prepared
from ocbnn.inference.progress import Tick, reporting
from ocbnn.inference.result import Result
from ocbnn.inference.storage import RunFolder, fingerprint
from ocbnn.inference.strength import judge
from ocbnn.model import Model


@dataclass(frozen=True)
class ess:  # noqa: N801 - reads as a function: until=ess(2000)
    """Draw until the worst effective sample size over the probes is `target`.

    Attributes:
        target: effective draws asked for at the worst probe.
        most: draws per chain at which to give up.
    """

    target: float
    most: int = 100_000


def infer(
    model: Model,
    engine: str | Engine = "auto",
    *,
    members: int | None = None,
    draws: int = 1000,
    until: ess | None = None,
    seed: int = 0,
    thin: int = 1,
    batch: int | None = None,
    cores: int | None = None,
    prepare_with: Settings | None = None,
    probes: Float[np.ndarray, "probes D"] | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | Callable[[Tick], None] = False,
) -> Result:
    """Draws of a model's posterior, or of its prior where it has no data.

    Args:
        model: what to infer; rules without a given strength get one from pilot runs.
        engine: a name in `ENGINES`, an engine with its own settings, or "auto".
        members: chains, particles or ensemble members; each engine has its own default.
        draws: kept draws of each chain (for engines without chains: draws in all).
        until: draw until an effective sample size is reached, instead of a number of draws.
        seed: of everything. The same seed gives the same draws on the same machine.
        thin: steps from one kept draw to the next.
        batch: rows of a minibatch for the engines that take them; chosen by the number of rows otherwise.
        cores: how many groups of chains run side by side; all cores unless given.
        prepare_with: settings of the warm start, the pilots and the nodes.
        probes: model inputs at which convergence is judged; rows and region points unless given.
        folder: where draws are kept as they come, so that a run can be resumed.
        resume: go on with the run in `folder`.
        progress: show a bar, or call a function with every tick.
    """
    began = time.perf_counter()
    chosen, why = choose(engine, model)
    kind: Precision = "float32" if chosen.stochastic else "float64"
    count = default_members(chosen) if members is None else members
    settings = prepare_with or Settings()
    store = None if folder is None else RunFolder(folder)
    if store is not None:
        store.open(_description(model, chosen, count, seed, thin, batch, settings), resume=resume)
    with precision(kind), reporting(progress) as report:
        prepared = prepare(model, chosen, kind, count, seed, batch, cores, settings, store, report)
        run = _Run(prepared, chosen, kind, count, seed, thin, batch, cores, probes, store, report)
        return run.finish(draws, until, why, began)


class _Run:
    """The state of one call of `infer` between preparation and verdict."""

    def __init__(
        self,
        prepared: Prepared,
        engine: Engine,
        kind: Precision,
        members: int,
        seed: int,
        thin: int,
        batch: int | None,
        cores: int | None,
        probes: np.ndarray | None,
        store: RunFolder | None,
        report: Callable[[Tick], None],
    ) -> None:
        self.prepared, self.engine, self.seed, self.report = prepared, engine, seed, report
        self.probes = probe_inputs(prepared.model, seed=seed) if probes is None else np.asarray(probes)
        cores = cores or os.cpu_count() or 1
        self.loop = Loop.start(prepared, engine, kind, seed, cores, thin=thin, batch=batch, folder=store)
        self.warm: list[Chunk] = []
        self.kept: list[Chunk] = []
        self.values: list[np.ndarray] = []
        self.complete = True
        self.began = time.perf_counter()

    def finish(self, draws: int, until: ess | None, why: str, began: float) -> Result:
        self._adopt(self.loop.replay())
        try:
            self._sample(draws, until)
        except KeyboardInterrupt:
            self.complete = False
        return self._result(draws, until, why, began)

    @property
    def _warm_chunks(self) -> int:
        return -(-self.engine.warmup // (self.loop.length * self.loop.thin))

    def _adopt(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self._file(chunk)

    def _file(self, chunk: Chunk) -> None:
        if len(self.warm) < self._warm_chunks:
            # Positions of the warm-up are of no further use, and they are many.
            self.warm.append(chunk._replace(positions=None))
            return
        self.kept.append(chunk)
        assert chunk.positions is not None
        self.values.append(self._function_values(chunk.positions))

    def _function_values(self, positions: np.ndarray) -> np.ndarray:
        """Φ at the probes, chain × draw × probe (× class)."""
        chains, steps, size = positions.shape
        flat = model_outputs(self.prepared.model, positions.reshape(-1, size), self.probes)
        return flat.reshape(chains, steps, -1)

    def _sample(self, draws: int, until: ess | None) -> None:
        while len(self.warm) < self._warm_chunks:
            self._step("warm-up" if self.engine.collects == "along" else "optimise")
        if self.engine.collects == "at-end":
            return
        wanted = CHUNK if until else draws
        while self._drawn < wanted:
            self._step("sample", wanted)
            if until and self._drawn >= wanted:
                wanted = self._enough(until)

    @property
    def _drawn(self) -> int:
        return len(self.kept) * self.loop.length

    def _enough(self, until: ess) -> int:
        """How many draws are needed, judged from those there are; no more than are there if they suffice."""
        reached = worst_ess(np.concatenate(self.values, axis=1))
        if reached >= until.target or self._drawn >= until.most:
            return self._drawn
        # Effective draws grow linearly; early estimates are noisy, so never more than double at once.
        needed = self._drawn * min(2.0, 1.05 * until.target / max(reached, 1.0))
        return min(until.most, self._drawn + max(CHUNK, int(needed) - self._drawn))

    def _step(self, phase: str, wanted: int = 0) -> None:
        chunk = self.loop.advance()
        self._file(chunk)
        if not np.isfinite(chunk.log_density[:, -1]).all():
            self._blame(chunk)
        done = len(self.warm) if phase != "sample" else len(self.kept)
        total = self._warm_chunks if phase != "sample" else -(-wanted // self.loop.length)
        seconds = time.perf_counter() - self.began
        self.report(Tick.of(phase, done * self.loop.length, total * self.loop.length, seconds, chunk))

    def _blame(self, chunk: Chunk) -> None:
        member = int(np.flatnonzero(~np.isfinite(chunk.log_density[:, -1]))[0])
        raise InferenceError(
            f"After step {self.loop.done * self.loop.length * self.loop.thin} the log-density of member "
            f"{member} is not finite any more. Lower the learning rate or step size of {self.engine.name!r}, "
            "or give a rule less strength."
        )

    def _result(self, draws: int, until: ess | None, why: str, began: float) -> Result:
        model, loop = self.prepared.model, self.loop
        if self.engine.collects == "along":
            positions = [chunk.positions for chunk in self.kept if chunk.positions is not None]
            if not positions:
                raise KeyboardInterrupt
            kept = np.concatenate(positions, axis=1)
            kept = kept if until else kept[:, :draws]
            values = np.concatenate(self.values, axis=1)[:, : kept.shape[1]]
        else:
            kept = loop.final_draws(draws)
            values = self._function_values(kept)
        chunks = self.kept or self.warm[-1:]
        acceptance = np.concatenate([c.acceptance for c in chunks], axis=1).mean(axis=1)
        divergences = np.concatenate([c.diverged for c in chunks], axis=1).sum(axis=1)
        trace = np.concatenate([c.log_density.mean(axis=0) for c in self.warm]) if self.warm else np.zeros(0)
        context = loop.source.one(0) if isinstance(loop.source, Feed) else loop.source
        diagnostics = diagnose_run(
            model=model,
            engine=self.engine,
            draws=kept,
            values=values,
            probes=self.probes,
            acceptance=acceptance,
            divergences=divergences,
            trace=trace,
            context=context,
        )
        outcomes = judge(self.prepared, kept, seed=self.seed)
        seconds = {
            **self.prepared.seconds,
            "compile": self.prepared.seconds.get("compile", 0.0) + loop.compile_seconds,
            "total": time.perf_counter() - began,
        }
        status = diagnostics.status if self.complete else f"interrupted, {diagnostics.status}"
        logs = [c.log_density for c in self.kept]
        return Result(
            draws=kept,
            model=model,
            engine=self.engine.name,
            settings={**asdict(self.engine), "why": why},  # type: ignore[call-overload]
            seed=self.seed,
            status=status,
            converged=diagnostics.converged and self.complete,
            diagnostics=diagnostics,
            rules=outcomes,
            complete=self.complete,
            seconds=seconds,
            log_density=np.concatenate(logs, axis=1)[:, : kept.shape[1]] if logs else None,
            acceptance=acceptance,
            divergences=divergences,
            work=self.prepared.work + sum(chunk.work for chunk in (*self.warm, *self.kept)),
            trace=trace,
        )


def _description(
    model: Model,
    engine: Engine,
    members: int,
    seed: int,
    thin: int,
    batch: int | None,
    settings: Settings,
) -> dict[str, Any]:
    rules = [rule.rule.text(rule.schema) for rule in rule_terms(model)]
    return {
        "format": 1,
        "engine": engine.name,
        "settings": repr(engine),
        "prepare": repr(settings),
        "members": members,
        "seed": seed,
        "thin": thin,
        "batch": batch,
        "rules": rules,
        "network": repr(model.network),
        "data": fingerprint(model.data, [rule.points for rule in rule_terms(model)]),
    }
