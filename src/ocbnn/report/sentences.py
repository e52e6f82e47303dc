"""Sentences and numbers for people who never heard of posteriors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from ocbnn.checking.explain import lacking_words
from ocbnn.checking.figures import Figure
from ocbnn.checking.results import IN_WORDS, LEVELS, Attempt, Level, RuleCheck, rule_figures
from ocbnn.plots.slices import value_text
from ocbnn.posterior.calibration import Bin
from ocbnn.posterior.conflict import LogScore
from ocbnn.posterior.price import Price
from ocbnn.posterior.sensitivity import DISAGREE, SENSITIVE, Sensitivity
from ocbnn.report.evidence import Change, Evidence, RuleFacts, RunFacts
from ocbnn.schema import Column

Tone = Literal["met", "unclear", "unmet", "plain"]
TONES: dict[str, Tone] = {"met": "met", "unmet": "unmet", "not shown at this tolerance": "unclear"}
PROBABILITY = 0.5
"""What probabilities are written beside: three decimals."""
BADGES = {"met": "met", "unmet": "UNMET", "not shown at this tolerance": "not shown"}


class Verdict(NamedTuple):
    """The report in a sentence, and a few that say what it rests on."""

    tone: Tone
    headline: str
    further: tuple[str, ...]


# Numbers ----------------------------------------------------------------------------------------------------


def percent(share: float | None) -> str:
    """A share as people read it: two digits that matter, and never 0% or 100% for what is not."""
    if share is None or math.isnan(share):
        return "unknown"
    value = 100.0 * share
    if 0.0 < value < 0.01:
        return "less than 0.01%"
    if 99.9 < value < 100.0:
        return "more than 99.9%"
    if value < 1.0:
        return f"{value:.2g}%"
    text = f"{value:.0f}" if 10.0 <= value <= 90.0 else f"{value:.1f}".removesuffix(".0")
    return f"{text}%"


def percent_range(figure: Figure | Bin) -> str:
    """The ends of an interval of a share."""
    if not (math.isfinite(figure.low) and math.isfinite(figure.high)):
        return "unknown"
    return f"{percent(figure.low)} to {percent(figure.high)}"


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


def capital(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str]) -> str:
    """Names in quotes, as a sentence lists them."""
    quoted = [f"“{name}”" for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]


# The verdict ------------------------------------------------------------------------------------------------


def verdict(evidence: Evidence) -> Verdict:
    """The one sentence, and what it rests on."""
    rules = evidence.rules
    if not rules:
        words = "This model was fitted without rules, so there is nothing for it to keep."
        return Verdict("plain", words, tuple(_run_sentences(evidence.run)))
    verdicts = {rule.check.verdict for rule in rules}
    tone: Tone = "unmet" if "unmet" in verdicts else "unclear"
    if verdicts == {"met"} and evidence.run.converged is not False:
        tone = "met"
    words = headline([rule.check for rule in rules])
    further = (*_rule_sentences(evidence), *_comparison_sentences(evidence), *_run_sentences(evidence.run))
    return Verdict(tone, words, further)


def headline(checks: Sequence[RuleCheck], level: Level | None = None) -> str:
    """What is reached of rules, and no more: at the level that each asks for, or at the one given.

    Whatever holds on average only is followed by the worst case found.
    """
    asked = [level or check.asked for check in checks]
    judged = [check.at(each) for check, each in zip(checks, asked, strict=True)]
    names: dict[Attempt, list[str]] = {}
    for check, each in zip(checks, judged, strict=True):
        names.setdefault(each, []).append(check.name)
    met = names.get("met", [])
    averaged = [
        check
        for check, each, verdict in zip(checks, asked, judged, strict=True)
        if each == "on average" and verdict == "met"
    ]
    levels = [each for each in LEVELS if each in asked]
    if averaged and all(check.at("worst case found") == "met" for check in averaged):
        levels = [each for each in LEVELS if each in asked or each == "worst case found"]
        averaged = []
    if len(set(asked)) > 1:
        where = f", each as it asks: {' or '.join(IN_WORDS[each] for each in levels)}"
    else:
        where = " " + " and ".join(IN_WORDS[each] for each in levels)
    count_of = len(checks)
    if len(met) == count_of:
        words = f"The one rule holds{where}." if count_of == 1 else f"All {count_of} rules hold{where}."
    elif count_of == 1:
        name = listed([checks[0].name])
        unmet = judged[0] == "unmet"
        words = (
            f"The one rule, {name}, does not hold{where}."
            if unmet
            else f"It is not shown that the one rule, {name}, holds{where}."
        )
    else:
        unclear = [
            check.name for check, each in zip(checks, judged, strict=True) if each not in ("met", "unmet")
        ]
        broken = names.get("unmet", [])
        words = f"{len(met)} of {count_of} rules {'holds' if len(met) == 1 else 'hold'}{where}."
        words += f" {listed(broken)} {'does' if len(broken) == 1 else 'do'} not." if broken else ""
        words += f" For {listed(unclear)} it is not shown." if unclear else ""
    return f"{words}{_worst_sentence(averaged)}"


def _worst_sentence(checks: Sequence[RuleCheck]) -> str:
    """The worst case found among rules that hold on average."""
    attempted = [check for check in checks if check.at("worst case found") != "not attempted"]
    if not attempted:
        return " The worst case was not searched for." if checks else ""
    most = max(attempted, key=lambda check: check.worst.value)
    name, share = listed([most.name]), percent(most.worst.value)
    how = (
        f"{name} is violated by {share} of draws"
        if most.epsilon_mean
        else f"for {name} the difference is {share}"
    )
    words = f" Worst case found: {how}"
    can_be_enforced = most.epsilon_mean is not None and not most.worst_others and most.worst.value > 0
    return f"{words}; enforcement makes that impossible." if can_be_enforced else f"{words}."


UNMET: dict[Level, str] = {
    "on average": "violated in {} of checks",
    "worst case found": "violated in {} of draws at the worst case found",
    "proved": "not proved of {} of draws, and more are refuted than it accepts",
}


def _rule_sentences(evidence: Evidence) -> list[str]:
    said = [
        f"“{rule.name}” is {UNMET[rule.check.asked].format(percent(rule.check.violation.value))}; its "
        f"tolerance is {percent(rule.check.tolerance)}."
        for rule in evidence.rules
        if rule.check.verdict == "unmet" and not rule.is_predictive
    ]
    proved = [rule.name for rule in evidence.rules if rule.check.at("proved") == "met"]
    if proved:
        said.append(f"Proved everywhere, within the tolerance: {listed(proved)}.")
    if evidence.enforcement == "truncate":
        said.append(
            "Predictions are also restricted to what the rules allow (truncation), so that no prediction "
            "violates them. The figures here describe the model before that."
        )
    if evidence.enforcement == "proved":
        said.append(
            "Only draws that are proved to satisfy the rules at every input of their regions have been kept."
        )
    if evidence.enforcement == "draws":
        said.append("Draws that were found to violate a rule have been rejected.")
    return said


def _comparison_sentences(evidence: Evidence) -> list[str]:
    said = []
    before = [(rule, rule.without) for rule in evidence.rules if rule.without and not rule.is_predictive]
    if before:
        most, without = max(before, key=lambda pair: pair[1].violation.value)
        if without.violation.value > without.tolerance:
            said.append(
                "The rules matter: a model of the same data without them would violate "
                f"“{most.name}” in {percent(without.violation.value)} of checks."
            )
        else:
            said.append("A model of the same data without the rules would hardly violate any of them.")
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
        return f"Of {rows} held out from the fit, {here} are right with the rules and {there} without them."
    here, there = (
        number(each["mean_absolute_error"], evidence.target.unit)
        for each in (found.with_rules, found.without)
    )
    return f"On {rows} held out, the mean error is {here} with the rules and {there} without them."


def _run_sentences(run: RunFacts) -> list[str]:
    if run.converged is None:
        return []
    if run.converged:
        return ["The computation behind these figures settled."]
    return ["The computation did not settle, so take every figure here with caution (see “Diagnostics”)."]


# Rules ------------------------------------------------------------------------------------------------------


class Glance(NamedTuple):
    """A rule in one line: shares of checks without and with the rules, and the worst case found."""

    rule: RuleFacts
    without: str
    average: str
    tolerance: str
    worst: str
    where: str
    proved: str


def glances(evidence: Evidence) -> list[Glance]:
    """One line for each rule."""
    rows = []
    for rule in evidence.rules:
        check = rule.check
        attempted = check.at("worst case found") != "not attempted"
        case = [f"{name} {value}" for name, value, ruled in worst_case(rule, evidence) if ruled]
        proved = "" if check.draws_unproved is None else percent(1.0 - check.draws_unproved.value)
        rows.append(
            Glance(
                rule,
                "" if rule.without is None else percent(rule.without.average.value),
                percent(check.average.value),
                percent(check.tolerance),
                percent(check.worst.value) if attempted else "not searched for",
                ", ".join(case),
                "all, by its form" if check.by_construction else proved,
            )
        )
    return rows


def rule_sentence(rule: RuleFacts, draws: int) -> str:
    """How far a rule is kept by so many draws, and what the verdict means."""
    check = rule.check
    if check.by_construction:
        return (
            f"Holds by construction: in all {draws:,} draws the weights on every path from its columns have "
            "the sign that it asks for, so that no case can violate it."
        )
    over = " over draws and rows" if check.counts_rows else ""
    ends = f"95% interval{over}: {percent_range(check.violation)}; tolerance: {percent(check.tolerance)}"
    share = percent(check.violation.value)
    if rule.is_predictive:
        first = f"At {check.points:,} cases, predictions differ from what it asks for by {share} on average"
    elif check.asked == "on average":
        first = f"Violated in {share} of checks ({check.points:,} cases × {draws:,} draws)"
    elif check.asked == "proved" and check.draws_unproved is not None:
        first = f"Not proved of {share} of draws; every other one satisfies it at every input"
    else:
        first = f"Violated by {share} of draws in the worst case found"
    level = IN_WORDS[check.asked]
    verdicts = {
        "met": f"Met {level}: the whole interval lies within the tolerance.",
        "unmet": f"Unmet {level}: the whole interval lies beyond the tolerance.",
    }
    unclear = (
        "Not shown: the tolerance lies inside the interval, so these figures neither confirm nor refute the "
        f"rule. More draws{' or rows' if check.counts_rows else ''} would narrow the interval."
    )
    if check.asked == "proved":
        verdicts["unmet"] = "Unmet: more draws are refuted than it accepts."
        unclear = (
            "Not shown: undecided draws may satisfy it. A larger budget, narrower bounds of the columns "
            "or a smaller network would decide more of them."
        )
    return f"{first}; {ends}. {verdicts.get(check.verdict, unclear)}{_other_levels(check)}"


def proof_sentence(rule: RuleFacts) -> str | None:
    """How many draws are proved to keep a rule, and over which inputs; None where no proof was asked for."""
    found = rule.proof
    if found is None:
        return None
    if found.reason:
        return f"Not proved: {found.reason}."
    draws = found.proved + found.refuted + found.undecided
    said = f"Proved for {found.proved:,} of {draws:,} draws: they satisfy the rule at every input"
    said += f", over {found.over}." if found.over else "."
    left = [f"{found.refuted:,} are refuted by a case"] if found.refuted else []
    left += [f"{found.undecided:,} are undecided"] if found.undecided else []
    return f"{said} {capital(', '.join(left))}." if left else said


def _other_levels(check: RuleCheck) -> str:
    """The verdicts at the levels that the rule does not ask for."""
    others = [level for level in LEVELS if level != check.asked and level in check.levels]
    return f" {'. '.join(f'{capital(level)}: {check.at(level)}' for level in others)}." if others else ""


def figures_of(rule: RuleFacts) -> tuple[tuple[str, Figure], ...]:
    """Every figure of a rule: what it is in words, and its value."""
    check = rule.check
    if rule.is_predictive:
        return (
            ("Difference from what is asked, on average over cases", check.violation),
            ("Difference in the worst case found", check.worst),
        )
    return tuple((capital(words), figure) for words, figure in rule_figures(check))


def worst_case(rule: RuleFacts, evidence: Evidence) -> list[tuple[str, str, bool]]:
    """The worst case found: name and value of each column, those that the rule names first.

    Empty where no draw violates the rule at any case that was tried.
    """
    point = rule.check.worst_point
    if not point or not rule.check.worst.value > 0.0:
        return []
    columns = sorted(evidence.schema.columns, key=lambda column: column.name not in rule.columns)

    def shown(column: Column) -> str:
        others = [each[column.name] for each in rule.check.worst_others if column.name in each]
        values = (value_text(value, column.unit) for value in (point[column.name], *others))
        return " against ".join(dict.fromkeys(values))

    return [(column.name, shown(column), column.name in rule.columns) for column in columns]


def change_sentence(change: Change, unit: str | None, probability: bool) -> str:
    """What the rules change where one of them applies; `unit` is that of y."""
    unit = None if probability else unit
    largest = PROBABILITY if probability else max(abs(change.without), abs(change.with_rules))
    before, after = (number(value, None, largest) for value in (change.without, change.with_rules))
    text = f"Where it applies, the rules move the mean {change.quantity} from {before} to {after}"
    text += f" {unit}." if unit else "."
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
    other = "get another prediction"
    inside = (
        "No held-out row lies there"
        if not change.rows_inside
        else f"Of {count(change.rows_inside, 'held-out row')} there, {change.changed_inside:,} {other}"
    )
    if not change.rows_outside:
        return f"{inside}."
    return f"{inside}; of {change.rows_outside:,} elsewhere, {change.changed_outside:,}."


def conflict_sentence(rule: RuleFacts) -> tuple[Tone, str] | None:
    """How far the data contradict a rule; None where nothing is known."""
    parts: list[str] = []
    tone: Tone = "plain"
    tolerance, recorded = rule.check.tolerance, rule.recorded
    if recorded is not None and recorded.inside == 0:
        parts.append("No held-out row lies where it applies, so these rows say nothing about it.")
    elif recorded is not None and recorded.against is not None:
        share = recorded.against / recorded.inside
        rows = f"In {recorded.against:,} of {recorded.inside:,} held-out rows where it applies"
        parts.append(f"{rows} ({percent(share)}), the recorded outcome violates the rule.")
        tone = "unclear" if share > max(tolerance, 0.02) else "met"
    if recorded is not None and recorded.unknown:
        parts.append(f"Of the held-out rows, {lacking_words(recorded.unknown)}.")
    if rule.without is not None and not rule.is_predictive:
        share = rule.without.violation.value
        within = "" if share > tolerance else ", which is within the tolerance"
        parts.append(f"A model of the data alone would violate it in {percent(share)} of checks{within}.")
    if rule.sensitivity is not None:
        parts.append(sensitivity_sentence(rule.sensitivity))
        if rule.sensitivity.verdict == DISAGREE:
            tone = "unclear"
    if rule.price is not None:
        parts.append(price_sentence(rule.price))
    if rule.unmet_reason:
        parts.append(f"The fit says why it could not keep it: {rule.unmet_reason}.".replace("..", "."))
        tone = "unmet"
    return (tone, " ".join(parts)) if parts else None


def sensitivity_sentence(found: Sensitivity) -> str:
    """Whether the answer where a rule applies depends on the rule, or on the data."""
    rule, data = (number(value, None, 0.1) for value in (found.rule, found.data))
    to_data = "" if found.data is None else f" and {data} to the data"
    return (
        f"{capital(found.verdict)}. At the case that depends most on the rule, the sensitivity of "
        f"predictions is {rule} to the rule{to_data}; below {SENSITIVE:g} is little."
    )


def price_sentence(price: Price) -> str:
    """What one rule costs in the log score of held-out rows, the other rules kept."""
    if price.everywhere is None:
        return f"What it costs cannot be said without fitting again: {price.reason}."
    near = "" if price.near is None else f"; in or near its region {_score_words(price.near)}"
    change = _score_words(price.everywhere)
    return f"Through this rule alone the log score of held-out rows changes by {change}{near}."


def _score_words(score: LogScore) -> str:
    """`−0.002 ± 0.004 per row (499 rows)`, with two standard errors."""
    error = 2.0 * score.error if math.isfinite(score.error) else 0.0
    beside = max(abs(score.difference), error)
    change, spread = (number(value, None, beside) for value in (abs(score.difference), error))
    sign = "+" if score.difference >= 0 else "−"
    return f"{sign}{change} ± {spread} per row ({count(score.rows, 'row')})"


def score_sentence(evidence: Evidence) -> str | None:
    """What the rules together cost in the log score of held-out rows."""
    score = None if evidence.performance is None else evidence.performance.log_score
    if score is None:
        return None
    error = 2.0 * score.error if math.isfinite(score.error) else 0.0
    how = (
        "no difference that these rows can show"
        if abs(score.difference) <= error
        else "the rules help"
        if score.difference > 0
        else "the rules cost something"
    )
    return (
        "The log score, which rewards probability given to what then happened, changes by "
        f"{_score_words(score)} through the rules: {how}."
    )


def performance_rows(evidence: Evidence) -> list[tuple[str, str, Callable[[float], str]]]:
    """Measures of predictions: in words, by their technical name, and how they are written."""

    def amount(value: float) -> str:
        return number(value, evidence.target.unit)

    rows: list[tuple[str, str, Callable[[float], str]]] = [
        ("Predicted classes that are right", "accuracy", percent),
        ("Brier score: squared error of probabilities, 0 is best", "brier", number),
        ("Mean error", "mean_absolute_error", amount),
        ("Root of the mean squared error", "root_mean_squared_error", amount),
        ("Mean width of 90% prediction intervals", "mean_width_90", amount),
        ("Log score, higher is better", "log_score", number),
    ]
    found = evidence.performance
    return [row for row in rows if found is not None and row[1] in found.with_rules]


# Calibration and diagnostics --------------------------------------------------------------------------------


def noise_sentence(evidence: Evidence) -> str | None:
    """How far observations scatter around the function; None for classes."""
    noise, target = evidence.noise, evidence.target
    if noise is None:
        return None
    unit = None if target.is_log else target.unit
    what = f"log({target.name})" if target.is_log else target.name

    def words(figures: tuple[float, float, float]) -> str:
        middle, low, high = figures
        ends = (
            ""
            if low == high
            else f" (90% interval: {number(low, None, middle)} to {number(high, None, middle)})"
        )
        return f"{number(middle, unit)}{ends}"

    said = f"Around the function, {what} has a standard deviation of {words(noise.quietest)}"
    if not noise.varies:
        return f"{said}, the same for all cases."
    return f"{said} at the quietest case and of {words(noise.loudest)} at the loudest."


def coverage_sentence(bin_: Bin, where: str, task: str) -> str:
    """How often intervals, or sets of classes, contain the truth."""
    what, truth = ("intervals", "value") if task == "regression" else ("sets", "class")
    return (
        f"{where}, {percent(bin_.predicted)} prediction {what} contained the true {truth} in "
        f"{percent(bin_.observed)} of {bin_.rows:,} rows (95% interval: {percent_range(bin_)})."
    )


def run_sentence(run: RunFacts) -> str:
    """How the computation went, in a sentence."""
    if run.converged is None:
        return "Nothing is recorded about how the computation went."
    if not run.has_chains:
        good = "settled" if run.converged else "had not settled when it stopped"
        return (
            f"The computation ({run.engine}) {good}. This kind of computation approximates, and cannot "
            f"show by itself how well. It gave {count(run.draws, 'draw')} of the model."
        )
    chains = f"{count(run.chains, 'independent chain')} of draws"
    if not run.converged:
        return (
            f"{chains} do not agree well enough, or gave too few independent draws ({run.draws:,} in all), "
            "so figures may be off."
        )
    worth = ""
    if run.worst_effective is not None:
        worth = f", worth at least {run.worst_effective:,.0f} independent ones everywhere"
    return f"{chains} agree with one another: {run.draws:,} draws were kept{worth}."


def scale_words(figures: tuple[float, float, float]) -> str:
    """A middle with its interval."""
    middle, low, high = (f"{value:.2f}" for value in figures)
    return f"{middle} ({low} to {high})"


def provenance_rows(evidence: Evidence) -> list[tuple[str, str]]:
    """What the report rests on, as names and values to be read."""
    known, target = evidence.provenance, evidence.target
    classes = ", ".join(map(str, target.classes))
    predicted = f"one of {classes}" if classes else "a number" + (f" in {target.unit}" if target.unit else "")
    predicted += ", modelled on a log scale" if target.is_log else ""
    rows: list[tuple[str, Any]] = [
        *((f"File: {what}", name) for what, name in evidence.sources.items()),
        ("Predicted", f"{target.name}, {predicted}"),
        ("Rows learnt from", f"{known['data_rows']:,}" if known.get("data_rows") is not None else None),
        ("Rows held out", f"{evidence.held_out_rows:,}" if evidence.held_out_rows else "none"),
        (
            "Held-out rows with a label that the fit has not seen",
            ", ".join(f"{name}: {number:,}" for name, number in evidence.unseen.items()),
        ),
        ("SHA-256 of the rows learnt from", known.get("data_sha256")),
        ("Network", known.get("network")),
        ("Likelihood", known.get("likelihood")),
        ("Engine", evidence.run.engine),
        ("Engine's settings", _settings(known.get("settings"))),
        ("Seed of the engine, made from that of the fit", known.get("seed")),
        ("Draws of the model kept", f"{evidence.run.draws:,}"),
        ("Time of the computation", _duration(evidence.run.seconds)),
        ("Chosen from the data", "\n".join(known.get("data_choices") or ())),
        ("Prior", known.get("empirical_prior")),
        ("Versions", _settings(known.get("versions"))),
        ("SHA-256 of the draws", evidence.fingerprint),
        ("Figures gathered", evidence.made.replace("T", " ").replace("+00:00", " UTC")),
    ]
    return [(name, str(value)) for name, value in rows if value not in (None, "")]


def _settings(values: Any) -> str | None:
    return ", ".join(f"{name} {each}" for name, each in values.items()) if isinstance(values, dict) else None


def _duration(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
