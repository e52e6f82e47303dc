"""Commands on saved folders: `ocbnn predict`, `check`, `enforce`, `report` and `verify`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ocbnn.cli import command

if TYPE_CHECKING:
    import pandas as pd

    from ocbnn.checking.results import Level
    from ocbnn.cli.voice import Voice
    from ocbnn.posterior.predict import Prediction

METHODS = ("truncate", "draws", "proved")
LEVEL_NAMES: dict[str, Level] = {"average": "on average", "worst": "worst case found"}


def predict(
    model: command.ModelFolder,
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE", help=f"The rows to predict. {command.TABLE_HELP} Or a folder of them."
        ),
    ],
    interval: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Probability that an interval contains the value."),
    ] = 0.9,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COLUMN", help="A column to copy, such as an identifier; repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A .csv, .csv.gz or .parquet file; default: stdout. For a folder, a folder."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that predict the files of a folder; needs Dask.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask scheduler whose workers predict the files of a folder."),
    ] = None,
    decimal: command.Decimal = ".",
    json: command.AsJson = False,
    quiet: command.Quiet = False,
    debug: command.Debug = False,
) -> None:
    """Predict new rows: one line for each, in their order, with intervals and the sources of uncertainty.

    A row with a missing value gets an empty line, unless the model was fitted with --missing indicator to
    rows in which that column is missing too.

    Files of a folder are predicted one by one, each written whole or not at all. The same command again does
    only what is missing.

    Example:  ocbnn predict model/ new.csv --interval 0.9 --out predictions.csv

    Example:  ocbnn predict model/ new/ --out predictions/ --workers 4
    """
    with command.session(debug, quiet, aside=out is None or json) as voice:
        from ocbnn.cli import tables
        from ocbnn.cli.voice import print_json
        from ocbnn.estimators import load
        from ocbnn.schema.files import require_format

        if not 0 < interval < 1:
            raise command.InputError(f"--interval is a share between 0 and 1, such as 0.9, not {interval:g}.")
        if table.is_dir():
            told = {"interval": interval, "keep": tuple(dict.fromkeys(keep or ())), "decimal": decimal}
            summary = predict_files(model, table, out, voice, workers=workers, cluster=cluster, **told)
            if json:
                print_json(summary)
            return
        if not os.path.lexists(table):  # of a link to itself, the reader says why it cannot be read
            raise command.InputError(f"{table} is missing: there is no such file or folder.")
        if workers is not None or cluster is not None:
            raise command.InputError(
                f"--workers and --cluster share the files of a folder, and {table} is not one. Leave them "
                "out, or give a folder."
            )
        if json and out is not None:
            raise command.InputError("--json prints predictions, and --out writes a table: give one of them.")
        if out is not None:
            require_format(out)
            tables.require_writable(out, [table])
        estimator = load(model)
        frame = tables.read_table(table, voice, decimal)
        kept = list(dict.fromkeys(keep or ()))
        tables.require_columns(frame, [*estimator.schema_.names, *kept], table)
        complete = tables.complete_rows(frame, tables.needed_columns(estimator.schema_), voice)
        with voice.hearing_warnings():
            predicted = predictions(estimator, complete, interval).join(flagged(estimator, complete))
        tell_lacking(estimator, complete, voice)
        for name in kept:
            if name in predicted:
                raise command.InputError(
                    f"--keep {name}: predictions have a column of that name. Rename it in {table}."
                )
        result = frame[kept].join(predicted)
        if json:
            print_json(result.to_dict("records"))
        elif out is None:
            typer.echo(result.to_csv(index=False), nl=False)
        else:
            tables.write_table(result, out)
            voice.say(f"{len(predicted):,} rows predicted, in {out}.")


def predict_files(
    model: Path,
    folder: Path,
    out: Path | None,
    voice: Voice,
    *,
    workers: int | None,
    cluster: str | None,
    **options: Any,
) -> dict[str, Any]:
    """Predict the files of a folder into another; the summary of all rows."""
    from ocbnn.cli import tables
    from ocbnn.cli.partitions import Part, columns_of, predict_folder, seal_of
    from ocbnn.estimators import load

    if out is None:
        raise command.InputError(f"{folder} is a folder: give --out a folder for its predictions.")
    if workers is not None and cluster is not None:
        raise command.InputError("--workers are processes of this machine, --cluster has its own: give one.")
    tables.require_writable(out, [folder, model])
    if tables.is_within(out, folder) or (out.exists() and not out.is_dir()):
        raise command.InputError(f"--out {out}: give a folder of its own, outside of {folder}.")
    estimator = load(model)
    one = Part("", folder, out, model, seal_of(model), **options)
    for name in one.keep:
        if name in columns_of(estimator):
            raise command.InputError(
                f"--keep {name}: predictions have a column of that name. Rename it in {folder}."
            )
    summary = predict_folder(estimator, one, voice, workers=workers, cluster=cluster)
    left_out = summary["rows"] - summary["predicted"]
    missing = f", {left_out:,} of them empty for missing values" if left_out else ""
    voice.say(f"{summary['rows']:,} rows of {summary['files']:,} files predicted{missing}, in {out}.", "bold")
    voice.say(f"{summary['outside']:,} rows lie outside of the range that the fit has seen.")
    for rule in summary["rules"]:
        said = f"{rule['name']}: applies to {rule['rows']:,} rows"
        if rule["violations"] is not None:
            before = f" ({rule['violations_before']:,} before enforcement)"
            enforced = before if estimator.posterior_.rules_in_force else ""
            said += f"; predictions that violate it: {rule['violations']:,}{enforced}"
        voice.say(f"{said}.")
    return summary


def tell_lacking(estimator: Any, rows: pd.DataFrame, voice: Voice) -> None:
    """Say to how many rows an enforced rule does not apply, because a value that it needs is missing."""
    from ocbnn.checking.explain import lacking_words

    schema = estimator.schema_
    coded = schema.encode(rows)
    for rule in estimator.posterior_.rules_in_force:
        lacking = int(rule.lacks_value(coded, schema).sum())
        if lacking:
            voice.say(f"{rule.name or rule.text(schema)}: {lacking_words(lacking)}.", "yellow")


def flagged(estimator: Any, rows: pd.DataFrame) -> pd.DataFrame:
    """What a reader of the predictions should know of each row, a column for each flag.

    `outside` has the columns whose value lies outside of the observed range, joined by `;`. `unseen` is there
    for models that were fitted with unseen="other": the columns whose label the fit has not seen.
    """
    import pandas as pd

    schema = estimator.schema_
    coded = schema.encode(rows)
    flags = {"outside": _named(schema.outside(coded), schema.names)}
    if any(column.other for column in schema.columns):
        flags["unseen"] = _named(schema.unseen(coded), schema.names)
    return pd.DataFrame(flags, index=rows.index)


def _named(where: Any, names: Sequence[str]) -> list[str]:
    """The names of the columns where each row of the mask holds, joined by `;`."""
    return [";".join(name for name, yes in zip(names, row, strict=True) if yes) for row in where]


def predictions(estimator: Any, rows: pd.DataFrame, interval: float) -> pd.DataFrame:
    """What the model says of rows without unknown missing values, a column for each figure."""
    return as_table(estimator, rows, predicted(estimator, rows, interval))


def predicted(estimator: Any, rows: pd.DataFrame, interval: float) -> Prediction:
    """The same as the library gives it."""
    from ocbnn.posterior.predict import predict

    levels = (0.5 - interval / 2, 0.5 + interval / 2)
    inputs = rows[list(estimator.schema_.names)]
    return predict(estimator.posterior_, inputs, levels=levels, coverage=None)


def as_table(estimator: Any, rows: pd.DataFrame, found: Prediction) -> pd.DataFrame:
    """Predictions of the rows as columns."""
    import pandas as pd

    ends = None if found.function is None else found.function.quantiles
    classes = estimator.posterior_.classes
    if not classes:
        assert found.observation is not None
        assert found.observation.quantiles is not None
        figures = {"prediction": found.point}
        figures["lower"], figures["upper"] = found.observation.quantiles.T
        if ends is not None:
            figures["function_lower"], figures["function_upper"] = ends.T
        figures |= {"epistemic_sd": found.epistemic**0.5, "aleatoric_sd": found.aleatoric**0.5}
        return pd.DataFrame(figures, index=rows.index)
    # Class weights say what a mistake costs, which the estimator minds and the posterior does not.
    figures = {"prediction": estimator._decisions(estimator.schema_.encode(rows), found)}
    # The label comes last in every name: whatever labels are called, no two columns are called alike.
    assert found.probabilities is not None
    figures |= {f"probability_{label}": found.probabilities[:, i] for i, label in enumerate(classes)}
    if ends is not None:
        for i, label in enumerate(classes):
            figures[f"lower_probability_{label}"], figures[f"upper_probability_{label}"] = ends[:, i].T
    figures |= {"epistemic": found.epistemic, "aleatoric": found.aleatoric}
    return pd.DataFrame(figures, index=rows.index)


def check(
    model: command.ModelFolder,
    rules: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Other rules to check; default: the model's own.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Figures for each group of this column too.")
    ] = None,
    points: Annotated[int, typer.Option(min=1, help="Fresh points for each rule.")] = 2000,
    seed: command.Seed = 0,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Also the share of draws that are not proved to obey everywhere."),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit with 1 also if the draws are too few to show that a rule is met."
        ),
    ] = False,
    level: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="Hold every rule to it: 'average', or 'worst' for the worst case found; default: what each "
            "rule asks for.",
        ),
    ] = None,
    json: command.AsJson = False,
    quiet: command.Quiet = False,
    debug: command.Debug = False,
) -> None:
    """Measure how far a model obeys its rules, on fresh points, with intervals and the worst point found.

    Exit code 1: a rule is unmet at the level it is held to: the whole interval lies beyond its tolerance.

    Example:  ocbnn check model/ --json
    """
    with command.session(debug, quiet, aside=json) as voice:
        from ocbnn.checking.check import check_rules
        from ocbnn.cli.voice import print_json, show_check
        from ocbnn.estimators import load
        from ocbnn.report.sentences import headline
        from ocbnn.rules.files import load_rules

        if level is not None and level not in LEVEL_NAMES:
            raise command.InputError(f"--level is {' or '.join(LEVEL_NAMES)}, not {level!r}.")
        held_to = None if level is None else LEVEL_NAMES[level]
        estimator = load(model)
        posterior = estimator.posterior_
        given = None if rules is None else load_rules(rules, posterior.schema)
        if given is None and not posterior.rules:
            raise command.InputError(
                f"{model} was fitted without rules; give some to hold it against: --rules FILE."
            )
        with voice.hearing_warnings():
            report = check_rules(posterior, given, points=points, key=seed, by=by)
            from ocbnn.proof import asked_proofs, with_proofs
            from ocbnn.proof import prove as proved

            known, shown = estimator.proof_ if given is None else None, not (quiet or json)
            if prove and known is None:
                known = proved(posterior, given, key=seed, progress=shown)
            known = asked_proofs(posterior, given, known, key=seed, progress=shown)
            if known is not None and (prove or any(each.asked == "proved" for each in report)):
                report = with_proofs(posterior, report, known)
        verdicts = {each.name: each.at(held_to or each.asked) for each in report}
        unmet = [name for name, verdict in verdicts.items() if verdict == "unmet"]
        doubtful = [name for name, verdict in verdicts.items() if verdict not in ("met", "unmet")]
        said = headline(report.rules, held_to)
        if json:
            met = not unmet and not doubtful
            levels = {} if report.overall is None else report.overall.levels
            print_json(
                {
                    "headline": said,
                    "met": met,
                    "unmet": unmet,
                    "not_shown": doubtful,
                    "levels": levels,
                    "rules": report.rules,
                }
            )
        elif quiet:
            for name in unmet:
                voice.warn(f"UNMET {name}")
        else:
            for each in report:
                show_check(voice, each, posterior.schema)
            voice.say(said, "bold")
        if unmet or (strict and doubtful):
            raise typer.Exit(command.FOUND)


def enforce(
    model: command.ModelFolder,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the enforced copy goes.")],
    method: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="'truncate' restricts predictions; 'draws' keeps the draws that obey wherever they were "
            "tried; 'proved' those that are proved to obey everywhere.",
        ),
    ] = "truncate",
    quiet: command.Quiet = False,
    debug: command.Debug = False,
) -> None:
    """Make a copy of a model whose predictions cannot break its rules.

    'truncate' works with any model, prediction by prediction. 'draws' and 'proved' say something about the
    whole function, and need draws that obey. Rules about distributions cannot be enforced.

    Example:  ocbnn enforce model/ --method truncate --out enforced/
    """
    with command.session(debug, quiet) as voice:
        from ocbnn.cli.tables import require_folder
        from ocbnn.estimators.folder import load_all, save

        if method not in METHODS:
            raise command.InputError(
                f"--method is {', '.join(METHODS[:-1])} or {METHODS[-1]}, not {method!r}."
            )
        require_folder(out, "model", [model])
        estimator, without, _ = load_all(model)
        if not estimator.posterior_.rules:
            raise command.InputError(f"{model} was fitted without rules, so there is nothing to enforce.")
        with voice.hearing_warnings():
            enforced = estimator.enforce(method)
        # The figures beside the model are those before enforcement: a report gathers them again.
        save(out, enforced, without)
        before, after = len(estimator.posterior_.flat), len(enforced.posterior_.flat)
        if method == "proved":
            voice.say(
                f"{after:,} of {before:,} draws are proved to obey every rule everywhere, and are kept."
            )
        if method == "draws":
            voice.say(f"{after:,} of {before:,} draws obey every rule at every point tried, and are kept.")
        voice.say(f"Saved in {out}: its predictions cannot break the deterministic rules.")


def report(
    model: command.ModelFolder,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The page; its figures go beside it as JSON.")
    ] = Path("report.html"),
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE", help=f"Rows that the fit has not seen, to measure on. {command.TABLE_HELP}"
        ),
    ] = None,
    decimal: command.Decimal = ".",
    seed: command.Seed = 0,
    quiet: command.Quiet = False,
    debug: command.Debug = False,
) -> None:
    """Write a report: one HTML file that needs no network, and its figures as JSON.

    It needs no table: `ocbnn fit` kept what it measured.

    Example:  ocbnn report model/ --out report.html
    """
    with command.session(debug, quiet) as voice:
        from ocbnn.cli.tables import read_unseen, require_writable, shown_name
        from ocbnn.estimators.folder import load_all
        from ocbnn.report import gather, write
        from ocbnn.report.build import with_proof
        from ocbnn.report.sections import places

        require_writable(out, [table])
        places(out)  # refuses, before any work, to take the place of another file
        estimator, without, evidence = load_all(model)
        evidence = evidence if table is None else None
        with voice.hearing_warnings():
            if evidence is None:
                rows = None if table is None else read_unseen(table, estimator.schema_, voice, decimal)
                on_rows = "" if table is None else ", predictions on the rows given"
                voice.say(f"Measuring: rules on fresh points{on_rows}.")
                evidence = gather(
                    estimator.posterior_,
                    without=without,
                    frame=rows,
                    seed=seed,
                    enforcement=estimator.enforcement_,
                    proofs=estimator.proof_,
                    sources={} if table is None else {"table": shown_name(table)},
                )
            elif estimator.proof_ is not None:
                evidence = with_proof(evidence, estimator.posterior_, estimator.proof_)
            page = write(evidence, estimator.posterior_, out)
        voice.say(f"Written: {page}, and its figures in {page.with_suffix('.json')}.")


def prove(
    model: command.ModelFolder,
    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Other rules to prove; default: the model's own, and it is kept."),
    ] = None,
    boxes: Annotated[int, typer.Option(min=1, help="Boxes that each draw may take, for each rule.")] = 2000,
    seconds: Annotated[float, command.number("Seconds for all rules together.", min=0.001)] = 300.0,
    verify: Annotated[
        bool, typer.Option("--verify", help="Bound every box of the proof that is kept with the model again.")
    ] = False,
    seed: command.Seed = 0,
    json: command.AsJson = False,
    quiet: command.Quiet = False,
    debug: command.Debug = False,
) -> None:
    """Prove draw by draw that a model obeys its rules at every input, not only where it was tried.

    What is proved of the model's own rules is kept with it, with the boxes, and `--verify` goes through them
    again. Undecided draws count as violating.

    Exit code 1: `--verify` finds that a proof does not hold.

    Example:  ocbnn prove model/ --seconds 60
    """
    with command.session(debug, quiet, aside=json) as voice:
        from ocbnn.cli.voice import print_json, show_proof
        from ocbnn.estimators.folder import load_all, save
        from ocbnn.rules.files import load_rules

        estimator, without, evidence = load_all(model)
        posterior = estimator.posterior_
        if verify:
            _verify_proofs(estimator, voice, json, model)
            return
        given = None if rules is None else load_rules(rules, posterior.schema)
        if given is None and not posterior.rules:
            raise command.InputError(f"{model} was fitted without rules; give some to prove: --rules FILE.")
        with voice.hearing_warnings():
            progress = not (quiet or json)
            found = estimator.prove(rules=given, boxes=boxes, seconds=seconds, key=seed, progress=progress)
        if given is None:
            save(model, estimator, without, evidence)
        if json:
            print_json({"unproved": found.unproved._asdict(), "rules": [each.to_json() for each in found]})
            return
        for each in found:
            show_proof(voice, each, posterior.schema)
        if given is None:
            voice.say(f"Kept in {model}, with its boxes: ocbnn prove {model} --verify.", "dim")


def _verify_proofs(estimator: Any, voice: Voice, json: bool, model: Path) -> None:
    from ocbnn.cli.voice import print_json
    from ocbnn.proof import verify_proof

    if estimator.proof_ is None:
        raise command.InputError(f"{model} holds no proof yet: ocbnn prove {model} makes one.")
    proofs = [each for each in estimator.proof_ if not each.reason]
    found = [verify_proof(estimator.posterior_, each) for each in proofs]
    if json:
        print_json({"holds": all(each.holds for each in found), "rules": [each._asdict() for each in found]})
    for each in found:
        if each.holds:
            voice.say(f"{each.name}: {each.draws:,} draws, {each.boxes:,} boxes: all bounded again.", "green")
        else:
            voice.warn(
                f"{each.name}: the proof does not hold: its boxes prove {each.proved:,} of {each.draws:,} "
                f"draws{'' if each.whole else ', and are not all of the region'}. Prove it again."
            )
    if not all(each.holds for each in found):
        raise typer.Exit(command.FOUND)


def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A saved model or prior, or the folder of a run.")
    ],
    json: command.AsJson = False,
    quiet: command.Quiet = False,
    debug: command.Debug = False,
) -> None:
    """Compare every file of a saved model, prior or run with the checksum it was written with.

    Exit code 0: the folder is whole. Exit code 1: a file is missing or damaged.

    Example:  ocbnn verify model/
    """
    with command.session(debug, quiet, aside=json) as voice:
        from ocbnn.cli.voice import print_json
        from ocbnn.storage.folders import verify

        found = verify(folder)
        if json:
            print_json({"whole": not found.problems, **found._asdict()})
        for problem in found.problems:
            voice.warn(problem)
        for name in found.foreign:
            voice.say(f"{name} does not belong to it.", "yellow")
        if found.problems:
            voice.warn(f"{folder} is damaged: restore it from a copy, or make it again.")
            raise typer.Exit(command.FOUND)
        voice.say(f"{folder} is whole: a saved {found.kind}, {found.files} files as they were written.")
