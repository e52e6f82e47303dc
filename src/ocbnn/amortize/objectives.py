"""How far a predictive is from what a rule asks for, at each case: what learning drives below the tolerance.

- Rules that are judged draw by draw: the predictive's mass outside of the allowed set (paper eq. 8). Each of
  them becomes intervals of one number: y; the log-odds of allowed against forbidden classes; the logit of a
  probability; for rules that list no allowed outputs, the margin of draws.
- Rules that are judged by all draws together: a named divergence between D_y and the predictive (paper
  eq. 9). Over cells (events, or a grid of y) with the asked probability D and the predicted p of each:

| name | definition | largest value that keeps total variation within t |
| --- | --- | --- |
| total-variation | ½ Σ |D − p| | t |
| hellinger | √(1 − Σ √(D p)) | √(1 − √(1 − t²)) |
| kl | Σ D log(D / p) | 2 t² (Pinsker) |
| reverse-kl | Σ p log(p / D) | 2 t² |
| symmetric-kl | mean of both (the paper's code: for two classes, errata D7) | 2 t² |

Tolerances of such rules are in total variation; another divergence gets the budget that implies it.
Everything is in model units, pure, and differentiable in the predictive also where no mass is inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, logsumexp, ndtr
from jaxtyping import Array, Float
from scipy.special import ndtri

from ocbnn.amortize.predictive import SMALLEST_VARIANCE, Predictive
from ocbnn.errors import ModelError
from ocbnn.model.likelihoods import Likelihood
from ocbnn.model.terms import log_total
from ocbnn.rules.margins import largest
from ocbnn.rules.requirement import Allowed, Asked, Normals, Requirement, Shares

LINEAR_BELOW = 0.1
"""Mass inside below which the shortfall goes on as a straight line in its logarithm: 1 − mass has no slope in
the far tails, its logarithm has."""
LARGEST_LOGIT = 15.0
"""Where `P(…) >= 1` is taken to begin: the logit of a float32 that rounds to 1."""
CELLS = 32
"""Cells of y, equally probable under each component of D_y, in which it is compared with the predictive."""
FLOOR = 1e-3
"""Probabilities are at least this inside logarithms and roots, as in the paper's code (errata D7): the
gradient stays finite where the rule asks for certainty."""


class Discrepancy(NamedTuple):
    """A divergence over the last axis, and the most of it that implies a total variation."""

    between: Callable[[Array, Array], Array]
    budget: Callable[[float], float]


class Objective(NamedTuple):
    """What is the same at every step.

    Attributes:
        likelihood: gives outputs their meaning.
        divergence: for rules that are judged by all draws together.
        noise: standard deviation of an observation of y around Φ, where rules speak of observations.
        observation: rules speak of Y rather than of Φ_w.
        linearized: the predictive is one Gaussian, and classes follow MacKay's approximation.
        tangent: below a mass of 0.1 the shortfall is a straight line in log mass; False: always 1 − mass.
        smooth: samples have no variance of their own: each is spread by a kernel of Silverman's width.
    """

    likelihood: Likelihood
    divergence: Discrepancy
    noise: float | None = None
    observation: bool = False
    linearized: bool = False
    tangent: bool = True
    smooth: bool = False


class Within(NamedTuple):
    """One number at each case, and the disjoint intervals it may lie in; unused slots have lower > upper."""

    number: Predictive
    lower: Float[Array, "m K"]
    upper: Float[Array, "m K"]


def shortfall(
    requirement: Requirement, demand: Any, predictive: Predictive, key: Array, objective: Objective
) -> Float[Array, " m"]:
    """How far a rule is from being met at each case: mass outside, or divergence from D_y.

    Args:
        requirement: what the rule asks.
        demand: what it asks at each case, in model units.
        predictive: of the outputs at each case. Where a case has several inputs, `(S, m, inputs, outputs)`
            of the same S draws of w.
        key: of draws from the predictive.
        objective: the settings.

    Raises:
        ModelError: the rule is judged by all draws together and states no distribution.
    """
    if requirement.judged == "predictive":
        return _divergence_from(asked_distribution(requirement, demand), predictive, key, objective)
    allowed = allowed_outputs(requirement, demand)
    if allowed is not None and allowed.classes is not None and objective.observation:
        probabilities = class_probabilities(predictive, key, objective)
        inside = jnp.sum(jnp.where(allowed.classes, probabilities, 0.0), axis=-1)
        log_inside = jnp.log(inside + np.finfo(np.float32).tiny)
    elif allowed is not None:
        log_inside = log_mass(_within(allowed, predictive, key, objective))
    else:
        log_inside = log_mass(_not_negative(-_margins(requirement, demand, predictive, key, objective)))
    return from_log_mass(log_inside, tangent=objective.tangent)


def allowed_outputs(requirement: Requirement, demand: Any) -> Allowed | None:
    """What the rule allows of single outputs, if that is one statement; None: draws have to be judged."""
    allowed = requirement.allowed(demand) if requirement.inputs == 1 else None
    return allowed if allowed is not None and sum(each is not None for each in allowed) == 1 else None


def asked_distribution(requirement: Requirement, demand: Any) -> Asked:
    """The distribution that the rule asks for.

    Raises:
        ModelError: it states none.
    """
    asked = requirement.asked(demand)
    if asked is None:
        raise ModelError(
            f"An amortized prior cannot learn from the kind of rule `{requirement.text()}`: it is judged by "
            "all draws together, but states no distribution that their outputs should have."
        )
    return asked


def log_mass(within: Within) -> Float[Array, " m"]:
    """Log of the mass inside disjoint intervals, from log Φ at their ends alone: exact in both tails."""
    mean, sd = within.number.mean, jnp.sqrt(within.number.variance + SMALLEST_VARIANCE)
    lower, upper = jnp.asarray(within.lower, mean.dtype), jnp.asarray(within.upper, mean.dtype)
    inside = _log_between(_standardised(lower, mean, sd), _standardised(upper, mean, sd))
    inside = jnp.where(lower <= upper, inside, -jnp.inf)
    total = logsumexp(inside, axis=(0, 2)) - jnp.log(float(len(mean)))
    return jnp.where(total < 0.0, total, 0.0)


def from_log_mass(log_inside: Float[Array, " m"], *, tangent: bool = True) -> Float[Array, " m"]:
    """1 − mass; with `tangent`, below a mass of 0.1 a line goes on in log mass, so that its slope stays."""
    if not tangent:
        return -jnp.expm1(log_inside)
    edge = float(np.log(LINEAR_BELOW))
    near = jnp.where(log_inside > edge, log_inside, edge)
    return -jnp.expm1(near) + LINEAR_BELOW * jnp.where(log_inside > edge, 0.0, edge - log_inside)


def class_probabilities(predictive: Predictive, key: Array, objective: Objective) -> Float[Array, "m C"]:
    """E_w of class probabilities: by draws, or σ_L(φ_μ / √(1 + π v / 8)) (paper, appendix B; errata D2)."""
    if objective.linearized:
        moderated = predictive.mean / jnp.sqrt(1.0 + jnp.pi * predictive.variance / 8.0)
        return jnp.exp(objective.likelihood.function(moderated[0]))
    return jnp.mean(jnp.exp(objective.likelihood.function(predictive.draws(key))), axis=0)


# The number that intervals are about ------------------------------------------------------------------------


def _within(allowed: Allowed, predictive: Predictive, key: Array, objective: Objective) -> Within:
    """What is allowed, as intervals of one number."""
    if allowed.outputs is not None:
        lower, upper = allowed.outputs
        return Within(_noisy(_spread(predictive, objective), objective), lower, upper)
    if allowed.classes is not None:
        return _within_classes(jnp.asarray(allowed.classes), predictive, key, objective)
    assert allowed.shares is not None
    return _within_shares(allowed.shares, predictive, key, objective)


def _within_classes(allowed: Array, predictive: Predictive, key: Array, objective: Objective) -> Within:
    if predictive.mean.shape[-1] == 1:
        lower = jnp.where(allowed[:, :1], -jnp.inf, 0.0)
        return Within(_spread(predictive, objective), lower, jnp.where(allowed[:, 1:], jnp.inf, 0.0))
    logits = predictive.draws(key)
    best = largest(jnp.where(allowed, logits, -jnp.inf))
    other = largest(jnp.where(allowed, -jnp.inf, logits))
    everything = jnp.all(allowed, axis=-1)
    return _not_negative(jnp.where(everything, 1.0, best - jnp.where(everything, 0.0, other)))


def _within_shares(shares: Shares, predictive: Predictive, key: Array, objective: Objective) -> Within:
    members = jnp.asarray(shares.members)
    bounds = _logit(shares.lower, -jnp.inf), _logit(shares.upper, jnp.inf)
    if predictive.mean.shape[-1] == 1:
        return Within(_of_probability(_spread(predictive, objective), members), *bounds)
    logs = objective.likelihood.function(predictive.draws(key))
    logit = log_total(logs, members) - log_total(logs, ~members)
    return Within(_kernels(jnp.clip(logit, -2 * LARGEST_LOGIT, 2 * LARGEST_LOGIT)), *bounds)


def _margins(
    requirement: Requirement, demand: Any, predictive: Predictive, key: Array, objective: Objective
) -> Float[Array, "S m"]:
    """By how much each draw violates each case."""
    outputs = _noisy(predictive, objective).draws(key)
    values = objective.likelihood.function(outputs)
    # Numbers have lost the axis of the outputs; classes have one, of log-probabilities.
    return jnp.asarray(requirement.margin(demand, jnp.exp(values) if values.ndim == outputs.ndim else values))


def _noisy(predictive: Predictive, objective: Objective) -> Predictive:
    """The predictive of what rules speak of: of observations, where they do."""
    if not objective.observation or objective.noise is None:
        return predictive
    return predictive.with_noise(objective.noise)


def _spread(predictive: Predictive, objective: Objective) -> Predictive:
    return _smoothed(predictive) if objective.smooth else predictive


def _smoothed(predictive: Predictive) -> Predictive:
    """Every sample spread by a Gaussian kernel of Silverman's width, so that mass has a gradient."""
    width = 1.06 * jnp.std(predictive.mean, axis=0) * len(predictive.mean) ** -0.2
    return predictive._replace(variance=predictive.variance + jax.lax.stop_gradient(width * width))


def _kernels(values: Float[Array, "S m"]) -> Predictive:
    """Draws of one number, each spread by a kernel."""
    return _smoothed(Predictive(values[..., None], jnp.zeros_like(values)[..., None]))


def _not_negative(values: Float[Array, "S m"]) -> Within:
    """Draws of a number that may not be negative."""
    cases = values.shape[1]
    return Within(_kernels(values), jnp.zeros((cases, 1)), jnp.full((cases, 1), jnp.inf))


def _of_probability(logit: Predictive, members: Array) -> Predictive:
    """The logit of the total probability of some classes, where there are two classes and one logit."""
    first, second = members[:, :1], members[:, 1:]
    certain = first == second
    mean = jnp.where(second, logit.mean, -logit.mean)
    mean = jnp.where(certain, jnp.where(first, 2 * LARGEST_LOGIT, -2 * LARGEST_LOGIT), mean)
    return Predictive(mean, jnp.where(certain, 0.0, logit.variance))


def _logit(bound: Any, none: float) -> Array:
    bound = jnp.asarray(bound)
    known = jnp.clip(bound, 1e-12, 1.0 - 1e-7)
    logit = jnp.clip(jnp.log(known) - jnp.log1p(-known), -LARGEST_LOGIT, LARGEST_LOGIT)
    free = bound <= 0.0 if none < 0 else bound >= 1.0
    return jnp.where(jnp.isfinite(bound), jnp.where(free, none, logit), bound)


# Distributions ----------------------------------------------------------------------------------------------


def divergence(name: str) -> Discrepancy:
    """The divergence of that name."""
    if name not in DIVERGENCES:
        raise ModelError(f"There is no divergence {name!r}; choose one of {', '.join(DIVERGENCES)}.")
    return DIVERGENCES[name]


def _divergence_from(
    asked: Asked, predictive: Predictive, key: Array, objective: Objective
) -> Float[Array, " m"]:
    """Divergence between D_y and the predictive: over events, or over cells of y."""
    if asked.normals is not None:
        return objective.divergence.between(*_cell_probabilities(asked.normals, predictive, objective))
    predicted = asked.of_classes(class_probabilities(predictive, key, objective))
    return objective.divergence.between(jnp.asarray(asked.probability, predicted.dtype), predicted)


def _cell_probabilities(
    normals: Normals, predictive: Predictive, objective: Objective
) -> tuple[Float[Array, "m cells"], Float[Array, "m cells"]]:
    """The asked and the predicted probability of each cell of y, noise included."""
    assert objective.noise is not None
    noisy = _spread(predictive, objective).with_noise(objective.noise)
    used = jnp.asarray(normals.weight) > 0
    weight = jnp.where(used, normals.weight, 0.0).astype(noisy.mean.dtype)
    mean = jnp.where(used, normals.mean, 0.0).astype(noisy.mean.dtype)
    sd = jnp.where(used, normals.sd, 1.0).astype(noisy.mean.dtype)
    ends = _cell_ends(used, mean, sd)
    asked = jnp.sum(weight[..., None] * ndtr((ends[:, None] - mean[..., None]) / sd[..., None]), axis=1)
    below = jnp.mean(ndtr((ends - noisy.mean) / jnp.sqrt(noisy.variance)), axis=0)
    return _between(asked), _between(below)


def _cell_ends(used: Array, mean: Array, sd: Array) -> Float[Array, "m ends"]:
    """Quantiles of every component of D_y, sorted; those of unused components repeat the first one's."""
    levels = jnp.asarray(ndtri(np.arange(1, CELLS) / CELLS), mean.dtype)
    quantiles = mean[..., None] + sd[..., None] * levels
    quantiles = jnp.where(used[..., None], quantiles, quantiles[:, :1])
    return jnp.sort(quantiles.reshape(len(mean), -1), axis=-1)


def _between(below: Float[Array, "m ends"]) -> Float[Array, "m cells"]:
    zero, one = jnp.zeros_like(below[:, :1]), jnp.ones_like(below[:, :1])
    return jnp.diff(jnp.concatenate([zero, below, one], axis=-1), axis=-1)


def _total_variation(asked: Float[Array, "... C"], predicted: Float[Array, "... C"]) -> Array:
    return 0.5 * jnp.sum(jnp.abs(asked - predicted), axis=-1)


def _hellinger(asked: Float[Array, "... C"], predicted: Float[Array, "... C"]) -> Array:
    # √a − √p squared and halved is 1 − √(ap) summed, without the cancellation at equality.
    gap = jnp.sqrt(_floored(asked)) - jnp.sqrt(_floored(predicted))
    return jnp.sqrt(0.5 * jnp.sum(gap * gap, axis=-1) + 1e-12)


def _kl(asked: Float[Array, "... C"], predicted: Float[Array, "... C"]) -> Array:
    asked, predicted = _floored(asked), _floored(predicted)
    return jnp.sum(asked * jnp.log(asked / predicted) - asked + predicted, axis=-1)


def _reverse_kl(asked: Float[Array, "... C"], predicted: Float[Array, "... C"]) -> Array:
    return _kl(predicted, asked)


def _symmetric_kl(asked: Float[Array, "... C"], predicted: Float[Array, "... C"]) -> Array:
    return 0.5 * (_kl(asked, predicted) + _kl(predicted, asked))


def _floored(probability: Array) -> Array:
    return jnp.where(probability > FLOOR, probability, FLOOR)


def _pinsker(variation: float) -> float:
    return 2.0 * variation * variation


DIVERGENCES: dict[str, Discrepancy] = {
    "total-variation": Discrepancy(_total_variation, lambda variation: variation),
    "hellinger": Discrepancy(_hellinger, lambda t: math.sqrt(1.0 - math.sqrt(1.0 - min(t, 1.0) ** 2))),
    "kl": Discrepancy(_kl, _pinsker),
    "reverse-kl": Discrepancy(_reverse_kl, _pinsker),
    "symmetric-kl": Discrepancy(_symmetric_kl, _pinsker),
}


# Normal tails -----------------------------------------------------------------------------------------------


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
