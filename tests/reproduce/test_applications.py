"""What the applications share: rules files, figures of rows, standard errors over clusters."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, f1_score

import ocbnn
from command_line import run
from real_data import folder_of
from reproduce.applications.common import (
    area,
    fit_estimator,
    mean_of,
    rules_path,
    save_table,
    scores,
    with_errors,
)
from reproduce.experiments import APPLICATIONS, EXPERIMENTS, expanded, fits
from reproduce.outcome import SETTINGS
from reproduce.plans import plan
from reproduce.progress import watching
from reproduce.runs import save_all

REAL = [
    ("clinical", "mimic3_demo", {"bnn", "ocbnn"}),
    ("recidivism", "compas", {"bnn", "ocbnn", "bnn_without_race", "ocbnn_without_race"}),
    ("credit", "credit", {"truth", "bnn_full", "bnn_blind", "ocbnn"}),
]


def test_scores_and_area_are_of_the_rows_asked_for() -> None:
    labels, predicted = np.array([0, 1, 1, 0]), np.array([0, 1, 0, 1])
    figures = scores(labels, predicted)
    everything, first = np.arange(4), np.array([0, 1])
    assert figures["accuracy"](everything) == 0.5
    assert figures["f1"](everything) == 0.5
    assert figures["f1"](first) == 1.0
    chance = area(labels, np.array([0.1, 0.9, 0.4, 0.6]))
    assert chance(everything) == 0.75
    assert np.isnan(chance(np.array([0, 3])))


def test_scores_are_scikit_learns() -> None:
    generator = np.random.default_rng(0)
    for share in (0.0, 0.1, 0.5, 1.0):
        labels, predicted = generator.binomial(1, 0.3, 200), generator.binomial(1, share, 200)
        figures = scores(labels, predicted)
        for rows in (np.arange(200), generator.integers(200, size=200), np.flatnonzero(labels == 0)):
            assert figures["accuracy"](rows) == pytest.approx(accuracy_score(labels[rows], predicted[rows]))
            expected = f1_score(labels[rows], predicted[rows], zero_division=0.0)
            assert figures["f1"](rows) == pytest.approx(expected)


def test_a_mean_among_nobody_is_not_a_number() -> None:
    among = np.array([True, False, True])
    figure = mean_of(np.array([1.0, 5.0, 3.0]), among)
    assert figure(np.arange(3)) == 2.0
    assert np.isnan(figure(np.array([1])))


def test_standard_errors_are_those_of_independent_rows() -> None:
    values = np.random.default_rng(0).normal(size=2000)
    found = with_errors({"mean": lambda rows: float(values[rows].mean())}, np.arange(2000))
    exact = values.std() / np.sqrt(2000)
    # 200 resamples give a standard deviation to one part in √400.
    assert found["mean_se"] == pytest.approx(exact, rel=4 / np.sqrt(400))


def test_standard_errors_grow_where_rows_of_a_patient_are_alike() -> None:
    patients = np.repeat(np.arange(50), 40)
    values = np.random.default_rng(0).normal(size=50)[patients]
    statistic = {"mean": lambda rows: float(values[rows].mean())}
    by_row = with_errors(statistic, np.arange(2000))["mean_se"]
    by_patient = with_errors(statistic, patients)["mean_se"]
    assert by_row is not None
    assert by_patient == pytest.approx(by_row * np.sqrt(40), rel=0.3)


@pytest.mark.parametrize("name", sorted(APPLICATIONS))
def test_every_application_has_rules_and_all_three_settings(name: str) -> None:
    assert rules_path(name).is_file()
    engines = [plan(name, setting).engine.name for setting in SETTINGS]
    assert engines == (["svgd", "svgd", "bbb"] if name == "recidivism" else ["bbb", "bbb", "bbb"])
    assert expanded(["applications"]) == tuple(APPLICATIONS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ocbnn.errors.OCBNNWarning")
def test_the_command_beside_the_table_fits_the_same_model_to_the_last_bit(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = 90
    frame = pd.DataFrame(
        {
            "RevolvingUtilizationOfUnsecuredLines": generator.uniform(0, 1.2, rows) / 3,
            "age": generator.integers(21, 80, rows),
            "SeriousDlqin2yrs": generator.binomial(1, 0.3, rows),
        }
    )
    chosen = plan("credit", "ours", quick=True)
    features = frame.drop(columns="SeriousDlqin2yrs")
    declared = {"age": {"unit": "years", "bounds": (18, 120)}}
    fitted = fit_estimator(chosen, frame, "SeriousDlqin2yrs", rules_path("credit"), 3, declared)
    save_all(tmp_path / "credit", {"ocbnn": fitted})
    command = save_table(tmp_path / "credit", "credit", frame, "SeriousDlqin2yrs", fitted)["fit_command"]
    result = run(*shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    ours, again = (ocbnn.load(tmp_path / "credit" / name) for name in ("ocbnn", "again"))
    assert (ours.predict_proba(features) == again.predict_proba(features)).all()
    assert (ours.posterior_.draws == again.posterior_.draws).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ocbnn.errors.OCBNNWarning")
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("name", "folder", "runs"), REAL, ids=[name for name, *_ in REAL])
def test_a_smoke_run_on_the_real_rows_writes_everything(
    name: str, folder: str, runs: set[str], setting: str, tmp_path: Path
) -> None:
    folder_of(folder)
    with watching(fits(name, setting, quick=True), shown=False) as watch:
        outcome = EXPERIMENTS[name].run(setting, 1, True, tmp_path)
    assert watch.done == watch.fits
    assert set(outcome.runs) == runs
    for network in runs - {"truth"}:
        figures = outcome.runs[network]
        assert {"accuracy", "f1", "accuracy_se", "f1_se"} <= set(figures)
        assert ocbnn.load(tmp_path / name / network).posterior_.schema.target is not None
    if name == "clinical":
        assert outcome.runs["ocbnn"]["points_violating_se"] is not None
    assert (tmp_path / f"{name}.png").stat().st_size > 1000
    if setting == "ours":
        features = pd.read_csv(tmp_path / name / "table.csv")
        assert run(*shlex.split(outcome.details["fit_command"])[1:], "--quiet").exit_code == 0
        ours, again = (ocbnn.load(tmp_path / name / each) for each in ("ocbnn", "again"))
        rows = features[list(ours.schema_.names)]
        assert (ours.predict_proba(rows) == again.predict_proba(rows)).all()
