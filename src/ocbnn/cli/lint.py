"""`ocbnn lint`: what is wrong with a file of rules before anything is fitted."""

from __future__ import annotations

import typer

from ocbnn.cli import command
from ocbnn.cli.voice import Voice, show_findings


def lint(
    table: command.Table,
    target: command.Target,
    rules: command.Rules,
    task: command.Task = None,
    columns: command.Columns = None,
    ignore: command.Ignore = None,
    decimal: command.Decimal = ".",
    json: command.AsJson = False,
    quiet: command.Quiet = False,
    debug: command.Debug = False,
) -> None:
    """Say what is wrong with a file of rules before anything is fitted.

    Exit code 1: a rule cannot be obeyed as written, or two contradict each other. Warnings give 0.

    Example:  ocbnn lint patients.csv --target action --rules rules.yaml
    """
    with command.explained(debug):
        from ocbnn.cli.tables import read_inputs
        from ocbnn.cli.voice import print_json
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
            raise typer.Exit(command.FOUND)
