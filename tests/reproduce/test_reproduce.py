"""The entry point: every experiment as a smoke run writes its JSON, its pictures and models that load."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

import ocbnn
from command_line import interrupt, run, words
from ocbnn.inference import Tick
from reproduce import outcome
from reproduce.__main__ import app
from reproduce.experiments import EXPERIMENTS, FIGURES, GROUPS, Experiment, fits, reproduce
from reproduce.outcome import Outcome, expected
from reproduce.progress import Watch, one_fit, time_left, watching

PROMISED = (
    "rhat_worst",
    "ess_worst",
    "epsilon_mean",
    "epsilon_worst",
    "draws_violating",
    "points_violating",
    "fit_rmse",
)
RUNS = {
    "fig1": {"baseline", "ocbnn", "prior", "prior_baseline"},
    "fig2": {"baseline", "ocbnn", "prior", "prior_baseline"},
    "fig3a": {"baseline", "ocbnn", "prior"},
    "fig3b": {"baseline", "ocbnn"},
    "fig4": {"baseline", "ocbnn", "prior"},
    "fig5": {"svgd", "svgd_baseline", "bbb", "bbb_baseline"},
    "fig6": {"baseline", "ocbnn"},
}


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["ours", "paper", "reference"])
@pytest.mark.parametrize("name", FIGURES)
def test_a_smoke_run_writes_everything_that_is_promised(name, setting, tmp_path, monkeypatch):
    said: list[str] = []
    counted: list[Watch] = []
    monkeypatch.setattr(Watch, "fitted", lambda watch: counted.append(watch))
    reproduce([name], setting, tmp_path, seed=1, quick=True, progress=said.append)
    assert len(counted) == fits(name, setting, quick=True)
    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert (content["name"], content["setting"], content["seed"]) == (name, setting, 1)
    assert content["seconds"] > 0
    assert RUNS.get(name, set()) <= set(content["runs"])
    for each, figures in content["runs"].items():
        posterior = ocbnn.load(tmp_path / name / each).posterior_
        assert posterior.schema.names in (("x",), ("x1", "x2"))
        assert set(PROMISED) <= set(figures)
        if not each.startswith("prior"):
            assert figures["fit_rmse"] >= 0
        if name != "fig4":  # its rule is about a distribution, and distance_to_rule says how far it is kept
            assert figures["epsilon_mean"] is not None
    for kind in ("png", "svg"):
        assert (tmp_path / f"{name}.{kind}").stat().st_size > 1000
    assert said[-1].startswith(f"{name} ({setting}, seed 1): ")


@pytest.mark.parametrize("after", [0, 1])
def test_ctrl_c_ends_the_whole_run_and_says_what_is_left(after, tmp_path, monkeypatch):
    """Also where some draws are there, which `infer` gives back: no figure is of half a run."""
    interrupt(monkeypatch, after)
    with pytest.raises(KeyboardInterrupt, match=r"Interrupted in fig3b \(seed 1\).* Left to do: fig3b fig6"):
        reproduce(["fig3b", "fig6"], "ours", tmp_path, seed=1, quick=True, progress=lambda said: None)
    assert not (tmp_path / "fig3b.json").exists()
    monkeypatch.undo()
    interrupt(monkeypatch, after)
    result = run("fig3b", "--quick", "--out", tmp_path, command=app)
    assert result.exit_code == 130
    assert "Left to do: fig3b (ours)" in words(result)
    assert "resume" not in words(result)


def test_several_seeds_have_folders_of_their_own_and_a_table_together(tmp_path, monkeypatch):
    runs = {
        name: dict.fromkeys(expected()["credit"]["shown"], 0.5) for name in expected()["credit"]["published"]
    }

    def credit(setting, seed, quick, out):
        return Outcome({name: {**figures, "f1": 0.3 + 0.1 * seed} for name, figures in runs.items()})

    monkeypatch.setitem(EXPERIMENTS, "credit", Experiment(credit, 1))
    result = run("credit", "--seed", 1, "--seeds", 3, "--quick", "--out", tmp_path, command=app)
    assert result.exit_code == 0, result.output
    assert "3 seeds together" in words(result)
    written = [json.loads((tmp_path / f"seed-{seed}" / "credit.json").read_text()) for seed in (1, 2, 3)]
    assert [each["seed"] for each in written] == [1, 2, 3]
    assert "| 0.500 ± 0.058 (0.350) |" in (tmp_path / "credit.md").read_text()


def test_help_names_every_experiment():
    shown = words(run("--help", command=app))
    assert not [name for name in (*EXPERIMENTS, *GROUPS) if not re.search(rf"\b{name}\b", shown)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("fig99 --out {}/r", "no experiment 'fig99'"),
        ("fig1 --setting theirs --out {}/r", "no setting 'theirs'"),
        ("fig1 --out {}/table.csv/r", "is not a folder"),
        ("fig1 --out {}", "fig1.json is a folder where a file should be"),
        ("--out {}/r", "Name an experiment"),
        ("fig1 --quick --check --out {}/r --seeds 0", "Invalid value"),
    ],
)
def test_wrong_use_is_a_sentence_before_any_work(arguments, said, tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n")
    (tmp_path / "fig1.json").mkdir()
    result = run(*arguments.format(tmp_path).split(), command=app)
    assert result.exit_code == 2
    assert said in words(result)
    assert "Traceback" not in result.output
    assert not list((tmp_path / "r").glob("*"))


class TestBar:
    def test_it_counts_fits_and_says_how_long_the_rest_takes(self):
        console = Console(file=io.StringIO(), force_terminal=True, width=100)
        with watching(4, shown=True, console=console) as watch:
            with one_fit() as progress:
                progress(Tick("strength", 3, 0, 0.0))
                progress(Tick("optimise", 50, 100, 0.0))
            assert watch.bar.tasks[0].completed == watch.done == 1
            assert re.fullmatch(r"about \d+ s left", watch.bar.tasks[0].fields["left"])
            with watch.aside():
                console.print("something else")
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
        assert "1/4" in shown
        assert "something else" in re.split(r"[\r\n]", shown)
        with one_fit() as progress:
            assert progress is False

    @pytest.mark.parametrize(("shown", "terminal"), [(False, True), (True, False)])
    def test_where_nobody_looks_no_fit_is_slowed(self, shown, terminal):
        console = Console(file=io.StringIO(), force_terminal=terminal)
        with watching(2, shown=shown, console=console) as watch:
            with one_fit() as progress:
                assert progress is False
            assert watch.done == 1
        assert console.file.getvalue() == ""

    def test_the_time_left_is_that_of_the_fits_behind(self):
        assert time_left(30.0, 0.0, 4) == ""
        assert time_left(30.0, 1.5, 4) == "about 50 s left"
        assert time_left(300.0, 1.0, 4) == "about 15 min left"
        assert time_left(10.0, 4.0, 4) == "about 0 s left"


def test_an_experiment_of_your_own_is_one_row(tmp_path, monkeypatch):
    def mine(setting, seed, quick, out):
        return Outcome({"baseline": {"fit_rmse": 0.5}}, {"given": [setting, seed, quick, out.name]})

    bounds = {"mine": {"bounds": ["baseline.fit_rmse <= 0.1"]}}
    monkeypatch.setitem(EXPERIMENTS, "mine", Experiment(mine, 1))
    monkeypatch.setattr(outcome, "expected", lambda: bounds)
    said: list[str] = []
    reproduce(["mine"], "ours", tmp_path, seed=3, progress=said.append)
    content = json.loads((tmp_path / "mine.json").read_text())
    assert content["runs"]["baseline"]["fit_rmse"] == 0.5
    assert content["details"]["given"] == ["ours", 3, False, tmp_path.name]
    assert "missed: baseline.fit_rmse <= 0.1" in said[-1]
