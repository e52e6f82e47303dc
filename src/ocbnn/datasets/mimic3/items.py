"""The lists of items behind each feature: `items.yaml`, read and checked."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

Reduction = Literal["mean", "sum"]
EventTable = Literal["CHARTEVENTS", "OUTPUTEVENTS", "LABEVENTS"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Item(_Frozen):
    """One kind of record."""

    id: int
    label: str
    system: Literal["carevue", "metavision"] | None = None  # None: a laboratory's
    units: tuple[str, ...] = ()
    factor: float = 1.0


class Feature(_Frozen):
    """One column of the cohort, and the items it is made of."""

    description: str
    unit: str
    range: tuple[float, float]
    table: EventTable
    hourly: Reduction
    items: tuple[Item, ...]


class Action(_Frozen):
    """What counts as an intervention."""

    fluid_ml: float
    vasopressors: tuple[Item, ...]
    fluids: tuple[Item, ...]


class Catalogue(_Frozen):
    """All items."""

    features: dict[str, Feature]
    action: Action


@cache
def catalogue() -> Catalogue:
    """The package's own lists."""
    text = (files("ocbnn.datasets.mimic3") / "items.yaml").read_text(encoding="utf-8")
    return Catalogue.model_validate(yaml.safe_load(text))
