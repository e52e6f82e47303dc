"""`ocbnn prove`: what it says, what it keeps, and that its boxes can be gone through again."""

from __future__ import annotations

import json

from command_line import run, words


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
    assert "Draws not proved to satisfy it everywhere" in (own_files / "report.html").read_text()


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
