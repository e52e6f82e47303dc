"""Errors as sentences with exit codes, and where the traceback goes: nowhere, unless asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ocbnn.errors import OCBNNError

FOUND, WRONG_USE, OWN_MISTAKE, INTERRUPTED = 1, 2, 3, 130
"""Exit codes other than 0: a rule is in error or unmet; wrong input; a mistake of ours; Ctrl-C."""


class InputError(OCBNNError):
    """A file or an option that cannot be used."""


class Interrupted(Exception):  # noqa: N818 - no error: the user's wish
    """Ctrl-C, after what there is was saved; the message says how to go on."""


@contextmanager
def explained(debug: bool) -> Iterator[None]:
    """Turn what goes wrong inside into a sentence on stderr and an exit code; `debug` lets it through."""
    try:
        yield
        sys.stdout.flush()  # a full disk behind a pipe shows only here
    except (typer.Exit, typer.Abort):
        raise
    except Interrupted as interruption:
        raise _ended(str(interruption), INTERRUPTED) from None
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
