"""Facts of a report: scores of held-out rows, the prior, how far a rule is kept, and what it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.stats import chi2

from ocbnn.checking.draws import column_groups, evenly
from ocbnn.checking.explain import RowsAgainst, rows_against
from ocbnn.checking.results import RuleChecks
from ocbnn.errors import OCBNNError
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.priors import LayerScales
from ocbnn.plots.slices import prior_sliced
from ocbnn.posterior.calibration import LEAST_ROWS, Calibration, Judged, judged, summarised
from ocbnn.posterior.conflict import change_sizes, compared, log_scores, point_predictions
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.predict import predict
from ocbnn.posterior.price import prices
from ocbnn.posterior.sensitivity import sensitivities
from ocbnn.report.evidence import (
    CalibrationFacts,
    Change,
    LayerScale,
    NoiseFacts,
    Performance,
    PriorFacts,
    RuleFacts,
)
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Schema
from ocbnn.seeds import seed_for

MOST_ROWS = 4000
"""Held-out rows that are used; more would make figures hardly sharper."""
WIDTH_ROWS = 200
LEAST_OUTCOMES = 5
"""Held-out rows below which nothing is said of a group's outcomes."""
CHANGED = 0.1
"""A predicted number counts as changed where it moves by more than this share of sd(y)."""
MORE = 1.25
"""A part of a region is named where predictions change by this much more than in all of it."""


# Held-out rows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that no posterior has seen: coded, with their target in model units and raw."""

    coded: Float[np.ndarray, "n Q"]
    y_model: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.coded)


def held_out(posterior: Posterior, frame: pd.DataFrame | None, y: Any, seed: int) -> HeldOut | None:
    """The rows as figures need them, at most `MOST_ROWS` by lot; None without rows."""
    if frame is None:
        if y is not None:
            raise OCBNNError("y was given without the rows it belongs to: give frame=… too.")
        return None
    target = posterior.target
    if y is None and target.name in frame.columns:
        y = frame[target.name]
    if y is None:
        raise OCBNNError(
            f"Held-out rows need their target: give y=…, or a frame with the column {target.name!r}."
        )
    coded = posterior.schema.encode(frame)
    raw = np.asarray(y)
    if len(raw) != len(coded):
        raise OCBNNError(f"There are {len(coded)} held-out rows, but {len(raw)} values of the target.")
    if not len(coded):
        return None
    model_y = target.to_model(pd.Series(raw, name=target.name))
    if len(coded) > MOST_ROWS:
        some = np.sort(np.random.default_rng(seed).choice(len(coded), MOST_ROWS, replace=False))
        coded, model_y, raw = coded[some], model_y[some], raw[some]
    return HeldOut(coded, model_y, raw)


def performance(posterior: Posterior, without: Posterior | None, rows: HeldOut) -> Performance:
    """Scores with and without the rules."""
    here = log_scores(posterior, rows.coded, rows.y)
    with_rules = _scores(posterior, rows, here)
    if without is None:
        return Performance(len(rows), with_rules)
    there = log_scores(without, rows.coded, rows.y)
    return Performance(len(rows), with_rules, _scores(without, rows, there), compared(here, there))


def _scores(posterior: Posterior, rows: HeldOut, log_score: Float[np.ndarray, " n"]) -> dict[str, float]:
    predicted = point_predictions(posterior, rows.coded)
    found = {"log_score": float(log_score.mean())}
    if posterior.classes:
        # Of two classes the squared error counts once, as is usual: a coin's is 0.25.
        squared = (predicted - np.eye(len(posterior.classes))[rows.y_model]) ** 2
        return found | {
            "accuracy": float((predicted.argmax(axis=1) == rows.y_model).mean()),
            "brier": float(squared.sum(axis=1).mean()) / (2.0 if len(posterior.classes) == 2 else 1.0),
        }
    error = predicted - posterior.target.to_raw(rows.y_model)
    few = rows.coded[evenly(len(rows), WIDTH_ROWS)]
    observation = predict(posterior, few, levels=(0.05, 0.95), coverage=None).observation
    assert observation is not None
    assert observation.quantiles is not None
    return found | {
        "mean_absolute_error": float(np.abs(error).mean()),
        "root_mean_squared_error": float(np.sqrt((error**2).mean())),
        "mean_width_90": float(np.diff(observation.quantiles, axis=1).mean()),
    }


def calibration_facts(posterior: Posterior, without: Posterior | None, rows: HeldOut) -> CalibrationFacts:
    """Calibration of all rows, and of those inside and outside of the ruled regions."""
    found = judged(posterior, rows.coded, rows.y)
    inside = np.zeros(len(rows), dtype=bool)
    for term in posterior.rules:
        inside |= term.rule.applies(rows.coded, term.schema)
    other = None
    if without is not None:
        other = _part(without, judged(without, rows.coded, rows.y), np.ones_like(inside))
    return CalibrationFacts(
        everywhere=_part(posterior, found, np.ones_like(inside)),
        inside=_part(posterior, found, inside),
        outside=_part(posterior, found, ~inside),
        without_everywhere=other,
        rows_inside=int(inside.sum()),
        rows_outside=int((~inside).sum()),
    )


def _part(posterior: Posterior, found: Judged, some: Bool[np.ndarray, " n"]) -> Calibration | None:
    if some.sum() < LEAST_ROWS:
        return None
    return summarised(posterior, Judged(*(each[some] for each in found)))


# Noise ------------------------------------------------------------------------------------------------------


def noise_facts(posterior: Posterior, cases: Float[np.ndarray, "n Q"]) -> NoiseFacts | None:
    """The noise at the cases where it is least and where it is most; None for classes."""
    if posterior.classes:
        return None
    noise = posterior.noise(cases)
    mean, (low, high) = noise.mean(axis=0), np.quantile(noise, (0.05, 0.95), axis=0)
    least, most = (
        (float(mean[place]), float(low[place]), float(high[place]))
        for place in (int(np.argmin(mean)), int(np.argmax(mean)))
    )
    return NoiseFacts(least, most, varies=noise.shape[1] > 1)


# The prior --------------------------------------------------------------------------------------------------


def prior_facts(posterior: Posterior, column: str, seed: int) -> PriorFacts:
    """Functions of the base prior along a column, and the learnt scale of each layer."""
    model = posterior.model
    shown = prior_sliced(model, column, key=seed)
    return PriorFacts(shown, bool(model.learnt), _layer_scales(posterior, seed))


def _layer_scales(posterior: Posterior, seed: int) -> tuple[LayerScale, ...]:
    """The scale s of each layer: s² = degrees/χ² under the prior; after the data, draws of s² given w."""
    base, network = posterior.model.base, posterior.model.network
    if not isinstance(base, LayerScales):
        return ()
    middle, *ends = np.sqrt(base.degrees / chi2.ppf([0.5, 0.95, 0.05], base.degrees))
    layers = np.asarray(base.layers)
    counts = base.degrees + layers
    generator = np.random.default_rng(seed_for(seed, "scales of layers"))
    weights = posterior.flat[:, : network.size].astype(float)
    drawn = base.scales(weights) * np.sqrt(counts / generator.chisquare(counts, (len(weights), len(counts))))
    middles, (low, high) = drawn.mean(axis=0), np.quantile(drawn, (0.05, 0.95), axis=0)
    before = float(middle), float(ends[0]), float(ends[1])
    return tuple(
        LayerScale(name, before, (float(middles[place]), float(low[place]), float(high[place])))
        for place, name in enumerate(base.names)
        if layers[place] > 1  # a single weight says next to nothing of its scale
    )


# Rules ------------------------------------------------------------------------------------------------------


def rule_facts(
    posterior: Posterior,
    checks: RuleChecks,
    without: Posterior | None,
    without_checks: RuleChecks | None,
    rows: HeldOut | None,
    points: int,
    key: int,
) -> tuple[RuleFacts, ...]:
    """The facts of every rule of the posterior, in order."""
    changed = None if rows is None or without is None else _changed_rows(posterior, without, rows)
    reasons = {each["name"]: str(each["reason"]) for each in posterior.provenance.get("unmet") or ()}
    others = [None] * len(checks) if without_checks is None else list(without_checks)
    sensed = sensitivities(posterior, others, key=key)
    nothing = [None] * len(checks)
    priced = nothing if rows is None else prices(posterior, others, rows.coded, rows.y_model)
    facts = []
    for index, term in enumerate(posterior.rules):
        rule, check = term.rule, checks[index]
        strength = float(np.asarray(term.points.strength))
        facts.append(
            RuleFacts(
                check=check,
                source=rule.source,
                reason=rule.reason,
                strength=strength if np.isfinite(strength) and not check.by_construction else None,
                columns=tuple(name for name in term.schema.names if name in rule.region.columns()),
                enforced=any(rule == other.rule for other in posterior.enforced),
                unmet_reason=reasons.get(check.name) if check.verdict == "unmet" else None,
                without=others[index],
                change=None
                if without is None
                else _change(posterior, without, term, term.fresh_inputs(points, key), rows, changed),
                recorded=None if rows is None else _recorded(term, rows),
                sensitivity=sensed[index],
                price=priced[index],
            )
        )
    return tuple(facts)


# What the rules change --------------------------------------------------------------------------------------


def _changed_rows(posterior: Posterior, without: Posterior, rows: HeldOut) -> Bool[np.ndarray, " n"]:
    """Which held-out rows the rules give another answer."""
    here, there = (point_predictions(each, rows.coded) for each in (posterior, without))
    if posterior.classes:
        return np.asarray(here.argmax(axis=1) != there.argmax(axis=1))
    return change_sizes(here, there) > CHANGED * float(np.std(posterior.target.to_raw(rows.y_model)))


def _change(
    posterior: Posterior,
    without: Posterior,
    term: RuleTerm,
    fresh: Float[np.ndarray, "points Q"],
    rows: HeldOut | None,
    changed: Bool[np.ndarray, " n"] | None,
) -> Change:
    here, there = (point_predictions(each, fresh) for each in (posterior, without))
    size = change_sizes(here, there)
    quantity, member = _quantity(posterior, term, fresh)
    before, after = (
        float((values if member is None else values[:, member].sum(axis=1)).mean())
        for values in (there, here)
    )
    counts: dict[str, Any] = {}
    if rows is not None and changed is not None:
        inside = term.rule.applies(rows.coded, term.schema)
        counts = {
            "rows_inside": int(inside.sum()),
            "changed_inside": int(changed[inside].sum()),
            "rows_outside": int((~inside).sum()),
            "changed_outside": int(changed[~inside].sum()),
        }
    return Change(quantity, before, after, float(size.mean()), *_where(term, fresh, size), **counts)


def _quantity(
    posterior: Posterior, term: RuleTerm, fresh: Float[np.ndarray, "points Q"]
) -> tuple[str, np.ndarray | None]:
    """What a rule's mean prediction is of: y, or the total probability of the classes that the rule names."""
    target = posterior.target
    classes = target.classes
    if not classes:
        return target.name, None
    member = _members(term.rule, fresh, term.schema)
    if member is None:
        member = np.arange(len(classes)) == len(classes) - 1
    if len(classes) == 2:
        member = np.array([False, True])
    named = [str(label) for label, chosen in zip(classes, member, strict=True) if chosen]
    words = f"= {named[0]}" if len(named) == 1 else f"in {{{', '.join(named)}}}"
    return f"P({target.name} {words})", member


def _members(rule: Constraint, fresh: Float[np.ndarray, "points Q"], schema: Schema) -> np.ndarray | None:
    """The classes that a rule names; None where it names none."""
    if not rule.requirement.is_pointwise:
        return None
    demand = rule.demand(fresh[:1], schema)
    allowed, asked = rule.requirement.allowed(demand), rule.requirement.asked(demand)
    if allowed is not None and allowed.classes is not None:
        return np.asarray(allowed.classes)[0]
    if allowed is not None and allowed.shares is not None:
        return np.asarray(allowed.shares.members)[0]
    return None if asked is None or asked.events is None else np.asarray(asked.events)[0, 0]


def _where(
    term: RuleTerm, fresh: Float[np.ndarray, "points Q"], size: Float[np.ndarray, " points"]
) -> tuple[str | None, float | None]:
    """The part of the region where predictions change most, among values or quarters of a ruled column."""
    best: tuple[float, str] | None = None
    names = [name for name in term.schema.names if name in term.rule.region.columns()]
    for name in names or term.schema.names:
        for label, members in column_groups(term.schema, name, fresh):
            mean = float(size[members].mean())
            if best is None or mean > best[0]:
                best = mean, label
    if best is None or best[0] < MORE * float(size.mean()):
        return None, None
    return best[1], best[0]


def _recorded(term: RuleTerm, rows: HeldOut) -> RowsAgainst:
    """Held-out rows in the region, and how many of their outcomes violate the rule; never single rows."""
    found = rows_against(term, rows.coded, rows.y_model)
    against = None if found.inside < LEAST_OUTCOMES else found.against
    return RowsAgainst(found.inside, against, unknown=found.unknown)
