"""Rules as users give them, and what about them is doubtful beside the table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ocbnn.errors import OCBNNWarning, RuleError
from ocbnn.inference.feed import rule_terms
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import load_rules
from ocbnn.rules.outputs import beyond_probabilities
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema

RULE_FILES = (".yaml", ".yml")
FAR = 2.0
"""Observed ranges between what was observed and a region from which on other units are suspected."""


def listed(rules: Any) -> list[Any]:
    """The rules one by one, also where there is only one."""
    if rules is None:
        return []
    if isinstance(rules, str | os.PathLike | Constraint | RuleTerm):
        return [rules]
    if not isinstance(rules, Iterable) or isinstance(rules, Mapping):
        raise RuleError(
            f"rules= takes rules in words, constraints, or the path of a rules.yaml, one or a list of them, "
            f"not {rules!r}."
        )
    return list(rules)


def constraints(rules: Any, schema: Schema) -> list[Constraint]:
    """The rules as constraints on this table."""
    return [rule for given in listed(rules) for rule in _of_one(given, schema)]


def _of_one(given: Any, schema: Schema) -> tuple[Constraint, ...]:
    if isinstance(given, Constraint):
        return (given,)
    if isinstance(given, os.PathLike) or (isinstance(given, str) and Path(given).suffix in RULE_FILES):
        return load_rules(given, schema)
    if isinstance(given, str):
        return (parse_rule(given, schema),)
    raise RuleError(
        f"A rule is words, a constraint, or the path of a rules.yaml, not a {type(given).__name__}."
    )


def warn_of_scaled_inputs(rules: Sequence[Constraint], schema: Schema) -> None:
    """Warn where a rule speaks of a column far outside of what was observed, as it does behind a scaler.

    A region a bit beyond the observed is what rules are for; one that lies further than twice the observed
    range away is rather in other units. A constant says nothing of its unit.
    """
    for rule in rules:
        low, high = rule.region.bounding_box(schema)
        for name in sorted(rule.region.columns()):
            place = schema.index(name)
            observed = schema.columns[place].observed
            room = FAR * (observed[1] - observed[0])
            if room > 0 and (low[place] > observed[1] + room or high[place] < observed[0] - room):
                warnings.warn(
                    f"The rule `{rule.text(schema)}` speaks of {name} far outside of what was observed "
                    f"({observed[0]:.3g} to {observed[1]:.3g}). Is there a scaler before this estimator? "
                    "Then leave the scaler out: rules are in raw units, and inputs are standardised inside.",
                    OCBNNWarning,
                    stacklevel=5,
                )
                return


def warn_of_no_probabilities(model: Model) -> None:
    """Warn where a rule asks for a probability, computed from columns, that is none."""
    for term in rule_terms(model):
        found = beyond_probabilities(term.rule.output, np.asarray(term.points.coded), term.schema)
        if found is not None:
            warnings.warn(
                f"In the rule `{term.rule.text(term.schema)}`, {found}. There it is taken as 0 or 1. Is it a "
                "percentage? Then divide it by 100; else narrow the rule's condition.",
                OCBNNWarning,
                stacklevel=5,
            )
