"""Stein variational gradient descent: particles that climb the density and keep apart (Liu & Wang 2016).

    x_i ← x_i + ε φ(x_i),   φ as in `stein.stein_direction`, ε by the optimiser

All particles are one group and one set of draws. Few particles in many dimensions are known to lie closer
together than the posterior does; `stein.kernel_stein_discrepancy` says how far off they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.base import Info
from ocbnn.inference.engines.optimiser import Climbing, slopes
from ocbnn.inference.engines.stein import kernel_stein_discrepancy, stein_direction
from ocbnn.model.outputs import Precision


class SvgdState(NamedTuple):
    """The particles, and what the optimiser remembers."""

    positions: Float[Array, "particles size"]
    optimizer: Any


@dataclass(frozen=True)
class Svgd(Climbing):
    """Settings of Stein variational gradient descent.

    Attributes:
        steps: updates in all; one update sees one minibatch (what the paper calls an epoch, errata I6).
        optimizer: "adam", "adagrad" (the paper's), "rmsprop" or "sgd".
        learning_rate: the first one; the paper has 0.75 in its text and 0.5 in its code (errata I5).
        decay: how the learning rate falls: "cosine", "exponential" or "constant" (the paper's).
        bandwidth: h of the kernel; the median heuristic unless given.
    """

    name: ClassVar[str] = "svgd"
    stochastic: ClassVar[bool] = True
    has_chains: ClassVar[bool] = False
    precision: ClassVar[Precision] = "float32"
    exact: ClassVar[bool] = False
    discrepancy = staticmethod(kernel_stein_discrepancy)

    steps: int = 2000
    optimizer: str = "adam"
    learning_rate: float = 0.02
    decay: str = "cosine"
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        _ = self.ascent
        if self.bandwidth is not None and not self.bandwidth > 0:
            raise InferenceError(f"The kernel's bandwidth must be positive, not {self.bandwidth}.")

    def init(
        self, density: Density, key: Array, positions: Float[Array, "particles size"], context: Context
    ) -> SvgdState:
        return SvgdState(positions, self.ascent.init(positions))

    def step(
        self, density: Density, key: Array, state: SvgdState, context: Context
    ) -> tuple[SvgdState, Info]:
        """One update; the log-densities reported are those of where it starts from."""
        log_density, scores, finite = slopes(density, state.positions, context)
        direction = stein_direction(state.positions, scores, self.bandwidth)
        positions, optimizer = self.ascent.climb(state.positions, direction, state.optimizer)
        ones = jnp.ones_like(log_density)
        return SvgdState(positions, optimizer), Info(log_density, ones, ~finite, jnp.ones((), jnp.int32))

    def draws(self, key: Array, state: SvgdState, count: int) -> Float[Array, "particles draws size"]:
        """The particles themselves, whatever the count: there are no others."""
        return state.positions[None]
