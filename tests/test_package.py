"""The front of the package: what `import ocbnn` gives, what it costs, and that the README tells the truth."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ocbnn

README = Path(__file__).parents[1] / "README.md"


def in_fresh_python(code: str) -> str:
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return finished.stdout.strip()


def test_import_loads_nothing_heavy():
    heavy = "{'jax', 'pandas', 'numpy', 'scipy', 'lark', 'pydantic', 'rich', 'typer'}"
    assert in_fresh_python(f"import sys, ocbnn; print(sorted({heavy} & set(sys.modules)))") == "[]"


def test_what_the_expert_says_needs_no_jax():
    code = "import sys, ocbnn; ocbnn.Schema, ocbnn.load_rules, ocbnn.lint; print('jax' in sys.modules)"
    assert in_fresh_python(code) == "False"


@pytest.mark.parametrize("name", ocbnn.__all__)
def test_every_public_name_exists_and_is_listed(name):
    assert getattr(ocbnn, name) is not None
    assert name in dir(ocbnn)


@pytest.mark.parametrize("name", [name for name in ocbnn.__all__ if name != "__version__"])
def test_every_public_name_is_documented(name):
    assert getattr(ocbnn, name).__doc__


def test_lint_is_the_function_also_after_its_room_was_imported():
    code = "import ocbnn, ocbnn.linting; print(callable(ocbnn.lint))"
    assert in_fresh_python(code) == "True"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'ocbnn' has no attribute 'Modle'"):
        _ = ocbnn.Modle


def test_all_errors_are_of_one_family():
    for error in (ocbnn.SchemaError, ocbnn.RuleError, ocbnn.RegionError, ocbnn.ModelError):
        assert issubclass(error, ocbnn.OCBNNError)


@pytest.mark.slow
def test_the_python_of_the_readme_runs_and_its_rule_is_met(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(README), "exec"), names)
    assert names["model"].outcomes_[0].met
    assert ocbnn.load("model").predict(names["new"]).shape == (7,)
