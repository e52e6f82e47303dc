"""Dask DataFrames: lazy answers with the right meta, the same as of the table in memory."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ocbnn import OCBNNClassifier, OCBNNRegressor
from ocbnn.errors import SchemaError
from small_estimators import blood_pressures, small_classifier, small_regressor

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")


@pytest.fixture(scope="module")
def regressor() -> OCBNNRegressor:
    return small_regressor().fit(*blood_pressures())


@pytest.fixture(scope="module", params=["text", "numbers"])
def classifier(request: pytest.FixtureRequest) -> OCBNNClassifier:
    frame, y = blood_pressures()
    labels = np.where(y > y.median(), "high", "low") if request.param == "text" else (y > 200).astype(int)
    return small_classifier(class_weight="balanced").fit(frame, labels)


@pytest.fixture
def frame() -> pd.DataFrame:
    return blood_pressures(seed=1)[0].set_axis([f"case {i}" for i in range(40)], axis=0)


def partitions(frame: pd.DataFrame) -> Any:
    return dd.from_pandas(frame, npartitions=3, sort=False)


def same(lazy: Any, expected: np.ndarray, frame: pd.DataFrame) -> None:
    """Meta as promised, and the values of the table in memory on its index."""
    assert type(lazy).__module__.startswith("dask")
    found = lazy.compute(scheduler="sync")
    if found.ndim == 1:
        assert (lazy.dtype, lazy.name) == (found.dtype, found.name)
    else:
        assert dict(lazy.dtypes) == dict(found.dtypes)
    np.testing.assert_array_equal(found.to_numpy(), expected)
    assert found.index.equals(frame.index)


def test_numbers_are_those_of_the_table_in_memory(regressor: OCBNNRegressor, frame: pd.DataFrame) -> None:
    lazy = partitions(frame)
    same(regressor.predict(lazy), regressor.predict(frame), frame)
    assert regressor.predict(lazy).name == "pressure"
    for one, other in zip(
        regressor.predict(lazy, return_std=True), regressor.predict(frame, return_std=True), strict=True
    ):
        same(one, other, frame)
    same(regressor.predict_interval(lazy), regressor.predict_interval(frame), frame)
    assert list(regressor.predict_interval(lazy).columns) == ["lower", "upper"]
    same(regressor.predict_quantiles(lazy, [0.1, 0.9]), regressor.predict_quantiles(frame, [0.1, 0.9]), frame)
    assert list(regressor.predict_quantiles(lazy, [0.1, 0.9]).columns) == [0.1, 0.9]
    same(regressor.outside(lazy), regressor.outside(frame).to_numpy(), frame)


def test_classes_are_those_of_the_table_in_memory(classifier: OCBNNClassifier, frame: pd.DataFrame) -> None:
    lazy = partitions(frame)
    same(classifier.predict(lazy), classifier.predict(frame), frame)
    same(classifier.predict_proba(lazy), classifier.predict_proba(frame), frame)
    assert list(classifier.predict_proba(lazy).columns) == classifier.classes_.tolist()
    same(classifier.predict_log_proba(lazy), classifier.predict_log_proba(frame), frame)


def test_nothing_is_computed_before_it_is_asked_for(regressor: OCBNNRegressor, frame: pd.DataFrame) -> None:
    def fails(part: pd.DataFrame) -> pd.DataFrame:
        raise RuntimeError("computed")

    lazy = partitions(frame).map_partitions(fails, meta=frame.iloc[:0])
    answer = regressor.predict(lazy)
    with pytest.raises(RuntimeError, match="computed"):
        answer.compute(scheduler="sync")


def test_a_partition_that_a_filter_has_emptied_is_empty(
    regressor: OCBNNRegressor, classifier: OCBNNClassifier, frame: pd.DataFrame
) -> None:
    frame.loc[frame.index[:15], "age"] = 30.0
    lazy, rows = partitions(frame), frame.iloc[15:]
    some = lazy[lazy["age"] != 30.0]
    assert 0 in some.map_partitions(len).compute(scheduler="sync").to_list()
    same(regressor.predict(some), regressor.predict(rows), rows)
    same(classifier.predict(some), classifier.predict(rows), rows)


def test_enforced_predictions_obey_in_every_partition(frame: pd.DataFrame, regressor: OCBNNRegressor) -> None:
    enforced = regressor.enforce("truncate", rules=["always pressure <= 300"])
    assert enforced.predict(partitions(frame)).compute(scheduler="threads").max() <= 300


def test_rows_of_the_fit_do_not_travel(regressor: OCBNNRegressor, frame: pd.DataFrame) -> None:
    from ocbnn.estimators.lazy import _travelling

    assert regressor.posterior_.model.data is not None
    sent = pickle.loads(pickle.dumps(_travelling(regressor)))
    assert sent.posterior_.model.data is None
    assert np.array_equal(sent.predict(frame), regressor.predict(frame))


def test_a_missing_column_is_refused_before_anything_is_computed(
    regressor: OCBNNRegressor, frame: pd.DataFrame
) -> None:
    with pytest.raises(ValueError, match="dose"):
        regressor.predict(partitions(frame.drop(columns="dose")))


def test_what_needs_the_whole_table_says_so(regressor: OCBNNRegressor, frame: pd.DataFrame) -> None:
    with pytest.raises(SchemaError, match=r"compute\(\)"):
        regressor.sample_function(partitions(frame))


@pytest.mark.slow
def test_workers_of_a_cluster_give_the_same(regressor: OCBNNRegressor, frame: pd.DataFrame) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        found = regressor.predict(partitions(frame)).compute()
    np.testing.assert_array_equal(found.to_numpy(), regressor.predict(frame))
