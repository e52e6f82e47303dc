"""A prior that has learnt rules brings its table and its network; what a user says besides must fit them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ocbnn.errors import ModelError
from ocbnn.estimators.defaults import hidden_units
from ocbnn.model.networks import Network
from ocbnn.model.priors import LearntPrior
from ocbnn.schema import Schema, Task

DEFAULT_ACTIVATION = "tanh"


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
    if activation not in (DEFAULT_ACTIVATION, getattr(network, "activation", activation)):
        raise ModelError(
            f"The amortized prior was learnt for the activation {getattr(network, 'activation', None)!r}, "
            f"not for {activation!r}. Leave activation out, or learn a prior for that network."
        )
    return network
