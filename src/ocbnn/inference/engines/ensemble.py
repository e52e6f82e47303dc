"""An ensemble of independently optimised networks: the baseline people know (Lakshminarayanan et al. 2017).

Each network climbs to a mode of the posterior from its own start. With `anchored`, each climbs its own tilted
density instead,

    log p(w | D) + ξᵀw,   ξ ~ N(0, F),   F the prior's precision plus the likelihood's Fisher information,

drawn as an anchor from the base prior and a score of data simulated at the start. For a linear network with
Gaussian noise, and no rules, the networks are then exact, independent draws of the posterior: the tilted
density's mode is F⁻¹(b + ξ) (randomised maximum a posteriori). Rules are not perturbed: they can only draw
networks closer together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.base import Info
from ocbnn.inference.engines.optimiser import Climbing, slopes
from ocbnn.model.likelihoods import Noisy
from ocbnn.model.outputs import Precision
from ocbnn.model.priors import as_diagonal


class EnsembleState(NamedTuple):
    """The networks, what tilts each one's density, and what the optimiser remembers."""

    positions: Float[Array, "networks size"]
    tilt: Float[Array, "networks size"]
    optimizer: Any


@dataclass(frozen=True)
class Ensemble(Climbing):
    """Settings of an ensemble of optimised networks.

    Attributes:
        steps: updates in all, each of one minibatch.
        optimizer: "adam", "adagrad", "rmsprop" or "sgd".
        learning_rate: the first one.
        decay: how the learning rate falls over the steps: "cosine", "exponential" or "constant".
        anchored: tilt each network's density by a draw, so that networks differ as the posterior does.
    """

    name: ClassVar[str] = "ensemble"
    stochastic: ClassVar[bool] = True
    has_chains: ClassVar[bool] = False
    precision: ClassVar[Precision] = "float32"
    exact: ClassVar[bool] = False

    steps: int = 2000
    optimizer: str = "adam"
    learning_rate: float = 0.02
    decay: str = "cosine"
    anchored: bool = False

    def __post_init__(self) -> None:
        _ = self.ascent

    def init(
        self, density: Density, key: Array, positions: Float[Array, "networks size"], context: Context
    ) -> EnsembleState:
        tilt = jnp.zeros_like(positions)
        if self.anchored:
            keys = jax.random.split(key, len(positions))
            tilt = jax.vmap(lambda key, w: drawn_tilt(density, key, w, context))(keys, positions)
        return EnsembleState(positions, tilt.astype(positions.dtype), self.ascent.init(positions))

    def step(
        self, density: Density, key: Array, state: EnsembleState, context: Context
    ) -> tuple[EnsembleState, Info]:
        """One update; the log-densities reported are those of where it starts from, without the tilt."""
        log_density, gradient, finite = slopes(density.held, state.positions, context)
        direction = jnp.where(finite[:, None], gradient + state.tilt, 0.0)
        positions, optimizer = self.ascent.climb(state.positions, direction, state.optimizer)
        info = Info(log_density, jnp.ones_like(log_density), ~finite, jnp.ones((), jnp.int32))
        return EnsembleState(positions, state.tilt, optimizer), info

    def draws(self, key: Array, state: EnsembleState, count: int) -> Float[Array, "networks draws size"]:
        """The networks themselves, whatever the count: there are no others."""
        return state.positions[None]


def drawn_tilt(
    density: Density, key: Array, w: Float[Array, " size"], context: Context
) -> Float[Array, " size"]:
    """A draw of ξ ~ N(0, F), F at w; the likelihood's own parameters (learnt noise) are not tilted."""
    model = density.held.model
    base = model.base
    gaussian = as_diagonal(base)
    if gaussian is None:
        raise InferenceError(
            "An anchored ensemble draws its anchors from a Gaussian base prior, not from "
            f"{type(base).__name__}; use anchored=False, or the base prior IsotropicGaussian."
        )
    anchor_key, score_key = jax.random.split(key)
    weights, parameters = model.split(w)
    tilt = jax.random.normal(anchor_key, weights.shape, w.dtype) / jnp.asarray(gaussian.sd, w.dtype)
    if context.data is not None:
        inputs, _, row_weights = context.data
        outputs = model.network.apply(weights, inputs)
        y = _simulated(model.likelihood, score_key, parameters, outputs)
        # A row of weight N/B stands for N/B rows with scores of their own, which add in variance.
        roots = None if row_weights is None else jnp.sqrt(jnp.asarray(row_weights, w.dtype))

        def log_likelihood(weights: Array) -> Array:
            outputs = model.network.apply(weights, inputs)
            return jnp.sum(model.likelihood.log_density(parameters, outputs, y, roots))

        tilt = tilt + jax.grad(log_likelihood)(weights)
    return jnp.concatenate([tilt, jnp.zeros_like(parameters)])


def _simulated(likelihood: Any, key: Array, parameters: Array, outputs: Array) -> Array:
    """Observations drawn from the likelihood at these outputs, as its log-density takes them."""
    if isinstance(likelihood, Noisy):
        mean = likelihood.function(outputs)
        return mean + likelihood.scale(parameters, outputs) * jax.random.normal(key, mean.shape, mean.dtype)
    return jax.random.categorical(key, likelihood.function(outputs), axis=-1)
