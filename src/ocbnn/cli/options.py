"""Options that several commands share, so that they are called and explained alike everywhere."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer


def a_number(value: float | None) -> float | None:
    """Refuse `nan` and `inf`, which are within every range to Click."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value:g} is not a number that means anything here.")
    return value


TABLE_HELP = "A table: .csv, .csv.gz or .parquet."

Table = Annotated[Path, typer.Argument(metavar="TABLE", help=TABLE_HELP)]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `ocbnn fit` wrote.")]
Target = Annotated[
    str, typer.Option(metavar="COLUMN", help="The column to predict: what the rules speak about.")
]
Rules = Annotated[Path, typer.Option(metavar="FILE", help="The rules: a YAML file.")]
Task = Annotated[
    str | None,
    typer.Option(metavar="TASK", help="'regression' or 'classification', where the guess is wrong."),
]
Columns = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What to declare about columns, a YAML file: `age: {unit: years, bounds: [18, 120]}`.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", metavar="COLUMN", help="A column that is no input, such as an identifier; repeatable."
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="The same seed gives the same result.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs, instead of words.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback behind an error.")]
