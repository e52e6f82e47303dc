"""Chains and members on the workers of an executor: the draws of the same groups at home, bit by bit."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ocbnn.errors import InferenceError
from ocbnn.inference import infer
from ocbnn.inference.strength import StrengthSearch
from ocbnn.model import Model
from small_estimators import blood_pressures, small_regressor
from small_runs import QUICK, SHORT, figure_1b


def processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def workers() -> Iterator[Executor]:
    with processes(2) as pool:
        yield pool


def drawn(model: Model, engine: str, executor: Executor | None, **options: Any) -> np.ndarray:
    settings = {"chains": 3, "draws": 50, "cores": 2, "seed": 3, "prepare_with": QUICK, **options}
    return infer(model, SHORT[engine], executor=executor, **settings).draws


@pytest.mark.parametrize("engine", ["mclmc", pytest.param("ensemble", marks=pytest.mark.slow)])
def test_draws_by_other_processes_are_bit_identical(model: Model, workers: Executor, engine: str) -> None:
    assert np.array_equal(drawn(model, engine, workers), drawn(model, engine, None))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["hmc", "nuts", "svgd", "bbb", "sgld"])
def test_draws_of_further_engines_are_bit_identical(model: Model, workers: Executor, engine: str) -> None:
    assert np.array_equal(drawn(model, engine, workers), drawn(model, engine, None))


@pytest.mark.slow
def test_draws_by_an_executor_of_threads_are_bit_identical(model: Model) -> None:
    with ThreadPoolExecutor(2) as threads:
        assert np.array_equal(drawn(model, "hmc", threads), drawn(model, "hmc", None))


@pytest.mark.slow
def test_pilots_of_the_strength_search_run_on_workers_too(workers: Executor) -> None:
    search = replace(QUICK, strength=StrengthSearch(rounds=2, effective=20))
    own, other = (
        drawn(figure_1b(strength=None), "mclmc", executor, prepare_with=search)
        for executor in (None, workers)
    )
    assert np.array_equal(own, other)


@pytest.mark.slow
def test_draws_by_a_dask_client_are_bit_identical(model: Model) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert np.array_equal(drawn(model, "hmc", client.get_executor()), drawn(model, "hmc", None))


@pytest.mark.slow
def test_a_run_begun_on_workers_goes_on_at_home(model: Model, workers: Executor, tmp_path) -> None:
    whole = drawn(model, "hmc", None, draws=100)
    drawn(model, "hmc", workers, draws=50, folder=tmp_path)
    assert np.array_equal(drawn(model, "hmc", None, draws=100, folder=tmp_path, resume=True), whole)


def test_an_estimator_takes_an_executor(workers: Executor) -> None:
    frame, y = blood_pressures()
    fits = [small_regressor(cores=2).fit(frame, y, executor=each) for each in (None, workers)]
    own, other = (fit.predict(frame) for fit in fits)
    assert np.array_equal(own, other)


def test_a_worker_that_is_killed_ends_the_run_with_a_sentence_and_it_resumes(model: Model, tmp_path) -> None:
    whole = drawn(model, "hmc", None)
    with processes(1) as pool:

        def end_worker(tick: Any) -> None:
            if tick.phase == "sample" or tick.done:
                for pid in list(pool._processes):
                    os.kill(pid, signal.SIGKILL)

        with pytest.raises(InferenceError, match=r"worker ended.*resume=True"):
            drawn(model, "hmc", pool, folder=tmp_path, progress=end_worker)
    assert np.array_equal(drawn(model, "hmc", None, folder=tmp_path, resume=True), whole)


def test_what_is_no_executor_is_refused(model: Model) -> None:
    with pytest.raises(InferenceError, match=r"client\.get_executor"):
        drawn(model, "hmc", 4)  # type: ignore[arg-type]


def test_a_model_that_cannot_be_sent_is_refused_with_a_sentence(workers: Executor) -> None:
    model = figure_1b()
    network = replace(model.network)
    object.__setattr__(network, "own", lambda: None)  # as of a network of the user's, made in a function
    with pytest.raises(InferenceError, match="cannot be sent to workers"):
        drawn(replace(model, network=network), "hmc", workers)
