"""`ocbnn reproduce`: where the paper's figures went."""

from __future__ import annotations

import typer

from ocbnn.cli.failures import WRONG_USE

MOVED = (
    "The paper's figures and tables are not part of the installed package. In a clone of the repository, "
    "`python -m reproduce` takes the same names and options: python -m reproduce fig1 --out reproduced"
)


def reproduce() -> None:
    """The paper's figures and tables: `python -m reproduce` in a clone of the repository."""
    typer.echo(f"ocbnn: {MOVED}", err=True)
    raise typer.Exit(WRONG_USE)
