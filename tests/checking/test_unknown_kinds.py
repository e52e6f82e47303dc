"""Kinds that the library has never seen are checked and enforced like its own; contract/ fits such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from ocbnn.checking.check import check_rules, most_violated, pilot_check
from ocbnn.checking.explain import contradicting_rows
from ocbnn.posterior.allowed import EnforcementError
from ocbnn.posterior.conflict import conflict
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.enforce import reject, truncate
from ocbnn.posterior.predict import predict
from ocbnn.regions import Everywhere
from ocbnn.report import gather
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.requirement import Requirement
from posterior_cases import GRID, lines
from small_runs import figure_1b


@dataclass(frozen=True)
class Rises(Requirement):
    """y(x) ≤ y(x + h) for every h in [0, 1]."""

    in_words = False
    inputs = 2
    coordinates = 1

    def cases(self, points: np.ndarray, schema: Any, region: Any) -> np.ndarray:
        return np.stack([points[:, :1], points[:, :1] + points[:, 1:]], axis=1)

    def demand(self, cases: Any, schema: Any, units: Any) -> Any:
        return (np.zeros(len(cases)),)

    def margin(self, demand: Any, values: Any) -> Any:
        return values[..., 0] - values[..., 1] - demand[0]

    def text(self, target_name: str = "y", names: Any = ()) -> str:
        return f"{target_name} rises"


@dataclass(frozen=True)
class Average(Requirement):
    """The mean of y over all points is at most this."""

    most: float

    in_words = False
    inputs = None

    def demand(self, cases: Any, schema: Any, units: Any) -> Any:
        return (np.full(len(cases), units.of(self.most)),)

    def margin(self, demand: Any, values: Any) -> Any:
        return values.mean(axis=-1) - demand[0]

    def text(self, target_name: str = "y", names: Any = ()) -> str:
        return f"the mean of {target_name} <= {self.most:g}"


LINES = np.tile([[1.0, 2.0, -1.0, 0.5, -0.5], [0.0, 0.0, 0.0, 0.0, 9.0]], (4, 1, 20)).swapaxes(0, 1)
"""Slopes and intercepts of four chains."""
RISES, AVERAGE = Constraint(Everywhere(), Rises()), Constraint(Everywhere(), Average(1.0))


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    """Three of five lines rise; one of five has a mean above 1, whatever the points are."""
    return lines(*LINES)


def test_a_rule_that_compares_two_inputs_is_violated_by_the_draws_that_do_not_keep_it(
    posterior: Posterior,
) -> None:
    (found,) = check_rules(posterior, [RISES], points=100, by="x")
    assert found.epsilon_mean is not None
    assert found.epsilon_mean.value == pytest.approx(0.4)
    assert found.draws_violating.value == found.epsilon_worst.value == pytest.approx(0.4)
    assert found.points_violating.value == 0.0  # the mean line rises
    assert list(found.worst_point) == ["x"]
    assert found.points_found > 0
    assert [group.points for group in found.groups] == [25] * 4
    assert found.verdict == "unmet"


def test_a_rule_about_all_points_is_one_case_without_a_place(posterior: Posterior) -> None:
    report = check_rules(posterior, [AVERAGE, RISES], points=100, by="x")
    found = report[0]
    assert found.epsilon_mean.value == found.draws_violating.value == pytest.approx(0.2)
    assert (found.points, found.points_found, found.worst_point, found.groups) == (100, 0, {}, ())
    assert found.points_violating.value == 1.0  # the mean of all lines is 1.8 at 0
    assert report.overall.draws_violating.value == pytest.approx(0.4)
    assert report.overall.verdict == "unmet"
    assert str(report)


def test_rejection_keeps_the_draws_that_keep_them(posterior: Posterior) -> None:
    kept = reject(posterior, [RISES, AVERAGE], points=50).posterior
    np.testing.assert_array_equal(kept.mask, posterior.draws[..., 0] > 0)
    assert np.isfinite(predict(kept, GRID).point).all()


def test_predictions_cannot_be_truncated_to_them(posterior: Posterior) -> None:
    for rule in (RISES, AVERAGE):
        with pytest.raises(EnforcementError, match="enforce it by rejecting draws"):
            truncate(posterior, [rule])


def test_conflict_and_report_speak_of_them(posterior: Posterior) -> None:
    ruled = lines(*LINES, [RISES, AVERAGE])
    found = conflict(ruled, posterior, points=40)
    assert [each.text for each in found] == [RISES.text(ruled.schema), AVERAGE.text(ruled.schema)]
    evidence = gather(ruled, without=posterior, points=40)
    assert [rule.check.verdict for rule in evidence.rules] == ["unmet", "unmet"]
    assert [rule.check.violation.value for rule in evidence.rules] == pytest.approx([0.4, 0.2])


def test_rows_cannot_contradict_them_one_by_one() -> None:
    model = figure_1b(rules=[RISES])
    assert contradicting_rows(model, model.terms[0]).against is None


def test_the_prior_is_conditioned_on_them() -> None:
    model = figure_1b(rules=[RISES, AVERAGE], strength=None, prior_only=True, points=15, hidden=(2,))
    inputs = [rule.points.inputs.shape for rule in model.terms]
    assert inputs == [(30, 1), (15, 1)]
    assert [rule.points.weights.shape for rule in model.terms] == [(15,), (1,)]
    gradient = jax.grad(model.log_prior)(model.initial(0))
    assert np.isfinite(gradient).all()
    found = most_violated(model, model.terms[0], np.zeros((1, 1, model.size)), 0, 5)
    assert found.shape == (0, 2)  # a constant keeps it


def test_a_pilot_of_functions_that_never_keep_them_says_so() -> None:
    falling = np.array([[[-1.0, 5.0], [-2.0, 6.0]]])
    model = figure_1b(rules=[RISES, AVERAGE], hidden=())
    for rule in model.terms:
        check = pilot_check(model, rule, falling, 0, has_chains=False)
        assert check.violation.value == 1.0
