"""Outcomes: bounds, and JSON that any reader takes."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from reproduce.check import main, verdicts
from reproduce.notes import _texts
from reproduce.published import PUBLISHED
from reproduce.registry import EXPERIMENTS, FIGURES, expanded, experiment

from reproduce.outcome import Bound, Outcome, PaperError, require_setting, write


def test_a_bound_is_missed_by_what_is_missing_or_not_a_number():
    bound = Bound("ocbnn", "epsilon_mean", "<=", 0.01)
    assert bound.met(0.01)
    assert bound.met(0)
    assert not any(bound.met(value) for value in (0.011, None, float("nan"), True, "0"))
    assert Bound("a", "b", ">=", 2).met(2)
    assert not Bound("a", "b", ">=", 2).met(1.9)
    assert str(bound) == "ocbnn.epsilon_mean <= 0.01"


OUTCOME = Outcome(
    {"ocbnn": {"epsilon_mean": 0.5}, "baseline": {"epsilon_mean": np.nan}},
    (Bound("ocbnn", "epsilon_mean", "<=", 0.01), Bound("baseline", "rhat_worst", "<=", 1.01)),
    note="a note",
)


def test_bounds_are_judged_in_ours_alone_and_never_in_smoke_runs(tmp_path):
    missed = write(tmp_path / "a.json", OUTCOME, "a", "ours", 3, False, 1.23)
    assert [str(bound) for bound in missed] == ["ocbnn.epsilon_mean <= 0.01", "baseline.rhat_worst <= 1.01"]
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["runs"] == {"ocbnn": {"epsilon_mean": 0.5}, "baseline": {"epsilon_mean": None}}
    assert (content["name"], content["setting"], content["seed"], content["seconds"]) == ("a", "ours", 3, 1.2)
    assert content["bounds"][0] == {"bound": "ocbnn.epsilon_mean <= 0.01", "value": 0.5, "met": False}
    assert content["note"].startswith(
        "a note Missed: ocbnn.epsilon_mean <= 0.01, is 0.5. Nothing is on record"
    )
    assert "Missed: baseline.rhat_worst <= 1.01, is not known." in content["note"]
    for setting, quick in (("paper", False), ("ours", True)):
        assert write(tmp_path / "b.json", OUTCOME, "a", setting, 3, quick, 1.0) == []
        assert "bounds" not in json.loads((tmp_path / "b.json").read_text())


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc to compare with")
def test_an_outcome_says_how_much_memory_it_took(tmp_path):
    write(tmp_path / "a.json", OUTCOME, "a", "ours", 3, False, 1.0)
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


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_a_function(name):
    assert callable(experiment(name))
    assert name in EXPERIMENTS


def test_the_check_of_a_folder_fails_where_a_bound_is_missed(tmp_path, capsys):
    write(tmp_path / "a.json", OUTCOME, "a", "ours", 3, False, 1.0)
    assert main([str(tmp_path)]) == 1
    assert "MISSED  a (seed 3): ocbnn.epsilon_mean <= 0.01, is 0.5" in capsys.readouterr().out
    write(
        tmp_path / "a.json",
        Outcome({"ocbnn": {"epsilon_mean": 0.0}}, OUTCOME.bounds[:1]),
        "a",
        "ours",
        3,
        False,
        1.0,
    )
    assert main([str(tmp_path)]) == 0
    with pytest.raises(PaperError, match="no outcome that is held to bounds"):
        verdicts(tmp_path / "elsewhere")


def test_the_check_looks_at_every_seed(tmp_path, capsys):
    good = Outcome({"ocbnn": {"epsilon_mean": 0.0}}, OUTCOME.bounds[:1])
    for seed, outcome in enumerate((good, good, OUTCOME)):
        folder = tmp_path / f"seed-{seed}"
        folder.mkdir()
        write(folder / "a.json", outcome, "a", "ours", seed, False, 1.0)
    assert [each.seed for each in verdicts(tmp_path)] == [0, 1, 2, 2]
    assert main([str(tmp_path)]) == 1
    assert "MISSED  a (seed 2): ocbnn.epsilon_mean <= 0.01, is 0.5" in capsys.readouterr().out


def test_a_bound_that_is_missed_is_said_with_what_limits_it(tmp_path):
    outcome = Outcome({"ocbnn": {"f1": 0.3}}, (Bound("ocbnn", "f1", ">=", 0.35),))
    write(tmp_path / "credit.json", outcome, "credit", "ours", 0, False, 1.0)
    said = json.loads((tmp_path / "credit.json").read_text("utf-8"))["note"]
    assert said.startswith("Missed: ocbnn.f1 >= 0.35, is 0.3. Young borrowers")
    assert "Tried: " in said
    write(
        tmp_path / "credit.json",
        Outcome({"ocbnn": {"f1": 0.4}}, outcome.bounds),
        "credit",
        "ours",
        0,
        False,
        1.0,
    )
    assert "note" not in json.loads((tmp_path / "credit.json").read_text("utf-8"))


def test_the_reference_says_which_figures_are_far_from_the_published_ones(tmp_path):
    near = {run: dict(figures) for run, figures in PUBLISHED["credit"].items()}
    far = {**near, "ocbnn": {**near["ocbnn"], "recourse": 0.2}}
    for runs, said in ((near, None), (far, "ocbnn.recourse 0.200 (published 0.379)")):
        write(tmp_path / "a.json", Outcome(runs), "credit", "reference", 0, False, 1.0)
        found = json.loads((tmp_path / "a.json").read_text("utf-8")).get("note")
        assert found is None if said is None else f": {said}. The authors' code" in found


def test_every_note_is_of_a_bound_that_exists():
    for name, notes in _texts()["ours"].items():
        module = import_module(f"reproduce.{EXPERIMENTS[name].split(':')[0]}")
        assert set(notes) <= {bound.figure for bound in module.BOUNDS}
    assert set(_texts()["reference"]) == set(PUBLISHED)
