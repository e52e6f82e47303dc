"""Bayes by backprop: the best diagonal Gaussian q = N(μ, diag σ²) by the ELBO's gradient (Blundell 2015).

    ELBO = E_q[log p(D | w) + log p(w)] + H(q),   w = μ + σ ε,  ε ~ N(0, I),  σ = softplus(ρ)

The entropy H(q) is in closed form, and so is the base prior's part of E_q[log p(w)] where that prior is an
`IsotropicGaussian`: both together are −KL(q ‖ p_f) on the network's weights. The likelihood, the rules and
the prior of learnt noise (and any other base prior) are averaged over draws of ε: `besides_base` and
`expected_base` say which part is which. The paper's settings are `optimizer="adagrad"`, `decay="constant"`,
`initial_mean="zero"` and `initial_scale=1.0`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines.base import Info
from ocbnn.inference.engines.optimiser import Climbing
from ocbnn.model.likelihoods import HALF_LOG_2PI
from ocbnn.model.outputs import Precision
from ocbnn.model.priors import as_diagonal


class Variational(NamedTuple):
    """The parameters of q, or of several."""

    mean: Float[Array, "... size"]
    raw_scale: Float[Array, "... size"]

    @property
    def scale(self) -> Float[Array, "... size"]:
        """Standard deviations, σ = softplus(ρ)."""
        return jax.nn.softplus(self.raw_scale)


class BbbState(NamedTuple):
    """One q for each chain, and what the optimiser remembers."""

    q: Variational
    optimizer: Any


@dataclass(frozen=True)
class Bbb(Climbing):
    """Settings of Bayes by backprop.

    Attributes:
        steps: updates in all; one update sees one minibatch (what the paper calls an epoch, errata I6).
        draws_per_step: of ε, averaged in each update.
        optimizer: "adam", "adagrad" (the paper's), "rmsprop" or "sgd".
        learning_rate: the first one; the paper has 0.1 in its text and 0.5 in its code (errata I5).
        decay: how the learning rate falls: "cosine", "exponential" or "constant" (the paper's).
        initial_mean: "start" takes the positions given (warm-started), "zero" is the paper's text, "normal"
            its code: N(0, 1) (errata I3).
        initial_scale: standard deviations of q at the start; 1 in the paper's text, and in its code
            softplus(−0.5) = 0.474, softplus(0) = 0.693 or softplus(1) = 1.313 (errata I3).
    """

    name: ClassVar[str] = "bbb"
    stochastic: ClassVar[bool] = True
    has_chains: ClassVar[bool] = False
    precision: ClassVar[Precision] = "float32"
    exact: ClassVar[bool] = False
    objective: ClassVar[str] = "ELBO"

    steps: int = 5000
    draws_per_step: int = 5
    optimizer: str = "adam"
    learning_rate: float = 0.01
    decay: str = "cosine"
    initial_mean: Literal["start", "zero", "normal"] = "start"
    initial_scale: float = 0.05

    def __post_init__(self) -> None:
        _ = self.ascent
        if self.draws_per_step < 1:
            raise InferenceError(f"An update needs at least one draw, not {self.draws_per_step}.")
        if not self.initial_scale > 0:
            raise InferenceError(
                f"initial_scale is a standard deviation: {self.initial_scale} is not positive."
            )
        if self.initial_mean not in ("start", "zero", "normal"):
            raise InferenceError(f'initial_mean is "start", "zero" or "normal", not {self.initial_mean!r}.')

    def init(
        self, density: Density, key: Array, positions: Float[Array, "chains size"], context: Context
    ) -> BbbState:
        match self.initial_mean:
            case "start":
                mean = positions
            case "zero":
                mean = jnp.zeros_like(positions)
            case "normal":
                mean = jax.random.normal(key, positions.shape, positions.dtype)
        raw_scale = self.initial_scale + np.log(-np.expm1(-self.initial_scale))
        q = Variational(mean, jnp.full_like(positions, raw_scale))
        return BbbState(q, self.ascent.init(q))

    def step(self, density: Density, key: Array, state: BbbState, context: Context) -> tuple[BbbState, Info]:
        """One update; the objective reported is the estimate at the q it starts from."""
        keys = jax.random.split(key, len(state.q.mean))
        elbo, gradient = jax.lax.map(
            lambda each: elbo_and_gradient(density, each[0], each[1], context, self.draws_per_step),
            (keys, state.q),
        )
        finite = jnp.isfinite(elbo) & jnp.isfinite(gradient.mean + gradient.raw_scale).all(axis=-1)
        gradient = jax.tree.map(lambda leaf: jnp.where(finite[:, None], leaf, 0.0), gradient)
        q, optimizer = self.ascent.climb(state.q, gradient, state.optimizer)
        work = jnp.full((), self.draws_per_step, jnp.int32)
        return BbbState(q, optimizer), Info(elbo, jnp.ones_like(elbo), ~finite, work)

    def draws(self, key: Array, state: BbbState, count: int) -> Float[Array, "chains draws size"]:
        """So many independent draws of each chain's q."""
        mean, scale = state.q.mean, state.q.scale
        noise = jax.random.normal(key, (len(mean), count, mean.shape[1]), mean.dtype)
        return mean[:, None] + scale[:, None] * noise


def elbo_and_gradient(
    density: Density, key: Array, q: Variational, context: Context, draws: int
) -> tuple[Float[Array, ""], Variational]:
    """An unbiased estimate of the ELBO and its gradient, both averaged over the draws."""
    noise = jax.random.normal(key, (draws, *q.mean.shape), q.mean.dtype)
    scale, scale_gradient = jax.nn.softplus(q.raw_scale), jax.nn.sigmoid(q.raw_scale)
    slope = jax.value_and_grad(lambda w: besides_base(density, w, context))
    # One draw after the other: XLA's CPU products over a batch of matrices are half as fast as single ones.
    values, gradients = jax.lax.map(lambda each: slope(q.mean + scale * each), noise)
    known, (known_mean, known_scale) = jax.value_and_grad(
        lambda mean, scale: expected_base(density, mean, scale) + entropy(scale), argnums=(0, 1)
    )(q.mean, scale)
    mean_gradient = jnp.mean(gradients, axis=0) + known_mean
    scale_slope = jnp.mean(gradients * noise, axis=0) + known_scale
    return jnp.mean(values) + known, Variational(mean_gradient, scale_slope * scale_gradient)


def besides_base(density: Density, w: Float[Array, " size"], context: Context) -> Float[Array, ""]:
    """What is averaged over draws: likelihood, rules, learnt noise's prior, a base prior not Gaussian."""
    model = density.model
    weights, parameters = model.split(w)
    total = density.log_likelihood(w, context)
    if model.terms:
        total = total + jnp.sum(model.rule_log_densities(weights, context.points))
    if model.likelihood.size:
        total = total + model.likelihood.log_prior(parameters)
    base = model.base
    return total if as_diagonal(base) is not None else total + base.log_density(weights)


def expected_base(
    density: Density, mean: Float[Array, " size"], scale: Float[Array, " size"]
) -> Float[Array, ""]:
    """E_q[log p_f] of a Gaussian base prior on the network's weights in closed form; 0 for any other."""
    base = density.model.base
    gaussian = as_diagonal(base)
    if gaussian is None:
        return jnp.zeros((), mean.dtype)
    mean, scale = density.model.split(mean)[0], density.model.split(scale)[0]
    return base.log_density(mean) - 0.5 * jnp.sum((scale / jnp.asarray(gaussian.sd, scale.dtype)) ** 2)


def entropy(scale: Float[Array, " size"]) -> Float[Array, ""]:
    """H(q) of a diagonal Gaussian with these standard deviations."""
    return jnp.sum(jnp.log(scale)) + scale.size * (0.5 + HALF_LOG_2PI)
