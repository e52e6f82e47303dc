"""Estimators hand their posterior to pictures and to the report, and compute nothing themselves."""

import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

from ocbnn import OCBNNClassifier, OCBNNRegressor, load, plots
from ocbnn.errors import OCBNNError
from small_estimators import small_classifier, small_regressor

mpl.use("agg")
RULE = "if age > 60 then sick = 1"


def patients(count: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"age": generator.uniform(20, 80, count), "dose": generator.uniform(0, 1, count)})
    return frame, (frame["age"] + 10 * generator.normal(size=count) > 50).to_numpy().astype(int)


@pytest.fixture(scope="module")
def classifier() -> OCBNNClassifier:
    frame, y = patients()
    return small_classifier(rules=RULE).fit(frame, pd.Series(y, name="sick"))


@pytest.fixture(scope="module")
def regressor() -> OCBNNRegressor:
    frame, y = patients()
    return small_regressor().fit(frame, pd.Series(y + frame["dose"], name="cost"))


def test_a_band_is_that_of_the_posterior_with_the_rows_given(classifier: OCBNNClassifier) -> None:
    frame, y = patients()
    ax = classifier.plot_band("age", frame, y, at={"dose": 0.5}, ax=Figure().subplots())
    expected = plots.sliced(classifier.posterior_, "age", at={"dose": 0.5})
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["P(sick = 1)"].get_ydata(), expected.curves[0].mean)
    np.testing.assert_array_equal(lines["data"].get_xdata(), frame["age"])


def test_classes_are_drawn_over_two_columns(classifier: OCBNNClassifier, regressor: OCBNNRegressor) -> None:
    ax = classifier.plot_classes(("age", "dose"), *patients(), ax=Figure().subplots())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", "dose")
    with pytest.raises(OCBNNError, match="predictive_band"):
        regressor.plot_classes(("age", "dose"))


def test_satisfaction_is_that_of_check_rules(classifier: OCBNNClassifier) -> None:
    ax = classifier.plot_satisfaction(points=50, ax=Figure().subplots())
    assert [text.get_text() for text in ax.texts] == [RULE]


def test_calibration_is_of_the_rows_given(regressor: OCBNNRegressor) -> None:
    frame, y = patients()
    ax = regressor.plot_calibration(frame, y, ax=Figure().subplots())
    assert ax.get_xlabel() == "said: nominal coverage of intervals"


def test_an_ensemble_has_no_chains_to_draw(classifier: OCBNNClassifier) -> None:
    with pytest.raises(OCBNNError, match="no chains"):
        classifier.plot_diagnostics()


def test_the_report_compares_with_a_twin_without_rules(classifier: OCBNNClassifier, tmp_path: Path) -> None:
    frame, y = patients()
    page = classifier.report(tmp_path / "report.html", frame, y, points=50)
    twin = json.loads(page.with_suffix(".json").read_text())
    assert twin["compared"]
    assert twin["held_out_rows"] == len(frame)
    assert twin["rules"][0]["without"] is not None
    alone = classifier.report(tmp_path / "alone.html", compare=False, points=50)
    assert not json.loads(alone.with_suffix(".json").read_text())["compared"]


def test_a_loaded_estimator_is_reported_alone_and_as_it_is_enforced(
    classifier: OCBNNClassifier, tmp_path: Path
) -> None:
    classifier.enforce("truncate").save(tmp_path / "model")
    page = load(tmp_path / "model").report(tmp_path / "report.html", points=50)
    twin = json.loads(page.with_suffix(".json").read_text())
    assert (twin["compared"], twin["enforcement"]) == (False, "truncate")


def test_nothing_is_drawn_before_the_fit() -> None:
    for draw in (
        lambda model: model.plot_band("age"),
        lambda model: model.plot_satisfaction(),
        lambda model: model.report("report.html"),
    ):
        with pytest.raises(NotFittedError):
            draw(OCBNNClassifier())
