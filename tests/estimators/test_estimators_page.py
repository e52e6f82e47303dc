"""The page on estimators tells the truth."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"


@pytest.mark.slow
def test_the_example_runs_and_its_rule_is_met():
    code, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert names["model"].outcomes_[0].met
