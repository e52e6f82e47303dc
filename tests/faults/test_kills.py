"""Killed at any moment, on a full disk, in a folder that cannot be written: whole or resumable, nothing lost.

`OCBNN_KILLS` is the number of kills of the long version; default: 1,000.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import killed_writes
from command_line import write_files
from ocbnn.errors import OCBNNError
from ocbnn.storage import files
from ocbnn.storage.files import write_text
from ocbnn.storage.folders import read_folder, verify, write_folder
from ocbnn.storage.runs import RunFolder

LONG = int(os.environ.get("OCBNN_KILLS", "1000"))
SHARES = {"save": 0.65, "table": 0.25, "fit": 0.05, "report": 0.05}
"""Of the kills of the long version, by what they cost."""
QUICK = {"save": 40, "table": 20}


def survived(job: str, folder: Path, count: int, *further: object) -> None:
    (folder / "work").mkdir()
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled")}
    call = [sys.executable, killed_writes.__file__, job, folder / "work", count, 1, *further]
    done = subprocess.run([str(each) for each in call], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("survived\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("job", QUICK)
def test_what_a_killed_process_wrote_is_whole(job, tmp_path):
    survived(job, tmp_path, QUICK[job])


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("job", SHARES)
def test_a_thousand_kills_leave_what_is_whole_or_can_be_resumed(job, tmp_path):
    further = [write_files(tmp_path) / "model"] if job == "report" else []
    survived(job, tmp_path, round(SHARES[job] * LONG), *further)


# A disk that refuses ------------------------------------------------------------------------------------


class Refusing:
    """A disk that refuses from its k-th call on, or only that one: full, read-only or without permission."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int, at: int, *, lasting: bool) -> None:
        self.code, self.left, self.lasting = code, at, lasting
        for module, name in (
            (os, "mkdir"),
            (os, "rename"),
            (os, "replace"),
            (os, "fsync"),
            (files, "write_through"),
        ):
            monkeypatch.setattr(module, name, self._refused(getattr(module, name)))
        monkeypatch.setattr(Path, "touch", self._refused(Path.touch))

    def _refused(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0 or (self.lasting and self.left < 0):
                raise OSError(self.code, os.strerror(self.code))
            return function(*arguments, **options)

        return call


def version(number: int) -> dict[str, bytes]:
    return {name: bytes([number]) * 100 for name in ("a", "inner/b")}


def saving(folder: Path) -> Callable[[int], object]:
    return lambda number: write_folder(folder / "model", "model", version(number))


def drawing(folder: Path) -> Callable[[int], object]:
    run = RunFolder(folder / "run")
    run.open({"seed": 0}, resume=False)
    return lambda number: run.save("chunk-000000", {"number": np.full(50, number)})


def writing(folder: Path) -> Callable[[int], object]:
    return lambda number: write_text(folder / "table.csv", str(number) * 100)


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO], ids=errno.errorcode.get
)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("work", [saving, drawing, writing])
def test_a_disk_that_refuses_any_call_leaves_what_was_there_and_says_so(work, lasting, code, tmp_path):
    """Every call in turn, until the work is done without meeting the one that is refused."""
    write = work(tmp_path)
    write(1)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    for at in range(1, 100):
        with pytest.MonkeyPatch.context() as monkeypatch:
            disk = Refusing(monkeypatch, code, at, lasting=lasting)
            try:
                write(1)
            except OCBNNError as error:
                said = str(error)
                assert os.strerror(code) in said
            if disk.left > 0:
                break
        now = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
        readable = {file for file in now if not file.name.startswith(".") and ".partial" not in str(file)}
        assert all(now[file] == before[file] for file in readable & set(before))
        if work is saving:
            assert read_folder(tmp_path / "model", "model", lambda found: found.read("inner/b"))
            assert verify(tmp_path / "model").problems == ()
    else:
        pytest.fail("it never ends")
    assert at > 2
    write(1)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    assert not [each for each in tmp_path.rglob("*") if ".partial" in each.name or each.name.endswith(".old")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("most", [0, 1, 50, 99, 150, 400])
def test_a_limit_on_the_size_of_files_is_a_sentence_and_leaves_the_old_version(most, tmp_path):

    write_folder(tmp_path / "model", "model", version(1))
    code = (
        "import resource, sys; from ocbnn.errors import FileError\n"
        "from ocbnn.storage.folders import write_folder\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)\n"
        "try: write_folder(sys.argv[1], 'model', {'a': b'2' * 100, 'inner/b': b'2' * 100})\n"
        "except FileError as error: sys.exit(7 if 'File too large' in str(error) else 8)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "model"), str(most)])
    assert done.returncode == 7
    assert verify(tmp_path / "model").problems == ()
    assert [each.name for each in tmp_path.iterdir()] == ["model"]
