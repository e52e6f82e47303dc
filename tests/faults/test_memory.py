"""A process that fits models of many sizes keeps neither the models nor their compiled programs."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import jax
import pytest

from ocbnn.model import programs
from small_estimators import blood_pressures, small_regressor

FITS = """
import gc, warnings
warnings.simplefilter("ignore")
from small_estimators import blood_pressures, small_regressor
for fit in range(200):
    size = 37 * fit % 200  # every size once, small and large ones mixed
    X, y = blood_pressures(rows=30 + 3 * size)
    model = small_regressor(rules=["if age > 80 then pressure >= 200"], hidden=(3 + size,)).fit(X, y)
    model.predict(X)
    if fit % 10 == 9:
        gc.collect()
        print(int(open("/proc/self/statm").read().split()[1]) * 4096, flush=True)
"""


def fitted(width: int):
    X, y = blood_pressures()
    model = small_regressor(rules=["if age > 80 then pressure >= 200"], hidden=(width,)).fit(X, y)
    model.predict(X)
    return model


def live_programs() -> int:
    return len(jax.local_devices()[0].client.live_executables())


def test_a_fitted_model_is_released_with_its_last_reference():
    estimator = fitted(3)
    references = [weakref.ref(estimator.posterior_), weakref.ref(estimator.posterior_.model)]
    del estimator
    gc.collect()
    assert [reference() for reference in references] == [None, None]


@pytest.mark.slow
def test_fits_of_different_sizes_keep_a_bounded_number_of_programs(monkeypatch):
    jax.clear_caches()
    gc.collect()
    before = live_programs()
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 20)
    kept = []
    for width in range(2, 6):
        fitted(width)
        gc.collect()
        kept.append(live_programs() - before)
    # All programs of a fit are new after the caches were emptied: no fit adds to those of the one before.
    assert max(kept) < kept[0] + 20


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of a process from /proc")
def test_memory_levels_off_over_200_fits_of_different_sizes():
    """The second hundred fits add less than 100 MB; without a bound they add about 1,500 MB."""
    done = subprocess.run(
        [sys.executable, "-c", FITS],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True,
    )  # fmt: skip
    memory = [int(line) / 1e6 for line in done.stdout.split()]
    assert len(memory) == 20
    assert max(memory[10:]) < max(memory[:10]) + 100
