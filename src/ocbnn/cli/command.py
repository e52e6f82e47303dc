"""What every command shares: its options, errors as sentences with exit codes, and compiled programs kept."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ocbnn.cli.voice import Voice
from ocbnn.errors import OCBNNError

FOUND, WRONG_USE, OWN_MISTAKE, INTERRUPTED = 1, 2, 3, 130
"""Exit codes other than 0: a rule is in error or unmet; wrong input; a mistake of ours; Ctrl-C."""
FOLDER, LEAST_SECONDS = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


# Options that several commands share, so that they are called and explained alike everywhere ----------------


def number(help: str, **limits: Any) -> Any:
    """An option that is a number; `nan` and `inf`, which are within every range to Click, are refused."""

    def finite(value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise typer.BadParameter(f"{value:g} is not a finite number.")
        return value

    return typer.Option(callback=finite, help=help, **limits)


TABLE_HELP = "A table: .csv, .csv.gz or .parquet."

Table = Annotated[Path, typer.Argument(metavar="TABLE", help=f"{TABLE_HELP} Or a folder of such files.")]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `ocbnn fit` wrote.")]
Target = Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")]
Rules = Annotated[Path, typer.Option(metavar="FILE", help="The rules: a YAML file.")]
Task = Annotated[
    str | None, typer.Option(metavar="TASK", help="'regression' or 'classification'; default: by the target.")
]
Columns = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Declarations, a YAML file: `age: {unit: years, bounds: [18, 120]}`."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="A column that is not an input, such as an identifier; repeatable."),
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="indicator",
        help="'indicator' keeps rows with missing values: what is missing is an input of its own.",
    ),
]
Decimal = Annotated[str, typer.Option(metavar="MARK", help="The decimal mark of a CSV file: '.' or ','.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="The same seed gives the same result.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 if a rule is unmet.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback behind an error.")]


def hidden_units(text: str | None) -> tuple[int, ...] | None:
    """`50,50` as numbers.

    Raises:
        InputError: anything else.
    """
    if text is None:
        return None
    try:
        widths = tuple(int(width) for width in text.split(","))
    except ValueError:
        widths = ()
    if not widths or min(widths) < 1:
        raise InputError(f"--hidden takes numbers of units, such as 20 or 50,50, not {text!r}.")
    return widths


def noise(text: str | None) -> float | str | None:
    """`varying`, `constant`, or a number above 0.

    Raises:
        InputError: anything else.
    """
    if text in (None, "varying", "constant"):
        return text
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise InputError(
            f"--noise takes 'varying', 'constant', or a standard deviation above 0, not {text!r}."
        )
    return value


# Errors -----------------------------------------------------------------------------------------------------


class InputError(OCBNNError):
    """A file or an option that cannot be used."""


@contextmanager
def session(
    debug: bool, quiet: bool = False, *, aside: bool = False, compiles: bool = True
) -> Iterator[Voice]:
    """The body of a command: what goes wrong inside becomes a sentence on stderr and an exit code.

    Args:
        debug: let errors through, with their traceback.
        quiet: say only what went wrong.
        aside: leave stdout to data or JSON.
        compiles: keep the programs that JAX compiles.

    Yields:
        The voice to speak with.
    """
    try:
        if compiles:
            keep_compiled()
        yield Voice(quiet=quiet, aside=aside)
        sys.stdout.flush()  # a full disk behind a pipe shows only here
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt as interruption:
        raise _ended(str(interruption) or "Interrupted; nothing was kept.", INTERRUPTED) from None
    except Exception as error:
        if debug or isinstance(error, BrokenPipeError):  # the reader of a pipe may leave: no error
            raise
        raise _ended(*_sentence(error)) from None


def _sentence(error: Exception) -> tuple[str, int]:
    match error:
        case OCBNNError():
            return str(error), WRONG_USE
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}.", WRONG_USE
        case MemoryError():
            return "There is not enough memory for this. Give fewer rows, draws or hidden units.", WRONG_USE
    kind, said = type(error).__name__, str(error).strip() or "no message"
    return (
        f"This is a mistake in ocbnn, or an input that nobody thought of: {kind}: {said}\n"
        "The same command with --debug shows where it happened; please report it with that."
    ), OWN_MISTAKE


def _ended(text: str, code: int) -> typer.Exit:
    typer.echo(f"ocbnn: {text}", err=True)
    return typer.Exit(code)


# Compiled programs ------------------------------------------------------------------------------------------


def keep_compiled() -> None:
    """Keep JAX's compiled programs in the user's cache folder; a user's own setting stays.

    Only the command does this: a library that writes to a home folder because it was imported would not be
    welcome there. In Python, `JAX_COMPILATION_CACHE_DIR` does the same.
    """
    if FOLDER in os.environ:
        return
    from platformdirs import user_cache_path

    folder = user_cache_path("ocbnn", appauthor=False) / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # without a place to write to, every run compiles anew
    if os.access(folder, os.W_OK):
        os.environ[FOLDER] = str(folder)
        os.environ.setdefault(LEAST_SECONDS, "0.1")
        if "jax" in sys.modules:  # which reads its environment only while it is imported
            import jax

            jax.config.update(FOLDER.lower(), str(folder))  # type: ignore[no-untyped-call]
            jax.config.update(LEAST_SECONDS.lower(), 0.1)  # type: ignore[no-untyped-call]
