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
        default_strength: used where neither the user nor a pilot has set one; a search only goes up from it.
        climbable: whether it has a slope however far a function is from satisfying the rule.
    """

    name: ClassVar[str]
    default_strength: ClassVar[float]
    climbable: ClassVar[bool]

    @property
    def reads_logs(self) -> bool:
        """Whether it takes logarithms of class probabilities."""
        ...

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
    """−strength·(√(1 + u²) − 1), u = (margin + lead · thickness)₊ / scale, thickness = scale/√strength.

    The margin is the distance to the allowed set, negative inside of it; for rules about the most probable
    class it is the log-odds of the best forbidden class against the best allowed one (scale 1). Far inside a
    forbidden set the wall falls linearly, so its gradient never vanishes.

    The wall begins `lead` thicknesses before the forbidden set. With lead 0 half of the wall's mass lies
    beyond the boundary, so that meeting a tolerance takes a wall many times thinner, which no sampler climbs
    quickly. Further inside the log-density is exactly 0, so a function that keeps the rule by more is left
    alone. At the default strength of 1000 the wall is 3.2% of the scale thick and begins 4.7% of the scale
    before the boundary. More strength makes it thinner, lead and all, and base prior × term converges to the
    truncated base prior.

    Attributes:
        scale: the rule's own length, set by `calibrated`.
        lead: how many thicknesses before the boundary the wall begins.
        stays: whether strength beyond the default one thins the wall and leaves its beginning where it is, so
            that a function may bend between the points at which it is scored.
        reads_logs: whether the margin is asked of logarithms of class probabilities, set by `calibrated`.
    """

    scale: float = 1.0
    lead: float = 1.5
    stays: bool = False
    reads_logs: bool = False

    name: ClassVar[str] = "distance"
    default_strength: ClassVar[float] = 1000.0
    climbable: ClassVar[bool] = True

    def scores(self, requirement: Requirement, demand: Any) -> bool:
        return requirement.judged == "draw"

    def calibrated(self, rule: Calibration) -> Distance:
        requirement = rule.requirement
        return replace(self, scale=requirement.scale(rule.demand), reads_logs=requirement.margin_of_logs)

    def log_density(self, requirement: Requirement, demand: Any, value: Array, strength: Strength) -> Array:
        return self.of(requirement.margin(demand, value), strength)

    def of(self, margin: Array, strength: Strength) -> Array:
        """The wall at margins."""
        distance = margin / self.scale
        least = jnp.minimum(strength, self.default_strength) if self.stays else strength
        u = jax.nn.relu(distance + self.lead / jnp.sqrt(least))
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
        return requirement.lists_forbidden

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
    """log max_k ω_k N(y; y_k, σ_k²): strength s narrows the components and leaves their masses at ω_k.

    The lightest component has σ_k = margin/(2√s). Heavier ones are narrower, so that all have the same
    density at their margins, and no output within a margin scores below one outside of all margins: with
    σ_k = margin/√(2 A_k),

        A_k − ½ log A_k = log ω_k + constant,   A = 2s for the lightest.

    Under a flat base prior the share of each value is its weight as long as the values are further apart than
    their components are wide; what two components share counts once, in the larger of the two. Below s = 1,
    where only a warm start goes, the log-density at s = 1 is multiplied by s: components wider than their
    margins could keep either masses or levels, not both. So no rule of several values is given less than 1.

    Args:
        sigma: σ_C in raw units, a standard deviation: the paper's log Σ_k ω_k N(y; y_k, σ_C²/s) instead. It
            has the masses at any strength, but scores some outputs between two values above some within a
            margin.
        unit: model units per raw unit, set by `calibrated`.
    """

    sigma: float | None = None
    unit: float = 1.0

    name: ClassVar[str] = "gaussian-mixture"
    default_strength: ClassVar[float] = 1.0
    reads_logs: ClassVar[bool] = False
    climbable: ClassVar[bool] = True

    def scores(self, requirement: Requirement, demand: Any) -> bool:
        return requirement.peaks(demand) is not None

    def calibrated(self, rule: Calibration) -> GaussianMixture:
        peaks = rule.requirement.peaks(rule.demand)
        several = peaks is not None and bool(np.any(np.sum(np.asarray(peaks.weights) > 0, axis=-1) > 1))
        if self.sigma is None and several and rule.strength < 1.0:
            raise ModelError(
                f"The strength of a rule of several values is at least 1, not {rule.strength:g}: below, the "
                "stated shares would not hold. Give 1 or more, a wider margin, or no strength."
            )
        return replace(self, unit=1.0 / rule.target.scale)

    def log_density(self, requirement: Requirement, demand: Any, value: Array, strength: Strength) -> Array:
        peaks = requirement.peaks(demand)
        assert peaks is not None
        used = peaks.weights > 0
        log_weights = jnp.log(jnp.where(used, peaks.weights, 1.0))
        log_weights = log_weights - jnp.log(jnp.sum(peaks.weights, axis=-1, keepdims=True))
        distance = jnp.where(used, value[..., None] - peaks.values, 0.0)
        if self.sigma is not None:
            sigma = self.sigma * self.unit / jnp.sqrt(strength)
            components = log_weights - 0.5 * (distance / sigma) ** 2 - jnp.log(sigma) - HALF_LOG_2PI
            return logsumexp(jnp.where(used, components, -jnp.inf), axis=-1)
        margin = jnp.asarray(peaks.margin)[..., None]
        least = 2.0 * jnp.maximum(strength, 1.0)
        lightest = -largest(jnp.where(used, -log_weights, -jnp.inf))[..., None]
        heights = least + _excess(jnp.where(used, log_weights - lightest, 0.0), least)
        level = lightest - least + 0.5 * jnp.log(2.0 * least) - jnp.log(margin) - HALF_LOG_2PI
        components = level + heights * (1.0 - (distance / margin) ** 2)
        return jnp.minimum(strength, 1.0) * largest(jnp.where(used, components, -jnp.inf))


def _excess(log_ratio: Array, least: Array) -> Array:
    """The x ≥ 0 with x − ½ log(1 + x/least) = log_ratio, for least ≥ 2.

    By Newton's method from the right of the root: the left side is convex with a slope of at least 3/4, and
    each step leaves less than a twelfth of the error's square.
    """
    x = log_ratio / 0.75
    for _ in range(5):
        x = x - (x - 0.5 * jnp.log1p(x / least) - log_ratio) / (1.0 - 0.5 / (least + x))
    return x


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
        Dirichlet(),
        GaussianMixture(),
        TargetDivergence(),
        OutputDensity(),
    )
}


def log_total(log_probabilities: Array, members: Array) -> Array:
    """Log of the total probability of `members`; −inf, without a NaN gradient, where there are none."""
    some = jnp.any(members, axis=-1)
    total = logsumexp(jnp.where(members | ~some[..., None], log_probabilities, -jnp.inf), axis=-1)
    return jnp.where(some, jnp.where(total < 0.0, total, 0.0), -jnp.inf)


def _allowed_classes(requirement: Requirement, demand: Any) -> Any:
    allowed = requirement.allowed(demand)
    return None if allowed is None else allowed.classes
