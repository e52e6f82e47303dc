"""How much the answer in a rule's region depends on the rule, and on the data: power-scaling sensitivity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from jaxtyping import Array, Float
from scipy.special import softmax

from ocbnn.checking.draws import evenly
from ocbnn.checking.results import RuleCheck
from ocbnn.model import Data, Model
from ocbnn.model.conditional import RulePoints
from ocbnn.model.outputs import CHUNK, padded, precision
from ocbnn.posterior.draws import Posterior
from ocbnn.seeds import seed_for

PLACES, DRAWS, SHUFFLES = 30, 2000, 20
"""Cases of a region, draws (at most) and random orders that sensitivity is measured with."""
POWERS = (0.99, 1.01)
SENSITIVE = 0.05
"""Sensitivity from which an answer depends on what is scaled (Kallioinen et al. 2024)."""
FAR_OUT = 0.95
"""Violation under data alone from which they strongly disagree with a rule: the share of draws outside of
what it allows, or the total variation from the distribution it asks for, which leaves 5% in common."""
DISAGREE = "the data strongly disagree with this rule"


class Sensitivity(NamedTuple):
    """How much the answer in a rule's region depends on the rule, and on the data.

    Power-scaling sensitivity (Kallioinen et al. 2024): how fast the distribution of Φ(x) moves when the
    log-density of the rule's term, or of all rows, is multiplied by a number near 1. `rule` is the largest
    value over cases of the region, and `data` is the value at that case. From 0.05 on the answer depends on
    what is scaled.

    Scaling changes how steep a rule's wall is, not where it stands. A thin wall that cuts off half of the
    posterior therefore has no sensitivity. That is why a rule is said to matter little only if a model
    without rules would keep it too. What so many independent draws show by chance is subtracted; draws that
    follow one another slowly show more.

    Attributes:
        rule: sensitivity to the rule's term.
        data: sensitivity to the likelihood; None where the model does not hold its rows.
        verdict: what both say together, in words.
    """

    rule: float
    data: float | None
    verdict: str

    def __str__(self) -> str:
        data = "" if self.data is None else f", {self.data:.2g} to the data"
        return f"{self.verdict} (sensitivity {self.rule:.2g} to the rule{data})"


def sensitivities(
    posterior: Posterior,
    without: Iterable[RuleCheck | None],
    *,
    points: int = PLACES,
    key: int = 0,
) -> tuple[Sensitivity | None, ...]:
    """The sensitivity of the answer to every rule of the posterior.

    It is None for a rule that the base prior has learnt, and where a draw has no finite value or density.

    Args:
        posterior: under all rules.
        without: checks of the same rules under a posterior without them; None without one.
        points: cases of each region that are looked at.
        key: seed of the cases.
    """
    draws, model = posterior.flat[evenly(len(posterior.flat), DRAWS)], posterior.model
    if not model.terms:
        return (None,) * len(posterior.rules)
    rules, rows = log_densities(model, draws)
    found: list[Sensitivity | None] = []
    for index, (term, check) in enumerate(zip(posterior.rules, without, strict=True)):
        if index >= len(model.terms):
            found.append(None)
            continue
        cases = term.fresh_inputs(points, key)
        values = posterior.values(cases[evenly(len(cases), points)], draws)
        if len(posterior.classes) == 2:
            values = values[..., 1]
        values = values.reshape(len(draws), -1)
        if not (np.isfinite(values).all() and np.isfinite(rules[:, index]).all()):
            found.append(None)
            continue
        there = values[:, int(np.argmax(power_scaling(values, rules[:, index])))]
        of_rule = beyond_chance(there, rules[:, index], key)
        of_data = None if rows is None else beyond_chance(there, rows, key)
        found.append(Sensitivity(of_rule, of_data, _verdict(of_rule, of_data, check)))
    return tuple(found)


def power_scaling(
    values: Float[np.ndarray, "S n"], log_density: Float[np.ndarray, " S"]
) -> Float[np.ndarray, " n"]:
    """The sensitivity of n quantities to a factor p(w) of the density that S draws are of.

    The mean over α = 0.99 and 1.01 of |d / log2 α|, where d is the cumulative Jensen-Shannon distance between
    the draws and the draws with weights ∝ p(w)^(α − 1). These weights are near 1, so they need no smoothing,
    which would refuse the many draws at which a rule's term is exactly 0.
    """
    found = np.zeros(values.shape[1])
    moving = np.ptp(values, axis=0) > 0.0
    if np.ptp(log_density) == 0.0 or not moving.any():
        return found
    some = values.T[moving]
    lower, upper = (np.broadcast_to(softmax((power - 1.0) * log_density), some.shape) for power in POWERS)
    scaled: Any = array_stats.power_scale_sense  # ArviZ has no types
    found[moving] = scaled(some, lower, upper, *POWERS, chain_axis=None)
    return found


def beyond_chance(
    values: Float[np.ndarray, " S"], log_density: Float[np.ndarray, " S"], key: int = 0
) -> float:
    """The sensitivity of one quantity, less what the same draws in random order show: √(d² − mean d²_random).

    With many weights log p(D | w) varies much, and 1,000 draws can show 0.05 by chance alone.
    """
    generator = np.random.default_rng(seed_for(key, "sensitivity by chance"))
    shuffled = [generator.permutation(values) for _ in range(SHUFFLES)]
    found, *chance = power_scaling(np.stack([values, *shuffled], axis=1), log_density)
    return float(np.sqrt(max(found**2 - np.mean(np.square(chance)), 0.0)))


def log_densities(
    model: Model, draws: Float[np.ndarray, "S size"]
) -> tuple[Float[np.ndarray, "S rules"], Float[np.ndarray, " S"] | None]:
    """The log-density of each rule of `terms` and of all rows at every draw.

    The second is None where the model does not hold its rows, or a draw cannot be scored by them.
    """

    def both(w: Array, points: Sequence[RulePoints], rows: Data | None) -> tuple[Array, Array]:
        return model.rule_log_densities(model.split(w)[0], points), model.log_likelihood(w, rows)

    densities = jax.jit(jax.vmap(both, (0, None, None)))
    rows = 0 if model.data is None else len(model.data.inputs)
    inputs = rows + sum(len(each.inputs) for each in model.points)
    size = min(max(CHUNK // max(inputs, 1), 1), len(draws))
    parts: list[list[np.ndarray]] = []
    for first in range(0, len(draws), size):
        some = draws[first : first + size].astype(float)
        with precision("float64"):
            block = densities(jnp.asarray(padded(some, size)), model.points, model.data)
            parts.append([np.asarray(each)[: len(some)] for each in block])
    rules, likelihood = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rules, likelihood if model.data is not None and np.isfinite(likelihood).all() else None


def _verdict(rule: float, data: float | None, without: RuleCheck | None) -> str:
    """Sensitivities in words; `without` says how far a model without rules keeps the rule.

    An answer that depends on both is no disagreement yet: a rule and data that say nearly the same share it.
    They disagree strongly where data alone put nearly everything outside of what the rule asks for.
    """
    if rule < SENSITIVE and without is None:
        return "this rule's strength hardly matters"
    if rule < SENSITIVE and without is not None:
        if without.violation.value <= without.tolerance:
            return "this rule hardly matters"
        # Of a rule about all draws together there is no wall: little sensitivity is little influence.
        outweighed = without.epsilon_mean is None
        return (
            "the data outweigh this rule" if outweighed else "this rule cuts off what data alone would allow"
        )
    if data is not None and data < SENSITIVE:
        return "this rule decides the answer here"
    if data is not None and without is not None and without.average.low > FAR_OUT:
        return DISAGREE
    return "this rule shapes the answer here"
