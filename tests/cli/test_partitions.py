"""`ocbnn predict` of a folder: every row exactly once, whatever ends in between; sums over all rows."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from command_line import run, small_table, words
from ocbnn.cli import partitions
from ocbnn.cli.partitions import columns_of, predict_part, reduced
from ocbnn.cli.voice import Voice
from ocbnn.estimators.folder import load, save
from ocbnn.posterior.predict import predict as predict_posterior
from ocbnn.schema import files as schema_files
from small_estimators import small_classifier, small_regressor

pytest.importorskip("pyarrow")
ROWS = 60


def new_rows(seed: int = 1, rows: int = ROWS) -> pd.DataFrame:
    """Rows to predict, some beyond what the fit has seen, and with an identifier."""
    table = small_table(rows).drop(columns=["y", "sick"])
    table["x"] = np.random.default_rng(seed).uniform(-3, 3, rows).round(3)
    return table.assign(id=np.arange(rows) + 1000 * seed)


@pytest.fixture
def folder(files, tmp_path) -> Path:
    """model/, enforced/ and in/ with three Parquet files, one of them empty and one in a folder within."""
    shutil.copytree(files / "model", tmp_path / "model")
    save(tmp_path / "enforced", load(files / "model").enforce("truncate"))
    (tmp_path / "in" / "more").mkdir(parents=True)
    (tmp_path / "in" / "_metadata").write_text("of another program")
    for seed, name in enumerate(["a.parquet", "b.parquet", "more/c.parquet"]):
        new_rows(seed, 0 if name == "b.parquet" else ROWS).to_parquet(tmp_path / "in" / name, index=False)
    return tmp_path


def predicted(folder: Path, *more: object, model: str = "model") -> Any:
    return run("predict", folder / model, folder / "in", "--out", folder / "out", "--keep", "id", *more)


def stamps(folder: Path) -> dict[str, int]:
    return {str(each): each.stat().st_mtime_ns for each in folder.rglob("*.parquet")}


def test_files_are_predicted_as_one_table_would_be(folder: Path) -> None:
    assert predicted(folder).exit_code == 0
    for name in ("a.parquet", "more/c.parquet"):
        run(
            "predict", folder / "model", folder / "in" / name, "--out", folder / "one.parquet", "--keep", "id"
        )
        one, part = pd.read_parquet(folder / "one.parquet"), pd.read_parquet(folder / "out" / name)
        pd.testing.assert_frame_equal(part.fillna({"outside": ""}), one)


def test_every_row_is_there_exactly_once_in_what_pyarrow_reads(folder: Path) -> None:
    predicted(folder)
    whole = pd.read_parquet(folder / "out")
    assert sorted(whole["id"]) == [*range(ROWS), *range(2000, 2000 + ROWS)]


def test_blocks_change_no_prediction(folder: Path, monkeypatch) -> None:
    predicted(folder)
    monkeypatch.setattr(schema_files, "BLOCK", 7)
    run("predict", folder / "model", folder / "in", "--out", folder / "small", "--keep", "id")
    for name in ("a.parquet", "b.parquet", "more/c.parquet"):
        whole, small = (pd.read_parquet(folder / out / name) for out in ("out", "small"))
        pd.testing.assert_frame_equal(whole, small)


def test_the_summary_counts_rows_regions_violations_and_what_lies_outside(folder: Path) -> None:
    told = json.loads(predicted(folder, "--json", model="enforced").stdout)
    assert json.loads((folder / "out" / "_summary.json").read_text()) == told
    rows = pd.concat([new_rows(0), new_rows(2)])
    free, enforced = load(folder / "model"), load(folder / "enforced")
    (rule,) = told["rules"]
    inside = rows["x"] > 1
    assert (told["files"], told["rows"], told["predicted"]) == (3, 2 * ROWS, 2 * ROWS)
    assert told["outside"] == int(free.outside(rows.drop(columns="id")).any(axis=1).sum()) > 0
    assert rule["rows"] == int(inside.sum())
    names = list(free.schema_.names)
    before = predict_posterior(free.posterior_, rows[inside][names]).point
    after = predict_posterior(enforced.posterior_, rows[inside][names]).point
    assert rule["violations_before"] == int((before < 0).sum())
    assert rule["violations"] == int((after < 0).sum()) == 0


def test_violations_before_enforcement_are_counted(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 40)})
    fitted = small_regressor(noise=0.2).fit(frame, (0.3 * frame["x"]).rename("y"))
    save(tmp_path / "model", fitted.enforce("truncate", rules=["if x > 0 then y >= 0.2"]))
    (tmp_path / "in").mkdir()
    frame.to_csv(tmp_path / "in" / "a.csv", index=False)
    result = run("predict", tmp_path / "model", tmp_path / "in", "--out", tmp_path / "out", "--json")
    (rule,) = json.loads(result.stdout)["rules"]
    assert (rule["rows"], rule["violations"]) == (20, 0)
    assert rule["violations_before"] == int((fitted.predict(frame)[20:] < 0.2).sum()) > 0


def test_rows_with_missing_values_get_an_empty_line_also_where_a_block_has_no_others(
    folder: Path, monkeypatch
) -> None:
    monkeypatch.setattr(schema_files, "BLOCK", 4)
    rows = new_rows(0)
    rows.loc[[0, 1, 2, 3, 9], "x"] = None
    rows.to_parquet(folder / "in" / "a.parquet")
    told = json.loads(predicted(folder, "--json").stdout)
    found = pd.read_parquet(folder / "out" / "a.parquet")
    assert list(np.flatnonzero(found["prediction"].isna())) == [0, 1, 2, 3, 9]
    assert told["rows"] - told["predicted"] == 5


def test_csv_files_give_csv_files(folder: Path) -> None:
    shutil.rmtree(folder / "in")
    (folder / "in").mkdir()
    new_rows(0).to_csv(folder / "in" / "a.csv", index=False)
    new_rows(1).to_csv(folder / "in" / "b.csv.gz", index=False)
    assert predicted(folder).exit_code == 0
    run("predict", folder / "model", folder / "in" / "b.csv.gz", "--out", folder / "one.csv", "--keep", "id")
    pd.testing.assert_frame_equal(pd.read_csv(folder / "out" / "b.csv.gz"), pd.read_csv(folder / "one.csv"))


def test_classes_are_predicted_with_the_same_columns(tmp_path: Path) -> None:
    table = small_table()
    fitted = small_classifier(class_weight="balanced").fit(table[["x", "ward"]], table["sick"])
    save(tmp_path / "model", fitted)
    (tmp_path / "in").mkdir()
    new_rows(0).to_parquet(tmp_path / "in" / "a.parquet")
    for source, out in ((tmp_path / "in", "out"), (tmp_path / "in" / "a.parquet", "one.parquet")):
        assert run("predict", tmp_path / "model", source, "--out", tmp_path / out).exit_code == 0
    one, part = pd.read_parquet(tmp_path / "one.parquet"), pd.read_parquet(tmp_path / "out" / "a.parquet")
    pd.testing.assert_frame_equal(part.fillna({"outside": ""}), one)
    assert list(part) == columns_of(fitted)


def test_a_restart_does_only_what_is_missing_or_has_changed(folder: Path) -> None:
    predicted(folder)
    before = stamps(folder / "out")
    (folder / "out" / "a.parquet").unlink()
    new_rows(5).to_parquet(folder / "in" / "more" / "c.parquet")
    result = predicted(folder)
    assert "1 of 3 files are there already" in words(result)
    after = stamps(folder / "out")
    same = {Path(name).name for name in before if before[name] == after[name]}
    assert same == {"b.parquet"}
    assert set(pd.read_parquet(folder / "out" / "more" / "c.parquet")["id"]) == set(range(5000, 5000 + ROWS))


def test_a_crash_at_any_point_of_a_file_leaves_it_whole_or_missing(folder: Path, monkeypatch) -> None:
    """Killed between record and file, or half-way through a file: the next run does that file again."""
    write = partitions.write_bytes

    def killed(path: Path, content: bytes) -> None:
        write(path, content)
        if path.name == "c.parquet.json":
            raise SystemExit(9)

    monkeypatch.setattr(partitions, "write_bytes", killed)
    predicted(folder)
    assert not (folder / "out" / "more" / "c.parquet").exists()
    monkeypatch.undo()
    told = json.loads(predicted(folder, "--json").stdout)
    assert told["rows"] == 2 * ROWS == len(pd.read_parquet(folder / "out"))


def test_ctrl_c_keeps_what_is_done(folder: Path, monkeypatch) -> None:
    done: list[str] = []

    def interrupted(part: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(part.name)
        return predict_part(part)

    monkeypatch.setattr(partitions, "predict_part", interrupted)
    result = predicted(folder)
    assert result.exit_code == 130
    assert "1 of 3 files are done" in words(result)
    monkeypatch.undo()
    assert "1 of 3 files are there already" in words(predicted(folder))


def test_sums_of_figures_go_by_name_and_place() -> None:
    one = {"rows": 2, "rules": [{"name": "a", "rows": 1, "violations": None}]}
    two = {"rows": 3, "rules": [{"name": "a", "rows": 2, "violations": None}]}
    assert reduced([one, two]) == {"rows": 5, "rules": [{"name": "a", "rows": 3, "violations": None}]}


# What goes wrong --------------------------------------------------------------------------------------------


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def half(path: Path) -> None:
    """The footer is whole, and what it speaks of is not."""
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(len(content) // 3) + content[4 + len(content) // 3 :])


WRONG = {
    "a missing column": (
        lambda path: new_rows(1).drop(columns="age").to_parquet(path),
        "has no column 'age'",
    ),
    "another type": (
        lambda path: new_rows(1).astype({"x": str}).to_parquet(path),
        "The column 'x' of .*more/c.parquet holds (large_)?string, and that of .*a.parquet double",
    ),
    "another type of a kept column": (
        lambda path: new_rows(1).astype({"id": float}).to_parquet(path),
        "The column 'id' of .*more/c.parquet holds double",
    ),
    "a truncated file": (truncated, "more/c.parquet cannot be read"),
    "a damaged file": (half, "more/c.parquet cannot be read"),
    "an unseen label": (
        lambda path: new_rows(1).assign(ward="z").to_parquet(path),
        "more/c.parquet: Column 'ward' has the unseen category 'z' in row 0",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_cannot_be_used_is_named_and_nothing_of_it_is_written(folder: Path, what: str) -> None:
    damage, said = WRONG[what]
    damage(folder / "in" / "more" / "c.parquet")
    result = predicted(folder)
    assert result.exit_code == 2
    assert re.search(said, words(result)), words(result)
    assert "Traceback" not in result.output
    assert not [
        each for each in (folder / "out").rglob("*") if each.name[0] == "." or "c.parquet" in each.name
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "{}/in/out"], "give a folder of its own"),
        (["--out", "{}/in"], "is an input"),
        ([], "give --out a folder"),
        (["--out", "{}/model"], "is an input"),
        (["--out", "{}/other"], "holds 'mine.txt', which is not of predictions"),
        (["--out", "{}/out", "--workers", "1", "--cluster", "tcp://127.0.0.1:1"], "give one"),
        (["--out", "{}/out", "--keep", "nobody"], "has no column 'nobody'"),
        (["--out", "{}/out", "--keep", "prediction"], "predictions have a column of that name"),
    ],
)
def test_wrong_options_are_refused_before_any_work(folder: Path, options: list[str], said: str) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "mine.txt").write_text("mine")
    more = [each.format(folder) for each in options]
    result = run("predict", folder / "model", folder / "in", *more)
    assert (result.exit_code, said in words(result)) == (2, True), words(result)
    assert not (folder / "out").exists()


def test_predictions_of_another_model_or_of_files_that_are_gone_are_not_mixed(folder: Path) -> None:
    predicted(folder)
    assert "predictions with another model" in words(predicted(folder, model="enforced"))
    assert "predictions with another interval" in words(predicted(folder, "--interval", "0.5"))
    (folder / "in" / "a.parquet").unlink()
    assert "holds 'a.parquet', which has no file in" in words(predicted(folder))


def test_workers_are_for_folders(files, tmp_path: Path) -> None:
    result = run("predict", files / "model", files / "table.csv", "--workers", "2")
    assert "share the files of a folder" in words(result)


def test_a_missing_dask_is_a_sentence(folder: Path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    result = predicted(folder, "--workers", "2")
    assert result.exit_code == 2
    assert "pip install 'ocbnn[dask]'" in words(result)


def test_an_address_that_nobody_answers_is_a_sentence(folder: Path, monkeypatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(partitions, "PATIENCE", 1)
    result = predicted(folder, "--cluster", "tcp://127.0.0.1:9")
    assert result.exit_code == 2
    assert "No Dask scheduler answers at tcp://127.0.0.1:9" in words(result)
    assert not (folder / "out").exists()


# Workers ----------------------------------------------------------------------------------------------------


@pytest.fixture
def many(files, tmp_path) -> Path:
    """model/ and in/ with 24 files of 2,000 rows."""
    shutil.copytree(files / "model", tmp_path / "model")
    (tmp_path / "in").mkdir()
    for seed in range(24):
        rows = np.random.default_rng(seed).integers(0, ROWS, 2000)
        table = new_rows(seed).iloc[rows].assign(id=np.arange(2000) + 10_000 * seed)
        table.to_parquet(tmp_path / "in" / f"{seed:02}.parquet", index=False)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    """The files of predictions, byte by byte."""
    return {each.name: each.read_bytes() for each in sorted(folder.glob("*.parquet"))}


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["workers live", "a worker is killed"])
def test_workers_write_what_one_process_writes(many: Path, cluster, monkeypatch, kill: bool) -> None:
    assert run("predict", many / "model", many / "in", "--out", many / "alone").exit_code == 0
    say, killed = Voice.say, []

    def watching(voice: Voice, text: str = "", style: str | None = None) -> None:
        if kill and "(2 of" in text:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)
        say(voice, text, style)

    monkeypatch.setattr(Voice, "say", watching)
    address = cluster.scheduler_address
    result = run("predict", many / "model", many / "in", "--out", many / "out", "--cluster", address)
    assert result.exit_code == 0, result.output
    assert bool(killed) == kill
    assert contents(many / "out") == contents(many / "alone")
    assert (many / "out" / "_summary.json").read_text() == (many / "alone" / "_summary.json").read_text()


@pytest.mark.slow
def test_after_kill_9_of_the_command_the_next_one_does_the_rest(many: Path) -> None:
    assert run("predict", many / "model", many / "in", "--out", many / "alone").exit_code == 0
    call = [
        sys.executable,
        "-c",
        "from ocbnn.cli import main; main()",
        "predict",
        many / "model",
        many / "in",
    ]
    call += ["--out", many / "out", "--workers", "2"]
    with subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and len(contents(many / "out")) < 3:
            time.sleep(0.01)
        process.kill()
    before = contents(many / "out")
    assert 3 <= len(before) < 24
    result = run("predict", many / "model", many / "in", "--out", many / "out")
    done = re.search(r"(\d+) of 24 files are there already", words(result))
    assert done is not None
    assert int(done[1]) >= len(before) - 1
    assert contents(many / "out") == contents(many / "alone")
    assert json.loads((many / "out" / "_summary.json").read_text())["rows"] == 24 * 2000
