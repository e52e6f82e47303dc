"""The experiments use what every user can: public packages, and names that these list."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "reproduce").rglob("*.py"))


def imports(path: Path) -> list[tuple[str, str]]:
    """Every `from ocbnn… import name` of a file; `import ocbnn.x` as one without a name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ocbnn":
            found += [(node.module, alias.name) for alias in node.names]
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.split(".")[0] == "ocbnn"]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_experiments_import_only_public_names(path: Path) -> None:
    for module, name in imports(path):
        package = import_module(module)
        assert hasattr(package, "__path__"), f"{module} is an inner module"
        assert module.count(".") <= 1, f"{module} is an inner package"
        assert name in package.__all__, f"{module} does not list {name or 'itself as an import'}"


def test_there_is_something_to_look_at() -> None:
    assert sum(len(imports(path)) for path in MODULES) > 30
