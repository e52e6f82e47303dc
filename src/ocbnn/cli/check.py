"""`ocbnn check`: how far a saved model obeys its rules, or others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocbnn.cli.command import FOUND, AsJson, Debug, InputError, ModelFolder, Quiet, Seed, session


def check(
    model: ModelFolder,
    rules: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Other rules to check; default: the model's own.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Figures for each group of this column too.")
    ] = None,
    points: Annotated[int, typer.Option(min=1, help="Fresh points for each rule.")] = 2000,
    seed: Seed = 0,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit with 1 also if the draws are too few to show that a rule is met."
        ),
    ] = False,
    json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure how far a model obeys its rules, on fresh points, with intervals and the worst point found.

    Exit code 1: a rule is unmet, that is, the whole interval lies beyond its tolerance.

    Example:  ocbnn check model/ --json
    """
    with session(debug, quiet, aside=json) as voice:
        from ocbnn.checking.check import check_rules
        from ocbnn.cli.voice import print_json, show_check
        from ocbnn.estimators import load
        from ocbnn.rules.files import load_rules

        posterior = load(model).posterior_
        given = None if rules is None else load_rules(rules, posterior.schema)
        if given is None and not posterior.rules:
            raise InputError(f"{model} was fitted without rules; give some to hold it against: --rules FILE.")
        with voice.hearing_warnings():
            report = check_rules(posterior, given, points=points, key=seed, by=by)
        unmet = [each.name for each in report if each.verdict == "unmet"]
        doubtful = [each.name for each in report if each.verdict not in ("met", "unmet")]
        if json:
            print_json({"met": report.met, "unmet": unmet, "not_shown": doubtful, "rules": report.rules})
        elif quiet:
            for name in unmet:
                voice.warn(f"UNMET {name}")
        else:
            for each in report:
                show_check(voice, each, posterior.schema)
        if unmet or (strict and doubtful):
            raise typer.Exit(FOUND)
