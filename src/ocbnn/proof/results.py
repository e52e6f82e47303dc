"""What a proof says: of every draw whether it keeps a rule everywhere, and over what that was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ocbnn.checking.figures import Figure
from ocbnn.checking.results import OfRules

PROVED, REFUTED, UNDECIDED, REJECTED = 0, 1, 2, 3
"""Of a draw: it keeps the rule everywhere; a point violates; the budget was spent; it was not kept anyway."""


@dataclass(frozen=True, eq=False)
class RuleProof:
    """What is proved of one rule.

    Attributes:
        name: the rule's name, or its text.
        text: the rule in words.
        over: the inputs that the proof speaks of, in words.
        status: of every draw: `PROVED`, `REFUTED`, `UNDECIDED`, or `REJECTED` where it was not kept.
        unproved: the share of kept draws that are not proved, with its interval for the posterior: an upper
            bound on the share that violates the rule anywhere.
        points: of refuted draws, by their number among the kept ones, a point in raw units that violates.
        remaining: of every draw the share of the region, in model units, that is left undecided.
        boxes: how many were bounded.
        seconds: that it took.
        reason: why nothing could be proved, where the rule is of a kind that cannot be bounded.
        cuts: the certificate: column and place of every cut, for all proved draws.
    """

    name: str
    text: str
    over: str
    status: Int[np.ndarray, "chains draws"]
    unproved: Figure
    points: Mapping[int, dict[str, object]] = field(default_factory=dict)
    remaining: Float[np.ndarray, "chains draws"] = field(default_factory=lambda: np.zeros((0, 0)))
    boxes: int = 0
    seconds: float = 0.0
    reason: str = ""
    cuts: tuple[np.ndarray, np.ndarray] = field(default_factory=lambda: (np.zeros(0, np.int32), np.zeros(0)))

    @property
    def proved(self) -> Bool[np.ndarray, "chains draws"]:
        """Which draws keep the rule at every input of its region."""
        return self.status == PROVED

    def count(self, status: int) -> int:
        """How many draws have it."""
        return int((self.status == status).sum())

    @property
    def counts(self) -> dict[str, int]:
        """How many draws are proved, refuted and undecided."""
        return {
            "proved": self.count(PROVED),
            "refuted": self.count(REFUTED),
            "undecided": self.count(UNDECIDED),
        }

    def __str__(self) -> str:
        kept = int((self.status != REJECTED).sum())
        head = f"{self.name}: {self.count(PROVED):,} of {kept:,} draws proved"
        if self.reason:
            return f"{self.name}: not proved: {self.reason}"
        head += f", {self.count(REFUTED):,} refuted, {self.count(UNDECIDED):,} undecided"
        lines = [f"{head} ({self.boxes:,} boxes in {self.seconds:.1f} s)"]
        lines.append(f"  draws not proved {self.unproved}")
        left = self.remaining[self.status == UNDECIDED]
        if len(left):
            lines.append(f"  undecided ones leave {left.mean():.3g} of the region open on average")
        lines.append(f"  over {self.over}")
        for draw, point in list(self.points.items())[:1]:
            where = ", ".join(f"{name} = {value}" for name, value in point.items())
            lines.append(f"  draw {draw} violates it at {where}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values for people and programs, without the certificate."""
        return {
            "name": self.name,
            "text": self.text,
            "over": self.over,
            **self.counts,
            "unproved": self.unproved._asdict(),
            "boxes": self.boxes,
            "seconds": self.seconds,
            "reason": self.reason,
            "points": {str(draw): dict(point) for draw, point in self.points.items()},
        }


@dataclass(frozen=True, eq=False)
class Proofs(OfRules[RuleProof]):
    """The proof of every rule; iterates over the rules.

    Attributes:
        rules: of each rule.
        unproved: the share of kept draws that are not proved to keep every rule.
    """

    unproved: Figure

    @property
    def proved(self) -> Bool[np.ndarray, "chains draws"]:
        """Which draws keep every rule at every input of its region."""
        return np.logical_and.reduce([each.proved for each in self.rules])

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self.rules)
