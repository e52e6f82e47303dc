"""What an experiment gives: figures of its runs, the bounds they are held to, and all of it as JSON."""

from __future__ import annotations

import json
import math
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ocbnn import OCBNNError

SETTINGS = ("paper", "reference", "ours")
NEAR = 0.05
"""How near the setting `reference` is to come to the published figures."""
UNKNOWN = "Nothing is on record about what limits it."


class PaperError(OCBNNError, ValueError):
    """An experiment, or a setting of one, that does not exist."""


class Bound(NamedTuple):
    """What a figure of a run must be in the setting `ours`, as written: `ocbnn.epsilon_mean <= 0.001`."""

    run: str
    figure: str
    relation: str
    limit: float

    @classmethod
    def read(cls, text: str) -> Bound:
        """A bound from its text."""
        of, relation, limit = text.split()
        run, figure = of.split(".")
        return cls(run, figure, relation, float(limit))

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
        details: further figures, of no single run.
    """

    runs: Mapping[str, Mapping[str, Any]]
    details: Mapping[str, Any] = field(default_factory=dict)


@cache
def expected() -> dict[str, dict[str, Any]]:
    """What is expected of each experiment: `expected.toml`."""
    return tomllib.loads((Path(__file__).parent / "expected.toml").read_text(encoding="utf-8"))


def bounds(name: str) -> tuple[Bound, ...]:
    """What the setting `ours` of an experiment is held to."""
    return tuple(Bound.read(text) for text in expected().get(name, {}).get("bounds", ()))


def require_setting(setting: str) -> None:
    """Refuse a setting that there is no file for."""
    if setting not in SETTINGS:
        raise PaperError(f"There is no setting {setting!r}; choose one of {', '.join(SETTINGS)}.")


def write(
    path: Path, outcome: Outcome, name: str, setting: str, seed: int, quick: bool, seconds: float
) -> list[Bound]:
    """Write an outcome as JSON; give back the bounds that it misses, where they are asked for."""
    runs = plain(outcome.runs)
    judged = setting == "ours" and not quick
    verdicts = [(bound, runs.get(bound.run, {}).get(bound.figure)) for bound in bounds(name) if judged]
    missed = [(bound, value) for bound, value in verdicts if not bound.met(value)]
    note = _on_reference(name, runs) if setting == "reference" and not quick else _on_bounds(name, missed)
    content = {
        "name": name,
        "setting": setting,
        "seed": seed,
        "quick": quick,
        "seconds": round(seconds, 1),
        "peak_mb": peak_mb(),
        "runs": runs,
        **({"details": plain(outcome.details)} if outcome.details else {}),
        **({"note": note} if note else {}),
    }
    if judged:
        content["bounds"] = [
            {"bound": str(bound), "value": value, "met": bound.met(value)} for bound, value in verdicts
        ]
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return [bound for bound, _ in missed]


def _on_bounds(name: str, missed: Sequence[tuple[Bound, object]]) -> str:
    """A sentence on each bound that is missed, and what is on record about it."""
    notes = expected().get(name, {}).get("notes", {})
    return " ".join(
        f"Missed: {bound}, {f'is {value:.4g}' if isinstance(value, int | float) else 'is not known'}. "
        f"{_on_one_line(notes.get(bound.figure, UNKNOWN))}"
        for bound, value in missed
    )


def _on_reference(name: str, runs: Mapping[str, Mapping[str, Any]]) -> str:
    """A sentence on figures that are far from the published ones."""
    known = expected().get(name, {})
    apart = [
        f"{run}.{figure} {value:.3f} (published {said:.3f})"
        for run, figures in known.get("published", {}).items()
        for figure, said in figures.items()
        if (value := runs.get(run, {}).get(figure)) is not None and abs(value - said) > NEAR
    ]
    if not apart:
        return ""
    why = _on_one_line(known["reference"])
    return f"Further than {NEAR:g} from the published figures: {', '.join(apart)}. {why}"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def peak_mb() -> int | None:
    """The most memory that this process has held so far, in MB; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6)


def plain(value: Any) -> Any:
    """The same as JSON values: numbers of NumPy become Python's, what is not finite null."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):  # of NumPy
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_text(path: Path, text: str) -> None:
    """A file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
