"""Training together: the processes of `jax.distributed` share the rows of every minibatch.

Each process puts together its own share of a minibatch. XLA sums the gradients over all of them, so that
every process has the same state after every step. All else (preparation, points of rules, verdicts) every
process computes for itself, in the same way. Process 0 writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Context

ENGINES = ("bbb", "sgld")
"""Whose steps are sums over rows, and nothing else."""
AXIS = "rows"


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this is."""

    index: int = 0
    count: int = 1

    @classmethod
    def here(cls) -> Processes:
        """As `jax.distributed.initialize` has said; one where it was not called."""
        if not jax.distributed.is_initialized():
            return cls()
        return cls(jax.process_index(), jax.process_count())

    def sharding(self, *axes: str | None) -> NamedSharding:
        """Arrays cut along the axis that is named; the same everywhere where none is."""
        mesh = jax.make_mesh((self.count,), (AXIS,), devices=_first_devices())
        spec: Any = PartitionSpec
        return NamedSharding(mesh, spec(*axes))

    def joined(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a program of all processes: the rows of all, and the rest, alike everywhere."""
        alike, rows = self.sharding(), self.sharding(None, AXIS)
        assembled: Any = jax.make_array_from_process_local_data

        def everywhere(leaf: Any) -> Any:
            return assembled(alike, np.asarray(leaf))

        def shared(leaf: Any) -> Any:
            return assembled(rows, np.asarray(leaf))

        *rest, context = arguments
        assert isinstance(context, Context)
        data = jax.tree.map(shared, context.data)
        points, nodes = jax.tree.map(everywhere, (context.points, context.nodes))
        return (*jax.tree.map(everywhere, tuple(rest)), Context(data, points, nodes))

    def agreed(self, tree: Any) -> Any:
        """What process 0 has, in all of them: machines may round differently."""
        from jax.experimental import multihost_utils

        found: Any = multihost_utils.broadcast_one_to_all(jax.tree.map(np.asarray, tree))
        return jax.tree.map(np.asarray, found)

    def require(self, engine: str, executor: Any) -> None:
        """Refuse what several processes cannot do together."""
        if self.count > 1 and engine not in ENGINES:
            raise InferenceError(
                f"{self.count} processes train together with {' or '.join(ENGINES)}, not with {engine!r}: "
                "give one of them, or do not call jax.distributed.initialize."
            )
        if self.count > 1 and executor is not None:
            raise InferenceError("Processes that train together need no executor; leave it out.")


def _first_devices() -> list[Any]:
    """One device of each process."""
    found: dict[int, Any] = {}
    for device in jax.devices():
        found.setdefault(device.process_index, device)
    return [found[index] for index in sorted(found)]


def lost(error: Exception) -> InferenceError:
    """What is said where another process has ended."""
    return InferenceError(
        f"Another process has ended, or cannot be reached ({str(error).splitlines()[0]:.200}). Start all of "
        "them again; with folder=… and resume=True they go on after the last whole part."
    )
