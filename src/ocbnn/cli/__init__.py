"""The `ocbnn` command: what the library does, for people who do not write Python.

- `fit.py`: commands on a table and its rules; `fitting.py` does the work of `fit` and `demo`.
- `saved.py`: commands on saved models.  `demo.py`: the whole way on an invented clinic.
- `command.py`: options, errors as sentences with exit codes, and compiled programs that are kept.
- `voice.py`: what is said to people, and the same as JSON for programs.
- `tables.py`: tables with their rules and declared columns, read and written.
- `partitions.py`: predictions of the files of a folder, here or on workers.

Exit codes: 0 fine; 1 lint found an error, or a rule is unmet (`check`, `fit --strict`); 2 wrong use or input
that cannot be read (a sentence, never a traceback); 3 a mistake in ocbnn itself; 130 interrupted by Ctrl-C.
What a command needs is imported inside it, so that `ocbnn --help` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ocbnn.cli import demo, fit
from ocbnn.cli.command import WRONG_USE
from ocbnn.cli.saved import check, enforce, predict, prove, report, verify

__all__ = ["app", "main"]

app = typer.Typer(
    name="ocbnn",
    help="Neural networks that obey what experts know, and stay honest about what they do not know.",
    epilog="Begin with `ocbnn demo`. Every command explains itself, with an example: ocbnn fit --help",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for each in (demo.demo, fit.lint, fit.fit, predict, check, prove, enforce, report, verify, fit.learn_prior):
    app.command(each.__name__.replace("_", "-"))(each)
MOVED = (
    "The paper's figures and tables are not part of the installed package. In a clone of the repository, "
    "`python -m reproduce` takes the same names and options: python -m reproduce fig1 --out reproduced"
)


@app.command(hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def reproduce() -> None:
    """The paper's figures and tables: `python -m reproduce` in a clone of the repository."""
    typer.echo(f"ocbnn: {MOVED}", err=True)
    raise typer.Exit(WRONG_USE)


def main() -> None:
    """The entry point of the `ocbnn` command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ≤ or × gets a ?, not a traceback
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        from ocbnn import __version__

        typer.echo(f"ocbnn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass
