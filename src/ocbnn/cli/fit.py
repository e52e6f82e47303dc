"""Commands on a table and its rules: `ocbnn lint`, `fit` and `learn-prior`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ocbnn.cli import command

if TYPE_CHECKING:
    from ocbnn.cli.fitting import Fitted, Plan
    from ocbnn.cli.tables import Inputs
    from ocbnn.cli.voice import Voice

MODEL: dict[str, Any] = {"rich_help_panel": "The model"}
RUN: dict[str, Any] = {"rich_help_panel": "The run"}
OUTCOME = (
    "name",
    "strength",
    "found_strength",
    "tolerance",
    "violation",
    "met",
    "reason",
    "learnt",
    "by_construction",
    "not_shown",
)
"""What `--json` says of each rule."""


def fit(
    context: typer.Context,
    table: command.Table,
    target: command.Target,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the model goes: a folder of its own.")],
    rules: Annotated[Path | None, typer.Option(metavar="FILE", help="The rules: a YAML file.")] = None,
    task: command.Task = None,
    columns: command.Columns = None,
    ignore: command.Ignore = None,
    missing: command.Missing = None,
    decimal: command.Decimal = ".",
    prior: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A prior that `ocbnn learn-prior` wrote.", **MODEL)
    ] = None,
    hidden: Annotated[
        str | None,
        typer.Option(
            metavar="UNITS", help="Hidden units: 20, or 50,50 for two layers; default: by rows.", **MODEL
        ),
    ] = None,
    scale: Annotated[
        float | None,
        command.number(
            "Scale of outputs under the prior: in logits, or standard deviations of the target.",
            min=0,
            **MODEL,
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        command.number(
            "Accepted violation of rules that do not say it themselves; default: 0.01.", min=0, max=1, **MODEL
        ),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            metavar="balanced", help="'balanced' reweights classes inversely to their frequency.", **MODEL
        ),
    ] = None,
    unseen: Annotated[
        str | None,
        typer.Option(
            metavar="other",
            help="'other' predicts labels that the fit has not seen as no known one.",
            **MODEL,
        ),
    ] = None,
    target_transform: Annotated[
        str | None,
        typer.Option(metavar="log", help="'log' models the log of a target that is above 0.", **MODEL),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="varying|constant|NUMBER",
            help="'varying' lets noise depend on the inputs, which is the default; 'constant' learns one "
            "number; a number is its standard deviation.",
            **MODEL,
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Hold out whole groups of this column, such as all rows of a patient; it is not an input.",
            **RUN,
        ),
    ] = None,
    hold_out: Annotated[
        float | None,
        command.number(
            "Share of rows kept from the fit, to measure on; default: 0.2.", min=0, max=0.9, **RUN
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare/--no-compare", help="Also fit without the rules, to compare.", **RUN)
    ] = True,
    engine: Annotated[
        str | None, typer.Option(help="auto (default), mclmc, hmc, nuts, svgd, bbb, sgld or ensemble.", **RUN)
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws of each chain; in all, without chains.", **RUN)
    ] = None,
    chains: Annotated[int | None, typer.Option(min=1, help="Chains or particles.", **RUN)] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Groups of chains side by side.", **RUN)] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A first look: a faster engine, a coarser search for strengths.", **RUN),
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="These options and more, a TOML file; the command line wins.", **RUN
        ),
    ] = None,
    seed: command.Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.", **RUN)] = False,
    strict: command.Strict = False,
    json: command.AsJson = False,
    quiet: command.Quiet = False,
    debug: command.Debug = False,
) -> None:
    """Fit a network that obeys the rules, and save it as a folder.

    A rule that is not kept within its tolerance is reported as UNMET. The model is saved all the same.
    The exit code is then 0, or 1 with --strict. Ctrl-C saves what there is; --resume goes on from there.

    Example:  ocbnn fit patients.csv --target action --rules rules.yaml --out model/
    """
    with command.session(debug, quiet, aside=json) as voice:
        from ocbnn.amortize import AmortizedPrior
        from ocbnn.cli.fitting import HELD_OUT, Plan, fit_model
        from ocbnn.cli.tables import read_inputs, require_folder, shown_name
        from ocbnn.cli.voice import print_json, repeated
        from ocbnn.estimators.settings_files import read_settings

        require_folder(out, "model", [table, rules, columns, prior, settings])
        if quick and settings is not None:
            raise command.InputError("--quick and --settings both say how to run: give one of them.")
        widths = command.hidden_units(hidden)
        if prior is not None and scale is not None:
            raise command.InputError(
                "--scale is of a prior that has learnt nothing; with --prior, leave it out."
            )
        learnt = None if prior is None else AmortizedPrior.load(prior)
        told = {} if settings is None else read_settings(settings)
        missing = told.get("missing") if missing is None else missing
        if target_transform is None:
            target_transform = told.get("target_transform")
        for option, given in (("--missing", missing), ("--target-transform", target_transform)):
            if learnt is not None and given is not None:
                raise command.InputError(f"{option}: the prior brings its table; leave it out with --prior.")
        read = read_inputs(
            table,
            target,
            rules,
            voice,
            task=task,
            columns=columns,
            ignore=ignore,
            decimal=decimal,
            missing=missing,
            group=group,
            target_transform=target_transform,
            schema=None if learnt is None else learnt.schema,
            hold_out=HELD_OUT if hold_out is None else hold_out,
            seed=seed,
        )
        refuse_constant(read)
        refuse_errors(read, voice)
        options = estimator_options(
            read,
            told,
            prior=scale if learnt is None else learnt,
            hidden=widths,
            tolerance=tolerance,
            class_weight=class_weight,
            missing=missing,
            unseen=unseen,
            noise=command.noise(noise),
            engine=None if quick else engine,
            draws=draws,
            chains=chains,
            cores=cores,
        )
        named = {"table": table, "rules": rules, "prior": prior, "settings": settings}
        plan = Plan(
            out=out,
            options={**(quick_look(engine) if quick else {}), **options},
            hold_out=hold_out,
            compare=compare,
            seed=seed,
            resume=resume,
            sources={what: shown_name(path) for what, path in named.items() if path is not None},
            command=repeated(context, seed),
        )
        fitted = fit_model(read, plan, voice)
        if json:
            print_json(summary(fitted, plan))
        else:
            show_fitted(fitted, plan, voice)
        if strict and fitted.unmet:
            raise typer.Exit(command.FOUND)


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


def lint(
    table: command.Table,
    target: command.Target,
    rules: command.Rules,
    task: command.Task = None,
    columns: command.Columns = None,
    ignore: command.Ignore = None,
    missing: command.Missing = None,
    decimal: command.Decimal = ".",
    json: command.AsJson = False,
    quiet: command.Quiet = False,
    debug: command.Debug = False,
) -> None:
    """Say what is wrong with a file of rules before anything is fitted.

    Exit code 1: a rule cannot be obeyed as written, or two contradict each other. Warnings give 0.

    Example:  ocbnn lint patients.csv --target action --rules rules.yaml
    """
    with command.session(debug, quiet, aside=json, compiles=False) as voice:
        from ocbnn.cli.tables import read_inputs
        from ocbnn.cli.voice import print_json, show_findings
        from ocbnn.linting import lint as find

        read = read_inputs(
            table,
            target,
            rules,
            voice,
            task=task,
            columns=columns,
            ignore=ignore,
            decimal=decimal,
            missing=missing,
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


def estimator_options(read: Inputs, told: dict[str, Any], **given: Any) -> dict[str, Any]:
    """Options of the estimator: those of the settings file, and those that were given besides."""
    options = {**told, **{name: value for name, value in given.items() if value is not None}}
    assert read.schema.target is not None
    name, task = read.schema.target.name, read.schema.target.task
    if "class_weight" in options and task != "classification":
        raise command.InputError(
            f"A class weight is for classes, and {name!r} is a number. Leave it out, or say "
            "--task classification."
        )
    if "noise" in options and task != "regression":
        raise command.InputError(f"Noise is of numbers, and {name!r} is a class. Leave it out.")
    return options


def quick_look(engine: str | None = None) -> dict[str, Any]:
    """Options of the estimator for a first look.

    A variational posterior, unless an engine was asked for, and a shorter search for the strength of rules.
    """
    from ocbnn.inference.engines.bbb import Bbb
    from ocbnn.inference.prepare import Settings
    from ocbnn.inference.strength import StrengthSearch

    # Few pilots. They are long enough to find what the whole run finds, so that a rule
    # kept in the one is kept in the other.
    search = StrengthSearch(rounds=5, effective=100.0, most=100, steps=2500)
    options: dict[str, Any] = {"preparation": Settings(strength=search), "engine": engine}
    if engine in (None, "auto"):
        # The learning rate falls early, so that the end of the run shows whether it has settled.
        options["engine"] = Bbb(steps=8000, draws_per_step=2, learning_rate=0.02, decay="exponential")
    return options


def refuse_constant(read: Inputs) -> None:
    """Refuse columns of which nothing can be learnt, unless somebody has declared that they mean it.

    Raises:
        command.InputError: a column, or the target, with one value in all rows.
    """
    for name in (read.target, *read.schema.names):
        if read.adopted or name in read.columns or read.frame[name].nunique(dropna=False) > 1:
            continue
        same = f"{name!r} is {read.frame[name].iloc[0]!s} in every row"
        if name == read.target:
            raise command.InputError(f"The target {same}: there is nothing to predict.")
        raise command.InputError(
            f"The column {same}, so nothing can be learnt from it. Leave it out with --ignore {name}. If a "
            "rule speaks of other values, declare its bounds with --columns."
        )


def refuse_errors(read: Inputs, voice: Voice) -> None:
    """Lint before hours are spent: rules that cannot be obeyed as written end here, with exit code 1."""
    from ocbnn.linting import lint

    findings = lint(read.rules, read.schema, read.frame) if read.rules else ()
    if voice.warn_of_errors(findings):
        voice.warn("Nothing was fitted: these rules cannot be obeyed as written. `ocbnn lint` says more.")
        raise typer.Exit(command.FOUND)
    if findings:
        voice.say(f"{len(findings)} things to know about the rules; `ocbnn lint` says which.", "yellow")


def summary(fitted: Fitted, plan: Plan) -> dict[str, Any]:
    """What came of a fit, for programs."""
    known = fitted.estimator.posterior_.provenance
    outcomes = fitted.estimator.outcomes_
    return {
        "model": str(plan.out),
        "rows": fitted.rows,
        "held_out": fitted.held_out,
        **{name: known.get(name) for name in ("engine", "status", "converged")},
        "compared": fitted.without is not None,
        "rules": [
            {
                **{name: getattr(each, name) for name in OUTCOME},
                "error": each.check.error,
                "worst": each.check.worst,
                "levels": each.check.levels,
            }
            for each in outcomes
        ],
        "unmet": [outcome.name for outcome in outcomes if outcome.unmet],
        "performance": fitted.evidence.performance,
        "noise": fitted.evidence.noise,
    }


def show_fitted(fitted: Fitted, plan: Plan, voice: Voice) -> None:
    """What came of a fit, in words, and what to do next."""
    from ocbnn.cli.voice import show_outcomes, suggested
    from ocbnn.report.sentences import noise_sentence

    status = str(fitted.estimator.posterior_.provenance.get("status"))
    voice.say(f"The fit of {fitted.rows:,} rows: {status}")
    noise = noise_sentence(fitted.evidence)
    if noise is not None:
        voice.say(noise)
    show_outcomes(voice, fitted.estimator.outcomes_)
    voice.say(f"Saved in {plan.out}. Next:", "bold")
    voice.say(f"  {suggested('report', plan.out, '--out', 'report.html')}")
    voice.say(f"  {suggested('predict', plan.out, 'new.csv', '--out', 'predictions.csv')}")
