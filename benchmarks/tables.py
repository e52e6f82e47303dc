"""Ours and its peers on real tables: the same splits, the same cores, defaults, one run.

    python -m benchmarks.tables [--splits 10] [--json FILE]            the five tables of $OCBNN_DATA/tables
    python -m benchmarks.tables --tables FOLDER --splits 10            any folder of tables
    python -m benchmarks.tables --models ocbnn,bde --names energy      some models, some tables
    python -m benchmarks.tables --rule region                          the time of one rule

Every fit is a process of its own (`benchmarks/panel/harness.py`); models take turns on each split. Peers live
in `.venv-peers`, made when missing. RMSE is that of the predictive mean, NLL minus the log of the predictive
density in units of the target, coverage that of central 90% intervals; seconds are those of fit and
predictions with compilation, without imports. Differences are paired by split, ± one standard error.

Where ours and bde have at least ten splits, it fails if ours is worse than bde by more than the limits below.
With a rule it fails if the median over tables of (seconds with the rule / without) is above 2.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.panel.data import Table, tables_in
from benchmarks.panel.harness import measure
from benchmarks.panel.models import MODELS, OURS, PEERS, RULES
from benchmarks.panel.scores import COVERAGE, Difference, Record, paired, values

PEER = "bde"
LEAST_SPLITS = 10
WORST_NLL, WORST_RMSE, COVERAGE_OFF, SLOWEST_RULE = 0.05, 0.02, 0.04, 2.0


def run(tables: Sequence[Table], splits: int, models: Sequence[str], file: Path | None) -> list[Record]:
    """Measure, and write all records so far after each."""
    records: list[Record] = []
    for table in tables:
        for split in table.splits(splits):
            for model in models:
                records.append(measure(table, split, model))
                print(line(records[-1]), file=sys.stderr, flush=True)
                if file is not None:
                    file.write_text(json.dumps(records, indent=1) + "\n", "utf-8")
    return records


def line(record: Record) -> str:
    """One record, readable."""
    names = ("rmse", "nll", "coverage") if record["rmse"] is not None else ()
    told = ", ".join([*(f"{name} {record[name]:.3f}" for name in names), f"{record['seconds']:.1f} s"])
    return f"{record['table']}, split {record['split']}, {record['model']}: {told}; {record['status']}"


def names_of(records: Sequence[Record], key: str) -> list[str]:
    """The tables or models that were run, in that order."""
    return list(dict.fromkeys(each[key] for each in records))


def summary(records: Sequence[Record]) -> Iterator[str]:
    """Means over splits and paired differences, a block a table."""
    for table in names_of(records, "table"):
        yield f"{table}, {len({each['split'] for each in records if each['table'] == table})} splits"
        beside = f"{f'RMSE − {PEER}':>18}{f'NLL − {PEER}':>18}"
        yield f"  {'':16}{'RMSE':>9}{'NLL':>9}{'90%':>7}{'seconds':>9}{beside}"
        for model in names_of(records, "model"):
            found = [
                list(values(records, table, model, key).values())
                for key in ("rmse", "nll", "coverage", "seconds")
            ]
            if not found[0]:
                yield f"  {model:16} failed"
                continue
            rmse, nll, coverage, seconds = map(statistics.fmean, found)
            differences = [paired(records, table, model, PEER, key) for key in ("rmse", "nll")]
            beside = "".join(f"{each!s:>18}" for each in differences if each and model != PEER)
            yield f"  {model:16}{rmse:9.3f}{nll:9.3f}{coverage:7.3f}{seconds:9.1f}{beside}".rstrip()


def shortfalls(records: Sequence[Record]) -> Iterator[str]:
    """Where ours is worse than bde by more than is allowed, a sentence each."""
    means = []
    for table in names_of(records, "table"):
        failed = sum(
            each["rmse"] is None for each in records if each["table"] == table and each["model"] == OURS
        )
        if failed:
            yield f"{table}: {failed} fits failed"
        nll, rmse = (paired(records, table, OURS, PEER, key) for key in ("nll", "rmse"))
        if nll is None or rmse is None:
            continue
        means.append(nll.mean)
        if nll.mean > WORST_NLL + 2 * nll.error:
            yield f"{table}: NLL is {nll} above {PEER}'s"
        allowed = WORST_RMSE * statistics.fmean(values(records, table, PEER, "rmse").values())
        if rmse.mean > allowed + 2 * rmse.error:
            yield f"{table}: RMSE is {rmse} above {PEER}'s"
        coverage = Difference.of([*values(records, table, OURS, "coverage").values()])
        if abs(coverage.mean - COVERAGE) > max(COVERAGE_OFF, 2 * coverage.error):
            yield f"{table}: {COVERAGE:.0%} intervals cover {coverage.mean:.1%}"
    if means and statistics.fmean(means) > 0:
        yield f"mean over tables: NLL is {statistics.fmean(means):+.3f} above {PEER}'s"
    ours, theirs = (
        sum(each["seconds"] for each in records if each["model"] == name) for name in (OURS, PEER)
    )
    if ours > theirs:
        yield f"ours takes {ours:.0f} s in all, {PEER} {theirs:.0f} s"


def rule_times(records: Sequence[Record], rule: str) -> dict[str, float]:
    """Seconds with the rule / without: the median over splits of every table."""
    found = {}
    for table in names_of(records, "table"):
        without = values(records, table, OURS, "seconds")
        with_rule = values(records, table, f"{OURS}+{rule}", "seconds")
        ratios = [with_rule[split] / without[split] for split in with_rule.keys() & without.keys()]
        if ratios:
            found[table] = statistics.median(ratios)
    return found


def judge(records: Sequence[Record], rule: str | None) -> bool:
    """Print what is asked for and what is missed; whether nothing is."""
    if rule is not None:
        times = rule_times(records, rule)
        for table, ratio in times.items():
            print(f"{table}: {ratio:.2f} times the seconds with the rule {rule!r}")
        median = statistics.median(times.values()) if times else float("nan")
        print(f"median over tables {median:.2f} (at most {SLOWEST_RULE:.0f})")
        return median <= SLOWEST_RULE
    counts = [len(values(records, table, PEER, "nll")) for table in names_of(records, "table")]
    if OURS not in names_of(records, "model") or not counts or min(counts) < LEAST_SPLITS:
        print(f"not judged: needs {OURS} and {PEER} on at least {LEAST_SPLITS} splits of every table")
        return True
    missed = list(shortfalls(records))
    print("\n".join(missed) or "every limit is met")
    return not missed


def chosen(text: str, known: Sequence[str], what: str) -> list[str]:
    """Names of a list with commas, in their own order; an unknown one is an error."""
    wanted = text.split(",")
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"Unknown {what}: {', '.join(unknown)}. Expected some of: {', '.join(known)}.")
    return [name for name in known if name in wanted]


def main() -> int:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, help="a folder of tables; default: $OCBNN_DATA/tables")
    parser.add_argument("--splits", type=int, default=2, help="of each table")
    parser.add_argument("--models", default=",".join([OURS, *PEERS]), help=", ".join(MODELS))
    parser.add_argument("--names", help="some tables of the folder, with commas")
    parser.add_argument("--rule", choices=RULES, help="time ours with and without a rule made from the rows")
    parser.add_argument("--json", type=Path, help="a file for the records")
    given = parser.parse_args()
    folder = given.tables or Path(os.environ.get("OCBNN_DATA", "."), "tables")
    tables = tables_in(folder)
    if not tables:
        print(f"{folder} has no tables (NAME.csv or NAME.csv.gz): give --tables FOLDER or set OCBNN_DATA.")
        return 0 if given.tables is None else 1
    if given.names:
        kept = chosen(given.names, [table.name for table in tables], "tables")
        tables = [table for table in tables if table.name in kept]
    models = [OURS, f"{OURS}+{given.rule}"] if given.rule else chosen(given.models, list(MODELS), "models")
    records = run(tables, given.splits, models, given.json)
    print("\n".join(summary(records)))
    return 0 if judge(records, given.rule) else 1


if __name__ == "__main__":
    sys.exit(main())
