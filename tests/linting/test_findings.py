import dataclasses

import pytest

from ocbnn.linting import KINDS, SEVERITIES, Finding, worst_severity
from ocbnn.linting.findings import by_gravity


def finding(severity="error", kind="contradiction", **more):
    return Finding(kind, severity, ("a", "b"), "They contradict each other.", **more)


def test_the_worst_severity_is_the_gravest_present():
    assert worst_severity([]) is None
    assert worst_severity([finding("info")]) == "info"
    assert worst_severity([finding("info"), finding("warning")]) == "warning"
    assert worst_severity([finding("warning"), finding("error"), finding("info")]) == "error"


def test_findings_are_ordered_by_severity_then_kind_then_as_found():
    first, second = finding("warning", "implied"), finding("warning", "unobserved")
    third = dataclasses.replace(second, text="Later.")
    grave = finding("error", "data-conflict")
    assert by_gravity([first, second, third, grave]) == (grave, second, third, first)
    assert set(KINDS) > {
        "implied",
        "unobserved",
        "contradiction",
        "data-conflict",
        "empty-region",
        "out-of-bounds",
    }
    assert SEVERITIES == ("error", "warning", "info")


def test_a_finding_is_frozen_hashable_and_comparable():
    one = finding(witness={"x": 1.0}, rows=(3,))
    assert one == finding(witness={"x": 1.0}, rows=(3,))
    assert one != finding(witness={"x": 2.0}, rows=(3,))
    assert len({one, finding(witness={"x": 1.0}, rows=(3,))}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.kind = "implied"


def test_the_text_for_the_command_line_shows_severity_rules_input_and_rows():
    shown = str(
        finding(witness={"x": 0.1 + 0.2, "sex": "male", "age": 4}, count=12, share=0.25, rows=("p1", "p2"))
    )
    assert shown.splitlines() == [
        "error: contradiction: They contradict each other.",
        "  rule: a",
        "  rule: b",
        "  input: x = 0.3, sex = 'male', age = 4",
        "  rows: 12 (0.25 of the rows in the region)",
        "  first: p1, p2, …",
    ]
    assert "first" not in str(finding(count=0, share=0.0))
    assert str(finding(count=2, rows=(1, 2))).endswith("first: 1, 2")
