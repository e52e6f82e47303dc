"""The MIMIC-III cohort: its memory must not grow with the data, and its speed is stated in rows a second.

Builds the cohort of the open demo, and of a folder with ten copies of it (other patients, other stays), each
in a process of its own. Needs `$OCBNN_DATA`, or a connection to download the demo.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from reproduce.data import mimic3
from reproduce.data.mimic3.cohort import TABLES, table_paths
from reproduce.data.mimic3.queries import read

COPIES = 10
MOST_GROWTH = 1.25
FULL_CHARTEVENTS = 330_712_483
SHIFTED = ("subject_id", "hadm_id", "icustay_id")
DICTIONARIES = ("D_ITEMS", "D_LABITEMS")

BUILD = """
import json, re, sys, time
from pathlib import Path
from reproduce.data import mimic3
began = time.perf_counter()
cohort = mimic3.build(sys.argv[1])
seconds = time.perf_counter() - began
# Not ru_maxrss: that of a child begins at what its parent had.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print(json.dumps({"seconds": seconds, "rows": len(cohort.table), "peak_mb": peak}))
"""


def copied(folder: Path, target: Path) -> None:
    """Ten copies of a data set in one folder, identifiers shifted so that patients and stays stay apart."""
    connection = duckdb.connect()
    for name, path in table_paths(folder).items():
        columns = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {read(path)}").fetchall()]
        copies = range(1 if name in DICTIONARIES else COPIES)
        parts = []
        for copy in copies:
            shifted = [
                f"(TRY_CAST({c} AS BIGINT) + {copy * 10**6})::VARCHAR AS {c}" if c.lower() in SHIFTED else c
                for c in columns
            ]
            parts.append(f"SELECT {', '.join(shifted)} FROM {read(path)}")
        place = target / f"{name}.csv.gz"
        connection.execute(f"COPY ({' UNION ALL '.join(parts)}) TO '{place}' (HEADER, COMPRESSION gzip)")


def measured(folder: Path) -> dict[str, float]:
    """Seconds, rows and peak memory of one build, in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def rows_read(folder: Path) -> int:
    """Rows of all tables together."""
    connection = duckdb.connect()
    return sum(
        connection.execute(f"SELECT count(*) FROM {read(path)}").fetchone()[0]
        for path in table_paths(folder).values()
    )


def main() -> None:
    demo = mimic3.folder()
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        copied(demo, Path(place))
        print(f"{COPIES} copies of {len(TABLES)} tables written in {time.perf_counter() - began:.0f} s")
        once, often = measured(demo), measured(Path(place))
        total = rows_read(Path(place))
    speed = total / often["seconds"]
    growth = often["peak_mb"] / once["peak_mb"]
    print(f"{'':12}{'rows of cohort':>16}{'seconds':>10}{'peak memory, MB':>18}")
    for name, each in (("demo", once), (f"{COPIES} demos", often)):
        print(f"{name:12}{each['rows']:>16,.0f}{each['seconds']:>10.1f}{each['peak_mb']:>18.0f}")
    hours = FULL_CHARTEVENTS / speed / 3600
    print(f"{speed:,.0f} rows read a second; the full CHARTEVENTS alone would take {hours:.1f} h")
    print(
        f"memory grows {growth:.2f} times (at most {MOST_GROWTH}); "
        f"ten times the rows: {often['rows'] / once['rows']:.0f}"
    )
    if growth > MOST_GROWTH or often["rows"] != COPIES * once["rows"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
