"""`ocbnn learn-prior`: rules learnt once, for any number of data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocbnn.cli.failures import FOUND, explained
from ocbnn.cli.options import AsJson, Columns, Debug, Ignore, Quiet, Rules, Seed, Table, Target, Task


def learn_prior(
    table: Table,
    target: Target,
    rules: Rules,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the prior goes: a folder of its own.")],
    task: Task = None,
    columns: Columns = None,
    ignore: Ignore = None,
    hidden: Annotated[
        str | None,
        typer.Option(metavar="UNITS", help="Hidden units: 20, or 50,50; by the number of rows unless given."),
    ] = None,
    seed: Seed = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a rule is unmet.")] = False,
    json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn the rules once into a prior, which any number of data sets can then be fitted with.

    The table says what columns there are and which rows are realistic; its target is not looked at.

    Example:  ocbnn learn-prior patients.csv --target action --rules rules.yaml --out prior/

    Then:  ocbnn fit hospital-b.csv --target action --prior prior/ --out model-b/
    """
    with explained(debug):
        from ocbnn.amortize import AmortizedPrior
        from ocbnn.cli.cache import keep_compiled
        from ocbnn.cli.fit import hidden_units, refuse_constant, refuse_errors
        from ocbnn.cli.inputs import read_inputs
        from ocbnn.cli.sentences import command
        from ocbnn.cli.tables import require_folder
        from ocbnn.cli.voice import Voice, print_json
        from ocbnn.estimators import defaults
        from ocbnn.model.networks import MLP

        keep_compiled()
        voice = Voice(quiet=quiet, aside=json)
        require_folder(out, "prior", [table, rules, columns])
        widths = hidden_units(hidden)
        read = read_inputs(table, target, rules, voice, task=task, columns=columns, ignore=ignore)
        refuse_constant(read)
        refuse_errors(read, voice)
        assert read.schema.target is not None
        classes = len(read.schema.target.classes)
        network = MLP(
            read.schema.width,
            defaults.hidden_units(widths, len(read.frame)),
            classes if classes > 2 else 1,
            "tanh",
        )
        voice.say(f"Learning {len(read.rules)} rules into a prior over {network.size:,} weights.")
        with voice.hearing_warnings():
            prior = AmortizedPrior.learn(
                read.rules,
                read.schema,
                network,
                base=defaults.base_prior(None, network, classification=classes > 0),
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
            voice.say(f"  {command('fit', table, '--target', target, '--prior', out, '--out', 'model')}")
        if strict and unmet:
            raise typer.Exit(FOUND)
