"""Terms: how a rule becomes a log-density log p_g(Φ_w(x) | x) of what a function says at a case of the rule.

One class per density and one row in `TERMS`. The wall on the margin, `Distance`, scores every rule that is
judged draw by draw; the others build on a view of the demand that only some kinds offer (`requirement.py`). A
term is calibrated once per rule (its scale, in model units) and is a pure function after that. docs/terms.md
has the reasons.

Conventions: `demand` says what a rule asks at m cases, in model units; `value` is y `(…, m[, k])` in model
units, or class probabilities `(…, m[, k], C)`, their logarithms where the term `reads_logs`; the result is
`(…, m)`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, xlogy
from jaxtyping import Array, Float

from ocbnn.errors import ModelError
from ocbnn.model.likelihoods import HALF_LOG_2PI
from ocbnn.rules.margins import largest
from ocbnn.rules.requirement import Requirement
from ocbnn.schema import Target

Strength = float | Float[Array, ""]
LOG_FLOOR = math.log(1e-3)


class Calibration(NamedTuple):
    """What a term may look at when it is calibrated for a rule."""

    requirement: Requirement
    demand: Any  # at a fixed low-discrepancy set of the region, in model units
    target: Target
    bounded: bool  # whether the network's last hidden layer is bounded
    strength: float


class Term(Protocol):
    """A log-density of what a function says at a case.

    Attributes:
        name: its key in `TERMS`.
        default_strength: used where neither the user nor a pilot has set one.
        reads_logs: whether it takes logarithms of class probabilities.
        climbable: whether it has a slope however far a function is from satisfying the rule.
    """

    name: ClassVar[str]
    default_strength: ClassVar[float]
    reads_logs: ClassVar[bool]
    climbable: ClassVar[bool]

    def scores(self, requirement: Requirement, demand: Any) -> bool:
        """Whether the rule offers what this term builds on."""
        ...

    def calibrated(self, rule: Calibration) -> Term:
        """This term with the constants of one rule, or a `ModelError` if it cannot score that rule."""
        ...

    def log_density(self, requirement: Requirement, demand: Any, value: Array, strength: Strength) -> Array:
        """Log p_g `(…, m)`, up to a constant that does not depend on the value."""
        ...


@dataclass(frozen=True)
class Distance:
    """−strength·(√(1 + u²) − 1), u = (distance to the allowed set + lead · softness)₊ / scale.

    Far inside a forbidden set it falls linearly, so its gradient in y never vanishes. The wall is
    softness = scale/√strength thick, and begins `lead` thicknesses before the forbidden set (distances are
    negative inside the allowed one): with lead 0 half of the wall's mass lies beyond the boundary, so that
    meeting a tolerance takes a wall many times thinner, which no sampler climbs quickly. As strength grows
    the lead vanishes with the thickness, and base prior × term converges to the truncated base prior.

    Attributes:
        scale: the rule's own length, set by `calibrated`.
        lead: how many thicknesses before the boundary the wall begins.
    """

    scale: float = 1.0
    lead: float = 1.5

    name: ClassVar[str] = "distance"
    default_strength: ClassVar[float] = 1000.0
    reads_logs: ClassVar[bool] = False
    climbable: ClassVar[bool] = True

    def scores(self, requirement: Requirement, demand: Any) -> bool:
        return requirement.judged == "draw"

    def calibrated(self, rule: Calibration) -> Distance:
        return replace(self, scale=rule.requirement.scale(rule.demand))

    def log_density(self, requirement: Requirement, demand: Any, value: Array, strength: Strength) -> Array:
        distance = requirement.margin(demand, value) / self.scale
        u = jax.nn.relu(distance + self.lead / jnp.sqrt(strength))
        squared = u * u
        # √(1 + u²) − 1 without the cancellation near zero.
        return -strength * (squared / (1.0 + jnp.sqrt(1.0 + squared)))


@dataclass(frozen=True)
class NegativeExponential:
    """−strength·Σ_forbidden Π_i σ_{τ0,τ1}(g_i), σ(z) = ¼(tanh(−τ0 z) + 1)(tanh(−τ1 z) + 1) (paper eq. 6).

    A forbidden interval (a, b) has g = (a − y, y − b), a half-line one of them; disjoint forbidden intervals
    add. Functions in negative form are eq. 6 itself; in positive form each {g_i > 0} is a forbidden set.

    Args:
        tau0: first steepness.
        tau1: second steepness.
        raw: g in raw units of y, as in the paper, rather than divided by the rule's own scale.
        unit: the length, in model units, that g is measured in: set by `calibrated`.
    """

    tau0: float = 15.0
    tau1: float = 2.0
    raw: bool = False
    unit: float = 1.0

    name: ClassVar[str] = "negative-exponential"
    default_strength: ClassVar[float] = 1e4
    reads_logs: ClassVar[bool] = False
    climbable: ClassVar[bool] = False

    def scores(self, requirement: Requirement, demand: Any) -> bool:
        return type(requirement).forbidden is not Requirement.forbidden

    def calibrated(self, rule: Calibration) -> NegativeExponential:
        unit = rule.requirement.raw_unit(rule.target) if self.raw else rule.requirement.scale(rule.demand)
        return replace(self, unit=unit)

    def log_density(self, requirement: Requirement, demand: Any, value: Array, strength: Strength) -> Array:
        sets = requirement.forbidden(demand, value)
        assert sets is not None
        inside = [math.prod([self.indicator(g) for g in each], start=jnp.ones(())) for each in sets]
        return -strength * sum(inside, start=jnp.zeros(()))

    def indicator(self, g: Array) -> Array:
        """The soft indicator σ_{τ0,τ1} of g ≤ 0, a product of logistics as tanh z + 1 = 2 logistic(2z)."""
        g = g / self.unit if self.unit != 1.0 else g
        return jax.nn.sigmoid(-2.0 * self.tau0 * g) * jax.nn.sigmoid(-2.0 * self.tau1 * g)


@dataclass(frozen=True)
class Beta:
    """Beta(strength + 1, 2) on the allowed share r, flat above its mode strength/(strength + 1); maximum 0.

    r = max_allowed p / (max_allowed p + max_forbidden p): for two classes the probability of the allowed one.
    It is ½ exactly where a rule starts to break, which the total allowed probability is not, and says nothing
    about which of the allowed classes it should be.
    """

    name: ClassVar[str] = "beta"
    default_strength: ClassVar[float] = 100.0
    reads_logs: ClassVar[bool] = True
    climbable: ClassVar[bool] = True

    def scores(self, requirement: Requirement, demand: Any) -> bool:
        return _allowed_classes(requirement, demand) is not None

    def calibrated(self, rule: Calibration) -> Beta:
        return self

    def log_density(self, requirement: Requirement, demand: Any, value: Array, strength: Strength) -> Array:
        classes = _allowed_classes(requirement, demand)
        allowed = largest(jnp.where(classes, value, -jnp.inf))
        forbidden = largest(jnp.where(classes, -jnp.inf, value))
        # log r/(1 − r), stopped at the mode, where it is log(strength).
        mode = jnp.log(strength)
        log_odds = jnp.where(allowed - forbidden < mode, allowed - forbidden, mode)
        maximum = -strength * jnp.log1p(1.0 / strength) - jnp.log1p(strength)
        return strength * jax.nn.log_sigmoid(log_odds) + jax.nn.log_sigmoid(-log_odds) - maximum


@dataclass(frozen=True)
class Dirichlet:
    """Σ_i (α_i − 1) log p_i, α = γ on allowed classes, γ(1 − c) on the others (paper eq. 5), γ the strength.

    Args:
        c: how much less the forbidden classes get.
        alpha: α for each class in the schema's order instead; strength then multiplies the log-density.
        reference: as the paper's code does, forbidden classes get γ·c (errata C1).
        floored: with some α < 1, log p of those classes is floored at log 10⁻³: set by `calibrated`.
    """

    c: float = 0.85
    alpha: tuple[float, ...] | None = None
    reference: bool = False
    floored: bool = False

    name: ClassVar[str] = "dirichlet"
    default_strength: ClassVar[float] = 10.0
    reads_logs: ClassVar[bool] = True
    climbable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.c < 1.0:
            raise ModelError(f"c lies strictly between 0 and 1, not at {self.c}.")
        if self.alpha is not None and not min(self.alpha) > 0:
            raise ModelError(f"Every α of a Dirichlet is positive, not {self.alpha}.")

    def scores(self, requirement: Requirement, demand: Any) -> bool:
        return _allowed_classes(requirement, demand) is not None

    def calibrated(self, rule: Calibration) -> Dirichlet:
        allowed = _allowed_classes(rule.requirement, rule.demand)
        classes = allowed.shape[-1]
        if self.alpha is not None and len(self.alpha) != classes:
            raise ModelError(f"alpha has {len(self.alpha)} entries, but the target has {classes} classes.")
        smallest = float(np.min(self.concentration(allowed, rule.strength)))
        if smallest >= 1.0:
            return self
        if not rule.bounded:
            raise ModelError(
                f"A Dirichlet with α = {smallest:g} < 1 is unbounded where that class has probability 0, and "
                "with an unbounded activation the prior can be improper. Use α ≥ 1 (a larger strength or a "
                "smaller c), the default term, or a bounded activation (rbf, tanh)."
            )
        warnings.warn(
            f"A Dirichlet with α = {smallest:g} < 1 is unbounded where that class has probability 0; log p "
            "of such classes is floored at log 0.001.",
            stacklevel=2,
        )
        return replace(self, floored=True)

    def concentration(self, allowed: Array, strength: Strength) -> Array:
        """α for each class at each case."""
        if self.alpha is not None:
            return jnp.broadcast_to(jnp.asarray(self.alpha), allowed.shape)
        factor = self.c if self.reference else 1.0 - self.c
        return strength * jnp.where(allowed, 1.0, factor)

    def log_density(self, requirement: Requirement, demand: Any, value: Array, strength: Strength) -> Array:
        alpha = self.concentration(_allowed_classes(requirement, demand), strength)
        if self.floored:
            value = jnp.where((alpha < 1.0) & (value < LOG_FLOOR), LOG_FLOOR, value)
        log_density = jnp.sum((alpha - 1.0) * value, axis=-1)
        return log_density if self.alpha is None else strength * log_density


@dataclass(frozen=True)
class GaussianMixture:
    """strength·log Σ_k ω_k N(y; y_k, σ_C²): the paper's density for values; σ_C = margin/2 unless given.

    Args:
        sigma: σ_C in raw units, a standard deviation, instead of margin/2.
        levelled: for several values, take the largest component and narrow the heavier ones until all have
            the same density at their margins; a sum scores some outputs between two values above some within
            a margin. With one value nothing changes.
        unit: model units per raw unit, set by `calibrated`.
    """

    sigma: float | None = None
    levelled: bool = True
    unit: float = 1.0

    name: ClassVar[str] = "gaussian-mixture"
    default_strength: ClassVar[float] = 1.0
    reads_logs: ClassVar[bool] = False
    climbable: ClassVar[bool] = True

    def scores(self, requirement: Requirement, demand: Any) -> bool:
        return requirement.peaks(demand) is not None

    def calibrated(self, rule: Calibration) -> GaussianMixture:
        return replace(self, unit=1.0 / rule.target.scale)

    def log_density(self, requirement: Requirement, demand: Any, value: Array, strength: Strength) -> Array:
        peaks = requirement.peaks(demand)
        assert peaks is not None
        margin = jnp.asarray(peaks.margin)[..., None]
        sigma = 0.5 * margin if self.sigma is None else jnp.full_like(margin, self.sigma * self.unit)
        total = jnp.sum(peaks.weights, axis=-1, keepdims=True)
        log_weights = jnp.log(jnp.where(peaks.weights > 0, peaks.weights / total, 1.0))
        log_weights = jnp.where(peaks.weights > 0, log_weights, -jnp.inf)
        distance = jnp.where(peaks.weights > 0, value[..., None] - peaks.values, 0.0)
        if self.levelled:
            log_mixture = _levelled(distance, log_weights, margin, sigma)
        else:
            log_mixture = logsumexp(log_weights - 0.5 * (distance / sigma) ** 2, axis=-1)
        return strength * (log_mixture - jnp.log(sigma)[..., 0] - HALF_LOG_2PI)


def _levelled(distance: Array, log_weights: Array, margin: Array, sigma: Array) -> Array:
    lightest = jnp.min(jnp.where(jnp.isfinite(log_weights), log_weights, jnp.inf), axis=-1, keepdims=True)
    level = lightest - 0.5 * (margin / sigma) ** 2
    used = jnp.isfinite(log_weights)
    height = jnp.where(used, log_weights - level, 1.0)
    components = level + height * (1.0 - (distance / margin) ** 2)
    return largest(jnp.where(used, components, -jnp.inf))


@dataclass(frozen=True)
class TargetDivergence:
    """−strength·KL(asked ‖ predicted): a Dirichlet whose mode is the asked probabilities, its maximum 0.

    For `P(class) = p(x)` over the two events (in the classes named, not in them); for `y ~ Bernoulli(p)` and
    `y ~ Categorical(…)` over all classes.
    """

    name: ClassVar[str] = "target-probability"
    default_strength: ClassVar[float] = 100.0
    reads_logs: ClassVar[bool] = True
    climbable: ClassVar[bool] = True

    def scores(self, requirement: Requirement, demand: Any) -> bool:
        asked = requirement.asked(demand)
        return asked is not None and asked.probability is not None

    def calibrated(self, rule: Calibration) -> TargetDivergence:
        return self

    def log_density(self, requirement: Requirement, demand: Any, value: Array, strength: Strength) -> Array:
        asked = requirement.asked(demand)
        assert asked is not None
        stated, predicted = jnp.asarray(asked.probability), value
        if asked.events is not None:
            predicted = log_total(value[..., None, :], jnp.asarray(asked.events))
        # 0·(−inf) is 0 here: a class nobody asks for may be impossible.
        cross = jnp.where(stated > 0, stated * jnp.where(stated > 0, predicted, 0.0), 0.0)
        return strength * jnp.sum(cross - xlogy(stated, stated), axis=-1)


@dataclass(frozen=True)
class OutputDensity:
    """strength·log D_y(Φ_w(x)) for `y ~ Normal(…)` and mixtures of normals."""

    name: ClassVar[str] = "output-density"
    default_strength: ClassVar[float] = 1.0
    reads_logs: ClassVar[bool] = False
    climbable: ClassVar[bool] = True

    def scores(self, requirement: Requirement, demand: Any) -> bool:
        asked = requirement.asked(demand)
        return asked is not None and asked.normals is not None

    def calibrated(self, rule: Calibration) -> OutputDensity:
        return self

    def log_density(self, requirement: Requirement, demand: Any, value: Array, strength: Strength) -> Array:
        asked = requirement.asked(demand)
        assert asked is not None
        assert asked.normals is not None
        weight, mean, sd = asked.normals
        used = weight > 0
        sd = jnp.where(used, sd, 1.0)
        standardised = jnp.where(used, (value[..., None] - mean) / sd, 0.0)
        log_weight = jnp.where(used, jnp.log(jnp.where(used, weight, 1.0)), -jnp.inf)
        components = log_weight - 0.5 * standardised**2 - jnp.log(sd) - HALF_LOG_2PI
        return strength * logsumexp(components, axis=-1)


TERMS: dict[str, Term] = {
    term.name: term
    for term in (
        Distance(),
        NegativeExponential(),
        Beta(),
        Dirichlet(),
        GaussianMixture(),
        TargetDivergence(),
        OutputDensity(),
    )
}


def log_total(log_probabilities: Array, members: Array) -> Array:
    """Log of the total probability of `chains`; −inf, without a NaN gradient, where there are none."""
    some = jnp.any(members, axis=-1)
    total = logsumexp(jnp.where(members | ~some[..., None], log_probabilities, -jnp.inf), axis=-1)
    return jnp.where(some, jnp.where(total < 0.0, total, 0.0), -jnp.inf)


def _allowed_classes(requirement: Requirement, demand: Any) -> Any:
    allowed = requirement.allowed(demand)
    return None if allowed is None else allowed.classes
