"""The one loop of all engines: chunks of steps, groups side by side, draws to disk as they come.

A chunk is one compiled scan over steps. Groups are independent and run in threads, one a core: XLA lets go of
Python's lock while it computes. The random numbers of a step depend on the seed, the group and the step's
number alone, so draws depend neither on the length of chunks nor on interruptions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.inference.checkpoint import flatten_state, restore_state
from ocbnn.inference.density import Arrays, Context, Density, Prepared, check_finite
from ocbnn.inference.engines.base import Engine, Info, State
from ocbnn.inference.feed import Feed
from ocbnn.model.networks import as_key
from ocbnn.model.outputs import Precision, precision
from ocbnn.seeds import seed_for
from ocbnn.storage.runs import RunFolder, chunk_name

CHUNK = 50


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
    """

    engine: Engine
    precision: Precision
    chains: int
    seed: int
    thin: int = 1
    batch: int | None = None
    cores: int = 1


@dataclass
class Loop:
    """A run in progress.

    Attributes:
        options: engine, seed, thinning and so on.
        density: what is sampled.
        source: the fixed context, or a feed of changing ones.
        states: one for each group.
        length: collected positions of a chunk.
        folder: where chunks go, if anywhere.
    """

    options: RunOptions
    density: Density
    source: Context | Feed
    states: list[State]
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
        tunings: list[Any] | None = None,
    ) -> Loop:
        """The loop at the prepared positions; refused where the log-density is not finite there.

        With `tunings`, what an earlier loop of the same engine has adapted is taken over.
        """
        density, engine = prepared.density, options.engine
        source: Context | Feed = prepared.context
        if engine.stochastic:
            source = Feed(prepared.model, options.seed, options.batch)
        first = source.one(0) if isinstance(source, Feed) else source
        check_finite(density, prepared.positions, first)
        states, taken = [], 0
        for number, size in enumerate(engine.groups(len(prepared.positions), options.cores)):
            own = as_key(seed_for(options.seed, "state", number))
            positions = jnp.asarray(prepared.positions[taken : taken + size])
            states.append(density.program(_begin, cast(Hashable, engine))(own, positions, first))
            taken += size
        if tunings is not None:
            states = [state._replace(tuning=tuning) for state, tuning in zip(states, tunings, strict=True)]
        return cls(options, density, source, states, folder=folder)

    @property
    def engine(self) -> Engine:
        """What steps."""
        return self.options.engine

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
        jobs = [
            partial(self._compile(length, state, start, context), self._group_key(g), start, state, context)
            for g, state in enumerate(self.states)
        ]
        outcomes = self._side_by_side(jobs)
        self.states = [state for state, _, _ in outcomes]
        chunk = _together([positions for _, positions, _ in outcomes], [info for _, _, info in outcomes])
        if self.folder is not None:
            self.folder.save(chunk_name(self.done), {**_stored(chunk), **flatten_state(self.states)})
        self.done += 1
        return chunk

    def _next_length(self) -> int:
        """That of a chunk; an optimisation's last one is as short as its steps ask for."""
        left = self.engine.warmup - self.done * self.length
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
        return as_key(seed_for(self.options.seed, "steps", group))

    def _compile(self, length: int, state: State, start: Any, context: Context) -> Callable[..., Any]:
        leaves = jax.tree.leaves((state, context))
        shapes = tuple((np.shape(leaf), str(getattr(leaf, "dtype", type(leaf)))) for leaf in leaves)
        program = (self.engine, self.options.precision, length, self.thin, shapes)
        compiled = self.density.programs
        if program not in compiled:
            began = time.perf_counter()
            stacked = isinstance(self.source, Feed)
            function = partial(run_chunk, self.engine, self.density, length, self.thin, stacked)
            lowered = jax.jit(function).lower(self._group_key(0), start, state, context)
            compiled[program] = lowered.compile()
            self.compile_seconds += time.perf_counter() - began
        return compiled[program]

    def _side_by_side(self, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        if len(jobs) == 1 or self.options.cores == 1:
            return [self._in_thread(job) for job in jobs]
        with ThreadPoolExecutor(self.options.cores) as pool:
            futures = [pool.submit(self._in_thread, job) for job in jobs]
            try:
                wait(futures)
            except KeyboardInterrupt:
                wait(futures)  # a chunk is kept whole or not at all
                raise
            return [future.result() for future in futures]

    def _in_thread(self, job: Callable[[], Any]) -> Any:
        with precision(self.options.precision):  # threads do not inherit it
            outcome = job()
            jax.tree.map(lambda leaf: leaf.block_until_ready(), outcome)
            return outcome


def _begin(engine: Engine, density: Density, key: Array, positions: Array, context: Context) -> State:
    return engine.init(density, key, positions, context)


def run_chunk(
    engine: Engine,
    density: Density,
    length: int,
    thin: int,
    stacked: bool,
    key: Array,
    start: Array,
    state: State,
    context: Context,
) -> tuple[State, Array | None, Info]:
    """`length · thin` steps from step number `start`; positions and infos of every `thin`-th."""

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
