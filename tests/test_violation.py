"""Violation: exact margins, for NumPy and JAX alike."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ocbnn import violation
from ocbnn.errors import OCBNNError
from ocbnn.rules.located import (
    AllowedClasses,
    AllowedIntervals,
    AllowedValues,
    LocatedFunctions,
    ProbabilityIntervals,
    TargetClassProbabilities,
    TargetProbability,
)
from ocbnn.rules.outputs import Functions
from term_cases import CASES, outputs_for

INFINITY = np.inf


def test_an_interval_is_broken_outside_by_the_distance_to_its_nearer_end():
    located = AllowedIntervals(np.full((5, 1), 2.5), np.full((5, 1), 3.0))
    margins = violation.margin(None, located, np.array([2.0, 2.5, 2.6, 3.0, 4.0]))
    np.testing.assert_allclose(margins, [0.5, 0.0, -0.1, 0.0, 1.0], atol=1e-12)
    assert list(violation.violates(None, located, np.array([2.0, 2.5, 2.6, 3.0, 4.0]))) == [
        True,
        False,
        False,
        False,
        True,
    ]


def test_of_several_intervals_the_nearest_counts_and_unused_slots_never_do():
    lower = np.array([[-INFINITY, 2.5], [-INFINITY, INFINITY]])
    upper = np.array([[1.0, INFINITY], [1.0, -INFINITY]])
    margins = violation.margin(None, AllowedIntervals(lower, upper), np.array([2.0, 2.0]))
    np.testing.assert_allclose(margins, [0.5, 1.0])


def test_a_value_is_broken_beyond_its_margin():
    located = AllowedValues(np.array([[2.0, 3.0]]), np.array([[0.7, 0.3]]), np.array([0.1]))
    margins = violation.margin(None, located, np.array([[2.05], [2.5], [3.3]]))
    np.testing.assert_allclose(margins[:, 0], [-0.05, 0.4, 0.2])


def test_a_class_rule_is_broken_when_the_most_probable_class_lies_outside():
    located = AllowedClasses(np.array([[True, True, False]]))
    probabilities = np.array([[[0.5, 0.0, 0.5]], [[0.3, 0.3, 0.4]], [[0.1, 0.7, 0.2]]])
    np.testing.assert_allclose(violation.margin(None, located, probabilities)[:, 0], [0.0, 0.1, -0.5])


def test_a_probability_bound_is_on_the_total_of_the_classes_named():
    located = ProbabilityIntervals(np.array([[True, False, True]]), np.array([[0.9]]), np.array([[1.0]]))
    margins = violation.margin(None, located, np.array([[[0.5, 0.2, 0.3]], [[0.6, 0.05, 0.35]]]))
    np.testing.assert_allclose(margins[:, 0], [0.1, -0.05], atol=1e-12)


def test_a_total_rounded_past_one_does_not_break_a_bound_of_one():
    located = ProbabilityIntervals(np.ones((1, 3), bool), np.array([[0.9]]), np.array([[1.0]]))
    past_one = np.array([[0.5, 0.3, np.nextafter(0.2, 1.0) + 1e-16]])
    assert past_one.sum() > 1.0
    assert not violation.violates(None, located, past_one)[0]


def test_probability_targets_are_missed_by_the_total_variation():
    two = TargetProbability(np.array([[False, True]]), np.array([0.8]))
    assert violation.margin(None, two, np.array([[0.5, 0.5]]))[0] == pytest.approx(0.3)
    three = TargetClassProbabilities(np.array([[0.2, 0.5, 0.3]]))
    assert violation.margin(None, three, np.array([[0.4, 0.5, 0.1]]))[0] == pytest.approx(0.2)


def test_functions_see_raw_units_and_the_columns():
    output = Functions((lambda x, y: y - x["limit"], lambda x, y: -y))
    located = LocatedFunctions({"limit": np.array([10.0, 20.0])}, np.full(2, 5.0), np.full(2, 2.0))
    np.testing.assert_allclose(violation.margin(output, located, np.array([4.0, -3.0])), [3.0, 1.0])
    negative = Functions(output.inequalities, negative=True)
    np.testing.assert_allclose(violation.margin(negative, located, np.array([4.0, 1.0])), [-3.0, 7.0])


def test_a_distribution_over_y_has_no_violation_of_one_draw():
    case = CASES["normals"]
    with pytest.raises(OCBNNError, match="total variation"):
        violation.margin(case.output, case.located, np.zeros(4))


def test_functions_that_do_not_depend_on_y_hold_for_every_draw():
    output = Functions((lambda x, y: x["limit"], lambda x, y: -1.0))
    located = LocatedFunctions({"limit": np.array([1.0, -2.0])}, np.zeros(2), np.ones(2))
    np.testing.assert_allclose(violation.margin(output, located, np.zeros((3, 2))), [[1.0, -1.0]] * 3)


def test_what_is_not_a_number_obeys_nothing():
    located = AllowedIntervals(np.zeros((1, 2)), np.ones((1, 2)))
    assert violation.violates(None, located, np.array([np.nan]))[0]


def test_numbers_and_lists_are_taken_as_arrays():
    located = AllowedIntervals(np.zeros((2, 1)), np.ones((2, 1)))
    np.testing.assert_allclose(violation.margin(None, located, [2, -1]), [1.0, 1.0])


@pytest.mark.parametrize("case_name", [name for name in CASES if name != "normals"])
def test_jax_under_jit_agrees_with_numpy_exactly(case_name):
    case = CASES[case_name]
    outputs = outputs_for(case, 20)
    outputs = np.exp(outputs) if case.classes else outputs
    with jax.enable_x64(True):
        traced = jax.jit(lambda located, values: violation.margin(case.output, located, values))
        in_jax = traced(case.located, jnp.asarray(outputs))
    in_numpy = violation.margin(case.output, case.located, outputs)
    assert isinstance(in_numpy, np.ndarray)
    assert in_numpy.shape == (20, 4)
    np.testing.assert_allclose(in_jax, in_numpy, rtol=1e-14, atol=1e-15)
