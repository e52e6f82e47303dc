"""Rules and learnt priors as users give them, and what about them does not fit the table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ocbnn.errors import ModelError, OCBNNWarning, RuleError
from ocbnn.estimators.defaults import ACTIVATION, hidden_units
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.networks import Network
from ocbnn.model.priors import LearntPrior
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import load_rules
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema, Task

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
                    stacklevel=4,
                )
                return


def warn_of_no_probabilities(model: Model) -> None:
    """Warn where a probability that a rule computes from columns leaves [0, 1]."""
    for term in model.terms:
        found = term.rule.requirement.clipped(np.asarray(term.points.coded), term.schema)
        if found is not None:
            warnings.warn(
                f"In the rule `{term.rule.text(term.schema)}`, {found}. There it is taken as 0 or 1. Is it a "
                "percentage? Then divide it by 100; else narrow the rule's condition.",
                OCBNNWarning,
                stacklevel=4,
            )


def refuse_options(estimator: Any, names: Sequence[str]) -> None:
    """Refuse options about the table beside a learnt prior, which brings its own.

    Raises:
        ModelError: one of them was given.
    """
    for name in names:
        if getattr(estimator, name, None) is not None:
            raise ModelError(
                f"{name}= says how the table enters, but the amortized prior brings its own table; leave "
                f"{name} out."
            )


def adopted_schema(
    prior: LearntPrior, frame: pd.DataFrame, target: pd.Series, task: Task, columns: Any
) -> Schema:
    """The prior's schema, after the rows have been held against it.

    Raises:
        ModelError: another task, other columns, another target, or declarations besides the prior's.
        SchemaError: values that a column of the prior does not take.
    """
    schema = prior.schema
    assert schema.target is not None
    if columns:
        raise ModelError(
            "columns= declares what the table is like, but the amortized prior brings its own table; leave "
            "columns out, or declare them when the prior is learnt."
        )
    if schema.target.task != task:
        raise ModelError(f"The amortized prior was learnt for {schema.target.task}, not for {task}.")
    names = [str(name) for name in frame.columns]
    if set(names) != set(schema.names):
        raise ModelError(
            f"The amortized prior was learnt for the columns {', '.join(schema.names)}; these rows have "
            f"{', '.join(names)}. Give those columns, or learn a prior for these."
        )
    if not schema.is_target(str(target.name)):
        raise ModelError(
            f"The amortized prior speaks of {schema.target.name!r}, but the target is {target.name!r}; "
            "rename it, or learn a prior for it."
        )
    if list(schema.target.classes) != sorted(schema.target.classes):
        raise ModelError(
            f"The amortized prior has the classes in the order {', '.join(map(str, schema.target.classes))}, "
            "but scikit-learn's scorers take probabilities in sorted order. Learn it with sorted classes."
        )
    schema.encode(frame)
    schema.target.to_model(target)
    return schema


def adopted_network(prior: LearntPrior, hidden: Any, activation: str) -> Network:
    """The prior's network; an architecture that was asked for must be the same."""
    network = prior.network
    known = getattr(network, "hidden", None)
    if hidden is not None and hidden_units(hidden, 0) != known:
        raise ModelError(
            f"The amortized prior was learnt for hidden layers of {known}, not of {hidden_units(hidden, 0)}: "
            "its weights mean nothing there. Leave hidden out, or learn a prior for that network."
        )
    if activation not in (ACTIVATION, getattr(network, "activation", activation)):
        raise ModelError(
            f"The amortized prior was learnt for the activation {getattr(network, 'activation', None)!r}, "
            f"not for {activation!r}. Leave activation out, or learn a prior for that network."
        )
    return network
