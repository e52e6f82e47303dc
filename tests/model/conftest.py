"""The paper's first toy data set."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def toy() -> pd.DataFrame:
    x = np.array([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
    return pd.DataFrame({"x": x, "y": -(x**4) + 3 * x**2 + 1})
