"""Small budgets, and compiled code shared between fits of the same shapes."""

import jax
import pytest


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory):
    """Keep what XLA compiles for the session: many small fits of the same shapes are compiled once."""
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
