"""The documentation is whole: every page is reachable, every public name is covered, every example runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
import yaml
from typer.main import get_command

from ocbnn.cli import app
from ocbnn.inference.engines import ENGINES
from ocbnn.model.terms import TERMS
from reproduce.__main__ import app as reproduce_app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# These pages have their own tests, beside what they document.
TESTED_ELSEWHERE = {"estimators.md", "posterior.md", "lint.md", "rules.md", "regions.md"}
SLOW = {
    "amortize.md",
    "inference.md",
    "tutorial.md",
    "report.md",
    "how-to/guarantees.md",
    "how-to/many-data-sets.md",
    "how-to/own-engine.md",
    "how-to/own-term.md",
}
ROOMS = (
    *("schema", "rules", "linting", "regions", "model", "inference", "amortize", "posterior"),
    *("checking", "plots", "report", "estimators", "datasets"),
)
IMPORTS = re.compile(r"^(?:>>> )?from ((?:ocbnn|reproduce)[\w.]*) import (\([^)]*\)|[^\n(]+)$", re.MULTILINE)
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


def resolve(place: str) -> object:
    """The object at a dotted path: what a module calls by that name, or the module itself."""
    module, _, name = place.rpartition(".")
    found = getattr(import_module(module), name, None) if module else None
    return import_module(place) if found is None else found


def public_names() -> list[str]:
    """What the package, its rooms and the tables of engines, terms and samplers offer, and pages import."""
    rooms = ["ocbnn", *(f"ocbnn.{room}" for room in ROOMS)]
    names = {f"{room}.{name}" for room in rooms for name in import_module(room).__all__}
    names |= {f"{engine.__module__}.{engine.__name__}" for engine in ENGINES.values()}
    names |= {f"{type(term).__module__}.{type(term).__name__}" for term in TERMS.values()}
    for page in DOCS.rglob("*.md"):
        for module, imported in IMPORTS.findall(page.read_text("utf-8")):
            names |= {
                f"{module}.{name.strip()}" for name in imported.strip("()\n").split(",") if name.strip()
            }
    return sorted(name for name in names if "__" not in name and is_documentable(resolve(name)))


def is_documentable(public: object) -> bool:
    """Classes, functions, modules and tables; names of types say themselves what they are."""
    return isinstance(public, type | dict | FunctionType | ModuleType)


def covers(each: object, public: object, name: str) -> bool:
    """Whether an entry of the reference shows a public thing: it is it, or the module that defines it."""
    return each is public or (isinstance(each, ModuleType) and getattr(each, name, None) is public)


@pytest.mark.parametrize("path", public_names())
def test_every_public_name_is_in_the_reference_with_a_docstring(path: str) -> None:
    public, name = resolve(path), path.rpartition(".")[2]
    reference = "\n".join(page.read_text("utf-8") for page in (DOCS / "api").glob("*.md"))
    places = re.findall(r"^::: ([\w.]+)$", reference, re.MULTILINE)
    assert any(covers(resolve(place), public, name) for place in places)
    assert isinstance(public, dict) or public.__doc__


def commands() -> list[tuple[str, str]]:
    """Lines of pages and the README that call a command, continued lines joined: which, and the rest."""
    pages = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    called = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?(ocbnn|python -m reproduce) (.*)$", re.MULTILINE)
    found: dict[tuple[str, str], None] = {}
    for page in pages:
        blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        for block in (text for language, text in blocks if language in ("", "console", "sh", "bash")):
            joined = re.sub(r"\\\n\s*", "", block)
            found |= dict.fromkeys(called.findall(joined))
    return list(found)


@pytest.mark.parametrize(("called", "line"), commands())
def test_every_command_of_the_pages_has_only_options_that_exist(called: str, line: str) -> None:
    words = shlex.split(line, comments=True)
    commands = {"ocbnn": get_command(app), "python -m reproduce": get_command(reproduce_app)}
    command = commands[called]
    if called == "ocbnn":
        command = command.commands[words.pop(0)]
    with command.make_context(called, words) as context:
        assert context.params


def test_there_are_commands_in_the_pages() -> None:
    first_words = {(called, line.split()[0]) for called, line in commands()}
    assert first_words >= {("ocbnn", name) for name in ("demo", "lint", "fit", "check", "predict")}
    assert first_words >= {("python -m reproduce", name) for name in ("clinical", "credit", "recidivism")}


def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    call = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "api" / "inference" / "index.html").exists()


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
