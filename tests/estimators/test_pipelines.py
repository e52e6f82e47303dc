"""Where users already are: pipelines, cross-validation, grid search in processes and on a cluster."""

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ocbnn import RuleError
from small_estimators import small_classifier, small_regressor


def table(rows: int = 40) -> tuple[pd.DataFrame, pd.Series]:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"age": generator.uniform(20, 90, rows), "dose": generator.uniform(0, 5, rows)})
    return frame, (frame["age"] + generator.normal(size=rows)).rename("y")


def test_an_imputer_before_us_keeps_names_and_rules():
    frame, y = table()
    frame.loc[::7, "dose"] = np.nan
    model = small_regressor(rules="if age > 85 then y <= 1000")
    pipeline = make_pipeline(SimpleImputer(), model).set_output(transform="pandas")
    pipeline.fit(frame, y)
    assert list(pipeline[-1].feature_names_in_) == ["age", "dose"]
    filled = frame.fillna(frame.mean())
    np.testing.assert_allclose(pipeline.predict(frame), pipeline[-1].predict(filled))


def test_names_lost_in_a_pipeline_are_said_to_be_lost():
    frame, y = table()
    pipeline = make_pipeline(StandardScaler(), small_regressor(rules="if age > 85 then y <= 1000"))
    with pytest.raises(RuleError, match="set_output"):
        pipeline.fit(frame, y)


def test_a_column_transformer_before_us_works():
    frame, y = table()
    chosen = make_column_transformer(("passthrough", ["age"]), verbose_feature_names_out=False)
    pipeline = make_pipeline(chosen.set_output(transform="pandas"), small_regressor()).fit(frame, y)
    assert pipeline[-1].schema_.names == ("age",)


def test_cross_validation_scores_every_fold():
    frame, y = table()
    scores = cross_val_score(small_regressor(), frame, y, cv=2)
    assert scores.shape == (2,)
    assert (scores > 0.8).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_grid_search_in_two_processes_finds_what_one_finds():
    frame, y = table()
    search = GridSearchCV(small_regressor(), {"hidden": [(), (4,)]}, cv=2, n_jobs=2)
    alone = GridSearchCV(small_regressor(), {"hidden": [(), (4,)]}, cv=2)
    both = [each.fit(frame, y).cv_results_["mean_test_score"] for each in (search, alone)]
    np.testing.assert_allclose(*both, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_grid_search_on_a_dask_cluster_finds_what_one_process_finds():
    distributed = pytest.importorskip("distributed")
    frame, y = table()
    label = (y > 50).rename("old")
    search = GridSearchCV(small_classifier(), {"hidden": [(), (4,)]}, cv=2)
    alone = search.fit(frame, label).cv_results_["mean_test_score"]
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        parallel_config(backend="dask"),
    ):
        together = search.fit(frame, label).cv_results_["mean_test_score"]
    np.testing.assert_allclose(together, alone, rtol=1e-6)
