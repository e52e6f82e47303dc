"""The page about the language tells the truth: every example on it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from language_schemas import CLINIC, LINE, number
from ocbnn.errors import RuleError
from ocbnn.language.syntax import DEEPEST_NESTING, LONGEST_RULE
from ocbnn.rules import Constraint, load_rules, parse_rule
from ocbnn.rules.formulas import MOST_COMPARISONS
from ocbnn.schema import Column, Schema, Target

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text("utf-8")

WARD = Schema(
    (
        number("x1"),
        number("x2"),
        number("skill", 0.0, 1.0),
        number("age", 0.0, 90.0),
        Column("ward", "category", (0.0, 2.0), levels=("ICU", "surgery", "long stay")),
        Column("smoker", "binary", (0.0, 1.0)),
        Column("visits", "integer", (0.0, 9.0)),
    ),
    Target("label", "classification", classes=("blue", "green", "red")),
)
SCHEMAS = {"line": LINE, "ward": WARD, "clinic": CLINIC}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


EXAMPLES = [
    (schema, rule)
    for name, schema in SCHEMAS.items()
    for block in blocks(f"rules {name}")
    for rule in block.splitlines()
]


@pytest.mark.parametrize(("schema", "rule"), EXAMPLES)
def test_every_example_parses_prints_and_parses_to_the_same(schema, rule):
    constraint = parse_rule(rule, schema)
    assert parse_rule(constraint.text(schema), schema) == constraint


def test_the_page_has_examples_of_everything():
    kinds = {type(parse_rule(rule, schema).requirement).__name__ for schema, rule in EXAMPLES}
    assert kinds == {
        "Bounds",
        "Values",
        "NormalDistribution",
        "Classes",
        "ProbabilityBounds",
        "ProbabilityTarget",
        "ClassProbabilities",
        "Trend",
        "Limit",
        "Contrast",
        "Invariance",
        "Shape",
        "Parity",
        "Together",
    }


def test_the_file_on_the_page_loads(tmp_path):
    (content,) = blocks("yaml")
    path = tmp_path / "rules.yaml"
    path.write_text(content, "utf-8")
    named, *others = load_rules(path, CLINIC)
    assert (named.name, named.tolerance, len(others)) == ("act on failing kidneys", 0.02, 2)


def test_the_python_on_the_page_runs():
    (code,) = blocks("python")
    names: dict[str, object] = {}
    exec(code, names)
    assert isinstance(names["circle"], Constraint)


def test_the_error_on_the_page_is_the_one_that_is_shown():
    with pytest.raises(RuleError) as caught:
        parse_rule("if creatinin > 2 then action = 1", CLINIC, line=3)
    assert f"```\n{caught.value}\n```" in PAGE


def test_the_limits_on_the_page_are_those_of_the_code():
    assert f"{LONGEST_RULE:,} characters, {DEEPEST_NESTING} levels" in PAGE
    assert f"{MOST_COMPARISONS} comparisons or values" in PAGE
