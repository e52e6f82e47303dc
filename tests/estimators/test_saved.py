"""Saved estimators: what another process loads predicts the same."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import ocbnn
from ocbnn import FileError
from ocbnn.posterior.files import save as save_posterior
from ocbnn.storing.folders import checksum
from small_estimators import small_classifier, small_regressor


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
    again.preparation, again.random_state = regressor.preparation, regressor.random_state
    assert np.array_equal(again.fit(*table()).posterior_.draws, regressor.posterior_.draws)


def test_conflict_needs_the_rows_of_the_fit(regressor, tmp_path):
    regressor.save(tmp_path / "model")
    with pytest.raises(ocbnn.OCBNNError, match="saved model does not hold them"):
        ocbnn.load(tmp_path / "model").conflict()


def test_a_posterior_alone_is_no_estimator(regressor, tmp_path):
    save_posterior(tmp_path / "model", regressor.posterior_)
    with pytest.raises(FileError, match="without an estimator"):
        ocbnn.load(tmp_path / "model")


HOSTILE = {
    "another class": {"name": "Popen"},
    "the other task": {"name": "OCBNNClassifier"},
    "other columns": {"feature_names": ["ward", "age"]},
    "another engine": {"parameters": {"engine": {"name": "os", "settings": {}}}},
    "settings an engine has not": {"parameters": {"engine": {"name": "hmc", "settings": {"x": 1}}}},
    "a field too many": {"code": "print()"},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_estimator_is_refused(regressor, tmp_path, case):
    regressor.save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    content = json.loads(file.read_text())["content"]
    content["estimator"].update(HOSTILE[case])
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    file.write_text(json.dumps({"checksum": checksum(canonical), "content": content}))
    with pytest.raises(FileError):
        ocbnn.load(tmp_path / "model")
