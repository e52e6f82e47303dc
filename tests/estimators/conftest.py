"""A fit that several files look at."""

import pytest

from ocbnn import OCBNNRegressor
from small_estimators import blood_pressures, small_regressor


@pytest.fixture(scope="session")
def fitted() -> OCBNNRegressor:
    return small_regressor().fit(*blood_pressures())
