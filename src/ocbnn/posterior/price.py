"""What one rule costs: the log score of held-out rows with it and without it, the other rules kept.

Nothing is fitted again: the kept draws are weighted by 1 / (the rule's own density), which makes them draws
of the posterior without it. Weights are smoothed by their Pareto tail (Vehtari et al. 2024), whose shape says
whether the draws reach far enough. Draws that a rule holds back never went where data alone would go; then
the price cannot be said without fitting again, which `estimator.conflict(X, y)` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from ocbnn.checking.draws import evenly
from ocbnn.checking.figures import Number
from ocbnn.checking.results import RuleCheck
from ocbnn.model import Data, Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.outputs import CHUNK, padded, precision
from ocbnn.posterior.conflict import LogScore, compared
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.sensitivity import DRAWS, log_densities
from ocbnn.regions.samplers.rows import distances

RELIABLE = 0.7
"""Pareto shape above which weighted draws do not stand for another posterior (Vehtari et al. 2024)."""
NEAR = 0.1
"""Rows count as near a rule whose columns are within this share of their observed ranges from its region."""
LEAST_TAIL = 5
"""Draws that a tail has at least, to have a shape."""
LEAST_ROWS = 10
"""Rows near a rule below which nothing is said of them."""


class Price(NamedTuple):
    """The log score of held-out rows (nats per row) with and without one rule, the other rules kept.

    Attributes:
        everywhere: over all rows; None where it cannot be said without fitting again.
        near: over rows in the rule's region or next to it; None where they are too few, too.
        pareto: the shape of the tail of the weights; above 0.7 they do not stand for another posterior.
        reason: why nothing can be said; "" where it can.
    """

    everywhere: LogScore | None
    near: LogScore | None
    pareto: Number
    reason: str = ""


def prices(
    posterior: Posterior,
    without: Sequence[RuleCheck | None],
    coded: Float[np.ndarray, "n Q"],
    y: np.ndarray,
) -> tuple[Price | None, ...]:
    """The price of every rule of the posterior, before enforcement.

    It is None for a rule without a term in the prior (it holds by construction, or was learnt), and under
    enforcement, where leaving a rule out is not a matter of weights.

    Args:
        posterior: under all rules.
        without: checks of the same rules under a posterior without any; None without one.
        coded: held-out rows.
        y: their target in model units.
    """
    model = posterior.model
    draws = posterior.flat[evenly(len(posterior.flat), DRAWS)]
    if not model.terms or not len(coded) or posterior.rules_in_force:
        return (None,) * len(posterior.rules)
    terms, _ = log_densities(model, draws)
    scores = _row_log_densities(model, draws, Data(posterior.schema.to_model(coded), y, None))
    with_rule = _mean(scores, np.zeros(len(draws)))
    found: list[Price | None] = []
    for index, (term, check) in enumerate(zip(posterior.rules, without, strict=True)):
        if index >= len(model.terms):
            found.append(None)
            continue
        weights, pareto = _weights(terms[:, index])
        reason = _reason(pareto, term, check, touched=bool(np.any(terms[:, index] < 0.0)))
        if reason:
            found.append(Price(None, None, pareto, reason))
            continue
        without_rule = _mean(scores, weights)
        near = near_rows(term, coded)
        some = compared(with_rule[near], without_rule[near]) if near.sum() >= LEAST_ROWS else None
        found.append(Price(compared(with_rule, without_rule), some, pareto))
    return tuple(found)


def near_rows(term: RuleTerm, coded: Float[np.ndarray, "n Q"]) -> Bool[np.ndarray, " n"]:
    """Which rows are in a rule's region, or next to it."""
    parts = term.rule.region.components()
    apart = np.min([distances(coded, part, term.schema) for part in parts], axis=0)
    return np.asarray(apart <= NEAR)


def _weights(log_density: Float[np.ndarray, " S"]) -> tuple[Float[np.ndarray, " S"], float]:
    """Smoothed log weights 1/density, and the shape of their tail: −∞ where next to none stand out.

    Most draws may be clear of a rule, which then weighs them all alike: the tail is of the others.
    """
    count = len(log_density)
    apart = int(np.count_nonzero(log_density < log_density.max()))
    if min(apart, count // 5) < LEAST_TAIL:
        return -log_density, -np.inf if apart < LEAST_TAIL else np.inf
    # ArviZ takes 3 √(draws / r_eff) draws as the tail.
    relative = max(9.0 * count / apart**2, 1.0)
    smoothed: Any = array_stats.psislw  # ArviZ has no types
    weights, shape = smoothed(log_density, r_eff=relative)
    return np.asarray(weights), float(shape)


def _reason(pareto: float, term: RuleTerm, without: RuleCheck | None, *, touched: bool) -> str:
    """Why weighted draws do not say what the rule costs; "" where they do."""
    if not pareto <= RELIABLE:
        return (
            f"the rule holds draws back too much (Pareto shape {pareto:.2g}, at most {RELIABLE:g} is needed)"
        )
    if touched or without is None or without.average.value <= term.tolerance:
        return ""
    return "no draw is near what the rule cuts off"


def _mean(scores: Float[np.ndarray, "S n"], weights: Float[np.ndarray, " S"]) -> Float[np.ndarray, " n"]:
    """The log of the weighted mean density of each row."""
    found = logsumexp(scores + weights[:, None], axis=0) - logsumexp(weights)
    return np.maximum(np.asarray(found), np.log(np.finfo(float).tiny))


def _row_log_densities(
    model: Model, draws: Float[np.ndarray, "S size"], rows: Data
) -> Float[np.ndarray, "S n"]:
    """The log-density of each row at every draw, in model units."""
    size = min(max(CHUNK // max(len(rows.inputs), 1), 1), len(draws))
    parts = []

    density = jax.jit(jax.vmap(model.row_log_likelihoods, (0, None)))
    for first in range(0, len(draws), size):
        some = draws[first : first + size].astype(float)
        with precision("float64"):
            block = density(jnp.asarray(padded(some, size)), rows)
            parts.append(np.asarray(block)[: len(some)])
    return np.concatenate(parts)
