"""Terms: how a rule becomes a log-density log p_g(Φ_w(x) | x) of a network's output at a point of its region.

One class per density and one row in `TERMS`; `default_term` says which belongs to which kind of rule. A term
is calibrated once per rule (its scale, in model units) and is a pure function after that. docs/terms.md has
the reasons.

Conventions: `located` says what a rule asks for at n points, in model units; `value` is y `(…, n)` in model
units, or log class probabilities `(…, n, C)`; the result is `(…, n)`.
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

from ocbnn import violation
from ocbnn.errors import ModelError
from ocbnn.model.likelihoods import HALF_LOG_2PI
from ocbnn.model.measures import forbidden_intervals, log_total, plain_outputs, rule_scale
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
from ocbnn.rules.outputs import (
    Classes,
    ClassProbabilities,
    Functions,
    Intervals,
    Normals,
    ProbabilityTarget,
    Values,
)
from ocbnn.schema import Target

Strength = float | Float[Array, ""]
LOG_FLOOR = math.log(1e-3)


class Setting(NamedTuple):
    """What a term may look at when it is calibrated for a rule."""

    located: Located  # at a fixed low-discrepancy set of the region, in model units
    target: Target
    bounded: bool  # whether the network's last hidden layer is bounded
    strength: float


class Term(Protocol):
    """A log-density over outputs.

    Attributes:
        name: its key in `TERMS`.
        accepts: the kinds of located output it can score.
        default_strength: used where neither the user nor a pilot has set one.
    """

    name: ClassVar[str]
    accepts: ClassVar[tuple[type, ...]]
    default_strength: ClassVar[float]

    def calibrated(self, setting: Setting) -> Term:
        """This term with the constants of one rule, or a `ModelError` if it cannot score that rule."""
        ...

    def log_density(self, output: Any, located: Located, value: Array, strength: Strength) -> Array:
        """Log p_g `(…, n)`, up to a constant that does not depend on the value."""
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
    accepts: ClassVar[tuple[type, ...]] = (
        AllowedIntervals,
        ProbabilityIntervals,
        LocatedFunctions,
        AllowedValues,
        AllowedClasses,
    )
    default_strength: ClassVar[float] = 1000.0

    def calibrated(self, setting: Setting) -> Distance:
        return replace(self, scale=rule_scale(setting.located))

    def log_density(self, output: Any, located: Located, value: Array, strength: Strength) -> Array:
        distance = violation.margin(output, located, plain_outputs(located, value)) / self.scale
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
    accepts: ClassVar[tuple[type, ...]] = (AllowedIntervals, LocatedFunctions)
    default_strength: ClassVar[float] = 1e4

    def calibrated(self, setting: Setting) -> NegativeExponential:
        if isinstance(setting.located, LocatedFunctions):
            return replace(self, unit=1.0)
        return replace(self, unit=1.0 / setting.target.scale if self.raw else rule_scale(setting.located))

    def log_density(self, output: Any, located: Located, value: Array, strength: Strength) -> Array:
        if isinstance(located, AllowedIntervals):
            penalty = self._intervals(located, value)
        else:
            assert isinstance(located, LocatedFunctions)
            penalty = self._functions(output, located, value)
        return -strength * penalty

    def indicator(self, g: Array) -> Array:
        """The soft indicator σ_{τ0,τ1} of g ≤ 0, a product of logistics as tanh z + 1 = 2 logistic(2z)."""
        g = g / self.unit if self.unit != 1.0 else g
        return jax.nn.sigmoid(-2.0 * self.tau0 * g) * jax.nn.sigmoid(-2.0 * self.tau1 * g)

    def _intervals(self, located: AllowedIntervals, value: Array) -> Array:
        penalty: Any = 0.0
        for left, right in forbidden_intervals(located):
            inside: Any = 1.0
            if left is not None:
                inside = self.indicator(left - value)
            if right is not None:
                inside = inside * self.indicator(value - right)
            penalty = penalty + inside
        return jnp.broadcast_to(penalty, value.shape)

    def _functions(self, output: Any, located: LocatedFunctions, value: Array) -> Array:
        gs = violation.inequalities(output, located, plain_outputs(located, value))
        if output.negative:
            return math.prod([self.indicator(g) for g in gs], start=jnp.ones(()))
        return sum([self.indicator(-g) for g in gs], start=jnp.zeros(()))


@dataclass(frozen=True)
class Beta:
    """Beta(strength + 1, 2) on the allowed share r, flat above its mode strength/(strength + 1); maximum 0.

    r = max_allowed p / (max_allowed p + max_forbidden p): for two classes the probability of the allowed one.
    It is ½ exactly where a rule starts to break, which the total allowed probability is not, and says nothing
    about which of the allowed classes it should be.
    """

    name: ClassVar[str] = "beta"
    accepts: ClassVar[tuple[type, ...]] = (AllowedClasses,)
    default_strength: ClassVar[float] = 100.0

    def calibrated(self, setting: Setting) -> Beta:
        return self

    def log_density(self, output: Any, located: Located, value: Array, strength: Strength) -> Array:
        assert isinstance(located, AllowedClasses)
        allowed = violation.largest(jnp.where(located.allowed, value, -jnp.inf))
        forbidden = violation.largest(jnp.where(located.allowed, -jnp.inf, value))
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
    accepts: ClassVar[tuple[type, ...]] = (AllowedClasses,)
    default_strength: ClassVar[float] = 10.0

    def __post_init__(self) -> None:
        if not 0.0 < self.c < 1.0:
            raise ModelError(f"c lies strictly between 0 and 1, not at {self.c}.")
        if self.alpha is not None and not min(self.alpha) > 0:
            raise ModelError(f"Every α of a Dirichlet is positive, not {self.alpha}.")

    def calibrated(self, setting: Setting) -> Dirichlet:
        assert isinstance(setting.located, AllowedClasses)
        classes = setting.located.allowed.shape[-1]
        if self.alpha is not None and len(self.alpha) != classes:
            raise ModelError(f"alpha has {len(self.alpha)} entries, but the target has {classes} classes.")
        smallest = float(np.min(self.concentration(setting.located, setting.strength)))
        if smallest >= 1.0:
            return self
        if not setting.bounded:
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

    def concentration(self, located: AllowedClasses, strength: Strength) -> Array:
        """α for each class at each point."""
        if self.alpha is not None:
            return jnp.broadcast_to(jnp.asarray(self.alpha), located.allowed.shape)
        factor = self.c if self.reference else 1.0 - self.c
        return strength * jnp.where(located.allowed, 1.0, factor)

    def log_density(self, output: Any, located: Located, value: Array, strength: Strength) -> Array:
        assert isinstance(located, AllowedClasses)
        alpha = self.concentration(located, strength)
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
    accepts: ClassVar[tuple[type, ...]] = (AllowedValues,)
    default_strength: ClassVar[float] = 1.0

    def calibrated(self, setting: Setting) -> GaussianMixture:
        return replace(self, unit=1.0 / setting.target.scale)

    def log_density(self, output: Any, located: Located, value: Array, strength: Strength) -> Array:
        assert isinstance(located, AllowedValues)
        margin = jnp.asarray(located.margin)[..., None]
        sigma = 0.5 * margin if self.sigma is None else jnp.full_like(margin, self.sigma * self.unit)
        total = jnp.sum(located.weights, axis=-1, keepdims=True)
        log_weights = jnp.log(jnp.where(located.weights > 0, located.weights / total, 1.0))
        log_weights = jnp.where(located.weights > 0, log_weights, -jnp.inf)
        distance = jnp.where(located.weights > 0, value[..., None] - located.values, 0.0)
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
    return violation.largest(jnp.where(used, components, -jnp.inf))


@dataclass(frozen=True)
class TargetDivergence:
    """−strength·KL(asked ‖ predicted): a Dirichlet whose mode is the asked probabilities, its maximum 0.

    For `P(class) = p(x)` over the two events (in the classes named, not in them); for `y ~ Bernoulli(p)` and
    `y ~ Categorical(…)` over all classes.
    """

    name: ClassVar[str] = "target-probability"
    accepts: ClassVar[tuple[type, ...]] = (TargetProbability, TargetClassProbabilities)
    default_strength: ClassVar[float] = 100.0

    def calibrated(self, setting: Setting) -> TargetDivergence:
        return self

    def log_density(self, output: Any, located: Located, value: Array, strength: Strength) -> Array:
        if isinstance(located, TargetClassProbabilities):
            asked, predicted = jnp.asarray(located.probability), value
        else:
            assert isinstance(located, TargetProbability)
            members = jnp.asarray(located.members)
            inside, outside = log_total(value, members), log_total(value, ~members)
            asked = jnp.stack([located.probability, 1.0 - located.probability], axis=-1)
            predicted = jnp.stack([inside, outside], axis=-1)
        # 0·(−inf) is 0 here: a class nobody asks for may be impossible.
        cross = jnp.where(asked > 0, asked * jnp.where(asked > 0, predicted, 0.0), 0.0)
        return strength * jnp.sum(cross - xlogy(asked, asked), axis=-1)


@dataclass(frozen=True)
class OutputDensity:
    """strength·log D_y(Φ_w(x)) for `y ~ Normal(…)` and mixtures of normals."""

    name: ClassVar[str] = "output-density"
    accepts: ClassVar[tuple[type, ...]] = (NormalMixture,)
    default_strength: ClassVar[float] = 1.0

    def calibrated(self, setting: Setting) -> OutputDensity:
        return self

    def log_density(self, output: Any, located: Located, value: Array, strength: Strength) -> Array:
        assert isinstance(located, NormalMixture)
        used = located.weight > 0
        sd = jnp.where(used, located.sd, 1.0)
        standardised = jnp.where(used, (value[..., None] - located.mean) / sd, 0.0)
        log_weight = jnp.where(used, jnp.log(jnp.where(used, located.weight, 1.0)), -jnp.inf)
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

DEFAULTS: dict[type, str] = {
    Intervals: "distance",
    Functions: "distance",
    Values: "gaussian-mixture",
    Classes: "beta",
    ProbabilityTarget: "target-probability",
    ClassProbabilities: "target-probability",
    Normals: "output-density",
}


def default_term(output: Any) -> Term:
    """The term that scores this kind of output unless another is asked for."""
    return TERMS[DEFAULTS[type(output)]]
