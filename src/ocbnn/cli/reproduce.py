"""`ocbnn reproduce`: the paper's figures and tables from this library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocbnn.cli.failures import explained
from ocbnn.cli.options import Debug, Quiet, Seed


def reproduce(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="fig1 to fig6, or 'all'; several at once.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where pictures, figures and models go.")],
    setting: Annotated[
        str, typer.Option(help="'paper' (its text), 'reference' (its code) or 'ours' (what we recommend).")
    ] = "ours",
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of seconds.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Reproduce figures of the paper: pictures, their numbers as JSON, and every run as a saved model.

    Example:  ocbnn reproduce fig1 fig2 --setting ours --out reproduced/
    """
    with explained(debug):
        from ocbnn.cli.cache import keep_compiled
        from ocbnn.cli.tables import require_writable
        from ocbnn.cli.voice import Voice

        keep_compiled()
        require_writable(out / "figure.json")
        voice = Voice(quiet=quiet)
        from ocbnn.paper import reproduce as run

        with voice.hearing_warnings():
            run(names, setting, out, seed, quick, voice.say)
