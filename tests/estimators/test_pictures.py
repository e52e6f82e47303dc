"""Estimators hand their posterior to pictures and to the report, and compute nothing themselves."""

import json
from copy import copy
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from sklearn.metrics import brier_score_loss, log_loss

from ocbnn import OCBNNClassifier, OCBNNRegressor, load, plots
from ocbnn.checking.check import as_rule_terms
from ocbnn.errors import OCBNNError
from ocbnn.plots.style import CLASSES
from ocbnn.posterior.draws import function_draws
from posterior_cases import constants
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


def test_functions_of_the_prior_need_no_rows_and_are_those_of_the_learnt_scales(
    classifier: OCBNNClassifier, tmp_path: Path
) -> None:
    ax = classifier.plot_prior("age", at={"dose": 0.5}, functions=4, key=1, ax=Figure().subplots())
    found = plots.prior_sliced(classifier.posterior_.model, "age", at={"dose": 0.5}, functions=4, key=1)
    lines = [line.get_ydata() for line in ax.lines if line.get_lw() < 1 and len(line.get_xdata()) > 2]
    np.testing.assert_allclose(lines, found.functions)
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model").plot_prior("age", at={"dose": 0.5}, functions=4, key=1)
    np.testing.assert_allclose(again.lines[-1].get_ydata(), found.functions[-1])
    with pytest.raises(OCBNNError, match="no option 'function'"):
        classifier.plot_prior("age", function=4)


def test_rows_and_their_target_are_told_by_position(classifier: OCBNNClassifier) -> None:
    frame, y = patients()
    other_index = pd.Series(y, index=range(100, 140))
    for target in (other_index, other_index.to_frame()):
        lines = {line.get_label(): line for line in classifier.plot_band("age", frame, target).lines}
        assert len(lines["data"].get_xdata()) == len(frame)
        np.testing.assert_array_equal(lines["data"].get_ydata(), y)
        classifier.plot_calibration(frame, target, ax=Figure().subplots())


def test_rows_without_target_and_target_without_rows_are_refused_before_anything_is_fitted(
    classifier: OCBNNClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, y = patients()
    monkeypatch.setattr(OCBNNClassifier, "_infer", None)
    for ask in (
        classifier.conflict,
        lambda X, y: classifier.plot_band("age", X, y),
        lambda X, y: classifier.plot_classes(("age", "dose"), X, y),
        lambda X, y: classifier.report(tmp_path / "report.html", X, y),
    ):
        with pytest.raises(OCBNNError, match="X came without y"):
            ask(frame, None)
        with pytest.raises(OCBNNError, match="y came without X"):
            ask(None, y)
    for wrong in (
        lambda: classifier.conflict(frame, y + 5),
        lambda: classifier.conflict(frame, y[:3]),
        lambda: classifier.conflict(foo=1),
        lambda: classifier.conflict(points=0),
        lambda: classifier.report(3),
        lambda: classifier.report(tmp_path / "report.html", foo=1),
        lambda: classifier.check_rules(prior=True, by="weight"),
        lambda: classifier.check_rules(prior=True, points=0),
        lambda: classifier.plot_calibration(None, None),
    ):
        with pytest.raises((OCBNNError, ValueError)):
            wrong()


def test_a_map_has_the_predicted_classes_colours_and_the_rows_given(
    classifier: OCBNNClassifier, regressor: OCBNNRegressor
) -> None:
    frame, y = patients()
    ax = classifier.plot_classes(("age", "dose"), frame, y, ax=Figure().subplots())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", "dose")
    (mesh,) = (each for each in ax.collections if isinstance(each, QuadMesh))
    colours = np.asarray(mesh.get_array()).reshape(81, 81, 4)
    ages, doses = (np.linspace(*ends, 81) for ends in (ax.get_xlim(), ax.get_ylim()))
    ends = pd.DataFrame({"age": ages[[3, 77]], "dose": doses[[40, 40]]})
    expected = [CLASSES[index] for index in classifier.predict_proba(ends).argmax(axis=1)]
    assert expected[0] != expected[1]
    assert [to_hex(colours[40, column, :3]) for column in (3, 77)] == expected
    drawn = np.concatenate([line.get_xydata() for line in ax.lines])
    np.testing.assert_allclose(sorted(drawn.tolist()), sorted(frame.to_numpy().tolist()))
    with pytest.raises(OCBNNError, match="predictive_band"):
        regressor.plot_classes(("age", "dose"))


def test_satisfaction_is_that_of_check_rules(classifier: OCBNNClassifier) -> None:
    rule = "if age > 30 then sick = 1"
    ax = classifier.plot_satisfaction(rules=[rule], points=50, ascent=False, key=4, ax=Figure().subplots())
    assert [text.get_text() for text in ax.texts] == [rule]
    (term,) = as_rule_terms(classifier.posterior_, [rule])
    fresh = classifier.schema_.decode(term.fresh(50, 4))
    broken = (classifier.sample_function(fresh)[..., 1] < 0.5).mean()
    assert 0.0 < broken < 1.0
    shown = [line.get_xdata()[0] for line in ax.lines if line.get_marker() not in ("None", None, "")]
    assert shown == [pytest.approx(broken)]


def test_calibration_is_of_the_rows_given(regressor: OCBNNRegressor) -> None:
    frame, y = patients()
    ax = regressor.plot_calibration(frame, y, ax=Figure().subplots())
    assert ax.get_xlabel() == "predicted: nominal coverage of intervals"
    line, *_ = ax.containers[0]
    functions = regressor.sample_function(frame)
    noise = regressor.posterior_.noise(regressor.schema_.encode(frame))
    below = norm.cdf(y, functions, noise).mean(axis=0)
    held = [(np.abs(2 * below - 1) <= level).mean() for level in line.get_xdata()]
    np.testing.assert_allclose(line.get_ydata(), held)


def test_an_ensemble_has_no_chains_to_draw(classifier: OCBNNClassifier) -> None:
    with pytest.raises(OCBNNError, match="no chains"):
        classifier.plot_diagnostics()


def test_chains_are_drawn_one_line_for_each(regressor: OCBNNRegressor) -> None:
    values = np.random.default_rng(0).normal(size=(3, 40))
    values[1] += 5.0
    shown = copy(regressor)
    shown.posterior_ = constants(values)
    ax = shown.plot_diagnostics(ax=Figure().subplots())
    np.testing.assert_allclose([line.get_ydata() for line in ax.lines], values, atol=1e-6)


def test_the_report_compares_with_a_twin_without_rules(classifier: OCBNNClassifier, tmp_path: Path) -> None:
    frame, y = patients()
    page = classifier.report(tmp_path / "report.html", frame, y, points=50)
    twin = json.loads(page.with_suffix(".json").read_text())
    assert twin["compared"]
    assert twin["held_out_rows"] == len(frame)
    assert twin["rules"][0]["without"] is not None
    free = function_draws(classifier.without_rules(), frame)[..., 1].mean(axis=0)
    score = twin["performance"]["without"]["log_score"]
    assert -score == pytest.approx(log_loss(y, free), rel=1e-6)
    assert score != twin["performance"]["with_rules"]["log_score"]
    alone = classifier.report(tmp_path / "alone.html", compare=False, points=50)
    assert not json.loads(alone.with_suffix(".json").read_text())["compared"]


def test_the_report_has_scikit_learns_scores_and_counts_the_rows_that_break_a_rule(
    classifier: OCBNNClassifier, tmp_path: Path
) -> None:
    frame, y = patients()
    page = classifier.report(tmp_path / "report.html", frame, y, points=50, compare=False)
    twin = json.loads(page.with_suffix(".json").read_text())
    probabilities = classifier.sample_function(frame)[..., 1].mean(axis=0)
    score = twin["performance"]["with_rules"]["log_score"]
    assert -score == pytest.approx(log_loss(y, probabilities), rel=1e-6)
    brier = twin["performance"]["with_rules"]["brier"]
    assert brier == pytest.approx(brier_score_loss(y, probabilities), rel=1e-6)
    recorded, inside = twin["rules"][0]["recorded"], frame["age"] > 60
    assert (recorded["inside"], recorded["against"]) == (inside.sum(), (inside & (y == 0)).sum())


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
        lambda model: model.plot_prior("age"),
        lambda model: model.plot_satisfaction(),
        lambda model: model.report("report.html"),
    ):
        with pytest.raises(NotFittedError):
            draw(OCBNNClassifier())
