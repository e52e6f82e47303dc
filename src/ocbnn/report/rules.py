"""Figures of each rule: how far it is kept, what it changes, and what the data say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ocbnn.checking.cases import column_groups, rule_name
from ocbnn.checking.explain import contradicting_rows
from ocbnn.checking.results import RuleCheck, RuleChecks
from ocbnn.model import Data
from ocbnn.model.conditional import RuleTerm
from ocbnn.plots.slices import value_text
from ocbnn.posterior.conflict import point_predictions
from ocbnn.posterior.draws import Posterior
from ocbnn.report.evidence import (
    LEAST_ROWS,
    Change,
    Counterexample,
    Estimate,
    Recorded,
    RuleFacts,
)
from ocbnn.report.held_out import HeldOut
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Schema

CHANGED = 0.1
"""A predicted number counts as changed where it moves by more than this share of sd(y)."""
MORE = 1.25
"""A part of a region is named where predictions change by this much more than in all of it."""


def rule_facts(
    posterior: Posterior,
    report: RuleChecks,
    without: Posterior | None,
    without_report: RuleChecks | None,
    rows: HeldOut | None,
    points: int,
    key: int,
) -> tuple[RuleFacts, ...]:
    """The facts of every rule of the posterior, in order."""
    moved = None if rows is None or without is None else _moved_rows(posterior, without, rows)
    facts = []
    for index, term in enumerate(posterior.rules):
        change = None
        if without is not None:
            fresh = term.fresh_inputs(points, key)
            change = _change(posterior, without, term, fresh, rows, moved)
        found = _facts(posterior, term, report[index])
        other = None if without_report is None else Estimate.of(without_report[index].violation)
        recorded = None if rows is None else _recorded(posterior, term, rows)
        facts.append(replace(found, without=other, change=change, recorded=recorded))
    return tuple(facts)


def _facts(posterior: Posterior, term: RuleTerm, found: RuleCheck) -> RuleFacts:
    rule, schema = term.rule, term.schema
    violation = Estimate.of(found.violation)
    assert violation is not None
    unmet = found.verdict == "unmet"
    worst = Estimate.of(found.epsilon_worst) or Estimate(found.worst.value)
    return RuleFacts(
        name=rule_name(term),
        text=found.text,
        source=rule.source,
        reason=rule.reason,
        tolerance=found.tolerance,
        strength=_finite(float(np.asarray(term.points.strength))),
        columns=tuple(name for name in schema.names if name in rule.region.columns()),
        probabilistic=rule.is_predictive,
        enforced=any(rule == other.rule for other in posterior.enforced),
        verdict=found.verdict,
        measure=found.measure,
        violation=violation,
        points=found.points,
        points_found=found.points_found,
        epsilon_worst=worst,
        draws_violating=Estimate.of(found.draws_violating),
        points_violating=Estimate.of(found.points_violating),
        mass_outside=Estimate.of(found.mass_outside),
        counterexample=_counterexample(schema, term, found, worst),
        unmet_reason=_unmet_reason(posterior.provenance, rule_name(term)) if unmet else None,
    )


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _counterexample(
    schema: Schema, term: RuleTerm, found: RuleCheck, broken: Estimate
) -> Counterexample | None:
    if not found.worst_point or broken.value <= 0.0:
        return None
    ruled = term.rule.region.columns()
    first = sorted(schema.columns, key=lambda column: column.name not in ruled)
    case = {c.name: value_text(found.worst_point[c.name], c.unit) for c in first}
    return Counterexample(case, tuple(c.name for c in first if c.name in ruled), broken, found.worst_how)


def _unmet_reason(provenance: Mapping[str, Any], name: str) -> str | None:
    for outcome in provenance.get("unmet") or ():
        if outcome.get("name") == name:
            return str(outcome.get("reason"))
    return None


# What the rules change --------------------------------------------------------------------------------------


class Moved(NamedTuple):
    """How far each held-out row's prediction moves through the rules, and whether it is another answer."""

    size: Float[np.ndarray, " n"]
    changed: Bool[np.ndarray, " n"]


def _moved_rows(posterior: Posterior, without: Posterior, rows: HeldOut) -> Moved:
    here, there = (point_predictions(each, rows.coded) for each in (posterior, without))
    size = change_sizes(here, there)
    if posterior.classes:
        return Moved(size, here.argmax(axis=1) != there.argmax(axis=1))
    return Moved(size, size > CHANGED * float(np.std(posterior.target.to_raw(rows.y_model))))


def _change(
    posterior: Posterior,
    without: Posterior,
    term: RuleTerm,
    fresh: Float[np.ndarray, "points Q"],
    rows: HeldOut | None,
    moved: Moved | None,
) -> Change:
    here, there = (point_predictions(each, fresh) for each in (posterior, without))
    size = change_sizes(here, there)
    quantity, member = _quantity(posterior, term, fresh)
    before, after = (_mean_of(values, member) for values in (there, here))
    where, size_where = _where(term, fresh, size)
    counts: dict[str, int] = {}
    outside_size = None
    if rows is not None and moved is not None:
        inside = term.rule.region.contains(rows.coded, term.schema)
        outside_size = None if inside.all() else float(moved.size[~inside].mean())
        counts = {
            "rows_inside": int(inside.sum()),
            "changed_inside": int(moved.changed[inside].sum()),
            "rows_outside": int((~inside).sum()),
            "changed_outside": int(moved.changed[~inside].sum()),
        }
    return Change(
        quantity,
        None if posterior.classes else posterior.target.unit,
        before,
        after,
        float(size.mean()),
        outside_size,
        where,
        size_where,
        **counts,
    )


def change_sizes(here: np.ndarray, there: np.ndarray) -> Float[np.ndarray, " n"]:
    """How far point predictions differ: |Δy| in raw units, or total variation between class probabilities."""
    return np.abs(here - there) if here.ndim == 1 else 0.5 * np.abs(here - there).sum(axis=1)


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


def _mean_of(values: np.ndarray, member: np.ndarray | None) -> float:
    return float((values if member is None else values[:, member].sum(axis=1)).mean())


def _where(
    term: RuleTerm, fresh: Float[np.ndarray, "points Q"], size: Float[np.ndarray, " points"]
) -> tuple[str | None, float | None]:
    """The part of the region where predictions change most, among values or quarters of a ruled column."""
    best: tuple[float, str] | None = None
    names: Sequence[str] = [name for name in term.schema.names if name in term.rule.region.columns()]
    for name in names or term.schema.names:
        for label, members in column_groups(term.schema, name, fresh):
            mean = float(size[members].mean())
            if best is None or mean > best[0]:
                best = mean, label
    if best is None or best[0] < MORE * float(size.mean()):
        return None, None
    return best[1], best[0]


def _recorded(posterior: Posterior, term: RuleTerm, rows: HeldOut) -> Recorded:
    """Held-out rows in the region, and how many of their outcomes break the rule, where rows can do that."""
    inputs = posterior.schema.to_model(rows.coded)
    count, breaking, _ = contradicting_rows(replace(posterior.model, data=Data(inputs, rows.y_model)), term)
    return Recorded(count, None if count < LEAST_ROWS else breaking)
