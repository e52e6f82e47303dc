"""What commands write: never over a user's file, without dead ends, and refused before the work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from command_line import RULES, run, small_table, words
from ocbnn import OCBNNRegressor
from ocbnn.errors import FileError
from ocbnn.estimators import base
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema
from ocbnn.storage import files as storage_files
from small_estimators import small_regressor

SCHEMA = Schema.infer(small_table()[["x", "age", "y"]], target="y")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of the user's own with a table and rules, commented."""
    folder = tmp_path / "proj"
    folder.mkdir()
    small_table().to_csv(tmp_path / "table.csv", index=False)
    (folder / "rules.yaml").write_text("# agreed with Dr. A. on Monday\n" + RULES)
    return folder


def fit(project: Path, out: Path, *options: object):
    table = project.parent / "table.csv"
    rules = project / "rules.yaml"
    return run("fit", table, "--target", "y", "--ignore", "sick", "--rules", rules, "--out", out, *options)


def test_fit_never_replaces_the_file_of_rules_that_it_was_given(project, small_budget):
    result = fit(project, project)
    assert result.exit_code == 2
    assert "is an input, and" in words(result)
    assert (project / "rules.yaml").read_text().startswith("# agreed")
    assert [each.name for each in project.iterdir()] == ["rules.yaml"]


def test_fit_never_replaces_rules_that_somebody_edited_in_a_models_folder(files, project):
    model = project.parent / "model"
    shutil.copytree(files / "model", model)
    (model / "rules.yaml").write_text("# edited\n" + RULES)
    result = fit(project, model)
    assert result.exit_code == 2
    assert "'rules.yaml' in" in words(result)
    assert "was edited or is damaged, and would be lost" in words(result)
    assert (model / "rules.yaml").read_text().startswith("# edited")


@pytest.mark.slow
def test_an_interrupt_during_the_final_tidying_up_is_no_dead_end(project, small_budget, monkeypatch):
    out = project.parent / "m"

    def interrupted(path: Path) -> None:
        if path.name.startswith(".m.run."):
            (path / "with_rules" / "run.json").unlink()
            raise KeyboardInterrupt
        shutil.rmtree(path, ignore_errors=True)

    monkeypatch.setattr(storage_files, "remove", interrupted)
    first = fit(project, out, "--no-compare")
    assert first.exit_code == 130
    assert "holds the whole model" in words(first)
    monkeypatch.undo()
    assert run("verify", out).exit_code == 0


def test_a_fit_after_such_an_interrupt_works_and_takes_the_leftovers_away(project, small_budget):
    out = project.parent / "m"
    left = project.parent / ".m.run.0123456789abcdef.partial" / "with_rules"
    left.mkdir(parents=True)
    (left / "chunk-000000.safetensors").write_text("x")
    result = fit(project, out, "--no-compare", "--quiet")
    assert result.exit_code == 0, result.output
    assert sorted(each.name for each in project.parent.iterdir()) == ["m", "proj", "table.csv"]


def test_verify_says_that_a_model_is_whole(files):
    result = run("verify", files / "model")
    assert result.exit_code == 0
    assert "is whole: a saved model, 9 files as they were written" in words(result)
    found = json.loads(run("verify", files / "model", "--json").stdout)
    assert found["whole"]
    assert found["kind"] == "model"


class WorkBegunError(Exception):
    """A run began."""


@pytest.fixture
def no_work(monkeypatch):
    """Fails where a fit begins with its work."""

    def infer(*arguments, **options):
        raise WorkBegunError

    monkeypatch.setattr(base, "infer", infer)


def test_text_that_no_file_can_hold_is_refused_before_the_fit(no_work):
    given = {"columns": {"x": {"unit": "m\ud800"}}}
    with pytest.raises(FileError, match="lone surrogate"):
        small_regressor(**given).fit(small_table()[["x", "age"]], small_table()["y"])


def test_rules_that_would_be_too_large_to_save_are_refused_before_the_fit(no_work):
    rules = [parse_rule(f"if x > {i} then y >= 0", SCHEMA, reason="because " * 100_000) for i in range(2)]
    with pytest.raises(FileError, match=r"rules.yaml would have .* bytes, more than the limit of"):
        small_regressor(rules=rules).fit(small_table()[["x", "age"]], small_table()["y"])


def test_what_can_be_saved_goes_on_to_the_work(no_work):
    with pytest.raises(WorkBegunError):
        OCBNNRegressor(rules=["if x > 1 then y >= 0"]).fit(small_table()[["x", "age"]], small_table()["y"])
