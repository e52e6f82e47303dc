"""`ocbnn fit` of a folder of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import RULES, run, small_table, words
from ocbnn.estimators import large
from ocbnn.estimators.folder import load
from ocbnn.schema import files as schema_files

pytest.importorskip("pyarrow")
ROWS = 600


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """in/ with three files, of which 200 rows are held, and rules.yaml."""
    monkeypatch.setattr(large, "SAMPLE", 200)
    monkeypatch.setattr(large, "WINDOW", 100)
    monkeypatch.setattr(large, "LARGEST_GROUP", 50)
    monkeypatch.setattr(schema_files, "BLOCK", 40)
    table = small_table(ROWS).assign(id=np.arange(ROWS))
    (tmp_path / "in").mkdir()
    for number, part in enumerate(np.array_split(np.arange(ROWS), 3)):
        table.iloc[part].to_parquet(tmp_path / "in" / f"{number}.parquet", index=False)
    (tmp_path / "rules.yaml").write_text(RULES)
    return tmp_path


def fit(folder: Path, *more: object) -> Any:
    call = ["fit", folder / "in", "--target", "y", "--ignore", "sick", "--ignore", "id"]
    return run(*call, "--rules", folder / "rules.yaml", "--out", folder / "model", *more)


def test_a_folder_is_fitted_and_measured_on_rows_held_out(folder: Path, small_budget: None) -> None:
    result = fit(folder, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["rows"] + told["held_out"] == ROWS
    assert told["held_out"] == pytest.approx(0.2 * ROWS, abs=50)
    assert told["compared"]
    model = load(folder / "model")
    assert model.posterior_.provenance["data_rows"] == told["rows"]
    evidence = json.loads((folder / "model" / "evidence.json").read_text())
    assert 0 < evidence["held_out_rows"] < told["held_out"]
    assert np.isfinite(model.predict(small_table(5)[["x", "ward", "age"]])).all()


def test_rows_with_missing_values_are_counted_and_left_out(folder: Path, small_budget: None) -> None:
    table = small_table(200).assign(id=0)
    table.loc[[1, 2], "x"] = np.nan
    table.to_parquet(folder / "in" / "0.parquet", index=False)
    result = fit(folder, "--no-compare", "--hold-out", "0")
    assert "2 of 600 rows have missing values and are left out. Missing in: x (2)" in words(result)
    assert "The fit of 598 rows" in words(result)


def test_lint_looks_at_rows_of_a_folder(folder: Path) -> None:
    call = ["lint", folder / "in", "--target", "y", "--ignore", "sick", "--rules", folder / "rules.yaml"]
    result = run(*call, "--json")
    assert json.loads(result.stdout)["rows"] == 200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--group", "ward"], "is read in pieces"),
        (["--engine", "nuts"], "takes minibatches"),
        (["--ignore", "nobody"], "has no column 'nobody'"),
        (["--decimal", ","], "of a single CSV file"),
    ],
)
def test_what_a_folder_cannot_do_is_a_sentence(folder: Path, options: list[str], said: str) -> None:
    result = fit(folder, *options)
    assert (result.exit_code, said in words(result)) == (2, True), words(result)
    assert not (folder / "model").exists()
