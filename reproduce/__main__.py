"""The command: `python -m reproduce fig1 --setting ours --seed 3 --out DIR`, in the repository's folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import platformdirs
import typer

from ocbnn import OCBNNError, OCBNNWarning

MISSED, WRONG_USE, INTERRUPTED = 1, 2, 130
"""Exit codes other than 0; those of the `ocbnn` command."""
NAMES = (
    "fig1, fig2, fig3a, fig3b, fig3c (fig3: those three), fig4, fig5, fig6, bakeoff, conflict; clinical, "
    "recidivism, credit. 'all' stands for the figures, bakeoff and conflict, 'applications' for the last "
    "three. Several at once; none with --check."
)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def command(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where pictures, figures and models go.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help=NAMES)] = None,
    setting: Annotated[
        str, typer.Option(help="'paper' (its text), 'reference' (its code) or 'ours' (what we recommend).")
    ] = "ours",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="The same seed gives the same result.")] = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            max=1000,
            help="How many seeds, from --seed on; tables then have means and standard errors over them.",
        ),
    ] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run of seconds.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Say which bounds are met in FOLDER; exit code 1 if one is not.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback behind an error.")] = False,
) -> None:
    """Reproduce the paper's figures and tables: pictures, numbers as JSON, and every run as a saved model.

    The applications need their data: put them into a folder that the environment variable OCBNN_DATA names.

    Example:  python -m reproduce fig1 fig2 --setting ours --out reproduced/

    Then:  python -m reproduce clinical --seeds 5 --out reproduced/
    """
    # Compiled programs are kept in the user's cache. JAX reads these variables when it is imported.
    kept = platformdirs.user_cache_path("ocbnn", appauthor=False) / "compiled"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(kept))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    from reproduce.experiments import reproduce
    from reproduce.outcome import PaperError
    from reproduce.tables import verdicts

    try:
        if not names and not check:
            raise PaperError("Name an experiment, such as fig1 or all; --help lists them.")
        with _warnings_as_sentences():
            say = (lambda text: None) if quiet else typer.echo
            reproduce(names or (), setting, out, seed, quick, say, seeds=seeds, bar=not quiet)
        found = verdicts(out) if check else []
    except KeyboardInterrupt as interruption:
        typer.echo(f"reproduce: {interruption}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except (OCBNNError, OSError) as error:
        if debug:
            raise
        typer.echo(f"reproduce: {error}", err=True)
        raise typer.Exit(WRONG_USE) from None
    for verdict in found:
        if not quiet or not verdict.met:
            typer.echo(verdict)
    if not all(verdict.met for verdict in found):
        raise typer.Exit(MISSED)


@contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """Say each warning of the library once; those of other libraries are not for users."""
    told: set[str] = set()

    def tell(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if str(message) not in told:
            told.add(str(message))
            typer.echo(f"reproduce: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", OCBNNWarning)
        warnings.showwarning = tell
        yield


if __name__ == "__main__":
    app(prog_name="python -m reproduce")
