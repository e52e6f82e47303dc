"""Likelihoods p(y | Φ_w(x)) in log space, with a weight for every row.

A likelihood may have parameters of its own (learnt noise); they follow the network's weights in the flat
vector. Noise that varies is an output of the network instead, which rules do not see. Targets and noise are
in model units here; `Model.build` converts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import ModelError
from ocbnn.model.networks import MLP, AnyArray, Key, Network, as_key

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
BOUND = math.log(1e4)
"""Of log noise, around its centre. Rounding in float32 leaves errors of some 1e-6 sd(y) in a function, which
is much beside a noise far below 1e-4 sd(y); and of one far above 1e4 sd(y) a row tells nothing."""
Noise = float | Literal["varying"] | None
"""A standard deviation, noise that depends on the inputs, or one number that is learnt (None)."""


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


@runtime_checkable
class Noisy(Likelihood, Protocol):
    """A likelihood of numbers: an observation is normal around the function."""

    def scale(self, parameters: Float[Array, " size"], outputs: Float[Array, "n k"]) -> Array | float:
        """The standard deviation of the noise: one number, or one for each row."""
        ...

    def constant(self, network: Network, share: float) -> dict[int, float]:
        """Where w says what the noise is, and what it says where noise is this share of sd(y) everywhere."""
        ...


def checked_noise(noise: object) -> Noise:
    """The noise that a user gave, if it is any."""
    if noise is None or (isinstance(noise, str) and noise in ("varying", "constant")):
        return "varying" if noise == "varying" else None
    number = isinstance(noise, int | float | np.number) and not isinstance(noise, bool)
    if not (number and math.isfinite(noise) and float(noise) > 0):  # type: ignore[arg-type]
        raise ModelError(
            'noise is a positive standard deviation in units of y, "varying" where it depends on the inputs, '
            f'or "constant" where one number is to be learnt, not {noise!r}.'
        )
    return float(noise)  # type: ignore[arg-type]


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

    def scale(self, parameters: Float[Array, " size"], outputs: Float[Array, "n k"]) -> Array | float:
        return jnp.exp(parameters[0]) if self.noise is None else self.noise

    def constant(self, network: Network, share: float) -> dict[int, float]:
        return {network.size: math.log(self.noise_prior * share)} if self.noise is None else {}

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
        noise = self.scale(parameters, outputs)
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
class VaryingGaussian(_Parameterless):
    """y ~ N(Φ_w(x), s_w(x)²): noise that depends on the inputs, by a second output u of the network.

        log s_w(x) = log(noise_prior / 2) + bound · tanh(u_w(x) / bound)

    So the prior of u's weights says how much noise varies, and that of its bias what its level is. For any u
    that a prior holds possible the bound changes little; it keeps what is far out a number.

    Attributes:
        noise_prior: twice the noise where u is 0; sd(y) in `Model.build`.
        bound: how far log noise may be from that.
    """

    noise_prior: float = 1.0
    bound: float = BOUND

    def __post_init__(self) -> None:
        if not (self.noise_prior > 0 and math.isfinite(self.noise_prior)):
            raise ModelError(
                "noise_prior is a standard deviation: it must be positive and finite, "
                f"not {self.noise_prior}."
            )
        if not (self.bound > 0 and math.isfinite(self.bound)):
            raise ModelError(f"bound is a positive, finite number, not {self.bound}.")

    @property
    def outputs(self) -> int:
        return 2

    def log_scale(self, outputs: Float[Array, "n 2"]) -> Float[Array, " n"]:
        """The logarithm of the noise at each row."""
        return math.log(self.noise_prior / 2.0) + self.bound * jnp.tanh(outputs[..., 1] / self.bound)

    def scale(self, parameters: Float[Array, " size"], outputs: Float[Array, "n 2"]) -> Float[Array, " n"]:
        return jnp.exp(self.log_scale(outputs))

    def constant(self, network: Network, share: float) -> dict[int, float]:
        if not isinstance(network, MLP):
            return {}  # of a user's own function nobody knows which weights make an output
        *weights, level = network.output_places(1).tolist()
        output = self.bound * math.atanh(math.log(2.0 * share) / self.bound)
        return {**dict.fromkeys(weights, 0.0), level: output}

    def log_density(
        self,
        parameters: Float[Array, " size"],
        outputs: Float[Array, "n 2"],
        y: AnyArray,
        weights: Float[AnyArray, " n"] | None = None,
    ) -> Float[Array, " n"]:
        mean, log_noise = self.function(outputs), self.log_scale(outputs)
        residual = (jnp.reshape(jnp.asarray(y, mean.dtype), mean.shape) - mean) * jnp.exp(-log_noise)
        return _weighted(-0.5 * residual * residual - log_noise - HALF_LOG_2PI, weights)

    def function(self, outputs: Float[Array, "n 2"]) -> Float[Array, " n"]:
        return outputs[..., 0]


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
