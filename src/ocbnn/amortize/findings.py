"""What a learnt prior says of itself: by draws of it, beside what its objective claimed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float

from ocbnn import regions
from ocbnn.checking.check import check_rule
from ocbnn.checking.draws import CheckOptions, DrawSet
from ocbnn.checking.results import RuleCheck, verdict
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.priors import DiagonalGaussian
from ocbnn.regions.limits import possible_ends
from ocbnn.schema import Schema
from ocbnn.seeds import seed_for

DRAWS, POINTS = 4000, 2048
"""Draws of the prior, and points of each rule's region, by which it is checked."""
"""Seeds of the draws: the prior is judged by other draws than those that its concentration was chosen by."""
BAND_DRAWS = 1000
DISAGREEMENT = 0.05
"""How far a claim may be from Monte Carlo before somebody is told."""
BINDING = 0.01
"""Nats of KL per e-fold of violation from which on a rule is said to hold the prior back."""
WIDENED = 2.0
"""Inputs far and wide cover this many times the observed range of every number."""
LARGEST_CONCENTRATION = 64.0
COVERAGE = 0.9


@dataclass(frozen=True)
class RuleFinding:
    """How well the learnt prior keeps one rule.

    Attributes:
        check: what draws of the prior show, on fresh points.
        claimed: the violation according to the objective.
        multiplier: nats of KL that a prior with e times the violation would be closer to the base prior.
    """

    check: RuleCheck
    claimed: float
    multiplier: float

    @property
    def name(self) -> str:
        """The rule's name, or its text."""
        return self.check.name

    @property
    def met(self) -> bool:
        """Whether draws show that the rule is kept within its tolerance."""
        return self.check.verdict == "met"

    @property
    def binds(self) -> bool:
        """Whether this rule keeps the prior away from the base prior; others are met by the way."""
        return self.multiplier > BINDING

    @property
    def disagrees(self) -> bool:
        """Whether the objective's claim is not what draws show."""
        return abs(self.claimed - self.check.violation.value) > DISAGREEMENT

    def __str__(self) -> str:
        check, seen = self.check, self.check.violation.value
        shown = "UNMET" if check.verdict == "unmet" else check.verdict
        held = f"binds ({self.multiplier:.2g} nats per e-fold)" if self.binds else "does not bind"
        return (
            f"{shown} {self.name}: violation {seen:.3g} ± {check.error:.1g} by Monte Carlo, "
            f"{self.claimed:.3g} claimed, tolerance {check.tolerance:g}; {held}"
        )


@dataclass(frozen=True)
class Findings:
    """What is known about a learnt prior.

    Attributes:
        rules: one finding for each rule.
        objective: what was optimised: "linearized" or "monte-carlo".
        divergence: for probabilistic rules.
        observation: rules were learnt for observations rather than for Φ_w.
        concentration: what the learnt standard deviations were divided by.
        kl: KL(prior ‖ base), in nats.
        band: width of the central 90% band of Φ far from the rules, relative to the base prior's (median).
    """

    rules: tuple[RuleFinding, ...]
    objective: str
    divergence: str
    observation: bool
    concentration: float
    kl: float
    band: float

    @property
    def met(self) -> bool:
        """Whether draws show that every rule is kept within its tolerance."""
        return all(rule.met for rule in self.rules)

    def complaints(self) -> Iterator[str]:
        """What is wrong with the prior, one sentence each; none where draws show that it keeps its rules."""
        for rule in self.rules:
            name, check, seen = rule.name, rule.check, rule.check.violation
            if rule.disagrees:
                yield (
                    f"The {self.objective} objective claims a violation of {rule.claimed:.3g} of {name!r}, "
                    f"but draws of the learnt prior show {seen.value:.3g}: trust the draws. "
                    'objective="monte-carlo" learns from what they show.'
                )
            if check.verdict == "unmet":
                yield (
                    f"The learnt prior does not keep {name!r}: violation {seen} exceeds the tolerance "
                    f"{check.tolerance:g}. Learn for more steps, give the network more hidden units, or add "
                    "the rule as a conditional term too (rules=)."
                )
            elif not rule.met:
                yield (
                    f"Draws do not show that the learnt prior keeps {name!r}: violation {seen} is too close "
                    f"to the tolerance {check.tolerance:g}. Learn for more steps, or give a larger "
                    f"concentration than {self.concentration:.3g}."
                )

    def __str__(self) -> str:
        summary = (
            f"KL to the base prior {self.kl:.1f} nats; far from the rules the 90% band is {self.band:.0%} as "
            f"wide as the base prior's; concentration {self.concentration:.3g}"
        )
        return "\n".join([summary, *map(str, self.rules)])


def checked(
    model: Model,
    gaussian: DiagonalGaussian,
    term: RuleTerm,
    *,
    observation: bool,
    seed: int,
    purpose: Literal["concentration", "findings"] = "findings",
) -> RuleCheck:
    """How far draws of the prior keep a rule, on fresh points.

    Args:
        model: gives outputs their meaning.
        gaussian: the prior.
        term: the rule.
        observation: a rule that is judged draw by draw is about Y, noise or class included.
        seed: of the draws and of the points.
        purpose: checks for another purpose have other draws and other points.
    """
    weights = gaussian.draws(DRAWS, seed_for(seed, purpose))
    # The likelihood's own parameters, which no rule looks at, are 0.
    draws = np.concatenate([weights, np.zeros((DRAWS, model.likelihood.size))], axis=1)[None]
    observed = observation and not term.rule.is_predictive
    drawn = Observations(draws, model, seed=seed) if observed else DrawSet(draws, model)
    check = check_rule(drawn, term, CheckOptions(POINTS, seed, ascent=False, purpose=purpose))
    outside = check.mass_outside
    if not observed or outside is None:
        return check
    return replace(
        check,
        epsilon_mean=outside,
        verdict=verdict(outside, check.tolerance),
        error=(outside.high - outside.value) / 2.0,
    )


@dataclass(frozen=True, eq=False)
class Observations(DrawSet):
    """Draws whose numbers are observations: every value has noise of its own."""

    seed: int = 0

    def values(self, coded: Float[np.ndarray, "n Q"], draws: Float[np.ndarray, "S size"]) -> np.ndarray:
        values = super().values(coded, draws)
        if self.classes:
            return values
        generator = np.random.default_rng(seed_for(self.seed, "noise", zlib.crc32(coded.tobytes())))
        return values + self.noise(coded, draws) * generator.normal(size=values.shape)


def chosen_concentration(
    gaussian: DiagonalGaussian, kept: Callable[[DiagonalGaussian], bool], rounds: int = 8
) -> float:
    """The smallest concentration, 1 or above, at which `kept` says that all rules are.

    Where even the largest does not do, the means themselves break a rule, and spread is not to blame: 1.
    """
    if kept(gaussian) or not kept(concentrated(gaussian, LARGEST_CONCENTRATION)):
        return 1.0
    low, high = 0.0, float(np.log(LARGEST_CONCENTRATION))
    for _ in range(rounds):
        middle = 0.5 * (low + high)
        if kept(concentrated(gaussian, float(np.exp(middle)))):
            high = middle
        else:
            low = middle
    return float(np.exp(high))


def concentrated(gaussian: DiagonalGaussian, concentration: float) -> DiagonalGaussian:
    """The same means with standard deviations divided by the concentration."""
    return DiagonalGaussian(gaussian.mean, gaussian.sd / concentration)


def far_and_wide(
    schema: Schema, data: Float[np.ndarray, "n Q"] | None, count: int, seed: Any
) -> Float[np.ndarray, "count Q"]:
    """Coded inputs over twice the observed range of every number, within its declared bounds."""
    coded = regions.sample(seed, regions.Everywhere(), schema, data, count)
    for place, column in enumerate(schema.columns):
        if column.kind not in ("continuous", "integer"):
            continue
        ends = column.to_model(np.array(column.observed))
        inputs = column.to_model(coded[:, place])
        middle = ends.mean()
        wide = column.to_raw(middle + WIDENED * (inputs - middle))
        low, high = possible_ends(column)
        coded[:, place] = np.where((low <= wide) & (wide <= high), wide, coded[:, place])
    return coded


def far_from(
    rules: Sequence[RuleTerm], schema: Schema, coded: Float[np.ndarray, "n Q"]
) -> Float[np.ndarray, "m Q"]:
    """Those inputs that no rule speaks of, or that are outside of what was observed; else all of them."""
    ruled = np.zeros(len(coded), dtype=bool)
    for term in rules:
        ruled |= term.rule.region.contains(coded, schema)
    observed = np.array([column.observed for column in schema.columns])
    numbers = np.array([column.kind in ("continuous", "integer") for column in schema.columns])
    inside = (coded >= observed[:, 0]) & (coded <= observed[:, 1])
    far = ~ruled | (~inside & numbers).any(axis=1)
    return coded[far] if far.any() else coded


def band_ratio(
    model: Model,
    gaussian: DiagonalGaussian,
    base: DiagonalGaussian,
    inputs: Float[np.ndarray, "n D"],
    seed: int,
) -> float:
    """Width of the central 90% band of Φ, relative to the base prior's: the median over the inputs."""
    widths = []
    for each in (gaussian, base):
        values = raw_outputs(model, each, inputs, seed)
        low, high = np.quantile(values, [0.5 - COVERAGE / 2, 0.5 + COVERAGE / 2], axis=0)
        widths.append(high - low)
    return float(np.median(widths[0] / np.maximum(widths[1], 1e-300)))


def raw_outputs(
    model: Model, gaussian: DiagonalGaussian, inputs: Float[np.ndarray, "n D"], seed: int
) -> Float[np.ndarray, "S n k"]:
    """The network's outputs (means, or logits) under draws of the prior."""
    draws = gaussian.draws(BAND_DRAWS, seed_for(seed, "band")).astype(np.float32)
    # One draw after the other: all at once would hold the hidden layers of all of them.
    return np.asarray(
        jax.jit(lambda each: jax.lax.map(lambda w: model.network.apply(w, inputs), each))(draws)
    )
