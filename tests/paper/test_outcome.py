"""Outcomes: bounds, and JSON that any reader takes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ocbnn.paper.check import main, verdicts
from ocbnn.paper.outcome import Bound, Outcome, PaperError, require_setting, write
from ocbnn.paper.registry import EXPERIMENTS, FIGURES, expanded, experiment


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
    assert content["note"] == "a note"
    for setting, quick in (("paper", False), ("ours", True)):
        assert write(tmp_path / "b.json", OUTCOME, "a", setting, 3, quick, 1.0) == []
        assert "bounds" not in json.loads((tmp_path / "b.json").read_text())


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
    assert "MISSED  a: ocbnn.epsilon_mean <= 0.01, is 0.5" in capsys.readouterr().out
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
