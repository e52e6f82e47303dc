"""`ocbnn lint` on the clinic's table and rules."""

import json

import pytest

from command_line import run, words
from ocbnn.cli.demo import write_example
from ocbnn.datasets import clinic


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    write_example(folder)
    return folder


def lint(table, rules, *more, target="action"):
    return run("lint", table, "--target", target, "--rules", rules, *more)


def test_warnings_are_fine(example):
    result = lint(example / "clinic.csv", example / "rules.yaml", "--columns", example / "columns.yaml")
    assert result.exit_code == 0, result.output
    assert "warning" in result.output


def test_json_has_every_finding(example):
    result = lint(example / "clinic.csv", example / "rules.yaml", "--json")
    told = json.loads(result.stdout)
    assert told["rows"] == clinic.ROWS
    assert {"data-conflict", "unobserved"} <= {finding["kind"] for finding in told["findings"]}


def test_nothing_wrong_says_so(example, tmp_path):
    (tmp_path / "fine.yaml").write_text("- if creatinine > 1 then P(action = 1) >= 0.0001\n")
    result = lint(example / "clinic.csv", tmp_path / "fine.yaml")
    assert result.exit_code == 0
    assert "Nothing is wrong" in result.output


def test_quiet_says_errors_alone(example, tmp_path):
    assert lint(example / "clinic.csv", example / "rules.yaml", "--quiet").output == ""
    (tmp_path / "bad.yaml").write_text(
        "- {name: give, rule: if lactate > 4 then action = 1}\n"
        "- {name: withhold, rule: if lactate > 5 then action = 0}\n"
    )
    result = lint(example / "clinic.csv", tmp_path / "bad.yaml", "--quiet")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "contradiction: give · withhold" in result.stderr


@pytest.mark.parametrize("name", ["clinic.csv.gz", "clinic.parquet", "CLINIC.CSV"])
def test_it_reads_gzip_and_parquet_too(example, tmp_path, name):
    table = clinic.table()
    if name.endswith("parquet"):
        table.to_parquet(tmp_path / name)
    else:
        table.to_csv(tmp_path / name, index=False)
    plain = lint(example / "clinic.csv", example / "rules.yaml")
    assert words(lint(tmp_path / name, example / "rules.yaml")) == words(plain)


def test_rows_with_missing_values_are_left_out_and_counted(example, tmp_path):
    table = clinic.table()
    table.loc[[3, 5], "lactate"] = None
    table.to_csv(tmp_path / "gaps.csv", index=False)
    result = lint(tmp_path / "gaps.csv", example / "rules.yaml")
    assert result.exit_code == 0, result.output
    assert "2 of 2,500 rows have missing values and are left out: rows 3, 5" in words(result)


def test_debug_shows_the_traceback(example):
    result = lint(example / "clinic.csv", example / "rules.yaml", "--debug", target="acton")
    assert result.exit_code == 1
    assert type(result.exception).__name__ == "InputError"


def test_a_file_of_columns_says_that_levels_are_ordered(tmp_path):
    (tmp_path / "rows.csv").write_text("x,grade,y\n" + "1.5,mid,2.5\n2.5,low,1.5\n0.5,high,3.5\n" * 12)
    (tmp_path / "rules.yaml").write_text("- always y increases with grade\n")
    given = tmp_path / "rows.csv", tmp_path / "rules.yaml"
    assert "no order unless levels are declared ordered" in words(lint(*given, target="y"))
    (tmp_path / "columns.yaml").write_text("grade: {levels: [low, mid, high], ordered: true}\n")
    result = lint(*given, "--columns", tmp_path / "columns.yaml", target="y")
    assert result.exit_code == 0, result.output
