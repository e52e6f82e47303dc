"""From a folder of MIMIC-III's files to one row for each hour of a stay, with DuckDB.

Nothing but rows of the wanted items is ever kept, in a database on disk with a bounded share of memory: the
full CHARTEVENTS (330 million rows) streams through as the demo's does. Names of columns match in any case.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict

from ocbnn import FileError, OCBNNError
from reproduce.data.mimic3 import queries
from reproduce.data.sources import in_folder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TABLES = (
    "PATIENTS",
    "ICUSTAYS",
    "D_ITEMS",
    "D_LABITEMS",
    "CHARTEVENTS",
    "OUTPUTEVENTS",
    "LABEVENTS",
    "INPUTEVENTS_CV",
    "INPUTEVENTS_MV",
)
FEATURES = ("MAP", "age", "urine", "weight", "creatinine", "lactate", "bicarbonate", "BUN")
MEMORY = "400MB"
ADULT = 18
OLDEST = 91.4
"""Ages above 89 are shifted in the source by some 200 years; their median there is 91.4."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Item(_Frozen):
    """One kind of record."""

    id: int
    label: str
    system: Literal["carevue", "metavision"] | None = None  # None: a laboratory's
    units: tuple[str, ...] = ()
    factor: float = 1.0


class Feature(_Frozen):
    """One column of the cohort, and the items it is made of."""

    description: str
    unit: str
    range: tuple[float, float]
    table: Literal["CHARTEVENTS", "OUTPUTEVENTS", "LABEVENTS"]
    hourly: Literal["mean", "sum"]
    items: tuple[Item, ...]


class Action(_Frozen):
    """What counts as an intervention."""

    fluid_ml: float
    vasopressors: tuple[Item, ...]
    fluids: tuple[Item, ...]


class Catalogue(_Frozen):
    """All items."""

    features: dict[str, Feature]
    action: Action


@dataclass(frozen=True)
class Cohort:
    """The rows, and what became of the records they were made from.

    Attributes:
        table: one row for each hour of a stay in which all features are known: `subject_id`, `icustay_id`,
            `hour`, the features, `action`.
        records: for each feature and item, vasopressors and fluids too, how many records were read, and how
            many of them were left out: marked as errors (orders: rewritten), without a number, in another
            unit, out of range, outside of the stay.
    """

    table: pd.DataFrame
    records: pd.DataFrame


def build(
    folder: Path | str,
    *,
    lists: Catalogue | None = None,
    memory: str = MEMORY,
    threads: int = 1,
    scratch: Path | None = None,
) -> Cohort:
    """The cohort of a folder with MIMIC-III's CSV files, packed (.csv.gz) or not.

    Args:
        folder: with the tables in `TABLES`, of the full data set or of the demo.
        lists: the items of each feature; those of `items.yaml` unless given.
        memory: what the database may use.
        threads: how many it may use; packed files are read by one, so more only take more memory.
        scratch: a folder for its file, which is removed afterwards; the system's own unless given.

    Raises:
        FileError: a table is missing, or its columns are not MIMIC-III's.
        OCBNNError: the memory is not enough.
    """
    lists = lists or catalogue()
    paths = table_paths(Path(folder))
    with _database(memory, threads, scratch) as database:
        _check_labels(database, paths, lists)
        database.execute(queries.stays(paths, adult=ADULT, oldest=OLDEST))
        _read_features(database, paths, lists)
        _read_actions(database, paths, lists)
        table = database.execute(queries.hours(list(lists.features))).df()
        records = database.execute("SELECT * FROM records ORDER BY feature, itemid").df()
    return Cohort(
        table[["subject_id", "icustay_id", "hour", *_ordered([*lists.features, "age"]), "action"]], records
    )


@cache
def catalogue() -> Catalogue:
    """The lists of `items.yaml`."""
    text = (Path(__file__).parent / "items.yaml").read_text(encoding="utf-8")
    return Catalogue.model_validate(yaml.safe_load(text))


def table_paths(folder: Path) -> dict[str, Path]:
    """Where each table is, or an error that names the one that is missing."""
    found = {}
    for name in TABLES:
        path = in_folder(folder, f"{name}.csv")
        if path is None:
            raise FileError(
                f"{folder} has no {name}.csv or {name}.csv.gz. The cohort needs these tables of MIMIC-III: "
                f"{', '.join(TABLES)}."
            )
        found[name] = path
    return found


def _ordered(names: Sequence[str]) -> list[str]:
    """Features in the order of the paper's appendix, further ones after them."""
    return [name for name in FEATURES if name in names] + sorted(set(names) - set(FEATURES))


@contextmanager
def _database(memory: str, threads: int, scratch: Path | None) -> Iterator[DuckDBPyConnection]:
    try:
        import duckdb
    except ImportError:
        raise OCBNNError(
            "The cohort is built with DuckDB, which is not installed: pip install 'ocbnn[clinical]'."
        ) from None
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        settings: dict[str, Any] = {
            "memory_limit": memory,
            "threads": threads,
            "temp_directory": str(Path(place) / "spilled"),
            "preserve_insertion_order": False,
        }
        connection = duckdb.connect(str(Path(place) / "cohort.duckdb"), config=settings)
        connection.execute("SET enable_progress_bar = false")  # a library does not print
        try:
            yield connection
        except duckdb.OutOfMemoryException as error:
            raise OCBNNError(
                f"{memory} of memory are not enough for {threads} thread(s): give build(…, memory=…) more."
            ) from error
        except duckdb.Error as error:
            raise FileError(
                f"The files are not read as MIMIC-III's: {str(error).splitlines()[0]} Check that all of "
                "them are whole and of the same release."
            ) from error
        finally:
            connection.close()


def _check_labels(database: DuckDBPyConnection, paths: dict[str, Path], lists: Catalogue) -> None:
    """Item numbers mean what the lists say they mean, wherever the dictionaries know them."""
    charted = [*lists.action.vasopressors, *lists.action.fluids]
    laboratory: list[Item] = []
    for feature in lists.features.values():
        (laboratory if feature.table == "LABEVENTS" else charted).extend(feature.items)
    for name, items in (("D_ITEMS", charted), ("D_LABITEMS", laboratory)):
        known = dict(database.execute(queries.labels(paths[name])).fetchall())
        for item in items:
            label = known.get(item.id)
            if label is not None and label.strip().lower() != item.label.strip().lower():
                raise FileError(
                    f"Item {item.id} is {label!r} in {name}, and {item.label!r} in the list of items: "
                    "this is not the MIMIC-III that the list was made for. Give other lists=…."
                )


def _read_features(database: DuckDBPyConnection, paths: dict[str, Path], lists: Catalogue) -> None:
    database.register("items", item_frame(lists))
    database.execute(queries.empty_records())
    for table in ("CHARTEVENTS", "OUTPUTEVENTS", "LABEVENTS"):
        if not any(feature.table == table for feature in lists.features.values()):
            continue
        database.execute(queries.events(table, paths[table]))
        database.execute(queries.counted())
        database.execute(queries.hourly())
        database.execute("DROP TABLE events")


def _read_actions(database: DuckDBPyConnection, paths: dict[str, Path], lists: Catalogue) -> None:
    rows = [
        (item.id, kind)
        for kind, items in (("vasopressor", lists.action.vasopressors), ("fluid", lists.action.fluids))
        for item in items
    ]
    database.register("given", pd.DataFrame(rows, columns=["itemid", "feature"]))
    database.execute(queries.inputs(paths))
    database.execute(queries.counted("inputs", "true"))
    database.execute(queries.actions(lists.action.fluid_ml))


def item_frame(lists: Catalogue) -> pd.DataFrame:
    """One row for each item of each feature, as the queries join it."""
    rows = [
        {
            "feature": name,
            "source": feature.table,
            "reduction": feature.hourly,
            "low": feature.range[0],
            "high": feature.range[1],
            "itemid": item.id,
            "factor": item.factor,
            "units": "|".join(unit.lower() for unit in item.units),
        }
        for name, feature in lists.features.items()
        for item in feature.items
    ]
    return pd.DataFrame(rows)
