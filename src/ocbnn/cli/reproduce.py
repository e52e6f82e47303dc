"""`ocbnn reproduce`: the paper's figures and tables from this library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocbnn.cli.command import Debug, Quiet, Seed, session

NAMES = (
    "fig1, fig2, fig3a, fig3b, fig3c (fig3: those three), fig4, fig5, fig6, bakeoff, conflict; clinical, "
    "recidivism, credit. 'all' stands for the figures, bakeoff and conflict, 'applications' for the last "
    "three. Several at once."
)


def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=NAMES)],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where pictures, figures and models go.")],
    setting: Annotated[
        str, typer.Option(help="'paper' (its text), 'reference' (its code) or 'ours' (what we recommend).")
    ] = "ours",
    seed: Seed = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            max=1000,
            help="How many seeds, from --seed on; tables then have means and standard errors over them.",
        ),
    ] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of seconds.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Reproduce the paper's figures and tables: pictures, numbers as JSON, and every run as a saved model.

    The applications need their data: put them into a folder that the environment variable OCBNN_DATA names.

    Example:  ocbnn reproduce fig1 fig2 --setting ours --out reproduced/

    Then:  ocbnn reproduce clinical --seeds 5 --out reproduced/
    """
    with session(debug, quiet) as voice:
        from ocbnn.cli.tables import require_writable

        require_writable(out / "figure.json")
        from ocbnn.paper import reproduce as run

        with voice.hearing_warnings():
            run(names, setting, out, seed, quick, voice.say, seeds=seeds, bar=voice.shows_progress)
