"""The predictive restricted, at each asked row, to what all rules allow there, and renormalised.

Regression: the mixture of the draws' normals times the indicator of the allowed intervals, so that draw s has
the weight Z_s(x). Classes: probabilities zero outside the allowed classes, then clipped to bounds.

Rules speak of Φ, so the point prediction is the mean of Φ, projected: what obeys does not move. Quantiles and
samples are of the observation Y, which is truncated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ocbnn.checking.check import Rule, as_rule_terms
from ocbnn.checking.draws import POINTS, rule_name
from ocbnn.model.conditional import RuleTerm
from ocbnn.posterior.allowed import EnforcementError, RulesAt, ruled_blocks
from ocbnn.posterior.draws import Posterior, Table, as_coded
from ocbnn.posterior.mixtures import (
    Intervals,
    Mixture,
    Moments,
    below,
    log_density,
    nearest_allowed,
    restricted_log_moments,
    restricted_moments,
    sample_restricted,
)
from ocbnn.posterior.predict import (
    COVERAGE,
    LEVELS,
    Prediction,
    Summary,
    Wanted,
    draws_summary,
    entropy_split,
    joined,
    labels,
    mixture_summary,
    require_count,
    require_rows,
    samples_of_no_rows,
)
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.requirement import RAW, Units

LEAST_MASS = 1e-6
"""Of the predictive in the allowed set: with less, the draws know nothing of what is allowed."""


def truncate(posterior: Posterior, rules: Sequence[Rule] | None = None) -> Truncated:
    """Predictions restricted to what the deterministic rules allow; default: the model's own rules.

    What was enforced on the posterior before stays in force. Nothing can be truncated to a rule that cannot
    list the outputs it allows: where one applies, also one that draws were rejected for, a prediction is an
    error. A rule that does not speak of each input alone forbids no single output: it is refused where it is
    named, and left out otherwise.
    """
    terms = enforceable(posterior, rules)
    others = [term for term in terms if not term.rule.requirement.is_pointwise]
    if others and (rules is not None or len(others) == len(terms)):
        raise EnforcementError(
            f"{rule_name(others[0])!r} does not speak of each input alone, so no single prediction can be "
            "restricted to it; enforce it by rejecting draws."
        )
    named = tuple(term.rule for term in terms if term.rule.requirement.is_pointwise)
    earlier = (rule for rule in posterior.rules_in_force if rule not in named)
    return Truncated(posterior, (*named, *earlier))


def enforceable(
    posterior: Posterior, rules: Sequence[Rule] | None, points: int = POINTS
) -> tuple[RuleTerm, ...]:
    """The rules that can be enforced; an error for any other, or without any."""
    terms = as_rule_terms(posterior, rules, points)
    predictive = [term for term in terms if term.rule.is_predictive]
    if rules is not None and predictive:
        raise EnforcementError(
            f"{rule_name(predictive[0])!r} says how outputs are distributed: no single output breaks it, "
            "so it cannot be enforced; leave it out, and read its divergences instead."
        )
    terms = tuple(term for term in terms if not term.rule.is_predictive)
    if not terms:
        raise EnforcementError("There is no deterministic rule to enforce; give rules=[…].")
    return terms


@dataclass(frozen=True, eq=False)
class Truncated:
    """A posterior whose predictions cannot violate its rules.

    Of rules that do not speak of each input alone, the kept draws satisfy those they were rejected for; no
    single prediction can be held against them.

    Attributes:
        posterior: the draws, as they are.
        rules: what is enforced at every asked row to which it applies.
    """

    posterior: Posterior
    rules: tuple[Constraint, ...]

    def predict(
        self,
        table: Table,
        *,
        levels: Sequence[float] = LEVELS,
        coverage: float | None = COVERAGE,
        function: bool = False,
    ) -> Prediction:
        """As `predict`, restricted: points, medians, quantiles, samples and probabilities obey.

        `point` is the mean of Φ where that is allowed. Else it is the nearest allowed value; where several
        intervals are allowed, of the one with most mass, the mean of the draws within. `observation.mean` and
        `sd` are those of the restricted predictive of Y; such a mean can lie between two allowed intervals.

        Args:
            table: a DataFrame, or coded rows.
            levels: of the quantiles; `()` for none, and no median.
            coverage: of the highest-density intervals, whose ends are allowed values; None for none.
            function: the predictive of Φ too: that of the draws which obey at the row; an error where none
                does.
        """
        wanted = Wanted.of(levels, coverage)
        coded = as_coded(self.posterior, table)
        require_rows(coded)
        summarise = self._classes if self.posterior.classes else self._numbers
        blocks = []
        for _, at, values in ruled_blocks(self.posterior, coded, self.rules):
            summary = draws_summary(values, wanted, at.obeying(values)) if function else None
            blocks.append(summarise(at, values, wanted, summary))
        return joined(blocks)

    def sample_observation(self, table: Table, count: int, *, key: Any = 0) -> np.ndarray:
        """Samples of Y from the restricted predictive: raw y, or labels, `(count, n)`."""
        coded = as_coded(self.posterior, table)
        require_count(count, len(coded))
        generator = np.random.default_rng(key)
        ruled = ruled_blocks(self.posterior, coded, self.rules)
        blocks = [self._samples(generator, at, values, count) for _, at, values in ruled]
        return np.concatenate(blocks, axis=1) if blocks else samples_of_no_rows(self.posterior, count)

    def probability_below(self, table: Table, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """P(Y <= y) under the restricted predictive at every row; numbers only."""
        shares = np.empty(len(y))
        for block, mixture, allowed, mass in self._restricted(as_coded(self.posterior, table)):
            shares[block] = below(mixture, self._within(allowed), self._units.of(y[block]))[0] / mass
        return shares

    def log_density(self, table: Table, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Log density of y under the restricted predictive, −inf where y is forbidden; numbers only."""
        scores = np.empty(len(y))
        for block, mixture, allowed, mass in self._restricted(as_coded(self.posterior, table)):
            there = y[block]
            inside = ((allowed.lower <= there[:, None]) & (there[:, None] <= allowed.upper)).any(axis=1)
            density = log_density(mixture, self._units.of(there)) + self._units.log_slope(there)
            scores[block] = np.where(inside, density - np.log(mass), -np.inf)
        return scores

    def _restricted(
        self, coded: Float[np.ndarray, "n Q"]
    ) -> Iterator[tuple[slice, Mixture, Intervals, Float[np.ndarray, " block"]]]:
        """For each block of rows the mixture, what is allowed (raw), and how much of it that is."""
        for block, at, values in ruled_blocks(self.posterior, coded, self.rules):
            mixture, allowed, moments = self._moments(at, values)
            yield block, mixture, allowed, moments.total_mass

    def _samples(
        self, generator: np.random.Generator, at: RulesAt, values: np.ndarray, count: int
    ) -> np.ndarray:
        if self.posterior.classes:
            ends = np.cumsum(self._probabilities(at, values), axis=-1)
            ends /= ends[:, -1:]
            # So that a class without probability is never drawn: the numbers are below 1, and can be 0.
            drawn = (ends <= generator.random((count, len(at.coded), 1))).sum(axis=-1)
            return labels(self.posterior, drawn)
        mixture, allowed, _ = self._moments(at, values)
        samples = self._units.raw(sample_restricted(generator, mixture, self._within(allowed), count))
        if not self._units.log:
            return np.asarray(samples)
        return np.stack([nearest_allowed(each, allowed) for each in samples])

    @property
    def _units(self) -> Units:
        """The units of the mixture: those in which noise is added."""
        return Units.of_noise(self.posterior.target)

    def _within(self, allowed: Intervals) -> Intervals:
        """What is allowed, in the units of the mixture."""
        return Intervals(*self._units.ends(*allowed))

    def _moments(self, at: RulesAt, values: Float[np.ndarray, "S b"]) -> tuple[Mixture, Intervals, Moments]:
        """The predictive mixture, what is allowed (raw), and the raw moments of what that leaves of it."""
        mixture, allowed = Mixture(self._units.of(values), self.posterior.noise(at.coded)), at.intervals()
        find = restricted_log_moments if self._units.log else restricted_moments
        moments = find(mixture, self._within(allowed))
        self._require_mass(at, moments.total_mass)
        return mixture, allowed, moments

    def _require_mass(self, at: RulesAt, mass: Float[np.ndarray, " b"]) -> None:
        little = np.flatnonzero(~(mass >= LEAST_MASS))
        if little.size:
            raise at.nothing_allowed(
                little,
                f"leave {mass[little[0]]:.1e} of the predictive's mass, less than {LEAST_MASS:g}: the draws "
                "say nothing about what is allowed there; fit with the rules in the prior",
            )

    def _numbers(
        self, at: RulesAt, values: Float[np.ndarray, "S b"], wanted: Wanted, function: Summary | None
    ) -> Prediction:
        mixture, allowed, moments = self._moments(at, values)
        point = _projected(values, allowed, moments.mass, self._units)
        observation = mixture_summary(
            mixture, moments.total_mean, moments.total_sd, wanted, allowed, self._units
        )
        within = np.maximum(moments.total_sd**2 - moments.between, 0.0)
        return Prediction(point, function, observation, None, moments.between, within)

    def _classes(
        self, at: RulesAt, values: Float[np.ndarray, "S b C"], wanted: Wanted, function: Summary | None
    ) -> Prediction:
        del wanted
        probabilities = self._probabilities(at, values)
        allowed = at.classes()
        best = np.argmax(np.where(allowed, probabilities, -1.0), axis=1)
        inside = np.where(allowed, values, 0.0)
        mass = inside.sum(axis=-1)
        restricted = inside / np.where(mass > 0, mass, 1.0)[..., None]
        epistemic, aleatoric = entropy_split(restricted, mass, probabilities)
        return Prediction(labels(self.posterior, best), function, None, probabilities, epistemic, aleatoric)

    def _probabilities(self, at: RulesAt, values: Float[np.ndarray, "S b C"]) -> Float[np.ndarray, "b C"]:
        allowed = at.classes()
        inside = np.where(allowed, values.mean(axis=0), 0.0)
        mass = inside.sum(axis=1)
        self._require_mass(at, mass)
        return at.probabilities(inside / mass[:, None], allowed)


def _projected(
    values: Float[np.ndarray, "S b"],
    allowed: Intervals,
    mass: Float[np.ndarray, "b K"],
    units: Units = RAW,
) -> Float[np.ndarray, " b"]:
    """The best allowed prediction under squared loss in these units: the mean of Φ, or what is allowed."""
    there = units.of(values)
    mean = units.raw(there.mean(axis=0))
    obeys = ((allowed.lower <= mean[:, None]) & (mean[:, None] <= allowed.upper)).any(axis=1)
    rows, heaviest = np.arange(len(mean)), np.argmax(mass, axis=1)
    lower, upper = allowed.lower[rows, heaviest], allowed.upper[rows, heaviest]
    within = (lower <= values) & (values <= upper)
    several = (allowed.lower <= allowed.upper).sum(axis=1) > 1
    inner = units.raw(np.where(within, there, 0.0).sum(axis=0) / np.maximum(within.sum(axis=0), 1))
    instead = np.where(several & within.any(axis=0), inner, np.clip(mean, lower, upper))
    return np.where(obeys, mean, instead)
