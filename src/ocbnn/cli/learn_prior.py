"""`ocbnn learn-prior`: rules learnt once, for any number of data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocbnn.cli import command


def learn_prior(
    table: command.Table,
    target: command.Target,
    rules: command.Rules,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the prior goes: a folder of its own.")],
    task: command.Task = None,
    columns: command.Columns = None,
    ignore: command.Ignore = None,
    decimal: command.Decimal = ".",
    hidden: Annotated[
        str | None, typer.Option(metavar="UNITS", help="Hidden units: 20, or 50,50; default: by rows.")
    ] = None,
    seed: command.Seed = 0,
    strict: command.Strict = False,
    json: command.AsJson = False,
    quiet: command.Quiet = False,
    debug: command.Debug = False,
) -> None:
    """Learn the rules once into a prior, which any number of data sets can then be fitted with.

    The table says what columns there are and which rows are realistic; its target is not looked at.

    Example:  ocbnn learn-prior patients.csv --target action --rules rules.yaml --out prior/

    Then:  ocbnn fit hospital-b.csv --target action --prior prior/ --out model-b/
    """
    with command.session(debug, quiet, aside=json) as voice:
        from ocbnn.amortize import AmortizedPrior
        from ocbnn.cli.fit import refuse_constant, refuse_errors
        from ocbnn.cli.tables import read_inputs, require_folder
        from ocbnn.cli.voice import print_json, suggested
        from ocbnn.estimators import defaults

        require_folder(out, "prior", [table, rules, columns])
        widths = command.hidden_units(hidden)
        read = read_inputs(
            table, target, rules, voice, task=task, columns=columns, ignore=ignore, decimal=decimal
        )
        refuse_constant(read)
        refuse_errors(read, voice)
        assert read.schema.target is not None
        network = defaults.network(read.schema, widths, len(read.frame), defaults.ACTIVATION)
        voice.say(f"Learning {len(read.rules)} rules into a prior over {network.size:,} weights.")
        with voice.hearing_warnings():
            prior = AmortizedPrior.learn(
                read.rules,
                read.schema,
                network,
                base=defaults.base_prior(None, network, classification=bool(read.schema.target.classes)),
                data=read.frame,
                seed=seed,
            )
        prior.save(out)
        unmet = [rule.name for rule in prior.findings.rules if not rule.met]
        if json:
            print_json({"prior": str(out), "unmet": unmet, "findings": prior.findings})
        else:
            voice.say(str(prior.findings))
            voice.say(f"Saved in {out}. Next:", "bold")
            voice.say(f"  {suggested('fit', table, '--target', target, '--prior', out, '--out', 'model')}")
        if strict and unmet:
            raise typer.Exit(command.FOUND)
