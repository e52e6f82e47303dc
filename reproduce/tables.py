"""What `reproduce` wrote, read again: verdicts on bounds, and several seeds beside the paper's tables 1 to 3.

python -m reproduce.tables seed0/credit.json seed1/credit.json seed2/credit.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduce.outcome import PaperError, expected


class Verdict(NamedTuple):
    """One bound of one experiment with one seed."""

    experiment: str
    seed: int
    bound: str
    value: float | None
    met: bool

    def __str__(self) -> str:
        value = "missing" if self.value is None else f"{self.value:.4g}"
        told = f"{self.experiment} (seed {self.seed}): {self.bound}, is {value}"
        return f"{'met   ' if self.met else 'MISSED'}  {told}"


def verdicts(folder: Path) -> list[Verdict]:
    """Every bound that the JSON files of a folder, and of its seeds (`seed-0/` and so on), are held to."""
    found = [
        Verdict(content["name"], content["seed"], each["bound"], each["value"], each["met"])
        for path in (*sorted(folder.glob("*.json")), *sorted(folder.glob("seed-*/*.json")))
        for content in [read(path)]
        for each in content.get("bounds", [])
    ]
    if not found:
        raise PaperError(
            f"{folder} holds no outcome that is held to bounds; run `python -m reproduce all --out {folder}`."
        )
    return found


def read(path: Path) -> dict[str, Any]:
    """An outcome that `reproduce` wrote.

    Raises:
        PaperError: the file is something else, or damaged.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if {"name", "setting", "seed", "runs"} <= set(content):
            return content
        reason = "it has no name, setting, seed or runs"
    except (OSError, ValueError, TypeError) as error:
        reason = str(error)
    raise PaperError(f"{path} is not an outcome that `reproduce` wrote: {reason}. Move it elsewhere.")


def has_table(name: str) -> bool:
    """Whether the paper has a table of an experiment."""
    return "published" in expected().get(name, {})


def table(paths: Sequence[Path]) -> str:
    """Runs of one application and setting with several seeds, as Markdown; the paper's figures in brackets.

    Raises:
        PaperError: the files are not of one application and one setting.
    """
    outcomes = [read(path) for path in paths]
    kinds = {(each["name"], each["setting"]) for each in outcomes}
    if len(kinds) != 1 or not has_table(outcomes[0]["name"]):
        raise PaperError(f"One table is of one application and one setting, not of {sorted(kinds)}.")
    name = outcomes[0]["name"]
    published, shown = expected()[name]["published"], expected()[name]["shown"]
    lines = [
        f"| {name} | " + " | ".join(figure.replace("_", " ") for figure in shown) + " |",
        "| --- |" + " --- |" * len(shown),
    ]
    for run in outcomes[0]["runs"]:
        found = [each["runs"][run] for each in outcomes]
        said = published.get(run, {})
        cells = [cell([each.get(figure) for each in found], said.get(figure)) for figure in shown]
        lines.append(f"| {run} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(values: Sequence[Any], published: float | None) -> str:
    """`0.634 ± 0.002 (0.708)`: mean, standard error over seeds where there are several, and the paper's."""
    known = np.array([value for value in values if value is not None], dtype=float)
    if not len(known):
        return ""
    text = f"{known.mean():.3f}"
    if len(known) > 1:
        text += f" ± {known.std(ddof=1) / np.sqrt(len(known)):.3f}"
    return text if published is None else f"{text} ({published:.3f})"


if __name__ == "__main__":
    print(table([Path(argument) for argument in sys.argv[1:]]))
