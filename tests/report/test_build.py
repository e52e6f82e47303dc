"""Evidence: figures that agree with what `posterior` says, and nothing of single rows."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gamma

from ocbnn.checking.check import check_rules
from ocbnn.errors import FileError, OCBNNError
from ocbnn.model.priors import LayerScales
from ocbnn.posterior.conflict import log_scores
from ocbnn.posterior.draws import Posterior, base_prior_draws
from ocbnn.posterior.enforce import reject
from ocbnn.posterior.sensitivity import SENSITIVE, sensitivities
from ocbnn.report import Evidence, gather, html
from ocbnn.report.build import chosen, importances, typical_case, without_place
from ocbnn.report.evidence import fingerprint
from ocbnn.report.facts import prior_facts
from ocbnn.report.pictures import prior_pictures
from ocbnn.report.sentences import scale_words, worst_case
from ocbnn.storage.values import plain
from posterior_cases import class_constants, lines
from report_cases import CASES, Case, numbers

Cases = Callable[[str], Case]
Gathered = Callable[[str], Evidence]


@pytest.mark.parametrize("name", CASES)
def test_evidence_survives_json(name: str, evidence_of: Gathered) -> None:
    evidence = evidence_of(name)
    text = json.dumps(evidence.to_json(), allow_nan=False)
    assert Evidence.from_json(json.loads(text)).to_json() == evidence.to_json()


def test_damaged_evidence_is_an_error_that_says_where(evidence_of: Gathered) -> None:
    stored = evidence_of("alone").to_json()
    with pytest.raises(FileError, match=r"run\.draws"):
        Evidence.from_json({**stored, "run": {**stored["run"], "draws": "many"}})
    with pytest.raises(FileError, match="damaged"):
        Evidence.from_json({"version": 2})
    with pytest.raises(FileError, match="schema"):
        Evidence.from_json({**stored, "schema": {"columns": 3, "target": None}})
    with pytest.raises(FileError, match="update ocbnn"):
        Evidence.from_json({**stored, "version": 99})


def test_figures_are_those_of_check_rules(case_of: Cases, evidence_of: Gathered) -> None:
    found = check_rules(case_of("numbers").posterior, points=200)
    for rule, expected in zip(evidence_of("numbers").rules, found, strict=True):
        assert plain(rule.check) == plain(expected)


def test_the_worst_case_is_shown_where_there_is_one(evidence_of: Gathered) -> None:
    evidence = evidence_of("numbers")
    kept, violated = evidence.rules
    assert kept.check.verdict in ("met", "not shown at this tolerance")
    assert worst_case(kept, evidence) == []
    assert violated.check.verdict == "unmet"
    ((name, value, ruled),) = worst_case(violated, evidence)
    assert (name, ruled) == ("x", True)
    assert -1 <= float(value.replace("−", "-")) <= 0


def test_changes_are_those_of_the_two_lines(evidence_of: Gathered) -> None:
    rule = evidence_of("numbers").rules[0]
    assert rule.without is not None
    assert rule.change is not None
    # Without rules y = 1 + 2x, with them 1 + x/2, and x is uniform over 1 to 2.5 (the observed 2 and a
    # quarter of the range beyond the threshold, at most), so the mean change is 1.5 times the mean of x.
    assert rule.without.violation.value > 0.9
    mean_x = (rule.change.without - 1) / 2
    assert rule.change.with_rules == pytest.approx(1 + mean_x / 2, abs=0.05)
    assert rule.change.size_inside == pytest.approx(1.5 * mean_x, abs=0.05)
    assert rule.change.quantity == "y"


def test_sensitivities_are_those_of_the_posterior_and_of_the_checks_without_rules(
    case_of: Cases, evidence_of: Gathered
) -> None:
    evidence = evidence_of("numbers")
    found = sensitivities(case_of("numbers").posterior, [rule.without for rule in evidence.rules])
    assert tuple(rule.sensitivity for rule in evidence.rules) == found
    kept, violated = found
    # The draws keep `y <= 3` by far; a model without rules would not. `y >= 1` they meet head-on.
    assert (kept.rule, kept.verdict) == (0.0, "this rule cuts off what data alone would allow")
    assert violated.rule > SENSITIVE
    assert violated.verdict == "this rule shapes the answer here"  # the case has no rows of its own


def with_learnt_scales(case: Case, draws: np.ndarray) -> Posterior:
    base = LayerScales((2,), np.array([1.0, 2.0]))
    return Posterior(draws, replace(case.posterior.model, base=base), {"chains": True})


def test_scales_of_draws_of_the_prior_are_those_of_the_prior(case_of: Cases) -> None:
    case = case_of("numbers")
    count = 4000
    posterior = with_learnt_scales(case, np.zeros((1, 1, 2)))
    posterior = with_learnt_scales(case, base_prior_draws(posterior.model, count).draws)
    (scale,) = prior_facts(posterior, "x", 0).scales
    assert scale.layer == "output layer"
    # 1/s² is gamma with the shape and the rate 2.
    of_inverse = gamma(2.0, scale=0.5)
    np.testing.assert_allclose(scale.before, of_inverse.ppf([0.5, 0.95, 0.05]) ** -0.5, rtol=1e-9)
    for share, end in ((0.05, scale.after[1]), (0.95, scale.after[2])):
        assert of_inverse.sf(end**-2) == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / count))


def test_scales_of_large_weights_are_large_and_survive_json(case_of: Cases) -> None:
    case = case_of("numbers")
    evidence = gather(with_learnt_scales(case, 9.0 + case.posterior.draws), points=10)
    assert evidence.prior is not None
    (scale,) = evidence.prior.scales
    assert scale.before[2] < scale.after[1] < scale.after[0] < scale.after[2]
    again = Evidence.from_json(json.loads(json.dumps(evidence.to_json())))
    assert again.prior == evidence.prior
    page = html(again)
    assert '<th scope="row">Output layer</th>' in page
    assert scale_words(scale.after) in page


def test_the_prior_is_shown_along_the_most_important_column(evidence_of: Gathered) -> None:
    evidence = evidence_of("nasty")
    assert evidence.prior is not None
    first = max(evidence.importance, key=lambda name: evidence.importance[name])
    assert evidence.prior.shown.shown.column == first
    (picture,) = prior_pictures(evidence)
    assert "before any row was seen, and without the rules: 15 of its functions" in picture.caption
    assert evidence.prior.scales == ()


def test_held_out_rows_are_counted_inside_and_outside(case_of: Cases, evidence_of: Gathered) -> None:
    frame = case_of("numbers").frame
    assert frame is not None
    first, second = evidence_of("numbers").rules
    inside = int((frame["x"] > 1).sum())
    assert first.recorded is not None
    assert (first.recorded.inside, first.recorded.against) == (
        inside,
        int(((frame["x"] > 1) & (frame["y"] > 3)).sum()),
    )
    assert first.change is not None
    assert (first.change.rows_inside, first.change.rows_outside) == (inside, len(frame) - inside)
    there = frame["x"].between(-1, 0)
    assert second.recorded is not None
    assert second.recorded.against == int((there & (frame["y"] < 1)).sum())


def test_rows_cannot_break_a_rule_about_a_probability(evidence_of: Gathered) -> None:
    class_rule, bound = evidence_of("classes").rules
    assert class_rule.recorded is not None
    assert class_rule.recorded.against is not None
    assert bound.recorded is not None
    assert bound.recorded.against is None


def test_scores_are_those_of_the_rows(case_of: Cases, evidence_of: Gathered) -> None:
    case, found = case_of("numbers"), evidence_of("numbers").performance
    assert found is not None
    assert found.log_score is not None
    assert case.without is not None
    assert case.frame is not None
    y = case.frame["y"].to_numpy()
    here, there = (log_scores(each, case.frame, y) for each in (case.posterior, case.without))
    assert found.log_score.difference == pytest.approx((here - there).mean())
    assert found.with_rules["log_score"] == pytest.approx(here.mean())
    # Rows were made from the line of the posterior with noise 0.3, so its errors are that noise.
    assert found.with_rules["root_mean_squared_error"] == pytest.approx(0.3, abs=0.06)
    assert found.without is not None
    assert found.without["root_mean_squared_error"] > 1.0


def test_calibration_is_split_by_the_ruled_regions(case_of: Cases, evidence_of: Gathered) -> None:
    frame, found = case_of("numbers").frame, evidence_of("numbers").calibration
    assert frame is not None
    assert found is not None
    inside = (frame["x"] > 1) | frame["x"].between(-1, 0)
    assert (found.rows_inside, found.rows_outside) == (int(inside.sum()), int((~inside).sum()))
    assert found.inside is not None
    assert found.outside is not None
    assert found.inside.rows + found.outside.rows == len(frame)


@pytest.mark.parametrize("name", ["numbers", "classes"])
def test_no_value_of_a_row_is_in_the_evidence(name: str, case_of: Cases, evidence_of: Gathered) -> None:
    frame = case_of(name).frame
    assert frame is not None
    text = json.dumps(evidence_of(name).to_json())
    for value in frame["x"]:
        assert repr(float(value)) not in text


def test_nothing_to_compare_with_leaves_gaps_and_no_error(evidence_of: Gathered) -> None:
    alone = evidence_of("alone")
    assert not alone.compared
    assert alone.performance is None
    assert alone.calibration is None
    assert all(rule.without is None and rule.change is None for rule in alone.rules)
    bare = evidence_of("no rules")
    assert bare.rules == ()
    assert bare.bands


def test_more_rows_than_are_needed_are_drawn_by_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    case = numbers()
    monkeypatch.setattr("ocbnn.report.facts.MOST_ROWS", 50)
    evidence = gather(case.posterior, frame=case.frame, points=20)
    assert evidence.held_out_rows == 50


def test_wrong_rows_are_errors_that_say_what_is_missing() -> None:
    case = numbers()
    assert case.frame is not None
    with pytest.raises(OCBNNError, match="give y="):
        gather(case.posterior, frame=case.frame[["x"]])
    with pytest.raises(OCBNNError, match="frame="):
        gather(case.posterior, y=case.frame["y"])
    with pytest.raises(OCBNNError, match="3 values"):
        gather(case.posterior, frame=case.frame[["x"]], y=[1.0, 2.0, 3.0])
    with pytest.raises(OCBNNError, match="another table"):
        gather(case.posterior, without=CASES["classes"]().posterior)


def test_rejected_draws_are_named_as_enforcement() -> None:
    slope = np.linspace(0.0, 3.0, 60).reshape(2, 30)  # the steep ones break the rule
    posterior = lines(slope, np.ones_like(slope), ["if x > 1 then y <= 3", "if x < -1 then y <= 3"])
    kept = reject(posterior, posterior.rules[:1]).posterior
    evidence = gather(kept, points=20)
    assert evidence.enforcement == "draws"
    assert [rule.enforced for rule in evidence.rules] == [True, False]
    assert evidence.run.draws == int(kept.mask.sum()) < 60
    assert evidence.fingerprint != fingerprint(posterior)


def test_importance_ranks_a_column_that_matters_above_one_that_does_not(case_of: Cases) -> None:
    case = case_of("nasty")
    names = case.posterior.schema.names
    draws = np.zeros_like(case.posterior.draws)
    draws[..., 0] = 3.0
    found = importances(replace(case.posterior, draws=draws), None, 0)
    assert found[names[0]] > 0.1
    assert found[names[1]] == 0.0


def test_every_rule_is_seen_along_one_of_its_columns(case_of: Cases) -> None:
    posterior = case_of("classes").posterior
    shown = chosen(posterior, {"x": 1.0, "site": 0.5})
    assert shown == [("x", posterior.rules[0]), ("site", posterior.rules[1])]


def test_a_rule_left_over_is_seen_along_a_number_even_if_that_was_shown() -> None:
    rules = ["if x > 1 then label = blue", "if x < 0 and site = south then label = red"]
    posterior = class_constants(np.full((1, 10, 3), 1 / 3), rules)
    shown = [(name, term) for name, term in chosen(posterior, {"x": 1.0, "site": 0.0})]
    assert shown == [("x", posterior.rules[0]), ("site", posterior.rules[1])]
    rules = ["if x > 1 then label = blue", "if x > 1.5 then label = blue", "if x < 0 then label = red"]
    posterior = class_constants(np.full((1, 10, 3), 1 / 3), rules)
    assert chosen(posterior, {"x": 1.0, "site": 0.0}) == [
        ("x", posterior.rules[0]),
        ("site", None),
        ("x", posterior.rules[1]),
        ("x", posterior.rules[2]),
    ]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            "not converged: chain 2 of 4 disagrees at age = 3, sex = f, … (R-hat 1.300); run longer",
            "not converged: chain 2 of 4 disagrees (R-hat 1.300); run longer",
        ),
        (
            "not settled: chains disagree, chain 1 of 8 most, at age = 3, … (R-hat 1.066); run longer",
            "not settled: chains disagree, chain 1 of 8 most (R-hat 1.066); run longer",
        ),
        (
            "not converged: the draws are worth 12 independent ones at x = 1, and 400 are asked for; run",
            "not converged: the draws are worth 12 independent ones, and 400 are asked for; run",
        ),
        (
            "not converged: chain 1 of 2 gives a value that is not finite at x = 1, first in draw 3; lower",
            "not converged: chain 1 of 2 gives a value that is not finite, first in draw 3; lower",
        ),
        ("converged: worst R-hat 1.00 over 8 probes", "converged: worst R-hat 1.00 over 8 probes"),
    ],
)
def test_a_verdict_on_convergence_names_no_row(status: str, told: str) -> None:
    assert without_place(status) == told


def test_a_typical_case_of_a_rule_lies_in_its_region(case_of: Cases) -> None:
    posterior = case_of("classes").posterior
    for term in posterior.rules:
        assert term.rule.region.contains(typical_case(posterior, None, term, 0)[None], term.schema).all()


def test_the_same_seed_gives_the_same_evidence() -> None:
    case = numbers()
    one, other = (gather(case.posterior, frame=case.frame, points=20, seed=3) for _ in range(2))
    assert replace(one, made="").to_json() == replace(other, made="").to_json()


def test_held_out_rows_may_come_with_their_target_beside_them(evidence_of: Gathered, case_of: Cases) -> None:
    case = case_of("numbers")
    assert case.frame is not None
    frame: pd.DataFrame = case.frame
    beside = gather(case.posterior, frame=frame[["x"]], y=frame["y"], points=20)
    assert beside.performance is not None
    within = evidence_of("numbers").performance
    assert within is not None
    assert beside.performance.with_rules == within.with_rules
