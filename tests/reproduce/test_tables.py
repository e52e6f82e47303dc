"""Tables of several seeds beside the paper's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reproduce.outcome import PaperError, expected
from reproduce.tables import cell, table

PUBLISHED = {name: each["published"] for name, each in expected().items() if "published" in each}
SHOWN = {name: expected()[name]["shown"] for name in PUBLISHED}


def written(folder: Path, seed: int, **changes: object) -> Path:
    runs = {run: dict.fromkeys(SHOWN["credit"], 0.5 + 0.1 * seed) for run in PUBLISHED["credit"]}
    content = {"name": "credit", "setting": "ours", "seed": seed, "runs": runs, **changes}
    path = folder / f"{seed}.json"
    path.write_text(json.dumps(content))
    return path


def test_a_cell_is_mean_and_standard_error_and_the_papers() -> None:
    assert cell([0.5, 0.6, 0.7], 0.379) == "0.600 ± 0.058 (0.379)"
    assert cell([0.5], None) == "0.500"
    assert cell([None], 0.1) == ""


def test_seeds_are_put_together_run_by_run(tmp_path: Path) -> None:
    lines = table([written(tmp_path, seed) for seed in range(3)]).splitlines()
    assert len(lines) == 2 + len(PUBLISHED["credit"])
    assert lines[-1].startswith("| ocbnn | 0.600 ± 0.058 (0.895) |")


def test_different_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PaperError, match="one application and one setting"):
        table([written(tmp_path, 0), written(tmp_path, 1, setting="paper")])


def test_published_gaps_are_between_the_published_rates() -> None:
    for figures in PUBLISHED["recidivism"].values():
        apart = figures["high_risk_african_american"] - figures["high_risk_others"]
        assert figures["gap"] == pytest.approx(apart, abs=0.0011)  # of rounded figures


def test_every_published_figure_is_shown() -> None:
    for name, runs in PUBLISHED.items():
        assert {figure for figures in runs.values() for figure in figures} <= set(SHOWN[name])
