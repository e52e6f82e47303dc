"""The documentation is whole: every page is reachable, every public name is covered, every example runs."""

from __future__ import annotations

import contextlib
import json
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
from tools import pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
# These pages have their own tests, beside what they document.
TESTED_ELSEWHERE = {*("estimators.md", "posterior.md", "lint.md", "rules.md", "regions.md", "pictures.md")}
SLOW = {
    "amortize.md",
    "inference.md",
    "tutorial.md",
    "how-to/guarantees.md",
    "how-to/larger-tables.md",
    "how-to/many-data-sets.md",
    "how-to/own-engine.md",
    "how-to/own-term.md",
}
MODULES = (
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


def navigation_tree() -> list[dict[str, object]]:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]


def navigation() -> list[str]:
    return pages_of(navigation_tree())


def with_examples() -> list[object]:
    pages = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
    return [
        pytest.param(page, marks=pytest.mark.slow if page in SLOW else ())
        for page in pages
        if page not in TESTED_ELSEWHERE and CODE.search((DOCS / page).read_text("utf-8"))
    ]


def test_every_page_is_in_the_navigation_once() -> None:
    written = [*DOCS.rglob("*.md"), *(page.with_suffix(".md") for page in NOTEBOOKS)]
    assert sorted(navigation()) == sorted(page.relative_to(DOCS).as_posix() for page in written)


def resolve(place: str) -> object:
    """The object at a dotted path: what a module calls by that name, or the module itself."""
    module, _, name = place.rpartition(".")
    found = getattr(import_module(module), name, None) if module else None
    return import_module(place) if found is None else found


def public_names() -> list[str]:
    """What the package, its modules and the tables of engines, terms and samplers offer, and pages import."""
    modules = ["ocbnn", *(f"ocbnn.{module}" for module in MODULES)]
    names = {f"{module}.{name}" for module in modules for name in import_module(module).__all__}
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
    shown = (tmp_path / "site" / "notebooks" / "regression" / "index.html").read_text("utf-8")
    assert "met on average" in shown
    assert shown.count("data:image/png;base64,") == 2
    method = (tmp_path / "site" / "method" / "index.html").read_text("utf-8")
    assert "```math" not in method
    for number in (1, 2, 4, 5, 6, 7, 8, 9):  # as the paper has them
        assert f"<span>({number})</span>" in method


@pytest.mark.parametrize("page", with_examples())
def test_examples_of_a_page_run_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    for block in CODE.findall((DOCS / page).read_text("utf-8")):
        exec(compile(block, page, "exec", dont_inherit=True), namespace)


def words_of(outputs: list[dict[str, object]]) -> list[list[str]]:
    """What each output says, without numbers: draws differ between machines. Pictures are "picture".

    Warnings are left out: whether draws have settled may differ too.
    """
    said = []
    for output in (each for each in outputs if each.get("name") != "stderr"):
        data: dict[str, object] = output.get("data", {})  # type: ignore[assignment]
        text = "".join(output.get("text", data.get("text/plain", ["picture"])))  # type: ignore[arg-type]
        said.append(re.findall(r"[^\W\d]{2,}", text))
    return said


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_of_a_notebook_run_and_say_what_is_stored_in_it(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    stored = [words_of(cell.get("outputs", [])) for cell in cells]
    assert [words_of(outputs) for outputs in pages.run(cells, notebook.name)] == stored


def test_links_lead_to_files_that_exist() -> None:
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
    links = [(page, target) for page in written() for target in link.findall(page.read_text("utf-8"))]
    places = {(page, page.parent / target) for page, target in links if "://" not in target}
    # A notebook becomes a page of the same name.
    lost = [
        (page, place)
        for page, place in places
        if not place.exists() and place.with_suffix(".ipynb") not in NOTEBOOKS
    ]
    assert [f"{page.relative_to(ROOT)}: {place}" for page, place in lost] == []


def written() -> list[Path]:
    return [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]


def test_lines_have_at_most_120_characters() -> None:
    """But for rows of tables, and output that is compared word by word."""
    lines = [(page, line) for page in written() for line in page.read_text("utf-8").splitlines()]
    long = [(page.name, line) for page, line in lines if len(line) > 120 and not line.startswith("|")]
    assert [each for each in long if "Error: " not in each[1]] == []


def test_a_guide_fits_three_screens() -> None:
    guide = next(entry["User guide"] for entry in navigation_tree() if "User guide" in entry)
    long = {page: len((DOCS / page).read_text("utf-8").splitlines()) for page in pages_of(guide)}
    del long["rules.md"]  # the language itself: a page to look things up in
    assert {page: lines for page, lines in long.items() if lines > 160} == {}


# What a page calls by its dotted path is found in one of these.
PACKAGES = ("", "ocbnn.", *(f"ocbnn.{module}." for module in MODULES))
NAMED = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]+)+)(?:\([^`]*\))?`")


def is_found(path: str) -> bool:
    for package in PACKAGES:
        *modules, name = (package + path).split(".")
        with contextlib.suppress(ImportError, AttributeError):
            getattr(import_module(".".join(modules)), name)
            return True
    return False


@pytest.mark.parametrize("page", ["method.md", "amortize.md"])
def test_functions_that_stand_beside_equations_exist(page: str) -> None:
    rows = [line for line in (DOCS / page).read_text("utf-8").splitlines() if line.startswith("|")]
    named = NAMED.findall("\n".join(rows))
    assert len(named) > 5
    assert [path for path in named if not is_found(path)] == []


def test_every_code_of_the_errata_is_on_their_page_and_every_one_of_the_page_has_a_row() -> None:
    tested = {
        code.upper()
        for file in (ROOT / "tests" / "errata").glob("test_*.py")
        for code in re.findall(r"def test_([a-z]\d)_", file.read_text("utf-8"))
    }
    rows = set(re.findall(r"^\| ([A-Z]\d) \|", (DOCS / "errata.md").read_text("utf-8"), re.MULTILINE))
    mentioned = {
        code
        for page in DOCS.rglob("*.md")
        for listed in re.findall(r"errata ([A-Z]\d(?:, [A-Z]\d)*)", page.read_text("utf-8"))
        for code in listed.split(", ")
    }
    assert tested | mentioned <= rows
