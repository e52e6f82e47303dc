"""Tables in files: one pass says what a table in memory shows, and a fit gives the same answer."""

from __future__ import annotations

import gc
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ocbnn import OCBNNClassifier, OCBNNRegressor, resources
from ocbnn.errors import InferenceError, OCBNNError, ResourceError, SchemaError
from ocbnn.estimators import large
from ocbnn.estimators.large import LargeTable, RowStream, hashed
from ocbnn.estimators.tables import distinct_rows
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.feed import Feed
from ocbnn.schema import Schema
from ocbnn.schema import files as schema_files
from small_estimators import UNPREPARED

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
ROWS, FILES = 3000, 3


def rows(count: int = ROWS) -> pd.DataFrame:
    """Numbers of several kinds, an amount, a category with a rare level in the last row, and a target."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": generator.normal(3, 2, count),
            "dose": generator.lognormal(1, 1, count),
            "age": generator.integers(20, 90, count),
            "sick": generator.integers(0, 2, count),
            "ward": generator.choice(["ICU", "surgery"], count),
        }
    )
    frame.loc[count - 1, "ward"] = "rare"
    frame["y"] = 2 * np.sin(frame["x"]) + frame["sick"] + generator.normal(0, 0.3, count)
    return frame


def write(folder: Path, frame: pd.DataFrame, ending: str = ".parquet", group: int = 200) -> Path:
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(len(frame)), FILES)):
        some, path = frame.iloc[part], folder / f"{number}{ending}"
        if ending == ".parquet":
            parquet.write_table(
                arrow.Table.from_pandas(some, preserve_index=False), path, row_group_size=group
            )
        else:
            some.to_csv(path, index=False)
    return folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine in which 500 rows are many."""
    monkeypatch.setattr(large, "SAMPLE", 500)
    monkeypatch.setattr(large, "WINDOW", 700)
    monkeypatch.setattr(large, "LARGEST_GROUP", 400)
    monkeypatch.setattr(schema_files, "BLOCK", 128)
    monkeypatch.setattr(schema_files, "CSV_BYTES", 4096)


@pytest.mark.parametrize(
    ("ending", "group"), [(".parquet", 200), (".parquet", 1000), (".csv", 0), (".csv.gz", 0)]
)
def test_one_pass_gives_the_schema_of_the_table_in_memory(
    small: None, tmp_path: Path, ending: str, group: int
) -> None:
    frame = rows()
    table = LargeTable(write(tmp_path / "in", frame, ending, group), "y")
    sample = table.train
    assert (table.rows, table.fitted, len(sample), table.whole) == (ROWS, ROWS, 500, False)
    declared = table.declared({}, "regression")
    schema = Schema.infer(sample, target="y", columns=declared)
    names = list(schema.names)
    found = table.completed(distinct_rows(sample[names], sample["y"], None, schema)).schema
    wanted = Schema.infer(frame, target="y")
    assert [each.kind for each in found.columns] == [each.kind for each in wanted.columns]
    assert found.column("ward").levels == ("ICU", "rare", "surgery")
    for one, other in zip(
        (*found.columns[:4], found.target), (*wanted.columns[:4], wanted.target), strict=True
    ):
        assert one.center == pytest.approx(other.center, rel=1e-9)
        assert one.scale == pytest.approx(other.scale, rel=1e-9)
        values = np.sort(frame[other.name])
        for end, level in zip(one.observed, (0.005, 0.995), strict=True):
            place = np.searchsorted(values, [end]).item() / ROWS
            assert other.name in ("age", "sick") or place == pytest.approx(level, abs=0.002)
    assert found.column("age").observed == (20.0, 89.0)
    assert found.column("sick").observed == (0.0, 1.0)


def test_the_sample_is_of_rows_by_chance_and_the_same_however_files_are_cut(
    small: None, tmp_path: Path
) -> None:
    frame = rows()
    one = LargeTable(write(tmp_path / "a", frame, group=200), "y").sample
    other = LargeTable(write(tmp_path / "b", frame, ".csv"), "y").sample
    assert one.index.equals(other.index)
    pd.testing.assert_frame_equal(one[["x", "y"]], frame.loc[one.index, ["x", "y"]])
    counts, _ = np.histogram(one.index, bins=5, range=(0, ROWS))
    assert (np.abs(counts - 100) < 4 * np.sqrt(100 * 0.8)).all()


def test_hashes_of_row_numbers_are_uniform_and_depend_on_the_seed() -> None:
    values = hashed(np.arange(100_000), 1)
    counts, _ = np.histogram(values, bins=20, range=(0, 1))
    assert np.abs(counts - 5000).max() < 5 * np.sqrt(5000)
    assert abs(np.corrcoef(values, hashed(np.arange(100_000), 2))[0, 1]) < 0.02
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.02


def stream(path: Path, **options: Any) -> RowStream:
    table = LargeTable(path, "y", **options)
    sample = table.train
    return table.stream(Schema.infer(sample, target="y", columns=table.declared({}, None)))


@pytest.mark.parametrize("group", [200, 1000])
def test_each_pass_has_every_row_once_in_another_order(small: None, tmp_path: Path, group: int) -> None:
    frame = rows()
    rest = stream(write(tmp_path / "in", frame, group=group), share=0.2)
    kept = ~rest.table.is_held(np.arange(ROWS))
    assert 0.17 < 1 - kept.mean() < 0.23
    assert rest.rows == kept.sum()
    target = rest.schema.target
    wanted = np.sort(target.to_model(frame["y"][kept]).astype(np.float32))
    passes = [np.asarray(rest.take(7, turn * rest.rows, rest.rows).y) for turn in range(2)]
    for found in passes:
        np.testing.assert_array_equal(np.sort(found), wanted)
    assert not np.array_equal(*passes)
    assert abs(np.corrcoef(passes[0], np.arange(rest.rows))[0, 1]) < 0.1


def test_rows_do_not_depend_on_how_many_are_taken_at_once(small: None, tmp_path: Path) -> None:
    rest = stream(write(tmp_path / "in", rows()))
    whole = rest.take(7, 0, 2 * ROWS)
    fresh = stream(tmp_path / "in")
    parts = [fresh.take(7, first, 250) for first in range(0, 2 * ROWS, 250)]
    np.testing.assert_array_equal(np.concatenate([part.inputs for part in parts]), whole.inputs)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), whole.y)


BBB = Bbb(steps=1500, learning_rate=0.02)


def regressor(**options: Any) -> OCBNNRegressor:
    settings: dict[str, Any] = {"engine": BBB, "hidden": (12,), "draws": 200, "batch": 256, "random_state": 0}
    return OCBNNRegressor(
        **{**settings, "noise": "constant", "preparation": UNPREPARED, "cores": 1, **options}
    )


def test_a_fit_of_files_gives_the_answer_of_a_fit_in_memory(small: None, tmp_path: Path) -> None:
    frame = rows()
    X, y = frame.drop(columns="y"), frame["y"]
    folder = write(tmp_path / "in", frame)
    apart, own = (regressor(random_state=seed).fit(X, y) for seed in (0, 1))
    other = regressor().fit(folder, "y")
    assert other.posterior_.provenance["data_rows"] == ROWS
    at = X.iloc[:300]
    sd = np.sqrt(np.mean((own.predict(at) - apart.predict(at)) ** 2))
    # As far from a fit in memory as another one with another seed is, within a factor for chance.
    assert np.sqrt(np.mean((other.predict(at) - own.predict(at)) ** 2)) < 2 * sd
    noise = [float(np.exp(fit.posterior_.flat[:, -1]).mean()) for fit in (own, other)]
    assert noise[1] == pytest.approx(noise[0], rel=0.1)


def test_a_table_that_fits_is_fitted_as_in_memory_exactly(tmp_path: Path) -> None:
    frame = rows(600)
    quick = {"engine": Bbb(steps=50)}
    one = regressor(**quick).fit(frame.drop(columns="y"), frame["y"])
    other = regressor(**quick).fit(write(tmp_path / "in", frame), "y")
    assert np.array_equal(one.posterior_.flat, other.posterior_.flat)


def test_classes_that_the_sample_lacks_are_known(small: None, tmp_path: Path) -> None:
    frame = rows()
    frame["y"] = np.where(frame["y"] > 0, "high", "low")
    frame.loc[ROWS - 2, "y"] = "never seen"
    settings: dict[str, Any] = {
        "engine": Bbb(steps=50),
        "hidden": (3,),
        "preparation": UNPREPARED,
        "draws": 20,
    }
    fitted = OCBNNClassifier(random_state=0, **settings).fit(str(write(tmp_path / "in", frame)), "y")
    assert fitted.classes_.tolist() == ["high", "low", "never seen"]
    assert fitted.predict_proba(frame[:5].drop(columns="y")).shape == (5, 3)


def test_missing_values_take_part_with_an_indicator(small: None, tmp_path: Path) -> None:
    frame = rows()
    frame.loc[::10, "x"] = np.nan
    folder = write(tmp_path / "in", frame)
    fitted = regressor(engine=Bbb(steps=20), missing="indicator").fit(folder, "y")
    column = fitted.schema_.column("x")
    assert (column.indicator, column.missing) == (True, ROWS // 10)
    assert column.mean == pytest.approx(frame["x"].mean())
    with pytest.raises(SchemaError, match=r"'x' of .* has 300 missing values"):
        regressor().fit(folder, "y")


def test_a_run_on_files_resumes_bit_by_bit(small: None, tmp_path: Path) -> None:
    folder, run = write(tmp_path / "in", rows()), tmp_path / "run"
    whole = regressor(engine=Bbb(steps=150)).fit(folder, "y")

    def interrupt(tick: Any) -> None:
        if tick.done >= 100:
            raise KeyboardInterrupt

    part = regressor(engine=Bbb(steps=150)).fit(folder, "y", folder=run, progress=interrupt)
    assert not part.posterior_.provenance["complete"]
    again = regressor(engine=Bbb(steps=150)).fit(folder, "y", folder=run, resume=True)
    assert np.array_equal(again.posterior_.flat, whole.posterior_.flat)


def test_a_fitted_estimator_travels(small: None, tmp_path: Path) -> None:
    fitted = regressor(engine=Bbb(steps=20)).fit(write(tmp_path / "in", rows()), "y")
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.without_rules().flat, fitted.without_rules().flat)


def test_minibatches_stand_for_all_rows(small: None, tmp_path: Path) -> None:
    model = regressor(engine=Bbb(steps=1)).fit(write(tmp_path / "in", rows()), "y").posterior_.model
    data = Feed(model, 0, 100).chunk(0, 4).data
    assert data is not None
    assert data.inputs.shape[:2] == (4, 100)
    assert np.asarray(data.weights).sum(axis=1) == pytest.approx(ROWS)
    assert np.asarray(model.data.weights).sum() == pytest.approx(ROWS)


# What goes wrong --------------------------------------------------------------------------------------------


def test_engines_that_need_all_rows_are_refused(small: None, tmp_path: Path) -> None:
    with pytest.raises(InferenceError, match="takes minibatches"):
        regressor(engine="hmc").fit(write(tmp_path / "in", rows()), "y")


@pytest.mark.parametrize(
    "what", ["column", "type", "truncated", "ragged", "infinite", "target", "weights", "none"]
)
def test_what_cannot_be_used_is_a_sentence_with_the_file(small: None, tmp_path: Path, what: str) -> None:
    frame, ending = rows(), ".csv" if what == "ragged" else ".parquet"
    if what == "infinite":
        frame.loc[7, "x"] = np.inf
    folder = write(tmp_path / "in", frame, ending)
    last = folder / f"2{ending}"
    target, options, said = "y", {}, ""
    match what:
        case "column":
            frame.drop(columns="age").to_parquet(last)
            said = "2.parquet has no column 'age'"
        case "type":
            frame.astype({"age": str}).to_parquet(last)
            said = "The column 'age' of .*2.parquet holds"
        case "truncated":
            last.write_bytes(last.read_bytes()[:-9])
            said = "2.parquet cannot be read"
        case "ragged":
            last.write_text(last.read_text() + "1,2\n")
            said = "2.csv cannot be read"
        case "infinite":
            said = "'x' of .*0.parquet is infinite"
        case "target":
            target, said = "z", "has no column 'z'"
        case "weights":
            options, said = {"sample_weight": np.ones(3)}, "no sample_weight"
        case "none":
            folder = tmp_path / "nothing"
            folder.mkdir()
            said = "holds no table"
    with pytest.raises(OCBNNError) as caught:
        regressor().fit(folder, target, **options)
    assert re.search(said, str(caught.value)), caught.value


def table_of(tmp_path: Path, frame: pd.DataFrame, ending: str = ".csv") -> LargeTable:
    return LargeTable(write(tmp_path / "in", frame, ending), "y")


@pytest.mark.parametrize("of_chance", [False, True])
def test_text_that_is_doubtful_in_memory_is_doubtful_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_chance: bool
) -> None:
    """Levels were declared for every text, so that nobody asked whether it is one."""
    frame = rows(600)
    frame["lab"] = [f"{value:.2f}" for value in np.linspace(1, 2, 600)]
    frame.loc[[7, 207, 407], "lab"] = "<0.1"  # one in each file
    if of_chance:
        frame["lab"] = [f"p{value % 120}" for value in range(600)]
        monkeypatch.setattr(large, "SAMPLE", 90)
    with pytest.raises(SchemaError, match="'lab'") as wanted:
        Schema.infer(frame, target="y")
    with pytest.raises(SchemaError) as found:
        table_of(tmp_path, frame).declared({}, "regression")
    same = slice(0, 30)
    assert str(found.value)[same] == str(wanted.value)[same]
    declared = table_of(tmp_path, frame).declared({"lab": {"kind": "category"}}, "regression")
    assert len(declared["lab"]["levels"]) == frame["lab"].nunique()


def test_row_labels_without_a_name_are_no_input(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows()[::2].to_parquet(tmp_path / "in" / "a.parquet")
    assert LargeTable(tmp_path / "in", "y").inputs == ["x", "dose", "age", "sick", "ward"]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_the_separator_of_each_file_is_found(tmp_path: Path, separator: str) -> None:
    folder = write(tmp_path / "in", rows(60), ".csv")
    wanted = LargeTable(folder, "y").sample
    rows(60).iloc[20:40].to_csv(folder / "1.csv", index=False, sep=separator)
    pd.testing.assert_frame_equal(LargeTable(folder, "y").sample, wanted)


def test_a_single_file_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(SchemaError, match="not a table that ocbnn reads"):
        LargeTable(tmp_path / "t.xlsx", "y")


def test_rows_that_do_not_fit_into_memory_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = table_of(tmp_path, rows(600))
    schema = Schema.infer(rest.train, target="y")
    monkeypatch.setattr(resources, "SMALL", 0)
    monkeypatch.setattr(resources, "free_memory", lambda: 1000)
    with pytest.raises(ResourceError, match="shuffled together, would take at least"):
        rest.stream(schema)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what is temporary."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_a_copy_that_the_disk_has_no_room_for_is_refused(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(9, 9, 0))  # type: ignore[attr-defined]
    with pytest.raises(ResourceError, match="TMPDIR"):
        table_of(tmp_path, rows(60))
    assert not list(scratch.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_copy_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path, scratch: Path) -> None:
    folder = write(tmp_path / "in", rows(60), ".csv")
    one = LargeTable(folder, "y")
    (living,) = scratch.iterdir()
    assert living.stat().st_mode & 0o077 == 0  # its rows are nobody else's business
    work = f"import os; from ocbnn.estimators.large import LargeTable; t = LargeTable({str(folder)!r}, 'y')"
    subprocess.run(
        [sys.executable, "-c", f"{work}; os.kill(os.getpid(), 9)"],
        env={**os.environ, "TMPDIR": str(scratch)},
        check=False,
    )
    assert len(list(scratch.iterdir())) == 2
    other = LargeTable(folder, "y")
    assert len(list(scratch.iterdir())) == 2
    assert living.exists()
    del one, other
    gc.collect()
    assert not list(scratch.iterdir())


def test_a_file_that_changes_during_the_fit_is_noticed(small: None, tmp_path: Path) -> None:
    rest = stream(write(tmp_path / "in", rows()))
    rows().iloc[:10].to_parquet(tmp_path / "in" / "0.parquet")
    with pytest.raises(SchemaError, match=r"0\.parquet"):
        rest.take(0, 0, ROWS)
