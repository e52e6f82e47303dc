"""Folders with a manifest: whole or absent, one version for every reader, and only our own is replaced."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

from damaged_files import rewrite_manifest
from ocbnn.errors import FileError
from ocbnn.storage import files, folders
from ocbnn.storage.files import discard, write_text
from ocbnn.storage.folders import MANIFEST, Folder, read_folder, require_replaceable, verify, write_folder

PARTS = {"a.json": b"{}\n", "inner/b.bin": bytes(range(256))}


@pytest.fixture
def saved(tmp_path) -> Path:
    return write_folder(tmp_path / "model", "model", PARTS)


def contents(folder: Folder) -> dict[str, bytes]:
    return {name: folder.read(name) for name in folder.manifest.files}


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_folder_comes_back_with_what_was_written(saved):
    assert read_folder(saved, "model", contents) == PARTS
    inner = read_folder(saved, "model", lambda folder: folder.within("inner"))
    assert inner is not None
    assert inner.read("b.bin") == PARTS["inner/b.bin"]
    assert read_folder(saved, "model", lambda folder: folder.within("other")) is None
    with pytest.raises(FileError, match="holds a saved model; expected a prior"):
        read_folder(saved, "prior", contents)


def test_the_manifest_covers_every_file_in_every_folder_within(saved):
    for name in PARTS:
        whole = (saved / name).read_bytes()
        (saved / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(FileError, match=f"{name} is damaged"):
            read_folder(saved, "model", contents)
        assert verify(saved).problems == (f"{name} is damaged: it is not what was written.",)
        (saved / name).write_bytes(whole)
    assert verify(saved).problems == ()


def test_verify_names_what_is_missing_damaged_or_foreign(saved, tmp_path):
    (saved / "notes.txt").write_text("mine")
    (saved / "a.json").unlink()
    found = verify(saved)
    assert found.foreign == ("notes.txt",)
    assert "a.json is missing" in found.problems[0]
    (saved / MANIFEST).write_text("{")
    assert "is damaged" in verify(saved).problems[0]
    with pytest.raises(FileError, match="does not exist"):
        verify(tmp_path / "nothing")


# What may be replaced -----------------------------------------------------------------------------------


def test_a_folder_of_files_with_the_same_names_but_no_manifest_is_not_replaced(tmp_path):
    (tmp_path / "a.json").write_text("the user's own")
    with pytest.raises(FileError, match=r"holds 'a\.json', and no manifest\.json of ocbnn.*would be lost"):
        write_folder(tmp_path, "model", PARTS)
    assert names(tmp_path) == ["a.json"]


def test_a_file_that_a_user_has_edited_is_not_replaced(saved):
    (saved / "a.json").write_text('{"mine": 1}')
    with pytest.raises(FileError, match=r"'a\.json' in .* was edited or is damaged, and would be lost"):
        write_folder(saved, "model", PARTS)
    assert (saved / "a.json").read_text() == '{"mine": 1}'


@pytest.mark.parametrize("foreign", ["thesis.tex", "inner/thesis.tex", "own/thesis.tex"])
def test_a_folder_with_something_else_in_it_is_not_replaced(saved, foreign):
    (saved / foreign).parent.mkdir(exist_ok=True)
    (saved / foreign).write_text("years of work")
    with pytest.raises(FileError, match=f"holds '{foreign}', .* would be lost"):
        require_replaceable(saved, "model")


def test_an_empty_folder_and_an_earlier_version_are_replaced_and_nothing_is_left_beside_them(tmp_path, saved):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", saved):
        write_folder(path, "model", {"c": b"3"})
        assert read_folder(path, "model", contents) == {"c": b"3"}
        assert names(path) == ["c", MANIFEST]
    assert names(tmp_path) == ["empty", "model"]


def test_a_prior_does_not_replace_a_model(saved):
    with pytest.raises(FileError, match="holds a saved model, not a prior; it would be lost"):
        write_folder(saved, "prior", PARTS)


def test_an_empty_folder_within_is_somebody_elses(saved):
    (saved / "empty").mkdir()
    with pytest.raises(FileError, match="'empty'"):
        require_replaceable(saved, "model")


def test_a_manifest_that_lists_a_file_elsewhere_is_refused(saved, tmp_path):
    (tmp_path / "secret").write_text("x")
    rewrite_manifest(
        saved, lambda content: content["files"].update({"../secret": {"bytes": 1, "sha256": ""}})
    )
    with pytest.raises(FileError, match="not a name of a file in this folder"):
        write_folder(saved, "model", PARTS)
    assert (tmp_path / "secret").exists()


# Others at the same time --------------------------------------------------------------------------------


def version(number: int) -> dict[str, bytes]:
    return {name: json.dumps([number] * 1000).encode() for name in ("a", "b", "inner/c")}


def test_readers_see_one_version_while_others_save(tmp_path):
    """Every read gives files of one version; the files of two are never mixed, and none is missing."""
    write_folder(tmp_path / "model", "model", version(0))
    ended = threading.Event()

    def save() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            write_folder(tmp_path / "model", "model", version(number))
            time.sleep(0.005)

    savers = [threading.Thread(target=save) for _ in range(2)]
    for saver in savers:
        saver.start()
    try:
        seen = set()
        while len(seen) < 20:
            found = read_folder(tmp_path / "model", "model", contents)
            assert len(set(found.values())) == 1
            seen |= set(found.values())
    finally:
        ended.set()
        for saver in savers:
            saver.join()
    assert names(tmp_path) == ["model"]
    assert verify(tmp_path / "model").problems == ()


def test_a_version_that_came_back_while_it_was_read_is_read_again(tmp_path):
    """The same content saved twice, with another in between: what was read may be of the one in between."""
    write_folder(tmp_path / "model", "model", version(1))
    seen = []

    def read(folder):
        seen.append(1)
        if len(seen) == 1:
            for number in (2, 1):
                write_folder(tmp_path / "model", "model", version(number))
            raise FileError("a is damaged: it is not what was written.")
        return contents(folder)

    assert read_folder(tmp_path / "model", "model", read) == version(1)


def test_a_damaged_folder_that_nobody_saves_is_an_error_at_once(saved, monkeypatch):
    (saved / "a.json").write_bytes(b"[]\n")
    tried = []
    with pytest.raises(FileError, match="is damaged"):
        read_folder(saved, "model", lambda folder: tried.append(1) or contents(folder))
    assert len(tried) == 1


def test_what_killed_saves_have_left_is_removed_by_the_next_but_not_that_of_a_living_one(saved):
    for token in ("0" * 16, "1" * 16):
        (saved.parent / f".model.{token}.partial").mkdir()
        (saved.parent / f".model.{token}.partial" / "half").write_text("x")
    (saved.parent / ".table.csv.0123456789abcdef.partial").write_text("half a table")
    living = files._lock(saved.parent / f".model.{'1' * 16}.partial")
    write_folder(saved, "model", PARTS)
    write_text(saved.parent / "table.csv", "whole")
    assert names(saved.parent) == [f".model.{'1' * 16}.partial", "model", "table.csv"]
    os.close(living)
    write_folder(saved, "model", PARTS)
    assert names(saved.parent) == ["model", "table.csv"]


def test_a_crash_between_the_two_renames_leaves_a_readable_folder_that_the_next_save_puts_back(saved):
    os.rename(saved, saved.parent / ".model.old")
    assert read_folder(saved, "model", contents) == PARTS
    assert verify(saved).problems == ()
    write_folder(saved, "model", {"c": b"3"})
    assert names(saved.parent) == ["model"]


def test_another_process_that_never_ends_is_waited_for_and_then_named(saved, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    held = files._lock(saved.parent)
    with pytest.raises(FileError, match="Another process is writing in"):
        write_folder(saved, "model", PARTS)
    os.close(held)
    assert read_folder(saved, "model", contents) == PARTS


def test_a_folder_that_is_removed_is_gone_at_once_whenever_that_is_interrupted(saved, monkeypatch):
    """Its name goes first: what is left is no half of it, and the next removal takes it away."""

    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "remove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        discard(saved)
    monkeypatch.undo()
    assert not saved.exists()
    write_folder(saved, "model", PARTS)
    assert names(saved.parent) == ["model"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions that bind the user")
def test_a_folder_without_permission_is_a_sentence(saved):
    os.chmod(saved.parent, 0o500)
    try:
        with pytest.raises(FileError, match="cannot be written: Permission denied"):
            write_folder(saved, "model", PARTS)
    finally:
        os.chmod(saved.parent, 0o700)
    assert folders.read_folder(saved, "model", contents) == PARTS
