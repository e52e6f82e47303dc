"""What an experiment gives: figures of its runs, the bounds they are held to, and all of it as JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ocbnn.errors import OCBNNError
from ocbnn.paper.notes import note
from ocbnn.storage.files import write_text
from ocbnn.storage.values import plain, plain_text

Setting = Literal["paper", "reference", "ours"]
SETTINGS: tuple[str, ...] = get_args(Setting)


class PaperError(OCBNNError, ValueError):
    """An experiment, or a setting of one, that does not exist."""


@dataclass(frozen=True)
class Bound:
    """What a figure of a run must be in the setting `ours`: `Bound("ocbnn", "epsilon_mean", "<=", 0.001)`."""

    run: str
    figure: str
    relation: Literal["<=", ">="]
    limit: float

    def met(self, value: object) -> bool:
        """Whether a value keeps to it; what is missing, or not a number, does not."""
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return False
        return value <= self.limit if self.relation == "<=" else value >= self.limit

    def __str__(self) -> str:
        return f"{self.run}.{self.figure} {self.relation} {self.limit:g}"


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    Attributes:
        runs: figures of every run by name; each run is also a saved model, `out/<experiment>/<run>/`.
        bounds: what is asked of them in the setting `ours`.
        note: what else a reader should know; on bounds that are missed, `notes.py` has the words.
        details: further figures, of no single run.
    """

    runs: Mapping[str, Mapping[str, Any]]
    bounds: tuple[Bound, ...] = ()
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


def require_setting(setting: str) -> None:
    """Refuse a setting that there is no file for."""
    if setting not in SETTINGS:
        raise PaperError(f"There is no setting {setting!r}; choose one of {', '.join(SETTINGS)}.")


def peak_mb() -> int | None:
    """The most memory that this process has held so far, in MB; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6)


def write(
    path: Path, outcome: Outcome, name: str, setting: str, seed: int, quick: bool, seconds: float
) -> list[Bound]:
    """Write an outcome as JSON; give back the bounds that it misses, where they are asked for."""
    runs = plain(outcome.runs)
    judged = setting == "ours" and not quick
    verdicts = [(bound, runs.get(bound.run, {}).get(bound.figure)) for bound in outcome.bounds]
    missed = [bound for bound, value in verdicts if not bound.met(value)] if judged else []
    said = "" if quick else note(name, setting, runs, missed)
    notes = " ".join(each for each in (outcome.note, said) if each)
    content = {
        "name": name,
        "setting": setting,
        "seed": seed,
        "quick": quick,
        "seconds": round(seconds, 1),
        "peak_mb": peak_mb(),
        "runs": runs,
        **({"details": plain(outcome.details)} if outcome.details else {}),
        **({"note": notes} if notes else {}),
    }
    if judged:
        content["bounds"] = [
            {"bound": str(bound), "value": value, "met": bound.met(value)} for bound, value in verdicts
        ]
    write_text(path, plain_text(content))
    return missed
