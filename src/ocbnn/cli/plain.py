"""Results as JSON on stdout, for programs."""

from __future__ import annotations

from typing import Any

import typer


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    from ocbnn.storing.plain import plain_text

    typer.echo(plain_text(value, indent=2), nl=False)
