"""How far draws obey a rule, on fresh points: the figure that strength is chosen by and a run is judged by.

Draws are dependent and points share draws, so the unit is a draw: its share of violated points, with as many
independent ones as their effective sample size. Probabilistic rules are judged by the total variation between
the predictive and what the rule asks for, averaged over points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from ocbnn import violation
from ocbnn.checking.intervals import jackknife, leave_one_out, share_ends
from ocbnn.inference.diagnostics import worst_ess
from ocbnn.inference.feed import all_rules
from ocbnn.linting import lint
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.likelihoods import Gaussian
from ocbnn.model.outputs import model_outputs
from ocbnn.rules.divergences import normal_total_variation
from ocbnn.rules.located import (
    Located,
    NormalMixture,
    TargetClassProbabilities,
    TargetProbability,
    in_model_units,
)

FRESH_POINTS = 2048
MOST_DRAWS = 1000  # of all chains together, evenly spaced
GROUPS = 10  # of draws left out in turns, where there are not enough chains to leave out
NORMAL_POINTS = 64  # at which predictives of Y are compared: integrals, not counts
SHOWN_ROWS = 3


Verdict = Literal["met", "unmet", "not shown at this tolerance"]


class Measured(NamedTuple):
    """A rule's violation (mean share, or total variation), its standard error, the effective draws behind it,
    and its interval, as wide as it can be where nothing is known of it. `by_points` is the standard error
    from having tried these points and no others.
    """

    violation: float
    error: float
    effective: float
    low: float = 0.0
    high: float = math.inf
    by_points: float = 0.0

    def shown_within(self, tolerance: float) -> bool:
        """Whether a pilot has seen enough: the violation is within the tolerance with two errors to spare.

        Both errors: other draws, and other points, for a rule may be broken in few places and often there.
        Where no violation was seen the error says nothing; then 3/n is what n draws leave possible (95%), but
        never more than half of the tolerance: few particles could not show any rule to be kept, and more
        strength than this would only make them stiffer. The verdict on the kept draws does not bend so.
        """
        possible = 3.0 / max(self.effective, 1.0) if self.violation == 0.0 else 0.0
        spare = 2.0 * math.hypot(self.error, self.by_points)
        return self.violation + max(spare, min(possible, 0.5 * tolerance)) <= tolerance

    def verdict(self, tolerance: float) -> Verdict:
        """Met where the whole interval is within the tolerance, unmet where all of it is beyond."""
        if self.high <= tolerance:
            return "met"
        return "not shown at this tolerance" if self.low <= tolerance else "unmet"

    def __str__(self) -> str:
        ends = f" (between {self.low:.3g} and {self.high:.3g})" if math.isfinite(self.high) else ""
        return f"{self.violation:.3g}{ends}"


def measure(
    model: Model,
    rule: RuleTerm,
    draws: Float[np.ndarray, "chains draws size"],
    seed: int,
    points: int = FRESH_POINTS,
) -> Measured:
    """The rule's violation under these draws, on fresh points of its region."""
    coded = rule.fresh(points, seed, "pilot")
    target = rule.schema.target
    assert target is not None
    located = in_model_units(rule.rule.locate(coded, rule.schema), target)
    kept = _spaced(draws)
    chains, count, size = kept.shape
    outputs = model_outputs(model, kept.reshape(-1, size), rule.schema.to_model(coded))
    if isinstance(located, TargetProbability | TargetClassProbabilities | NormalMixture):
        return _total_variation(model, rule, located, outputs, kept)
    violated = violation.violates(rule.rule.output, located, outputs)
    share = violated.mean(axis=-1).reshape(chains, count)
    series, effective = share, float(share.size)
    if np.ptp(share) == 0.0:
        # Shares that never change say nothing of how draws depend on each other; the margins behind them do.
        margins = np.asarray(violation.margin(rule.rule.output, located, outputs))
        series = np.nan_to_num(margins.max(axis=-1)).reshape(chains, count)
    known = worst_ess(series[..., None])
    if known > 0.0 or series is share:
        effective = max(min(known, effective), 1.0)
    error = float(share.std() / math.sqrt(effective))
    by_points = float(violated.mean(axis=0).std() / math.sqrt(points))
    ends = share_ends(share.ravel(), effective)
    return Measured(float(share.mean()), error, effective, *ends, by_points=by_points)


def most_broken(
    model: Model,
    rule: RuleTerm,
    draws: Float[np.ndarray, "chains draws size"],
    seed: int,
    count: int,
) -> Float[np.ndarray, "found Q"]:
    """Of fresh points of the rule's region, so many at which most draws break it."""
    points = rule.at(rule.fresh(FRESH_POINTS, seed, "between"))
    outputs = model_outputs(model, _spaced(draws).reshape(-1, draws.shape[-1]), np.asarray(points.inputs))
    shares = violation.violates(rule.rule.output, points.located, outputs).mean(axis=0)
    worst = np.argsort(-shares, kind="stable")[:count]
    return np.asarray(points.coded)[worst[shares[worst] > 0.0]]


def _spaced(draws: Float[np.ndarray, "chains draws size"]) -> Float[np.ndarray, "chains draws size"]:
    """At most `MOST_DRAWS` of them, evenly spaced along the chains."""
    return draws[:, :: max(1, math.ceil(draws.shape[0] * draws.shape[1] / MOST_DRAWS))]


def _total_variation(
    model: Model,
    rule: RuleTerm,
    located: Located,
    outputs: np.ndarray,
    draws: Float[np.ndarray, "chains draws size"],
) -> Measured:
    """Between the predictive and D_y, averaged over points; its error by leaving out groups of draws."""
    total = len(outputs)
    groups = np.arange(total) * GROUPS // total if len(draws) < 4 else np.arange(total) // draws.shape[1]
    weights = np.concatenate([np.full((1, total), 1.0 / total), leave_one_out(groups)])
    if isinstance(located, NormalMixture):
        distance = _predictive_distances(model, located, outputs, draws, weights)
    else:
        means = np.tensordot(weights, outputs, axes=1)
        distance = np.stack([violation.margin(rule.rule.output, located, mean) for mean in means])
    value, *without = distance.mean(axis=1)
    half = jackknife(float(value), np.array(without)) if total > 1 else math.inf
    error = half / 2.0 if math.isfinite(half) else 0.0
    return Measured(float(value), error, float(total), max(float(value) - half, 0.0), float(value) + half)


def _predictive_distances(
    model: Model,
    located: NormalMixture,
    outputs: Float[np.ndarray, "S n"],
    draws: Float[np.ndarray, "chains draws size"],
    weights: Float[np.ndarray, "groups S"],
) -> Float[np.ndarray, "groups points"]:
    """Total variation between the predictive of Y, noise included, and D_y, at some of the points."""
    likelihood = model.likelihood
    assert isinstance(likelihood, Gaussian)
    flat = draws.reshape(-1, draws.shape[-1])
    noise = np.broadcast_to(likelihood.noise or np.exp(flat[:, model.network.size]), len(flat))
    some = np.arange(0, outputs.shape[1], max(1, outputs.shape[1] // NORMAL_POINTS))
    there = NormalMixture(*(np.asarray(each)[some] for each in located))
    return normal_total_variation(there, outputs[:, some].astype(float), noise.astype(float), weights)


def not_shown_reason(rule: RuleTerm, measured: Measured) -> str:
    """What the draws leave open, and what would close it."""
    return (
        f"violation {measured} against the tolerance {rule.tolerance:g} is not decided by "
        f"{measured.effective:,.0f} effective draws: draw more, or raise its tolerance"
    )


def unmet_reason(
    model: Model, rule: RuleTerm, measured: Measured, alone: Measured | None, *, found: bool
) -> str:
    """Why a rule is not met, and what can be done.

    Args:
        model: with the data and the other rules that may stand against it.
        rule: the one in question.
        measured: its violation in the kept draws.
        alone: its violation in networks fitted to this rule only, where that says anything.
        found: whether its strength was searched for.
    """
    said = f"violation {measured} exceeds the tolerance {rule.tolerance:g}"
    other = contradicting_rule(model, rule)
    if other:
        return f"{said}; {other}: no network can obey both; correct one of them, or restrict its region"
    rows = contradicting_rows(model, rule)
    if rows.against:
        return f"{said}; it conflicts with {rows}: check them, raise its tolerance, or enforce it"
    if alone is not None and alone.violation > rule.tolerance:
        return (
            f"{said}, and networks fitted to this rule alone, without data, still violate it "
            f"({alone.violation:.3g}): the network is too small for it; give it more hidden units"
        )
    if not found and not rule.rule.output.is_probabilistic:
        strength = float(rule.points.strength)
        return f"{said} at the strength {strength:g} that it was given: leave strength out to have it found"
    able = "" if alone is None else "the network can obey it, so "
    near = "" if model.data is None else "rows next to its region, "
    return (
        f"{said}; {able}{near}another rule or an engine that has not converged stands against it: look at "
        "the status, raise its tolerance, or enforce it"
    )


def learnt_unmet_reason(model: Model, rule: RuleTerm, measured: Measured) -> str:
    """Why a rule that the base prior has learnt is not met under these data, and what can be done."""
    said = f"violation {measured} exceeds the tolerance {rule.tolerance:g}"
    rows = contradicting_rows(model, rule)
    conflict = f"it conflicts with {rows}; " if rows.against else ""
    return (
        f"{said}; {conflict}the data move the learnt prior away from it: learn the prior with a larger "
        "concentration, add the rule as a conditional term too (rules=), or enforce it"
    )


def contradicting_rule(model: Model, rule: RuleTerm) -> str:
    """The other rule that allows no output in common with this one, and where; empty if there is none."""
    for other in all_rules(model):
        if other.rule == rule.rule:
            continue
        pair = (replace(rule.rule, name="this"), replace(other.rule, name="other"))
        for finding in lint(pair, rule.schema):
            if finding.kind == "contradiction":
                where = "" if not finding.witness else f" where {_in_words(finding.witness)}"
                named = other.rule.name or other.rule.text(other.schema)
                return f"it and {named!r} have no output in common{where}"
    return ""


class RowsAgainst(NamedTuple):
    """How many rows lie in a rule's region, how many of those break it, and some of these in words."""

    inside: int
    against: int
    some: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = f" ({'; '.join(self.some)}{'; …' if self.against > len(self.some) else ''})"
        return f"{self.against:,} of the {self.inside:,} rows in its region{shown if self.some else ''}"


def contradicting_rows(model: Model, rule: RuleTerm) -> RowsAgainst:
    """The rows of the data in the region that break the rule."""
    if model.data is None:
        return RowsAgainst(0, 0)
    coded = rule.schema.to_raw(np.asarray(model.data.inputs, dtype=float))
    inside = np.flatnonzero(rule.rule.region.contains(coded, rule.schema))
    target = rule.schema.target
    assert target is not None
    if not inside.size:
        return RowsAgainst(0, 0)
    located = in_model_units(rule.rule.locate(coded[inside], rule.schema), target)
    if isinstance(located, TargetProbability | TargetClassProbabilities | NormalMixture):
        return RowsAgainst(len(inside), 0)
    y = np.asarray(model.data.y)[inside]
    outputs = np.eye(len(target.classes))[y.astype(int)] if target.classes else y
    against = np.flatnonzero(violation.violates(rule.rule.output, located, outputs))
    some = against[:SHOWN_ROWS]
    cases = rule.schema.decode(coded[inside[some]]).to_dict("records")
    said = target.to_raw(y[some].astype(int) if target.classes else y[some])
    words = tuple(
        f"{_in_words({str(name): value for name, value in case.items()})}: {target.name} = {_number(value)}"
        for case, value in zip(cases, said, strict=True)
    )
    return RowsAgainst(len(inside), len(against), words)


def _in_words(point: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {_number(value)}" for name, value in point.items())


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
