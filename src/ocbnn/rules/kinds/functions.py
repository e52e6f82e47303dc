"""Any g(x, y) from Python, where text is not enough (`Constraint.from_functions`)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocbnn.language.expressions import name_text
from ocbnn.rules.margins import largest
from ocbnn.rules.requirement import Array, Requirement, Units

if TYPE_CHECKING:
    from ocbnn.schema import Schema, Target

Inequality = Callable[[dict[str, Any], Any], Any]
"""g(x, y): x has the coded columns by name, y the target in raw units (or class probabilities, (…, n, C))."""


class Columns(NamedTuple):
    """The columns that functions take; they take y in raw units, `scale`·y + `center`."""

    columns: dict[str, Array]  # (m,) each, coded: a category is the index of its level
    center: Array  # (m,), for classification (m, 1)
    scale: Array  # (m,), for classification (m, 1)


class LogColumns(NamedTuple):
    """As `Columns`, where functions take exp(`scale`·y + `center`)."""

    columns: dict[str, Array]
    center: Array
    scale: Array


@dataclass(frozen=True)
class Functions(Requirement):
    """Any g_i(x, y): allowed where all are ≤ 0; `negative`: forbidden there (paper eq. 6)."""

    inequalities: tuple[Inequality, ...]
    negative: bool = False

    in_words = False
    monotone = True
    lists_forbidden = True

    def demand(self, cases: Array, schema: Schema, units: Units) -> Columns | LogColumns:
        # For classification y has one more axis, the class; nothing is standardised there.
        is_class = schema.target is not None and schema.target.task == "classification"
        shape = (len(cases), 1) if is_class else (len(cases),)
        kind = LogColumns if units.log else Columns
        return kind(schema.values(cases[:, 0]), np.full(shape, units.center), np.full(shape, units.scale))

    def margin(self, demand: Columns | LogColumns, values: Array) -> Array:
        """The largest g_i; for the negative form its opposite."""
        gs = self._values(demand, values)
        most = largest(gs[0].__array_namespace__().stack(gs, axis=-1))
        return -most if self.negative else most

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        """What a report shows; it cannot be parsed."""
        called = (getattr(function, "__name__", type(function).__name__) for function in self.inequalities)
        bounds = " and ".join(f"{name}(x, {name_text(target_name)}) <= 0" for name in called)
        return f"not ({bounds})" if self.negative else bounds

    def raw_unit(self, target: Target) -> float:
        """Functions are written in units of their own."""
        return 1.0

    def forbidden(self, demand: Columns | LogColumns, values: Array) -> list[list[Array]]:
        """The negative form is one forbidden set; in the positive form each {g_i > 0} is one."""
        gs = self._values(demand, values)
        return [gs] if self.negative else [[-g] for g in gs]

    def _values(self, demand: Columns | LogColumns, values: Array) -> list[Array]:
        raw = demand.center + demand.scale * values
        xp = raw.__array_namespace__()
        raw = xp.exp(raw) if isinstance(demand, LogColumns) else raw
        shape = raw.shape[: raw.ndim + 1 - demand.center.ndim]
        return [xp.broadcast_to(xp.asarray(g(demand.columns, raw)), shape) for g in self.inequalities]
