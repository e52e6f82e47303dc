"""Files that users and strangers give: read with limits, and refused with a sentence and a line."""

import os
from pathlib import Path

import pytest

from ocbnn.errors import FileError
from ocbnn.storage.documents import decoded, json_bytes, parse_json, read_toml, read_yaml, yaml_value
from ocbnn.storage.files import read_file


def test_yaml_values_are_text_numbers_truth_values_lists_and_mappings(tmp_path):
    (tmp_path / "a.yaml").write_text("a: [1, 2.5, text, yes, ~]\nb: {c: '1'}\n007: x\n")
    node = read_yaml(tmp_path / "a.yaml")
    assert yaml_value(node) == {"a": [1, 2.5, "text", True, None], "b": {"c": "1"}, "007": "x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x [1]\nb: *x", "line 2: aliases"),
        ("a: {b: 1}\nc: 2\na: 3", "line 3: `a` is given twice"),
        ("a:\n  b: {c: 1, c: 2}", "line 2: `c` is given twice"),
        ("a: !!int ''", "line 1: '' is not !!int"),
        ("a: !!float x", "'x' is not !!float"),
        ("a: !!timestamp x", "'x' is not !!timestamp"),
        ("a: !!bool maybe", "'maybe' is not !!bool"),
        ("a: !!binary aGk=", "the tag !!binary is not read"),
        ("a: !!set {b}", "the tag !!set is not read"),
        ("a: !own b", "the tag !own is not read"),
        ("!!python/object/apply:os.getcwd []", "the tag !!python/object/apply:os.getcwd is not read"),
        (f"a: {'9' * 401}", "too long for a number"),
        (f"a: -{'9' * 350}", "too large a number"),
        (f"a: 0x{'f' * 300}", "too large a number"),
        (f"a: {':'.join(['59'] * 190)}", "too large a number|too long"),
        ("? [a]\n: b", "a key has to be text"),
        ("[" * 60 + "]" * 60, "nested too deeply"),
        ("a: [", "not well-formed YAML"),
    ],
)
def test_yaml_that_is_odd_is_refused_with_its_line(text, said, tmp_path):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(FileError, match=said):
        read_yaml(tmp_path / "a.yaml")


@pytest.mark.parametrize("read", [read_yaml, read_toml])
def test_devices_pipes_folders_and_large_files_are_refused_at_once(read, tmp_path):
    (tmp_path / "large").write_bytes(b"#" * 1_000_001)
    with pytest.raises(FileError, match="1,000,001 bytes, more than the limit of 1,000,000"):
        read(tmp_path / "large")
    with pytest.raises(FileError, match="is a folder; give a file"):
        read(tmp_path)
    with pytest.raises(FileError, match="no such file"):
        read(tmp_path / "none")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", "/dev/zero"):
            with pytest.raises(FileError, match="a device or a pipe"):
                read(path)


def test_a_link_that_a_user_gives_is_followed_and_one_of_a_stranger_is_not(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_file(tmp_path / "b", 10) == b"x"
    with pytest.raises(FileError, match="it is a link"):
        read_file(tmp_path / "b", 10, links=False)


@pytest.mark.parametrize("text", ["NaN", "1e999", '{"a": 1, "a": 2}', "[" * 100_000, "\ud800", "1" * 5000])
def test_json_that_is_no_plain_document_is_refused(text):
    with pytest.raises(FileError, match="x is damaged"):
        parse_json(text.encode(errors="surrogatepass"), "x")


def test_a_text_that_no_file_can_hold_is_a_sentence():
    with pytest.raises(FileError, match="lone surrogate"):
        json_bytes({"a\ud800": 1})


@pytest.mark.parametrize("content", [b"\xff\xfex\0", "x".encode("utf-16-be"), b"\xe9", b"a\0b"])
def test_text_that_is_not_utf_8_is_refused(content):
    with pytest.raises(FileError, match="Save it as UTF-8"):
        decoded(content, Path("f"))
