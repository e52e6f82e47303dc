"""The command as tests call it, and the files of a small user: a table, rules, a saved model."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner, Result

from ocbnn.cli import app
from ocbnn.estimators.folder import save
from ocbnn.inference.loop import Chunk, Loop
from small_estimators import small_regressor

RULES = "- {name: high, rule: if x > 1 then y >= 0}\n"


def run(*arguments: object, command: typer.Typer = app) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def words(result: Result) -> str:
    """What was printed, on one line: terminals break lines, and draw boxes, where they like."""
    return re.sub(r"[\s│]+", " ", result.output)


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Ctrl-C during a chunk of steps, after so many whole ones."""
    advance, done = Loop.advance, []

    def until(loop: Loop) -> Chunk:
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(None)
        return advance(loop)

    monkeypatch.setattr(Loop, "advance", until)


def small_table(rows: int = 60) -> pd.DataFrame:
    """A line with noise, a category, an integer and a label."""
    generator = np.random.default_rng(0)
    x = generator.uniform(-2, 2, rows).round(3)
    return pd.DataFrame(
        {
            "x": x,
            "ward": np.resize(["a", "b", "c"], rows),
            "age": generator.integers(20, 80, rows),
            "sick": np.where(x > 0.2, "yes", "no"),
            "y": (0.5 * x + 1 + generator.normal(0, 0.2, rows)).round(3),
        }
    )


def write_files(folder: Path) -> Path:
    """table.csv, rules.yaml and model/, the last with its twin and its evidence."""
    from ocbnn.report import gather

    table = small_table()
    table.to_csv(folder / "table.csv", index=False)
    (folder / "rules.yaml").write_text(RULES)
    inputs = table[["x", "ward", "age"]]
    fitted = small_regressor(rules=["if x > 1 then y >= 0"]).fit(inputs, table["y"])
    twin = small_regressor().fit(inputs, table["y"]).posterior_
    evidence = gather(fitted.posterior_, without=twin, frame=table, points=50)
    save(folder / "model", fitted, twin, evidence)
    return folder
