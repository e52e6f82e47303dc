"""`ocbnn enforce`: a copy of a model whose predictions cannot break its rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ocbnn.cli.command import Debug, InputError, ModelFolder, Quiet, session

METHODS = ("truncate", "draws")


def enforce(
    model: ModelFolder,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the enforced copy goes.")],
    method: Annotated[
        str,
        typer.Option(
            metavar="METHOD", help="'truncate' restricts predictions; 'draws' keeps the draws that obey."
        ),
    ] = "truncate",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make a copy of a model whose predictions cannot break its rules.

    'truncate' works with any model, prediction by prediction. 'draws' says something about the whole
    function, and needs draws that obey. Rules about distributions cannot be enforced.

    Example:  ocbnn enforce model/ --method truncate --out enforced/
    """
    with session(debug, quiet) as voice:
        from ocbnn.cli.tables import require_folder
        from ocbnn.estimators.folder import load_all, save

        if method not in METHODS:
            raise InputError(f"--method is {' or '.join(METHODS)}, not {method!r}.")
        require_folder(out, "model", [model])
        estimator, without, _ = load_all(model)
        if not estimator.posterior_.rules:
            raise InputError(f"{model} was fitted without rules, so there is nothing to enforce.")
        with voice.hearing_warnings():
            enforced = estimator.enforce(method)
        # The figures beside the model are those before enforcement: a report gathers them again.
        save(out, enforced, without)
        before, after = len(estimator.posterior_.flat), len(enforced.posterior_.flat)
        if method == "draws":
            voice.say(f"{after:,} of {before:,} draws obey every rule at every point tried, and are kept.")
        voice.say(f"Saved in {out}: its predictions cannot break the deterministic rules.")
