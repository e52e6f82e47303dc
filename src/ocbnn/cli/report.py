"""`ocbnn report`: everything about a model on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocbnn.cli.command import TABLE_HELP, Debug, Decimal, ModelFolder, Quiet, Seed, session


def report(
    model: ModelFolder,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The page; its figures go beside it as JSON.")
    ] = Path("report.html"),
    table: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help=f"Rows that the fit has not seen, to measure on. {TABLE_HELP}"),
    ] = None,
    decimal: Decimal = ".",
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a report: one HTML file that needs no network, and its figures as JSON.

    It needs no table: `ocbnn fit` kept what it measured.

    Example:  ocbnn report model/ --out report.html
    """
    with session(debug, quiet) as voice:
        from ocbnn.cli.tables import read_unseen, require_writable, shown_name
        from ocbnn.estimators.folder import load_all
        from ocbnn.report import gather, write
        from ocbnn.report.page import places

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
                    sources={} if table is None else {"table": shown_name(table)},
                )
            page = write(evidence, estimator.posterior_, out)
        voice.say(f"Written: {page}, and its figures in {page.with_suffix('.json')}.")
