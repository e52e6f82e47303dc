"""What a written rule asks for at points: shared by the tests of kinds."""

from __future__ import annotations

from typing import Any

from language_schemas import coded
from ocbnn.rules import parse_rule
from ocbnn.rules.requirement import RAW, Units
from ocbnn.schema import Schema


def demanded(rule: str, schema: Schema, units: Units = RAW, **values: object) -> Any:
    """The demand where the named columns are as given and the others 0."""
    return parse_rule(rule, schema).demand(coded(schema, **values), schema, units)


def in_model_units(rule: str, schema: Schema, **values: object) -> Any:
    assert schema.target is not None
    return demanded(rule, schema, Units.of_model(schema.target), **values)


def requirement(rule: str, schema: Schema) -> Any:
    return parse_rule(rule, schema).requirement
