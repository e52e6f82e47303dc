"""Compilation is what tests cost: what was compiled once is kept for all workers and later runs.

LLVM's optimisation and XLA's newer code for fused loops are left out, which takes half off: small shapes gain
nothing from them. XLA's own optimisation is not, and `make test-slow`, where runs are long, has all of it.
"""

import os
from pathlib import Path

import pytest

CACHE = Path(__file__).parent.parent / ".venv" / "compiled"

# Set before JAX is imported; a child process that a test starts inherits it.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
# Thousands of programs are one operation each: what one worker has compiled the other reads.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1",
)
# The tests run side by side already: threads of small sums would wait for each other, at the others' cost.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def programs_stay():
    """What one test compiled the next one has: JAX's caches are emptied after many tests, not after a few."""
    from ocbnn.model import programs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "MOST_PROGRAMS", 1024)
        yield
