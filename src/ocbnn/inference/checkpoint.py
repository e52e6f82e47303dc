"""What of a run goes to disk: the states after each chunk, and what tells one run from another."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ocbnn.model import Model
from ocbnn.model.priors import as_diagonal
from ocbnn.storage.arrays import Arrays

if TYPE_CHECKING:
    from ocbnn.inference.loop import RunOptions


def flatten_state(states: list[Any]) -> Arrays:
    """The states of all groups as named arrays; keys of random numbers are not among them."""
    leaves = [jax.tree.leaves(state) for state in states]
    return {
        f"state.{g}.{i}": np.asarray(leaf) for g, group in enumerate(leaves) for i, leaf in enumerate(group)
    }


def restore_state(like: list[Any], arrays: Arrays) -> list[Any]:
    """States of the same structure as `like` with the stored arrays."""
    restored = []
    for g, state in enumerate(like):
        leaves, structure = jax.tree.flatten(state)
        stored = [arrays[f"state.{g}.{i}"] for i in range(len(leaves))]
        restored.append(jax.tree.unflatten(structure, stored))
    return restored


def description(model: Model, run: RunOptions, settings: Any) -> dict[str, Any]:
    """All that draws depend on, to be compared when a run is resumed."""
    rules = model.terms
    base = model.base
    gaussian = as_diagonal(base)
    parts = getattr(base, "__dict__", base) if gaussian is None else [gaussian.mean, gaussian.sd]
    return {
        "format": 5,
        "engine": run.engine.name,
        "settings": repr(run.engine),
        "prepare": repr(settings),
        **{name: getattr(run, name) for name in ("chains", "seed", "thin", "batch", "cores")},
        "rules": [rule.rule.text(rule.schema) for rule in (*rules, *model.formed)],
        "terms": [_words(rule.term) for rule in rules],
        "tolerances": [rule.tolerance for rule in (*rules, *model.formed)],
        "network": _words(model.network),
        "likelihood": _words(model.likelihood),
        "prior": fingerprint([_words(type(base)), parts]),
        "data": fingerprint(model.data, [rule.points for rule in rules]),
        **({} if run.processes.count == 1 else {"processes": run.processes.count}),
        **({} if model.stream is None else {"files": model.stream.identity}),
    }


def _words(part: Any) -> str:
    """What it prints, without addresses, which another process does not share."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(part))


def fingerprint(*parts: Any) -> str:
    """A hash of arrays and of anything that prints the same when it is the same."""
    digest = hashlib.sha256()
    for part in jax.tree.leaves(parts):
        is_array = hasattr(part, "__array__")
        digest.update(np.ascontiguousarray(part).tobytes() if is_array else _words(part).encode())
        digest.update(repr(np.shape(part)).encode())
    return digest.hexdigest()[:32]
