"""What the command says to people: words on stdout, warnings on stderr, and nothing where nobody asked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer

from ocbnn.errors import OCBNNWarning

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

STYLES = {"error": "red", "warning": "yellow", "info": "dim"}


@dataclass(frozen=True)
class Voice:
    """Who is spoken to.

    Attributes:
        quiet: say only what went wrong.
        aside: stdout belongs to data or JSON, so words go to stderr.
    """

    quiet: bool = False
    aside: bool = False

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        return Console(highlight=False, stderr=self.aside)

    def say(self, text: str = "", style: str | None = None) -> None:
        """Words; brackets in them are brackets, not Rich's markup."""
        if not self.quiet:
            self.console.print(text, style=style, markup=False, emoji=False, soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        """A table or anything else that Rich draws."""
        if not self.quiet:
            self.console.print(what)

    def warn(self, text: str) -> None:
        """What a user should know even if nothing else is to be said."""
        typer.echo(f"ocbnn: {text}", err=True)

    @property
    def shows_progress(self) -> bool:
        """Whether a bar makes sense; on pipes it shows itself to be none."""
        return not self.quiet

    @contextmanager
    def hearing_warnings(self, *, but: str | tuple[str, ...] | None = None) -> Iterator[None]:
        """Say the library's own warnings as sentences; those of other libraries are not for users.

        `but` is how warnings begin that the command puts in its own words.
        """
        told: set[str] = set()

        def tell(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            text = str(message)
            if issubclass(category, OCBNNWarning) and text not in told and not (but and text.startswith(but)):
                told.add(text)
                self.warn(text)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", OCBNNWarning)
            warnings.showwarning = tell
            yield


def print_json(value: Any) -> None:
    """One JSON document on stdout, for programs."""
    from ocbnn.storage.values import plain_text

    typer.echo(plain_text(value, indent=2), nl=False)
