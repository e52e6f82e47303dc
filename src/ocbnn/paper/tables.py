"""The paper's tables 1 to 3 beside ours: mean and standard error over runs of several seeds, as Markdown.

python -m ocbnn.paper.tables seed0/credit.json seed1/credit.json seed2/credit.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ocbnn.paper.outcome import PaperError
from ocbnn.paper.published import PUBLISHED

SHOWN: Mapping[str, tuple[str, ...]] = {
    "clinical": (
        "accuracy",
        "f1",
        "points_violating",
        "points_violating_uniform",
        "accuracy_outside",
        "f1_outside",
        "auc_outside",
        "accuracy_inside",
        "f1_inside",
        "auc_inside",
    ),
    "recidivism": (
        "accuracy",
        "f1",
        "high_risk_african_american",
        "high_risk_others",
        "gap",
        "gap_given_recid_0",
        "gap_given_recid_1",
        "tv_to_rule",
    ),
    "credit": ("accuracy", "f1", "auc", "auc_young", "recourse", "ruled_probability", "calibration_error"),
}


def table(paths: Sequence[Path]) -> str:
    """Runs of one experiment and setting with several seeds, as a table; the paper's figures in brackets.

    Raises:
        PaperError: the files are not of one application and one setting.
    """
    read = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    kinds = {(each["name"], each["setting"]) for each in read}
    if len(kinds) != 1 or next(iter(kinds))[0] not in PUBLISHED:
        raise PaperError(f"One table is of one application and one setting, not of {sorted(kinds)}.")
    name = read[0]["name"]
    lines = [
        f"| {name} | " + " | ".join(figure.replace("_", " ") for figure in SHOWN[name]) + " |",
        "| --- |" + " --- |" * len(SHOWN[name]),
    ]
    for run in read[0]["runs"]:
        found = [each["runs"][run] for each in read]
        published = PUBLISHED[name].get(run, {})
        cells = [cell([each.get(figure) for each in found], published.get(figure)) for figure in SHOWN[name]]
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
