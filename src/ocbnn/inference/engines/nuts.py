"""The No-U-Turn sampler, BlackJAX's kernel: the field's reference for exactness.

One chain a group, since vectorised trees wait for their longest trajectory. `hmc` is many times faster on
networks; this is here to compare with, and for densities that need trajectories of very different lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.mcmc import nuts
from jaxtyping import Array, Float

from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.base import Info
from ocbnn.inference.engines.tuning import Schedule, Tuning
from ocbnn.model.outputs import Precision


class NutsState(NamedTuple):
    """BlackJAX's states, stacked over the chains of the group, and what adapts."""

    chains: Any
    tuning: Tuning


@dataclass(frozen=True)
class Nuts:
    """Settings of the No-U-Turn sampler.

    Attributes:
        target_acceptance: what the step size aims at.
        warmup: steps of adaptation.
        step_size: where adaptation starts.
        max_doublings: of a trajectory.
    """

    name: ClassVar[str] = "nuts"
    stochastic: ClassVar[bool] = False
    has_chains: ClassVar[bool] = True
    precision: ClassVar[Precision] = "float64"
    exact: ClassVar[bool] = True

    target_acceptance: float = 0.8
    warmup: int = 500
    step_size: float = 1e-3
    max_doublings: int = 10

    @property
    def schedule(self) -> Schedule:
        """When step size and metric adapt."""
        return Schedule(self.warmup, self.target_acceptance)

    def groups(self, chains: int, cores: int) -> tuple[int, ...]:
        return (1,) * chains

    def init(
        self, density: Density, key: Array, positions: Float[Array, "chains size"], context: Context
    ) -> NutsState:
        chains = jax.vmap(lambda w: nuts.init(w, lambda v: density.log_density(v, context)))(positions)
        return NutsState(chains, self.schedule.init(positions.shape[1], self.step_size, positions.dtype))

    def step(
        self, density: Density, key: Array, state: NutsState, context: Context
    ) -> tuple[NutsState, Info]:
        kernel = nuts.build_kernel()
        keys = jax.random.split(key, state.chains.position.shape[0])

        def one(own: Array, chain: Any) -> tuple[Any, Any]:
            return kernel(
                own,
                chain,
                lambda w: density.log_density(w, context),
                state.tuning.step_size,
                state.tuning.inverse_mass,
                self.max_doublings,
            )

        chains, info = jax.vmap(one)(keys, state.chains)
        tuning = self.schedule.update(state.tuning, chains.position, jnp.mean(info.acceptance_rate))
        return NutsState(chains, tuning), Info(
            chains.logdensity, info.acceptance_rate, info.is_divergent, info.num_integration_steps
        )

    def draws(self, key: Array, state: NutsState, count: int) -> Float[Array, "chains draws size"]:
        return state.chains.position[:, None, :]
