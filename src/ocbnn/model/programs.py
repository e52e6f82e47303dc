"""Compiled programs: shared by all models that need the same ones, and bounded in number."""

import hashlib
import threading
from collections.abc import Callable, Hashable
from typing import Any

import jax

MOST_PROGRAMS = 256
"""Programs compiled before JAX's caches are emptied: about 400 MB, or 20 small fits of different sizes."""
QUICKLY = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Options of a program that runs a few times: to compile it as for many would take five times as long."""
COMPILED = "/jax/core/compile/backend_compile_duration"
"""The event that JAX reports for every program that it compiles or reads from its disk cache."""


class _Counter:
    """How many programs were compiled since the caches were last emptied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self)

    def __call__(self, event: str, duration_secs: float, **kwargs: Any) -> None:
        if event == COMPILED:
            with self.lock:
                self.count += 1

    def full(self) -> bool:
        """Whether there are too many; if so, counting starts again."""
        with self.lock:
            full = self.count > MOST_PROGRAMS
            self.count = 0 if full else self.count
            return full


_counter = _Counter()
_shared: dict[Hashable, Callable[..., Any]] = {}


def compiled(lowered: Any) -> Callable[..., Any]:
    """The executable of a lowered program; models of one shape lower to the same text, and share it."""
    text = hashlib.sha256(lowered.as_text().encode()).hexdigest()
    key = (text, lowered.in_tree, lowered.out_tree)
    found = _shared.get(key)
    if found is None:
        found = _shared[key] = lowered.compile()
    return found


def release_programs() -> None:
    """Empty JAX's caches of compiled programs if more than `MOST_PROGRAMS` were compiled since the last time.

    JAX keeps thousands of programs, one for every operation and shape, at 1 to 2 MB each, and has no setting
    for fewer. Fits of different sizes share few shapes, so each would add about 20 MB. JAX's caches can only
    be emptied as a whole, so programs that are still in use are compiled again. Waiting for `MOST_PROGRAMS`
    new ones keeps that a small share of the time spent on compiling. Called before a job begins (a fit, an
    amortized prior, predictions), so that no job loses its own programs half-way.
    """
    if _counter.full():
        _shared.clear()
        jax.clear_caches()  # type: ignore[no-untyped-call]
