"""What rules are worth: parts of rows are nested, rules are the table's, rows are counted between sizes."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest

from benchmarks import worth
from benchmarks.panel import harness
from benchmarks.panel.data import Table, tables_in
from benchmarks.panel.harness import read_task, write_task
from benchmarks.panel.models import MODELS, Task, trend_rule
from benchmarks.worth import Measured, by_rows, complete, curve, parts, picture, rows_worth, summary
from ocbnn.model import Model

ROWS = 100


@pytest.fixture
def table() -> Table:
    random = np.random.default_rng(0)
    X = pd.DataFrame({"kind": random.choice(["a", "b"], ROWS), "age of": random.uniform(1, 9, ROWS)})
    X["stress"] = np.arange(ROWS) // 10
    return Table("creep-nickel", X, pd.Series(3 * X["age of"], name="y"), trends={"age of": 1, "stress": -1})


def measured(model: str, rows: int, score: float, split: int = 0) -> Measured:
    same = {"table": "houses", "coverage": 0.9, "seconds": 1.0, "status": "fitted"}
    return Measured(**same, model=model, split=split, rmse=score, nll=score, rows=rows)


def test_parts_are_nested_and_hold_out_the_same_rows(table):
    small, large, every = parts(table, 3, (20, 40, 80))
    assert [len(each.train) for each in (small, large, every)] == [20, 40, 70]
    assert set(small.train) < set(large.train) < set(every.train)
    assert not set(every.train) & set(every.test)
    assert small.test.tolist() == every.test.tolist()
    assert set(parts(table, 4, (20,))[0].train) != set(small.train)


def test_rows_beyond_the_quantile_are_tested_and_ties_are_learnt_from(table):
    split = worth.beyond(table, 0)
    stress = table.X["stress"].to_numpy()
    assert set(stress[split.train]) == set(range(7))
    assert split.test.tolist() == np.flatnonzero(stress > 6).tolist()
    assert len(split.train) == round(0.9 * 70)


def test_known_trends_reach_every_model_in_the_order_of_its_columns(table, tmp_path):
    write_task(tmp_path / "task.npz", table, parts(table, 0, (20,))[0])
    task = read_task(tmp_path / "task.npz")
    assert task.signs() == (1, -1, 0, 0)  # numbers first, then the two levels
    assert trend_rule(task) == "always `y` increases with `age of` and `y` decreases with `stress`"
    model = Model.build(
        frame=task.X.assign(y=task.y), target="y", rules=[trend_rule(task)], activation="tanh"
    )
    assert len(model.formed) == 1
    assert not model.terms


def test_trends_of_the_panel_are_of_columns_that_are_there(tmp_path):
    columns = {"weight": [1.0], "displacement": [2.0], "horsepower": [3.0], "mpg": [4.0]}
    pd.DataFrame(columns).to_csv(tmp_path / "auto-mpg.csv", index=False)
    (cars,) = tables_in(tmp_path)
    assert set(cars.trends) <= set(cars.X)


def test_constrained_boosting_is_monotone():
    random = np.random.default_rng(0)
    x = random.uniform(size=200)
    grid = pd.DataFrame({"x": np.linspace(0, 1, 50)})
    task = Task(pd.DataFrame({"x": x}), x + random.normal(size=200), grid, np.zeros(50), "y", 0, {"x": 1})
    falls = {}
    for model in ("histgb", "histgb+trends"):
        scored, _ = MODELS[model].run(task)
        falls[model] = np.diff(-scored.error).min()
    assert falls["histgb"] < 0 <= falls["histgb+trends"]


def test_rows_that_a_rule_is_worth_lie_between_sizes_on_a_log_scale():
    without = {20: 4.0, 40: 2.0, 80: 1.0}
    assert rows_worth(without, 3.0) == pytest.approx(20 * np.sqrt(2))
    assert rows_worth(without, 1.0) == pytest.approx(80)
    assert rows_worth(without, 5.0) == 0.0
    assert rows_worth(without, 0.9) is None


def test_draws_that_lack_a_model_or_failed_are_left_out():
    whole = [measured(model, rows, 1.0) for model in ("ocbnn", "xgboost") for rows in (20, 40)]
    part = [measured("ocbnn", 20, 1.0, 1), {**measured("xgboost", 20, 1.0, 1), "rmse": None}]
    assert complete([*whole, *part]) == whole


def test_curves_tables_and_pictures_are_by_number_of_rows(tmp_path):
    records = [
        measured(model, rows, score + draw, draw)
        for draw in (0, 1)
        for rows, score in ((20, 4.0), (40, 2.0))
        for model, score in (("ocbnn", score), ("ocbnn+trends", score - 1.0), ("xgboost", 5.0))
    ]
    assert list(by_rows(records, "houses")) == [20, 40]
    assert curve(records, "houses", "ocbnn", "rmse")[20].mean == 4.5
    told = "\n".join(summary(records))
    assert "+1.000 ± 0.000" in told
    assert "RMSE: 20 rows with the rules are worth 28 without" in told
    picture(records, "houses", tmp_path / "rows.png")
    assert (tmp_path / "rows.png").stat().st_size > 10_000


def test_what_is_in_the_file_is_not_measured_again(table, tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "peers_python", lambda: sys.executable)
    task = (table, parts(table, 0, (20,))[0])
    file = tmp_path / "records.json"
    (first,) = worth.run([task], ["histgb"], file, ())
    assert first["rows"] == 20
    monkeypatch.setattr(worth, "measure", None)
    assert worth.run([task], ["histgb"], file, json.loads(file.read_text("utf-8"))) == [first]
