"""The files around the code agree with it: versions, the workflow, what each target installs."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import ocbnn

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def read_yaml(path: str) -> dict:
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_citation_and_changelog_name_the_version_of_the_package() -> None:
    released = ocbnn.__version__.partition(".dev")[0]
    assert read_yaml("CITATION.cff")["version"] == released
    newest = re.search(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == released


def test_the_workflow_runs_what_every_change_must_pass_and_tries_all_supported_pythons() -> None:
    jobs = read_yaml(".github/workflows/ci.yml")["jobs"]
    assert ".ci/run" in [step.get("run") for step in jobs["everything"]["steps"]]
    setup = next(step for step in jobs["everything"]["steps"] if "setup-python" in step.get("uses", ""))
    tried = {setup["with"]["python-version"], *jobs["other-pythons"]["strategy"]["matrix"]["python-version"]}
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert tried == set(supported)
    assert PROJECT["requires-python"] == f">={min(supported, key=lambda version: int(version[2:]))}"


@pytest.mark.parametrize(("target", "developers"), [("demo", False), ("test", True)])
def test_the_demo_installs_no_developers_tools(target: str, developers: bool, tmp_path: Path) -> None:
    call = ["make", "--dry-run", "--always-make", target, f"VENV={tmp_path}/venv"]
    planned = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "pip install" in planned
    assert ("[dev]" in planned) is developers


def test_a_hook_runs_programs_that_the_developers_extra_installs() -> None:
    hooks = read_yaml(".pre-commit-config.yaml")["repos"][0]["hooks"]
    programs = {Path(hook["entry"].split()[0]).name for hook in hooks}
    assert programs == {"ruff", "lint-imports"}
    extra = " ".join(PROJECT["optional-dependencies"]["dev"])
    assert "ruff" in extra
    assert "import-linter" in extra


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")))
def test_a_form_for_issues_asks_something_with_a_label(form: Path) -> None:
    asked = yaml.safe_load(form.read_text("utf-8"))
    assert asked["name"]
    assert asked["description"]
    assert all(entry["attributes"]["label"] for entry in asked["body"])


@pytest.mark.parametrize(
    "package", sorted(each for each in (ROOT / "src" / "ocbnn").iterdir() if (each / "__init__.py").is_file())
)
def test_a_package_that_lists_its_files_lists_them_all(package: Path) -> None:
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    if said.count(".py`") > 1:
        files = {each.name for each in package.glob("*.py") if each.name[0] != "_"}
        assert {name for name in files if f"`{name}`" not in said} == set()
