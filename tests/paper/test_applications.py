"""What the applications share: rules files, figures of rows, standard errors over clusters."""

from __future__ import annotations

import numpy as np
import pytest

from ocbnn.paper.applications import area, mean_of, rules_path, scores, with_errors
from ocbnn.paper.plans import plan
from ocbnn.paper.registry import APPLICATIONS, expanded


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
    with rules_path(name) as path:
        assert path.is_file()
    engines = [plan(name, setting).engine.name for setting in ("paper", "reference", "ours")]
    assert engines == ["svgd", "svgd", "bbb"] if name == "recidivism" else ["bbb", "bbb", "bbb"]
    assert expanded(["applications"]) == tuple(APPLICATIONS)
