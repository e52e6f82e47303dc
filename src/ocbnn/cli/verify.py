"""`ocbnn verify`: whether a saved folder is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocbnn.cli.command import FOUND, AsJson, Debug, Quiet, session


def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A saved model or prior, or the folder of a run.")
    ],
    json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare every file of a saved model, prior or run with the checksum it was written with.

    Exit code 0: the folder is whole. Exit code 1: a file is missing or damaged.

    Example:  ocbnn verify model/
    """
    with session(debug, quiet, aside=json) as voice:
        from ocbnn.cli.voice import print_json
        from ocbnn.storage.folders import verify

        found = verify(folder)
        if json:
            print_json({"whole": not found.problems, **found._asdict()})
        for problem in found.problems:
            voice.warn(problem)
        for name in found.foreign:
            voice.say(f"{name} is no part of it.", "yellow")
        if found.problems:
            voice.warn(f"{folder} is damaged: restore it from a copy, or make it again.")
            raise typer.Exit(FOUND)
        voice.say(f"{folder} is whole: a saved {found.kind}, {found.files} files as they were written.")
