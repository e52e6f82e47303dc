"""What the documentation of regions shows is what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

from ocbnn.regions import sets

ROOT = Path(__file__).parents[2]


def test_the_examples_of_the_page_on_regions_run() -> None:
    page = str(ROOT / "docs" / "regions.md")
    found = doctest.testfile(page, module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert found.attempted > 20
    assert found.failed == 0


def test_the_examples_of_docstrings_run() -> None:
    found = doctest.testmod(sets)
    assert found.attempted > 0
    assert found.failed == 0
