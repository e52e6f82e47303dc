"""Methods that people would use instead, on the same rows: a yardstick beside the applications."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-not-found, import-untyped, unused-ignore]

PARITY = 0.01
NO_FAIRLEARN = "fairlearn is not installed (`pip install fairlearn`), so its reduction was left out."


def logistic_regression(**options: Any) -> Any:
    """On standardised columns."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, **options))


def gradient_boosting(seed: int, **options: Any) -> HistGradientBoostingClassifier:
    """scikit-learn's histogram boosting, shallow and slow enough not to overfit tables of this size."""
    settings = {"max_depth": 4, "learning_rate": 0.05, "max_iter": 150, "random_state": seed}
    return HistGradientBoostingClassifier(**{**settings, **options})


def demographic_parity(
    frame: pd.DataFrame, labels: pd.Series, group: pd.Series, seed: int
) -> Callable[[pd.DataFrame], np.ndarray] | None:
    """What fairlearn's ExponentiatedGradient, fitted here, predicts for rows; None where not installed.

    It constrains the rates of the groups to differ by at most 0.01, whatever the reasons, and predicts by
    chance among a few boosted models.
    """
    try:
        from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    except ImportError:
        return None
    mitigated = ExponentiatedGradient(
        gradient_boosting(seed),
        DemographicParity(difference_bound=PARITY),
        eps=PARITY,
    )
    # Dozens of small fits: their threads cost more than they save.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pandas, about how fairlearn uses it
        mitigated.fit(frame, labels, sensitive_features=group)
    return lambda rows: np.asarray(mitigated.predict(rows, random_state=seed))
