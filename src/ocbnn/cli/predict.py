"""`ocbnn predict`: predictions for new rows, with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ocbnn.cli.command import TABLE_HELP, AsJson, Debug, Decimal, InputError, ModelFolder, Quiet, session

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from ocbnn.posterior.predict import Prediction


def predict(
    model: ModelFolder,
    table: Annotated[Path, typer.Argument(metavar="TABLE", help=f"The rows to predict. {TABLE_HELP}")],
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
        typer.Option(metavar="FILE", help="A .csv, .csv.gz or .parquet file; default: stdout."),
    ] = None,
    decimal: Decimal = ".",
    json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict new rows: one line for each, in their order, with intervals and the sources of uncertainty.

    A row with a missing value gets an empty line.

    Example:  ocbnn predict model/ new.csv --interval 0.9 --out predictions.csv
    """
    with session(debug, quiet, aside=out is None) as voice:
        from ocbnn.cli import tables
        from ocbnn.cli.voice import print_json
        from ocbnn.estimators import load

        if not 0 < interval < 1:
            raise InputError(f"--interval is a share between 0 and 1, such as 0.9, not {interval:g}.")
        if json and out is not None:
            raise InputError("--json prints predictions, and --out writes a table: give one of them.")
        if out is not None:
            tables.table_format(out)
            tables.require_writable(out, [table])
        estimator = load(model)
        frame = tables.read_table(table, voice, decimal)
        kept = list(dict.fromkeys(keep or ()))
        tables.require_columns(frame, [*estimator.schema_.names, *kept], table)
        complete = tables.complete_rows(frame, estimator.schema_.names, voice)
        with voice.hearing_warnings():
            predicted = predictions(estimator, complete, interval)
        for name in kept:
            if name in predicted:
                raise InputError(
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


def predictions(estimator: Any, rows: pd.DataFrame, interval: float) -> pd.DataFrame:
    """What the model says of complete rows, a column for each figure."""
    import pandas as pd

    from ocbnn.posterior.predict import predict

    levels = (0.5 - interval / 2, 0.5 + interval / 2)
    inputs = rows[list(estimator.schema_.names)]
    found = predict(estimator.posterior_, inputs, levels=levels, coverage=None)
    classes = estimator.posterior_.classes
    # Class weights say what a mistake costs, which the estimator minds and the posterior does not.
    point = estimator.predict(inputs) if classes else found.point
    figures = _of_classes(found, classes) if classes else _of_number(found)
    return pd.DataFrame({"prediction": point, **figures}, index=rows.index)


def _of_number(found: Prediction) -> dict[str, np.ndarray]:
    assert found.observation is not None
    assert found.observation.quantiles is not None
    figures = {"lower": found.observation.quantiles[:, 0], "upper": found.observation.quantiles[:, 1]}
    if found.function is not None and found.function.quantiles is not None:
        figures |= {
            "function_lower": found.function.quantiles[:, 0],
            "function_upper": found.function.quantiles[:, 1],
        }
    return {**figures, "epistemic_sd": found.epistemic**0.5, "aleatoric_sd": found.aleatoric**0.5}


def _of_classes(found: Prediction, classes: Sequence[Any]) -> dict[str, np.ndarray]:
    # The label comes last in every name: whatever labels are called, no two columns are called alike.
    assert found.probabilities is not None
    figures = {f"probability_{label}": found.probabilities[:, i] for i, label in enumerate(classes)}
    if found.function is not None and found.function.quantiles is not None:
        for i, label in enumerate(classes):
            figures[f"lower_probability_{label}"] = found.function.quantiles[:, i, 0]
            figures[f"upper_probability_{label}"] = found.function.quantiles[:, i, 1]
    return {**figures, "epistemic": found.epistemic, "aleatoric": found.aleatoric}
