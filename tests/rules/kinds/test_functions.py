"""Rules from Python: functions g(x, y) of the columns and of y in raw units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from language_schemas import LINE, coded
from ocbnn.regions import Everywhere
from ocbnn.rules import Constraint
from ocbnn.rules.kinds.functions import Columns, Functions
from ocbnn.rules.requirement import Units


def test_functions_get_the_columns_and_raw_units():
    rule = Constraint.from_functions(Everywhere(), lambda x, y: y - x["x"])
    points = coded(LINE, x=[1, 2])
    demand = rule.demand(points, LINE)
    assert isinstance(demand, Columns)
    assert demand.columns["x"].tolist() == [1, 2]
    assert (demand.center.tolist(), demand.scale.tolist()) == ([0, 0], [1, 1])
    standardised = rule.demand(points, LINE, Units.of_model(LINE.target))
    assert (standardised.center.tolist(), standardised.scale.tolist()) == ([1, 1], [2, 2])


def test_functions_see_raw_units_and_the_columns():
    rule = Functions((lambda x, y: y - x["limit"], lambda x, y: -y))
    demand = Columns({"limit": np.array([10.0, 20.0])}, np.full(2, 5.0), np.full(2, 2.0))
    np.testing.assert_allclose(rule.margin(demand, np.array([4.0, -3.0])), [3.0, 1.0])
    negative = Functions(rule.inequalities, negative=True)
    np.testing.assert_allclose(negative.margin(demand, np.array([4.0, 1.0])), [-3.0, 7.0])


def test_functions_that_do_not_depend_on_y_hold_for_every_draw():
    rule = Functions((lambda x, y: x["limit"], lambda x, y: -1.0))
    demand = Columns({"limit": np.array([1.0, -2.0])}, np.zeros(2), np.ones(2))
    np.testing.assert_allclose(rule.margin(demand, np.zeros((3, 2))), [[1.0, -1.0]] * 3)


def test_on_a_log_scale_functions_take_y_in_raw_units():
    log_line = replace(LINE, target=replace(LINE.target, transform="log", center=0.5, scale=2.0))
    rule = Constraint.from_functions(Everywhere(), lambda x, y: y - 3 * x["x"])
    demand = rule.demand(coded(log_line, x=[1.0, 2.0]), log_line, Units.of_model(log_line.target))
    values = np.array([[0.3, -0.2]])
    expected = np.exp(2.0 * values + 0.5) - 3 * np.array([1.0, 2.0])
    np.testing.assert_allclose(rule.requirement.margin(demand, values), expected, rtol=1e-14)
