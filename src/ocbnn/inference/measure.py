"""How far draws obey a rule, on fresh points: the figure that strength is chosen by and a run is judged by.

Draws are dependent and points share draws, so the unit is a draw: its share of violated points, with as many
independent ones as their effective sample size. Probabilistic rules are judged by the total variation between
the predictive and what the rule asks for, averaged over points.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from ocbnn import regions, violation
from ocbnn.inference.diagnostics import worst_ess
from ocbnn.inference.outputs import model_outputs
from ocbnn.likelihoods import Gaussian
from ocbnn.model import Model
from ocbnn.priors.conditional import RuleTerm, rule_seed
from ocbnn.rules.located import (
    Located,
    NormalMixture,
    TargetClassProbabilities,
    TargetProbability,
    in_model_units,
)

FRESH_POINTS = 512
MOST_DRAWS = 1000  # of all chains together, evenly spaced


class Measured(NamedTuple):
    """A rule's violation (mean share, or total variation), its standard error, and the effective draws."""

    violation: float
    error: float
    effective: float

    def shown_within(self, tolerance: float) -> bool:
        """Whether the violation is below the tolerance with two standard errors to spare.

        Where no violation was seen the error says nothing; then 3/n is what n draws leave possible (95%).
        """
        possible = 3.0 / max(self.effective, 1.0) if self.violation == 0.0 else 0.0
        return self.violation + max(2.0 * self.error, min(possible, 0.5 * tolerance)) <= tolerance


def measure(
    model: Model,
    rule: RuleTerm,
    draws: Float[np.ndarray, "chains draws size"],
    seed: int,
    points: int = FRESH_POINTS,
) -> Measured:
    """The rule's violation under these draws, on fresh points of its region."""
    coded = regions.sample(
        rule_seed(seed, rule.rule, rule.schema) + 1,
        rule.rule.region,
        rule.schema,
        rule.data,
        points,
        rule.sampler,
    )
    target = rule.schema.target
    assert target is not None
    located = in_model_units(rule.rule.locate(coded, rule.schema), target)
    every = max(1, math.ceil(draws.shape[0] * draws.shape[1] / MOST_DRAWS))
    kept = draws[:, ::every]
    chains, count, size = kept.shape
    outputs = model_outputs(model, kept.reshape(-1, size), rule.schema.to_model(coded))
    if isinstance(located, TargetProbability | TargetClassProbabilities):
        return _total_variation(rule, located, outputs)
    if isinstance(located, NormalMixture):
        return _predictive_distance(model, located, outputs, kept.reshape(-1, size))
    share = violation.violates(rule.rule.output, located, outputs).mean(axis=-1).reshape(chains, count)
    if np.ptp(share) == 0.0:
        return Measured(float(share.mean()), 0.0, float(share.size))
    effective = max(min(worst_ess(share[..., None]), float(share.size)), 1.0)
    return Measured(float(share.mean()), float(share.std() / math.sqrt(effective)), effective)


def _total_variation(rule: RuleTerm, located: Located, outputs: np.ndarray) -> Measured:
    """Between the mean of the predicted probabilities and the asked ones; its error is over points."""
    distance = violation.margin(rule.rule.output, located, outputs.mean(axis=0))
    return Measured(float(distance.mean()), 0.0, float(len(outputs)))


def _predictive_distance(
    model: Model, located: NormalMixture, outputs: np.ndarray, draws: np.ndarray
) -> Measured:
    """Total variation between the predictive of Y, noise included, and D_y: integrals on a grid of y."""
    likelihood = model.likelihood
    assert isinstance(likelihood, Gaussian)
    noise = likelihood.noise or np.exp(draws[:, model.network.size])
    noise = np.broadcast_to(noise, len(draws))
    distances = []
    for point in range(0, outputs.shape[1], max(1, outputs.shape[1] // 64)):
        weight, mean, sd = (np.asarray(each)[point] for each in located)
        used = weight > 0
        low = min((outputs[:, point] - 6 * noise).min(), (mean - 6 * sd)[used].min())
        high = max((outputs[:, point] + 6 * noise).max(), (mean + 6 * sd)[used].max())
        grid = np.linspace(low, high, 400)
        predictive = norm.pdf(grid[:, None], outputs[:, point], noise).mean(axis=1)
        asked = (weight[used] * norm.pdf(grid[:, None], mean[used], sd[used])).sum(axis=1)
        distances.append(0.5 * np.trapezoid(np.abs(predictive - asked), grid))
    return Measured(float(np.mean(distances)), 0.0, float(len(outputs)))


def unmet_reason(
    model: Model, rule: RuleTerm, measured: Measured, alone: Measured | None, *, found: bool
) -> str:
    """Why a rule is not met, and what can be done.

    Args:
        model: with the data that may stand against the rule.
        rule: the one in question.
        measured: its violation in the kept draws.
        alone: its violation in networks fitted to this rule only, where that says anything.
        found: whether its strength was searched for.
    """
    said = f"violation {measured.violation:.3g} exceeds the tolerance {rule.tolerance:g}"
    inside, against = contradicting_rows(model, rule)
    if against:
        return (
            f"{said}; it conflicts with {against:,} of the {inside:,} rows in its region: check them, raise "
            "its tolerance, or enforce it"
        )
    if alone is not None and alone.violation > rule.tolerance:
        return (
            f"{said}, and networks fitted to this rule alone, without data, still violate it "
            f"({alone.violation:.3g}): the network is too small for it; give it more hidden units"
        )
    if not found and not rule.rule.output.is_probabilistic:
        strength = float(rule.points.strength)
        return f"{said} at the strength {strength:g} that it was given: leave strength out to have it found"
    able = "" if alone is None else "the network can obey it, so "
    rows = "" if model.data is None else "rows next to its region, "
    return (
        f"{said}; {able}{rows}another rule or an engine that has not converged stands against it: look at "
        "the status, raise its tolerance, or enforce it"
    )


def learnt_unmet_reason(model: Model, rule: RuleTerm, measured: Measured) -> str:
    """Why a rule that the base prior has learnt is not met under these data, and what can be done."""
    said = f"violation {measured.violation:.3g} exceeds the tolerance {rule.tolerance:g}"
    inside, against = contradicting_rows(model, rule)
    conflict = f"it conflicts with {against:,} of the {inside:,} rows in its region; " if against else ""
    return (
        f"{said}; {conflict}the data move the learnt prior away from it: learn the prior with a larger "
        "concentration, add the rule as a conditional term too (rules=), or enforce it"
    )


def contradicting_rows(model: Model, rule: RuleTerm) -> tuple[int, int]:
    """How many rows lie in the region, and how many of those break the rule."""
    if model.data is None:
        return 0, 0
    coded = rule.schema.to_raw(np.asarray(model.data.inputs, dtype=float))
    inside = rule.rule.region.contains(coded, rule.schema)
    target = rule.schema.target
    assert target is not None
    if not inside.any():
        return 0, 0
    located = in_model_units(rule.rule.locate(coded[inside], rule.schema), target)
    if isinstance(located, TargetProbability | TargetClassProbabilities | NormalMixture):
        return int(inside.sum()), 0
    y = np.asarray(model.data.y)[inside]
    outputs = np.eye(len(target.classes))[y.astype(int)] if target.classes else y
    against = violation.violates(rule.rule.output, located, outputs)
    return int(inside.sum()), int(against.sum())
