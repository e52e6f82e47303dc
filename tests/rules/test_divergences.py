"""Divergences between predictive and asked distribution, against closed forms and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy, norm

from ocbnn.language.expressions import Number
from ocbnn.rules.divergences import NAMES, class_divergences, normal_divergences
from ocbnn.rules.kinds.probability import ProbabilityTarget, StatedProbability
from ocbnn.rules.requirement import Asked, Normals


def stated(members, probability):
    """What `P(…) = probability` asks for at one point."""
    rule = ProbabilityTarget((), Number(probability))
    return rule.asked(StatedProbability(np.array([members]), np.array([probability])))


def test_classes_agree_with_the_definitions():
    asked, predicted = np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.4, 0.2])
    found = class_divergences(Asked(asked[None]), predicted[None])
    assert found["total_variation"][0] == pytest.approx(0.2)
    assert found["kl"][0] == pytest.approx(entropy(asked, predicted))
    hellinger = np.sqrt(0.5 * ((np.sqrt(asked) - np.sqrt(predicted)) ** 2).sum())
    assert found["hellinger"][0] == pytest.approx(hellinger)
    assert found["wasserstein"][0] == pytest.approx(0.2)
    assert set(found) == set(NAMES)


def test_a_target_for_some_classes_is_about_their_total():
    target = stated([True, False, True], 0.9)
    found = class_divergences(target, np.array([[0.5, 0.3, 0.2]]))
    assert found["total_variation"][0] == pytest.approx(0.2)
    assert found["kl"][0] == pytest.approx(entropy([0.9, 0.1], [0.7, 0.3]))


def test_a_certain_target_has_no_infinite_divergence_where_it_is_met():
    target = stated([False, True], 1.0)
    found = class_divergences(target, np.array([[0.0, 1.0]]))
    assert all(values[0] == 0.0 for values in found.values())


def test_two_normals_have_their_closed_forms():
    (m1, s1), (m2, s2) = (0.0, 1.0), (1.5, 0.6)  # asked, predicted
    asked = Normals(np.array([[1.0]]), np.array([[m1]]), np.array([[s1]]))
    found = normal_divergences(asked, np.full((3, 1), m2), np.full((3, 1), s2), np.full((1, 3), 1 / 3))
    kl = np.log(s2 / s1) + (s1**2 + (m1 - m2) ** 2) / (2 * s2**2) - 0.5
    overlap = np.sqrt(2 * s1 * s2 / (s1**2 + s2**2)) * np.exp(-0.25 * (m1 - m2) ** 2 / (s1**2 + s2**2))
    y = np.linspace(-12, 12, 400_001)
    variation = 0.5 * np.trapezoid(np.abs(norm.pdf(y, m1, s1) - norm.pdf(y, m2, s2)), y)
    wasserstein = np.trapezoid(np.abs(norm.cdf(y, m1, s1) - norm.cdf(y, m2, s2)), y)
    assert found["kl"][0, 0] == pytest.approx(kl, rel=0.02)
    assert found["hellinger"][0, 0] == pytest.approx(np.sqrt(1 - overlap), rel=0.01)
    assert found["total_variation"][0, 0] == pytest.approx(variation, rel=0.01)
    assert found["wasserstein"][0, 0] == pytest.approx(wasserstein, rel=0.01)


def test_a_predictive_that_is_the_asked_mixture_has_no_distance_to_it():
    asked = Normals(np.array([[0.5, 0.5]]), np.array([[-2.0, 3.0]]), np.array([[0.5, 0.5]]))
    mean = np.array([[-2.0], [3.0]])
    found = normal_divergences(asked, mean, np.array([[0.5], [0.5]]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    for name in NAMES:
        assert found[name][0, 0] == pytest.approx(0.0, abs=1e-6)
    assert found["total_variation"][1, 0] == pytest.approx(0.5, abs=1e-3)
    assert found["wasserstein"][1, 0] == pytest.approx(2.5, rel=1e-2)
