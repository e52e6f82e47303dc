"""Figures of each rule: how far it is kept, what it changes, and what the data say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ocbnn.checking.draws import column_groups
from ocbnn.checking.explain import RowsAgainst, contradicting_rows
from ocbnn.checking.results import RuleChecks
from ocbnn.model import Data
from ocbnn.model.conditional import RuleTerm
from ocbnn.posterior.conflict import change_sizes, point_predictions
from ocbnn.posterior.draws import Posterior
from ocbnn.report.evidence import LEAST_ROWS, Change, RuleFacts
from ocbnn.report.held_out import HeldOut
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Schema

CHANGED = 0.1
"""A predicted number counts as changed where it moves by more than this share of sd(y)."""
MORE = 1.25
"""A part of a region is named where predictions change by this much more than in all of it."""


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
    moved = None if rows is None or without is None else _moved_rows(posterior, without, rows)
    reasons = {each["name"]: str(each["reason"]) for each in posterior.provenance.get("unmet") or ()}
    facts = []
    for index, term in enumerate(posterior.rules):
        rule, check = term.rule, checks[index]
        strength = float(np.asarray(term.points.strength))
        facts.append(
            RuleFacts(
                check=check,
                source=rule.source,
                reason=rule.reason,
                strength=strength if np.isfinite(strength) else None,
                columns=tuple(name for name in term.schema.names if name in rule.region.columns()),
                enforced=any(rule == other.rule for other in posterior.enforced),
                unmet_reason=reasons.get(check.name) if check.verdict == "unmet" else None,
                without=None if without_checks is None else without_checks[index],
                change=None
                if without is None
                else _change(posterior, without, term, term.fresh_inputs(points, key), rows, moved),
                recorded=None if rows is None else _recorded(posterior, term, rows),
            )
        )
    return tuple(facts)


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
    before, after = (
        float((values if member is None else values[:, member].sum(axis=1)).mean())
        for values in (there, here)
    )
    counts: dict[str, Any] = {}
    if rows is not None and moved is not None:
        inside = term.rule.region.contains(rows.coded, term.schema)
        counts = {
            "size_outside": None if inside.all() else float(moved.size[~inside].mean()),
            "rows_inside": int(inside.sum()),
            "changed_inside": int(moved.changed[inside].sum()),
            "rows_outside": int((~inside).sum()),
            "changed_outside": int(moved.changed[~inside].sum()),
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


def _recorded(posterior: Posterior, term: RuleTerm, rows: HeldOut) -> RowsAgainst:
    """Held-out rows in the region, and how many of their outcomes violate the rule; never single rows."""
    inputs = posterior.schema.to_model(rows.coded)
    found = contradicting_rows(replace(posterior.model, data=Data(inputs, rows.y_model)), term)
    return RowsAgainst(found.inside, None if found.inside < LEAST_ROWS else found.against)
