"""One model on one split: a process of its own, ours in this environment and peers in theirs.

    python -m benchmarks.panel.harness MODEL TASK.npz FOUND.npz

is what runs in that process. No model finds another's devices, threads or compiled programs in memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.panel.data import Split, Table
from benchmarks.panel.models import CORES, MODELS, OURS, Task
from benchmarks.panel.scores import Record, Scored

ROOT = Path(__file__).parents[2]
PEERS_FOLDER = ROOT / ".venv-peers"
REQUIREMENTS = Path(__file__).with_name("peers.txt")
LONGEST = 3600.0


def peers_python() -> Path:
    """The interpreter of the peers' environment, which is made or brought up to date where needed."""
    python = PEERS_FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ready = PEERS_FOLDER / "requirements.txt"
    wanted = REQUIREMENTS.read_text("utf-8")
    if not ready.exists() or ready.read_text("utf-8") != wanted:
        print(f"installing the peers into {PEERS_FOLDER.name} (once) ...", file=sys.stderr, flush=True)
        if not python.exists():
            venv.create(PEERS_FOLDER, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, "--requirement", REQUIREMENTS]).returncode:
            raise SystemExit(
                f"pip could not install {REQUIREMENTS.name}: go on without peers by --models ocbnn."
            )
        ready.write_text(wanted, "utf-8")
    return python


def measure(table: Table, split: Split, model: str) -> Record:
    """Fit and score one model; one that fails or takes longer than an hour has a status that says so."""
    is_peer = MODELS[model].library != OURS
    python = peers_python() if is_peer else Path(sys.executable)
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    if is_peer:
        # What bde asks its users to set: one device a core.
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={CORES}"
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "task.npz"), Path(folder, "found.npz")
        write_task(given, table, split)
        command = [python, "-m", "benchmarks.panel.harness", model, given, found]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return failure(table, split, model, LONGEST, f"stopped after {LONGEST:.0f} s")
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            return failure(table, split, model, time.perf_counter() - began, f"failed: {last}")
        with np.load(found) as arrays:
            scores = Scored(*(arrays[name] for name in Scored._fields)).summary()
            seconds, status = float(arrays["seconds"]), str(arrays["status"])
    return Record(
        table=table.name, split=split.number, model=model, **scores, seconds=round(seconds, 2), status=status
    )


def failure(table: Table, split: Split, model: str, seconds: float, status: str) -> Record:
    """The record of a model that gave no predictions."""
    return Record(
        table=table.name,
        split=split.number,
        model=model,
        rmse=None,
        nll=None,
        coverage=None,
        seconds=round(seconds, 2),
        status=status,
    )


def write_task(path: Path, table: Table, split: Split) -> None:
    """A table and one split of it, as arrays that any environment reads."""
    columns = {
        f"x{place}": column.to_numpy(dtype=float if pd.api.types.is_numeric_dtype(column) else str)
        for place, (_, column) in enumerate(table.X.items())
    }
    names = {"names": np.array([str(name) for name in table.X]), "target": np.array(str(table.y.name))}
    names["trends"] = np.array([table.trends.get(str(name), 0) for name in table.X])
    rows = {"train": split.train, "test": split.test, "seed": np.array(split.number)}
    np.savez(path, y=table.y.to_numpy(), **columns, **names, **rows)


def read_task(path: Path) -> Task:
    """What `write_task` has written, divided into training and test rows."""
    with np.load(path) as arrays:
        frame = pd.DataFrame({str(name): arrays[f"x{place}"] for place, name in enumerate(arrays["names"])})
        trends = dict(zip(frame, arrays["trends"].tolist(), strict=True))
        train, test, y = arrays["train"], arrays["test"], arrays["y"]
        named = str(arrays["target"]), int(arrays["seed"])
    return Task(frame.iloc[train], y[train], frame.iloc[test], y[test], *named, trends)


def main(name: str, given: str, found: str) -> None:
    """Score one model on one task; the seconds are those of fit and predictions, compilation included."""
    warnings.simplefilter("ignore")
    task, model = read_task(Path(given)), MODELS[name]
    import_module(model.library)
    began = time.perf_counter()
    scores, status = model.run(task)
    seconds = time.perf_counter() - began
    np.savez(found, **scores._asdict(), seconds=np.array(seconds), status=np.array(status))


if __name__ == "__main__":
    main(*sys.argv[1:])
