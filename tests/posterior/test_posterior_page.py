"""The page on posteriors runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "posterior.md"


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(capsys):
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(blocks) == 7
    printed = capsys.readouterr().out
    assert "epsilon_worst" in printed
    assert "draws kept" in printed
