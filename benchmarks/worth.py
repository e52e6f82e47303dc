"""What true rules are worth: held-out scores against the number of training rows, and beyond the rows.

    python -m benchmarks.worth --names auto-mpg --draws 10 --json FILE --picture FILE.png
    python -m benchmarks.worth --beyond --draws 5                     rows beyond a quantile of a column

The rules are the trends that are known to be true of the tables (`benchmarks/panel/data.py`). Every model
runs with them and without: ours by rules, gradient boosting by its libraries' monotone constraints. Each draw
holds out 30% of rows, and takes nested parts of the others, in an order of its own: 20, 40, 80, … and all.

With `--beyond`, models learn from rows up to the 70% quantile of a column (ties included) and are scored on
those beyond; each draw leaves out a random tenth of the former. Draws then share most of their rows, so the
errors are those of the choice of rows and of seeds, not those of another table.

Scores are those of `benchmarks/tables.py`. Records in the file of `--json` are kept and not measured again,
but for those of fits that failed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.panel.data import Split, Table, tables_in
from benchmarks.panel.harness import measure
from benchmarks.panel.models import BOOSTING, OURS, TRENDS
from benchmarks.panel.scores import Difference, Record, paired, values
from benchmarks.tables import chosen, line, names_of

MODELS = [each for name in (OURS, *BOOSTING) for each in (f"{name}+{TRENDS}", name)]
TEST_SHARE = 0.3
EDGE, LEFT_OUT = 0.7, 0.1
BEYOND = {"concrete": "age", "creep-nickel": "stress"}
"""The column beyond whose quantile a table is extrapolated."""
KEYS = {"rmse": "RMSE", "nll": "negative log score"}


class Measured(Record):
    """A record, and how many rows the model has learnt from."""

    rows: int


def parts(table: Table, draw: int, sizes: Sequence[int]) -> list[Split]:
    """Nested parts of the training rows of one draw, the last of which is all of them."""
    train, test = train_test_split(np.arange(len(table.X)), test_size=TEST_SHARE, random_state=draw)
    counts = [*(size for size in sizes if size < len(train)), len(train)]
    return [Split(draw, np.sort(train[:count]), np.sort(test)) for count in counts]


def beyond(table: Table, draw: int) -> Split:
    """Rows up to the quantile of the table's column, but a random part; tested on those beyond."""
    column = table.X[BEYOND[table.name]]
    inside = (column <= column.quantile(EDGE)).to_numpy()
    known = np.flatnonzero(inside)
    kept = np.random.default_rng(draw).permutation(known)[: round(len(known) * (1 - LEFT_OUT))]
    return Split(draw, np.sort(kept), np.flatnonzero(~inside))


def run(
    tasks: Sequence[tuple[Table, Split]], models: Sequence[str], file: Path | None, known: Sequence[Measured]
) -> list[Measured]:
    """Measure what is not known yet, and write all records so far after each."""
    records = list(known)
    done = {(each["table"], each["split"], each["rows"], each["model"]) for each in records}
    for table, split in tasks:
        for model in models:
            if (table.name, split.number, len(split.train), model) in done:
                continue
            records.append(Measured(**measure(table, split, model), rows=len(split.train)))
            print(f"{len(split.train)} rows: {line(records[-1])}", file=sys.stderr, flush=True)
            if file is not None:
                file.write_text(json.dumps(records, indent=1) + "\n", "utf-8")
    return records


def complete(records: Sequence[Measured]) -> list[Measured]:
    """The records of draws that have every model and number of rows, so that means are of the same draws."""
    found: list[Measured] = []
    for table in names_of(records, "table"):
        of_table = [each for each in records if each["table"] == table and each["rmse"] is not None]
        tasks = {(each["model"], each["rows"]) for each in of_table}
        for draw in sorted({each["split"] for each in of_table}):
            of_draw = [each for each in of_table if each["split"] == draw]
            found += of_draw if len(of_draw) == len(tasks) else []
    return found


def by_rows(records: Sequence[Measured], table: str) -> dict[int, list[Measured]]:
    """The records of one table by the number of training rows."""
    found: dict[int, list[Measured]] = {}
    for each in sorted(records, key=lambda each: each["rows"]):
        if each["table"] == table:
            found.setdefault(each["rows"], []).append(each)
    return found


def curve(records: Sequence[Measured], table: str, model: str, key: str) -> dict[int, Difference]:
    """Mean and standard error over draws by the number of training rows."""
    scores = {rows: values(each, table, model, key) for rows, each in by_rows(records, table).items()}
    return {rows: Difference.of([*each.values()]) for rows, each in scores.items() if each}


def rows_worth(without: Mapping[int, float], score: float) -> float | None:
    """How many rows reach a score without the rule, between sizes on a log scale; None: none of them does.

    Scores are better the lower they are. 0 stands for fewer rows than the smallest size.
    """
    sizes = sorted(without)
    if without[sizes[0]] <= score:
        return 0.0
    for before, after in pairwise(sizes):
        if without[after] <= score:
            share = (without[before] - score) / (without[before] - without[after])
            return math.exp(math.log(before) + share * math.log(after / before))
    return None


def summary(records: Sequence[Measured]) -> Iterator[str]:
    """Means over draws, and paired differences from ours with the rules, a block for a table and a size."""
    ours = f"{OURS}+{TRENDS}"
    for table in names_of(records, "table"):
        for rows, found in by_rows(records, table).items():
            yield f"{table}, {rows} rows, {len({each['split'] for each in found})} draws"
            yield f"  {'':16}{'RMSE':>9}{'NLL':>9}{'90%':>7}{'seconds':>9}{'RMSE − ' + ours:>22}{'NLL':>18}"
            for model in names_of(found, "model"):
                means = [
                    np.mean([*values(found, table, model, key).values()] or [np.nan])
                    for key in ("rmse", "nll", "coverage", "seconds")
                ]
                told = "{:9.3f}{:9.3f}{:7.3f}{:9.1f}".format(*means)
                beside = [paired(found, table, model, ours, key) for key in KEYS]
                words = "".join(f"{each!s:>{22 - 4 * place}}" for place, each in enumerate(beside) if each)
                yield f"  {model:16}{told}{'' if model == ours else words}".rstrip()
        for key, name in KEYS.items():
            without = {rows: each.mean for rows, each in curve(records, table, OURS, key).items()}
            for rows, each in curve(records, table, ours, key).items():
                if len(without) > 1:
                    worth = rows_worth(without, each.mean)
                    told = "more than there are" if worth is None else f"{worth:.0f}"
                    yield f"  {name}: {rows} rows with the rules are worth {told} without"


def picture(records: Sequence[Measured], table: str, file: Path) -> None:
    """Scores against training rows: a colour for each library, solid with the rules, dashed without."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    from ocbnn.plots import style

    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = [style.dressed(ax) for ax in figure.subplots(1, len(KEYS))]
    sizes = list(by_rows(records, table))
    for ax, (key, name) in zip(axes, KEYS.items(), strict=True):
        for place, library in enumerate((OURS, *BOOSTING)):
            colour, _, marker = style.class_look(place)
            for model, dashes, words in (
                (f"{library}+{TRENDS}", "-", "rules"),
                (library, (0, (4, 2)), "no rules"),
            ):
                found = curve(records, table, model, key)
                means = [each.mean for each in found.values()]
                errors = [0.0 if math.isnan(each.error) else each.error for each in found.values()]
                look = {"color": colour, "ls": dashes, "lw": style.LINE, "marker": marker, "ms": 4.0}
                if words == "no rules":
                    look["markerfacecolor"] = style.PAPER
                ax.plot(list(found), means, label=f"{library}, {words}", **look)
                if library == OURS:
                    low, high = np.subtract(means, errors), np.add(means, errors)
                    ax.fill_between(list(found), low, high, color=colour, alpha=0.12, lw=0)
        # Boosting with its defaults learns nothing from 20 rows; the picture is of what can be compared.
        ours, others = (
            [[each.mean for each in curve(records, table, model, key).values()] for model in models]
            for models in (MODELS[:2], MODELS[2:])
        )
        lowest = min(min(means) for means in ours + others if means)
        highest = max(
            *map(max, filter(None, ours)), min((means[0] for means in others if means), default=0.0)
        )
        ax.set_ylim(lowest - 0.05 * (highest - lowest), highest + 0.15 * (highest - lowest))
        ax.set_xscale("log")
        ax.set_xticks(sizes)
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.minorticks_off()
        style.label(ax, "training rows", f"{name}, held-out rows")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=4, frameon=False, prop={"size": 8.0})
    figure.savefig(file, dpi=150)


def main() -> int:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, help="a folder of tables; default: $OCBNN_DATA/tables")
    parser.add_argument("--names", help="some tables of the folder, with commas")
    parser.add_argument("--draws", type=int, default=1, help="of rows, of each table")
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--sizes", default="20,40,80,160,320,640", help="of training rows; all too")
    parser.add_argument("--models", default=",".join(MODELS), help=", ".join(MODELS))
    parser.add_argument("--beyond", action="store_true", help="extrapolate instead")
    parser.add_argument("--json", type=Path, help="a file for the records")
    parser.add_argument("--picture", type=Path, help="a file for the picture of the first table")
    given = parser.parse_args()
    folder = given.tables or Path(os.environ.get("OCBNN_DATA", "."), "tables")
    tables = [each for each in tables_in(folder) if each.name in BEYOND or (each.trends and not given.beyond)]
    if not tables:
        print(f"{folder} has no tables with known trends: give --tables FOLDER or set OCBNN_DATA.")
        return 0 if given.tables is None else 1
    if given.names:
        kept = chosen(given.names, [table.name for table in tables], "tables")
        tables = [table for table in tables if table.name in kept]
    sizes = [int(size) for size in given.sizes.split(",") if size != "all"]
    draws = range(given.first, given.first + given.draws)
    tasks = [
        (table, split)
        for table in tables
        for draw in draws
        for split in ([beyond(table, draw)] if given.beyond else parts(table, draw, sizes))
    ]
    known = json.loads(given.json.read_text("utf-8")) if given.json and given.json.exists() else []
    known = [each for each in known if each["rmse"] is not None]
    records = run(tasks, chosen(given.models, MODELS, "models"), given.json, known)
    whole = complete(records)
    print("\n".join(summary(whole)))
    if len(whole) < len(records):
        print(f"{len(records) - len(whole)} records of incomplete draws are left out")
    if given.picture:
        picture(whole, tables[0].name, given.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
