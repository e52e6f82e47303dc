"""The commands together. Only Typer is imported here; a command imports what it needs when it runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ocbnn.cli.check import check
from ocbnn.cli.demo import demo
from ocbnn.cli.enforce import enforce
from ocbnn.cli.fit import fit
from ocbnn.cli.learn_prior import learn_prior
from ocbnn.cli.lint import lint
from ocbnn.cli.predict import predict
from ocbnn.cli.report import report
from ocbnn.cli.reproduce import reproduce
from ocbnn.cli.verify import verify

app = typer.Typer(
    name="ocbnn",
    help="Neural networks that obey what experts know, and stay honest about what they do not know.",
    epilog="Begin with `ocbnn demo`. Every command explains itself, with an example: ocbnn fit --help",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo)
app.command("lint")(lint)
app.command("fit")(fit)
app.command("predict")(predict)
app.command("check")(check)
app.command("enforce")(enforce)
app.command("report")(report)
app.command("verify")(verify)
app.command("learn-prior")(learn_prior)
MOVED = {"ignore_unknown_options": True, "allow_extra_args": True}
app.command("reproduce", hidden=True, context_settings=MOVED)(reproduce)


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
