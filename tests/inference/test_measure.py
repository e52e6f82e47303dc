"""The figure that strength is chosen by: violation on fresh points, with its error."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from ocbnn.inference.measure import Measured, contradicting_rows, measure, most_broken, unmet_reason
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm


def line(rule: str, y: list[float] | None = None) -> tuple[Model, RuleTerm]:
    """Two weights, y = slope · x + bias, on four rows."""
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0.0, 1.0, 2.0, 3.0] if y is None else y})
    model = Model.build(frame=frame, target="y", rules=[rule], hidden=(), noise=0.5, standardize=False)
    return model, model.prior.rules[0]  # type: ignore[union-attr]


def draws(*weights: tuple[float, float], repeat: int = 1) -> np.ndarray:
    return np.repeat(np.array([weights]), repeat, axis=1)


def test_the_violation_is_the_share_of_draws_and_points() -> None:
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    measured = measure(model, rule, draws((1.0, 0.0)), seed=0)  # y = x breaks it on (1, 2]
    assert measured.violation == pytest.approx(0.5, abs=0.02)
    assert measured.error == 0.0
    assert measure(model, rule, draws((0.0, 0.0)), seed=0).violation == 0.0
    assert measure(model, rule, draws((0.0, 2.0)), seed=0).violation == 1.0


def test_the_error_is_that_of_the_effective_draws() -> None:
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    outcomes = np.random.default_rng(0).random((2, 200)) < 0.3
    weights = np.stack([np.zeros((2, 200)), np.where(outcomes, 2.0, 0.0)], axis=-1)
    measured = measure(model, rule, weights, seed=0)
    assert measured.violation == pytest.approx(outcomes.mean())
    assert measured.error == pytest.approx(outcomes.std() / np.sqrt(measured.effective))
    assert 150 < measured.effective <= 400


def test_the_error_of_the_points_is_that_of_shares_at_points() -> None:
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    measured = measure(model, rule, draws((1.0, 0.0), (0.0, 0.0)), seed=0, points=400)
    # Half of the draws break it at half of the points: shares of 1/2 and 0, their standard deviation 1/4.
    assert measured.by_points == pytest.approx(0.25 / np.sqrt(400), rel=0.01)


def test_the_most_broken_points_are_those_that_most_draws_break() -> None:
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    found = most_broken(model, rule, draws((1.0, 0.0), (0.6, 0.0), (0.0, 0.0)), seed=0, count=30)
    assert len(found) == 30
    assert found.min() > 1 / 0.6  # where two of the three do
    assert len(most_broken(model, rule, draws((0.0, 0.0)), seed=0, count=30)) == 0


def test_a_network_that_is_not_finite_violates() -> None:
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    assert measure(model, rule, draws((np.nan, 0.0)), seed=0).violation == 1.0


def test_a_distribution_rule_is_judged_by_total_variation_with_the_noise() -> None:
    model, rule = line("if 0 <= x <= 2 then y ~ Normal(1, 0.5)")
    same = measure(model, rule, draws((0.0, 1.0)), seed=0)
    assert same.violation == pytest.approx(0.0, abs=1e-9)
    shifted = measure(model, rule, draws((0.0, 1.5)), seed=0)
    assert shifted.violation == pytest.approx(2 * norm.cdf(0.5) - 1, abs=1e-4)  # means one sd apart


@pytest.mark.parametrize(
    ("measured", "tolerance", "shown"),
    [
        (Measured(0.0, 0.0, 1000.0), 0.01, True),
        (Measured(0.005, 0.002, 500.0), 0.01, True),
        (Measured(0.005, 0.004, 500.0), 0.01, False),
        (Measured(0.02, 0.0, 500.0), 0.01, False),
        (Measured(0.005, 0.001, 500.0, by_points=0.002), 0.01, True),
        (Measured(0.005, 0.001, 500.0, by_points=0.003), 0.01, False),
        (Measured(float("nan"), 0.0, 500.0), 0.01, False),
    ],
)
def test_within_the_tolerance_means_with_two_errors_to_spare(
    measured: Measured, tolerance: float, shown: bool
) -> None:
    assert measured.shown_within(tolerance) is shown


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (Measured(0.0, 0.0, 2000.0, 0.0, 0.002), "met"),
        (Measured(0.0, 0.0, 50.0, 0.0, 0.071), "not shown at this tolerance"),
        (Measured(0.02, 0.005, 500.0, 0.01, 0.03), "not shown at this tolerance"),
        (Measured(0.02, 0.001, 500.0, 0.018, 0.022), "unmet"),
        (Measured(float("nan"), 0.0, 500.0, float("nan"), float("nan")), "unmet"),
    ],
)
def test_a_rule_is_met_or_unmet_only_where_the_whole_interval_says_so(
    measured: Measured, verdict: str
) -> None:
    assert measured.verdict(0.01) == verdict


def test_fifty_particles_without_a_violation_do_not_show_one_percent() -> None:
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    few = measure(model, rule, draws((0.0, 0.0), repeat=50), seed=0)
    assert (few.violation, few.low) == (0.0, 0.0)
    assert few.high == pytest.approx(1 - 0.025 ** (1 / 50))  # Clopper and Pearson
    assert few.verdict(0.01) == "not shown at this tolerance"
    assert measure(model, rule, draws((0.0, 0.0), repeat=1000), seed=0).verdict(0.01) == "met"


def test_draws_that_never_violate_count_by_how_their_margins_depend_on_each_other() -> None:
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    level = np.repeat(np.random.default_rng(0).normal(-3.0, 0.1, (4, 25)), 10, axis=1)  # each stays ten draws
    found = measure(model, rule, np.stack([np.zeros_like(level), level], axis=-1), seed=0)
    assert found.violation == 0.0
    assert 40 < found.effective < 250  # of 1,000
    assert found.verdict(0.01) == "not shown at this tolerance"


def test_the_interval_of_a_total_variation_is_that_of_the_draws() -> None:
    """P(yes) is 0.5 ± 0.1 in 400 independent draws, and 0.4 is asked for: 0.1 ± 2 · 0.1/√400."""
    frame = pd.DataFrame({"x": [0.0, 1.0], "label": ["no", "yes"]})
    model = Model.build(frame=frame, target="label", rules=["always P(label = yes) = 0.4"], hidden=())
    p = np.clip(np.random.default_rng(0).normal(0.5, 0.1, (4, 100)), 0.05, 0.95)
    weights = np.stack([np.zeros_like(p), np.log(p / (1 - p))], axis=-1)
    found = measure(model, model.prior.rules[0], weights, seed=0)  # type: ignore[union-attr]
    assert found.violation == pytest.approx(p.mean() - 0.4)
    assert found.low < found.violation < found.high
    assert 0.004 < found.high - found.violation < 0.06  # Student's t of four chains is wide


def test_rows_that_contradict_a_rule_are_counted() -> None:
    model, rule = line("if 1 <= x <= 3 then y <= 2.5", [9.0, 1.0, 2.0, 3.0])
    assert contradicting_rows(model, rule) == (3, 1, ("x = 3: y = 3",))
    assert contradicting_rows(*line("if x > 5 then y <= 2.5")) == (0, 0, ())


def test_rows_against_a_rule_about_classes_are_named_by_their_labels() -> None:
    frame = pd.DataFrame(
        {"x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "label": ["no", "yes", "no", "no", "no", "no"]}
    )
    model = Model.build(frame=frame, target="label", rules=["if x >= 1 then label = yes"], hidden=())
    found = contradicting_rows(model, model.prior.rules[0])  # type: ignore[union-attr]
    assert (found.inside, found.against) == (5, 4)
    assert str(found).startswith("4 of the 5 rows in its region (x = 2: label = no; x = 3: label = no;")
    assert str(found).endswith("; …)")


def test_another_rule_without_a_common_output_is_named_with_a_place() -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0.0, 1.0, 2.0, 3.0]})
    rules = ["if 1 <= x <= 3 then y >= 5", "if x >= 2 then y <= 4"]
    model = Model.build(frame=frame, target="y", rules=rules, hidden=(), noise=0.5, standardize=False)
    much = Measured(0.4, 0.1, 10.0)
    reason = unmet_reason(model, model.prior.rules[0], much, None, found=True)  # type: ignore[union-attr]
    assert "it and 'if x >= 2 then y <= 4' have no output in common where x = " in reason
    where = float(reason.split("where x = ")[1].split(":")[0])
    assert 2 <= where <= 3


def test_reasons_name_the_cause_that_was_shown() -> None:
    much, none = Measured(0.4, 0.1, 10.0), Measured(0.0, 0.0, 8.0)
    model, rule = line("if 1 <= x <= 3 then y <= 2.5")
    assert "conflicts with 1 of the 3 rows" in unmet_reason(model, rule, much, none, found=True)
    model, rule = line("if 1 <= x <= 3 then y <= 5")
    assert "too small" in unmet_reason(model, rule, much, much, found=True)
    assert "it was given" in unmet_reason(model, rule, much, none, found=False)
    assert "the network can obey it" in unmet_reason(model, rule, much, none, found=True)
