"""Fits that several files look at."""

import pytest

from ocbnn import OCBNNRegressor
from small_estimators import blood_pressures, small_regressor


@pytest.fixture(scope="session")
def fitted() -> OCBNNRegressor:
    return small_regressor().fit(*blood_pressures())


@pytest.fixture(scope="session")
def ruled() -> OCBNNRegressor:
    """Five networks under a rule about the old that is weak enough for some of them to break it."""
    frame, y = blood_pressures()
    model = small_regressor(rules="if age > 80 then pressure <= 260", tolerance=0.999, chains=5)
    return model.fit(frame, y)
