"""Is a run to be believed? Judged in function space: Φ_w at probe inputs, since weights are not identifiable.

A verdict is a sentence and a flag; a bad run is never called good. Chains are judged by R-hat, effective
draws, divergences, and whether they move at all. Only an engine that is exact in the limit can converge to
the posterior; others settle, and their sentence says what was checked, and what is known of their bias.

Chains are counted from 1 in sentences, and from 0 in fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.checking.convergence import LEAST_DRAWS, Mixing, bulk_ess, mixing, rhat
from ocbnn.inference.density import fixed_context
from ocbnn.inference.engines.base import Bias, Engine
from ocbnn.inference.probes import probe_inputs, probe_places
from ocbnn.model import Data, Model
from ocbnn.model.priors import LayerScales
from ocbnn.model.programs import QUICKLY

SCORED_ROWS = 4096

Values = Float[np.ndarray, "chains draws quantities"]

__all__ = [
    "Criteria",
    "Diagnostics",
    "Plateau",
    "diagnose",
    "diagnose_objective",
    "diagnose_particles",
    "diagnose_run",
    "hyperparameter_values",
    "plateau",
    "probe_inputs",
    "probe_places",
    "stuck_chains",
    "varying_ess",
    "worst_ess",
]


@dataclass(frozen=True)
class Criteria:
    """When chains count as converged.

    Attributes:
        largest_rhat: at the worst probe.
        least_ess: effective draws at the worst probe, over all chains, for the centre (bulk).
        least_tail_ess: the same for the tails, which intervals and rare violations live on.
        most_divergences: as a share of the kept draws. More than a few mean a place that chains do not enter.
        least_acceptance: a chain that accepts less is stuck, as is one that moves as rarely.
        least_spread: a chain whose spread is this share of the other chains' is stuck.
    """

    largest_rhat: float = 1.01
    least_ess: float = 400.0
    least_tail_ess: float = 400.0
    most_divergences: float = 0.001
    least_acceptance: float = 0.05
    least_spread: float = 0.01


APPROXIMATE = Criteria(largest_rhat=1.05, least_ess=100.0, least_tail_ess=100.0)
"""For engines that are not exact: they have a bias that more draws do not remove, so that a Monte Carlo error
of a tenth of a standard deviation (100 effective draws) is enough."""


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """What is known of a run's quality.

    Attributes:
        status: the verdict as a sentence.
        converged: the verdict; for engines that are not exact, whether what was checked held.
        checked: what the verdict rests on.
        rhat, bulk_ess, tail_ess: of every quantity (probe, or class at a probe); constant ones have R-hat 1
            and as many effective draws as there are draws. Empty for engines without chains.
        where: the probe of the worst R-hat, in raw units.
        acceptance: mean of every chain.
        divergences: of every chain.
        stuck: chains that hardly move.
        discrepancy: kernel Stein discrepancy, of particles only.
        bias: what an engine that is not exact knows of how far its draws are from the posterior.
        rhat_of_scales: of the log scale of each layer, by its name, where the prior learns scales; of chains
            only. No part of the verdict: scales are functions of the weights, and like these they may differ
            between chains that are the same function. Intervals rest on the function and its noise.
    """

    status: str
    converged: bool
    checked: str
    rhat: Float[np.ndarray, " quantities"] = field(default_factory=lambda: np.zeros(0))
    bulk_ess: Float[np.ndarray, " quantities"] = field(default_factory=lambda: np.zeros(0))
    tail_ess: Float[np.ndarray, " quantities"] = field(default_factory=lambda: np.zeros(0))
    where: str = ""
    acceptance: Float[np.ndarray, " chains"] = field(default_factory=lambda: np.zeros(0))
    divergences: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    stuck: tuple[int, ...] = ()
    discrepancy: float | None = None
    bias: str = ""
    rhat_of_scales: Mapping[str, float] = field(default_factory=dict)

    @property
    def worst_rhat(self) -> float:
        """The largest R-hat; NaN where one is unknown, or none was computed."""
        return float(np.max(self.rhat)) if self.rhat.size else math.nan

    @property
    def worst_bulk_ess(self) -> float:
        """The fewest effective draws for the centre of the distribution."""
        return float(np.min(self.bulk_ess)) if self.bulk_ess.size else math.nan

    @property
    def worst_tail_ess(self) -> float:
        """The fewest effective draws for its tails."""
        return float(np.min(self.tail_ess)) if self.tail_ess.size else math.nan


def diagnose_run(
    *,
    model: Model,
    engine: Engine,
    draws: Float[np.ndarray, "chains draws size"],
    values: Values,
    probes: Float[np.ndarray, "probes D"],
    acceptance: Float[np.ndarray, " chains"],
    divergences: np.ndarray,
    trace: Float[np.ndarray, " steps"],
    bias: Bias | None = None,
    criteria: Criteria | None = None,
) -> Diagnostics:
    """The verdict on a run of any engine."""
    if engine.has_chains:
        names = hyperparameter_names(model)
        found = diagnose(
            values,
            place=probe_places(model, probes, values.shape[-1], names),
            probes=len(probes),
            further=names,
            acceptance=acceptance,
            divergences=divergences,
            exact=engine.exact,
            bias=bias,
            criteria=criteria,
        )
        return replace(found, rhat_of_scales=rhat_of_scales(model, draws))
    finite = bool(np.isfinite(values).all())
    discrepancy = getattr(engine, "discrepancy", None)
    if discrepancy is not None:
        particles = jnp.asarray(draws.reshape(-1, draws.shape[-1]))
        distance = float(discrepancy(particles, scores(model, particles)))
        found = diagnose_particles(trace, distance, len(particles), finite=finite)
    else:
        found = diagnose_objective(trace, getattr(engine, "objective", "objective"), finite=finite)
    return replace(found, acceptance=acceptance, divergences=divergences)


def scores(model: Model, particles: Float[Array, "n size"]) -> Float[Array, "n size"]:
    """∇ log p(w | D) at every particle: of all rows, in blocks, and of the rules at their own points."""
    prior = jax.jit(
        lambda positions, points: jax.lax.map(jax.grad(lambda w: model.log_prior(w, points)), positions)
    )
    total: Array = prior(particles, fixed_context(model).points)
    if model.data is None:
        return total
    inputs, y, weights = model.data
    weights = np.ones(len(inputs)) if weights is None else np.asarray(weights)
    likelihood = jax.jit(
        lambda positions, rows: jax.lax.map(jax.grad(lambda w: model.log_likelihood(w, rows)), positions)
    )
    size = min(SCORED_ROWS, len(inputs))
    for begin in range(0, len(inputs), size):
        # Blocks of one shape: the last one is filled up with rows that count for nothing.
        rows = np.arange(begin, begin + size)
        counted = np.where(rows < len(inputs), weights[rows % len(inputs)], 0.0)
        there = rows % len(inputs)
        total = total + likelihood(particles, Data(np.asarray(inputs)[there], np.asarray(y)[there], counted))
    return total


def diagnose(
    values: Values,
    *,
    place: Callable[[int], str] | None = None,
    probes: int | None = None,
    further: Sequence[str] = (),
    acceptance: Float[np.ndarray, " chains"] | None = None,
    divergences: np.ndarray | None = None,
    exact: bool = True,
    bias: Bias | None = None,
    criteria: Criteria | None = None,
) -> Diagnostics:
    """The verdict on chains.

    Args:
        values: Φ at the probes, chain × draw × quantity; each class at each probe is a quantity of its own.
        place: the words for a quantity's probe.
        probes: how many probes there are, where there are several quantities to each.
        further: names of the quantities after those of the probes.
        acceptance: mean of every chain.
        divergences: of every chain.
        exact: whether the engine is exact in the limit: only then do chains converge.
        bias: what an engine that is not exact knows of its own.
        criteria: others than the default of exact and of approximate engines.
    """
    values = np.asarray(values)
    values = values.reshape(*values.shape[:2], math.prod(values.shape[2:]))
    chains, draws, quantities = values.shape
    judged = criteria or (Criteria() if exact else APPROXIMATE)
    place = place or (lambda quantity: f"probe {quantity}")
    acceptance = np.full(chains, np.nan) if acceptance is None else np.asarray(acceptance, dtype=float)
    divergences = np.zeros(chains, dtype=int) if divergences is None else np.asarray(divergences)
    found = _mixing_with_constants(values)
    stuck = stuck_chains(values, acceptance, judged)
    worst = int(np.argmax(np.nan_to_num(found.rhat, nan=np.inf))) if quantities else None
    where = "" if worst is None else place(worst)
    problem = (
        _unjudgeable(values, place)
        or _stuck_words(stuck, chains, acceptance)
        or _unmixed(values, found, place, judged)
        or _divergent(divergences, chains * draws, judged)
        or ("" if bias is None else bias.problem)
        or _single(chains)
    )
    verdict = "converged" if exact else "settled"
    judged_at = " and ".join([f"{probes or quantities - len(further)} probes", *further])
    if problem:
        status = f"not {verdict}: {problem}"
    else:
        status = (
            f"{verdict}: worst R-hat {found.rhat.max():.2f} over {judged_at}, "
            f"worst bulk ESS {found.bulk_ess.min():,.0f}, tail ESS {found.tail_ess.min():,.0f}"
        )
        if divergences.sum():
            status += f", {int(divergences.sum()):,} divergences"
        known = "how far they are from the posterior is not known" if bias is None else bias.words
        status += "" if exact else f"; draws are approximate: {known}"
    checked = f"R-hat and effective draws of {chains} chains at {judged_at}"
    return Diagnostics(
        status,
        not problem,
        checked,
        *found,
        where,
        acceptance,
        divergences,
        stuck,
        bias="" if bias is None else bias.words,
    )


def hyperparameter_names(model: Model) -> tuple[str, ...]:
    """The names of what `model.hyperparameters` gives, in its order."""
    return tuple(model.hyperparameters(jnp.zeros(model.size)))


def hyperparameter_values(
    model: Model, draws: Float[np.ndarray, "chains draws size"]
) -> Float[np.ndarray, "chains draws named"]:
    """What `model.hyperparameters` gives for every draw; nothing where it has none."""
    if not hyperparameter_names(model):
        return np.zeros((*draws.shape[:2], 0))

    def one(w: Array) -> Array:
        return jnp.stack(list(model.hyperparameters(w).values()))

    return np.asarray(jax.jit(jax.vmap(jax.vmap(one)), compiler_options=QUICKLY)(jnp.asarray(draws)))


def rhat_of_scales(model: Model, draws: Float[np.ndarray, "chains draws size"]) -> dict[str, float]:
    """R-hat of the log scale of each layer by its name; empty without learnt scales, or draws."""
    if not (isinstance(model.base, LayerScales) and draws.size):
        return {}
    weights = np.asarray(draws, dtype=float)[..., : model.network.size]
    found = _mixing_with_constants(np.log(model.base.scales(weights))).rhat
    return dict(zip(model.base.names, found.tolist(), strict=True))


def worst_ess(values: Values) -> float:
    """The fewest effective draws over all quantities that vary; 0 where nothing can be said."""
    least = float(varying_ess(values).min(initial=np.inf))
    return least if np.isfinite(least) else 0.0


def varying_ess(values: Values) -> Float[np.ndarray, " quantities"]:
    """Effective draws of each quantity: 0 where nothing can be said, infinitely many of a constant."""
    values = np.asarray(values)
    varying = ~_constant(values)
    effective = np.full(values.shape[-1], np.inf)
    effective[varying] = np.nan_to_num(bulk_ess(values[..., varying]), nan=0.0)
    return effective


def _mixing_with_constants(values: Values) -> Mixing:
    """A quantity that is the same in all draws says nothing against them, and has no R-hat of its own."""
    constant = _constant(values)
    size = float(values.shape[0] * values.shape[1])
    result = Mixing(*(np.full(values.shape[2], fill) for fill in (1.0, size, size)))
    if not constant.all():
        for figure, known in zip(result, mixing(values[..., ~constant]), strict=True):
            figure[~constant] = known
    return result


def _constant(values: Values) -> np.ndarray:
    """Which quantities are the same in all draws of all chains, up to rounding."""
    if not values.shape[0] * values.shape[1]:
        return np.zeros(values.shape[2], dtype=bool)
    kind = values.dtype if values.dtype == np.float32 else np.dtype(np.float64)
    tolerance = max(1e-8, 32.0 * float(np.finfo(kind).eps))
    low, high = values.min(axis=(0, 1)), values.max(axis=(0, 1))
    with np.errstate(invalid="ignore"):
        same = high - low <= tolerance * np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
    return same & np.isfinite(low) & np.isfinite(high)


def stuck_chains(
    values: Values, acceptance: Float[np.ndarray, " chains"], criteria: Criteria
) -> tuple[int, ...]:
    """Chains that accept hardly anything, whose functions hardly change, or change far less than others'."""
    chains, draws, quantities = values.shape
    with np.errstate(invalid="ignore"):
        stuck = acceptance < criteria.least_acceptance
        if draws > 1 and quantities:
            moved = (values[:, 1:] != values[:, :-1]).any(axis=2).mean(axis=1)
            stuck = stuck | (moved < criteria.least_acceptance)
            spread = values.std(axis=1)
            for chain in range(chains if chains > 1 else 0):
                others = np.median(np.delete(spread, chain, axis=0), axis=0)
                varying = others > 0
                if varying.any():
                    ratio = np.median(spread[chain, varying] / others[varying])
                    stuck[chain] |= ratio < criteria.least_spread
    return tuple(int(chain) for chain in np.flatnonzero(stuck))


def _unjudgeable(values: Values, place: Callable[[int], str]) -> str:
    chains, draws, quantities = values.shape
    if not chains or not quantities:
        return "there is nothing to judge: no chains, or no probes"
    broken = ~np.isfinite(values)
    if broken.any():
        chain, draw, quantity = (int(index) for index in np.argwhere(broken)[0])
        return (
            f"chain {chain + 1} of {chains} gives a value that is not finite at {place(quantity)}, first in "
            f"draw {draw + 1}; lower the step size, or look for an input or a rule that overflows"
        )
    if draws < LEAST_DRAWS:
        return f"{draws} draws of each chain are too few to judge; run longer"
    if _constant(values).all():
        return (
            "all draws are the same function at every probe, so no chain has moved; lower the step size, or "
            "run a longer warm-up"
        )
    return ""


def _stuck_words(stuck: tuple[int, ...], chains: int, acceptance: Float[np.ndarray, " chains"]) -> str:
    if not stuck:
        return ""
    named = ", ".join(str(chain + 1) for chain in stuck)
    verb = f"chain {named} of {chains} is" if len(stuck) == 1 else f"chains {named} of {chains} are"
    rates = acceptance[list(stuck)]
    rate = f" (acceptance {np.min(rates):.2f})" if np.isfinite(rates).all() else ""
    return f"{verb} stuck{rate}; lower the step size, run a longer warm-up, or start from another seed"


def _unmixed(values: Values, found: Mixing, place: Callable[[int], str], criteria: Criteria) -> str:
    # Written so that NaN fails.
    if not (found.rhat <= criteria.largest_rhat).all():
        worst = int(np.argmax(np.nan_to_num(found.rhat, nan=np.inf)))
        return (
            f"{_blame(values[..., [worst]], float(found.rhat[worst]))} at {place(worst)} (R-hat "
            f"{found.rhat[worst]:.3f}); run longer or more chains"
        )
    for where, effective, least in (
        ("", found.bulk_ess, criteria.least_ess),
        ("in the tails, ", found.tail_ess, criteria.least_tail_ess),
    ):
        if not (effective >= least).all():
            worst = int(np.argmin(np.nan_to_num(effective, nan=0.0)))
            return (
                f"{where}the draws are worth {effective[worst]:,.0f} independent ones at {place(worst)}, and "
                f"{least:,.0f} are asked for; run longer"
            )
    return ""


def _blame(values: Float[np.ndarray, "chains draws 1"], whole: float) -> str:
    """The chain without which the others agree best; no name where that is hardly better, or for two."""
    chains = len(values)
    if chains == 1:
        return "the two halves of the one chain disagree"
    if chains == 2:
        return "the two chains disagree"
    without = np.array([rhat(np.delete(values, chain, axis=0))[0] for chain in range(chains)])
    without = np.nan_to_num(without, nan=1.0)
    outlier = int(np.argmin(without))
    if without[outlier] - 1.0 < 0.5 * (whole - 1.0):
        return f"chain {outlier + 1} of {chains} disagrees"
    return f"chains disagree, chain {outlier + 1} of {chains} most,"


def _divergent(divergences: np.ndarray, draws: int, criteria: Criteria) -> str:
    share = float(np.sum(divergences)) / max(draws, 1)
    if share <= criteria.most_divergences:
        return ""
    return (
        f"{100 * share:.2g}% of the trajectories diverged; raise the target acceptance, or run a longer "
        "warm-up"
    )


def _single(chains: int) -> str:
    if chains > 1:
        return ""
    return "one chain alone cannot show what it has missed; run more chains"


class Plateau(NamedTuple):
    """Whether a trace has stopped changing, and a sentence on it."""

    reached: bool
    sentence: str


def plateau(
    trace: Float[np.ndarray, " steps"], name: str = "objective", tolerance: float = 0.1, errors: float = 3.0
) -> Plateau:
    """Whether the last fifth of a trace has the mean of the two fifths before it.

    Means may differ by `tolerance` (nats, for an ELBO), or by `errors` standard errors. These account for
    autocorrelation, and are of the residuals from a line: else a trend would excuse itself.
    """
    trace = np.asarray(trace, dtype=float).ravel()
    if not np.isfinite(trace).all():
        first = int(np.argmin(np.isfinite(trace)))
        return Plateau(False, f"the {name} is not finite at step {first + 1}; lower the learning rate")
    length = len(trace) // 5
    if length < 10:
        return Plateau(False, f"{len(trace)} steps are too few to see whether the {name} still changes")
    fifths = trace[-5 * length :].reshape(5, length)
    last, last_error = _mean_and_error(fifths[4])
    for fifth in fifths[2:4]:
        mean, error = _mean_and_error(fifth)
        change = last - mean
        if abs(change) > max(tolerance, errors * math.hypot(error, last_error)):
            verb = "rose" if change > 0 else "fell"
            words = f"the {name} still {verb} by {abs(change):,.3g} towards the end; run longer"
            return Plateau(False, words)
    return Plateau(True, f"the {name} no longer changes over the last three fifths of {len(trace):,} steps")


def _mean_and_error(part: Float[np.ndarray, " steps"]) -> tuple[float, float]:
    """The mean, and its standard error by overlapping batch means of the residuals from a line."""
    steps = np.arange(len(part)) - (len(part) - 1) / 2
    residuals = part - part.mean() - steps * (steps @ part) / (steps @ steps)
    width = max(int(len(part) ** 0.6), 2)
    sums = np.concatenate([[0.0], residuals.cumsum()])
    batches = (sums[width:] - sums[:-width]) / width
    return float(part.mean()), float(np.sqrt(width * np.mean(batches**2) / len(part)))


def diagnose_objective(
    trace: Float[np.ndarray, " steps"], name: str = "objective", *, finite: bool = True
) -> Diagnostics:
    """The verdict on an optimisation: whether its objective has stopped changing, and nothing more."""
    reached, sentence = _checked_plateau(trace, name, finite)
    status = f"settled: {sentence}" if reached else f"not settled: {sentence}"
    return Diagnostics(status, reached, f"plateau of the {name}")


def diagnose_particles(
    trace: Float[np.ndarray, " steps"], discrepancy: float, particles: int, *, finite: bool = True
) -> Diagnostics:
    """The verdict on particles: whether they came to rest, and their kernel Stein discrepancy."""
    name = "particles' mean log-density"
    reached, sentence = _checked_plateau(trace, name, finite)
    if reached and not math.isfinite(discrepancy):
        reached, sentence = False, "the kernel Stein discrepancy is not finite; lower the learning rate"
    measured = f"kernel Stein discrepancy {discrepancy:.3g} of {particles} particles"
    status = f"{'settled' if reached else 'not settled'}: {sentence}; {measured}"
    checked = f"plateau of the {name}, and kernel Stein discrepancy"
    return Diagnostics(status, reached, checked, discrepancy=discrepancy)


def _checked_plateau(trace: Float[np.ndarray, " steps"], name: str, finite: bool) -> Plateau:
    if not finite:
        return Plateau(False, "some outputs at the probes are not finite; lower the learning rate")
    return plateau(trace, name)
