"""The comparison on tables: splits are right and the same for all, scores are closed forms, records whole."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.model_selection import train_test_split

from benchmarks import tables
from benchmarks.panel import harness
from benchmarks.panel.data import Table, tables_in
from benchmarks.panel.harness import measure, read_task, write_task
from benchmarks.panel.models import OURS, PEERS, RULES, Task, point_model
from benchmarks.panel.scores import Difference, Record, Scored, gaussian_mixture, paired
from ocbnn.checking.explain import contradicting_rows
from ocbnn.model import Model

ROWS = 60


@pytest.fixture
def frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    columns = {"size": random.uniform(1, 9, ROWS), "kind": random.choice(["a", "b"], ROWS)}
    return pd.DataFrame({**columns, "price": 3 * columns["size"] + random.normal(0, 1, ROWS) + 2})


@pytest.fixture
def table(frame) -> Table:
    return Table("houses", frame[["size", "kind"]], frame["price"])


def record(model: str, split: int, score: float, **other) -> Record:
    same = {
        "table": "houses",
        "rmse": score,
        "nll": score,
        "coverage": 0.9,
        "seconds": 1.0,
        "status": "fitted",
    }
    return Record(**{**same, "model": model, "split": split, **other})


class TestFolders:
    def test_the_target_is_last_and_packed_files_are_read(self, frame, tmp_path):
        frame.to_csv(tmp_path / "houses.csv.gz", index=False)
        frame.to_csv(tmp_path / "flats.csv", index=False)
        flats, houses = tables_in(tmp_path)
        assert (flats.name, houses.name) == ("flats", "houses")
        assert list(houses.X) == ["size", "kind"]
        pd.testing.assert_series_equal(houses.y, frame["price"])

    def test_test_rows_that_came_with_a_table_are_its_splits(self, frame, tmp_path):
        given = pd.DataFrame({f"split_{k}": np.arange(ROWS) % 10 == k for k in range(3)}).astype(int)
        frame.to_csv(tmp_path / "houses.csv.gz", index=False)
        given.to_csv(tmp_path / "houses-test-rows.csv.gz", index=False)
        (table,) = tables_in(tmp_path)
        assert [list(split.test) for split in table.splits(2)] == [list(range(k, ROWS, 10)) for k in (0, 1)]
        assert len(table.splits(10)) == 3

    def test_a_pair_of_files_has_its_own_split_before_random_ones_of_all_rows(self, frame, tmp_path):
        frame[:45].to_csv(tmp_path / "houses-train.csv", index=False)
        frame[45:].to_csv(tmp_path / "houses-test.csv", index=False)
        (table,) = tables_in(tmp_path)
        own, *others = table.splits(10)
        assert list(own.test) == list(range(45, ROWS))
        alone = Table("houses", table.X, table.y).splits(10)
        assert [list(split.test) for split in others] == [list(split.test) for split in alone]

    def test_what_files_do_not_say_of_the_panel_is_known(self, frame, tmp_path):
        renamed = frame[["price", "size"]].set_axis(["mpg", "weight"], axis=1)
        renamed.to_csv(tmp_path / "auto-mpg.csv", index=False)
        renamed.to_csv(tmp_path / "creep-nickel.csv", index=False)
        cars, creep = tables_in(tmp_path)
        assert (cars.y.name, list(cars.X)) == ("mpg", ["weight"])
        np.testing.assert_array_equal(creep.y, np.log(renamed["weight"]))


class TestSplits:
    def test_random_ones_are_those_of_scikit_learn_with_a_tenth_of_rows_by_seed(self, table):
        for seed, split in enumerate(table.splits(3)):
            train, test = train_test_split(np.arange(ROWS), test_size=0.1, random_state=seed)
            assert (list(split.train), list(split.test)) == (sorted(train), sorted(test))
            assert split.number == seed

    def test_all_models_are_given_the_same_rows(self, table, tmp_path):
        split = table.splits(1)[0]
        write_task(tmp_path / "task.npz", table, split)
        task = read_task(tmp_path / "task.npz")
        pd.testing.assert_frame_equal(task.X, table.X.iloc[split.train], check_dtype=False)
        pd.testing.assert_frame_equal(task.X_test, table.X.iloc[split.test], check_dtype=False)
        np.testing.assert_array_equal(task.y_test, table.y.to_numpy()[split.test])
        assert (task.target, task.seed) == ("price", 0)

    def test_text_is_one_hot_for_peers_alike_in_training_and_test_rows(self):
        X = pd.DataFrame({"kind": ["a", "b", "c"], "size": [1.0, 2.0, 3.0]})
        train, test = Task(X[:2], np.zeros(2), X[2:], np.zeros(1), "y", 0).numbers()
        np.testing.assert_array_equal(train, [[1, 1, 0, 0], [2, 0, 1, 0]])
        np.testing.assert_array_equal(test, [[3, 0, 0, 1]])


class TestScores:
    def test_a_single_gaussian_has_the_closed_forms(self):
        y, mean, sd = np.array([0.0, 1.0, 5.0]), np.array([0.5, 1.0, 1.0]), np.array([1.0, 0.1, 2.0])
        scored = gaussian_mixture(y, mean, sd)
        np.testing.assert_allclose(scored.log_density, norm.logpdf(y, mean, sd), rtol=1e-12)
        np.testing.assert_allclose(scored.error, y - mean)
        assert list(scored.covered) == [True, True, False]

    def test_a_mixture_is_a_density_and_its_interval_holds_nine_tenths(self):
        means, sds = np.array([[-3.0], [0.0], [4.0]]), np.array([[0.5], [1.0], [2.0]])
        mass, _ = quad(lambda y: np.exp(gaussian_mixture(np.array([y]), means, sds).log_density[0]), -30, 30)
        assert mass == pytest.approx(1.0, abs=1e-7)
        random = np.random.default_rng(0)
        each = random.integers(0, 3, 20_000)
        drawn = random.normal(means[each, 0], sds[each, 0])
        covered = gaussian_mixture(
            drawn, *(np.repeat(part, len(drawn), axis=1) for part in (means, sds))
        ).covered
        assert covered.mean() == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 20_000))

    def test_the_summary_is_over_test_rows(self):
        found = Scored(np.array([3.0, 4.0]), np.array([-1.0, -2.0]), np.array([True, False])).summary()
        assert found == pytest.approx({"rmse": np.sqrt(12.5), "nll": 1.5, "coverage": 0.5})

    def test_noise_of_point_models_is_that_of_held_out_rows(self):
        """A model that repeats its training rows has no residuals there; its stated noise is not 0."""
        from sklearn.neighbors import KNeighborsRegressor

        random = np.random.default_rng(0)
        X, y = pd.DataFrame({"x": random.uniform(size=400)}), random.normal(size=400)
        task = Task(X[:300], y[:300], X[300:], y[300:], "y", 0)
        scored, _ = point_model(lambda seed: KNeighborsRegressor(1), task)
        # One noisy row predicts another: the difference has a variance of 2.
        noise = np.exp(-0.5 * (scored.error / np.sqrt(2)) ** 2) / np.sqrt(2 * np.pi * 2)
        np.testing.assert_allclose(np.exp(scored.log_density), noise, rtol=0.3)


class TestComparison:
    def test_differences_are_paired_by_split(self):
        records = [
            record("ocbnn", 0, 1.0),
            record("bde", 0, 1.5),
            record("ocbnn", 1, 4.0),
            record("bde", 1, 3.7),
        ]
        records += [record("ocbnn", 2, 9.0), record("bde", 2, None, nll=None, coverage=None)]
        difference = paired(records, "houses", "ocbnn", "bde", "nll")
        assert difference == pytest.approx(Difference(-0.1, np.std([-0.5, 0.3], ddof=1) / np.sqrt(2)))

    @pytest.mark.parametrize(
        ("changed", "words"),
        [
            ({"nll": 1.2}, "NLL"),
            ({"rmse": 1.1}, "RMSE"),
            ({"coverage": 0.8}, "cover"),
            ({"seconds": 3.0}, "s in all"),
            ({"rmse": None}, "failed"),
        ],
    )
    def test_what_is_worse_than_allowed_is_named(self, changed, words):
        peers = [record("bde", split, 1.0) for split in range(10)]
        assert not list(tables.shortfalls([*peers, *(record("ocbnn", split, 1.0) for split in range(10))]))
        worse = [record("ocbnn", split, 1.0, **changed) for split in range(10)]
        assert any(words in each for each in tables.shortfalls([*peers, *worse]))

    def test_the_time_of_a_rule_is_the_median_over_splits_of_ratios(self):
        records = [record("ocbnn", split, 1.0) for split in range(3)]
        records += [record("ocbnn+region", split, 1.0, seconds=(split + 1.0) ** 2) for split in range(3)]
        assert tables.rule_times(records, "region") == {"houses": 4.0}

    def test_the_summary_has_a_line_for_every_model(self):
        records = [record("ocbnn", 0, 1.0), record("bde", 0, 1.5), record("gp", 0, None)]
        text = "\n".join(tables.summary(records))
        assert "-0.500" in text
        assert "gp               failed" in text


class TestRules:
    def test_rules_are_true_of_the_rows_they_are_made_from(self, frame):
        for price in (frame["price"], (40 - frame["price"]).rename("price")):
            rules = [recipe(frame[["size", "kind"]], price) for recipe in RULES.values()]
            model = Model.build(frame=frame.assign(price=price), target="price", rules=rules)
            for rule in model.terms:
                rows = contradicting_rows(model, rule)
                assert rows.inside >= 6
                assert rows.against == 0

    def test_a_target_with_negative_values_is_not_ruled_positive(self, frame):
        with pytest.raises(ValueError, match="not true"):
            RULES["positive"](frame, frame["price"] - 50)


class TestPeers:
    def test_their_environment_is_made_once_and_again_when_requirements_change(self, tmp_path, monkeypatch):
        made, installed = [], []
        monkeypatch.setattr(harness, "PEERS_FOLDER", tmp_path)
        monkeypatch.setattr(harness.venv, "create", lambda folder, with_pip: made.append(folder))
        monkeypatch.setattr(
            harness.subprocess,
            "run",
            lambda command: installed.append(command) or subprocess.CompletedProcess(command, 0),
        )
        for _ in range(2):
            harness.peers_python()
        assert (len(made), len(installed)) == (1, 1)
        (tmp_path / "requirements.txt").write_text("bde==0", "utf-8")
        harness.peers_python()
        assert harness.REQUIREMENTS in installed[1]


class TestRuns:
    def test_records_have_the_fields_that_others_read(self, table, tmp_path, monkeypatch):
        """scikit-learn's network runs in this environment as it does in the peers'."""
        monkeypatch.setattr(harness, "peers_python", lambda: sys.executable)
        file = tmp_path / "records.json"
        found = tables.run([table], 1, ["network"], file)
        assert json.loads(file.read_text("utf-8")) == found
        (one,) = found
        assert list(one) == ["table", "split", "model", "rmse", "nll", "coverage", "seconds", "status"]
        assert (one["table"], one["split"], one["model"], one["status"]) == ("houses", 0, "network", "fitted")
        assert 0 < one["rmse"] < 5
        assert 0 <= one["coverage"] <= 1

    @pytest.mark.slow
    def test_ours_says_its_status_and_its_rule(self, table):
        one = measure(table, table.splits(1)[0], f"{OURS}+region")
        assert "settled" in one["status"]
        assert "; rule: if `size` >= " in one["status"]
        assert one["rmse"] < 5

    def test_a_model_that_fails_has_a_record_that_says_why(self, table, monkeypatch):
        monkeypatch.setattr(harness, "peers_python", lambda: sys.executable)
        missing = Table(table.name, table.X.assign(size=np.nan), table.y)
        one = measure(missing, missing.splits(1)[0], "network")
        assert one["rmse"] is None
        assert one["status"].startswith("failed: ")

    def test_an_unknown_name_is_a_sentence(self):
        with pytest.raises(SystemExit, match=r"Unknown models: bda\. Expected some of: ocbnn"):
            tables.chosen("ocbnn,bda", ["ocbnn", *PEERS], "models")

    def test_a_folder_without_tables_is_a_sentence(self, tmp_path):
        command = [sys.executable, "-m", "benchmarks.tables", "--tables", tmp_path]
        done = subprocess.run(command, capture_output=True, text=True, cwd=harness.ROOT)
        assert done.returncode == 1
        assert "has no tables" in done.stdout
