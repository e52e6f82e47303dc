"""The pages about the report: code runs as it is printed, and figures are fields of the evidence."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot

from ocbnn.checking.results import RuleCheck

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    names: dict[str, object] = {}
    blocks = re.findall(
        r"```python\n(.*?)```", (DOCS / "pictures.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a small fit may say that a rule is not met
        for block in blocks:
            exec(compile(block, "pictures.md", "exec"), names)
    pyplot.close("all")
    assert len(blocks) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["rules"]


def test_every_figure_of_the_table_is_a_field_of_the_evidence() -> None:
    table = (
        (DOCS / "report.md")
        .read_text(encoding="utf-8")
        .split("| figure | in `report.json` |")[1]
        .split("\n\n")[0]
    )
    named = re.findall(r"^\|[^|]*\| `(\w+)`", table, flags=re.MULTILINE)
    assert len(named) == 5
    assert set(named) <= set(RuleCheck.__dataclass_fields__)
