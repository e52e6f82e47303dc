"""The usual base prior p_f(w): independent zero-mean Gaussians (paper, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import ModelError
from ocbnn.likelihoods import HALF_LOG_2PI
from ocbnn.networks import Key, Network, as_key


@dataclass(frozen=True, eq=False)
class IsotropicGaussian:
    """w_i ~ N(0, σ_ω²), with one σ_ω for all weights or one for each."""

    size: int
    scale: float | Float[np.ndarray, " size"] = 1.0

    def __post_init__(self) -> None:
        scale = np.asarray(self.scale, dtype=float)
        if scale.shape not in {(), (self.size,)}:
            raise ModelError(
                f"scale is one number or one for each of the {self.size} weights, not {scale.shape}."
            )
        if not np.all((scale > 0) & np.isfinite(scale)):
            raise ModelError("scale holds standard deviations: all must be positive and finite.")

    @classmethod
    def for_network(
        cls, network: Network, scale: float = 1.0, *, scale_by_fan_in: bool = False
    ) -> IsotropicGaussian:
        """σ_ω for every weight, or σ_ω/√fan-in so that wide layers do not mean larger functions."""
        return cls(network.size, scale / np.sqrt(network.fan_in()) if scale_by_fan_in else scale)

    def log_density(self, w: Float[Array, " size"]) -> Float[Array, ""]:
        normaliser = float(np.sum(np.log(np.broadcast_to(self.scale, self.size)))) + self.size * HALF_LOG_2PI
        standardised = jnp.asarray(w) / self.scale
        return -0.5 * jnp.sum(standardised * standardised) - normaliser

    def sample(self, key: Key) -> Float[Array, " size"]:
        return jnp.asarray(self.scale) * jax.random.normal(as_key(key), (self.size,))
