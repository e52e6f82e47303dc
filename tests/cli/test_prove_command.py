"""`ocbnn prove`: what it says, what it keeps, and that its boxes can be gone through again."""

from __future__ import annotations

import json

from command_line import run, small_table, words


def test_prove_keeps_its_boxes_and_verify_goes_through_them_again(own_files):
    model = own_files / "model"
    before = run("prove", model, "--verify")
    assert before.exit_code == 2
    assert "holds no proof yet" in words(before)
    result = run("prove", model, "--boxes", 50, "--seconds", 60)
    assert result.exit_code == 0
    assert "draws are proved to keep it everywhere" in words(result)
    assert "x 1 to" in words(result)
    assert "--verify" in words(result)
    verified = run("prove", model, "--verify", "--json")
    assert verified.exit_code == 0
    assert json.loads(verified.stdout)["holds"]
    assert run("verify", model).exit_code == 0
    checked = run("check", model, "--prove", "--points", 50)
    assert "draws not proved to keep it everywhere" in words(checked)
    page = run("report", model, "--out", own_files / "report.html")
    assert page.exit_code == 0
    page = (own_files / "report.html").read_text()
    assert "Draws not proved to keep it everywhere" in page
    assert "draws: they satisfy the rule at every input, over x " in page  # and over which ranges


def test_other_rules_are_proved_and_not_kept(own_files):
    (own_files / "other.yaml").write_text("- {name: far, rule: always y <= 1000}\n")
    result = run("prove", own_files / "model", "--rules", own_files / "other.yaml", "--json")
    found = json.loads(result.stdout)
    assert found["rules"][0]["undecided"] == 0
    assert found["unproved"]["value"] == 0.0
    assert run("prove", own_files / "model", "--verify").exit_code == 2


def test_proved_draws_can_be_enforced(own_files):
    out = own_files / "enforced"
    result = run("enforce", own_files / "model", "--method", "proved", "--out", out)
    assert result.exit_code in (0, 2)
    assert "proved" in words(result)


def test_what_holds_by_construction_is_said_by_every_command(tmp_path, small_budget):
    table = small_table()
    table.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "rules.yaml").write_text("- {name: growth, rule: always y increases with x}\n")
    out = tmp_path / "model"
    options = ("--target", "y", "--rules", tmp_path / "rules.yaml", "--no-compare", "--out", out)
    fitted = run("fit", tmp_path / "table.csv", *options)
    assert fitted.exit_code == 0, words(fitted)
    assert "met growth: holds by construction" in words(fitted)
    found = json.loads(run("check", out, "--points", 50, "--json").stdout)
    assert found["rules"][0]["by_construction"]
    assert found["rules"][0]["draws_unproved"]["high"] == 0.0
    assert "holds by construction" in words(run("check", out, "--points", 50))
    proved = run("prove", out)
    assert "0 boxes" in words(proved)
    assert "all inputs, by construction" in words(proved)
    assert run("prove", out, "--verify").exit_code == 0
    assert run("report", out, "--out", tmp_path / "report.html").exit_code == 0
    assert "Holds by construction" in (tmp_path / "report.html").read_text()
    (tmp_path / "rules.yaml").write_text("- {rule: always y increases with x, by: magic}\n")
    refused = run("fit", tmp_path / "table.csv", *options[:-1], tmp_path / "other")
    assert refused.exit_code == 2
    assert "by construction or by prior, or left out; got 'magic'" in words(refused)
