"""What a report rests on: figures, never rows, as plain data that JSON can hold.

Everything in it is an aggregate, a made-up case, or what the model says at one. Where figures are of held-out
rows, groups too small to be told apart from their members are left out.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ocbnn.checking.figures import Figure
from ocbnn.errors import FileError
from ocbnn.plots.chains import ChainFigures
from ocbnn.plots.slices import Slice
from ocbnn.posterior.calibration import Calibration
from ocbnn.posterior.draws import Posterior
from ocbnn.storage.values import plain, restored

VERSION = 1
LEAST_ROWS = 5
"""Held-out rows below which nothing is said of a group's outcomes."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Estimate:
    """A figure with the ends of its interval; None where they are not known."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, figure: Figure | None) -> Estimate | None:
        """The same as plain data."""
        if figure is None:
            return None
        ends = (end if math.isfinite(end) else None for end in (figure.low, figure.high))
        return cls(figure.value, *ends)


@dataclass(frozen=True)
class ColumnFacts:
    """A column as the report speaks of it."""

    name: str
    kind: str
    unit: str | None
    observed: tuple[float, float] | None
    levels: tuple[str, ...]
    importance: float


@dataclass(frozen=True)
class TargetFacts:
    """What is predicted."""

    name: str
    task: Literal["regression", "classification"]
    unit: str | None
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Counterexample:
    """The worst case found, in raw units: how often the rule is broken there, and how it was found."""

    case: dict[str, str]
    ruled: tuple[str, ...]
    broken: Estimate
    found: str


@dataclass(frozen=True)
class Change:
    """What the rules together change, at cases of a rule's region (made up) and at held-out rows.

    Attributes:
        quantity: what `without` and `with_rules` are means of, at fresh points of the region.
        unit: of the quantity.
        size_inside, size_outside: mean absolute change, in units of y or as total variation; outside of the
            region at rows, where there are any.
        where: the part of the region with the largest change, in words; None where it is all alike.
        size_where: the mean change there.
        rows_inside, rows_outside: held-out rows; None without any.
        changed_inside, changed_outside: how many of them are predicted another class (numbers: a value more
            than a tenth of sd(y) away).
    """

    quantity: str
    unit: str | None
    without: float
    with_rules: float
    size_inside: float
    size_outside: float | None
    where: str | None
    size_where: float | None
    rows_inside: int | None = None
    changed_inside: int | None = None
    rows_outside: int | None = None
    changed_outside: int | None = None


@dataclass(frozen=True)
class Score:
    """Log score of held-out rows: nats per row with and without the rules, the difference and its error."""

    with_rules: float
    without: float
    difference: float
    error: float | None
    rows: int


@dataclass(frozen=True)
class Recorded:
    """Held-out rows inside a rule's region, and how many of their recorded outcomes break the rule."""

    rows: int
    breaking: int | None


@dataclass(frozen=True)
class RuleFacts:
    """One rule: what it says, how far it is kept, and what it changes.

    Attributes:
        measure: "violation", or for a probabilistic rule "total variation".
        violation: `epsilon_mean`, or the mean total variation: what the tolerance speaks of.
        without: the same under the posterior without rules.
        epsilon_worst, draws_violating, points_violating, mass_outside: as `RuleCheck` has them.
        unmet_reason: why the fit could not keep it, where it said so.
    """

    name: str
    text: str
    source: str | None
    reason: str | None
    tolerance: float
    strength: float | None
    columns: tuple[str, ...]
    probabilistic: bool
    enforced: bool
    verdict: str
    measure: str
    violation: Estimate
    points: int
    points_found: int
    epsilon_worst: Estimate | None = None
    draws_violating: Estimate | None = None
    points_violating: Estimate | None = None
    mass_outside: Estimate | None = None
    counterexample: Counterexample | None = None
    unmet_reason: str | None = None
    without: Estimate | None = None
    change: Change | None = None
    recorded: Recorded | None = None


@dataclass(frozen=True)
class Performance:
    """How good predictions of held-out rows are: `name` → figure. Classes: accuracy, log_score, brier.

    Numbers: mean_absolute_error, root_mean_squared_error (units of y), log_score, mean_width_90.
    """

    rows: int
    with_rules: dict[str, float]
    without: dict[str, float] | None
    log_score: Score | None


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
class Warned:
    """What lint has to say of the rules, as a sentence."""

    kind: str
    severity: str
    rules: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class BandFacts:
    """A slice through a typical case, with the means without rules; and what the case is typical of."""

    shown: Slice
    without: Slice | None
    typical_of: str | None


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
    """All that a report says, gathered once."""

    version: int
    made: str
    fingerprint: str
    target: TargetFacts
    columns: tuple[ColumnFacts, ...]
    rules: tuple[RuleFacts, ...]
    overall_draws_violating: Estimate | None
    findings: tuple[Warned, ...]
    bands: tuple[BandFacts, ...]
    run: RunFacts
    held_out_rows: int = 0
    compared: bool = False
    enforcement: str | None = None
    performance: Performance | None = None
    calibration: CalibrationFacts | None = None
    sources: dict[str, str] = field(default_factory=dict)
    provenance: Json = field(default_factory=dict)

    def to_json(self) -> Json:
        """Plain JSON values."""
        values: Json = plain(self)
        return values

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Evidence:
        """What `to_json` was called on.

        Raises:
            FileError: something else, damaged, or of a newer version.
        """
        version = stored.get("version") if isinstance(stored, Mapping) else None
        if isinstance(version, int) and version > VERSION:
            raise FileError(
                f"The evidence has the format version {version}, and this ocbnn reads up to {VERSION}. "
                "Update ocbnn, or gather it again."
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
