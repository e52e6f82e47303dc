"""How far a predictive is from what a rule asks for, at each point: what learning drives below the tolerance.

- Deterministic rules: the predictive's mass outside of the allowed set (paper eq. 9). Every such rule becomes
  intervals of one number: y; the log-odds of allowed against forbidden classes; the logit of a probability.
- Probabilistic rules: a named divergence between D_y and the predictive (paper eq. 10, `divergences.py`).

Everything is in model units, pure, and differentiable in the predictive also where no mass is inside.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, logsumexp, ndtr
from jaxtyping import Array, Float

from ocbnn import violation
from ocbnn.amortize.divergences import Divergence
from ocbnn.amortize.predictive import SMALLEST_VARIANCE, Predictive
from ocbnn.errors import ModelError
from ocbnn.model.likelihoods import Likelihood
from ocbnn.model.measures import log_total
from ocbnn.rules.located import (
    AllowedClasses,
    AllowedIntervals,
    AllowedValues,
    Located,
    LocatedFunctions,
    NormalMixture,
    ProbabilityIntervals,
    TargetClassProbabilities,
    TargetProbability,
)

LINEAR_BELOW = 0.1
"""Mass inside below which the shortfall goes on as a straight line in its logarithm: 1 − mass has no slope in
the far tails, its logarithm has."""
LARGEST_LOGIT = 15.0
"""Where `P(…) >= 1` is taken to begin: the logit of a float32 that rounds to 1."""
CELLS = 32
"""Cells of y, equally probable under each component of D_y, in which it is compared with the predictive."""


class Allowed(NamedTuple):
    """Disjoint intervals of one number at each point; unused slots have lower > upper."""

    lower: Float[Array, "T K"]
    upper: Float[Array, "T K"]


class Setting(NamedTuple):
    """What is the same at every step.

    Attributes:
        likelihood: gives outputs their meaning.
        divergence: for probabilistic rules.
        noise: standard deviation of an observation of y around Φ, where rules speak of observations.
        observation: rules speak of Y rather than of Φ_w.
        closed_form: the predictive is one Gaussian, and classes follow MacKay's approximation.
        tangent: below a mass of 0.1 the shortfall is a straight line in log mass; False: always 1 − mass.
        smooth: samples have no variance of their own: each is spread by a kernel of Silverman's width.
    """

    likelihood: Likelihood
    divergence: Divergence
    noise: float | None = None
    observation: bool = False
    closed_form: bool = False
    tangent: bool = True
    smooth: bool = False


def shortfall(
    output: Any, located: Located, predictive: Predictive, key: Array, setting: Setting
) -> Float[Array, " T"]:
    """How far the rule is from being met at each point: mass outside, or divergence from D_y."""
    match located:
        case TargetProbability(members, asked):
            inside = jnp.sum(jnp.where(members, class_probabilities(predictive, key, setting), 0.0), axis=-1)
            return setting.divergence.between(_event(jnp.asarray(asked, inside.dtype)), _event(inside))
        case TargetClassProbabilities(asked):
            predicted = class_probabilities(predictive, key, setting)
            return setting.divergence.between(jnp.asarray(asked, predicted.dtype), predicted)
        case NormalMixture():
            return _distribution_shortfall(located, predictive, setting)
        case AllowedClasses(allowed) if setting.observation:
            probabilities = class_probabilities(predictive, key, setting)
            inside = jnp.sum(jnp.where(allowed, probabilities, 0.0), axis=-1)
            return from_log_mass(jnp.log(inside + np.finfo(np.float32).tiny), tangent=setting.tangent)
    quantity, allowed_set = _quantity(output, located, predictive, key, setting)
    return from_log_mass(log_mass(allowed_set, quantity), tangent=setting.tangent)


def log_mass(allowed: Allowed, quantity: Predictive) -> Float[Array, " T"]:
    """Log of the mass inside disjoint intervals, from log Φ at their ends alone: exact in both tails."""
    mean, sd = quantity.mean, jnp.sqrt(quantity.variance + SMALLEST_VARIANCE)
    lower, upper = jnp.asarray(allowed.lower, mean.dtype), jnp.asarray(allowed.upper, mean.dtype)
    inside = _log_between(_standardised(lower, mean, sd), _standardised(upper, mean, sd))
    inside = jnp.where(lower <= upper, inside, -jnp.inf)
    total = logsumexp(inside, axis=(0, 2)) - jnp.log(float(len(mean)))
    return jnp.where(total < 0.0, total, 0.0)


def from_log_mass(log_inside: Float[Array, " T"], *, tangent: bool = True) -> Float[Array, " T"]:
    """1 − mass; with `tangent`, below a mass of 0.1 a line goes on in log mass, so that its slope stays."""
    if not tangent:
        return -jnp.expm1(log_inside)
    edge = float(np.log(LINEAR_BELOW))
    near = jnp.where(log_inside > edge, log_inside, edge)
    return -jnp.expm1(near) + LINEAR_BELOW * jnp.where(log_inside > edge, 0.0, edge - log_inside)


def class_probabilities(predictive: Predictive, key: Array, setting: Setting) -> Float[Array, "T C"]:
    """E_w of class probabilities: by draws, or σ_L(φ_μ / √(1 + π v / 8)) (paper, appendix B; errata D2)."""
    if setting.closed_form:
        moderated = predictive.mean / jnp.sqrt(1.0 + jnp.pi * predictive.variance / 8.0)
        return jnp.exp(setting.likelihood.function(moderated[0]))
    logs = jax.vmap(setting.likelihood.function)(predictive.draws(key))
    return jnp.mean(jnp.exp(logs), axis=0)


# The number that intervals are about ------------------------------------------------------------------------


def _quantity(
    output: Any, located: Located, predictive: Predictive, key: Array, setting: Setting
) -> tuple[Predictive, Allowed]:
    """One number for each Gaussian and point, and where it may be."""
    match located:
        case AllowedIntervals():
            return _of_output(predictive, setting), Allowed(
                jnp.asarray(located.lower), jnp.asarray(located.upper)
            )
        case AllowedValues():
            return _of_output(predictive, setting), _around_values(located)
        case AllowedClasses(allowed) if predictive.mean.shape[-1] == 1:
            lower = jnp.where(allowed[:, 0], -jnp.inf, 0.0)
            upper = jnp.where(allowed[:, 1], jnp.inf, 0.0)
            return _spread(predictive, setting), Allowed(lower[:, None], upper[:, None])
        case AllowedClasses(allowed):
            logits = predictive.draws(key)
            best = violation.largest(jnp.where(allowed, logits, -jnp.inf))
            other = violation.largest(jnp.where(allowed, -jnp.inf, logits))
            everything = jnp.all(allowed, axis=-1)
            return _of_draws(jnp.where(everything, 1.0, best - jnp.where(everything, 0.0, other)))
        case ProbabilityIntervals(members, lower, upper):
            bounds = Allowed(_logit(lower, -jnp.inf), _logit(upper, jnp.inf))
            if predictive.mean.shape[-1] == 1:
                return _of_probability(_spread(predictive, setting), members), bounds
            logs = jax.vmap(setting.likelihood.function)(predictive.draws(key))
            named = jnp.asarray(members)
            logit = log_total(logs, named) - log_total(logs, ~named)
            return _of_draws(jnp.clip(logit, -2 * LARGEST_LOGIT, 2 * LARGEST_LOGIT))[0], bounds
        case LocatedFunctions():
            return _of_draws(-_margin(output, located, predictive, key, setting))
    raise ModelError(f"An amortized prior cannot learn from {type(located).__name__}.")


def _of_output(predictive: Predictive, setting: Setting) -> Predictive:
    spread = _spread(predictive, setting)
    return spread.with_noise(setting.noise) if setting.observation and setting.noise is not None else spread


def _spread(predictive: Predictive, setting: Setting) -> Predictive:
    return _smoothed(predictive) if setting.smooth else predictive


def _smoothed(predictive: Predictive) -> Predictive:
    """Every sample spread by a Gaussian kernel of Silverman's width, so that mass has a gradient."""
    width = 1.06 * jnp.std(predictive.mean, axis=0) * len(predictive.mean) ** -0.2
    return predictive._replace(variance=predictive.variance + jax.lax.stop_gradient(width * width))


def _of_draws(values: Float[Array, "S T"]) -> tuple[Predictive, Allowed]:
    """Numbers that obey where they are not negative, each spread by a kernel."""
    points = values.shape[1]
    allowed = Allowed(jnp.zeros((points, 1)), jnp.full((points, 1), jnp.inf))
    return _smoothed(Predictive(values[..., None], jnp.zeros_like(values)[..., None])), allowed


def _of_probability(logit: Predictive, members: Any) -> Predictive:
    """The logit of the members' total probability, where there are two classes and one logit."""
    members = jnp.asarray(members)
    first, second = members[:, :1], members[:, 1:]
    certain = first == second
    mean = jnp.where(second, logit.mean, -logit.mean)
    mean = jnp.where(certain, jnp.where(first, 2 * LARGEST_LOGIT, -2 * LARGEST_LOGIT), mean)
    return Predictive(mean, jnp.where(certain, 0.0, logit.variance))


def _margin(
    output: Any, located: LocatedFunctions, predictive: Predictive, key: Array, setting: Setting
) -> Array:
    noisy = setting.observation and setting.noise is not None and located.center.ndim == 1
    draws = (predictive.with_noise(setting.noise or 0.0) if noisy else predictive).draws(key)
    values = jax.vmap(setting.likelihood.function)(draws)
    return violation.margin(output, located, jnp.exp(values) if located.center.ndim == 2 else values)


def _around_values(located: AllowedValues) -> Allowed:
    """Values within their margins as sorted intervals that do not overlap."""
    used = located.weights > 0
    margin = jnp.asarray(located.margin)[..., None]
    values = jnp.sort(jnp.where(used, jnp.asarray(located.values), jnp.inf), axis=-1)
    lower = jnp.where(jnp.isfinite(values), values - margin, jnp.inf)
    upper = jnp.where(jnp.isfinite(values), values + margin, -jnp.inf)
    following = jnp.concatenate([lower[..., 1:], jnp.full_like(lower[..., :1], jnp.inf)], axis=-1)
    return Allowed(lower, jnp.where(upper < following, upper, following))


def _logit(bound: Any, none: float) -> Array:
    bound = jnp.asarray(bound)
    known = jnp.clip(bound, 1e-12, 1.0 - 1e-7)
    logit = jnp.clip(jnp.log(known) - jnp.log1p(-known), -LARGEST_LOGIT, LARGEST_LOGIT)
    free = bound <= 0.0 if none < 0 else bound >= 1.0
    return jnp.where(jnp.isfinite(bound), jnp.where(free, none, logit), bound)


# Distributions ----------------------------------------------------------------------------------------------


def _distribution_shortfall(
    located: NormalMixture, predictive: Predictive, setting: Setting
) -> Float[Array, " T"]:
    """Divergence between D_y and the predictive of Y over cells of y."""
    assert setting.noise is not None
    noisy = _spread(predictive, setting).with_noise(setting.noise)
    used = jnp.asarray(located.weight) > 0
    weight = jnp.where(used, located.weight, 0.0).astype(noisy.mean.dtype)
    mean = jnp.where(used, located.mean, 0.0).astype(noisy.mean.dtype)
    sd = jnp.where(used, located.sd, 1.0).astype(noisy.mean.dtype)
    ends = _cell_ends(used, mean, sd)
    asked = jnp.sum(weight[..., None] * ndtr((ends[:, None] - mean[..., None]) / sd[..., None]), axis=1)
    below = jnp.mean(ndtr((ends - noisy.mean) / jnp.sqrt(noisy.variance)), axis=0)
    return setting.divergence.between(_between(asked), _between(below))


def _cell_ends(used: Array, mean: Array, sd: Array) -> Float[Array, "T ends"]:
    """Quantiles of every component of D_y, sorted; those of unused components repeat the first one's."""
    levels = jnp.asarray(_QUANTILES, mean.dtype)
    quantiles = mean[..., None] + sd[..., None] * levels
    quantiles = jnp.where(used[..., None], quantiles, quantiles[:, :1])
    return jnp.sort(quantiles.reshape(len(mean), -1), axis=-1)


def _normal_quantiles() -> np.ndarray:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.arange(1, CELLS) / CELLS))


_QUANTILES = _normal_quantiles()


def _between(below: Float[Array, "T ends"]) -> Float[Array, "T cells"]:
    zero, one = jnp.zeros_like(below[:, :1]), jnp.ones_like(below[:, :1])
    return jnp.diff(jnp.concatenate([zero, below, one], axis=-1), axis=-1)


def _event(probability: Array) -> Array:
    return jnp.stack([1.0 - probability, probability], axis=-1)


def _log_between(low: Array, high: Array) -> Array:
    """Log(Φ(high) − Φ(low)) without cancellation; infinite ends have no gradient, and need none."""
    # Right of the mean, both tails are near 1: the mirrored interval has the same mass without rounding.
    mirrored = low > 0.0
    low, high = jnp.where(mirrored, -high, low), jnp.where(mirrored, -low, high)
    log_low, log_high = _log_cdf(low), _log_cdf(high)
    # −inf − −inf only where an interval is unused, which the caller masks.
    gap = jnp.where(jnp.isfinite(log_low), log_low - log_high, -jnp.inf)
    gap = jnp.where(gap < -1e-7, gap, -1e-7)
    return log_high + jnp.log1p(-jnp.exp(gap))


def _standardised(end: Array, mean: Array, sd: Array) -> Array:
    finite = jnp.isfinite(end)
    return jnp.where(finite, (jnp.where(finite, end, 0.0) - mean) / sd, end)


def _log_cdf(z: Array) -> Array:
    finite = jnp.isfinite(z)
    logs = log_ndtr(jnp.where(finite, z, 0.0))
    return jnp.where(finite, logs, jnp.where(z > 0.0, 0.0, -jnp.inf))
