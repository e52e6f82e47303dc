"""A Gaussian with a mean and a standard deviation for every weight: what an amortized prior is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import ModelError
from ocbnn.likelihoods import HALF_LOG_2PI
from ocbnn.networks import Key, as_key
from ocbnn.priors.isotropic import IsotropicGaussian


@dataclass(frozen=True, eq=False)
class DiagonalGaussian:
    """w_i ~ N(mean_i, sd_i²), independently: q_λ(w) with λ = (μ, σ) (paper, section 4.3)."""

    mean: Float[np.ndarray, " size"]
    sd: Float[np.ndarray, " size"]

    def __post_init__(self) -> None:
        mean, sd = np.asarray(self.mean, dtype=float), np.asarray(self.sd, dtype=float)
        if mean.ndim != 1 or mean.shape != sd.shape:
            raise ModelError(
                f"mean and sd have one number for each weight, not the shapes {mean.shape} and {sd.shape}."
            )
        if not np.isfinite(mean).all():
            raise ModelError("All means must be finite.")
        if not np.all((sd > 0) & np.isfinite(sd)):
            raise ModelError("sd holds standard deviations: all must be positive and finite.")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "sd", sd)

    @property
    def size(self) -> int:
        return len(self.mean)

    def log_density(self, w: Float[Array, " size"]) -> Float[Array, ""]:
        normaliser = float(np.sum(np.log(self.sd))) + self.size * HALF_LOG_2PI
        standardised = (jnp.asarray(w) - self.mean) / self.sd
        return -0.5 * jnp.sum(standardised * standardised) - normaliser

    def sample(self, key: Key) -> Float[Array, " size"]:
        return jnp.asarray(self.mean) + jnp.asarray(self.sd) * jax.random.normal(as_key(key), (self.size,))

    def draws(self, count: int, seed: Any = 0) -> Float[np.ndarray, "count size"]:
        """Independent draws in float64, the same in every process."""
        noise = np.random.default_rng(seed).normal(size=(count, self.size))
        return self.mean + self.sd * noise

    def kl_to(self, other: DiagonalGaussian) -> float:
        """KL(self ‖ other), in nats."""
        return float(_kl(np, self.mean, self.sd, other.mean, other.sd))


def kl_divergence(
    mean: Float[Array, " size"], sd: Float[Array, " size"], other: DiagonalGaussian
) -> Float[Array, ""]:
    """KL(N(mean, sd²) ‖ other), in nats, differentiable in mean and sd."""
    return _kl(jnp, mean, sd, jnp.asarray(other.mean, mean.dtype), jnp.asarray(other.sd, sd.dtype))


def as_diagonal(prior: Any) -> DiagonalGaussian | None:
    """The prior as one Gaussian per weight, if that is what it is."""
    gaussian = getattr(prior, "gaussian", prior)
    if isinstance(gaussian, DiagonalGaussian):
        return gaussian
    if isinstance(gaussian, IsotropicGaussian):
        return DiagonalGaussian(np.zeros(gaussian.size), np.broadcast_to(gaussian.scale, gaussian.size))
    return None


def _kl(xp: Any, mean: Any, sd: Any, other_mean: Any, other_sd: Any) -> Any:
    ratio, shift = sd / other_sd, (mean - other_mean) / other_sd
    return 0.5 * xp.sum(ratio * ratio + shift * shift - 1.0) - xp.sum(xp.log(ratio))
