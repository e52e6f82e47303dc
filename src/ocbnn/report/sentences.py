"""Sentences and numbers for people who never heard of posteriors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ocbnn.posterior.calibration import Bin
from ocbnn.report.evidence import Change, Estimate, Evidence, RuleFacts, RunFacts

Tone = Literal["met", "unclear", "unmet", "plain"]
TONES: dict[str, Tone] = {"met": "met", "unmet": "unmet", "not shown at this tolerance": "unclear"}
NARROW = "\u202f"
"""The space between a number and %, at which no line breaks."""
PROBABILITY = 0.5
"""What probabilities are written beside: three decimals."""
BADGES = {"met": "met", "unmet": "UNMET", "not shown at this tolerance": "not shown"}


@dataclass(frozen=True)
class Verdict:
    """The report in a sentence, and a few that say what it rests on."""

    tone: Tone
    headline: str
    further: tuple[str, ...]


# Numbers ----------------------------------------------------------------------------------------------------


def percent(share: float | None) -> str:
    """A share as people read it: two digits that matter, and never 0 % or 100 % for what is not."""
    if share is None:
        return "unknown"
    value = 100.0 * share
    if 0.0 < value < 0.01:
        return f"below 0.01{NARROW}%"
    if 99.9 < value < 100.0:
        return f"above 99.9{NARROW}%"
    if value < 1.0:
        text = f"{value:.2g}"
    else:
        text = f"{value:.0f}" if 10.0 <= value <= 90.0 else f"{value:.1f}".removesuffix(".0")
    return f"{text}{NARROW}%"


def percent_range(estimate: Estimate) -> str:
    """The ends of an interval of a share."""
    if estimate.low is None or estimate.high is None:
        return "interval unknown"
    low, high = percent(estimate.low), percent(estimate.high)
    return f"{low} to {high}" if low.startswith(("below", "above")) else f"{low[:-2]} to {high}"


def number(value: float | None, unit: str | None = None, beside: float | None = None) -> str:
    """A number with its unit and three digits that matter; `beside` is one of whose size they matter."""
    if value is None:
        return "unknown"
    size = abs(value if beside is None else beside)
    if size == 0.0 or not 1e-4 <= size < 1e6:
        text = f"{value:.3g}"
    else:
        text = f"{value:,.{max(2 - math.floor(math.log10(size)), 0)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    text = "0" if text == "-0" else text.replace("-", "−")
    return f"{text}\u00a0{unit}" if unit else text


def count(number_of: int, one: str, several: str | None = None) -> str:
    """How many of something, in the right number."""
    return f"{number_of:,} {one if number_of == 1 else several or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names in quotes, as a sentence lists them."""
    quoted = [f"“{name}”" for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]


# The verdict ------------------------------------------------------------------------------------------------


def verdict(evidence: Evidence) -> Verdict:
    """The one sentence, and what it rests on."""
    rules = evidence.rules
    tone: Tone
    if not rules:
        words = "This model was fitted without rules, so there is nothing for it to keep."
        return Verdict("plain", words, tuple(_run_sentences(evidence.run)))
    met, unmet, unclear = (
        [rule.name for rule in rules if rule.verdict == each]
        for each in ("met", "unmet", "not shown at this tolerance")
    )
    further = [*_rule_sentences(evidence), *_comparison_sentences(evidence), *_run_sentences(evidence.run)]
    if len(met) == len(rules):
        words = (
            "The model keeps its one rule." if len(rules) == 1 else f"The model keeps all {len(rules)} rules."
        )
        tone = "met" if evidence.run.converged is not False else "unclear"
        return Verdict(tone, words, tuple(further))
    tone = "unmet" if unmet else "unclear"
    if len(rules) == 1:
        kept = "The model does not keep" if unmet else "It is not shown that the model keeps"
        return Verdict(tone, f"{kept} its one rule, {listed([rules[0].name])}.", tuple(further))
    kept = f"The model keeps {len(met)} of {len(rules)} rules."
    if unmet:
        kept += f" It does not keep {listed(unmet)}."
    if unclear:
        kept += f" For {listed(unclear)} it is not shown."
    return Verdict(tone, kept, tuple(further))


def _rule_sentences(evidence: Evidence) -> list[str]:
    said = [
        f"“{rule.name}” is broken in {percent(rule.violation.value)} of the cases it speaks of, and "
        f"{percent(rule.tolerance)} was accepted."
        for rule in evidence.rules
        if rule.verdict == "unmet" and not rule.probabilistic
    ]
    if evidence.enforcement == "truncate":
        said.append(
            "Predictions are also held to the rules one by one (truncation), so that none that is given out "
            "can break them; the figures here are of the model before that."
        )
    if evidence.enforcement == "draws":
        said.append("Variants of the model that were seen to break a rule have been thrown away (rejection).")
    return said


def _comparison_sentences(evidence: Evidence) -> list[str]:
    said = []
    before = [rule for rule in evidence.rules if rule.without is not None and not rule.probabilistic]
    if before:
        most = max(before, key=lambda rule: rule.without.value if rule.without else 0.0)
        assert most.without is not None
        if most.without.value > most.tolerance:
            said.append(
                f"The rules matter: the same data without them would break “{most.name}” in "
                f"{percent(most.without.value)} of cases."
            )
        else:
            said.append("The same data without the rules would hardly break any of them.")
    cost = cost_sentence(evidence)
    return [*said, cost] if cost else said


def cost_sentence(evidence: Evidence) -> str | None:
    """What the rules cost in accuracy on held-out rows; None without a comparison."""
    found = evidence.performance
    if found is None or found.without is None:
        return None
    rows = count(found.rows, "row")
    if "accuracy" in found.with_rules:
        here, there = percent(found.with_rules["accuracy"]), percent(found.without["accuracy"])
        said = f"{here} are right with the rules and {there} without them"
    else:
        unit = evidence.target.unit
        here = number(found.with_rules["mean_absolute_error"], unit)
        there = number(found.without["mean_absolute_error"], unit)
        said = f"predictions are off by {here} on average with the rules and by {there} without them"
    return f"Of {rows} held out from the fit, {said}." if "right" in said else f"On {rows} held out, {said}."


def _run_sentences(run: RunFacts) -> list[str]:
    if run.converged is None:
        return []
    if run.converged:
        return ["The computation behind these figures settled."]
    return ["The computation did not settle, so take every figure here with caution (see “Diagnostics”)."]


# Rules ------------------------------------------------------------------------------------------------------


def rule_sentence(rule: RuleFacts) -> str:
    """How far a rule is kept."""
    accepted = f"up to {percent(rule.tolerance)} was accepted"
    tried = f"{rule.points:,} new cases drawn from where it applies"
    if rule.probabilistic:
        return (
            f"At {tried}, predictions differ from what it asks for by {percent(rule.violation.value)} on "
            f"average (95 % interval {percent_range(rule.violation)}); {accepted}."
        )
    return (
        f"Broken in {percent(rule.violation.value)} of {tried} (95 % interval "
        f"{percent_range(rule.violation)}); {accepted}."
    )


def verdict_sentence(rule: RuleFacts) -> str:
    """What a verdict means for this rule."""
    if rule.verdict == "met":
        return "Met: the whole interval lies within what was accepted."
    if rule.verdict == "unmet":
        return "Unmet: the whole interval lies beyond what was accepted."
    return (
        "Not shown: what was accepted lies inside the interval, so these figures can neither confirm nor "
        "deny the rule. More draws would narrow the interval."
    )


def rule_figures(rule: RuleFacts) -> tuple[tuple[str, str, Estimate | None], ...]:
    """Every figure of a rule: what it is in words, its technical name, and its value."""
    if rule.probabilistic:
        rows = [
            ("Difference from what is asked, on average over cases", "total_variation", rule.violation),
            ("Difference in the worst case found", "total_variation, worst", rule.epsilon_worst),
        ]
    else:
        rows = [
            ("Broken on average, over cases and variants of the model", "epsilon_mean", rule.violation),
            ("Broken in the worst case found, over variants", "epsilon_worst", rule.epsilon_worst),
            ("Variants that break it in at least one case tried", "draws_violating", rule.draws_violating),
            ("Cases whose single prediction breaks it", "points_violating", rule.points_violating),
            ("Probability given to forbidden answers", "mass_outside", rule.mass_outside),
        ]
    return tuple(row for row in rows if row[2] is not None)


def change_sentence(change: Change, probability: bool) -> str:
    """What the rules change where one of them applies."""
    unit = change.unit
    largest = PROBABILITY if probability else max(abs(change.without), abs(change.with_rules))
    before, after = (number(value, None, largest) for value in (change.without, change.with_rules))
    text = f"Where it applies, the rules move the mean {change.quantity} from {before} to {after}"
    text += "." if probability or not unit else f" {unit}."
    if change.where is not None and change.size_where is not None:
        beside = PROBABILITY if probability else change.size_where
        most, mean = (number(size, unit, beside) for size in (change.size_where, change.size_inside))
        text += (
            f" Predictions move most where {_range_words(change.where)}: by {most}, and {mean} on average."
        )
    if change.rows_inside is not None and change.changed_inside is not None:
        text += f" {_rows_words(change)}"
    return text


def _range_words(label: str) -> str:
    return re.sub(r"(?<![^\s])-(?=\d)", "−", label.replace("<=", "≤"))


def _rows_words(change: Change) -> str:
    other = "get another answer"
    inside = (
        "No held-out row lies there"
        if not change.rows_inside
        else f"Of {count(change.rows_inside, 'held-out row')} there, {change.changed_inside:,} {other}"
    )
    if not change.rows_outside:
        return f"{inside}."
    return f"{inside}; of {change.rows_outside:,} elsewhere, {change.changed_outside:,}."


def conflict_sentence(rule: RuleFacts) -> tuple[Tone, str] | None:
    """How far the data stand against a rule; None where nothing is known."""
    parts: list[str] = []
    tone: Tone = "plain"
    recorded = rule.recorded
    if recorded is not None and recorded.rows == 0:
        parts.append("No held-out row lies where it applies, so these rows say nothing about it.")
    elif recorded is not None and recorded.breaking is not None:
        share = recorded.breaking / recorded.rows
        rows = f"In {recorded.breaking:,} of {recorded.rows:,} held-out rows where it applies"
        parts.append(f"{rows} ({percent(share)}), what was recorded breaks the rule.")
        tone = "unclear" if share > max(rule.tolerance, 0.02) else "met"
    if rule.without is not None and not rule.probabilistic:
        would = (
            f"Learnt from the data alone, the model would break it in {percent(rule.without.value)} of cases"
        )
        against = rule.without.value > rule.tolerance
        parts.append(would + ("." if against else ", which is within what was accepted."))
    if rule.unmet_reason:
        parts.append(f"The fit says why it could not keep it: {rule.unmet_reason}.".replace("..", "."))
        tone = "unmet"
    return (tone, " ".join(parts)) if parts else None


def score_sentence(evidence: Evidence) -> str | None:
    """What the rules together cost in the log score of held-out rows."""
    score = None if evidence.performance is None else evidence.performance.log_score
    if score is None:
        return None
    error = 0.0 if score.error is None else 2.0 * score.error
    how = (
        "no difference that these rows can show"
        if abs(score.difference) <= error
        else "the rules help"
        if score.difference > 0
        else "the rules cost something"
    )
    sign = "+" if score.difference >= 0 else "−"
    beside = max(abs(score.difference), error)
    change, spread = (number(value, None, beside) for value in (abs(score.difference), error))
    return (
        f"The log score, which rewards probability given to what then happened, changes by {sign}{change} "
        f"± {spread} per row through the rules: {how}."
    )


def performance_rows(evidence: Evidence) -> list[tuple[str, str, Callable[[float], str]]]:
    """Measures of predictions: in words, by their technical name, and how they are written."""
    unit = evidence.target.unit

    def amount(value: float) -> str:
        return number(value, unit)

    rows: list[tuple[str, str, Callable[[float], str]]] = [
        ("Right answers", "accuracy", percent),
        ("Squared error of probabilities, 0 is best", "brier", number),
        ("Mean error", "mean_absolute_error", amount),
        ("Root of the mean squared error", "root_mean_squared_error", amount),
        ("Mean width of intervals that should hold 90 %", "mean_width_90", amount),
        ("Log score, higher is better", "log_score", number),
    ]
    found = evidence.performance
    return [row for row in rows if found is not None and row[1] in found.with_rules]


# Calibration and diagnostics --------------------------------------------------------------------------------


def coverage_sentence(bin_: Bin, where: str, task: str) -> str:
    """How often intervals, or sets of classes, hold the truth."""
    what = "intervals" if task == "regression" else "sets of answers"
    return (
        f"{where}, {what} that should hold the truth in at least {percent(bin_.predicted)} of rows held it "
        f"in {percent(bin_.observed)} of {bin_.rows:,} "
        f"(95 % interval {percent_range(Estimate(bin_.observed, bin_.low, bin_.high))})."
    )


def run_sentence(run: RunFacts) -> str:
    """How the computation went, in a sentence."""
    if run.converged is None:
        return "Nothing is recorded about how the computation went."
    if not run.has_chains:
        good = "came to rest" if run.converged else "had not come to rest when it stopped"
        return (
            f"The computation ({run.engine}) {good}. This kind of computation approximates, and cannot "
            f"show by itself how well: it gave {count(run.draws, 'variant')} of the model."
        )
    searches = count(run.chains, "independent search", "independent searches")
    if run.converged:
        worth = (
            ""
            if run.worst_effective is None
            else (f", worth at least {run.worst_effective:,.0f} independent ones everywhere")
        )
        return (
            f"{searches[0].upper()}{searches[1:]} for variants of the model agree with one another: "
            f"{run.draws:,} variants were kept{worth}."
        )
    return (
        f"{searches[0].upper()}{searches[1:]} for variants of the model do not agree well enough, or gave "
        f"too few independent variants ({run.draws:,} in all), so figures may be off."
    )
