"""`ocbnn demo`: the whole way, from a table and rules to a report, on an invented clinic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ocbnn.cli.command import Debug, Quiet, Seed, session

if TYPE_CHECKING:
    from ocbnn.cli.voice import Voice
    from ocbnn.report.evidence import Evidence
    from ocbnn.schema import Schema

TABLE, COLUMNS, RULES, MODEL, REPORT = "clinic.csv", "columns.yaml", "rules.yaml", "model", "report.html"
OPTIONS: dict[str, Any] = {}
"""Of the demo's estimator: its defaults."""
POINTS = 1000


def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where table, rules, model and report go.")
    ] = Path("ocbnn-demo"),
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show the whole way on the table of an invented clinic: lint, fit with and without rules, check, report.

    It takes a minute and a half on two cores.

    Example:  ocbnn demo --out demo/
    """
    with session(debug, quiet) as voice:
        from ocbnn.cli.fitting import LEFTOVERS, Plan, fit_model
        from ocbnn.cli.tables import read_inputs, require_folder, require_writable
        from ocbnn.cli.voice import repeated, show_findings, show_outcomes, show_rules
        from ocbnn.datasets import clinic
        from ocbnn.linting import lint
        from ocbnn.report import write
        from ocbnn.report.sections import places
        from ocbnn.storage.files import discard

        require_writable(out / TABLE)
        places(out / REPORT)
        require_folder(out / MODEL, "model")
        write_example(out)
        # It is short: what was left of an interrupted one is of no use.
        discard(out / (MODEL + LEFTOVERS))
        read = read_inputs(out / TABLE, clinic.TARGET, out / RULES, voice, columns=out / COLUMNS)
        show_table(voice, read.schema, len(read.frame))
        show_rules(voice, read.rules, read.schema)
        voice.say("\n1. Is anything wrong with the rules?", "bold")
        show_findings(voice, lint(read.rules, read.schema, read.frame))
        voice.say("\n2. Fit a Bayesian neural network, with the rules and without", "bold")
        plan = Plan(
            out=out / MODEL,
            options=OPTIONS,
            seed=seed,
            sources={"table": TABLE, "rules": RULES},
            points=POINTS,
            after_interruption="The demo begins anew with the same command.",
            command=repeated(context, seed),
        )
        fitted = fit_model(read, plan, voice)
        voice.say(f"With the rules: {fitted.estimator.posterior_.provenance['status']}")
        if fitted.without is not None:
            voice.say(f"Without: {fitted.without.provenance['status']}")
        show_outcomes(voice, fitted.estimator.outcomes_)
        voice.say("\n3. Does it obey, on patients that nobody has seen?", "bold")
        show_comparison(voice, fitted.evidence)
        page = write(fitted.evidence, fitted.estimator.posterior_, out / REPORT)
        show_end(voice, fitted.evidence, out, page)


def write_example(folder: Path) -> None:
    """The clinic's table, what it declares about its columns, and its rules, as files to play with."""
    import yaml

    from ocbnn.cli.tables import write_table
    from ocbnn.datasets import clinic
    from ocbnn.storage.files import write_text, write_whole

    declared = {
        name: {
            option: list(value) if isinstance(value, tuple) else value for option, value in options.items()
        }
        for name, options in clinic.COLUMNS.items()
    }
    text = yaml.safe_dump(declared, sort_keys=False, allow_unicode=True, default_flow_style=None)
    write_table(clinic.table(), folder / TABLE)
    write_text(folder / COLUMNS, text)
    with clinic.rules_path() as rules:
        write_whole(folder / RULES, lambda part: part.write_bytes(rules.read_bytes()))


def show_table(voice: Voice, schema: Schema, rows: int) -> None:
    """The columns, their kinds and what was observed."""
    voice.say(f"The table: {rows:,} patients of an invented clinic", "bold")
    described = []
    for column in schema.columns:
        low, high = column.observed
        observed = ", ".join(map(str, column.levels)) or f"{low:g} to {high:g}"
        described.append((column.name, column.kind, observed, column.unit or ""))
    voice.show_table(("column", "kind", "observed", "unit"), described)
    if schema.target is not None:
        classes = " or ".join(map(str, schema.target.classes))
        voice.say(f"To predict: {schema.target.name}, {classes or 'a number'}\n")


def show_comparison(voice: Voice, evidence: Evidence) -> None:
    """How often each rule is broken without the rules and with them, and the verdict."""
    from ocbnn.checking.results import IN_WORDS
    from ocbnn.cli.voice import VERDICT_STYLES
    from ocbnn.report.sentences import percent

    rows = []
    for rule in evidence.rules:
        check = rule.check
        without = "" if rule.without is None else percent(rule.without.average.value)
        accepted, broken = percent(check.tolerance), percent(check.average.value)
        style, worst = VERDICT_STYLES[check.verdict], percent(check.worst.value)
        shown = f"[{style}]{check.verdict} {IN_WORDS[check.asked]}[/{style}]"
        rows.append((rule.name, without, f"{broken} ({worst})", accepted, shown))
    heads = ("rule", "violated without", "with the rules", "accepted", "verdict")
    voice.show_table(heads, rows)
    voice.say("On average; in brackets the share of draws in the worst case found.", "dim")


def show_end(voice: Voice, evidence: Evidence, out: Path, page: Path) -> None:
    """What came out, in plain words, and what to try next."""
    from ocbnn.cli.voice import suggested
    from ocbnn.report.sentences import verdict

    found = verdict(evidence)
    voice.say("\nWhat came out", "bold")
    for sentence in (found.headline, *found.further):
        voice.say(f"  {sentence}")
    voice.say("\nWhat to try next", "bold")
    voice.say(f"  Open {page} in a browser: every rule, what it changed, and where the model is honest.")
    voice.say(f"  Change a threshold in {out / RULES}, then see whether it makes sense, and fit again:")
    inputs = (out / TABLE, "--target", "action", "--rules", out / RULES, "--columns", out / COLUMNS)
    voice.say(f"    {suggested('lint', *inputs)}")
    voice.say(f"    {suggested('fit', *inputs, '--out', out / 'mine')}")
    voice.say("  Ask the model about patients, and make sure that no prediction breaks a rule:")
    voice.say(f"    {suggested('predict', out / MODEL, out / TABLE)}")
    voice.say(f"    {suggested('enforce', out / MODEL, '--out', out / 'enforced')}")
