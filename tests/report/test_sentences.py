"""Sentences that a person without statistics can act on."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ocbnn.checking.explain import RowsAgainst
from ocbnn.checking.figures import Figure
from ocbnn.checking.results import Attempt, Divergence, Level, Verdict
from ocbnn.posterior.conflict import LogScore
from ocbnn.posterior.price import Price
from ocbnn.posterior.sensitivity import DISAGREE, Sensitivity
from ocbnn.report import Evidence
from ocbnn.report import sentences as words
from ocbnn.report.evidence import Change, ProofFacts, RuleFacts, RunFacts

Gathered = Callable[[str], Evidence]


def spaced(text: str) -> str:
    """With common spaces, as a person would type it."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.00001, "less than 0.01%"),
        (0.99999, "more than 99.9%"),
        (0.0123, "1.2%"),
        (0.01, "1%"),
        (0.00456, "0.46%"),
        (0.345, "34%"),
        (0.987, "98.7%"),
        (None, "unknown"),
    ],
)
def test_shares_are_never_rounded_to_nothing_or_to_all(share: float | None, text: str) -> None:
    assert words.percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1234.5, "1,234"),
        (-1.234, "−1.23"),
        (0.05, "0.05"),
        (1e9, "1e+09"),
        (None, "unknown"),
    ],
)
def test_numbers_have_three_digits_that_matter(value: float | None, text: str) -> None:
    assert words.number(value) == text


def test_numbers_beside_larger_ones_have_no_digits_that_do_not_matter() -> None:
    assert words.number(-0.00398, None, 4.0) == "−0"[1:]
    assert spaced(words.number(3.14159, "mg/dL", 250.0)) == "3 mg/dL"


def judged(evidence: Evidence, *verdicts: str, converged: bool | None = True) -> Evidence:
    rules = [
        replace(rule, check=replace(rule.check, verdict=verdict, levels={}, name=f"rule {index}"))
        for index, (rule, verdict) in enumerate(zip(evidence.rules, verdicts, strict=True), 1)
    ]
    return replace(evidence, rules=tuple(rules), run=replace(evidence.run, converged=converged))


def leveled(
    rule: RuleFacts, average: Verdict, worst: Attempt, proved: Attempt = "not attempted", **figures: Figure
) -> RuleFacts:
    levels: dict[Level, Attempt] = {"on average": average, "worst case found": worst, "proved": proved}
    return replace(rule, check=replace(rule.check, verdict=average, levels=levels, **figures))


NOT_SHOWN = "not shown at this tolerance"


@pytest.mark.parametrize(
    ("verdicts", "tone", "headline"),
    [
        (("met", "met"), "met", "All 2 rules hold on average. The worst case was not searched for."),
        (
            ("met", "unmet"),
            "unmet",
            "1 of 2 rules holds on average. “rule 2” does not. The worst case was not searched for.",
        ),
        (
            ("unmet", "unmet"),
            "unmet",
            "0 of 2 rules hold on average. “rule 1” and “rule 2” do not.",
        ),
        (
            ("met", NOT_SHOWN),
            "unclear",
            "1 of 2 rules holds on average. For “rule 2” it is not shown. The worst case was not searched "
            "for.",
        ),
    ],
)
def test_the_verdict_names_what_is_not_kept(
    evidence_of: Gathered, verdicts: tuple[str, ...], tone: str, headline: str
) -> None:
    found = words.verdict(judged(evidence_of("numbers"), *verdicts))
    assert (found.tone, found.headline) == (tone, headline)


@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        ("met", "The one rule holds on average. The worst case was not searched for."),
        ("unmet", "The one rule, “rule 1”, does not hold on average."),
        (NOT_SHOWN, "It is not shown that the one rule, “rule 1”, holds on average."),
    ],
)
def test_one_rule_alone_is_called_so(evidence_of: Gathered, verdict: str, headline: str) -> None:
    evidence = evidence_of("numbers")
    one = replace(evidence, rules=evidence.rules[:1])
    assert words.verdict(judged(one, verdict)).headline == headline


def test_a_run_that_did_not_settle_is_never_called_good(evidence_of: Gathered) -> None:
    found = words.verdict(judged(evidence_of("numbers"), "met", "met", converged=False))
    assert found.tone == "unclear"
    assert any("did not settle" in sentence for sentence in found.further)


def test_without_rules_the_verdict_says_so(evidence_of: Gathered) -> None:
    found = words.verdict(evidence_of("no rules"))
    assert "without rules" in found.headline
    assert found.tone == "plain"


def test_the_verdict_says_what_the_rules_are_good_for_and_what_they_cost(evidence_of: Gathered) -> None:
    said = spaced(" ".join(words.verdict(evidence_of("numbers")).further))
    assert "without them would violate “if -1 <= x <= 0 then y >= 1” in" in said
    assert "the mean error is" in said
    said = spaced(" ".join(words.verdict(evidence_of("classes")).further))
    assert "are right with the rules" in said


def test_truncation_is_told(evidence_of: Gathered) -> None:
    evidence = replace(evidence_of("numbers"), enforcement="truncate")
    assert any("truncation" in sentence for sentence in words.verdict(evidence).further)


def test_a_rules_sentence_has_value_interval_and_tolerance(evidence_of: Gathered) -> None:
    rule = evidence_of("numbers").rules[0]
    figure = Figure(0.02, 0.01, 0.03, 100.0)
    check = replace(rule.check, epsilon_mean=figure, points=1000, verdict="unmet", levels={})
    assert words.rule_sentence(replace(rule, check=check), 120) == (
        "Violated in 2% of checks (1,000 cases × 120 draws); 95% interval: 1% to 3%; tolerance: 1%. "
        "Unmet on average: the whole interval lies beyond the tolerance."
    )
    together = replace(check, epsilon_mean=None, divergences={"total_variation": Divergence(figure, 0.1, {})})
    assert "differ from what it asks for by 2%" in words.rule_sentence(replace(rule, check=together), 120)


def test_a_share_below_what_is_written_is_said_to_be_less(evidence_of: Gathered) -> None:
    rule = evidence_of("numbers").rules[0]
    check = replace(rule.check, epsilon_mean=Figure(1e-5, 0.0, 3e-5, 100.0))
    said = words.rule_sentence(replace(rule, check=check), 1000)
    assert said.startswith("Violated in less than 0.01% of checks")


def test_kept_on_average_and_violated_in_the_worst_case_is_said_at_the_top(evidence_of: Gathered) -> None:
    evidence = judged(evidence_of("numbers"), "met", "met")
    kept, other = evidence.rules
    weak = leveled(kept, "met", "unmet", epsilon_worst=Figure(0.984, 0.9, 1.0, 100.0))
    strong = leveled(other, "met", "met", epsilon_worst=Figure(0.0, 0.0, 0.01, 100.0))
    said = words.verdict(replace(evidence, rules=(weak, strong))).headline
    assert said.startswith("All 2 rules hold on average. Worst case found: “rule 1” is violated by 98.4% of")
    assert said.endswith(" of draws; enforcement makes that impossible.")
    assert words.glances(replace(evidence, rules=(weak, strong)))[0].where.startswith("x ")
    alone = words.verdict(replace(evidence, rules=(strong,))).headline
    assert alone == "The one rule holds on average and in the worst case found."


@pytest.mark.parametrize("level", ["on average", "worst case found"])
def test_the_headline_claims_no_level_that_was_not_reached(evidence_of: Gathered, level: Level) -> None:
    rules = evidence_of("numbers").rules
    checks = [leveled(rule, "met", "unmet").check for rule in rules]
    said = words.headline(checks, level)
    if level == "on average":
        assert said.startswith("All 2 rules hold on average. Worst case found")
    else:
        assert said.startswith("0 of 2 rules hold in the worst case found.")


def test_a_rules_sentence_names_the_levels_that_it_does_not_ask_for(evidence_of: Gathered) -> None:
    rule = leveled(evidence_of("numbers").rules[0], "met", "unmet")
    said = words.rule_sentence(rule, 120)
    assert "Met on average: " in said
    assert said.endswith("Worst case found: unmet. Proved: not attempted.")


def test_what_is_proved_is_said_beside_the_headline(evidence_of: Gathered) -> None:
    evidence = evidence_of("numbers")
    rule = leveled(evidence.rules[0], "met", "met", proved="met")
    said = words.verdict(replace(evidence, rules=(rule,))).further
    assert said[0].startswith("Proved everywhere, within the tolerance: ")


def test_a_proof_says_for_how_many_draws_and_over_which_inputs(evidence_of: Gathered) -> None:
    rule = evidence_of("numbers").rules[0]
    proof = ProofFacts(985, 15, 0, "x 1 to 2 (rule)", "")
    assert words.proof_sentence(replace(rule, proof=proof)) == (
        "Proved for 985 of 1,000 draws: they satisfy the rule at every input, over x 1 to 2 (rule). "
        "15 are refuted by a case."
    )
    unbounded = replace(rule, proof=proof._replace(reason="functions cannot be bounded"))
    assert words.proof_sentence(unbounded) == "Not proved: functions cannot be bounded."
    assert words.proof_sentence(rule) is None


def test_a_change_says_how_much_where_and_for_how_many() -> None:
    change = Change("P(y = 1)", 0.4, 0.95, 0.5, "-3 <= x <= -2", 0.8, 30, 12, 70, 1)
    assert words.change_sentence(change, "mg", probability=True) == (
        "Where it applies, the rules move the mean P(y = 1) from 0.4 to 0.95. Predictions move most where "
        "−3 ≤ x ≤ −2: by 0.8, and 0.5 on average. Of 30 held-out rows there, 12 get another prediction; "
        "of 70 elsewhere, 1."
    )
    nobody = replace(change, where=None, rows_inside=0, changed_inside=0)
    assert "No held-out row lies there" in words.change_sentence(nobody, None, probability=True)


def test_conflicts_are_graded_by_what_rows_say(evidence_of: Gathered) -> None:
    rule = replace(evidence_of("alone").rules[0], recorded=RowsAgainst(50, 20))
    tone, text = words.conflict_sentence(rule) or ("", "")
    assert tone == "unclear"
    assert "In 20 of 50 held-out rows" in text
    tone, _ = words.conflict_sentence(replace(rule, recorded=RowsAgainst(50, 0))) or ("", "")
    assert tone == "met"
    tone, text = words.conflict_sentence(replace(rule, unmet_reason="rows stand against it")) or ("", "")
    assert tone == "unmet"
    assert "rows stand against it." in text
    assert words.conflict_sentence(replace(evidence_of("alone").rules[0], sensitivity=None)) is None


def test_sensitivity_is_told_with_its_figures_and_disagreement_is_marked(evidence_of: Gathered) -> None:
    rule = replace(evidence_of("alone").rules[0], sensitivity=Sensitivity(0.31, 0.1234, DISAGREE))
    assert words.conflict_sentence(rule) == (
        "unclear",
        "The data strongly disagree with this rule. At the case that depends most on the rule, the "
        "sensitivity of predictions is 0.31 to the rule and 0.123 to the data; below 0.05 is little.",
    )
    alone = replace(rule, sensitivity=Sensitivity(0.0, None, "this rule hardly matters"))
    assert words.conflict_sentence(alone) == (
        "plain",
        "This rule hardly matters. At the case that depends most on the rule, the sensitivity of predictions "
        "is 0 to the rule; below 0.05 is little.",
    )


def test_the_cost_in_log_score_is_called_one_only_where_rows_can_show_it(evidence_of: Gathered) -> None:
    evidence = evidence_of("numbers")
    assert evidence.performance is not None
    assert evidence.performance.log_score is not None
    for difference, said in ((-0.5, "cost something"), (0.001, "no difference"), (0.5, "the rules help")):
        score = evidence.performance.log_score._replace(difference=difference, error=0.01)
        changed = replace(evidence, performance=replace(evidence.performance, log_score=score))
        assert said in (words.score_sentence(changed) or "")
    assert words.score_sentence(evidence_of("alone")) is None


def test_the_price_of_a_rule_is_told_with_its_error_or_why_it_cannot_be_said() -> None:
    every, near = LogScore(-0.5, -0.48, -0.02, 0.004, 499), LogScore(-0.9, -0.7, -0.2, 0.05, 31)
    told = words.price_sentence(Price(every, near, 0.3))
    assert "changes by −0.02 ± 0.008 per row (499 rows)" in told
    assert told.endswith("in or near its region −0.2 ± 0.1 per row (31 rows).")
    assert "near its region" not in words.price_sentence(Price(every, None, 0.3))
    assert words.price_sentence(Price(None, None, 1.2, "it holds draws back")) == (
        "What it costs cannot be said without fitting again: it holds draws back."
    )


@pytest.mark.parametrize(
    ("chains", "converged", "said"),
    [
        (True, True, "4 independent chains of draws agree"),
        (True, False, "do not agree well enough"),
        (False, True, "(hmc) settled"),
        (False, False, "had not settled"),
        (True, None, "Nothing is recorded"),
    ],
)
def test_the_run_is_told_in_a_sentence(chains: bool, converged: bool | None, said: str) -> None:
    run = RunFacts("hmc", "", converged, None, 800, 4, chains, 1.0, 500.0, (), None, None, None)
    assert said in words.run_sentence(run)
