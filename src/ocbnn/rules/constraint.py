"""A rule's formal meaning: a region of inputs, and what it says of outputs there (paper, Definition 4.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ocbnn.errors import RuleError
from ocbnn.language.expressions import Always, Condition, text
from ocbnn.regions import Everywhere
from ocbnn.rules.kinds.functions import Functions, Inequality
from ocbnn.rules.requirement import RAW, Requirement, Units

if TYPE_CHECKING:
    from ocbnn.language.expressions import Array
    from ocbnn.regions import Region
    from ocbnn.schema import Schema

EVERYWHERE = Always()
By = Literal["construction", "prior"]
"""How a rule is kept: by the form of the network, or as a term of the prior."""
Holds = Literal["on average", "everywhere", "over rows", "proved"]
"""What a tolerance is about: the mean over the region, the worst case found in it, the worst found that is a
row of the table with the columns that the condition names drawn anew, or draws not proved to obey."""


@dataclass(frozen=True)
class Constraint:
    """Where a rule applies, and what it asks of the function there.

    Attributes:
        region: the inputs the rule speaks of.
        requirement: what it asks of the function there.
        condition: the region in words, as the rule wrote it; `Always` for rules that were not written.
        name, source, reason: what people call it, who says so, and why.
        tolerance: the share of violation that is accepted, in [0, 1); None for the default.
        by: "construction": the network keeps it by its form; "prior": by a term of the prior. Default:
            by construction where that is possible, else by the prior.
        holds: what that share is of: of draws and inputs, "on average"; of draws at the worst input that a
            search finds, "everywhere", or finds among rows of the table with the columns of the condition
            drawn anew, "over rows"; or of draws that are not proved to obey at every input, "proved".
    """

    region: Region
    requirement: Requirement
    condition: Condition = EVERYWHERE
    name: str | None = None
    source: str | None = None
    reason: str | None = None
    tolerance: float | None = None
    by: By | None = None
    holds: Holds = "on average"

    def __post_init__(self) -> None:
        self.requirement.require_region(self.region)
        for field in ("name", "source", "reason"):
            value = getattr(self, field)
            if value is not None and not _can_be_written(value):
                raise RuleError(f"A rule's {field} is text in Unicode, or left out; got {value!r}.")
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", _tolerance(self.tolerance))
        if self.by not in (None, *get_args(By)):
            raise RuleError(
                f"`by` says how a rule is kept: by construction or by prior, or left out; got {self.by!r}."
            )
        if self.holds not in get_args(Holds):
            raise RuleError(
                f"A rule holds `on average`, `everywhere`, `over rows` or `proved`; got {self.holds!r}."
            )
        if self.is_strict and (self.is_predictive or self.requirement.inputs is None):
            raise RuleError(
                "Only a rule that every draw satisfies or violates at an input can hold everywhere, or be "
                "proved: this one is about many draws or rows together. Leave `holds` out."
            )

    @classmethod
    def from_functions(
        cls,
        region: Region,
        inequalities: Inequality | Iterable[Inequality],
        *,
        negative: bool = False,
        name: str | None = None,
        source: str | None = None,
        reason: str | None = None,
        tolerance: float | None = None,
        holds: Holds = "on average",
    ) -> Constraint:
        """A constraint from any functions g_i(x, y), where text is not enough.

        Args:
            region: the inputs it speaks of.
            inequalities: one or more g_i(x, y), written with operations that NumPy and JAX arrays share. x
                has the columns by name in raw units (a category as the index of its level), y the target in
                raw units, or for classification the class probabilities (…, n, C).
            negative: False: allowed where all g_i ≤ 0. True: forbidden where all g_i ≤ 0 (paper eq. 6).
            name: what people call it.
            source: who says so.
            reason: why.
            tolerance: the share of violation that is accepted, in [0, 1).
            holds: "on average", "everywhere" or "over rows"; functions cannot be proved.
        """
        functions = (inequalities,) if callable(inequalities) else tuple(inequalities)
        if not functions or not all(callable(function) for function in functions):
            raise RuleError(
                "`inequalities` takes one or more functions g(x, y); the rule is about where they are <= 0."
            )
        asked = Functions(functions, negative)
        return cls(region, asked, Always(), name, source, reason, tolerance, holds=holds)

    @property
    def effective_tolerance(self) -> float:
        """The tolerance given, else the default of its kind."""
        return self.requirement.default_tolerance if self.tolerance is None else self.tolerance

    @property
    def is_everywhere(self) -> bool:
        """Whether its tolerance is about the worst case."""
        return self.holds in ("everywhere", "over rows")

    @property
    def is_over_rows(self) -> bool:
        """Whether the worst case is a row of the table, with the columns of its condition drawn anew."""
        return self.holds == "over rows"

    @property
    def is_proved(self) -> bool:
        """Whether its tolerance is about draws that are not proved to obey everywhere."""
        return self.holds == "proved"

    @property
    def is_strict(self) -> bool:
        """Whether its tolerance is about every input, and not about the mean over them."""
        return self.holds != "on average"

    @property
    def is_predictive(self) -> bool:
        """Whether it is judged by all draws together rather than draw by draw."""
        return self.requirement.judged == "predictive"

    def applies(self, coded: Array, schema: Schema) -> Array:
        """At which coded rows (n, Q) the rule applies: inside its region, with every value that it needs."""
        inside = self.region.contains(coded, schema)
        for name in self.requirement.columns():
            inside &= ~np.isnan(coded[:, schema.index(name)])
        return inside

    def lacks_value(self, coded: Array, schema: Schema) -> Array:
        """At which coded rows (n, Q) a value that the rule needs is missing, so that it does not apply."""
        needed = [schema.index(name) for name in self.region.columns() | self.requirement.columns()]
        return np.isnan(coded[:, needed]).any(axis=1) & ~self.applies(coded, schema)

    def form(self, schema: Schema) -> Mapping[str, int] | None:
        """How a network keeps it by its form: the sign of each of its columns; None where it cannot."""
        return self.requirement.form(schema) if self.region == Everywhere() else None

    def require_form(self, schema: Schema) -> None:
        """Raise a `RuleError` where it is to hold by construction and no network keeps it by its form."""
        if self.by != "construction" or self.form(schema) is not None:
            return
        if self.region != Everywhere():
            why = "one about all inputs (`always …`) can hold so, and this one has a condition"
        else:
            why = (
                "y, or the probability of one of two classes, that increases or decreases with numbers can "
                "hold so"
            )
        raise RuleError(
            f"The rule cannot hold by construction: only {why}. Write `by: prior`, or leave it out."
        )

    def demand(self, points: Array, schema: Schema, units: Units = RAW) -> Any:
        """What the rule asks at the cases of these points; y in raw units unless others are given."""
        return self.requirement.demand(self.requirement.cases(points, schema, self.region), schema, units)

    def text(self, schema: Schema) -> str:
        """Canonical text, `if … then …` or `always …`; for functions from Python a description."""
        target_name = "y" if schema.target is None else schema.target.name
        names = (*schema.names, target_name, "y")
        asked = self.requirement.text(target_name, names)
        if not self.requirement.in_words:
            return f"within {self.region!r}: {asked}"
        if isinstance(self.condition, Always):
            return f"always {asked}"
        return f"if {text(self.condition, target_name, names)} then {asked}"


def _can_be_written(value: object) -> bool:
    """Whether it is text that says something and has a form in UTF-8; half of a surrogate pair has none."""
    is_text = isinstance(value, str) and bool(value.strip())
    return is_text and not any("\ud800" <= character <= "\udfff" for character in str(value))


def _tolerance(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RuleError(f"A tolerance is a number from 0 up to, but not including, 1; got {value!r}.")
    if not 0 <= value < 1:
        raise RuleError(
            f"The tolerance {value:g} is outside [0, 1): it is the share of violation that is accepted, "
            "such as 0.01 for one in a hundred."
        )
    return float(value)
