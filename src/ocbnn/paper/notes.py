"""What an outcome says of itself where it falls short: which bound is missed, what was tried, what limits it.

The texts are in `notes.toml`, by experiment and figure.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ocbnn.paper.published import PUBLISHED

if TYPE_CHECKING:
    from ocbnn.paper.outcome import Bound

NEAR = 0.05
"""How near the setting `reference` is to come to the published figures."""
UNKNOWN = "Nothing is on record about what limits it."


def note(name: str, setting: str, runs: Mapping[str, Mapping[str, Any]], missed: Sequence[Bound]) -> str:
    """Sentences on what is missed, one for each bound; or on figures that are far from the published ones."""
    if setting == "reference":
        return _on_reference(name, runs)
    return " ".join(_on_bound(name, bound, runs.get(bound.run, {}).get(bound.figure)) for bound in missed)


def _on_bound(name: str, bound: Bound, value: object) -> str:
    measured = f"is {value:.4g}" if isinstance(value, int | float) else "is not known"
    known = _texts()["ours"].get(name, {}).get(bound.figure, UNKNOWN)
    return f"Missed: {bound}, {measured}. {_on_one_line(known)}"


def _on_reference(name: str, runs: Mapping[str, Mapping[str, Any]]) -> str:
    apart = [
        f"{run}.{figure} {value:.3f} (published {said:.3f})"
        for run, figures in PUBLISHED.get(name, {}).items()
        for figure, said in figures.items()
        if (value := runs.get(run, {}).get(figure)) is not None and abs(value - said) > NEAR
    ]
    if not apart:
        return ""
    why = _on_one_line(_texts()["reference"][name])
    return f"Further than {NEAR:g} from the published figures: {', '.join(apart)}. {why}"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads((files("ocbnn.paper") / "notes.toml").read_text(encoding="utf-8"))
