"""The folder of a run: every part knows which part of which run it is."""

import shutil

import numpy as np
import pytest

from ocbnn.errors import InferenceError
from ocbnn.storage.folders import verify
from ocbnn.storage.runs import RunFolder


@pytest.fixture
def run(tmp_path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.open({"seed": 1}, resume=False)
    for number in range(3):
        folder.save(f"chunk-{number:06d}", {"number": np.asarray(number)})
    return folder


def test_a_chunk_that_was_copied_over_another_is_refused(run):
    shutil.copy(run.path / "chunk-000002.safetensors", run.path / "chunk-000001.safetensors")
    with pytest.raises(InferenceError, match=r"1\.safetensors is damaged \(it is chunk-000002 of this"):
        run.chunks()
    assert "chunk-000002 of this run" in verify(run.path).problems[0]


def test_a_chunk_of_another_run_is_refused(run, tmp_path):
    other = RunFolder(tmp_path / "other")
    other.open({"seed": 2}, resume=False)
    shutil.copy(run.path / "chunk-000000.safetensors", other.path)
    with pytest.raises(InferenceError, match="it is chunk-000000 of another run"):
        other.chunks()


@pytest.mark.parametrize("content", ["[]", "1", "", "{", '"text"', "null"])
def test_a_description_that_is_none_is_a_sentence(run, content):
    (run.path / "run.json").write_text(content)
    with pytest.raises(InferenceError, match=r"run\.json is damaged"):
        RunFolder(run.path).open({"seed": 1}, resume=True)
    assert "is damaged" in verify(run.path).problems[0]


@pytest.mark.parametrize("name", ["run.json", "chunk-000001.safetensors"])
def test_a_folder_where_a_file_should_be_is_a_sentence(run, name):
    (run.path / name).unlink()
    (run.path / name).mkdir()

    def go_on() -> None:
        folder = RunFolder(run.path)
        folder.open({"seed": 1}, resume=True)
        folder.chunks()

    with pytest.raises(InferenceError, match="is a folder; give a file"):
        go_on()
    assert verify(run.path).problems


def test_verify_finds_a_chunk_that_is_missing(run):
    assert verify(run.path).problems == ()
    assert verify(run.path.parent).kind == "run"
    (run.path / "chunk-000001.safetensors").unlink()
    assert "chunk-000001.safetensors is missing" in verify(run.path).problems[0]
