"""The documentation is whole: every page is reachable, every public name is covered, every example runs."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import ocbnn

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# These pages have their own tests, beside what they document.
TESTED_ELSEWHERE = {"estimators.md", "posterior.md", "lint.md", "rules.md", "regions.md"}
SLOW = {"amortize.md", "inference.md", "tutorial.md", "report.md", "how-to/many-data-sets.md"}
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def pages_of(entries: object) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    children = entries.values() if isinstance(entries, dict) else entries
    return [page for child in children for page in pages_of(child)]  # type: ignore[attr-defined]


def navigation() -> list[str]:
    return pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])


def with_examples() -> list[object]:
    pages = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
    return [
        pytest.param(page, marks=pytest.mark.slow if page in SLOW else ())
        for page in pages
        if page not in TESTED_ELSEWHERE and CODE.search((DOCS / page).read_text("utf-8"))
    ]


def test_every_page_is_in_the_navigation_once() -> None:
    pages = navigation()
    assert sorted(pages) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("name", [name for name in ocbnn.__all__ if not name.startswith("__")])
def test_every_public_name_is_in_the_reference_with_a_docstring(name: str) -> None:
    public = getattr(ocbnn, name)
    reference = "\n".join(page.read_text("utf-8") for page in (DOCS / "api").glob("*.md"))
    places = re.findall(r"^::: ([\w.]+)$", reference, re.MULTILINE)
    covered = [resolve(place) for place in places]
    assert any(public is each or getattr(each, name, None) is public for each in covered)
    assert public.__doc__


def resolve(place: str) -> object:
    """The object at a dotted path: a module, or an attribute of one."""
    try:
        return import_module(place)
    except ModuleNotFoundError:
        module, _, name = place.rpartition(".")
        return getattr(import_module(module), name)


@pytest.mark.parametrize("page", with_examples())
def test_examples_of_a_page_run_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    for block in CODE.findall((DOCS / page).read_text("utf-8")):
        exec(compile(block, page, "exec", dont_inherit=True), namespace)


def test_links_lead_to_files_that_exist() -> None:
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    links = [(page, target) for page in pages for target in link.findall(page.read_text("utf-8"))]
    assert not [
        f"{page.relative_to(ROOT)}: {target}"
        for page, target in links
        if "://" not in target and not (page.parent / target).exists()
    ]
