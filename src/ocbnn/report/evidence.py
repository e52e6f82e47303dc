"""What a report rests on: results of checks and aggregates, never rows, as data that JSON can hold.

Everything in it is an aggregate, a made-up case, or what the model says at one. Where figures are of held-out
rows, groups too small to hide single persons are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import PlainValidator

from ocbnn.checking.explain import RowsAgainst
from ocbnn.checking.figures import Figure
from ocbnn.checking.results import RuleCheck
from ocbnn.errors import FileError
from ocbnn.linting import Finding
from ocbnn.plots.figures import ChainFigures
from ocbnn.plots.slices import PriorSlice, Slice
from ocbnn.posterior.calibration import Calibration
from ocbnn.posterior.conflict import LogScore
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.price import Price
from ocbnn.posterior.sensitivity import Sensitivity
from ocbnn.schema import Schema, Target
from ocbnn.storage.values import plain, restored

VERSION = 2

Json = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """What the rules together change, at cases of a rule's region (made up) and at held-out rows.

    Attributes:
        quantity: what `without` and `with_rules` are means of, at fresh points of the region.
        size_inside: mean absolute change, in units of y or as total variation.
        where: the part of the region with the largest change, in words; None where it is all alike.
        size_where: the mean change there.
        rows_inside, rows_outside: held-out rows; None without any.
        changed_inside, changed_outside: how many of them are predicted another class (numbers: a value more
            than a tenth of sd(y) away).
    """

    quantity: str
    without: float
    with_rules: float
    size_inside: float
    where: str | None = None
    size_where: float | None = None
    rows_inside: int | None = None
    changed_inside: int | None = None
    rows_outside: int | None = None
    changed_outside: int | None = None


class ProofFacts(NamedTuple):
    """What is proved of a rule: how many draws, and over which inputs; or why it cannot be."""

    proved: int
    refuted: int
    undecided: int
    over: str
    reason: str


@dataclass(frozen=True)
class RuleFacts:
    """One rule: where it comes from, how far it is kept, and what it changes.

    Attributes:
        check: how far the draws keep it.
        columns: those that its condition names.
        enforced: whether draws that violate it were rejected.
        unmet_reason: why the fit could not keep it, where it said so.
        without: the same check under the posterior without rules.
        recorded: held-out rows in its region, and how many of their outcomes violate it.
        sensitivity: of the answer in its region to the rule and to the data; None for a rule that the base
            prior has learnt.
        proof: what is proved of it, where a proof was asked for.
        price: the log score of held-out rows with and without this rule; None without rows, and for a rule
            without a term in the prior or that is enforced.
    """

    check: RuleCheck
    source: str | None
    reason: str | None
    strength: float | None
    columns: tuple[str, ...]
    enforced: bool
    unmet_reason: str | None = None
    without: RuleCheck | None = None
    change: Change | None = None
    recorded: RowsAgainst | None = None
    sensitivity: Sensitivity | None = None
    proof: ProofFacts | None = None
    price: Price | None = None

    @property
    def name(self) -> str:
        """Its name, or its text."""
        return self.check.name

    @property
    def is_predictive(self) -> bool:
        """Whether it is judged by all draws together, so that no single draw violates it."""
        return self.check.epsilon_mean is None


@dataclass(frozen=True)
class Performance:
    """How good predictions of held-out rows are: `name` → figure. Classes: accuracy, log_score, brier.

    Numbers: mean_absolute_error, root_mean_squared_error (units of y), log_score, mean_width_90.
    """

    rows: int
    with_rules: dict[str, float]
    without: dict[str, float] | None = None
    log_score: LogScore | None = None


@dataclass(frozen=True)
class CalibrationFacts:
    """Calibration of held-out rows: all of them, and those inside and outside of the ruled regions.

    A part is None where it has too few rows.
    """

    everywhere: Calibration | None
    inside: Calibration | None
    outside: Calibration | None
    without_everywhere: Calibration | None
    rows_inside: int
    rows_outside: int


@dataclass(frozen=True)
class BandFacts:
    """A slice through a typical case, with the means without rules; and what the case is typical of."""

    shown: Slice
    without: Slice | None
    typical_of: str | None


class NoiseFacts(NamedTuple):
    """The standard deviation of y (of log y where that is modelled) around the function, as posterior mean,
    low and high end of a 90% interval.

    Attributes:
        quietest: at the case where it is least.
        loudest: at the case where it is most.
        varies: whether it depends on the case.
    """

    quietest: tuple[float, float, float]
    loudest: tuple[float, float, float]
    varies: bool


class LayerScale(NamedTuple):
    """How large the weights of one layer are, as a multiple of what the prior assumes, with a 90% interval.

    Attributes:
        layer: its name.
        before: median, low and high end under the prior.
        after: posterior mean, low and high end.
    """

    layer: str
    before: tuple[float, float, float]
    after: tuple[float, float, float]


@dataclass(frozen=True)
class PriorFacts:
    """What was held possible before any row was seen.

    Attributes:
        shown: functions of the base prior along the most important column.
        learnt: whether this prior has learnt rules.
        scales: of the layers, where the prior learns them.
    """

    shown: PriorSlice
    learnt: bool
    scales: tuple[LayerScale, ...] = ()


@dataclass(frozen=True)
class RunFacts:
    """How the computation went."""

    engine: str | None
    status: str
    converged: bool | None
    checked: str | None
    draws: int
    chains: int
    has_chains: bool
    worst_rhat: float | None
    worst_effective: float | None
    acceptance: tuple[float, ...]
    divergences: int | None
    seconds: float | None
    figures: ChainFigures | None


@dataclass(frozen=True)
class Evidence:
    """All that a report says, gathered once.

    Attributes:
        importance: how far predictions move when a column's values are exchanged between cases.
        draws_violating: share of draws that violate any rule.
        unseen: by column, held-out rows with a label that the fit has not seen.
        further: figures of sections that were added to the report, by the section's name.
        command: what to write to fit the same model again, on the command line or in Python.
    """

    version: int
    made: str
    fingerprint: str
    schema: Annotated[Schema, PlainValidator(Schema.from_json)]
    importance: dict[str, float]
    rules: tuple[RuleFacts, ...]
    draws_violating: Figure | None
    findings: tuple[Finding, ...]
    bands: tuple[BandFacts, ...]
    run: RunFacts
    held_out_rows: int = 0
    unseen: dict[str, int] = field(default_factory=dict)
    compared: bool = False
    enforcement: str | None = None
    performance: Performance | None = None
    calibration: CalibrationFacts | None = None
    prior: PriorFacts | None = None
    noise: NoiseFacts | None = None
    sources: dict[str, str] = field(default_factory=dict)
    provenance: Json = field(default_factory=dict)
    further: Json = field(default_factory=dict)
    command: str | None = None

    @property
    def target(self) -> Target:
        """What is predicted."""
        assert self.schema.target is not None
        return self.schema.target

    def to_json(self) -> Json:
        """Plain JSON values."""
        values: Json = plain(self)
        return values

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Evidence:
        """What `to_json` was called on.

        Raises:
            FileError: something else, damaged, or of another version.
        """
        version = stored.get("version") if isinstance(stored, Mapping) else None
        if isinstance(version, int) and version != VERSION:
            raise FileError(
                f"The evidence has the format version {version}, and this ocbnn reads version {VERSION}. "
                "Gather it again, or update ocbnn."
            )
        try:
            return restored(Evidence, stored, "The evidence")
        except FileError as error:
            raise FileError(f"{error} Gather it again.") from None


def fingerprint(posterior: Posterior) -> str:
    """SHA-256 of the draws and of which are kept: evidence belongs to the posterior that has the same."""
    digest = hashlib.sha256()
    for array in (posterior.draws.astype(np.float64), posterior.mask):
        digest.update(f"{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
