"""`ocbnn demo`: the whole way on the clinic's table."""

import json
import re
import shutil

import pytest

from command_line import interrupt, run, words
from ocbnn.cli import demo as module
from ocbnn.cli.demo import RULES
from ocbnn.datasets import clinic
from small_estimators import SMALL

BUDGET = {name: value for name, value in SMALL.items() if name != "random_state"}


def small_budget(patch):
    patch.setattr(module, "OPTIONS", BUDGET)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the demo says and writes, with the budget of tests."""
    out = tmp_path_factory.mktemp("demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        small_budget(patch)
        result = run("demo", "--out", out)
    assert result.exit_code == 0, result.output
    return words(result), out


def test_it_shows_every_rule_in_canonical_words(shown):
    assert "if creatinine > 2 and BUN > 40 and urine < 30 then action = 1" in shown[0]
    assert "after KDIGO 2012" in shown[0]


def test_lint_finds_what_the_example_was_made_to_show(shown):
    assert re.search(r"unobserved: deep cold", shown[0])
    assert re.search(r"data-conflict: leave the stable alone", shown[0])
    assert "error," not in shown[0]


def test_it_compares_and_ends_in_plain_words(shown):
    assert "violated without" in shown[0]
    assert re.search(r"What came out (All|\d of) 5 rules holds? on average", shown[0])
    assert "worst case found" in shown[0]
    assert "What to try next" in shown[0]


def test_it_leaves_table_rules_model_and_report(shown):
    _, out = shown
    assert {path.name for path in out.iterdir()} == {
        "clinic.csv", "columns.yaml", "rules.yaml", "model", "report.html", "report.json",
    }  # fmt: skip
    assert json.loads((out / "report.json").read_text())["compared"]


@pytest.mark.slow
def test_the_commands_it_suggests_can_be_run_to_the_letter(shown, monkeypatch):
    text, out = shown
    lint = re.search(r"ocbnn (lint .*?) ocbnn fit", text)[1].split()
    assert run(*lint).exit_code == 0
    fit = re.search(r"ocbnn (fit .*?) Ask the model", text)[1].split()
    monkeypatch.setattr(OCBNNClassifier, "__init__", partialmethod(OCBNNClassifier.__init__, **BUDGET))
    assert run(*fit).exit_code == 0
    assert (out / "mine" / "evidence.json").exists()
    shutil.rmtree(out / "mine")
    predict = re.search(r"ocbnn (predict .*?) ocbnn", text)[1].split()
    assert len(run(*predict).stdout.splitlines()) == clinic.ROWS + 1
    enforce = re.search(r"ocbnn (enforce \S+ --out \S+)", text)[1].split()
    assert run(*enforce).exit_code == 0


@pytest.mark.parametrize("after", [0, 1])
def test_after_ctrl_c_it_says_what_can_be_done(after, tmp_path, monkeypatch):
    small_budget(monkeypatch)
    interrupt(monkeypatch, after)
    result = run("demo", "--out", tmp_path / "demo")
    assert result.exit_code == 130
    assert "The demo begins anew with the same command." in words(result) or after == 0
    assert "--resume" not in words(result)


def test_the_example_has_what_it_promises():
    table = clinic.table()
    assert len(table) >= 2000
    assert table["temperature"].min() > 34
    stable = table.query("MAP >= 75 and lactate < 1.5 and creatinine < 1.2 and 36 <= temperature <= 38")
    stable = stable.query("prior_sepsis == 0")
    by_ward = stable.groupby("ward")["action"].mean()
    assert by_ward["surgical"] > 0.3 > 0.2 > by_ward.drop("surgical").max()
    assert clinic.table().equals(table)
    assert not clinic.table(seed=1).equals(table)


@pytest.mark.slow
def test_the_real_demo_converges_and_keeps_its_rules(tmp_path):
    result = run("demo", "--out", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    told = json.loads((tmp_path / "demo" / "report.json").read_text())
    assert told["run"]["converged"]
    assert all(rule["check"]["verdict"] != "unmet" for rule in told["rules"])
    cold = next(rule for rule in told["rules"] if rule["check"]["name"] == "deep cold")
    without, check = cold["without"], cold["check"]
    assert without["epsilon_mean"]["value"] > 10 * check["tolerance"] > check["epsilon_mean"]["value"]
    assert (tmp_path / "demo" / RULES).exists()
