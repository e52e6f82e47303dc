"""Likelihoods p(y | Φ_w(x)) in log space, with a weight for every row.

A likelihood may have parameters of its own (learnt noise); they follow the network's weights in the flat
vector. Targets and noise are in model units here; `Model.build` converts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ocbnn.errors import ModelError
from ocbnn.model.networks import AnyArray, Key, as_key

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@runtime_checkable
class Likelihood(Protocol):
    """What an observation's density is, given a network's outputs."""

    @property
    def size(self) -> int:
        """How many parameters it has besides the network's weights."""
        ...

    @property
    def outputs(self) -> int:
        """How many outputs it asks of the network."""
        ...

    def log_prior(self, parameters: Float[Array, " size"]) -> Float[Array, ""]:
        """Log prior density of its own parameters."""
        ...

    def initial(self, key: Key) -> Float[Array, " size"]:
        """A starting point for its own parameters."""
        ...

    def log_density(
        self,
        parameters: Float[Array, " size"],
        outputs: Float[Array, "n k"],
        y: AnyArray,
        weights: Float[AnyArray, " n"] | None = None,
    ) -> Float[Array, " n"]:
        """Weighted log-density of every row."""
        ...

    def function(self, outputs: Float[Array, "n k"]) -> Array:
        """What rules speak of: y `(n,)` for regression, log class probabilities `(n, C)` otherwise."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """y ~ N(Φ_w(x), noise² I): `noise` is a standard deviation, for one output or several.

    With `noise=None` it is learnt: its one parameter is η = log noise, and noise ~ HalfNormal(`noise_prior`).
    """

    noise: float | None = None
    noise_prior: float = 1.0
    outputs: int = 1

    def __post_init__(self) -> None:
        for name, value in (("noise", self.noise), ("noise_prior", self.noise_prior)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ModelError(
                    f"{name} is a standard deviation: it must be positive and finite, not {value}."
                )

    @property
    def size(self) -> int:
        return 1 if self.noise is None else 0

    def scale(self, parameters: Float[Array, " size"]) -> Array | float:
        """The standard deviation of the noise."""
        return jnp.exp(parameters[0]) if self.noise is None else self.noise

    def log_prior(self, parameters: Float[Array, " size"]) -> Float[Array, ""]:
        """Log HalfNormal(exp η; noise_prior) + η, the latter being the Jacobian of noise = exp η."""
        if self.noise is not None:
            return jnp.zeros((), jnp.result_type(float))
        normaliser = 0.5 * math.log(2.0 / math.pi) - math.log(self.noise_prior)
        return normaliser - 0.5 * (jnp.exp(parameters[0]) / self.noise_prior) ** 2 + parameters[0]

    def initial(self, key: Key) -> Float[Array, " size"]:
        return math.log(self.noise_prior) + 0.1 * jax.random.normal(as_key(key), (self.size,))

    def log_density(
        self,
        parameters: Float[Array, " size"],
        outputs: Float[Array, "n k"],
        y: AnyArray,
        weights: Float[AnyArray, " n"] | None = None,
    ) -> Float[Array, " n"]:
        noise = self.scale(parameters)
        residual = (jnp.reshape(jnp.asarray(y, outputs.dtype), outputs.shape) - outputs) / noise
        log_noise = parameters[0] if self.noise is None else math.log(self.noise)
        normaliser = outputs.shape[-1] * (log_noise + HALF_LOG_2PI)
        return _weighted(-0.5 * jnp.sum(residual * residual, axis=-1) - normaliser, weights)

    def function(self, outputs: Float[Array, "n k"]) -> Array:
        return outputs[..., 0] if self.outputs == 1 else outputs


class _Parameterless:
    """What likelihoods without parameters of their own share."""

    @property
    def size(self) -> int:
        return 0

    def log_prior(self, parameters: Float[Array, " size"]) -> Float[Array, ""]:
        return jnp.zeros((), jnp.result_type(float))

    def initial(self, key: Key) -> Float[Array, " size"]:
        return jnp.zeros((0,))


@dataclass(frozen=True)
class Bernoulli(_Parameterless):
    """Two classes and one logit, that of the second class (paper, appendix B)."""

    @property
    def outputs(self) -> int:
        return 1

    def log_density(
        self,
        parameters: Float[Array, " size"],
        outputs: Float[Array, "n k"],
        y: AnyArray,
        weights: Float[AnyArray, " n"] | None = None,
    ) -> Float[Array, " n"]:
        logit = outputs[..., 0]
        sign = 2.0 * jnp.asarray(y, logit.dtype) - 1.0
        return _weighted(jax.nn.log_sigmoid(sign * logit), weights)

    def function(self, outputs: Float[Array, "n k"]) -> Float[Array, "n 2"]:
        logit = outputs[..., 0]
        return jnp.stack([jax.nn.log_sigmoid(-logit), jax.nn.log_sigmoid(logit)], axis=-1)


@dataclass(frozen=True)
class Categorical(_Parameterless):
    """Any number of classes, one logit each."""

    classes: int

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ModelError(f"Classification needs at least two classes, not {self.classes}.")

    @property
    def outputs(self) -> int:
        return self.classes

    def log_density(
        self,
        parameters: Float[Array, " size"],
        outputs: Float[Array, "n k"],
        y: AnyArray,
        weights: Float[AnyArray, " n"] | None = None,
    ) -> Float[Array, " n"]:
        index = jnp.asarray(y).astype(int)[..., None]
        chosen = jnp.take_along_axis(self.function(outputs), index, axis=-1)[..., 0]
        return _weighted(chosen, weights)

    def function(self, outputs: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return jax.nn.log_softmax(outputs, axis=-1)


def _weighted(log_density: Array, weights: AnyArray | None) -> Array:
    return log_density if weights is None else log_density * jnp.asarray(weights, log_density.dtype)
