"""The front of the package: what `import ocbnn` gives, what it costs, and that the README tells the truth."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

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


def test_lint_is_the_function_also_after_its_module_was_imported():
    code = "import ocbnn, ocbnn.linting; print(callable(ocbnn.lint))"
    assert in_fresh_python(code) == "True"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'ocbnn' has no attribute 'Modle'"):
        _ = ocbnn.Modle


def test_all_errors_are_of_one_family():
    for error in (ocbnn.SchemaError, ocbnn.RuleError, ocbnn.RegionError, ocbnn.ModelError):
        assert issubclass(error, ocbnn.OCBNNError)


NUMBERS = ("dose", "lactate", "MAP", "x", "x1", "weight", "creatinine", "BUN", "urine")
CATEGORIES = {"ward": ("ICU", "emergency"), "race": ("a", "b"), "sex": ("f", "m")}
CLASSES = {"action": (0, 1), "hired": (0, 1), "label": ("green", "blue", "red")}
TARGETS = ("pressure", "y", "mpg", *CLASSES)


def rules_of_the_readme() -> list[str]:
    text = README.read_text(encoding="utf-8")
    (listed,) = re.findall(r"What you can say:\n\n```\n(.*?)```", text, flags=re.DOTALL)
    (named,) = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    lines = [line.partition("#")[0].strip() for line in listed.splitlines()]
    return [*lines, yaml.safe_load(named)[0]["rule"]]


@pytest.mark.parametrize("rule", rules_of_the_readme())
def test_the_rules_of_the_readme_are_understood(rule):
    (target,) = [name for name in TARGETS if re.search(rf"\b{name}\b", rule)]
    frame = pd.DataFrame({name: [0.5, 1.0, 50.0, 9.5, 2.5, 4.25] for name in NUMBERS})
    frame = frame.assign(**{name: [*levels] * 3 for name, levels in CATEGORIES.items()})
    frame[target] = (CLASSES.get(target, (1.5, 3.25)) * 3)[:6]
    schema = ocbnn.Schema.infer(frame, target=target)
    understood = ocbnn.parse_rule(rule, schema).text(schema)
    assert ocbnn.parse_rule(understood, schema).text(schema) == understood


@pytest.mark.slow
def test_the_python_of_the_readme_prints_what_stands_below_it_and_draws_its_picture(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(README), "exec"), names)
    printed = capsys.readouterr().out
    number = r"-?\d+\.?"
    assert re.sub(rf"{number}|\s", "", printed) == re.sub(rf"{number}|\s", "", shown)
    # In mmHg; noise has a standard deviation of 4, and draws differ between machines.
    expected = pytest.approx([float(each) for each in re.findall(number, shown)], abs=4)
    assert [float(each) for each in re.findall(number, printed)] == expected
    assert ocbnn.load("model").predict(names["new"]).shape == (3,)
    assert (tmp_path / "rule.png").stat().st_size > 10_000
