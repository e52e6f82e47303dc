"""Compiled programs are kept in the user's cache folder: what took a minute at first takes a second later.

Only the command does this. A library that writes to a user's home folder because it was imported would not be
welcome there; in Python, `JAX_COMPILATION_CACHE_DIR` does the same.
"""

from __future__ import annotations

import os
import sys

FOLDER, LEAST_SECONDS = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


def keep_compiled() -> None:
    """Tell JAX where to keep compiled programs; a user's own setting stays."""
    if FOLDER in os.environ:
        return
    from platformdirs import user_cache_path

    folder = user_cache_path("ocbnn", appauthor=False) / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # without a place to write to, every run compiles anew
    if os.access(folder, os.W_OK):
        os.environ[FOLDER] = str(folder)
        os.environ.setdefault(LEAST_SECONDS, "0.1")
        if "jax" in sys.modules:  # which reads its environment only while it is imported
            import jax

            jax.config.update(FOLDER.lower(), str(folder))  # type: ignore[no-untyped-call]
            jax.config.update(LEAST_SECONDS.lower(), 0.1)  # type: ignore[no-untyped-call]
