"""From a model to draws: prepare (warm start, found points, strength, nodes), then the loop, then a verdict.

    result = infer(model, engine="hmc", until=ess(2000), seed=0)
    result.draws, result.status

The points and strengths that a posterior belongs to are frozen before any draw is kept, and shared by all
chains; they are in `result.model`.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ocbnn.checking.convergence import LEAST_DRAWS, rhat
from ocbnn.errors import InferenceError, OCBNNWarning
from ocbnn.inference.checkpoint import description
from ocbnn.inference.density import Prepared, parts_of
from ocbnn.inference.diagnostics import (
    Diagnostics,
    diagnose_run,
    hyperparameter_values,
    probe_inputs,
    varying_ess,
    worst_ess,
)
from ocbnn.inference.engines import choose, default_chains, default_draws
from ocbnn.inference.engines.base import Bias, Engine
from ocbnn.inference.feed import default_batch
from ocbnn.inference.loop import CHUNK, Chunk, Loop, RunOptions
from ocbnn.inference.prepare import Settings, prepare
from ocbnn.inference.processes import Processes
from ocbnn.inference.result import Result, RuleOutcome
from ocbnn.inference.strength import judge
from ocbnn.model import Model
from ocbnn.model.likelihoods import VaryingGaussian
from ocbnn.model.outputs import model_outputs, noise_values, precision
from ocbnn.model.programs import release_programs
from ocbnn.progress import Tick, reporting
from ocbnn.resources import require_memory, require_work
from ocbnn.storage.runs import RunFolder

WATCHED_PROBES = 16

STEP = 1_000_000
"""Operations that the smallest step takes the time of: some 10 microseconds."""
PATIENCE = 3e12
"""Operations within which a run of no given length goes on until it settles: half a minute of two cores."""
HOPELESS = 2
"""Effective draws of a chain: those of chains that stay apart are worth less, however often they go on."""
HARDEST = 16
"""Quantities that stand for all while they are worth less than what is asked for."""


@dataclass(frozen=True)
class ess:  # noqa: N801 - reads as a function: until=ess(2000)
    """Draw until the worst effective sample size over the probes is `target`.

    Attributes:
        target: effective draws asked for at the worst probe.
        most: draws per chain at which to give up.
    """

    target: float
    most: int = 100_000

    def __post_init__(self) -> None:
        if not (self.target > 0 and self.most >= 1):
            raise InferenceError(
                f"ess(target, most) are positive numbers of draws, not {self.target} and {self.most}."
            )


def infer(
    model: Model,
    engine: str | Engine = "auto",
    *,
    chains: int | None = None,
    draws: int | None = None,
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
    executor: Executor | None = None,
) -> Result:
    """Draws of a model's posterior, or of its prior where it has no data.

    Args:
        model: what to infer; rules without a given strength get one from pilot runs.
        engine: a name in `ENGINES`, an engine with its own settings, or "auto".
        chains: chains, particles or networks of an ensemble, side by side; each engine has its own default.
        draws: kept draws of each chain (for engines without chains: draws in all). By default each engine
            has its own number, and chains that disagree go on, twice as long each time, for as long as half a
            minute allows: the first half then counts as warm-up, and of the rest as many draws are kept.
        until: draw until an effective sample size is reached, instead of a number of draws.
        seed: of everything. The same seed gives the same draws on the same machine.
        thin: steps from one kept draw to the next.
        batch: rows of a minibatch for the engines that take them; chosen by the number of rows otherwise.
        cores: how many groups of chains run side by side; all cores unless given. Chains of a group share
            their adaptation, so that other draws, as good, come from another number of cores.
        prepare_with: settings of the warm start, the pilots and the nodes.
        probes: model inputs at which convergence is judged; rows and region points unless given.
        folder: where draws are kept as they come, so that a run can be resumed.
        resume: go on with the run in `folder`.
        progress: show a bar, or call a function with every tick.
        executor: any of `concurrent.futures`, whose workers run the groups of chains; a Dask client's is
            `client.get_executor()`. Threads here unless given. The same `cores` give the same draws,
            wherever groups run; give as many cores as there are workers.

    Where `jax.distributed.initialize` was called, its processes train together, with `bbb` or `sgld`: each
    takes its share of the rows of every minibatch, and the first one writes.

    Ctrl-C while drawing gives what there is, with `complete=False` and a status that says so. Before the
    first draw it re-raises KeyboardInterrupt and says how to resume.
    """
    began = time.perf_counter()
    _check_until(until)
    chosen, why = choose(engine, model, along=until is not None)
    if until is not None and not chosen.has_chains:
        raise InferenceError(
            f"until=ess({until.target:g}) asks for draws along chains, but {chosen.name!r} optimises: its "
            "draws are those of its end. Leave until out, or give an engine with chains (hmc, nuts, sgld)."
        )
    if chosen.stochastic and chosen.has_chains and any(term.rule.is_everywhere for term in model.terms):
        raise InferenceError(
            f"`holds: everywhere` needs chains that always see the same points, and those of {chosen.name!r} "
            'take fresh ones at every step. Give engine="mclmc", "hmc", "nuts" or "bbb", or leave '
            "`holds` out."
        )
    if model.stream is not None and not chosen.stochastic:
        raise InferenceError(
            f"The table is read in pieces, and {chosen.name!r} needs all rows at every step. Give an engine "
            'that takes minibatches ("bbb", "sgld", "svgd" or "ensemble"), or fit a sample of the rows.'
        )
    if until is not None and not chosen.exact and engine == "auto":
        warnings.warn(f"{why}. Give engine= to choose yourself.", OCBNNWarning, stacklevel=2)
    count = default_chains(chosen) if chains is None else chains
    patient = draws is None and until is None and chosen.has_chains and count > 1
    draws = default_draws(chosen) if draws is None else draws
    cores = (os.cpu_count() or 1) if cores is None else cores
    _check(chains=count, draws=draws, thin=thin, batch=batch, cores=cores, seed=seed)
    if executor is not None and not isinstance(executor, Executor):
        raise InferenceError(
            f"executor is one of concurrent.futures, or None, not {executor!r}. A Dask client gives one: "
            "client.get_executor()."
        )
    if resume and folder is None:
        raise InferenceError("resume=True needs folder=…, where the run to go on with is.")
    options = RunOptions(
        engine=chosen,
        precision=chosen.precision,
        chains=int(count),
        seed=int(seed),
        thin=int(thin),
        batch=default_batch(model) if batch is None else int(batch),
        cores=int(cores),
        executor=executor,
        processes=Processes.here(),
    )
    options.processes.require(chosen.name, executor)
    _require_room(model, options, int(draws) if until is None else CHUNK)
    settings = prepare_with or Settings()
    release_programs()
    first = options.processes.index == 0
    # Of processes that train together the first one writes; the others read what an earlier run has left.
    store = None if folder is None or not (first or resume) else RunFolder(folder, writes=first)
    if store is not None:
        store.open(description(model, options, settings), resume=resume)
    with precision(options.precision), reporting(progress) as report:
        try:
            prepared = prepare(model, options, settings, store, report)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("Interrupted while preparing: nothing is kept of it.") from None
        watched = report if progress else None
        run = _Run(
            Loop.start(prepared, options, folder=store), prepared, int(draws), patient, probes, watched
        )
        return run.finish(until, why, began)


def _require_room(model: Model, run: RunOptions, draws: int) -> None:
    """Refuse a run that would take more memory or time than there is, before it begins."""
    engine, chains = run.engine, run.chains
    number = 4 if engine.stochastic else 8  # bytes
    rows = _rows_of_a_gradient(model, run)
    units = sum(getattr(model.network, "hidden", ()))
    # Draws are held twice while they are put together; a state has a position, a gradient and moments.
    kept = 2 * (chains if engine.has_chains else 1) * draws * model.size + 4 * chains * model.size
    what = f"{engine.name} with {chains:,} chains or particles of {model.size:,} weights and {draws:,} draws"
    remedy = "Ask for fewer chains, particles or draws, or for a smaller network."
    require_memory(number * (kept + chains * rows * units), what, remedy)
    steps = engine.warmup + (draws * run.thin if engine.has_chains else 0)
    require_work(steps * max(4 * chains * rows * model.size, STEP), f"{what} in {steps:,} steps", remedy)


def _rows_of_a_gradient(model: Model, run: RunOptions) -> int:
    if run.batch is None or not run.engine.stochastic:
        return model.rows
    return min(run.batch, model.rows)


def _check(*, seed: int, **counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and not _whole(value, least=1):
            raise InferenceError(f"{name} is {value!r}, but must be a whole number, 1 or more.")
    if not _whole(seed, least=0):
        raise InferenceError(f"seed is {seed!r}, but must be a whole number, 0 or more.")


def _whole(value: object, *, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def _check_until(until: object) -> None:
    if until is not None and not isinstance(until, ess):
        raise InferenceError(
            f"until is ess(…), such as until=ess(2000), not {until!r}; draws=… asks for a number of draws."
        )


class _Run:
    """The state of one call of `infer` between preparation and verdict."""

    def __init__(
        self,
        loop: Loop,
        prepared: Prepared,
        draws: int,
        patient: bool,
        probes: np.ndarray | None,
        report: Callable[[Tick], None] | None,
    ) -> None:
        self.loop, self.prepared = loop, prepared
        self.draws, self.patient = draws, patient
        self.engine, self.seed = loop.engine, loop.options.seed
        self.probes = probe_inputs(prepared.model, seed=self.seed) if probes is None else np.asarray(probes)
        self.warm: list[Chunk] = []
        self.kept: list[tuple[Chunk, np.ndarray]] = []  # with Φ at the probes
        self.wanted = 0
        self.hardest: np.ndarray | None = None  # where draws were worth least, of all probes
        self.complete = True
        self.fell_short = ""  # of the effective draws asked for
        self.watch = None if report is None else _Watch(report)
        self.seconds: dict[str, float] = {}

    def finish(self, until: ess | None, why: str, began: float) -> Result:
        for chunk in self.loop.replay():
            self._file(chunk)
        try:
            self._sample(until)
        except KeyboardInterrupt:
            self.complete = False
            if not (self.kept or (self.warm and not self.engine.has_chains)):
                raise KeyboardInterrupt(self._nothing_kept()) from None
        return self._result(why, began)

    def _nothing_kept(self) -> str:
        folder = self.loop.folder
        way = (
            "give folder=… to be able to resume"
            if folder is None
            else f"resume=True goes on in {folder.path}"
        )
        done = f"{len(self.warm)} of {self.loop.warm_chunks} parts of the warm-up were done"
        return f"Interrupted before the first draw was kept: {done}; {way}."

    @property
    def _warm_steps(self) -> int:
        """Of the warm-up, as ticks count them: an optimisation ends with its last step, not with a chunk."""
        whole = self.loop.warm_chunks * self.loop.length
        return min(whole, self.engine.warmup) if not self.engine.has_chains else whole

    def _file(self, chunk: Chunk) -> None:
        if len(self.warm) < self.loop.warm_chunks:
            # Positions of the warm-up are of no further use, and they are many.
            self.warm.append(chunk._replace(positions=None))
            return
        assert chunk.positions is not None
        self.kept.append((chunk, self._function_values(chunk.positions)))

    def _function_values(self, positions: np.ndarray) -> np.ndarray:
        """Φ at the probes (× class; with its noise where that varies), then hyperparameters.

        The shape is chain × draw × quantity.
        """
        model, (chains, steps, size) = self.prepared.model, positions.shape
        flat = model_outputs(model, positions.reshape(-1, size), self.probes)
        if isinstance(model.likelihood, VaryingGaussian):
            noise = noise_values(model, positions.reshape(-1, size), self.probes)
            flat = np.stack([flat, np.log(noise).astype(flat.dtype)], axis=-1)
        further = hyperparameter_values(model, positions)
        return np.concatenate([flat.reshape(chains, steps, -1), further.astype(flat.dtype)], axis=2)

    def _sample(self, until: ess | None) -> None:
        while len(self.warm) < self.loop.warm_chunks:
            self._step("warm-up" if self.engine.has_chains else "optimise")
        if not self.engine.has_chains:
            return
        self.wanted = self.draws if until is None else min(CHUNK, until.most)
        while True:
            while self._drawn < self.wanted:
                self._step("sample")
            following = self._settled() if until is None else self._enough(until)
            if following == self.wanted:
                return
            self.wanted = following

    @property
    def _drawn(self) -> int:
        return len(self.kept) * self.loop.length

    def _values(self, chosen: slice) -> np.ndarray:
        return np.concatenate([values for _, values in self.kept], axis=1)[:, chosen]

    def _kept(self, drawn: int) -> slice:
        """The draws that are kept: all, or, of a run that had to go on, as many of the latter half."""
        if not self.patient or drawn <= self.draws:
            return slice(0, drawn)
        begin = drawn // 2
        return slice(begin, drawn, max((drawn - begin) // self.draws, 1))

    def _settled(self) -> int:
        """How many draws are needed: twice as many where chains disagree, come closer, and there is time."""
        rows = _rows_of_a_gradient(self.prepared.model, self.loop.options)
        chunks = -(-self.wanted // self.loop.length)  # a resumed run has read more
        work = sum(chunk.work for chunk, _ in self.kept[:chunks]) * (
            4 * rows * self.prepared.model.size + STEP
        )
        if not self.patient or 2 * work > PATIENCE:
            return self.wanted
        chosen = self._kept(self.wanted)
        found = self._diagnosed(self._values(chosen), chosen)
        hopeless = found.worst_bulk_ess < HOPELESS * self.loop.options.chains
        return self.wanted if found.converged or hopeless else 2 * self.wanted

    def _diagnosed(
        self, values: np.ndarray, chosen: slice, draws: np.ndarray | None = None, bias: Bias | None = None
    ) -> Diagnostics:
        """The verdict on these draws of the chains; particles are judged themselves."""
        chunks = [chunk for chunk, _ in self.kept] or self.warm[-1:]
        return diagnose_run(
            model=self.prepared.model,
            engine=self.engine,
            draws=np.zeros(0) if draws is None else draws,
            values=values,
            probes=self.probes,
            acceptance=np.concatenate([c.acceptance for c in chunks], axis=1)[:, chosen].mean(axis=1),
            divergences=np.concatenate([c.diverged for c in chunks], axis=1)[:, chosen].sum(axis=1),
            trace=self._trace(),
            bias=bias,
        )

    def _trace(self) -> np.ndarray:
        """The mean log-density over the warm-up, or the whole optimisation."""
        return np.concatenate([c.log_density.mean(axis=0) for c in self.warm]) if self.warm else np.zeros(0)

    def _enough(self, until: ess) -> int:
        """How many draws are needed, judged from those wanted so far alone: resumed runs judge alike."""
        reached = self._reached(self._values(slice(0, self.wanted)), until.target)
        if reached >= until.target or self.wanted >= until.most:
            if reached < until.target:
                asked = f"of {until.target:,.0f} effective draws asked for"
                self.fell_short = (
                    f"; {asked}, the {until.most:,} draws of each chain allowed gave {reached:,.0f}"
                )
            return self.wanted
        # Effective draws grow linearly; early estimates are noisy, so never more than double at once.
        needed = self.wanted * min(2.0, 1.05 * until.target / max(reached, 1.0))
        chunks = -(-int(needed) // CHUNK)
        return min(until.most, max(self.wanted + CHUNK, chunks * CHUNK))

    def _reached(self, values: np.ndarray, target: float) -> float:
        """The worst effective sample size; of few quantities, the worst of before, while these say enough."""
        if self.hardest is not None:
            reached = worst_ess(values[..., self.hardest])
            if reached < target:
                return reached
        effective = varying_ess(values)
        self.hardest = np.argsort(effective, kind="stable")[:HARDEST]
        return worst_ess(values[..., self.hardest])

    def _step(self, phase: str) -> None:
        began, compiling = time.perf_counter(), self.loop.compile_seconds
        chunk = self.loop.advance()
        spent = time.perf_counter() - began - (self.loop.compile_seconds - compiling)
        self._file(chunk)
        if not np.isfinite(chunk.log_density[:, -1]).all():
            raise InferenceError(self._blame(chunk))
        self.seconds[phase] = self.seconds.get(phase, 0.0) + spent
        if self.watch is not None:
            sampling, length = phase == "sample", self.loop.length
            total = self.wanted if sampling else self._warm_steps
            done = len(self.kept) * length if sampling else min(len(self.warm) * length, total)
            self.watch.tell(phase, done, total, length, spent, chunk, self.kept)

    def _blame(self, chunk: Chunk) -> str:
        """Which part of the density is not finite any more, at the latest positions."""
        chain = int(np.flatnonzero(~np.isfinite(chunk.log_density[:, -1]))[0])
        step = self.loop.done * self.loop.length * self.loop.thin
        step = step if self.engine.has_chains else min(step, self.engine.warmup)
        said = f"After step {step:,} the log-density of chain {chain + 1} is not finite any more"
        draws = self.loop.final_draws(16).reshape(-1, self.prepared.model.size)
        remedy = (
            f"Lower the learning rate or step size of {self.engine.name!r}, or check what that part sees."
        )
        if not np.isfinite(draws).all():
            return f"{said}: its weights themselves are not. {remedy}"
        context, density = self.loop.last_context(), self.prepared.density
        for name, values in parts_of(density, jnp.asarray(draws), context).items():
            bad = np.asarray(values)[~np.isfinite(np.asarray(values))]
            if bad.size:
                return f"{said}: the {name} is {float(bad[0])}. {remedy}"
        return f"{said}, though each part of it is at the latest positions. {remedy}"

    def _result(self, why: str, began: float) -> Result:
        model, loop = self.prepared.model, self.loop
        chosen = self._kept(min(self.wanted, self._drawn) if self.complete else self._drawn)
        if self.engine.has_chains:
            chunks = [chunk for chunk, _ in self.kept]
            kept = np.concatenate([c.positions for c in chunks if c.positions is not None], axis=1)[:, chosen]
            values = self._values(chosen)
            logs = np.concatenate([c.log_density for c in chunks], axis=1)[:, chosen]
        else:
            kept, logs, chosen = loop.final_draws(self.draws), None, slice(None)
            values = self._function_values(kept)
        diagnostics = self._diagnosed(values, chosen, kept, self._bias())
        sampled = self.complete
        outcomes = self._judge(kept)
        label = (
            self._interrupted() if sampled == self.complete else "interrupted before the rules were judged; "
        )
        compiling = self.prepared.seconds.get("compile", 0.0) + loop.compile_seconds
        total = time.perf_counter() - began
        return Result(
            draws=kept,
            model=model,
            engine=self.engine.name,
            settings={**asdict(self.engine), "why": why},  # type: ignore[call-overload]
            seed=self.seed,
            status=f"{label}{diagnostics.status}{self.fell_short}{_verdicts(outcomes)}",
            converged=diagnostics.converged and self.complete,
            diagnostics=diagnostics,
            rules=outcomes,
            complete=self.complete,
            seconds={**self.prepared.seconds, **self.seconds, "compile": compiling, "total": total},
            log_density=logs,
            acceptance=diagnostics.acceptance,
            divergences=diagnostics.divergences,
            work=self.prepared.work + sum(c.work for c in (*self.warm, *(chunk for chunk, _ in self.kept))),
            trace=self._trace(),
        )

    def _bias(self) -> Bias | None:
        known = getattr(self.engine, "bias", None)
        return None if known is None else known(self.loop.states)

    def _judge(self, draws: np.ndarray) -> tuple[RuleOutcome, ...]:
        """What became of each rule; none where this is interrupted, and the draws are kept."""
        try:
            return judge(self.prepared, draws, self.seed, has_chains=self.engine.has_chains)
        except KeyboardInterrupt:
            self.complete = False
            return ()

    def _interrupted(self) -> str:
        if self.complete:
            return ""
        if self.engine.has_chains:
            return f"interrupted after {self._drawn:,} draws of each chain; "
        steps = min(len(self.warm) * self.loop.length, self.engine.warmup)
        return f"interrupted after {steps:,} of {self.engine.warmup:,} steps; "


def _verdicts(outcomes: tuple[RuleOutcome, ...]) -> str:
    """The rules that are not shown to be met, by verdict."""
    unmet = [repr(outcome.name) for outcome in outcomes if outcome.unmet]
    doubtful = [repr(outcome.name) for outcome in outcomes if outcome.not_shown]
    words = f"; UNMET: {', '.join(unmet)}" if unmet else ""
    return words + (f"; not shown at its tolerance: {', '.join(doubtful)}" if doubtful else "")


class _Watch:
    """Ticks for whoever looks on: rates are of this phase in this process, R-hat is renewed now and then."""

    def __init__(self, report: Callable[[Tick], None]) -> None:
        self.report = report
        self.began = time.perf_counter()
        self.phase, self.steps, self.spent = "", 0, 0.0
        self.judged = 0
        self.worst: float | None = None

    def tell(
        self,
        phase: str,
        done: int,
        total: int,
        steps: int,
        spent: float,
        chunk: Chunk,
        kept: list[tuple[Chunk, np.ndarray]],
    ) -> None:
        """One more chunk of so many steps took so many seconds."""
        if phase != self.phase:
            self.phase, self.steps, self.spent = phase, 0, 0.0
        self.steps, self.spent = self.steps + steps, self.spent + spent
        rate = self.steps / max(self.spent, 1e-9)
        seconds = time.perf_counter() - self.began
        tick = Tick.of(phase, done, total, seconds, chunk, worst_rhat=self._worst_rhat(kept))
        self.report(replace(tick, rate=rate, remaining=max(total - done, 0) / rate))

    def _worst_rhat(self, kept: list[tuple[Chunk, np.ndarray]]) -> float | None:
        # A quarter more draws before each look, at few probes: watching stays cheap, however long the run.
        if len(kept) >= max(1.25 * self.judged, 1):
            values = np.concatenate([v[..., :: -(-v.shape[-1] // WATCHED_PROBES)] for _, v in kept], axis=1)
            if values.shape[1] >= LEAST_DRAWS:
                found = rhat(values)
                known = found[np.isfinite(found)]
                self.judged, self.worst = len(kept), float(known.max()) if known.size else None
        return self.worst
