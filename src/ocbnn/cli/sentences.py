"""Rules, findings and verdicts in words, as several commands say them."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocbnn.cli.voice import STYLES, Voice

if TYPE_CHECKING:
    from ocbnn.checking.figures import Figure
    from ocbnn.checking.results import RuleCheck
    from ocbnn.inference.result import RuleOutcome
    from ocbnn.linting import Finding
    from ocbnn.rules.constraint import Constraint
    from ocbnn.schema import Schema

PROGRAM = "ocbnn"


def command(*words: object) -> str:
    """A command to be typed here: by the name of the program where a shell finds it, else by its path."""
    called, found = Path(sys.argv[0]), shutil.which(PROGRAM)
    known = found is not None and Path(found).resolve() == called.resolve()
    program = str(called) if called.stem == PROGRAM and not known else PROGRAM
    return shlex.join([program, *(str(word) for word in words)])


VERDICT_STYLES = {"met": "green", "unmet": "red", "not shown at this tolerance": "yellow"}


def show_rules(voice: Voice, rules: Sequence[Constraint], schema: Schema) -> None:
    """Each rule in canonical words, with its name and its source."""
    voice.say(f"The rules, as understood ({len(rules)})", "bold")
    for rule in rules:
        if rule.name:
            voice.say(f"  {rule.name}", "cyan")
        voice.say(f"    {rule.text(schema)}")
        if rule.source:
            voice.say(f"    {rule.source}", "dim")


def show_findings(voice: Voice, findings: Sequence[Finding]) -> None:
    """What lint found, gravest first."""
    if not findings:
        voice.say("Nothing is wrong with the rules.", "green")
        return
    counted = Counter(finding.severity for finding in findings)
    tally = ", ".join(f"{count} × {severity}" for severity, count in counted.items())
    voice.say(f"Findings: {tally}", "bold")
    for finding in findings:
        voice.say(
            f"  {finding.severity}, {finding.kind}: {' · '.join(finding.rules)}", STYLES[finding.severity]
        )
        voice.say(f"    {finding.text}")


def show_outcomes(voice: Voice, outcomes: Iterable[RuleOutcome]) -> None:
    """How each rule fared in the fit, a line each; a rule that is not kept is UNMET, with the reason."""
    from ocbnn.report.sentences import percent

    for outcome in outcomes:
        figures = f"broken by {percent(outcome.violation)}, accepted {percent(outcome.tolerance)}"
        if outcome.met:
            voice.say(f"  met    {outcome.name}: {figures}", "green")
        elif outcome.not_shown:
            voice.warn(f"not shown: {outcome.name}: {outcome.reason}.")
        else:
            voice.warn(f"UNMET {outcome.name}: {figures}. {outcome.reason}")


def show_check(voice: Voice, found: RuleCheck, schema: Schema) -> None:
    """One rule's verdict, its figures with their intervals, and the worst place."""
    from ocbnn.report.sentences import percent

    voice.say(f"{found.verdict}: {found.name}", VERDICT_STYLES[found.verdict])
    voice.say(f"  {found.text}")
    how = f"{found.points:,} fresh points"
    how += f" and {found.points_found} found by ascent" if found.points_found else ""
    voice.say(f"  accepted {percent(found.tolerance)}; tried at {how}", "dim")
    for label, words in FIGURES.items():
        figure = getattr(found, label)
        if figure is not None:
            voice.say(f"  {words}: {_with_ends(figure)}")
    for name, divergence in found.divergences.items():
        mean = divergence.mean
        voice.say(f"  {name.replace('_', ' ')}: {mean.value:.3g} ({mean.low:.3g} to {mean.high:.3g})")
    if found.worst_point:
        voice.say(f"  worst at {in_words(found.worst_point, schema)}", "dim")
    for group in found.groups:
        figures = {"broken": group.epsilon_mean, **group.divergences}
        shown = [f"{name.replace('_', ' ')} {_with_ends(each)}" for name, each in figures.items() if each]
        voice.say(f"    {group.group}: {', '.join(shown)}")


def _with_ends(figure: Figure) -> str:
    from ocbnn.report.sentences import percent

    return f"{percent(figure.value)} ({percent(figure.low)} to {percent(figure.high)})"


FIGURES: Mapping[str, str] = {
    "epsilon_mean": "broken, over draws and points",
    "epsilon_worst": "broken at the worst place",
    "draws_violating": "draws that break it anywhere",
    "points_violating": "points whose prediction breaks it",
    "mass_outside": "probability outside of what is allowed",
}


def in_words(point: Mapping[str, Any], schema: Schema) -> str:
    """`creatinine 2.4 mg/dL, urine 11 mL/h, ward ICU`."""

    def described(name: str) -> str:
        value, unit = point[name], schema.column(name).unit
        number = f"{value:.3g}" if isinstance(value, float) else str(value)
        return f"{name} {number}" + (f" {unit}" if unit else "")

    return ", ".join(described(name) for name in schema.names if name in point)
