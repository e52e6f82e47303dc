"""Kinds of rules that lint has never heard of: it uses what they answer, and leaves out what they do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from lint_cases import COLOURS, LINE, rules_of
from ocbnn.errors import OCBNNError
from ocbnn.linting import lint
from ocbnn.regions import Box, Everywhere, Interval
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.requirement import Allowed, Asked, Normals, Requirement, Shares


@dataclass(frozen=True)
class Said(Requirement):
    """Nothing but what every kind answers."""

    limit: float = 0.0

    def demand(self, cases, schema, units):
        return (np.full(len(cases), units.of(self.limit)),)

    def margin(self, demand, values):
        return values - demand[0]

    def text(self, target_name="y", names=()):
        return f"{target_name} is at most {self.limit:g}"


@dataclass(frozen=True)
class Odd(Said):
    """y² + 1 ≤ 0, which no number satisfies."""

    def margin(self, demand, values):
        return values**2 + 1.0 + demand[0]


@dataclass(frozen=True)
class Listed(Said):
    """The same, and which outputs that allows."""

    def allowed(self, demand):
        return Allowed(outputs=(np.full((len(demand[0]), 1), -np.inf), demand[0][:, None]))

    def words(self, demand, schema):
        return f"nothing above {demand[0][0]:g}"


@dataclass(frozen=True)
class Pair(Said):
    """y does not fall by more than the limit from each input to another one, drawn along with it."""

    inputs = 2
    coordinates = 1

    def cases(self, points, schema, region):
        size = len(schema.columns)
        assert points.shape[1] == size + 1
        return np.stack([points[:, :size], points[:, :size] + points[:, size:]], axis=1)

    def margin(self, demand, values):
        return values[..., 0] - values[..., 1] - demand[0]


@dataclass(frozen=True)
class Population(Said):
    """The mean of y over all inputs is at most the limit."""

    inputs = None

    def margin(self, demand, values):
        return values.mean(axis=-1) - demand[0]


@dataclass(frozen=True)
class Stretched(Said):
    """At one input, and one more number in [0, 1]."""

    coordinates = 1

    def cases(self, points, schema, region):
        assert points.shape[1] == len(schema.columns) + 1
        return super().cases(points, schema, region)


@dataclass(frozen=True)
class Together(Said):
    """Judged by all draws, and no draw alone can violate it."""

    judged = "predictive"

    def margin(self, demand, values):
        raise OCBNNError("One draw alone says nothing.")


@dataclass(frozen=True)
class Spread(Together):
    """y has this mean and a standard deviation of one half."""

    def asked(self, demand):
        mean = demand[0][:, None]
        return Asked(normals=Normals(np.ones_like(mean), mean, np.full_like(mean, 0.5)))


@dataclass(frozen=True)
class HalfOf(Together):
    """The first class has this probability."""

    def asked(self, demand):
        rest = np.stack([demand[0], 1.0 - demand[0]], axis=1)
        events = np.tile(np.array([[True, False, False], [False, True, True]]), (len(rest), 1, 1))
        return Asked(rest, events)


@dataclass(frozen=True)
class Shared(Said):
    """Two things at once: the last class does not win, and the first has at least this probability."""

    def allowed(self, demand):
        rows = len(demand[0])
        masks = np.tile([True, True, False], (rows, 1)), np.tile([True, False, False], (rows, 1))
        return Allowed(classes=masks[0], shares=Shares(masks[1], demand[0][:, None], np.ones((rows, 1))))

    def against(self, demand, observed):
        return None


SOME = Box({"x": Interval(0, 1)})
ROWS = pd.DataFrame({"x": np.linspace(-1, 1, 80), "z": 0.0, "y": np.linspace(-2, 2, 80)})
LABELS = ROWS.drop(columns="y").assign(label=np.tile(["blue", "green", "red", "red"], 20))


def found(*rules, schema=LINE, data=None):
    every = [
        rule if isinstance(rule, Constraint) else Constraint(SOME, rule, name=type(rule).__name__)
        for rule in rules
    ]
    return [(finding.kind, finding.severity, finding.rules) for finding in lint(every, schema, data)]


@pytest.mark.parametrize("kind", [Pair, Population, Stretched, Together])
def test_a_kind_that_no_output_of_one_input_can_be_held_against_is_compared_with_nothing(kind):
    others = rules_of(("always y >= 100", "if x > 0 then y ~ Normal(0, 1)", "always y = sin(x)"), LINE)
    with_others = found(kind(-5.0), *others, Listed(-5.0), Said(-6.0), data=ROWS)
    assert all(kind.__name__ not in rules for _, _, rules in with_others)
    assert found(kind(), schema=COLOURS, data=LABELS) == []


@pytest.mark.parametrize("kind", [Said, Pair, Population, Stretched, Together])
def test_regions_are_looked_at_whatever_the_kind(kind):
    nowhere = Constraint(Box({"x": Interval(2, 1)}), kind(), name="nowhere")
    far = Constraint(Box({"x": Interval(7, 8)}), kind(), name="far")
    assert found(nowhere, far) == [
        ("empty-region", "error", ("nowhere",)),
        ("unobserved", "warning", ("far",)),
    ]
    assert found(kind(1.0), kind(1.0))[0][:2] == ("implied", "warning")


def test_outputs_that_cannot_be_listed_are_searched():
    (above,) = rules_of(("always y >= 1",), LINE)
    assert found(Odd()) == [("empty-output", "warning", ("Odd",))]
    (finding,) = lint([Constraint(SOME, Said(0.5), name="said"), above], LINE)
    assert (finding.kind, finding.severity) == ("contradiction", "warning")
    assert "not a proof" in finding.text
    assert "“said” asks for y is at most 0.5" in finding.text
    assert found(Said(1.5), above) == []


def test_outputs_that_are_listed_are_compared_and_told_in_the_words_of_the_kind():
    (above,) = rules_of(("always y >= 1",), LINE)
    (finding,) = lint([Constraint(SOME, Listed(0.5), name="listed"), above], LINE)
    assert (finding.kind, finding.severity) == ("contradiction", "error")
    assert "“listed” asks for nothing above 0.5" in finding.text
    assert found(Listed(1.5), above) == []
    assert found(Listed(0.5), Said(-1.0)) == []


def test_rows_are_held_against_a_kind_that_says_which_contradict_it():
    (finding,) = lint([Constraint(Everywhere(), Said(1.0), name="said")], LINE, ROWS)
    assert (finding.kind, finding.count) == ("data-conflict", int((ROWS["y"] > 1.0).sum()))


def test_distributions_are_compared_with_each_other_and_with_rows():
    (normal,) = rules_of(("always y ~ Normal(3, 0.5)",), LINE)
    contradiction = ("contradiction", "warning", ("Spread", "always y ~ Normal(3, 0.5)"))
    assert found(Spread(1.0), normal) == [contradiction]
    assert found(Spread(3.0), normal) == []
    assert ("data-conflict", "warning", ("Spread",)) in found(Spread(3.0), data=ROWS)
    assert found(Spread(3.0), Said(0.0)) == []


def test_probabilities_are_compared_with_each_other_and_with_rows():
    blue, fewer = rules_of(("always label = blue", "always P(label = blue) <= 0.5"), COLOURS)
    assert found(HalfOf(0.3), blue, schema=COLOURS)[0][:2] == ("contradiction", "error")
    assert found(HalfOf(0.5), blue, schema=COLOURS) == []
    assert found(Shared(0.8), fewer, schema=COLOURS)[0][:2] == ("contradiction", "error")
    (red,) = rules_of(("always label = red",), COLOURS)
    assert found(Shared(0.0), red, schema=COLOURS)[0][:2] == ("contradiction", "error")
    assert found(Shared(0.0), blue, schema=COLOURS) == []
    conflict = [("data-conflict", "warning", ("HalfOf",))]
    assert found(HalfOf(0.9), schema=COLOURS, data=LABELS) == conflict
    assert found(HalfOf(0.25), schema=COLOURS, data=LABELS) == []
    assert found(Shared(0.9), schema=COLOURS, data=LABELS) == [("data-conflict", "warning", ("Shared",))]
