"""Are all bounds met? `python -m ocbnn.paper.check FOLDER` reads what `reproduce` wrote; 1 where not.

Of several seeds (`--seeds 5`) each has a folder of its own, `FOLDER/seed-0/` and so on: all of them count.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ocbnn.paper.outcome import PaperError


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
    """Every bound that the JSON files of a folder, and of its seeds, say something about."""
    found = [
        Verdict(content["name"], content["seed"], each["bound"], each["value"], each["met"])
        for path in (*sorted(folder.glob("*.json")), *sorted(folder.glob("seed-*/*.json")))
        for content in [json.loads(path.read_text(encoding="utf-8"))]
        for each in content.get("bounds", [])
    ]
    if not found:
        raise PaperError(
            f"{folder} holds no outcome that is held to bounds; run `ocbnn reproduce all --out {folder}`."
        )
    return found


def main(arguments: Sequence[str]) -> int:
    """Print every verdict; 1 where a bound is missed."""
    found = verdicts(Path(arguments[0]))
    print(*found, sep="\n")
    return int(not all(each.met for each in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
