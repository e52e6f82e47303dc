"""What a run gives back, whatever the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from ocbnn.checking.results import RuleCheck
from ocbnn.model import Model


@dataclass(frozen=True, eq=False)
class RuleOutcome:
    """How a rule fared: the strength it was given, and what the kept draws show.

    Attributes:
        check: of the kept draws on fresh points.
        strength: of its term; NaN for a rule that the base prior has learnt, or that holds by construction.
        found_strength: whether pilots found it, or it was given.
        reason: why it is not met or not shown, in a sentence; empty where it is met.
        rows: some rows of the data that contradict an unmet rule, in words. They are for whoever fits, and
            never in a saved model or a report.
        learnt: whether the base prior has learnt it, rather than being conditioned on it.
    """

    check: RuleCheck
    strength: float
    found_strength: bool
    reason: str = ""
    rows: tuple[str, ...] = ()
    learnt: bool = False

    @property
    def name(self) -> str:
        """The rule's name, or its text."""
        return self.check.name

    @property
    def by_construction(self) -> bool:
        """Whether the network keeps it by its form, as the weights of every draw show."""
        return self.check.by_construction

    @property
    def explained(self) -> str:
        """The reason, with the rows behind it."""
        return f"{self.reason} (rows against it: {'; '.join(self.rows)}; …)" if self.rows else self.reason

    @property
    def tolerance(self) -> float:
        """What its author accepts."""
        return self.check.tolerance

    @property
    def violation(self) -> float:
        """The share of draw-point pairs that violate (rules about distributions: total variation)."""
        return self.check.violation.value

    @property
    def met(self) -> bool:
        """Whether it is shown to be within the tolerance: all of its interval is."""
        return self.check.verdict == "met"

    @property
    def unmet(self) -> bool:
        """Whether it is shown to be beyond the tolerance."""
        return self.check.verdict == "unmet"

    @property
    def not_shown(self) -> bool:
        """Whether the draws are too few to show either: the interval holds the tolerance."""
        return not self.met and not self.unmet


@dataclass(frozen=True, eq=False)
class Result:
    """Draws with all that is needed to judge them.

    Attributes:
        draws: chain × draw × weight; an engine without chains has one.
        model: with the points and strengths that the draws belong to.
        engine: its name.
        settings: the engine, as a dict.
        seed: of the run.
        status: a sentence on convergence; a bad run is never called good.
        converged: the same as a flag; for engines that are not exact, whether they settled.
        diagnostics: what the sentence rests on.
        rules: the outcome of every rule.
        complete: False for a run that was interrupted.
        seconds: by phase: "warm start" and "strength" where there were such, "warm-up" and "sample" (engines
            without chains: "optimise"), "compile", which is in none of these but in "strength", and "total".
        log_density: of every draw, where the engine knows it.
        acceptance: mean of every chain.
        divergences: of every chain.
        work: gradients spent in all, warm-up included.
        trace: log-density, or the objective, at every step of the warm-up, averaged over chains.
    """

    draws: Float[np.ndarray, "chains draws size"]
    model: Model
    engine: str
    settings: dict[str, Any]
    seed: int
    status: str
    converged: bool
    diagnostics: Any
    rules: tuple[RuleOutcome, ...] = ()
    complete: bool = True
    seconds: dict[str, float] = field(default_factory=dict)
    log_density: Float[np.ndarray, "chains draws"] | None = None
    acceptance: Float[np.ndarray, " chains"] | None = None
    divergences: np.ndarray | None = None
    work: int = 0
    trace: np.ndarray | None = None

    @property
    def unmet(self) -> tuple[RuleOutcome, ...]:
        """Rules shown not to keep their tolerance: the run is kept, and labelled UNMET."""
        return tuple(outcome for outcome in self.rules if outcome.unmet)

    @property
    def not_shown(self) -> tuple[RuleOutcome, ...]:
        """Rules of which these draws show neither that their tolerance is kept nor that it is not."""
        return tuple(outcome for outcome in self.rules if outcome.not_shown)

    def __repr__(self) -> str:
        chains, draws, size = self.draws.shape
        label = "".join(f"\n  UNMET {o.name}: {o.explained}" for o in self.unmet)
        return f"<{self.engine}: {chains} × {draws} draws of {size} weights; {self.status}{label}>"
