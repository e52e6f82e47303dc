"""Rules about the most probable class."""

from __future__ import annotations

import numpy as np

from language_schemas import CLINIC, COLOURS
from ocbnn.rules.kinds.classes import AllowedClasses
from rules.demands import demanded, in_model_units, requirement


def test_classes_are_a_mask_in_the_order_of_the_schema():
    assert demanded("always label in {green, blue}", COLOURS).allowed.tolist() == [[True, True, False]]
    assert demanded("always not label = 'red'", COLOURS).allowed.tolist() == [[True, True, False]]
    assert demanded("always action = 1", CLINIC, age=[1, 2]).allowed.tolist() == [[False, True]] * 2


def test_model_units_leave_classes_alone():
    raw, model = (ask("always label = green", COLOURS) for ask in (demanded, in_model_units))
    np.testing.assert_array_equal(model.allowed, raw.allowed)


def test_a_class_rule_is_broken_when_the_most_probable_class_lies_outside():
    demand = AllowedClasses(np.array([[True, True, False]]))
    probabilities = np.array([[[0.5, 0.0, 0.5]], [[0.3, 0.3, 0.4]], [[0.1, 0.7, 0.2]]])
    margins = requirement("always label in {blue, green}", COLOURS).margin(demand, probabilities)
    np.testing.assert_allclose(margins[:, 0], [0.0, 0.1, -0.5])
