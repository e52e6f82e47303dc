"""Why a rule is not met, or not shown, and what can be done: other rules, rows of the data, the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ocbnn.checking.figures import Figure
from ocbnn.checking.results import IN_WORDS, Level, RuleCheck
from ocbnn.linting import lint
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.model import Model
from ocbnn.rules.requirement import Units

SHOWN_ROWS = 3


def not_shown_reason(rule: RuleTerm, check: RuleCheck) -> str:
    """What the draws, and rows of groups, leave open, and what would close it."""
    if check.asked == "proved":
        said = (
            f"{_shown(check)} of draws are not proved to keep it everywhere, against the tolerance "
            f"{rule.tolerance:g}"
        )
        if check.violation.value <= check.tolerance:
            return f"{said}, which is not decided by {_effective(check)}: draw more, or raise its tolerance"
        return (
            f"{said}: prove with a larger budget, declare narrower bounds of the columns, "
            "give a smaller network, or raise its tolerance"
        )
    rows, further = (" and the rows of the groups", ", give more rows") if check.counts_rows else ("", "")
    return (
        f"violation {_shown(check)} {_level(check)} against the tolerance {rule.tolerance:g} is not "
        f"decided by {_effective(check)}{rows}: draw more{further}, or raise its tolerance"
    )


def unmet_reason(
    model: Model, rule: RuleTerm, check: RuleCheck, alone: RuleCheck | None, *, found: bool
) -> str:
    """Why a rule is not met, and what can be done.

    Args:
        model: with the data and the other rules that may stand against it.
        rule: the one in question.
        check: on the kept draws.
        alone: the check of networks fitted to this rule only, where that says anything.
        found: whether its strength was searched for.
    """
    said = _exceeding(rule, check)
    other = contradicting_rule(model, rule)
    if other:
        return f"{said}; {other}: no network can obey both; correct one of them, or restrict its region"
    rows = contradicting_rows(model, rule)
    if rows.against:
        return f"{said}; it conflicts with {rows}: check them, raise its tolerance, or enforce it"
    if alone is not None and alone.violation.value > rule.tolerance:
        return (
            f"{said}, and networks fitted to this rule alone, without data, still violate it "
            f"({alone.violation.value:.3g}): the network is too small for it; give it more hidden units"
        )
    if not found and not rule.rule.is_predictive:
        strength = float(rule.points.strength)
        return f"{said} at the strength {strength:g} that it was given: leave strength out to have it found"
    able = "" if alone is None else "the network can obey it, so "
    near = "" if model.data is None else "rows next to its region, "
    if rows.against is None and rows.inside:
        near = f"the {rows.inside:,} rows in its region, "
    return (
        f"{said}; {able}{near}another rule or an engine that has not converged stands against it: look at "
        "the status, raise its tolerance, or enforce it"
    )


def learnt_unmet_reason(model: Model, rule: RuleTerm, check: RuleCheck) -> str:
    """Why a rule that the base prior has learnt is not met under these data, and what can be done."""
    said = _exceeding(rule, check)
    rows = contradicting_rows(model, rule)
    conflict = f"it conflicts with {rows}; " if rows.against else ""
    return (
        f"{said}; {conflict}the data move the learnt prior away from it: learn the prior with a larger "
        "concentration, add the rule as a conditional term too (rules=), or enforce it"
    )


def contradicting_rule(model: Model, rule: RuleTerm) -> str:
    """The first rule that allows no output in common with this one, and where; "" without such a rule."""
    for other in model.rules:
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
    """How many rows lie in a rule's region, how many of those contradict it, and some of these in words.

    Attributes:
        inside: rows to which the rule applies.
        against: rows of those that contradict it; None where a single row can say nothing against the rule.
        some: a few of those in words.
        unknown: rows without a value that the rule needs; it does not apply to them.
    """

    inside: int
    against: int | None
    some: tuple[str, ...] = ()
    unknown: int = 0

    def __str__(self) -> str:
        lacking = f" ({lacking_words(self.unknown)})" if self.unknown else ""
        return f"{self.against or 0:,} of the {self.inside:,} rows in its region{lacking}"


def lacking_words(rows: int) -> str:
    """`it does not apply to 3 rows without a value that it needs`."""
    return f"it does not apply to {rows:,} row{'s' if rows != 1 else ''} without a value that it needs"


def contradicting_rows(model: Model, rule: RuleTerm) -> RowsAgainst:
    """The rows of the data in the region that contradict the rule."""
    if model.data is None:
        return RowsAgainst(0, 0)
    coded = rule.schema.to_raw(np.asarray(model.data.inputs, dtype=float))
    return rows_against(rule, coded, np.asarray(model.data.y))


def rows_against(rule: RuleTerm, coded: np.ndarray, outcomes: np.ndarray) -> RowsAgainst:
    """The rows in the region that contradict the rule.

    Args:
        rule: of a model.
        coded: the rows, `(n, Q)`.
        outcomes: their target in model units, `(n,)`.
    """
    inside = np.flatnonzero(rule.rule.applies(coded, rule.schema))
    unknown = int(rule.rule.lacks_value(coded, rule.schema).sum())
    target = rule.schema.target
    assert target is not None
    if not inside.size:
        return RowsAgainst(0, 0, unknown=unknown)
    if not rule.rule.requirement.is_pointwise:
        return RowsAgainst(len(inside), None, unknown=unknown)  # a single row is not a case of the rule
    y = outcomes[inside]
    observed = np.eye(len(target.classes))[y.astype(int)] if target.classes else y.astype(float)
    demand = rule.rule.demand(coded[inside], rule.schema, Units.of_model(target))
    contradicts = rule.rule.requirement.against(demand, observed)
    if contradicts is None:
        return RowsAgainst(len(inside), None, unknown=unknown)
    against = np.flatnonzero(contradicts)
    some = against[:SHOWN_ROWS]
    cases = rule.schema.decode(coded[inside[some]]).to_dict("records")
    said = target.to_raw(y[some].astype(int) if target.classes else y[some])
    words = tuple(
        f"{_in_words({str(name): value for name, value in case.items()})}: {target.name} = {_number(value)}"
        for case, value in zip(cases, said, strict=True)
    )
    return RowsAgainst(len(inside), len(against), words, unknown)


def _exceeding(rule: RuleTerm, check: RuleCheck) -> str:
    if check.asked == "proved" and check.draws_unproved is not None:
        return (
            f"{_shown(check)} of draws are not proved to keep it everywhere, and more are refuted than the "
            f"tolerance {rule.tolerance:g} accepts"
        )
    return f"violation {_shown(check)} {_level(check)} exceeds the tolerance {rule.tolerance:g}"


def _said(check: RuleCheck) -> tuple[Figure, Level]:
    """The figure that shows why a rule is unmet, and its level; a mean may show it of the worst case too."""
    if (
        check.asked != "on average"
        and check.at("on average") == "unmet"
        and check.worst.low <= check.tolerance
    ):
        return check.average, "on average"
    return check.violation, check.asked


def _shown(check: RuleCheck) -> str:
    figure, _ = _said(check)
    ends = f" (between {figure.low:.3g} and {figure.high:.3g})" if np.isfinite(figure.high) else ""
    return f"{figure.value:.3g}{ends}"


def _level(check: RuleCheck) -> str:
    """`on average`, or `in the worst case found, at x = 2`."""
    words = IN_WORDS[_said(check)[1]]
    if check.asked == "on average" or not check.worst_point:
        return words
    worst = "" if words == IN_WORDS[check.asked] else "worst "
    return f"{words}, {worst}at {_in_words(check.worst_point)},"


def _effective(check: RuleCheck) -> str:
    effective = check.violation.effective
    return f"{effective:,.0f} effective draws" if np.isfinite(effective) else "these draws"


def _in_words(point: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {_number(value)}" for name, value in point.items())


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
