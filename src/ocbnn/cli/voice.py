"""What the command says to people: words on stdout, warnings on stderr, verdicts in words."""

from __future__ import annotations

import shlex
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ocbnn.errors import OCBNNWarning

if TYPE_CHECKING:
    from rich.console import Console

    from ocbnn.checking.figures import Figure
    from ocbnn.checking.results import RuleCheck
    from ocbnn.inference.result import RuleOutcome
    from ocbnn.linting import Finding
    from ocbnn.proof.results import RuleProof
    from ocbnn.rules.constraint import Constraint
    from ocbnn.schema import Schema

PROGRAM = "ocbnn"
NOT_REPEATED = ("seed", "resume", "json", "quiet", "debug", "strict")
"""Options that do not change the model, and the seed, which is always told."""
STYLES = {"error": "red", "warning": "yellow", "info": "dim"}
VERDICT_STYLES = {"met": "green", "unmet": "red", "not shown at this tolerance": "yellow"}


@dataclass(frozen=True)
class Voice:
    """Who is spoken to.

    Attributes:
        quiet: say only what went wrong.
        aside: stdout belongs to data or JSON, so words go to stderr.
    """

    quiet: bool = False
    aside: bool = False

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        return Console(highlight=False, stderr=self.aside)

    def say(self, text: str = "", style: str | None = None) -> None:
        """Words; brackets in them are brackets, not Rich's markup."""
        if not self.quiet:
            self.console.print(text, style=style, markup=False, emoji=False, soft_wrap=True)

    def show_table(self, headings: Iterable[str], rows: Iterable[Sequence[str]]) -> None:
        """Rows below their headings, as Rich draws them; markup in a cell is markup."""
        from rich.table import Table

        shown = Table(box=None, pad_edge=False)
        for heading in headings:
            shown.add_column(heading, header_style="dim")
        for row in rows:
            shown.add_row(*row)
        if not self.quiet:
            self.console.print(shown)

    def warn(self, text: str) -> None:
        """What a user should know even if nothing else is to be said."""
        typer.echo(f"ocbnn: {text}", err=True)

    def warn_of_errors(self, findings: Iterable[Finding]) -> bool:
        """Say which rules cannot be obeyed as written; whether there are any."""
        errors = [finding for finding in findings if finding.severity == "error"]
        for finding in errors:
            self.warn(f"{finding.kind}: {' · '.join(finding.rules)}: {finding.text}")
        return bool(errors)

    @contextmanager
    def hearing_warnings(self, *, but: str | tuple[str, ...] | None = None) -> Iterator[None]:
        """Say the library's own warnings as sentences; those of other libraries are not for users.

        `but` is how warnings begin that the command puts in its own words.
        """
        told: set[str] = set()

        def tell(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            text = str(message)
            if issubclass(category, OCBNNWarning) and text not in told and not (but and text.startswith(but)):
                told.add(text)
                self.warn(text)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", OCBNNWarning)
            warnings.showwarning = tell
            yield


def suggested(*words: object) -> str:
    """A command to be typed here: by the name of the program where a shell finds it, else by its path."""
    called, found = Path(sys.argv[0]), shutil.which(PROGRAM)
    known = found is not None and Path(found).resolve() == called.resolve()
    program = str(called) if called.stem == PROGRAM and not known else PROGRAM
    return shlex.join([program, *(str(word) for word in words)])


def repeated(context: typer.Context, seed: int) -> str:
    """The command that runs, to be typed again: what was given, with files by their names, and the seed."""
    from ocbnn.cli.tables import shown_name

    words = [PROGRAM, str(context.info_name)]
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        source = context.get_parameter_source(name)
        if name in NOT_REPEATED or source is None or source.name != "COMMANDLINE":
            continue
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, bool):
                words += parameter.opts[:1] if each else parameter.secondary_opts[:1]
                continue
            words += parameter.opts[:1] if parameter.param_type_name == "option" else []
            # Some versions of Typer keep paths as text here.
            path = isinstance(each, Path) or getattr(getattr(parameter, "type", None), "name", "") == "path"
            words.append(shown_name(Path(each)) if path else str(each))
    return shlex.join([*words, "--seed", str(seed)])


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
    from ocbnn.checking.results import IN_WORDS
    from ocbnn.report.sentences import percent

    for outcome in outcomes:
        level = IN_WORDS[outcome.check.asked]
        figures = f"violated by {percent(outcome.violation)} {level}, accepted {percent(outcome.tolerance)}"
        if outcome.check.asked == "proved":
            figures = (
                f"not proved of {percent(outcome.violation)} of draws, accepted {percent(outcome.tolerance)}"
            )
        if outcome.check.asked == "on average" and outcome.check.at("worst case found") != "not attempted":
            figures += f"; {percent(outcome.check.worst.value)} in the worst case found"
        if outcome.by_construction:
            voice.say(f"  met    {outcome.name}: holds by construction", "green")
        elif outcome.met:
            voice.say(f"  met    {outcome.name}: {figures}", "green")
        elif outcome.not_shown:
            voice.warn(f"not shown: {outcome.name}: {outcome.reason}.")
        else:
            voice.warn(f"UNMET {outcome.name}: {figures}. {outcome.explained}")


def show_check(voice: Voice, found: RuleCheck, schema: Schema) -> None:
    """One rule's verdict, its figures with their intervals, and the worst point."""
    from ocbnn.checking.results import COUNTS_ROWS, IN_WORDS, LEVELS, rule_figures
    from ocbnn.report.sentences import percent

    voice.say(f"{found.verdict} {IN_WORDS[found.asked]}: {found.name}", VERDICT_STYLES[found.verdict])
    voice.say(f"  {'; '.join(f'{level}: {found.at(level)}' for level in LEVELS)}", "dim")
    voice.say(f"  {found.text}")
    if found.by_construction:
        voice.say("  holds by construction: the weights of every draw have the signs that it asks for")
    how = f"{found.points:,} fresh points"
    how += f" and {found.points_found} found by ascent" if found.points_found else ""
    voice.say(f"  accepted {percent(found.tolerance)}; tried at {how}", "dim")
    for words, figure in rule_figures(found):
        voice.say(f"  {words}: {_with_ends(figure)}")
    if found.counts_rows:
        voice.say(f"  {COUNTS_ROWS}", "dim")
    for name, divergence in found.divergences.items():
        mean = divergence.mean
        voice.say(f"  {name.replace('_', ' ')}: {mean.value:.3g} ({mean.low:.3g} to {mean.high:.3g})")
    if found.worst_point:
        cases = (in_words(each, schema) for each in (found.worst_point, *found.worst_others))
        voice.say(f"  worst at {', against '.join(cases)}", "dim")
    for group in found.groups:
        figures = {"violated": group.epsilon_mean, **group.divergences}
        shown = [f"{name.replace('_', ' ')} {_with_ends(each)}" for name, each in figures.items() if each]
        voice.say(f"    {group.group}: {', '.join(shown)}")


def show_proof(voice: Voice, proof: RuleProof, schema: Schema) -> None:
    """How many draws keep one rule everywhere, over what that is said, and a point that violates it."""
    from ocbnn.proof.results import REJECTED

    if proof.reason:
        voice.say(f"not proved: {proof.name}: {proof.reason}.", "yellow")
        return
    counts, kept = proof.counts, int((proof.status != REJECTED).sum())
    style = "green" if counts["proved"] == kept else "yellow" if not counts["refuted"] else None
    voice.say(f"{proof.name}: {counts['proved']:,} of {kept:,} draws are proved to keep it everywhere", style)
    voice.say(f"  {proof.text}")
    voice.say(f"  over {proof.over}", "dim")
    voice.say(f"  refuted: {counts['refuted']:,}; undecided: {counts['undecided']:,}")
    voice.say(f"  not proved: {_with_ends(proof.unproved)} of the posterior")
    voice.say(f"  {proof.boxes:,} boxes in {proof.seconds:.1f} s", "dim")
    for point in list(proof.points.values())[:1]:
        voice.say(f"  a draw violates it at {in_words(point, schema)}", "dim")


def _with_ends(figure: Figure) -> str:
    from ocbnn.report.sentences import percent, percent_range

    return f"{percent(figure.value)} ({percent_range(figure)})"


def in_words(point: Mapping[str, Any], schema: Schema) -> str:
    """`creatinine 2.4 mg/dL, urine 11 mL/h, ward ICU`."""

    def described(name: str) -> str:
        value, unit = point[name], schema.column(name).unit
        number = f"{value:.3g}" if isinstance(value, float) else str(value)
        return f"{name} {number}" + (f" {unit}" if unit else "")

    return ", ".join(described(name) for name in schema.names if name in point)


def print_json(value: Any) -> None:
    """One JSON document on stdout, for programs."""
    from ocbnn.storage.values import plain_text

    typer.echo(plain_text(value, indent=2), nl=False)
