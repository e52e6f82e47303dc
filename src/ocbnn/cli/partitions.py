"""`ocbnn predict` of a folder: file by file, here or on workers, each written whole or not at all.

    out/part-0.parquet               predictions of in/part-0.parquet, in its order
    out/_summary.json                figures over all rows
    out/_predictions.json            which model, and which options
    out/_parts/part-0.parquet.json   of each file: what it was made of, its size, and its figures

Names that begin with an underscore are no part of the table for pyarrow, pandas and Dask. A record is written
just before its file takes its name. So a file with its record is done, and a restart does only the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocbnn.cli import tables
from ocbnn.cli.command import InputError
from ocbnn.cli.saved import as_table, flagged, predicted
from ocbnn.cli.voice import Voice
from ocbnn.errors import OCBNNError
from ocbnn.posterior.allowed import RowError, RulesAt
from ocbnn.posterior.predict import predict
from ocbnn.rules.constraint import Constraint
from ocbnn.schema.files import BLOCK, blocks_of, require_alike, stored_types, table_files, table_format
from ocbnn.storage.documents import json_bytes, parse_json
from ocbnn.storage.files import checksum, explained, partial, read_file, synchronise, write_bytes
from ocbnn.storage.folders import LARGEST_MANIFEST, MANIFEST

if TYPE_CHECKING:
    import pandas as pd

SUMMARY, IDENTITY, RECORDS = "_summary.json", "_predictions.json", "_parts"
PATIENCE = 10
"""Seconds to wait for the answer of a cluster."""
LARGEST_RECORD = 2**24
SPAWNED = "distributed.nanny.pre-spawn-environ"
THREADS = {"OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1}
"""The environment of workers. Dask's own also lets no freed memory be used again, which doubles the work."""
DASK = "Workers need Dask: pip install 'ocbnn[dask]'. Or leave --workers and --cluster out."


@dataclass(frozen=True)
class Part:
    """One file to predict, and all that a worker needs to know.

    Attributes:
        name: of the file within its folder.
        source: the folder it is in.
        out: the folder its predictions go to.
        model: the folder of the model.
        seal: checksum of the model's manifest: the model must not change while files are predicted.
        interval: probability that an interval contains the value.
        keep: columns to copy.
        decimal: the decimal mark of CSV files.
    """

    name: str
    source: Path
    out: Path
    model: Path
    seal: str
    interval: float
    keep: tuple[str, ...] = ()
    decimal: str = "."

    @property
    def path(self) -> Path:
        """The file to predict."""
        return self.source / self.name

    @property
    def target(self) -> Path:
        """Where its predictions go."""
        return self.out / self.name

    @property
    def record(self) -> Path:
        """Where its figures go."""
        return self.out / RECORDS / f"{self.name}.json"

    @property
    def identity(self) -> dict[str, Any]:
        """What all files of a folder of predictions have in common."""
        return {
            "model": self.seal,
            "interval": self.interval,
            "keep": list(self.keep),
            "decimal": self.decimal,
        }

    def done(self) -> dict[str, Any] | None:
        """Its figures, if its predictions are there whole, and were made of what the file holds now."""
        if not self.record.exists() or not self.target.exists():
            return None
        found = parse_json(read_file(self.record, LARGEST_RECORD), str(self.record))
        whole = isinstance(found, dict) and found.get("bytes") == self.target.stat().st_size
        return found["figures"] if whole and found.get("source") == stamp(self.path) else None


def stamp(path: Path) -> list[int]:
    """Size and time of change of a file."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


# The folder, at home ----------------------------------------------------------------------------------------


def predict_folder(
    estimator: Any, one: Part, voice: Voice, *, workers: int | None, cluster: str | None
) -> dict[str, Any]:
    """Predict all files of a folder, and reduce their figures to one summary, which is written too.

    Args:
        estimator: the model, to look at the files before any work.
        one: a part without a name: folders and options.
        voice: is told how far it is.
        workers: processes of this machine; None for this process alone.
        cluster: the address of a Dask scheduler.

    Raises:
        OCBNNError: a file that cannot be used, with its name. Files that are done stay, each whole.
    """
    names = [path.relative_to(one.source).as_posix() for path in table_files(one.source)]
    parts = [replace(one, name=name) for name in names]
    needed = tuple(dict.fromkeys((*estimator.schema_.names, *one.keep)))
    require_alike([part.path for part in parts], stored_types, needed, exact=one.keep)
    with _client(workers, cluster) as client:
        _open(one, parts)
        done = {part.name: found for part in parts if (found := part.done()) is not None}
        if done:
            voice.say(f"{len(done):,} of {len(parts):,} files are there already.")
        try:
            for part, found in _predicted([part for part in parts if part.name not in done], client):
                done[part.name] = found
                voice.say(f"{part.name}: {found['rows']:,} rows ({len(done):,} of {len(parts):,} files).")
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"Interrupted; {len(done):,} of {len(parts):,} files are done. The same command does the "
                "rest."
            ) from None
    summary = {"files": len(parts), **reduced([done[part.name] for part in parts])}
    write_bytes(one.out / SUMMARY, json_bytes(summary))
    return summary


def _open(one: Part, parts: Sequence[Part]) -> None:
    """Begin a folder of predictions; one that is begun there must be of the same model and options."""
    names = {part.name for part in parts}
    file = one.out / IDENTITY
    there = sorted(each for each in one.out.rglob("*") if each.is_file()) if one.out.is_dir() else []
    if not file.exists():
        if there:
            raise InputError(
                f"{one.out} holds {there[0].relative_to(one.out).as_posix()!r}, which is not of predictions "
                "that this command wrote. Give a folder of its own."
            )
        with explained(one.out):
            (one.out / RECORDS).mkdir(parents=True, exist_ok=True)
        write_bytes(file, json_bytes(one.identity))
        return
    found = parse_json(read_file(file, LARGEST_RECORD), str(file))
    changed = [name for name, value in one.identity.items() if dict(found or {}).get(name) != value]
    if changed:
        raise InputError(
            f"{one.out} holds predictions with another {' and another '.join(changed)}. Give another --out, "
            "or delete that folder."
        )
    for each in there:
        name = each.relative_to(one.out).as_posix()
        own = name in (IDENTITY, SUMMARY) or name.startswith(f"{RECORDS}/") or each.name.startswith(".")
        if not own and name not in names:
            raise InputError(
                f"{one.out} holds {name!r}, which has no file in {one.source}. Move it away, or give another "
                "--out."
            )


def _predicted(parts: Sequence[Part], client: Any) -> Iterator[tuple[Part, dict[str, Any]]]:
    """The figures of each part as it is done: by Dask's workers, or here where there is no client."""
    if client is None:
        for part in parts:
            yield part, predict_part(part)
        return
    from distributed import as_completed

    futures = {client.submit(predict_part, _absolute(part), pure=False): part for part in parts}
    try:
        for future in as_completed(list(futures)):
            yield futures[future], _result(future, futures[future])
    finally:
        client.cancel(list(futures))


def _absolute(part: Part) -> Part:
    """The same with absolute paths: workers may have another working directory."""
    paths = {name: Path(os.path.abspath(getattr(part, name))) for name in ("source", "out", "model")}
    return replace(part, **paths)  # type: ignore[arg-type]


def _result(future: Any, part: Part) -> dict[str, Any]:
    from distributed.scheduler import KilledWorker

    try:
        found: dict[str, Any] = future.result()
    except KilledWorker:
        raise InputError(
            f"Workers died at {part.path} again and again, probably for want of memory. Give fewer --workers "
            "or smaller files. What is done stays, and the same command does the rest."
        ) from None
    except (CancelledError, asyncio.CancelledError):
        raise InputError(
            "The Dask scheduler was lost. What is done stays, and the same command does the rest."
        ) from None
    except ImportError as error:
        raise InputError(
            f"The workers cannot import what they need ({error}): install ocbnn there."
        ) from None
    return found


@contextlib.contextmanager
def _client(workers: int | None, cluster: str | None) -> Iterator[Any]:
    """A client of the cluster at an address, or of so many processes here; None where neither is asked for.

    Raises:
        InputError: Dask is not installed, nobody answers, or processes cannot be started.
    """
    import logging

    if workers is None and cluster is None:
        yield None
        return

    try:
        import dask
        import distributed
    except ImportError:
        raise InputError(DASK) from None
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")  # of Dask about ports, versions and sizes: not for users
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            if cluster is None:
                with dask.config.set({SPAWNED: THREADS}):
                    local = distributed.LocalCluster(
                        n_workers=workers,
                        threads_per_worker=1,
                        dashboard_address=None,
                        silence_logs=logging.CRITICAL,
                    )
                stack.enter_context(local)
            client = distributed.Client(local if cluster is None else cluster, timeout=PATIENCE)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            said = str(error).rstrip(".")
            if cluster is None:
                raise InputError(f"{workers} worker processes cannot be started: {said}.") from None
            raise InputError(
                f"No Dask scheduler answers at {cluster} ({said}). Give its address, such as "
                "tcp://10.0.0.1:8786, or --workers for processes of this machine."
            ) from None
        yield stack.enter_context(client)


# One file, on a worker --------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _loaded(model: Path, seal: str) -> Any:
    from ocbnn.estimators import load

    if seal_of(model) != seal:
        raise InputError(f"{model} has changed since the command began. Begin again with another --out.")
    return load(model)


def seal_of(model: Path) -> str:
    """The checksum of a model's manifest, which has those of all its files."""
    return checksum(read_file(model / MANIFEST, LARGEST_MANIFEST))


def predict_part(part: Part) -> dict[str, Any]:
    """Predict one file, block by block, and give its figures.

    Raises:
        OCBNNError: with the name of the file.
    """
    estimator = _loaded(part.model, part.seal)
    source = stamp(part.path)
    try:
        with explained(part.target):
            for folder in (part.target.parent, part.record.parent):
                folder.mkdir(parents=True, exist_ok=True)
            with partial(part.target, folder=False) as fresh:
                found = _written(part, estimator, fresh)
                facts = {"source": source, "bytes": fresh.stat().st_size, "figures": found}
                part.target.unlink(missing_ok=True)  # predictions of what the file held before
                write_bytes(part.record, json_bytes(facts))
                fresh.replace(part.target)
            synchronise(part.target.parent)
    except OCBNNError as error:
        raise InputError(_with_file(str(error), part.path)) from None
    return found


def _with_file(said: str, path: Path) -> str:
    return said if str(path) in said else f"{path}: {said}"


def _written(part: Part, estimator: Any, fresh: Path) -> dict[str, Any]:
    """Write the predictions of all blocks of a file; the figures."""
    found = []
    with contextlib.ExitStack() as stack:
        write = stack.enter_context(_writer(part, estimator, fresh))
        for rows, kept in _blocks(part, estimator):
            table, counted = predicted_block(estimator, rows, part.interval)
            write(table, kept)
            found.append(counted)
    return reduced([{"rows": 0, **no_figures(estimator)}, *found])


def _blocks(part: Part, estimator: Any) -> Iterator[tuple[pd.DataFrame, Any]]:
    """The model's columns of each block of rows, numbered through the file, and the columns to copy."""
    names, keep = list(estimator.schema_.names), list(part.keep)
    if table_format(part.path) == ".parquet":
        import pyarrow as arrow

        first = 0
        for _, batch in blocks_of(part.path, tuple(dict.fromkeys((*names, *keep))), {}):
            table = arrow.Table.from_batches([batch])
            rows = table.select(names).to_pandas(ignore_metadata=True)
            yield rows.set_axis(range(first, first + len(rows))), table.select(keep)
            first += len(rows)
        return
    frame = tables.read_table(part.path, Voice(quiet=True), part.decimal)
    for first in range(0, len(frame), BLOCK):
        some = frame.iloc[first : first + BLOCK]
        yield some[names], some[keep]


@contextlib.contextmanager
def _writer(part: Part, estimator: Any, fresh: Path) -> Iterator[Any]:
    """A function that appends predictions and kept columns to the file."""
    kind = table_format(part.path)
    if kind != ".parquet":
        import gzip

        with (gzip.open if kind == ".csv.gz" else open)(fresh, "wt", encoding="utf-8", newline="") as stream:
            told = False

            def append(table: pd.DataFrame, kept: pd.DataFrame) -> None:
                nonlocal told
                kept.join(table).to_csv(stream, index=False, header=not told)
                told = True

            yield append
        return
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    given = parquet.read_schema(part.path)
    own = _arrow_fields(arrow, estimator)
    schema = arrow.schema([*(given.field(name) for name in part.keep), *own])
    with parquet.ParquetWriter(fresh, schema) as writer:

        def write(table: pd.DataFrame, kept: Any) -> None:
            columns = [arrow.array(table[each.name], type=each.type, from_pandas=True) for each in own]
            writer.write_table(arrow.Table.from_arrays([*kept.columns, *columns], schema=schema))

        yield write


def _arrow_fields(arrow: Any, estimator: Any) -> list[Any]:
    """The types of predictions, the same in all blocks: a block may miss what another has."""
    classes = list(estimator.posterior_.classes)
    label = arrow.array(classes).type if classes else arrow.float64()
    kinds = {"prediction": label, "outside": arrow.string(), "unseen": arrow.string()}
    return [arrow.field(name, kinds.get(name, arrow.float64())) for name in columns_of(estimator)]


def predicted_block(
    estimator: Any, rows: pd.DataFrame, interval: float
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Predictions of each row, empty where a value is missing, and the figures of the block."""
    import pandas as pd

    complete = rows[~rows[tables.needed_columns(estimator.schema_)].isna().any(axis=1)]
    if len(complete):
        try:
            found = predicted(estimator, complete, interval)
        except RowError as error:
            raise InputError(f"In row {complete.index[error.rows[0]]} {error.words}") from None
        table = as_table(estimator, complete, found).join(flagged(estimator, complete)).reindex(rows.index)
        values = found.point if found.probabilities is None else found.probabilities
        return table, {"rows": len(rows), **figures(estimator, estimator.schema_.encode(complete), values)}
    table = pd.DataFrame(index=rows.index, columns=columns_of(estimator), dtype=object)
    return table, {"rows": len(rows), **no_figures(estimator)}


def figures(estimator: Any, coded: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """What is counted of complete rows.

    Args:
        estimator: the model.
        coded: the rows.
        values: what is predicted there: y, or the probabilities of the classes.

    Returns:
        How many rows have a prediction, and how many lie outside of what the fit has seen, in all and by
        column. Of each rule, in how many rows it applies, and in how many of these the prediction violates
        it: before enforcement, and as it is written. None where a rule does not judge rows one by one.
    """
    schema, posterior = estimator.schema_, estimator.posterior_
    outside, rules = schema.outside(coded), rules_of(estimator)
    applies = [rule.applies(coded, schema) for rule in rules]
    before = values
    if posterior.rules_in_force:
        before = np.array(values)
        within = np.any(
            [where for where, rule in zip(applies, rules, strict=True) if one_by_one(rule)], axis=0
        )
        if np.any(within):
            free = replace(posterior, truncated=(), enforced=(), kept=None)
            found = predict(free, coded[within], levels=(), coverage=None)
            before[within] = found.point if found.probabilities is None else found.probabilities
    return {
        "predicted": len(coded),
        "outside": int(outside.any(axis=1).sum()),
        "outside_by_column": dict(zip(schema.names, outside.sum(axis=0).tolist(), strict=True)),
        "rules": [
            {
                "name": rule.name or rule.text(schema),
                "rows": int(where.sum()),
                "violations_before": _violations(rule, schema, coded, before),
                "violations": _violations(rule, schema, coded, values),
            }
            for rule, where in zip(rules, applies, strict=True)
        ],
    }


def no_figures(estimator: Any) -> dict[str, Any]:
    """The figures of no rows."""
    schema, classes = estimator.schema_, estimator.posterior_.classes
    return figures(
        estimator, np.zeros((0, len(schema.columns))), np.zeros((0, *([len(classes)] * bool(classes))))
    )


def rules_of(estimator: Any) -> tuple[Constraint, ...]:
    """The rules of a model, and those that are enforced on it besides."""
    posterior = estimator.posterior_
    return tuple(dict.fromkeys((*(term.rule for term in posterior.rules), *posterior.rules_in_force)))


def one_by_one(rule: Constraint) -> bool:
    """Whether the prediction of a single row keeps or violates it."""
    return not rule.is_predictive and rule.requirement.is_pointwise


def _violations(rule: Constraint, schema: Any, coded: np.ndarray, values: np.ndarray) -> int | None:
    return int(RulesAt((rule,), schema, coded).broken(values).sum()) if one_by_one(rule) else None


def columns_of(estimator: Any) -> list[str]:
    """The names of the columns of predictions."""
    classes, truncated = estimator.posterior_.classes, bool(estimator.posterior_.truncated)
    names = ["prediction", *(f"probability_{label}" for label in classes)]
    if classes:
        ends = [f"{end}_probability_{label}" for label in classes for end in ("lower", "upper")]
        names += [*([] if truncated else ends), "epistemic", "aleatoric"]
    else:
        ends = ["function_lower", "function_upper"]
        names += ["lower", "upper", *([] if truncated else ends), "epistemic_sd", "aleatoric_sd"]
    return [*names, "outside", *(["unseen"] if any(each.other for each in estimator.schema_.columns) else [])]


def reduced(parts: Sequence[Any]) -> Any:
    """The sum of figures of the same form: of numbers, by name and by place; words are those of all."""
    first = parts[0]
    if isinstance(first, dict):
        return {name: reduced([part[name] for part in parts]) for name in first}
    if isinstance(first, list):
        return [reduced(each) for each in zip(*parts, strict=True)]
    return first if first is None or isinstance(first, str) else sum(parts)
