"""Rules that a network keeps by its form: which these are, and the sign check that shows it.

signs = signs_for(rules, schema, "tanh", hidden)     # of each model input, () where nothing is to be built
network = MLP(schema.width, hidden, 1, "tanh", signs)
shown_by_form(network, rule, schema, draws)          # of each draw, whether its weights have the signs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ocbnn.errors import ModelError
from ocbnn.model.networks import ACTIVATIONS, MLP, Network
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Schema


def signs_for(
    rules: Sequence[Constraint], schema: Schema, activation: str, hidden: Sequence[int]
) -> tuple[int, ...]:
    """The sign of each model input with which a network keeps these rules by its form; () for none of them.

    Rules that ask for `by: construction` come first. Of the others those count that do not ask for
    `by: prior`, and that no other rule contradicts.

    Raises:
        RuleError: a rule asks for it and cannot be built into a network.
        ModelError: two such rules contradict each other, or the activation is not increasing.
    """
    asked = [rule for rule in rules if rule.by == "construction"]
    open_to = [rule for rule in rules if rule.by is None]
    wanted: dict[str, int] = {}
    for rule in asked:
        rule.require_form(schema)
        form = rule.form(schema) or {}
        if any(wanted.get(name, sign) != sign for name, sign in form.items()):
            raise ModelError(
                f"The rule `{rule.text(schema)}` and another one ask for opposite directions, so no network "
                "can keep both by construction. Correct one of them."
            )
        wanted |= form
    shape = ACTIVATIONS.get(activation)  # an unknown one is refused by the network itself
    if shape is None or (hidden and not shape.increasing):
        if asked:
            rising = ", ".join(name for name, each in ACTIVATIONS.items() if each.increasing)
            raise ModelError(
                f"The rule `{asked[0].text(schema)}` is to hold by construction, which needs an activation "
                f"that is increasing ({rising}), not {activation!r}. Choose one of these, or `by: prior`."
            )
        return ()
    forms = [form for form in (rule.form(schema) for rule in open_to) if form is not None]
    known = {(name, sign) for form in (wanted, *forms) for name, sign in form.items()}
    for form in forms:
        if not any((name, -sign) in known for name, sign in form.items()):
            wanted |= form
    return _placed(wanted, schema) if wanted else ()


def kept_by_form(network: Network, rule: Constraint, schema: Schema) -> bool:
    """Whether the network keeps the rule by its form, whatever its weights are."""
    form = rule.form(schema)
    if form is None or not isinstance(network, MLP) or not network.signs:
        return False
    signs = np.asarray(_placed(form, schema))
    return bool((signs == np.where(signs == 0, 0, network.signs)).all())


def _placed(form: Mapping[str, int], schema: Schema) -> tuple[int, ...]:
    """One sign for each model input. A column that may be missing has a further input, which is free."""
    return tuple(
        form.get(column.name, 0) if place == 0 else 0
        for column in schema.columns
        for place in range(column.width)
    )
