"""The `ocbnn` command: what the library does, for people who do not write Python.

Exit codes: 0 fine, 1 lint found errors, 2 wrong use or unreadable input (a sentence, never a traceback).
What a command needs is imported inside it, so that `ocbnn --help` answers at once.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ocbnn.errors import OCBNNError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from ocbnn.linting import Finding
    from ocbnn.rules.constraint import Constraint
    from ocbnn.schema import Schema

POINTS_SHOWN = 3

app = typer.Typer(
    name="ocbnn",
    help="Neural networks that obey what experts know.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback behind an error.")]


class InputError(OCBNNError):
    """A file that cannot be read."""


def main() -> None:
    """The entry point of the `ocbnn` command."""
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


@app.command()
def demo(
    save: Annotated[
        Path | None, typer.Option(help="Also write clinic.csv and rules.yaml into this folder, to play with.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Read, lint and sample the rules of an invented clinic."""
    with _explained(debug):
        from ocbnn.datasets import clinic
        from ocbnn.linting import lint
        from ocbnn.rules.files import load_rules
        from ocbnn.schema import Schema

        table = clinic.table()
        schema = Schema.infer(table, target=clinic.TARGET, columns=clinic.COLUMNS)
        with clinic.rules_path() as path:
            rules = load_rules(path, schema)
            if save is not None:
                _save_example(table, path, save)
        console = _console()
        _show_table(console, schema, len(table))
        _show_rules(console, rules, schema)
        _show_findings(console, lint(rules, schema, table))
        _show_points(console, rules, schema, table)
        if save is not None:
            _say(
                console,
                f"\nWritten to {save}. Change a rule and ask again:\n"
                f"  ocbnn lint {save / 'clinic.csv'} --target {clinic.TARGET} --rules {save / 'rules.yaml'}",
            )


@app.command("lint")
def lint_command(
    table: Annotated[Path, typer.Argument(help="The data: .csv, .csv.gz or .parquet.")],
    target: Annotated[str, typer.Option(help="The column the rules speak about.")],
    rules: Annotated[Path, typer.Option(help="The rules: a YAML file.")],
    task: Annotated[
        str | None, typer.Option(help="'regression' or 'classification', where the guess is wrong.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Say what is wrong with a file of rules before anything is fitted. Exit code 1: there are errors."""
    with _explained(debug):
        from ocbnn.linting import lint
        from ocbnn.rules.files import load_rules
        from ocbnn.schema import Schema

        frame = read_table(table)
        schema = Schema.infer(frame, target=target, task=task)  # type: ignore[arg-type]  # infer checks it
        constraints = load_rules(rules, schema)
        complete = frame.dropna()
        console = _console()
        if len(complete) < len(frame):
            _say(console, f"{len(frame) - len(complete)} rows with missing values are left out.")
        findings = lint(constraints, schema, complete if len(complete) else None)
        _show_findings(console, findings)
    raise typer.Exit(1 if any(finding.severity == "error" for finding in findings) else 0)


def read_table(path: Path) -> pd.DataFrame:
    """A CSV (plain or gzipped) or Parquet file.

    Raises:
        InputError: no such file, another format, or contents that are not what the name says.
    """
    import pandas as pd

    name = path.name.lower()
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        if name.endswith((".csv", ".csv.gz")):
            return pd.read_csv(path)
        if name.endswith(".parquet"):
            return pd.read_parquet(path)
    except ImportError:
        raise InputError(f"Reading {path} needs pyarrow: pip install pyarrow. Or save it as CSV.") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:  # pandas' and pyarrow's are ValueErrors
        raise InputError(f"{path} cannot be read: {str(error).strip().rstrip('.')}.") from error
    raise InputError(f"{path} is not a table this command reads; give a .csv, .csv.gz or .parquet file.")


@contextmanager
def _explained(debug: bool) -> Iterator[None]:
    """Turn what ocbnn refuses into its sentence and exit code 2."""
    try:
        yield
    except OCBNNError as error:
        if debug:
            raise
        typer.echo(f"ocbnn: {error}", err=True)
        raise typer.Exit(2) from None


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _say(console: Console, text: str, style: str | None = None) -> None:
    """Print words that may hold brackets, which Rich would take for markup."""
    console.print(text, style=style, markup=False, soft_wrap=True)


def _save_example(table: pd.DataFrame, rules: Path, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        table.to_csv(folder / "clinic.csv", index=False)
        (folder / "rules.yaml").write_text(rules.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise InputError(f"The example cannot be written to {folder}: {error}.") from error


def _show_table(console: Console, schema: Schema, rows: int) -> None:
    from rich.table import Table

    _say(console, f"The table: {rows} patients of an invented clinic", "bold")
    shown = Table(box=None, pad_edge=False)
    for heading in ("column", "kind", "observed", "unit"):
        shown.add_column(heading, header_style="dim")
    for column in schema.columns:
        low, high = column.observed
        observed = ", ".join(map(str, column.levels)) or f"{low:g} to {high:g}"
        shown.add_row(column.name, column.kind, observed, column.unit or "")
    console.print(shown)
    if schema.target is not None:
        classes = " or ".join(map(str, schema.target.classes))
        _say(console, f"To predict: {schema.target.name}, {classes or 'a number'}\n")


def _show_rules(console: Console, rules: Sequence[Constraint], schema: Schema) -> None:
    _say(console, f"The rules, as understood ({len(rules)})", "bold")
    for rule in rules:
        _say(console, f"  {rule.name}", "cyan")
        _say(console, f"    {rule.text(schema)}")
        if rule.source:
            _say(console, f"    {rule.source}", "dim")
    _say(console, "")


def _show_findings(console: Console, findings: Sequence[Finding]) -> None:
    if not findings:
        _say(console, "Nothing is wrong with the rules.", "green")
        return
    counted = Counter(finding.severity for finding in findings)
    tally = ", ".join(f"{count} × {severity}" for severity, count in counted.items())
    _say(console, f"Findings: {tally}", "bold")
    styles = {"error": "red", "warning": "yellow"}
    for finding in findings:
        heading = f"  {finding.severity}, {finding.kind}: {' · '.join(finding.rules)}"
        _say(console, heading, styles.get(finding.severity, "dim"))
        _say(console, f"    {finding.text}")
    _say(console, "")


def _show_points(console: Console, rules: Sequence[Constraint], schema: Schema, table: pd.DataFrame) -> None:
    from ocbnn.regions import default_sampler, sample

    _say(console, "Points drawn inside each rule's region: there the network will be held to it", "bold")
    data = schema.encode(table)
    for number, rule in enumerate(rules):
        sampler = default_sampler(rule.region, schema, data)
        points = schema.decode(sample(number, rule.region, schema, data, POINTS_SHOWN, sampler))
        ruled = [name for name in schema.names if name in rule.region.columns()]
        _say(console, f"  {rule.name} (sampler: {sampler})", "cyan")
        for point in points.to_dict("records"):
            _say(console, "    " + _in_words(point, ruled, schema))


def _in_words(point: Mapping[Any, object], ruled: Sequence[str], schema: Schema) -> str:
    """`creatinine 2.4 mg/dL, urine 11 mL/h; MAP 61 mmHg, …`: the ruled columns first."""

    def described(name: str) -> str:
        value, unit = point[name], schema.column(name).unit
        number = f"{value:.3g}" if isinstance(value, float) else str(value)
        return f"{name} {number}" + (f" {unit}" if unit else "")

    others = [name for name in schema.names if name not in ruled]
    return "; ".join(", ".join(map(described, names)) for names in (ruled, others) if names)
