"""What `lint`, `fit` and `learn-prior` read alike: a table, what is declared about its columns, and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocbnn.cli.failures import InputError
from ocbnn.cli.tables import complete_rows, read_table, require_columns
from ocbnn.errors import SchemaError

if TYPE_CHECKING:
    import pandas as pd

    from ocbnn.cli.voice import Voice
    from ocbnn.rules.constraint import Constraint
    from ocbnn.schema import Schema


@dataclass(frozen=True, eq=False)
class Inputs:
    """A table as it was understood, with its rules.

    Attributes:
        frame: the complete rows, inputs and target.
        schema: of the whole table.
        rules: as constraints.
        columns: what was declared about columns, for estimators.
        adopted: whether the schema is that of a learnt prior, which brings its own.
    """

    frame: pd.DataFrame
    schema: Schema
    rules: tuple[Constraint, ...]
    columns: Mapping[str, Mapping[str, Any]]
    adopted: bool = False

    @property
    def target(self) -> str:
        """The name of the column to predict."""
        assert self.schema.target is not None
        return self.schema.target.name


def read_inputs(
    table: Path,
    target: str,
    rules: Path | None,
    voice: Voice,
    *,
    task: str | None = None,
    columns: Path | None = None,
    ignore: Sequence[str] | None = None,
    schema: Schema | None = None,
) -> Inputs:
    """The table, schema and rules behind three files; a schema that is given is that of a learnt prior.

    Raises:
        OCBNNError: any of them cannot be used, with the cause and the remedy.
    """
    from ocbnn.rules.files import load_rules

    declared = {} if columns is None else read_columns(columns)
    frame = without_columns(read_table(table), ignore or (), target, table)
    adopted = schema is not None
    if schema is None:
        schema = _inferred(frame, target, task, declared, table)
    else:
        _require_fitting(schema, target, task, columns)
    require_columns(frame, [*schema.names, target], table)
    constraints = () if rules is None else load_rules(rules, schema)
    complete = complete_rows(frame, [*schema.names, target], voice)
    return Inputs(complete, schema, constraints, declared, adopted)


def _inferred(
    frame: pd.DataFrame, target: str, task: str | None, declared: Mapping[str, Any], table: Path
) -> Schema:
    from ocbnn.schema import Schema

    try:
        return Schema.infer(frame, target=target, task=task, columns=declared)  # type: ignore[arg-type]
    except SchemaError as error:
        raise InputError(f"{table}: {_for_commands(str(error))}") from error


def _require_fitting(schema: Schema, target: str, task: str | None, columns: Path | None) -> None:
    """Refuse what a user says besides a learnt prior, where it does not fit it."""
    known = schema.target
    assert known is not None
    if columns is not None:
        raise InputError("--columns: the prior brings its columns; declare them when it is learnt.")
    if target != known.name:
        raise InputError(f"The prior was learnt for the target {known.name!r}, not for {target!r}.")
    if task is not None and task != known.task:
        raise InputError(f"The prior was learnt for {known.task}, not for {task!r}.")


def _for_commands(text: str) -> str:
    """The schema's sentence, with what its remedies are called on the command line."""
    if "columns=" in text or "drop" in text.lower():
        text += " (Here, --ignore COLUMN leaves a column out, and --columns FILE declares what it is.)"
    return text


def read_unseen(table: Path, schema: Schema, voice: Voice) -> pd.DataFrame:
    """Complete rows of a table with all columns of a model and its target."""
    frame = read_table(table)
    assert schema.target is not None
    wanted = [*schema.names, schema.target.name]
    require_columns(frame, wanted, table)
    return complete_rows(frame, wanted, voice)


def without_columns(frame: pd.DataFrame, ignore: Sequence[str], target: str, table: Path) -> pd.DataFrame:
    """The table without the columns to be ignored."""
    require_columns(frame, ignore, table)
    if target in ignore:
        raise InputError(f"{target!r} is the target, so it cannot be ignored.")
    return frame.drop(columns=list(ignore))


def read_columns(path: Path) -> dict[str, dict[str, Any]]:
    """What a YAML file declares about columns: a mapping of names to options.

    Raises:
        OCBNNError: a file that cannot be read, or holds something else.
    """
    from ocbnn.storage.documents import read_yaml, yaml_value

    node = read_yaml(path)
    found = None if node is None else yaml_value(node)
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise InputError(
            f"{path} does not declare columns; write one line for each: "
            "`age: {unit: years, bounds: [18, 120]}`."
        )
    return {name: _options(options) for name, options in found.items()}


def _options(options: dict[str, Any]) -> dict[str, Any]:
    return {
        option: tuple(value) if option == "bounds" and isinstance(value, list) else value
        for option, value in options.items()
    }
