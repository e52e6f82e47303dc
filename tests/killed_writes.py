"""Kills processes that write, at random moments: `python killed_writes.py JOB FOLDER COUNT SEED`.

This process imports what a job needs once, and forks a child for each attempt: a kill costs milliseconds,
not the seconds of an import. After each kill it compares what is on the disk with what may be there, and
exits with an error where it is something else.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from ocbnn.storage.folders import MANIFEST, read_folder, verify, write_folder

warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)


def attempt(work: Callable[[], object], patience: float | None) -> bool:
    """Do the work in a child that is killed after so many seconds; whether it was done before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if patience is not None:
        time.sleep(patience)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    assert os.waitstatus_to_exitcode(status) == 0, "the work failed by itself"
    return True


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def seconds_of(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    assert attempt(work, None)
    return time.perf_counter() - began


def save(folder: Path, count: int, chance: random.Random) -> None:
    """A saved folder is the old or the new version, and the next save leaves nothing else behind."""

    def version(number: int) -> dict[str, bytes]:
        return {name: json.dumps([number] * 20_000).encode() for name in ("a", "b", "inner/c")}

    def contents(found) -> dict[str, bytes]:
        return {name: found.read(name) for name in found.manifest.files}

    target = folder / "model"
    usual = seconds_of(lambda: write_folder(target, "model", version(0)))
    before = version(0)
    for number in range(1, count + 1):
        after = version(number)
        attempt(lambda: write_folder(target, "model", after), chance.uniform(0, 1.2 * usual))  # noqa: B023
        found = read_folder(target, "model", contents)
        assert found in (before, after), "a mixture of two versions"
        before = found
        if number % 10 == 0:
            write_folder(target, "model", before)
            assert names(folder) == ["model"], names(folder)
            assert names(target) == ["a", "b", "inner", MANIFEST]


def table(folder: Path, count: int, chance: random.Random) -> None:
    """A table of predictions is the old or the new one."""
    import pandas as pd

    from ocbnn.cli.tables import write_table

    path = folder / "predictions.csv"

    def frame(number: int) -> pd.DataFrame:
        return pd.DataFrame({"prediction": [float(number)] * 5_000})

    usual = seconds_of(lambda: write_table(frame(0), path))
    before = frame(0).to_csv(index=False).encode()
    for number in range(1, count + 1):
        attempt(lambda: write_table(frame(number), path), chance.uniform(0, 1.2 * usual))  # noqa: B023
        after, found = frame(number).to_csv(index=False).encode(), path.read_bytes()
        assert found in (before, after), "half a table"
        before = found
    write_table(frame(0), path)
    assert names(folder) == ["predictions.csv"]


def report(folder: Path, count: int, chance: random.Random) -> None:
    """The page and its figures are each whole, and the next report leaves nothing else behind."""
    from ocbnn.estimators.folder import load_all
    from ocbnn.report import write

    model = Path(sys.argv[5])
    estimator, _, evidence = load_all(model)
    path = folder / "report.html"
    write(evidence, estimator.posterior_, path)
    usual = seconds_of(lambda: write(evidence, estimator.posterior_, path))
    page, twin = path.read_bytes(), path.with_suffix(".json").read_bytes()
    for _ in range(count):
        attempt(lambda: write(evidence, estimator.posterior_, path), chance.uniform(0, 1.2 * usual))
        assert path.with_suffix(".json").read_bytes() == twin
        assert len(path.read_bytes()) > 0.9 * len(page), "half a page"
    write(evidence, estimator.posterior_, path)
    assert names(folder) == ["report.html", "report.json"]


def fit_once(folder: Path, count: int, chance: random.Random) -> None:
    """`ocbnn fit` with the budget of tests, in this process; it goes on where it was interrupted."""
    from command_line import run
    from ocbnn.cli import fit as command
    from small_estimators import SMALL

    options, out = command.estimator_options, Path(sys.argv[5])
    budget = {name: value for name, value in SMALL.items() if name != "random_state"}
    command.estimator_options = lambda *given, **more: {**options(*given, **more), **budget}
    resume = ["--resume"] if out.with_name(out.name + ".run").exists() else []
    call = ["--target", "y", "--ignore", "sick", "--rules", folder / "rules.yaml", "--out", out, *resume]
    result = run("fit", folder / "table.csv", *call)
    assert result.exit_code == 0, result.output


def fit(folder: Path, count: int, chance: random.Random) -> None:
    """`ocbnn fit`, killed and resumed until it is done, gives the same model bit by bit, and nothing else.

    JAX cannot be used in a forked process, so that every attempt is a process of its own.
    """
    from command_line import RULES, small_table
    from ocbnn.posterior.folder import DRAWS

    small_table().to_csv(folder / "table.csv", index=False)
    (folder / "rules.yaml").write_text(RULES)

    def fitted(out: Path, patience: float | None = None) -> bool:
        child = subprocess.Popen([sys.executable, __file__, "fit_once", str(folder), "0", "0", str(out)])
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            return False
        assert child.returncode == 0, "the fit failed by itself"
        return True

    def draws(out: Path) -> list[bytes]:
        return [(out / name).read_bytes() for name in (DRAWS, f"without_rules/{DRAWS}", "rules.yaml")]

    fitted(folder / "whole")
    began = time.perf_counter()
    fitted(folder / "again")
    usual = time.perf_counter() - began
    expected, out, kills = draws(folder / "whole"), folder / "model", 0
    assert draws(folder / "again") == expected
    while kills < count:
        while not fitted(out, chance.uniform(0.3 * usual, 1.2 * usual)):
            kills += 1
            if out.exists() or out.with_name(".model.old").exists():
                assert verify(out).problems == (), "a damaged model"
        assert draws(out) == expected, "other draws"
        assert names(folder) == ["again", "model", "rules.yaml", "table.csv", "whole"], names(folder)
    print("kills", kills)


if __name__ == "__main__":
    job, where, number, seed = sys.argv[1:5]
    globals()[job](Path(where), int(number), random.Random(int(seed)))
    print("survived")
