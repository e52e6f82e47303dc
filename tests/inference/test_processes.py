"""Two processes that share the rows of each minibatch: the same steps as one process with all of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import together
from ocbnn.errors import InferenceError
from ocbnn.inference.feed import Feed
from ocbnn.inference.processes import Processes

LAUNCH = """
import pathlib, sys, jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.config.update("jax_enable_recoverability", True)
port, index, place, what = sys.argv[1:]
jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(index))
import together  # and ocbnn, after that
together.main(int(index), pathlib.Path(place), what)
"""


def two(folder: Path, what: str) -> list[dict[str, Any]]:
    """What each of two processes has saved."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    calls = [[sys.executable, "-c", LAUNCH, str(port), str(index), folder, what] for index in range(2)]
    started = [
        subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for call in calls
    ]
    said = [each.communicate(timeout=300)[0] for each in started]
    found = [folder / f"{index}.npz" for index in range(2)]
    codes = [each.returncode for each in started]
    assert codes[0] == 0, said
    return [dict(np.load(each)) for each in found if each.exists()]


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_shares_of_a_minibatch_are_the_whole_one(shares: int) -> None:
    model = together.model()
    (whole, *_), parts = (
        [Feed(model, 1, 65).chunk(2, 4).data],
        [Feed(model, 1, 65, (index, shares)).chunk(2, 4).data for index in range(shares)],
    )
    joined = [np.concatenate(leaves, axis=1) for leaves in zip(*parts, strict=True)]
    counted = joined[2][0] > 0
    for one, other in zip(whole, joined, strict=True):
        np.testing.assert_array_equal(one, other[:, counted])
    assert len({part.inputs.shape for part in parts}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["bbb", "sgld"])
def test_two_processes_make_the_steps_of_one(tmp_path: Path, engine: str) -> None:
    alone = together.drawn(engine)
    first, second = two(tmp_path, engine)
    for name in ("draws", "trace"):
        np.testing.assert_array_equal(first[name], second[name])
    # Sums of 65 rows in another order, over 200 steps, in float32.
    np.testing.assert_allclose(first["trace"], alone.trace, rtol=1e-4)
    np.testing.assert_allclose(first["draws"], alone.draws, atol=2e-3)


@pytest.mark.slow
def test_each_process_reads_its_share_of_the_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "in").mkdir()
    frame = together.model().schema.decode(np.linspace(-2, 2, 400)[:, None]).assign(y=1.0)
    frame["y"] = 0.5 * frame["x"]
    for number in range(4):
        some = frame.iloc[100 * number : 100 * (number + 1)]
        some.to_parquet(tmp_path / "in" / f"{number}.parquet", row_group_size=50)
    first, second = two(tmp_path, "files")
    assert (first["rows"], second["rows"]) == (200, 200)
    np.testing.assert_array_equal(first["draws"], second["draws"])


@pytest.mark.slow
def test_where_one_dies_the_other_ends_with_a_sentence_and_both_resume(tmp_path: Path) -> None:
    (first,) = two(tmp_path, "die")
    assert "Another process has ended" in str(first["said"])
    assert "resume=True" in str(first["said"])
    assert (tmp_path / "run" / "chunk-000000.safetensors").exists()
    again, other = two(tmp_path, "resume")
    np.testing.assert_array_equal(again["draws"], other["draws"])
    np.testing.assert_allclose(again["draws"], together.drawn("bbb").draws, atol=2e-3)


def test_other_engines_do_not_train_together() -> None:
    Processes(0, 1).require("hmc", None)
    with pytest.raises(InferenceError, match="train together with bbb or sgld, not with 'hmc'"):
        Processes(0, 2).require("hmc", None)
