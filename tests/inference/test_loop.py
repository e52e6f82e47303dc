"""The one loop: what a run's draws depend on, and on what they do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Prepared, Strengths, density_of, fixed_context
from ocbnn.inference.engines.base import Engine
from ocbnn.inference.loop import Loop, RunOptions
from ocbnn.model import Model
from ocbnn.model.outputs import Precision, precision
from ocbnn.storage.runs import RunFolder
from small_runs import SHORT


def prepared(model: Model, chains: int = 2) -> Prepared:
    density = density_of(model)
    start = 0.5 * np.random.default_rng(0).normal(size=(chains, model.size))
    return Prepared(density, model, start, fixed_context(model), Strengths.given(model))


def options(engine: Engine, kind: Precision = "float64", *, cores: int = 2, thin: int = 1) -> RunOptions:
    return RunOptions(engine, kind, chains=2, seed=5, thin=thin, cores=cores)


def positions(model: Model, engine: Engine, *lengths: int, thin: int = 1, cores: int = 2) -> np.ndarray:
    """Positions of chunks of these lengths, one after the other."""
    with precision("float64"):
        loop = Loop.start(prepared(model), options(engine, cores=cores, thin=thin))
        loop.length = lengths[0]
        parts = [loop.advance().positions for _ in lengths]
    return np.concatenate([part for part in parts if part is not None], axis=1)


def test_draws_do_not_depend_on_the_length_of_chunks(model: Model) -> None:
    long, short = positions(model, SHORT["hmc"], 40), positions(model, SHORT["hmc"], 20, 20)
    assert long.shape == (2, 40, model.size)
    assert np.array_equal(long, short)


def test_thinning_collects_every_so_manieth_step_of_the_same_chain(model: Model) -> None:
    every = positions(model, SHORT["hmc"], 40)
    assert np.array_equal(positions(model, SHORT["hmc"], 20, thin=2), every[:, 1::2])


@pytest.mark.slow
def test_threads_change_nothing_where_the_groups_are_the_same(model: Model) -> None:
    one, two = (positions(model, SHORT["nuts"], 20, cores=cores) for cores in (1, 2))
    assert np.array_equal(one, two)


def test_chains_from_the_same_place_have_random_numbers_of_their_own(model: Model) -> None:
    base = prepared(model)
    together = replace(base, positions=np.repeat(base.positions[:1], 2, axis=0))
    with precision("float64"):
        chunk = Loop.start(together, options(SHORT["hmc"])).advance()
    assert chunk.positions is not None
    assert not np.array_equal(chunk.positions[0], chunk.positions[1])


def test_a_start_that_is_not_finite_is_refused(model: Model) -> None:
    base = prepared(model)
    broken = replace(base, positions=np.full_like(base.positions, np.nan))
    with precision("float64"), pytest.raises(InferenceError, match="not finite at the start of chain 0"):
        Loop.start(broken, options(SHORT["hmc"]))


def test_a_loop_replays_its_chunks_and_goes_on_as_if_nothing_had_happened(model: Model, tmp_path) -> None:
    with precision("float64"):
        whole = Loop.start(prepared(model), options(SHORT["hmc"]))
        expected = [whole.advance() for _ in range(3)]
        first = Loop.start(prepared(model), options(SHORT["hmc"]), folder=RunFolder(tmp_path))
        for _ in range(2):
            first.advance()
        second = Loop.start(prepared(model), options(SHORT["hmc"]), folder=RunFolder(tmp_path))
        chunks = [*second.replay(), second.advance()]
    assert second.done == 3
    for found, wanted in zip(chunks, expected, strict=True):
        assert found.work == wanted.work
        for a, b in zip(found[:4], wanted[:4], strict=True):
            assert np.array_equal(a, b)


def test_a_chunk_of_another_run_is_refused(model: Model, tmp_path) -> None:
    RunFolder(tmp_path).save("chunk-000000", {"positions": np.zeros((2, 1, 3))})
    with precision("float64"):
        loop = Loop.start(prepared(model), options(SHORT["hmc"]), folder=RunFolder(tmp_path))
    with pytest.raises(InferenceError, match="does not fit this run"):
        loop.replay()


def test_the_work_of_a_chunk_counts_every_members_gradients(model: Model) -> None:
    base = prepared(model)
    with precision("float32"):
        small = replace(base, positions=base.positions.astype(np.float32))
        loop = Loop.start(small, options(SHORT["bbb"], "float32"))
        assert loop.advance().work == 2 * 50 * 5  # chains, steps, draws of each step
        assert loop.final_draws(7).shape == (2, 7, model.size)
