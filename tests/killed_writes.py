"""Kills processes that write, at random moments: `python killed_writes.py JOB FOLDER COUNT SEED`.

This process imports what a job needs once, and forks a child for each attempt: a kill costs milliseconds,
not the seconds of an import. JAX is not started here, only in children. After each kill it compares what is
on the disk with what may be there, and exits with an error where it is something else.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from ocbnn.storage.folders import MANIFEST, read_folder, write_folder
from ocbnn.storage.verify import verify

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


def fit(folder: Path, count: int, chance: random.Random) -> None:
    """`ocbnn fit`, killed and resumed until it is done, gives the same model bit by bit, and nothing else."""
    from command_line import RULES, run, small_table
    from ocbnn.cli import fit as command
    from ocbnn.posterior.folder import DRAWS
    from small_estimators import SMALL

    small_table().to_csv(folder / "table.csv", index=False)
    (folder / "rules.yaml").write_text(RULES)
    options = command.estimator_options
    budget = {name: value for name, value in SMALL.items() if name != "random_state"}
    command.estimator_options = lambda *given, **more: {**options(*given, **more), **budget}

    def fitted(out: Path) -> None:
        resume = ["--resume"] if out.with_name(out.name + ".run").exists() else []
        call = ["--target", "y", "--ignore", "sick", "--rules", folder / "rules.yaml", "--out", out, *resume]
        result = run("fit", folder / "table.csv", *call)
        if result.exit_code:
            print(result.output, file=sys.stderr)
            raise SystemExit(result.exit_code)

    def draws(out: Path) -> list[bytes]:
        return [(out / name).read_bytes() for name in (DRAWS, f"without_rules/{DRAWS}", "rules.yaml")]

    whole = folder / "whole"
    fitted_once = seconds_of(lambda: fitted(whole))
    usual = min(fitted_once, seconds_of(lambda: fitted(folder / "again")))
    expected, kills = draws(whole), 0
    while kills < count:
        out = folder / "model"
        while not attempt(lambda: fitted(out), chance.uniform(0, 1.3 * usual)):  # noqa: B023
            kills += 1
            if out.exists() or out.with_name(".model.old").exists():
                assert verify(out).problems == (), "a damaged model"
        if out.with_name("model.run").exists() or not out.exists() or "evidence.json" not in names(out):
            assert attempt(lambda: fitted(out), None)  # noqa: B023
        assert draws(out) == expected, "other draws"
        assert attempt(lambda: fitted(out), None)  # noqa: B023 - what killed ones left is gone after it
        known = ["again", "model", "rules.yaml", "table.csv", "whole"]
        assert names(folder) == known, names(folder)
    print("kills", kills)


if __name__ == "__main__":
    job, where, number, seed = sys.argv[1:5]
    globals()[job](Path(where), int(number), random.Random(int(seed)))
    print("survived")
