"""`ocbnn fit`: a network that obeys the rules, from a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ocbnn.cli.failures import FOUND, InputError, explained
from ocbnn.cli.options import AsJson, Columns, Debug, Ignore, Quiet, Seed, Table, Target, Task, a_number

if TYPE_CHECKING:
    from ocbnn.cli.fitting import Fitted, Plan
    from ocbnn.cli.inputs import Inputs
    from ocbnn.cli.voice import Voice
    from ocbnn.inference.result import RuleOutcome

MODELLING, RUNNING = "The model", "The run"


def fit(
    table: Table,
    target: Target,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the model goes: a folder of its own.")],
    rules: Annotated[Path | None, typer.Option(metavar="FILE", help="The rules: a YAML file.")] = None,
    task: Task = None,
    columns: Columns = None,
    ignore: Ignore = None,
    prior: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="A prior that `ocbnn learn-prior` learnt.", rich_help_panel=MODELLING
        ),
    ] = None,
    hidden: Annotated[
        str | None,
        typer.Option(
            metavar="UNITS",
            help="Hidden units: 20, or 50,50 for two layers; by the number of rows unless given.",
            rich_help_panel=MODELLING,
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            callback=a_number,
            min=0,
            help="How far outputs may go under the prior: in logits, or standard deviations of the target.",
            rich_help_panel=MODELLING,
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            callback=a_number,
            min=0,
            max=1,
            help="Share of violation accepted of rules that do not say it themselves (0.01).",
            rich_help_panel=MODELLING,
        ),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            metavar="balanced",
            help="'balanced' minds rare classes as much as others.",
            rich_help_panel=MODELLING,
        ),
    ] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(
            callback=a_number,
            min=0,
            max=0.9,
            help="Share of rows kept from the fit, to see how honest it is. 0.2 unless given; 0 fits all.",
            rich_help_panel=RUNNING,
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare/--no-compare", help="Also fit without the rules, to compare.", rich_help_panel=RUNNING
        ),
    ] = True,
    engine: Annotated[
        str | None,
        typer.Option(
            help="auto (unless given), hmc, nuts, svgd, bbb, sgld or ensemble; see the page on inference.",
            rich_help_panel=RUNNING,
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="Draws of each chain; in all, without chains.", rich_help_panel=RUNNING),
    ] = None,
    members: Annotated[
        int | None, typer.Option(min=1, help="Chains, particles or members.", rich_help_panel=RUNNING)
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Groups of chains side by side.", rich_help_panel=RUNNING)
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A first look: the strength of rules is searched less finely.",
            rich_help_panel=RUNNING,
        ),
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="All of these and more as a TOML file; what is given here has the last word.",
            rich_help_panel=RUNNING,
        ),
    ] = None,
    seed: Seed = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was interrupted.", rich_help_panel=RUNNING)
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a rule is unmet.")] = False,
    json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a network that obeys the rules, and save it as a folder.

    A rule that is not kept within its tolerance is said to be UNMET; the model is saved all the same and the
    exit code is 0, with --strict 1. Ctrl-C saves what there is; --resume goes on from there.

    Example:  ocbnn fit patients.csv --target action --rules rules.yaml --out model/
    """
    with explained(debug):
        from ocbnn.cli.cache import keep_compiled
        from ocbnn.cli.fitting import Plan, fit_model
        from ocbnn.cli.inputs import read_inputs
        from ocbnn.cli.tables import require_folder, shown_name
        from ocbnn.cli.voice import Voice, print_json
        from ocbnn.estimators.settings_files import read_settings

        keep_compiled()
        voice = Voice(quiet=quiet, aside=json)
        require_folder(out, "model", [table, rules, columns, prior, settings])
        if quick and settings is not None:
            raise InputError("--quick and --settings both say how to run: give one of them.")
        widths = hidden_units(hidden)
        if prior is not None and scale is not None:
            raise InputError("--scale is of a prior that has learnt nothing; with --prior, leave it out.")
        learnt = None if prior is None else learnt_prior(prior)
        told = {} if settings is None else read_settings(settings)
        weighed = class_weight or told.pop("class_weight", None)
        read = read_inputs(
            table,
            target,
            rules,
            voice,
            task=task,
            columns=columns,
            ignore=ignore,
            schema=None if learnt is None else learnt.schema,
        )
        refuse_constant(read)
        refuse_errors(read, voice)
        named = {"table": table, "rules": rules, "prior": prior, "settings": settings}
        plan = Plan(
            out=out,
            options={
                **(quick_look(engine or "auto") if quick else {}),
                **told,
                **estimator_options(
                    read,
                    prior=scale if learnt is None else learnt,
                    hidden=widths,
                    tolerance=tolerance,
                    class_weight=weighed,
                    engine=None if quick else engine,
                    draws=draws,
                    members=members,
                    cores=cores,
                ),
            },
            hold_out=hold_out,
            compare=compare,
            seed=seed,
            resume=resume,
            sources={what: shown_name(path) for what, path in named.items() if path is not None},
        )
        fitted = fit_model(read, plan, voice)
        if json:
            print_json(summary(fitted, plan))
        else:
            show_fitted(fitted, plan, voice)
        if strict and fitted.unmet:
            raise typer.Exit(FOUND)


def hidden_units(text: str | None) -> tuple[int, ...] | None:
    """`50,50` as numbers.

    Raises:
        InputError: anything else.
    """
    if text is None:
        return None
    try:
        widths = tuple(int(width) for width in text.split(","))
    except ValueError:
        widths = ()
    if not widths or min(widths) < 1:
        raise InputError(f"--hidden takes numbers of units, such as 20 or 50,50, not {text!r}.")
    return widths


def estimator_options(read: Inputs, *, class_weight: str | None, **options: Any) -> dict[str, Any]:
    """Options of the estimator: those that were given."""
    assert read.schema.target is not None
    if class_weight is not None:
        if read.schema.target.task != "classification":
            raise InputError(
                f"A class weight is for classes, and {read.schema.target.name!r} is a number. Leave it out, "
                "or say --task classification."
            )
        options["class_weight"] = class_weight
    return {name: value for name, value in options.items() if value is not None}


def learnt_prior(path: Path) -> Any:
    """The prior that `ocbnn learn-prior` saved."""
    from ocbnn.amortize import AmortizedPrior

    return AmortizedPrior.load(path)


def quick_look(engine: str = "auto") -> dict[str, Any]:
    """Options of the estimator for a first look.

    A variational posterior, unless an engine was asked for, and a shorter search for the strength of rules.
    """
    from ocbnn.inference.engines.bbb import Bbb
    from ocbnn.inference.prepare import Settings
    from ocbnn.inference.strength import StrengthSearch

    # By half decades, with few pilots. They are long enough to find what the whole run finds, so that a rule
    # kept in the one is kept in the other.
    search = StrengthSearch(rounds=5, effective=100.0, most=100, steps=2500)
    options: dict[str, Any] = {"preparation": Settings(strength=search), "engine": engine}
    if engine == "auto":
        # The learning rate falls early, so that the end of the run shows whether it has settled.
        options["engine"] = Bbb(steps=8000, draws_per_step=2, learning_rate=0.02, decay="exponential")
    return options


def refuse_constant(read: Inputs) -> None:
    """Refuse columns of which nothing can be learnt, unless somebody has declared that they mean it.

    Raises:
        InputError: a column, or the target, with one value in all rows.
    """
    target = read.schema.target
    assert target is not None
    for name in (target.name, *read.schema.names):
        if read.adopted or name in read.columns or read.frame[name].nunique() > 1:
            continue
        same = f"{name!r} is {read.frame[name].iloc[0]!s} in every row"
        if name == target.name:
            raise InputError(f"The target {same}: there is nothing to predict.")
        raise InputError(
            f"The column {same}, so nothing can be learnt of it. Leave it out with --ignore {name}; or, "
            "where a rule speaks of other values, declare its bounds with --columns."
        )


def refuse_errors(read: Inputs, voice: Voice) -> None:
    """Lint before hours are spent: rules that cannot be obeyed as written end here, with exit code 1."""
    from ocbnn.linting import lint

    findings = lint(read.rules, read.schema, read.frame) if read.rules else ()
    errors = [finding for finding in findings if finding.severity == "error"]
    for finding in errors:
        voice.warn(f"{finding.kind}: {' · '.join(finding.rules)}: {finding.text}")
    if errors:
        voice.warn("Nothing was fitted: these rules cannot be obeyed as written. `ocbnn lint` says more.")
        raise typer.Exit(FOUND)
    if findings:
        voice.say(f"{len(findings)} things to know about the rules; `ocbnn lint` says which.", "yellow")


def summary(fitted: Fitted, plan: Plan) -> dict[str, Any]:
    """What came of a fit, for programs."""
    known = fitted.estimator.posterior_.provenance
    return {
        "model": str(plan.out),
        "rows": fitted.rows,
        "held_out": fitted.held_out,
        "engine": known.get("engine"),
        "status": known.get("status"),
        "converged": known.get("converged"),
        "compared": fitted.without is not None,
        "rules": [_told(outcome) for outcome in fitted.estimator.outcomes_],
        "unmet": [outcome.name for outcome in fitted.estimator.outcomes_ if outcome.unmet],
        "performance": fitted.evidence.performance,
    }


def _told(outcome: RuleOutcome) -> dict[str, Any]:
    """How a rule fared."""
    return {
        "name": outcome.name,
        "strength": outcome.strength,
        "found_strength": outcome.found_strength,
        "tolerance": outcome.tolerance,
        "violation": outcome.violation,
        "error": outcome.check.error,
        "met": outcome.met,
        "reason": outcome.reason,
        "learnt": outcome.learnt,
        "not_shown": outcome.not_shown,
    }


def show_fitted(fitted: Fitted, plan: Plan, voice: Voice) -> None:
    """What came of a fit, in words, and what to do next."""
    from ocbnn.cli.sentences import command, show_outcomes

    status = str(fitted.estimator.posterior_.provenance.get("status"))
    voice.say(f"The fit of {fitted.rows:,} rows: {status}")
    show_outcomes(voice, fitted.estimator.outcomes_)
    voice.say(f"Saved in {plan.out}. Next:", "bold")
    voice.say(f"  {command('report', plan.out, '--out', 'report.html')}")
    voice.say(f"  {command('predict', plan.out, 'new.csv', '--out', 'predictions.csv')}")
