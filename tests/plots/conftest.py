"""Pictures are drawn without a screen, and closed again."""

from collections.abc import Iterator

import matplotlib as mpl
import pytest
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def _headless() -> Iterator[None]:
    mpl.use("agg")
    yield
    pyplot.close("all")
