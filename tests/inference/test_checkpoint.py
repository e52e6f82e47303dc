"""Long runs are safe: after kill -9, a full disk or damage, nothing is lost silently."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import killed_run
from ocbnn.inference import InferenceError, infer
from ocbnn.inference.checkpoint import fingerprint, flatten_state, restore_state
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.model import Model
from ocbnn.storage.runs import RunFolder, digest_of
from small_runs import QUICK, figure_1b

ARRAYS = {"draws": np.arange(6.0).reshape(2, 3), "count": np.asarray(3), "none": np.zeros((0, 2), np.float32)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hmc", "svgd"])
def test_a_killed_run_resumes_to_the_same_draws_bit_by_bit(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    child = subprocess.Popen([sys.executable, killed_run.__file__, name, str(folder)])
    try:
        deadline = time.monotonic() + 300
        while not (folder / "chunk-000000.safetensors").exists():
            assert child.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert not (folder / "chunk-000002.safetensors").exists()
    resumed = killed_run.run(name, folder, resume=True)
    whole = killed_run.run(name)
    assert resumed.complete
    assert np.array_equal(resumed.draws, whole.draws)
    assert resumed.status == whole.status
    assert resumed.rules[0].violation == whole.rules[0].violation


@pytest.fixture(scope="module")
def finished(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    infer(
        model, Hmc(warmup=50, max_steps=200), chains=2, draws=50, prepare_with=QUICK, cores=2, folder=folder
    )
    return folder


def resume(folder: Path, given: Model, engine: Hmc | None = None, seed: int = 0) -> None:
    engine = engine or Hmc(warmup=50, max_steps=200)
    infer(
        given, engine, chains=2, draws=50, prepare_with=QUICK, cores=2, folder=folder, resume=True, seed=seed
    )


def test_a_folder_that_holds_a_run_is_not_overwritten(model: Model, finished: Path) -> None:
    with pytest.raises(InferenceError, match=r"already holds a run. Give resume=True"):
        infer(model, "hmc", folder=finished)


def test_chunks_without_their_description_are_no_beginning_of_another_run(
    model: Model, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(InferenceError, match="parts of another run"):
        infer(model, "hmc", folder=tmp_path / "run")


@pytest.mark.parametrize(
    ("engine", "seed", "changes", "words"),
    [
        (Hmc(warmup=60), 0, None, r"settings \(was Hmc\(.*is Hmc\("),
        (None, 1, None, r"seed \(was 0, is 1\)"),
        (None, 0, {"noise": 0.2}, "likelihood"),
        (None, 0, {"weight_scale": 2.0}, "prior"),
        (None, 0, {"strength": 3.0}, "data"),
        (None, 0, {"hidden": (4,)}, "network"),
    ],
)
def test_another_run_is_not_resumed(
    model: Model, finished: Path, engine: Hmc | None, seed: int, changes: dict | None, words: str
) -> None:
    given = model if changes is None else figure_1b(**changes)
    with pytest.raises(InferenceError, match=f"is another one: .*{words}"):
        resume(finished, given, engine, seed)


def test_there_must_be_something_to_resume(model: Model, tmp_path: Path) -> None:
    with pytest.raises(InferenceError, match=r"no run to resume in .*run.json is missing"):
        resume(tmp_path, model)


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied"])
def test_a_damaged_chunk_is_an_error_that_names_it(tmp_path: Path, damage: str) -> None:
    folder = RunFolder(tmp_path)
    folder.save("chunk-000000", ARRAYS)
    file = tmp_path / "chunk-000000.safetensors"
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[-3] ^= 1
    file.write_bytes({"cut": content[:-8], "flipped": content, "emptied": b""}[damage])
    with pytest.raises(InferenceError, match=r"chunk-000000.safetensors is damaged .*; delete it"):
        folder.chunks()


def test_a_damaged_description_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InferenceError, match=r"run.json is damaged"):
        RunFolder(tmp_path).open({}, resume=True)


def test_a_full_disk_leaves_whole_files_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path)
    folder.save("chunk-000000", ARRAYS)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        InferenceError, match=r"could not be written \(No space left on device\).*resume=True"
    ):
        folder.save("chunk-000001", ARRAYS)
    assert [file.name for file in tmp_path.iterdir()] == ["chunk-000000.safetensors"]
    assert len(folder.chunks()) == 1


def test_arrays_come_back_with_their_shapes_and_kinds(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.save("some", ARRAYS)
    found = folder.load("some")
    assert found is not None
    assert {k: (v.shape, v.dtype) for k, v in found.items()} == {
        k: (v.shape, v.dtype) for k, v in ARRAYS.items()
    }
    assert all(np.array_equal(found[key], ARRAYS[key]) for key in ARRAYS)
    assert folder.load("other") is None


def test_chunks_end_at_the_first_that_is_missing(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for number in (0, 1, 3):
        folder.save(f"chunk-{number:06d}", {"number": np.asarray(number)})
    assert [int(chunk["number"]) for chunk in folder.chunks()] == [0, 1]


def test_states_survive_with_their_structure() -> None:
    states = [
        {"a": np.ones(2), "b": (np.asarray(1), np.zeros((1, 3)))},
        {"a": np.zeros(2), "b": (np.asarray(2), 1.0)},
    ]
    back = restore_state(states, flatten_state(states))
    assert jax.tree.structure(back) == jax.tree.structure(states)
    assert all(
        np.array_equal(a, b) for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(states), strict=True)
    )


def test_fingerprints_and_checksums_see_values_shapes_and_names() -> None:
    a, b = np.arange(6.0), np.arange(6.0).reshape(2, 3)
    assert fingerprint(a) == fingerprint(a.copy())
    assert (
        len({fingerprint(a), fingerprint(b), fingerprint(a + 1e-12), fingerprint("a"), fingerprint(None, 1)})
        == 5
    )
    kinds = ({"a": a}, {"b": a}, {"a": b}, {"a": a.astype("f4")})
    assert len({digest_of(each, {}) for each in kinds} | {digest_of({"a": a}, {"name": "x"})}) == 5
