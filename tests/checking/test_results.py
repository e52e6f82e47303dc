"""Verdicts: nothing is called met, or unmet, unless the whole interval says so."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ocbnn.checking.check import check_rules
from ocbnn.checking.figures import Figure
from ocbnn.checking.results import Divergence, RuleCheck, verdict
from posterior_cases import constants
from rule_checks import checked


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.0, 0.01, "met"),
        (0.0, 0.02, "not shown at this tolerance"),
        (0.01, 0.02, "not shown at this tolerance"),
        (0.011, 0.02, "unmet"),
    ],
)
def test_a_verdict_needs_the_whole_interval(low: float, high: float, said: str) -> None:
    assert verdict(Figure(0.5 * (low + high), low, high, 100.0), 0.01) == said


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (checked(0.0, 0.0, 2000.0, 0.0, 0.002), "met"),
        (checked(0.0, 0.0, 50.0, 0.0, 0.071), "not shown at this tolerance"),
        (checked(0.02, 0.005, 500.0, 0.01, 0.03), "not shown at this tolerance"),
        (checked(0.02, 0.001, 500.0, 0.018, 0.022), "unmet"),
        (checked(math.nan, 0.0, 500.0, math.nan, math.nan), "unmet"),
    ],
)
def test_a_rule_is_met_or_unmet_only_where_the_whole_interval_says_so(check: RuleCheck, said: str) -> None:
    assert check.verdict == said


@pytest.mark.parametrize(
    ("check", "tolerance", "shown"),
    [
        (checked(0.0, 0.0, 1000.0), 0.01, True),
        (checked(0.005, 0.002, 500.0), 0.01, True),
        (checked(0.005, 0.004, 500.0), 0.01, False),
        (checked(0.02, 0.0, 500.0), 0.01, False),
        (checked(0.005, 0.001, 500.0, error_of_points=0.002), 0.01, True),
        (checked(0.005, 0.001, 500.0, error_of_points=0.003), 0.01, False),
        (checked(math.nan, 0.0, 500.0), 0.01, False),
    ],
)
def test_within_the_tolerance_means_with_two_errors_to_spare(
    check: RuleCheck, tolerance: float, shown: bool
) -> None:
    assert check.shown_within(tolerance) is shown


def test_the_violation_is_the_share_of_violations_or_the_mean_total_variation() -> None:
    share = checked(0.02, 0.005, 500.0, 0.01, 0.03)
    assert share.measure == "violation"
    assert share.violation is share.epsilon_mean
    variation = Figure(0.1, 0.08, 0.12, math.nan)
    found = {"total_variation": Divergence(variation, 0.3, {"x": 1.0})}
    together = RuleCheck("rule", "rule", 0.05, "unmet", points=64, divergences=found)
    assert together.measure == "total variation"
    assert together.violation is variation
    assert together.worst.value == 0.3


def test_checks_are_a_sequence_of_their_rules() -> None:
    values = np.random.default_rng(0).normal(size=(4, 500))
    rules = ["always y <= 50", "always y >= -50"]
    report = check_rules(constants(values, rules), points=10, ascent=False)
    assert report.met
    assert report.overall.verdict == "met"
    assert len(report) == 2
    assert [each.name for each in report] == rules
    assert report["always y >= -50"] is report[1]
    with pytest.raises(KeyError):
        report["always y >= 7"]
