"""Tables are read as they are: every row once, in its order, whatever separates its values."""

import json

import numpy as np
import pandas as pd
import pytest

from command_line import run, small_table, words
from ocbnn.cli.command import InputError
from ocbnn.cli.tables import read_table
from ocbnn.cli.voice import Voice
from ocbnn.estimators.folder import save as save_model
from small_estimators import small_classifier

HUSH = Voice(quiet=True)


def read(tmp_path, content, name="t.csv", **options):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read_table(tmp_path / name, HUSH, **options)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_and_said(tmp_path, separator, capsys):
    table = small_table(10)
    table.to_csv(tmp_path / "t.csv", index=False, sep=separator)
    found = read_table(tmp_path / "t.csv", Voice())
    pd.testing.assert_frame_equal(found, table, check_dtype=False)
    assert ("separated by" in capsys.readouterr().out) == (separator != ",")


def test_where_the_header_leaves_several_separators_the_rows_decide(tmp_path):
    found = read(tmp_path, "a,b;c\n1;2\n3;4\n")
    assert list(found.columns) == ["a,b", "c"]
    assert found.to_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("separator", [";", ","])
def test_decimal_commas_are_numbers_where_they_are_declared(tmp_path, separator):
    table = small_table(10)
    content = table.to_csv(index=False, sep=separator, decimal=",", quoting=1)
    found = read(tmp_path, content, decimal=",")
    np.testing.assert_array_equal(found["x"], table["x"])


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    assert list(read(tmp_path, b"\xef\xbb\xbfx,y\n1,2\n").columns) == ["x", "y"]


def test_a_first_field_without_a_name_is_not_taken_as_index(tmp_path):
    """Values were once shifted by a column where rows have one field more than the header."""
    with pytest.raises(InputError, match=r"Line 2 .* has 3 values, but its header names 2 columns"):
        read(tmp_path, "x,y\n7,1,2\n7,3,4\n")


@pytest.mark.parametrize(
    ("content", "x"),
    [
        ("x,y\n1,2\n\n3,4\n", [1, None, 3]),
        ("x,y\n1,2\n3,4\n\n\n", [1, 3]),
        ('x,y\n1,"two\nlines"\n3,b\n', [1, 3]),
        ('x,y\n1,"a\n\nb"\n3,b\n', [1, 3]),
        ("x,y\r\n1,2\r\n3,4\r\n", [1, 3]),
        ("x,y\r1,2\r3,4\r", [1, 3]),
        ("x\n1\n\n3\n", [1, None, 3]),
        ('x\n1\n""\n', [1, None]),
        ("x,y\n1,2\n3,4", [1, 3]),
    ],
)
def test_there_is_one_row_for_each_row_of_the_file(tmp_path, content, x):
    found = read(tmp_path, content)
    assert [None if np.isnan(value) else value for value in found["x"]] == x


def test_predictions_stay_beside_their_rows_whatever_lies_between(files, tmp_path):
    lines = ["x,ward,age,note", '0.5,a,30,"two\nlines"', "", "1.5,b,40,plain", ",c,50,gap", ""]
    (tmp_path / "new.csv").write_text("\n".join(lines))
    result = run("predict", files / "model", tmp_path / "new.csv", "--keep", "note", "--json")
    rows = json.loads(result.stdout)
    assert [row["note"] for row in rows] == ["two\nlines", None, "plain", "gap"]
    assert [row["prediction"] is None for row in rows] == [False, True, False, True]


def test_a_column_that_pandas_named_is_no_input_unless_it_is_renamed(files, tmp_path):
    small_table().reset_index().rename(columns={"index": "Unnamed: 0"}).to_csv(
        tmp_path / "t.csv", index=False
    )
    call = ("lint", tmp_path / "t.csv", "--target", "y", "--rules", files / "rules.yaml")
    assert "row numbers" in words(run(*call))
    assert run(*call, "--ignore", "Unnamed: 0").exit_code == 0


def test_a_packed_file_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    import gzip

    monkeypatch.setattr("ocbnn.cli.tables.free_memory", lambda: 4_000_000)
    with pytest.raises(InputError, match="memory that is free"):
        read(tmp_path, gzip.compress(b"x,y\n" + b"1,2\n" * 1_000_000), name="t.csv.gz")


def test_classes_whose_names_end_like_other_columns_keep_their_own_probabilities(tmp_path):
    """With classes low and low_lower, `probability_low_lower` once held the lower end of low's interval."""
    table = small_table()
    labels = np.resize(["high", "low", "low_lower", "low_upper"], len(table))
    model = small_classifier().fit(table[["x", "age"]], pd.Series(labels, name="risk"))
    save_model(tmp_path / "model", model)
    table.to_csv(tmp_path / "t.csv", index=False)
    rows = pd.DataFrame(json.loads(run("predict", tmp_path / "model", tmp_path / "t.csv", "--json").stdout))
    named = [f"probability_{label}" for label in model.classes_]
    np.testing.assert_allclose(rows[named], model.predict_proba(table[["x", "age"]]), atol=1e-12)
    for name in named:
        assert (rows[f"lower_{name}"] <= rows[f"upper_{name}"]).all()
