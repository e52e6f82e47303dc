"""What a learnt prior says of itself: by draws of it, beside what its objective claimed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from ocbnn import regions, violation
from ocbnn.inference.measure import MOST_DRAWS, Measured, measure
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.likelihoods import Gaussian
from ocbnn.model.outputs import model_outputs
from ocbnn.model.priors import DiagonalGaussian
from ocbnn.regions.limits import possible_ends
from ocbnn.rules.located import AllowedClasses, in_model_units
from ocbnn.schema import Schema

DRAWS = 4 * MOST_DRAWS
DISAGREEMENT = 0.05
"""How far a claim may be from Monte Carlo before somebody is told."""
BINDING = 0.01
"""Nats of KL per e-fold of violation from which on a rule is said to hold the prior back."""
WIDENED = 2.0
"""Inputs far and wide cover this many times the observed range of every number."""
LARGEST_CONCENTRATION = 64.0
OBSERVED_POINTS = 512
COVERAGE = 0.9


@dataclass(frozen=True)
class RuleFinding:
    """How well the learnt prior keeps one rule.

    Attributes:
        name: the rule's name, or its text.
        tolerance: the violation its author accepts (probabilistic rules: total variation).
        claimed: the violation according to the objective.
        violation: the violation of draws of the prior, on fresh points.
        error: its standard error.
        multiplier: nats of KL that a prior with e times the violation would be closer to the base prior.
    """

    name: str
    tolerance: float
    claimed: float
    violation: float
    error: float
    multiplier: float

    @property
    def met(self) -> bool:
        """Whether draws keep the rule within its tolerance."""
        return self.violation <= self.tolerance

    @property
    def binds(self) -> bool:
        """Whether this rule keeps the prior away from the base prior; others are met by the way."""
        return self.multiplier > BINDING

    @property
    def disagrees(self) -> bool:
        """Whether the objective's claim is not what draws show."""
        return abs(self.claimed - self.violation) > DISAGREEMENT

    def __str__(self) -> str:
        verdict = "met" if self.met else "UNMET"
        held = f"binds ({self.multiplier:.2g} nats per e-fold)" if self.binds else "does not bind"
        return (
            f"{verdict} {self.name}: violation {self.violation:.3g} ± {self.error:.1g} by Monte Carlo, "
            f"{self.claimed:.3g} claimed, tolerance {self.tolerance:g}; {held}"
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
        mean_sd: mean over the weights of the standard deviation, relative to the base prior's.
    """

    rules: tuple[RuleFinding, ...]
    objective: str
    divergence: str
    observation: bool
    concentration: float
    kl: float
    band: float
    mean_sd: float

    @property
    def met(self) -> bool:
        """Whether every rule is kept within its tolerance."""
        return all(rule.met for rule in self.rules)

    def __str__(self) -> str:
        summary = (
            f"KL to the base prior {self.kl:.1f} nats; far from the rules the 90% band is {self.band:.0%} as "
            f"wide as the base prior's; concentration {self.concentration:.3g}"
        )
        return "\n".join([summary, *map(str, self.rules)])


def measured(
    model: Model, gaussian: DiagonalGaussian, term: RuleTerm, *, observation: bool, seed: int
) -> Measured:
    """The rule's violation under draws of the prior, on fresh points; batches are independent."""
    draws = with_parameters(model, gaussian.draws(DRAWS, (seed, 11)))
    parts = [
        _observed(model, term, batch, seed + number)
        if observation and not term.rule.output.is_probabilistic
        else measure(model, term, batch[None], seed + number)
        for number, batch in enumerate(np.split(draws, DRAWS // MOST_DRAWS))
    ]
    shares = np.array([part.violation for part in parts])
    error = float(np.sqrt(np.sum([part.error**2 for part in parts]))) / len(parts)
    return Measured(float(shares.mean()), error, float(sum(part.effective for part in parts)))


def with_parameters(model: Model, draws: Float[np.ndarray, "S weights"]) -> Float[np.ndarray, "S size"]:
    """Draws of the weights with the likelihood's own parameters, which no rule about Φ looks at."""
    return np.concatenate([draws, np.zeros((len(draws), model.likelihood.size))], axis=1)


def _observed(model: Model, term: RuleTerm, draws: Float[np.ndarray, "S size"], seed: int) -> Measured:
    """The share of observations, noise or class included, that break the rule."""
    schema, rule = term.schema, term.rule
    assert schema.target is not None
    coded = term.fresh(OBSERVED_POINTS, seed, "learning")
    located = in_model_units(rule.locate(coded, schema), schema.target)
    outputs = model_outputs(model, draws, schema.to_model(coded))
    if isinstance(located, AllowedClasses):
        share = np.where(located.allowed, 0.0, outputs).sum(axis=-1).mean(axis=1)
    else:
        if isinstance(model.likelihood, Gaussian) and model.likelihood.noise is not None:
            noise = np.random.default_rng((seed, 5)).normal(size=outputs.shape)
            outputs = outputs + model.likelihood.noise * noise
        share = violation.violates(rule.output, located, outputs).mean(axis=1)
    return Measured(float(share.mean()), float(share.std() / np.sqrt(len(share))), float(len(share)))


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
    draws = gaussian.draws(MOST_DRAWS, (seed, 13)).astype(np.float32)
    # One draw after the other: all at once would hold the hidden layers of all of them.
    return np.asarray(
        jax.jit(lambda each: jax.lax.map(lambda w: model.network.apply(w, inputs), each))(draws)
    )
