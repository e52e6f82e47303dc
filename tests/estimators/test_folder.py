"""Saved estimators: what another process loads predicts the same."""

import subprocess
import sys
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import ocbnn
from damaged_files import corruptions, rewrite
from ocbnn import FileError, OCBNNError
from ocbnn.errors import OCBNNWarning
from ocbnn.estimators.folder import save_posterior
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.model.priors import IsotropicGaussian
from ocbnn.posterior.enforce import reject, truncate
from ocbnn.posterior.folder import save
from posterior_cases import class_constants, constants
from small_estimators import blood_pressures, small_classifier, small_regressor


def table() -> tuple[pd.DataFrame, pd.Series]:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"age": generator.uniform(20, 90, 40), "ward": generator.choice(["ICU", "ER"], 40)})
    return frame, (frame["age"] / 10 + generator.normal(size=40)).rename("days")


RULES = ["if age > 80 then days <= 100"]


@pytest.fixture(scope="module")
def regressor():
    return small_regressor(rules=RULES).fit(*table())


@pytest.fixture(scope="module")
def classifier():
    frame, days = table()
    label = pd.Series(np.where(days > 5, "long", "short"), name="stay")
    return small_classifier(class_weight="balanced").fit(frame, label)


def test_a_loaded_regressor_is_the_saved_one(regressor, tmp_path):
    regressor.save(tmp_path / "model")
    again = ocbnn.load(tmp_path / "model")
    frame, _ = table()
    assert type(again) is ocbnn.OCBNNRegressor
    assert np.array_equal(again.predict(frame), regressor.predict(frame))
    assert np.array_equal(again.predict_interval(frame), regressor.predict_interval(frame))
    assert np.array_equal(again.sample_function(frame), regressor.sample_function(frame))
    assert again.engine == regressor.engine
    assert again.hidden == list(regressor.hidden)
    assert again.rules_ == regressor.rules_
    assert list(again.feature_names_in_) == ["age", "ward"]


def test_a_loaded_classifier_keeps_labels_and_weights(classifier, tmp_path):
    classifier.save(tmp_path / "model")
    again = ocbnn.load(tmp_path / "model")
    frame, _ = table()
    assert np.array_equal(again.classes_, classifier.classes_)
    assert np.array_equal(again.predict_proba(frame), classifier.predict_proba(frame))
    assert np.array_equal(again.predict(frame), classifier.predict(frame))


def test_enforcement_is_kept(regressor, tmp_path):
    regressor.enforce("truncate").save(tmp_path / "model")
    frame, _ = table()
    again = ocbnn.load(tmp_path / "model")
    assert again.enforcement_ == "truncate"
    assert np.array_equal(again.predict(frame), regressor.enforce("truncate").predict(frame))


def test_rules_that_truncation_was_given_are_kept(regressor, tmp_path):
    frame, _ = table()
    bound = float(regressor.predict(frame).max()) - 0.5
    enforced = regressor.enforce("truncate", rules=[f"always days <= {bound}"])
    enforced.save(tmp_path / "model")
    again = ocbnn.load(tmp_path / "model")
    assert (again.predict(frame) <= bound).all()
    assert np.array_equal(again.predict(frame), enforced.predict(frame))


def test_parameters_come_back_as_they_were(tmp_path):
    frame, days = table()
    label = pd.Series((days > 5).astype(int), name="long")
    given = {"class_weight": {0: 1.0, 1: 2.0}, "columns": {"age": {"bounds": (0.0, np.inf)}}}
    model = small_classifier(**given).fit(frame, label)
    model.save(tmp_path / "model")
    again = ocbnn.load(tmp_path / "model")
    assert again.class_weight == {0: 1.0, 1: 2.0}
    assert again.columns == {"age": {"bounds": [0.0, np.inf]}}
    assert (again.preparation, again.random_state) == (model.preparation, model.random_state)
    assert np.array_equal(again.fit(frame, label).posterior_.draws, model.posterior_.draws)


@dataclass(frozen=True)
class Own(Ensemble):
    """An engine that is not in the library."""

    name: ClassVar[str] = "own"


def test_a_model_of_an_engine_of_ones_own_loads_and_predicts_and_says_what_a_fit_needs(tmp_path):
    frame, days = table()
    model = small_regressor(engine=Own(steps=100, learning_rate=0.1)).fit(frame, days)
    model.save(tmp_path / "model")
    again = ocbnn.load(tmp_path / "model")
    assert np.array_equal(again.predict(frame), model.predict(frame))
    with pytest.raises(OCBNNError, match="fitted by the engine 'own', which is code of its author's own"):
        again.fit(frame, days)


def test_a_prior_of_ones_own_comes_back_for_another_fit(tmp_path):
    frame, days = table()
    prior = IsotropicGaussian(24, np.linspace(0.1, 1.0, 24))
    model = small_regressor(prior=prior).fit(frame, days)
    model.save(tmp_path / "model")
    again = ocbnn.load(tmp_path / "model")
    assert np.array_equal(again.fit(frame, days).posterior_.draws, model.posterior_.draws)


def test_labels_too_long_to_be_loaded_again_are_refused_by_save(classifier, tmp_path):
    wide = copy(classifier)
    wide._label_dtype = np.dtype("U5000")
    with pytest.raises(FileError, match=r"5,000 characters.*y\.astype\(object\)"):
        wide.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_another_process_predicts_the_same(classifier, tmp_path):
    frame, _ = table()
    classifier.save(tmp_path / "model")
    frame.to_csv(tmp_path / "table.csv", index=False)
    code = (
        "import sys, numpy, pandas, ocbnn\n"
        "model, table, out = sys.argv[1:]\n"
        "numpy.save(out, ocbnn.load(model).predict_proba(pandas.read_csv(table)))"
    )
    arguments = [str(tmp_path / name) for name in ("model", "table.csv", "out.npy")]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    from_csv = pd.read_csv(tmp_path / "table.csv")
    assert np.array_equal(np.load(tmp_path / "out.npy"), classifier.predict_proba(from_csv))


def test_a_loaded_model_can_be_fitted_again_with_the_same_rules(regressor, tmp_path):
    regressor.save(tmp_path / "model")
    again = ocbnn.load(tmp_path / "model")
    assert np.array_equal(again.without_data().draws, regressor.without_data().draws)
    assert np.array_equal(again.fit(*table()).posterior_.draws, regressor.posterior_.draws)


def test_conflict_needs_the_rows_of_the_fit(regressor, tmp_path):
    regressor.save(tmp_path / "model")
    with pytest.raises(ocbnn.OCBNNError, match="saved model does not hold them"):
        ocbnn.load(tmp_path / "model").conflict()


def test_a_posterior_alone_is_no_estimator(regressor, tmp_path):
    save(tmp_path / "model", regressor.posterior_)
    with pytest.raises(FileError, match="without an estimator"):
        ocbnn.load(tmp_path / "model")


@pytest.mark.slow
def test_rows_against_an_unmet_rule_are_told_and_not_saved(tmp_path):
    rule = "if age > 50 then pressure <= -2000"
    with pytest.warns(OCBNNWarning, match="rows against it: age = "):
        model = small_regressor(rules=rule, chains=10).fit(*blood_pressures())
    (outcome,) = model.outcomes_
    assert len(outcome.rows) > 1
    model.save(tmp_path / "model")
    model.report(tmp_path / "report.html", compare=False)
    saved = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"rows in its region" in saved
    assert not [row for row in outcome.rows if row.encode() in saved]


@pytest.mark.parametrize("enforcement", [None, "draws", "truncate"])
def test_a_posterior_saved_for_it_is_loaded_as_a_regressor(enforcement, tmp_path):
    values = np.array([0.5, 1.5, 3.0])
    posterior = constants(values[None], ["always y <= 1.2"])
    expected = values.mean()
    if enforcement == "draws":
        posterior, expected = reject(posterior, points=10, ascent=False).posterior, 0.5
    elif enforcement == "truncate":
        posterior, expected = replace(posterior, truncated=truncate(posterior).rules), 1.2
    save_posterior(tmp_path / "model", posterior)
    again = ocbnn.load(tmp_path / "model")
    assert again.enforcement_ == enforcement
    assert again.predict(pd.DataFrame({"x": [0.0]}))[0] == pytest.approx(expected, rel=1e-6)


def test_a_posterior_of_classes_saved_for_it_is_loaded_as_a_classifier(tmp_path):
    save_posterior(tmp_path / "model", class_constants(np.full((1, 3, 3), [0.5, 0.3, 0.2])))
    again = ocbnn.load(tmp_path / "model")
    rows = pd.DataFrame({"x": [0.0], "site": ["north"]})
    np.testing.assert_allclose(again.predict_proba(rows), [[0.5, 0.3, 0.2]])
    assert list(again.predict(rows)) == ["blue"]
    assert again.classes_.dtype.kind == "U"


def test_200_random_corruptions_of_an_enforced_estimator_are_errors_or_predict_the_same(ruled, tmp_path):
    frame, _ = blood_pressures(5, seed=5)
    enforced = ruled.enforce()
    enforced.save(tmp_path / "model")
    expected, refused = enforced.predict_interval(frame), 0
    for _ in corruptions(tmp_path / "model", 200):
        try:
            again = ocbnn.load(tmp_path / "model")
        except OCBNNError:
            refused += 1
        else:
            assert np.array_equal(again.predict_interval(frame), expected)
    assert refused > 180


def with_estimator(folder: Path, changes: dict) -> None:
    """Another estimator in a saved folder, with a checksum that fits."""
    rewrite(folder, lambda content: content["estimator"].update(changes))


HOSTILE = {
    "another class": {"name": "Popen"},
    "the other task": {"name": "OCBNNClassifier"},
    "other columns": {"feature_names": ["ward", "age"]},
    "settings an engine has not": {"parameters": {"engine": {"name": "hmc", "settings": {"x": 1}}}},
    "a field too many": {"code": "print()"},
    "settings of no engine": {"parameters": {"engine": {"name": "hmc"}}},
    "a number that is none": {"parameters": {"draws": {"__number__": "__import__"}}},
    "pairs that are none": {"parameters": {"columns": {"__pairs__": [[1]]}}},
    "an unhashable key": {"parameters": {"columns": {"__pairs__": [[[1], 2]]}}},
}
WIDE = ("<U500000000", "<U4294967296", "U9999999999999", "(1000000000,)f8", "V8", "M8[s]", "O" * 100)


@pytest.mark.parametrize("dtype", WIDE)
def test_a_type_of_labels_that_would_fill_the_memory_is_refused(classifier, tmp_path, dtype):
    classifier.save(tmp_path / "model")
    with_estimator(tmp_path / "model", {"label_dtype": dtype})
    with pytest.raises(FileError):
        ocbnn.load(tmp_path / "model")


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_estimator_is_refused(regressor, tmp_path, case):
    regressor.save(tmp_path / "model")
    with_estimator(tmp_path / "model", HOSTILE[case])
    with pytest.raises(FileError):
        ocbnn.load(tmp_path / "model")
