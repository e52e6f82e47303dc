"""Estimators with budgets so small that a fit takes a fraction of a second."""

from typing import Any

from ocbnn import OCBNNClassifier, OCBNNRegressor
from ocbnn.inference.ensemble import Ensemble
from ocbnn.inference.prepare import Settings

UNPREPARED = Settings(warm=None, strength=None, nodes=False)
SMALL: dict[str, Any] = {
    "engine": Ensemble(steps=100, learning_rate=0.1),
    "hidden": (4,),
    "members": 2,
    "batch": 20,
    "preparation": UNPREPARED,
    "cores": 1,
    "random_state": 0,
}


def small_regressor(**options: Any) -> OCBNNRegressor:
    return OCBNNRegressor(**{**SMALL, **options})


def small_classifier(**options: Any) -> OCBNNClassifier:
    return OCBNNClassifier(**{**SMALL, **options})
