"""The one loop of all engines: chunks of steps, groups side by side, draws to disk as they come.

A chunk is one compiled scan over steps. Groups are independent and run in threads, one a core, or on the
workers of an executor. The random numbers of a step depend on the seed, the group and the step's number
alone, so draws depend neither on the length of chunks, nor on interruptions, nor on where a group runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pickle import PicklingError
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.inference.checkpoint import flatten_state, restore_state
from ocbnn.inference.density import Arrays, Context, Density, Prepared, check_finite
from ocbnn.inference.engines.base import Engine, Info, State
from ocbnn.inference.engines.tuning import SETTLING
from ocbnn.inference.feed import Feed
from ocbnn.inference.processes import Processes, lost
from ocbnn.model.networks import as_key
from ocbnn.model.outputs import Precision, enabled_precision, precision
from ocbnn.seeds import seed_for
from ocbnn.storage.runs import RunFolder, chunk_name

CHUNK = 50
WORKER_ENDED = (
    "A worker ended before its chains were done ({error}). With folder=… the same call with resume=True goes "
    "on after the last whole part."
)


class Chunk(NamedTuple):
    """What one chunk of steps gave, all groups together; `positions` is None where nothing is collected."""

    positions: Float[np.ndarray, "chains steps size"] | None
    log_density: Float[np.ndarray, "chains steps"]
    acceptance: Float[np.ndarray, "chains steps"]
    diverged: np.ndarray
    work: int


@dataclass(frozen=True)
class RunOptions:
    """All that the draws of a model depend on besides the model and how the run is prepared.

    Attributes:
        engine: what steps.
        precision: of all numbers.
        chains: chains, particles or networks of an ensemble, side by side.
        seed: of everything.
        thin: steps from one kept draw to the next.
        batch: rows of a minibatch, for the engines that take them.
        cores: how many groups of chains run side by side.
        executor: whose workers run the groups; None for threads here. Draws do not depend on it.
        processes: that train together.
    """

    engine: Engine
    precision: Precision
    chains: int
    seed: int
    thin: int = 1
    batch: int | None = None
    cores: int = 1
    executor: Executor | None = field(default=None, compare=False, repr=False)
    processes: Processes = Processes()  # noqa: RUF009 - frozen


@dataclass(frozen=True, eq=False)
class Job:
    """`function(*settings, density, *arguments)`, computed here or by another process.

    Attributes:
        density: what programs are compiled for.
        function: of this package, so that any process can name it.
        settings: static.
        arguments: pytrees of arrays.
        sharding: of the results, where processes compute them together.
    """

    density: Density
    function: Callable[..., Any]
    settings: tuple[Hashable, ...]
    arguments: tuple[Any, ...]
    sharding: Any = None

    def compile(self) -> Callable[..., Any]:
        """The program, compiled for arguments of these shapes."""
        return self.density.compiled(self.function, self.settings, *self.arguments, sharding=self.sharding)

    def run(self, kind: Precision) -> Any:
        """What it gives, in that precision: threads and processes do not inherit it."""
        with precision(kind):
            return jax.block_until_ready(self.compile()(*self.arguments))  # type: ignore[no-untyped-call]


def _run_away(job: Job, kind: Precision) -> Any:
    return _plain(job.run(kind))


def _plain(tree: Any) -> Any:
    """The same with NumPy's arrays, which every process reads alike, whatever its precision."""
    return jax.tree.map(np.asarray, tree)


@dataclass
class Loop:
    """A run in progress.

    Attributes:
        options: engine, seed, thinning and so on.
        density: what is sampled.
        source: the fixed context, or a feed of changing ones.
        states: one for each group.
        warmup: steps whose positions are not kept.
        length: collected positions of a chunk.
        folder: where chunks go, if anywhere.
    """

    options: RunOptions
    density: Density
    source: Context | Feed
    states: list[State]
    warmup: int
    length: int = CHUNK
    folder: RunFolder | None = None
    done: int = 0  # chunks
    compile_seconds: float = 0.0

    @classmethod
    def start(
        cls,
        prepared: Prepared,
        options: RunOptions,
        *,
        folder: RunFolder | None = None,
    ) -> Loop:
        """The loop at the prepared positions; refused where the log-density is not finite there.

        Where pilots have adapted the engine, their tunings are taken over.
        """
        density, engine = prepared.density, options.engine
        source: Context | Feed = prepared.context
        if engine.stochastic:
            share = (options.processes.index, options.processes.count)
            source = Feed(prepared.model, options.seed, options.batch, share)
        first = source.one(0) if isinstance(source, Feed) else source
        check_finite(density, prepared.positions, first)
        states, taken = [], 0
        for number, size in enumerate(engine.groups(len(prepared.positions), options.cores)):
            own = as_key(seed_for(options.seed, "state", number))
            positions = jnp.asarray(prepared.positions[taken : taken + size])
            states.append(density.program(_begin, cast(Hashable, engine))(own, positions, first))
            taken += size
        if prepared.tunings:
            states = [
                state._replace(tuning=jax.tree.unflatten(jax.tree.structure(state.tuning), leaves))
                for state, leaves in zip(states, prepared.tunings, strict=True)
            ]
        if options.processes.count > 1:
            states = options.processes.agreed(states)
        warmup = int(SETTLING * engine.warmup) if prepared.tunings else engine.warmup
        return cls(options, density, source, states, warmup, folder=folder)

    @property
    def engine(self) -> Engine:
        """What steps."""
        return self.options.engine

    @property
    def warm_chunks(self) -> int:
        """Chunks of the warm-up, or of the whole optimisation."""
        return -(-self.warmup // (self.length * self.thin))

    @property
    def thin(self) -> int:
        """Steps from one collected position to the next: an engine that optimises collects only its end."""
        return self.options.thin if self.engine.has_chains else 1

    def advance(self) -> Chunk:
        """One chunk of all groups; kept on disk if there is a folder."""
        steps = self.length * self.thin
        context = self.source.chunk(self.done, steps) if isinstance(self.source, Feed) else self.source
        start = np.int32(self.done * steps)
        length = self._next_length()
        if length < self.length and isinstance(self.source, Feed):
            context = jax.tree.map(lambda leaf: leaf[: length * self.thin], context)
        settings = (cast(Hashable, self.engine), length, self.thin, isinstance(self.source, Feed))
        jobs = [
            Job(self.density, run_chunk, settings, (self._group_key(g), start, state, context))
            for g, state in enumerate(self.states)
        ]
        if self.options.processes.count > 1:
            outcomes = self._together(jobs)
        else:
            if self.options.executor is None:
                self._compile(jobs)
            outcomes = side_by_side(jobs, self.options.cores, self.options.executor)
        self.states = [state for state, _, _ in outcomes]
        chunk = _together([positions for _, positions, _ in outcomes], [info for _, _, info in outcomes])
        if self.folder is not None:
            self.folder.save(chunk_name(self.done), {**_stored(chunk), **flatten_state(self.states)})
        self.done += 1
        return chunk

    def _compile(self, jobs: Sequence[Job]) -> None:
        began = time.perf_counter()
        for job in jobs:
            job.compile()
        self.compile_seconds += time.perf_counter() - began

    def _together(self, jobs: Sequence[Job]) -> list[Any]:
        """What the jobs give where processes share the rows: one after the other, in all of them alike."""
        processes = self.options.processes
        alike = processes.sharding()
        try:
            joined = [replace(job, arguments=processes.joined(job.arguments), sharding=alike) for job in jobs]
            self._compile(joined)
            return [_plain(job.run(enabled_precision())) for job in joined]
        except jax.errors.JaxRuntimeError as error:
            raise lost(error) from error

    def _next_length(self) -> int:
        """That of a chunk; an optimisation's last one is as short as its steps ask for."""
        left = self.warmup - self.done * self.length
        if not self.engine.has_chains and self.thin == 1 and left > 0:
            return min(self.length, left)
        return self.length

    def replay(self) -> list[Chunk]:
        """Chunks that an earlier run has left in the folder, the states set to those after the last."""
        if self.folder is None:
            return []
        stored = self.folder.chunks()
        try:
            chunks = [_restored(arrays) for arrays in stored]
            if stored:
                self.states = restore_state(self.states, stored[-1])
                self.done = len(stored)
        except (KeyError, ValueError) as error:
            raise InferenceError(
                f"A chunk in {self.folder.path} does not fit this run ({error}); start in another folder."
            ) from None
        return chunks

    def final_draws(self, count: int) -> Float[np.ndarray, "chains draws size"]:
        """Draws of the final states, for engines that collect at the end."""
        keys = [as_key(seed_for(self.options.seed, "draws", group)) for group in range(len(self.states))]
        drawn = [self.engine.draws(key, state, count) for key, state in zip(keys, self.states, strict=True)]
        return np.concatenate([np.asarray(each) for each in drawn])

    def last_context(self) -> Context:
        """What the latest step has seen."""
        if not isinstance(self.source, Feed):
            return self.source
        stacked = self.source.chunk(max(self.done - 1, 0), self.length * self.thin)
        return jax.tree.map(lambda leaf: leaf[-1], stacked)

    def _group_key(self, group: int) -> Array:
        # As numbers: keys themselves do not travel.
        return jax.random.key_data(as_key(seed_for(self.options.seed, "steps", group)))


def side_by_side(jobs: Sequence[Job], cores: int, executor: Executor | None = None) -> list[Any]:
    """What the jobs give: in threads, so many at a time, or by the executor's workers.

    XLA lets go of Python's lock while it computes.
    """
    kind = enabled_precision()
    if executor is not None:
        return _by_workers(jobs, kind, executor)
    if len(jobs) == 1 or cores == 1:
        return [job.run(kind) for job in jobs]
    with ThreadPoolExecutor(cores) as pool:
        return _finished([pool.submit(job.run, kind) for job in jobs])


def _finished(futures: Sequence[Future[Any]]) -> list[Any]:
    """The results, in order; where this is interrupted, each job is still done whole or not at all."""
    try:
        wait(futures)
    except KeyboardInterrupt:
        wait(futures)
        raise
    return [future.result() for future in futures]


def _by_workers(jobs: Sequence[Job], kind: Precision, executor: Executor) -> list[Any]:
    try:
        away = [replace(job, arguments=_plain(job.arguments)) for job in jobs]
        return _finished([executor.submit(_run_away, job, kind) for job in away])
    except (BrokenExecutor, CancelledError) as error:
        raise InferenceError(WORKER_ENDED.format(error=str(error) or type(error).__name__)) from error
    except Exception as error:
        if type(error).__name__ == "KilledWorker":  # of distributed, which need not be installed
            raise InferenceError(WORKER_ENDED.format(error=error)) from error
        if isinstance(error, PicklingError) or "pickle" in str(error):
            raise InferenceError(
                f"The model cannot be sent to workers: {str(error).rstrip('.')}. Define its functions in a "
                "module that workers can import, or leave executor= out."
            ) from error
        raise


def _begin(engine: Engine, density: Density, key: Array, positions: Array, context: Context) -> State:
    return engine.init(density, key, positions, context)


def run_chunk(
    engine: Engine,
    length: int,
    thin: int,
    stacked: bool,
    density: Density,
    key: Array,
    start: Array,
    state: State,
    context: Context,
) -> tuple[State, Array | None, Info]:
    """`length · thin` steps from step number `start`; positions and infos of every `thin`-th."""
    key = jax.random.wrap_key_data(key)

    def one(state: State, inputs: tuple[Array, Any]) -> tuple[State, Info]:
        number, own = inputs
        step_key = jax.random.fold_in(key, number)
        return engine.step(density, step_key, state, own if stacked else context)

    def several(state: State, inputs: Any) -> tuple[State, tuple[Array | None, Info]]:
        state, infos = jax.lax.scan(one, state, inputs)
        last: Info = jax.tree.map(lambda leaf: leaf[-1], infos)
        info = last._replace(
            acceptance=jnp.mean(infos.acceptance, axis=0),
            diverged=jnp.any(infos.diverged, axis=0),
            work=jnp.sum(infos.work, axis=0),
        )
        kept = engine.draws(key, state, 1)[:, 0] if engine.has_chains else None
        return state, (kept, info)

    numbers = start + jnp.arange(length * thin, dtype=jnp.int32)
    inputs = (numbers, context if stacked else None)
    shaped = jax.tree.map(lambda leaf: jnp.reshape(leaf, (length, thin, *leaf.shape[1:])), inputs)
    state, (positions, infos) = jax.lax.scan(several, state, shaped)
    return state, positions, infos


def _together(positions: list[Any], infos: list[Info]) -> Chunk:
    def joined(leaves: list[Any]) -> np.ndarray:
        return np.concatenate([np.swapaxes(np.asarray(leaf), 0, 1) for leaf in leaves])

    def chains(info: Info, leaf: Any) -> np.ndarray:
        return np.broadcast_to(np.reshape(leaf, (len(leaf), -1)), np.shape(info.log_density))

    return Chunk(
        None if positions[0] is None else joined(positions),
        joined([info.log_density for info in infos]),
        joined([chains(info, info.acceptance) for info in infos]),
        joined([chains(info, info.diverged) for info in infos]),
        sum(int(chains(info, info.work).sum()) for info in infos),
    )


def _stored(chunk: Chunk) -> Arrays:
    kept = chunk._asdict()
    return {name: np.asarray(value) for name, value in kept.items() if value is not None}


def _restored(arrays: Arrays) -> Chunk:
    return Chunk(
        arrays.get("positions"),
        arrays["log_density"],
        arrays["acceptance"],
        arrays["diverged"],
        int(arrays["work"]),
    )
