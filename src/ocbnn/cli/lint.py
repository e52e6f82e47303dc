"""`ocbnn lint`: what is wrong with a file of rules before anything is fitted."""

from __future__ import annotations

import typer

from ocbnn.cli.command import (
    FOUND,
    AsJson,
    Columns,
    Debug,
    Decimal,
    Ignore,
    Quiet,
    Rules,
    Table,
    Target,
    Task,
    explained,
)
from ocbnn.cli.voice import Voice, show_findings


def lint(
    table: Table,
    target: Target,
    rules: Rules,
    task: Task = None,
    columns: Columns = None,
    ignore: Ignore = None,
    decimal: Decimal = ".",
    json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say what is wrong with a file of rules before anything is fitted.

    Exit code 1: a rule cannot be obeyed as written, or two contradict each other. Warnings give 0.

    Example:  ocbnn lint patients.csv --target action --rules rules.yaml
    """
    with explained(debug):
        from ocbnn.cli.plain import print_json
        from ocbnn.cli.tables import read_inputs
        from ocbnn.linting import lint as find

        voice = Voice(quiet=quiet, aside=json)
        read = read_inputs(
            table, target, rules, voice, task=task, columns=columns, ignore=ignore, decimal=decimal
        )
        findings = find(read.rules, read.schema, read.frame)
        if json:
            print_json({"rules": len(read.rules), "rows": len(read.frame), "findings": findings})
        elif quiet:
            voice.warn_of_errors(findings)
        else:
            show_findings(voice, findings)
        if any(finding.severity == "error" for finding in findings):
            raise typer.Exit(FOUND)
