"""Margins: for every kind and any number of inputs, for NumPy and JAX alike."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from language_schemas import COLOURS, HIRING, LINE, coded
from ocbnn.regions import Everywhere
from ocbnn.rules import Constraint, parse_rule
from ocbnn.rules.kinds.classes import Classes
from ocbnn.rules.margins import margins, placed
from ocbnn.rules.requirement import Requirement, Units


def circle(x, y):
    return y * y - x["x"] ** 2


def above(x, y):
    return -y - x["x"]


CASES = {
    "interval": (LINE, "always -0.5 <= y <= 0.75"),
    "half-line": (LINE, "always y >= 0.3"),
    "gap": (LINE, "always not -1 <= y <= 1"),
    "intervals that vary": (LINE, "always y <= -x or 0 <= y <= x or x * y >= 1"),
    "value": (LINE, "always y = 0.5 within 0.2"),
    "values": (LINE, "always y = -0.4 within 0.2 (0.7) or y = x (0.2) or y = 2 (0.1)"),
    "functions": (LINE, ([circle, above], False)),
    "negative functions": (LINE, ([circle, above], True)),
    "one class": (HIRING, "always hired = 1"),
    "two of three classes": (COLOURS, "always label in {blue, green}"),
    "all classes": (COLOURS, Classes(("blue", "green", "red"))),
    "probability bound": (HIRING, "always P(hired = 1) >= 0.95"),
    "probability bound of two": (COLOURS, "always P(label in {blue, 'red'}) <= 0.3"),
}


def rule_of(schema, said):
    if isinstance(said, str):
        return parse_rule(said, schema)
    if isinstance(said, Requirement):
        return Constraint(Everywhere(), said)
    functions, negative = said
    return Constraint.from_functions(Everywhere(), functions, negative=negative)


@pytest.mark.parametrize("name", CASES)
def test_jax_under_jit_agrees_with_numpy_exactly(name):
    schema, said = CASES[name]
    rule, generator = rule_of(schema, said), np.random.default_rng(0)
    points = coded(schema, **{"x" if schema is LINE else "skill": [0.0, 0.2, 0.8, 1.0]})
    classes = len(schema.target.classes)
    values = generator.dirichlet(np.ones(classes), (20, 4)) if classes else 2 * generator.normal(size=(20, 4))
    demand = rule.demand(points, schema, Units.of_model(schema.target))
    with jax.enable_x64(True):
        in_jax = jax.jit(rule.requirement.margin)(demand, jnp.asarray(values))
    in_numpy = rule.requirement.margin(demand, values)
    assert isinstance(in_numpy, np.ndarray)
    assert in_numpy.shape == (20, 4)
    np.testing.assert_allclose(in_jax, in_numpy, rtol=1e-14, atol=1e-15)


def test_margins_are_of_what_functions_say_at_the_points_in_the_units_given():
    rule = parse_rule("always y >= 2 * x", LINE)  # center 1, scale 2
    points = coded(LINE, x=[0.0, 1.0, 2.0])

    def line(inputs):
        return np.stack([inputs[:, 0], inputs[:, 0] + 3.0])

    np.testing.assert_allclose(margins(rule, LINE, points, line), [[0, 1, 2], [-3, -2, -1]])
    standardised = margins(rule, LINE, points, lambda x: (line(x) - 1.0) / 2.0, Units.of_model(LINE.target))
    np.testing.assert_allclose(standardised, [[0, 0.5, 1], [-1.5, -1, -0.5]])


@dataclass(frozen=True)
class Rises(Requirement):
    """From each input to one that is larger by 1, y does not fall."""

    inputs = 2

    def cases(self, points, schema, region):
        inputs = points[:, : len(schema.columns)]
        return np.stack([inputs, inputs + 1.0], axis=1)

    def demand(self, cases, schema, units):
        return (np.zeros(len(cases)),)

    def margin(self, demand, values):
        return values[..., 0] - values[..., 1] - demand[0]

    def text(self, target_name="y", names=()):
        return f"{target_name} rises"


@dataclass(frozen=True)
class FairShare(Requirement):
    """Over all inputs together, class 1 has a probability of one half at most."""

    inputs = None

    def demand(self, cases, schema, units):
        return (np.full(len(cases), 0.5),)

    def margin(self, demand, values):
        return values[..., 1].mean(axis=-1) - demand[0]

    def text(self, target_name="y", names=()):
        return f"{target_name} is shared"


def test_a_case_of_two_inputs_compares_what_functions_say_at_both():
    rule, points = Constraint(Everywhere(), Rises()), coded(LINE, x=[0.0, 1.0, 2.0])
    at = placed(rule, LINE, points)
    assert at.cases == 3
    assert at.inputs[:, 0].tolist() == [0, 1, 1, 2, 2, 3]
    found = margins(rule, LINE, points, lambda x: np.stack([x[:, 0] ** 2, -x[:, 0]]))
    np.testing.assert_allclose(found, [[-1, -3, -5], [1, 1, 1]])


def test_all_points_together_are_one_case_where_a_rule_is_about_a_population():
    rule, points = Constraint(Everywhere(), FairShare()), coded(HIRING, skill=[0.2, 0.6, 1.0])
    found = margins(rule, HIRING, points, lambda x: np.stack([1.0 - x[:, 0], x[:, 0]], axis=-1)[None])
    assert found.shape == (1, 1)
    np.testing.assert_allclose(found, [[0.1]])


@pytest.mark.parametrize("text", ["always y >= 0.3", "always not -1 <= y <= 1", "always y = 0.5 within 0.2"])
def test_an_output_that_is_not_a_number_violates_for_all_who_judge(text):
    rule, points = parse_rule(text, LINE), coded(LINE, x=[0.0, 1.0])
    found = margins(rule, LINE, points, lambda x: np.array([[np.nan, 2.0]]))
    assert found[0, 0] == np.inf
    assert np.isfinite(found[0, 1])
    against = rule.requirement.against(rule.demand(points, LINE), np.array([np.nan, 2.0]))
    assert against.tolist() == [True, bool(found[0, 1] > 0)]
