"""Compiled code shared between fits of the same shapes, and fits that several files look at."""

import jax
import pytest

from ocbnn import OCBNNRegressor
from small_estimators import blood_pressures, small_regressor


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory):
    """Keep all that XLA compiles for the session: many small fits of the same shapes are compiled once."""
    settings = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture(scope="session")
def fitted() -> OCBNNRegressor:
    return small_regressor().fit(*blood_pressures())


@pytest.fixture(scope="session")
def ruled() -> OCBNNRegressor:
    """Five networks under a rule about the old that is weak enough for some of them to break it."""
    frame, y = blood_pressures()
    model = small_regressor(rules="if age > 80 then pressure <= 260", tolerance=0.999, chains=5)
    return model.fit(frame, y)
