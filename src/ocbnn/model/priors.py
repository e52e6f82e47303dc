"""Priors over a network's weights before rules: the protocol, Gaussians, and layers whose scale is learnt.

A prior is a log-density over a flat weight vector that can be sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.special import gammaln

from ocbnn.errors import ModelError
from ocbnn.model.likelihoods import HALF_LOG_2PI
from ocbnn.model.networks import Key, Network, as_key
from ocbnn.schema import Schema

if TYPE_CHECKING:
    from ocbnn.model.conditional import RuleTerm


@runtime_checkable
class Prior(Protocol):
    """Belief about a network's weights before rules and data.

    A new one is a class with these members; it can be the base prior of a `Model`, with rules or without:

        @dataclass(frozen=True)
        class Laplace:
            size: int
            def log_density(self, w): return -jnp.sum(jnp.abs(w)) - self.size * jnp.log(2.0)
            def sample(self, key): return jax.random.laplace(as_key(key), (self.size,))
    """

    @property
    def size(self) -> int:
        """Length of the weight vector."""
        ...

    def log_density(self, w: Float[Array, " size"]) -> Float[Array, ""]:
        """Log-density of the weights."""
        ...

    def sample(self, key: Key) -> Float[Array, " size"]:
        """One draw."""
        ...


@runtime_checkable
class LearntPrior(Prior, Protocol):
    """A base prior that has learnt rules, for one network and in the units of one table."""

    @property
    def learnt(self) -> tuple[RuleTerm, ...]:
        """Its rules, as posteriors check and enforce them."""
        ...

    @property
    def schema(self) -> Schema:
        """The table, in whose units it was learnt."""
        ...

    @property
    def network(self) -> Network:
        """Whose weights it is about."""
        ...

    def check(self, network: Network, schema: Schema) -> None:
        """Refuse another network, or a table in other units."""
        ...


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
        w = jnp.asarray(w)
        # In w's own precision: JAX keeps constants as it has first seen them, maybe in another run's.
        standardised = w / np.asarray(self.scale, w.dtype)
        return -0.5 * jnp.sum(standardised * standardised) - normaliser

    def sample(self, key: Key) -> Float[Array, " size"]:
        return jnp.asarray(self.scale) * jax.random.normal(as_key(key), (self.size,))


@dataclass(frozen=True, eq=False)
class LayerScales:
    """Gaussian weights whose scale is learnt layer by layer: a prior over functions of unknown size and bend.

        w_i = s_l · scale_i · z_i,   z_i ~ N(0, 1),   s_l² ~ inverse-gamma(degrees/2, degrees/2)

    The scale s_l of each layer is integrated out in closed form: its weights and biases are a multivariate
    Student-t. So learning the scales adds nothing to w; `scales` says what weights tell about them.

    Attributes:
        layers: how many weights and biases each layer has, or whatever else shares a scale.
        scale: of each weight where s_l is 1.
        degrees: of freedom. The fewer, the less is known of the scales beforehand.
        order: places in w, layer by layer; default: the layers follow one another in w.
        names: of the layers; default: "hidden layer 1" and so on, and "output layer".
    """

    layers: tuple[int, ...]
    scale: Float[np.ndarray, " size"]
    degrees: float = 4.0
    order: Int[np.ndarray, " size"] | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        if min(self.layers, default=0) < 1:
            raise ModelError(f"Every layer has at least one weight, but the sizes are {self.layers}.")
        if not (self.degrees > 0 and np.isfinite(self.degrees)):
            raise ModelError(f"degrees is a positive, finite number, not {self.degrees}.")
        held = IsotropicGaussian(self.size, np.broadcast_to(self.scale, self.size))
        object.__setattr__(self, "scale", np.asarray(held.scale, dtype=float))
        if self.order is not None:
            order = np.asarray(self.order)
            if not np.array_equal(np.sort(order), np.arange(self.size)):
                raise ModelError(f"order names each of the {self.size} weights once, by its place in w.")
            # The same type in every precision: JAX keeps constants as it has first seen them.
            object.__setattr__(self, "order", order.astype(np.int32))
        hidden = (f"hidden layer {place}" for place in range(1, len(self.layers)))
        names = tuple(self.names) or (*hidden, "output layer")
        if len(names) != len(self.layers):
            raise ModelError(f"There are {len(self.layers)} layers, but {len(names)} names.")
        object.__setattr__(self, "names", names)

    @property
    def size(self) -> int:
        return sum(self.layers)

    @property
    def held(self) -> IsotropicGaussian:
        """The prior given s_l = 1 in all layers: what optimisers climb.

        The mode of the weights and their scales together says nothing of either: it lies where no draw does.
        """
        return IsotropicGaussian(self.size, self.scale)

    def log_density(self, w: Float[Array, " size"]) -> Float[Array, ""]:
        counts = np.asarray(self.layers, dtype=float)
        degrees = self.degrees
        normaliser = np.sum(
            gammaln((degrees + counts) / 2) - gammaln(degrees / 2) - 0.5 * counts * np.log(degrees * np.pi)
        ) - np.sum(np.log(self.scale))
        squares = self._squares(jnp, jnp.asarray(w))
        return float(normaliser) - 0.5 * jnp.sum((degrees + counts) * jnp.log1p(squares / degrees))

    def scales(self, w: Float[np.ndarray, "... size"]) -> Float[np.ndarray, "... layers"]:
        """√(1 / E[1/s_l² | w]) of each layer: its scale as its weights tell it."""
        counts = np.asarray(self.layers, dtype=float)
        return np.sqrt((self.degrees + self._squares(np, np.asarray(w))) / (self.degrees + counts))

    def _squares(self, xp: Any, w: Any) -> Any:
        """Of the standardised weights, summed over each layer."""
        standardised = w / np.asarray(self.scale, w.dtype)
        squares = standardised * standardised
        if self.order is not None:
            squares = squares[..., self.order]
        layers = xp.split(squares, np.cumsum(self.layers)[:-1], axis=-1)
        return xp.stack([xp.sum(layer, axis=-1) for layer in layers], axis=-1)

    def sample(self, key: Key) -> Float[Array, " size"]:
        weights, scales = jax.random.split(as_key(key))
        chi_squared = _chi_squared(scales, self.degrees, len(self.layers))
        factors = jnp.repeat(
            jnp.sqrt(self.degrees / chi_squared), np.asarray(self.layers), total_repeat_length=self.size
        )
        if self.order is not None:
            factors = factors[np.argsort(self.order)]
        return factors * self.held.sample(weights)


def _chi_squared(key: Array, degrees: float, count: int) -> Float[Array, " count"]:
    """Draws of the chi-squared distribution.

    For whole degrees of freedom they are sums of squares: JAX's rejection sampler takes a second to compile.
    """
    if degrees == int(degrees):
        return jnp.sum(jax.random.normal(key, (count, int(degrees))) ** 2, axis=1)
    return jax.random.chisquare(key, degrees, (count,))


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
        w = jnp.asarray(w)
        standardised = (w - np.asarray(self.mean, w.dtype)) / np.asarray(self.sd, w.dtype)
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
