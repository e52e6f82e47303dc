"""Tables larger than memory: files of rows, read in pieces.

One streaming pass reads every file once. It keeps the labels of every column, mean, spread, range and two
quantiles of every number, and `SAMPLE` rows by chance, which stand for all where a few suffice: for the
transforms of columns, for points of rules, for probes. Quantiles are those of Arrow's t-digest with
`CENTROIDS` centroids. Engines that take minibatches then read row groups in another order in each pass over
the rows; rows are shuffled within `WINDOW` of them.

What is drawn by lot depends on a row's number, counted through the files in the order of their names: which
rows are sampled, and which are held out.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from ocbnn.errors import OCBNNError, SchemaError
from ocbnn.estimators.tables import Rows
from ocbnn.model import Data
from ocbnn.resources import require_disk, require_memory
from ocbnn.schema import Column, Schema
from ocbnn.schema.columns import Target
from ocbnn.schema.files import (
    blocks_of,
    family,
    largest_group,
    reading,
    require_alike,
    require_format,
    shown_types,
    table_files,
    table_format,
)
from ocbnn.schema.infer import OBSERVED_QUANTILES, guess_kind, guess_task
from ocbnn.schema.reading import did_you_mean, listed
from ocbnn.seeds import seed_for
from ocbnn.storage.files import explained, partial

SAMPLE = 100_000
"""Rows that are held in memory. A table of no more rows is fitted as any table in memory is."""
CENTROIDS = 1000
"""Of a t-digest: a quantile is then off by less than 0.01% of the rows."""
WINDOW = 2**20
"""Rows within which are shuffled: 12 columns of them take 50 MB."""
LARGEST_GROUP = WINDOW // 4
"""Rows of a row group beyond which a file is copied in smaller ones, so that a window has several."""
LEAST_COPIED = 0.1
"""Bytes of the copy for a byte of a file, from below: labels that repeat take little."""
MOST_DISTINCT = 10_000
"""Labels of a column that are kept: with more of them it is an identifier."""


Described = TypeVar("Described", Column, Target)


class Group(NamedTuple):
    """Rows of a file that are read together.

    Attributes:
        path: of the Parquet file.
        place: of the row group in it.
        first: number of the first row, through all files.
        kept: how many rows are fitted.
    """

    path: Path
    place: int
    first: int
    kept: int


class Facts(NamedTuple):
    """What the pass has found of a column of numbers."""

    mean: float
    sd: float
    least: float
    largest: float
    observed: tuple[float, float]
    missing: int
    whole: bool


def is_in_files(X: Any) -> bool:
    """Whether X is a table in files."""
    return isinstance(X, str | os.PathLike | LargeTable)


@dataclass(eq=False)
class LargeTable:
    """A table in files, after one pass over them.

    Attributes:
        path: a folder of .parquet, .csv and .csv.gz files, or one such file.
        target: the column to predict.
        ignore: columns that are no inputs.
        share: of the rows kept from the fit, by a hash of the row's number.
        seed: of the sample and of the rows held out.
        missing: "indicator" keeps rows with missing inputs.
        rows: how many rows there are.
        left_out: how many of them lack a value that is needed.
        incomplete: how many lack it in which column.
        groups: where rows are read from.
        levels: the labels of texts, and of the target.
        facts: of numbers, of the rows that are fitted.
    """

    path: Path
    target: str
    ignore: tuple[str, ...] = ()
    share: float = 0.0
    seed: int = 0
    missing: str | None = None
    rows: int = field(default=0, init=False)
    incomplete: dict[str, int] = field(default_factory=dict, init=False)
    left_out: int = field(default=0, init=False)
    groups: list[Group] = field(default_factory=list, init=False)
    levels: dict[str, set[Any]] = field(default_factory=dict, init=False)
    facts: dict[str, Facts] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        if self.path.is_file():
            require_format(self.path)
        self.files = [self.path] if self.path.is_file() else table_files(self.path)
        self._types = require_alike(self.files, shown_types)
        for name in (self.target, *self.ignore):
            if name not in self._types:
                known = list(self._types)
                hint = did_you_mean(name, known)
                raise SchemaError(f"{self.path} has no column {name!r}; there are {listed(known)}.{hint}")
        self.inputs = [name for name in self._types if name not in (self.target, *self.ignore)]
        self._sampled = _Sampled(seed_for(self.seed, "sample"))
        self._read()

    @property
    def _arrow(self) -> Any:
        import pyarrow.compute

        return pyarrow

    @property
    def fitted(self) -> int:
        """How many rows are fitted."""
        return sum(group.kept for group in self.groups)

    @property
    def held_out(self) -> int:
        """How many are held out."""
        return self.rows - self.left_out - self.fitted

    @property
    def whole(self) -> bool:
        """Whether the sample is all of it."""
        return self.rows - self.left_out <= SAMPLE

    @cached_property
    def _sample(self) -> tuple[pd.DataFrame, np.ndarray]:
        numbers, table = self._sampled.all()
        return table.to_pandas(ignore_metadata=True).set_axis(numbers), self.is_held(numbers)

    @property
    def sample(self) -> pd.DataFrame:
        """Complete rows by chance, inputs and target, with their numbers as index; held-out ones too."""
        return self._sample[0]

    @property
    def train(self) -> pd.DataFrame:
        """Those of the sample that are fitted."""
        frame, held = self._sample
        return frame[~held]

    @property
    def rest(self) -> pd.DataFrame:
        """Those of the sample that are held out."""
        frame, held = self._sample
        return frame[held]

    def is_held(self, numbers: np.ndarray) -> np.ndarray:
        """Which rows are held out, by their numbers."""
        return hashed(numbers, seed_for(self.seed, "held out")) < self.share

    # The pass -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        arrow = self._arrow
        from pyarrow import acero

        names = [name for name, kind in self._types.items() if self._is_number(name, kind)]
        self._whole = dict.fromkeys(names, True)
        # All rows are one group: of groups Arrow gives several quantiles of one digest.
        schema = arrow.schema([(str(i), arrow.float64()) for i in range(len(names))])
        schema = schema.append(arrow.field("all", arrow.int8()))
        reader = arrow.RecordBatchReader.from_batches(schema, self._kept_numbers(names, schema))
        source = acero.Declaration(
            "record_batch_reader_source", acero.RecordBatchReaderSourceNodeOptions(reader)
        )
        wanted = [each for i in range(len(names)) for each in _aggregates(arrow, str(i))]
        reduced = acero.Declaration("aggregate", acero.AggregateNodeOptions(wanted, keys=["all"]))
        plan = acero.Declaration.from_sequence([source, reduced])
        rows = plan.to_table(use_threads=False).to_pylist()  # threads would change the digests' last digits
        for i, name in enumerate(names):
            found: dict[str, Any] = {}
            if rows:
                found = {figure: rows[0][f"{i}.{figure}"] for figure in AGGREGATES}
            if found.get("mean") is None:
                raise SchemaError(f"Column {name!r} of {self.path} has no value in any row; leave it out.")
            self.facts[name] = Facts(
                found["mean"],
                found["stddev"],
                found["min_max"]["min"],
                found["min_max"]["max"],
                tuple(found["tdigest"]),
                found["count"],
                self._whole[name],
            )

    def _is_number(self, name: str, kind: Any) -> bool:
        return name not in self.ignore and family(kind) == "number"

    def _kept_numbers(self, names: Sequence[str], schema: Any) -> Iterator[Any]:
        """The numbers of the rows that are fitted, block by block; all else is looked at on the way."""
        arrow, compute = self._arrow, self._arrow.compute
        for path, index, batch in self._batches():
            numbers = np.arange(self.rows, self.rows + batch.num_rows)
            self.rows += batch.num_rows
            complete = self._complete(batch, count=True)
            self._sampled.add(numbers[complete], batch.filter(arrow.array(complete)))
            self._see_labels(batch)
            kept = complete & ~self.is_held(numbers)
            if self.groups and (self.groups[-1].path, self.groups[-1].place) == (path, index):
                last = self.groups.pop()
                self.groups.append(last._replace(kept=last.kept + int(kept.sum())))
            else:
                self.groups.append(Group(path, index, int(numbers[0]), int(kept.sum())))
            some = batch.filter(arrow.array(kept))
            columns = [_as_numbers(arrow, some[name]) for name in names]
            for name, column in zip(names, columns, strict=True):
                if compute.any(compute.is_inf(column)).as_py():
                    raise SchemaError(
                        f"Column {name!r} of {path} is infinite in a row; give a finite value, or leave the "
                        "row out."
                    )
                if self._whole[name]:
                    self._whole[name] = (
                        compute.all(compute.equal(compute.round(column), column)).as_py() is not False
                    )
            columns.append(arrow.array(np.zeros(some.num_rows, np.int8)))
            yield arrow.record_batch(columns, schema=schema)

    def _batches(self) -> Iterator[tuple[Path, int, Any]]:
        """Every block of rows, with the file and the row group where it can be read again."""
        import pyarrow.parquet as parquet

        writer, copied = None, 0
        names = [*self.inputs, self.target]
        try:
            for path in self.files:
                is_copied = _is_copied(path)
                for index, batch in blocks_of(path, names, self._types):
                    tidy = _tidied(self._arrow, batch)
                    if not tidy.num_rows:
                        continue
                    if not is_copied:
                        yield path, index, tidy
                        continue
                    if writer is None:
                        place = self._scratch() / "rows.parquet"
                        writer = parquet.ParquetWriter(place, tidy.schema)
                    with explained(place):
                        writer.write_batch(tidy.cast(writer.schema), row_group_size=tidy.num_rows)
                    yield place, copied, tidy
                    copied += 1
        finally:
            if writer is not None:
                writer.close()

    def _scratch(self) -> Path:
        """A folder for the rows that are copied, as long as this table lives; nobody else can read it.

        What killed processes have left of theirs is removed first.
        """
        place = Path(tempfile.gettempdir())
        copied = sum(path.stat().st_size for path in self.files if _is_copied(path))
        require_disk(
            place, copied * LEAST_COPIED, f"A copy of {self.path}", "Set TMPDIR to a folder on a larger disk."
        )
        stack = ExitStack()
        weakref.finalize(self, stack.close)
        with explained(place):
            scratch = stack.enter_context(partial(place / "ocbnn-rows", folder=True))
            scratch.chmod(0o700)
        return scratch

    def _complete(self, batch: Any, *, count: bool = False) -> np.ndarray:
        """The rows with all values that are needed; what the others lack is counted where asked for."""
        complete = np.ones(batch.num_rows, dtype=bool)
        for name in [self.target] if self.missing == "indicator" else [*self.inputs, self.target]:
            absent = ~np.asarray(_nulls(self._arrow, batch[name]).is_valid())
            complete &= ~absent
            if count and absent.any():
                self.incomplete[name] = self.incomplete.get(name, 0) + int(absent.sum())
        self.left_out += int((~complete).sum()) if count else 0
        return complete

    def _see_labels(self, batch: Any) -> None:
        for name in (*self.inputs, self.target):
            if family(self._types[name]) == "number" and name != self.target:
                continue
            known = self.levels.setdefault(name, set())
            if len(known) <= MOST_DISTINCT:
                known.update(value for value in batch[name].unique().to_pylist() if value is not None)

    # What a fit needs ---------------------------------------------------------------------------------------

    def declared(self, own: Mapping[str, Mapping[str, Any]], task: str | None) -> dict[str, dict[str, Any]]:
        """What the pass says of columns, for `Schema.infer` of the sample: kinds of numbers, all labels.

        Args:
            own: what the user has declared, which has the last word.
            task: where it is known.
        """
        found: dict[str, dict[str, Any]] = {}
        for name in self.inputs:
            options = own.get(name, {})
            kind = options.get("kind")
            if options.get("levels") is not None or kind not in (None, "category"):
                continue
            if family(self._types[name]) == "text" and len(self.levels[name]) <= MOST_DISTINCT:
                if kind is None:
                    guess_kind(self._with_all_levels(name), name)
                found[name] = {"levels": sorted(self.levels[name])}
            elif name in self.facts and kind is None:
                found[name] = {"kind": self._kind(name)}
        key = "y" if "y" in own and "y" not in self._types else self.target
        if own.get(key, {}).get("levels") is None and len(self.levels[self.target]) <= MOST_DISTINCT:
            task = task or guess_task(self.sample[self.target], self.target)
            if task == "classification":
                found[key] = {"levels": sorted(self.levels[self.target])}
        return {name: {**found.get(name, {}), **own.get(name, {})} for name in {**found, **own}}

    def _with_all_levels(self, name: str) -> pd.Series:
        """A column of the sample, and below it the labels that it lacks: what speaks against a category."""
        sample = self.sample[name]
        rest = sorted(self.levels[name] - set(sample))
        return pd.concat([sample, pd.Series(rest, ["not in the sample"] * len(rest), sample.dtype)])

    def _kind(self, name: str) -> str:
        facts, kind = self.facts[name], self._types[name]
        if facts.whole and (facts.least, facts.largest) == (0.0, 1.0):
            return "binary"
        stored = self._arrow.types.is_integer(kind) or bool(facts.missing)
        return "integer" if stored and facts.whole else "continuous"

    def completed(self, rows: Rows) -> Rows:
        """The sample's rows as they stand for all rows: with their weight, and the schema of all of them."""
        schema = rows.schema
        columns = tuple(self._completed(column) for column in schema.columns)
        target = schema.target
        if target is not None and target.task == "regression":
            target = self._completed(target)
        weights = rows.weights * (self.fitted / rows.weights.sum())
        return replace(rows, schema=Schema(columns, target), weights=weights)

    def _completed(self, column: Described) -> Described:
        """The column with range, center and scale of all rows; those of other scales are the sample's."""
        facts = self.facts.get(column.name)
        if facts is None or getattr(column, "kind", "") == "category":
            return column
        if getattr(column, "kind", "") != "binary":
            low, high = facts.observed
            ends = (float(np.floor(low)), float(np.ceil(high))) if facts.whole else (low, high)
            column = replace(column, observed=ends)
        if isinstance(column, Column) and column.indicator:
            column = replace(column, mean=facts.mean, missing=facts.missing)
        if column.transform == ("standardize" if isinstance(column, Column) else "none"):
            column = replace(column, center=facts.mean, scale=facts.sd if facts.sd > 0.0 else 1.0)
        return column

    def stream(self, schema: Schema) -> RowStream:
        """All rows in model units, for engines that take minibatches.

        Raises:
            ResourceError: the rows of a window do not fit into memory.
        """
        rows = min(self.fitted, WINDOW)
        require_memory(
            2 * rows * (schema.width + 1) * np.dtype(np.float32).itemsize,
            f"{rows:,} rows of {schema.width:,} inputs, which are shuffled together,",
            "Leave columns out, or declare fewer levels.",
        )
        return RowStream(self, schema)

    @property
    def identity(self) -> list[Any]:
        """What tells this table from another one."""
        files = [[each.name, each.stat().st_size, each.stat().st_mtime_ns] for each in self.files]
        return [files, self.target, list(self.ignore), self.share, self.seed, self.missing]

    def group_rows(self, group: Group) -> pd.DataFrame:
        """The rows of a row group that are fitted."""
        import pyarrow.parquet as parquet

        with reading(group.path), parquet.ParquetFile(group.path) as file:
            table = file.read_row_group(group.place, columns=[*self.inputs, self.target])
        batch = _tidied(self._arrow, table.combine_chunks())
        numbers = np.arange(group.first, group.first + table.num_rows)
        kept = self._complete(batch) & ~self.is_held(numbers)
        if int(kept.sum()) != group.kept:
            raise SchemaError(f"{group.path} has changed since the fit began. Begin again.")
        return batch.filter(self._arrow.array(kept)).to_pandas(ignore_metadata=True).set_axis(numbers[kept])


def _is_copied(path: Path) -> bool:
    """Whether rows of a file must be copied to be read in small groups in any order."""
    return table_format(path) != ".parquet" or largest_group(path) > LARGEST_GROUP


class RowStream:
    """All rows of a large table in model units, in an endless sequence of shuffled passes.

    Attributes:
        table: where they are.
        schema: what they mean.
        groups: where they are in its files.
        rows: how many there are.
    """

    def __init__(self, table: LargeTable, schema: Schema, groups: Sequence[Group] | None = None) -> None:
        self.table, self.schema = table, schema
        self.groups = table.groups if groups is None else groups
        self.rows = sum(group.kept for group in self.groups)
        self._held: tuple[tuple[int, int, int], Data] | None = None

    @property
    def identity(self) -> list[Any]:
        """What tells these rows from others."""
        return self.table.identity

    def share(self, index: int, count: int) -> RowStream:
        """Every `count`-th row group, from the one of that index on.

        Raises:
            OCBNNError: there are fewer row groups than shares.
        """
        groups = [group for group in self.groups if group.kept][index::count]
        if not groups:
            raise OCBNNError(
                f"{self.table.path} has fewer row groups than the {count} processes that read it."
            )
        return self if count == 1 else RowStream(self.table, self.schema, groups)

    def take(self, seed: int, start: int, count: int) -> Data:
        """Rows `start` to `start + count` of the sequence; each pass has every row once."""
        inputs, y = [], []
        while count:
            turn, offset = divmod(start, self.rows)
            for number, groups in enumerate(self._windows(seed, turn)):
                size = sum(group.kept for group in groups)
                if offset >= size:
                    offset -= size
                    continue
                data = self._window(seed, turn, number, groups)
                some = slice(offset, offset + count)
                inputs.append(data.inputs[some])
                y.append(data.y[some])
                start, count, offset = start + len(y[-1]), count - len(y[-1]), 0
                if not count:
                    break
        return Data(np.concatenate(inputs), np.concatenate(y))

    def _windows(self, seed: int, turn: int) -> Iterator[list[Group]]:
        """The row groups of a pass in its order, in windows."""
        groups = self.groups
        window: list[Group] = []
        for place in np.random.default_rng(seed_for(seed, "row groups", turn)).permutation(len(groups)):
            window.append(groups[place])
            if sum(group.kept for group in window) >= WINDOW:
                yield window
                window = []
        if window:
            yield window

    def _window(self, seed: int, turn: int, number: int, groups: Sequence[Group]) -> Data:
        """The rows of a window, shuffled; the latest is kept, for minibatches come one after the other."""
        key = (seed, turn, number)
        if self._held is None or self._held[0] != key:
            parts = [self._decoded(group) for group in groups if group.kept]
            order = np.random.default_rng(seed_for(seed, "rows", turn, number)).permutation(
                sum(len(part.y) for part in parts)
            )
            inputs = np.concatenate([part.inputs for part in parts])[order]
            self._held = (key, Data(inputs, np.concatenate([part.y for part in parts])[order]))
        return self._held[1]

    def _decoded(self, group: Group) -> Data:
        frame, target = self.table.group_rows(group), self.schema.target
        assert target is not None
        try:
            inputs = self.schema.to_model(self.schema.encode(frame)).astype(np.float32)
            return Data(inputs, np.asarray(target.to_model(frame[target.name])).astype(np.float32))
        except SchemaError as error:
            raise SchemaError(f"{group.path}: {error}") from None


class _Sampled:
    """Rows by chance: those whose numbers have the least hashes."""

    def __init__(self, seed: int) -> None:
        self.seed, self.most = seed, 1.0
        self.parts: list[tuple[np.ndarray, np.ndarray, Any]] = []

    def add(self, numbers: np.ndarray, rows: Any) -> None:
        """See further rows; `rows` is a record batch."""
        keys = hashed(numbers, self.seed)
        chosen = np.flatnonzero(keys <= self.most)
        if len(chosen):
            self.parts.append((keys[chosen], numbers[chosen], rows.take(chosen)))
        if sum(len(keys) for keys, _, _ in self.parts) > 2 * SAMPLE:
            self.parts = [self._least()]
            self.most = float(self.parts[0][0].max())

    def all(self) -> tuple[np.ndarray, Any]:
        """The numbers of the rows in order, and the rows as a table."""
        _, numbers, rows = self._least()
        return numbers, rows

    def _least(self) -> tuple[np.ndarray, np.ndarray, Any]:
        import pyarrow as arrow

        if not self.parts:
            raise SchemaError("The table has no complete row, so nothing can be learnt from it.")
        keys = np.concatenate([keys for keys, _, _ in self.parts])
        numbers = np.concatenate([numbers for _, numbers, _ in self.parts])
        tables = [rows if isinstance(rows, arrow.Table) else arrow.table(rows) for _, _, rows in self.parts]
        least = np.sort(np.argsort(keys, kind="stable")[:SAMPLE])
        table = arrow.concat_tables(tables, promote_options="permissive").take(least)
        return keys[least], numbers[least], table


def hashed(numbers: np.ndarray, seed: int) -> np.ndarray:
    """A number in [0, 1) for each row's number, by splitmix64: the same wherever the row is read."""
    with np.errstate(over="ignore"):
        mixed = np.asarray(numbers).astype(np.uint64) + np.uint64(1)
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)) / 2.0**53


def _tidied(arrow: Any, batch: Any) -> Any:
    """The batch with plain values instead of dictionaries, as one record batch."""
    if isinstance(batch, arrow.Table):
        (batch,) = batch.to_batches() or [arrow.RecordBatch.from_pylist([], schema=batch.schema)]
    for place, each in enumerate(batch.schema):
        if arrow.types.is_dictionary(each.type):
            batch = batch.set_column(place, each.name, batch.column(place).dictionary_decode())
    return batch


def _nulls(arrow: Any, column: Any) -> Any:
    """The column with null for NaN."""
    if arrow.types.is_floating(column.type):
        return arrow.compute.if_else(arrow.compute.is_nan(column), None, column)
    return column


def _as_numbers(arrow: Any, column: Any) -> Any:
    return _nulls(arrow, column.cast(arrow.float64(), safe=False))


AGGREGATES = ("mean", "stddev", "min_max", "count", "tdigest")


def _aggregates(arrow: Any, name: str) -> Iterator[tuple[str, str, Any, str]]:
    compute = arrow.compute
    options = {
        "stddev": compute.VarianceOptions(ddof=0),
        "count": compute.CountOptions(mode="only_null"),
        "tdigest": compute.TDigestOptions(q=list(OBSERVED_QUANTILES), delta=CENTROIDS),
    }
    for figure in AGGREGATES:
        yield name, f"hash_{figure}", options.get(figure), f"{name}.{figure}"
