"""`ocbnn lint`: what is wrong with a file of rules before anything is fitted."""

from __future__ import annotations

import typer

from ocbnn.cli.failures import FOUND, explained
from ocbnn.cli.options import AsJson, Columns, Debug, Ignore, Quiet, Rules, Table, Target, Task


def lint(
    table: Table,
    target: Target,
    rules: Rules,
    task: Task = None,
    columns: Columns = None,
    ignore: Ignore = None,
    json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say what is wrong with a file of rules before anything is fitted.

    Exit code 1: a rule cannot be obeyed as written, or two contradict each other. Warnings are 0.

    Example:  ocbnn lint patients.csv --target action --rules rules.yaml
    """
    with explained(debug):
        from ocbnn.cli.inputs import read_inputs
        from ocbnn.cli.sentences import show_findings
        from ocbnn.cli.voice import Voice, print_json
        from ocbnn.linting import lint as find

        voice = Voice(quiet=quiet, aside=json)
        read = read_inputs(table, target, rules, voice, task=task, columns=columns, ignore=ignore)
        findings = find(read.rules, read.schema, read.frame)
        errors = [finding for finding in findings if finding.severity == "error"]
        if json:
            print_json({"rules": len(read.rules), "rows": len(read.frame), "findings": findings})
        elif quiet:
            for finding in errors:
                voice.warn(f"{finding.kind}: {' · '.join(finding.rules)}: {finding.text}")
        else:
            show_findings(voice, findings)
        if errors:
            raise typer.Exit(FOUND)
