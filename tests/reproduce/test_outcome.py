"""Outcomes: bounds, and JSON that any reader takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import run, words
from reproduce.__main__ import app
from reproduce.experiments import EXPERIMENTS, FIGURES, expanded
from reproduce.outcome import Bound, Outcome, PaperError, bounds, expected, require_setting, write, write_text
from reproduce.tables import has_table, verdicts

OUTCOME = Outcome({"ocbnn": {"gap": 0.5, "threshold_difference": np.nan}})
GOOD = Outcome({"ocbnn": {"gap": 0.0, "threshold_difference": 0.0}})
"""Two outcomes of figure 4, which is held to two bounds."""


def test_a_bound_is_missed_by_what_is_missing_or_not_a_number():
    bound = Bound("ocbnn", "epsilon_mean", "<=", 0.01)
    assert bound.met(0.01)
    assert bound.met(0)
    assert not any(bound.met(value) for value in (0.011, None, float("nan"), True, "0"))
    assert Bound("a", "b", ">=", 2).met(2)
    assert not Bound("a", "b", ">=", 2).met(1.9)
    assert str(bound) == "ocbnn.epsilon_mean <= 0.01"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_bound_is_read_as_it_is_written(name):
    assert [str(bound) for bound in bounds(name)] == expected().get(name, {}).get("bounds", [])


def test_bounds_are_judged_in_ours_alone_and_never_in_smoke_runs(tmp_path):
    missed = write(tmp_path / "a.json", OUTCOME, "fig4", "ours", 3, False, 1.23)
    assert [str(bound) for bound in missed] == ["ocbnn.gap <= 0.05", "ocbnn.threshold_difference <= 0.05"]
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["runs"] == {"ocbnn": {"gap": 0.5, "threshold_difference": None}}
    found = [content[name] for name in ("name", "setting", "seed", "seconds")]
    assert found == ["fig4", "ours", 3, 1.2]
    assert content["bounds"][0] == {"bound": "ocbnn.gap <= 0.05", "value": 0.5, "met": False}
    assert content["note"].startswith("Missed: ocbnn.gap <= 0.05, is 0.5. Nothing is on record")
    assert "Missed: ocbnn.threshold_difference <= 0.05, is not known." in content["note"]
    for setting, quick in (("paper", False), ("ours", True)):
        assert write(tmp_path / "b.json", OUTCOME, "fig4", setting, 3, quick, 1.0) == []
        assert "bounds" not in json.loads((tmp_path / "b.json").read_text())


def test_a_file_that_cannot_be_written_whole_leaves_nothing_behind(tmp_path):
    (tmp_path / "a.json").mkdir()
    with pytest.raises(OSError, match=r"a\.json"):
        write_text(tmp_path / "a.json", "text")
    assert list(tmp_path.iterdir()) == [tmp_path / "a.json"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc to compare with")
def test_an_outcome_says_how_much_memory_it_took(tmp_path):
    write(tmp_path / "a.json", OUTCOME, "fig4", "ours", 3, False, 1.0)
    told = json.loads((tmp_path / "a.json").read_text())["peak_mb"]
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e6
    assert 0.98 * peak <= told < 20 * peak  # more where a larger process has started this one


def test_names_stand_for_several_experiments_each_once():
    assert expanded(["fig3", "fig1", "fig3b"]) == ("fig3a", "fig3b", "fig3c", "fig1")
    assert set(expanded(["all"])) == set(FIGURES)
    with pytest.raises(PaperError, match="Did you mean 'fig1'"):
        expanded(["fig11"])
    with pytest.raises(PaperError, match="choose one of paper, reference, ours"):
        require_setting("mine")


def checked(folder):
    return run("--check", "--out", folder, command=app)


def test_the_check_of_a_folder_fails_where_a_bound_is_missed(tmp_path):
    write(tmp_path / "a.json", OUTCOME, "fig4", "ours", 3, False, 1.0)
    result = checked(tmp_path)
    assert result.exit_code == 1
    assert "MISSED  fig4 (seed 3): ocbnn.gap <= 0.05, is 0.5\n" in result.output
    write(tmp_path / "a.json", GOOD, "fig4", "ours", 3, False, 1.0)
    assert checked(tmp_path).exit_code == 0
    assert run("--check", "--quiet", "--out", tmp_path, command=app).output == ""
    nothing = checked(tmp_path / "elsewhere")
    assert nothing.exit_code == 2
    assert "no outcome that is held to bounds" in words(nothing)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"name": "fig4"}', "\udcff"])
def test_a_file_that_is_not_an_outcome_is_named(content, tmp_path):
    (tmp_path / "fig4.json").write_text(content, encoding="utf-8", errors="surrogateescape")
    result = checked(tmp_path)
    assert result.exit_code == 2
    assert "fig4.json is not an outcome" in words(result)


def test_the_check_looks_at_every_seed(tmp_path):
    for seed, outcome in enumerate((GOOD, GOOD, OUTCOME)):
        write(tmp_path / f"seed-{seed}" / "a.json", outcome, "fig4", "ours", seed, False, 1.0)
    assert [each.seed for each in verdicts(tmp_path)] == [0, 0, 1, 1, 2, 2]
    result = checked(tmp_path)
    assert result.exit_code == 1
    assert "MISSED  fig4 (seed 2): ocbnn.gap <= 0.05, is 0.5\n" in result.output


def test_a_bound_that_is_missed_is_said_with_what_limits_it(tmp_path):
    met = {bound.figure: bound.limit for bound in bounds("credit")}
    for f1, said in ((0.3, "Missed: ocbnn.f1 >= 0.35, is 0.3. Young borrowers"), (0.4, None)):
        outcome = Outcome({"ocbnn": {**met, "f1": f1}})
        write(tmp_path / "credit.json", outcome, "credit", "ours", 0, False, 1.0)
        note = json.loads((tmp_path / "credit.json").read_text("utf-8")).get("note")
        assert note is None if said is None else (note.startswith(said) and "Tried: " in note)


def test_the_reference_says_which_figures_are_far_from_the_published_ones(tmp_path):
    near = {name: dict(figures) for name, figures in expected()["credit"]["published"].items()}
    far = {**near, "ocbnn": {**near["ocbnn"], "recourse": 0.2}}
    for runs, said in ((near, None), (far, "ocbnn.recourse 0.200 (published 0.379)")):
        write(tmp_path / "a.json", Outcome(runs), "credit", "reference", 0, False, 1.0)
        found = json.loads((tmp_path / "a.json").read_text("utf-8")).get("note")
        assert found is None if said is None else f": {said}. The authors' code" in found


def test_every_expectation_is_of_an_experiment_and_every_note_of_a_bound():
    assert set(expected()) <= set(EXPERIMENTS)
    for name, each in expected().items():
        assert set(each.get("notes", {})) <= {bound.figure for bound in bounds(name)}
        assert has_table(name) == ("reference" in each) == ("shown" in each)
