"""Results as plain JSON values, and files that are whole or not there."""

import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from ocbnn.errors import FileError
from ocbnn.storage.files import write_text, write_whole
from ocbnn.storage.values import plain, plain_text


@dataclass(frozen=True)
class Record:
    value: float
    parts: tuple[int, ...]


class Pair(NamedTuple):
    left: float
    right: object


def test_numbers_become_plain_ones_and_what_is_not_finite_null():
    value = {"a": np.float64(1.5), "b": np.arange(2), 3: (np.nan, np.inf, None, True), "c": np.int64(4)}
    assert plain(value) == {"a": 1.5, "b": [0, 1], "3": [None, None, None, True], "c": 4}


def test_records_become_objects_and_anything_else_text():
    assert plain(Record(float("inf"), (1, 2))) == {"value": None, "parts": [1, 2]}
    assert plain([Pair(0.5, Record)]) == [{"left": 0.5, "right": str(Record)}]
    assert plain_text({"µ": 1}) == '{\n "µ": 1\n}\n'


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_text(path, "≤ before\n")

    def fail(part):
        part.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(FileError, match=r"file\.txt cannot be written: No space left on device"):
        write_whole(path, fail)
    assert path.read_bytes() == "≤ before\n".encode()
    assert [each.name for each in path.parent.iterdir()] == ["file.txt"]


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_new_file_has_the_permissions_that_the_user_wants(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
