"""Kinds that compare several inputs: differences bounded together, and slopes by the Jacobian."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from ocbnn.checking.check import as_rule_terms
from ocbnn.checking.draws import margins_at
from ocbnn.model import Model
from ocbnn.posterior.draws import Posterior
from ocbnn.proof import PROVED, REFUTED, UNDECIDED, prove
from ocbnn.regions import Box, Interval
from ocbnn.rules.bounding import Boxes, Case, MarginBound
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.requirement import Requirement, Units
from ocbnn.schema import Column, Schema, Target
from posterior_cases import random_posterior

SCHEMA = Schema(
    (
        Column("x", "continuous", (-2.0, 2.0), center=0.5, scale=2.0),
        Column("z", "continuous", (0.0, 5.0), center=1.0, scale=3.0),
        Column("site", "category", (0.0, 1.0), levels=("north", "south")),
    ),
    Target("y", "regression", center=1.0, scale=2.0, observed=(-3.0, 5.0)),
)


@dataclass(frozen=True)
class NorthAboveSouth(Requirement):
    """Y in the north is at least y in the south, less a slack, all else equal."""

    slack: float
    inputs = 2
    in_words = False

    def cases(self, points: np.ndarray, schema: Schema, *_: Any) -> np.ndarray:
        both = np.stack([points, points], axis=1)
        both[:, :, 2] = [0.0, 1.0]
        return both

    def demand(self, cases: np.ndarray, schema: Schema, units: Units) -> Any:
        return (np.full(len(cases), self.slack / units.scale),)

    def margin(self, demand: Any, values: Any) -> Any:
        return values[..., 1] - values[..., 0] - demand[0]

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound:
        cases = []
        for code in (0.0, 1.0):
            low, high = boxes.low.copy(), boxes.high.copy()
            low[:, 2] = high[:, 2] = code
            cases.append(Case(Boxes(low, high, schema), np.array([True, True, False])))
        bound = MarginBound(boxes, np.array([[[-1.0], [1.0]]]), tuple(cases))
        slack = np.full(len(boxes), -self.slack / units.scale)
        return replace(bound, margin=bound.reading(0, 1.0, (slack, slack)))

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return f"north above south by {-self.slack}"


@dataclass(frozen=True)
class Rises(Requirement):
    """Y does not fall with x by more than a slack for each unit of x."""

    slack: float
    inputs = 2
    coordinates = 1
    in_words = False

    def cases(self, points: np.ndarray, schema: Schema, *_: Any) -> np.ndarray:
        inputs = points[:, :3]
        further = inputs.copy()
        further[:, 0] += (0.01 + 0.99 * points[:, 3]) * (2.0 - inputs[:, 0])
        return np.stack([inputs, further], axis=1)

    def demand(self, cases: np.ndarray, schema: Schema, units: Units) -> Any:
        step = np.maximum(cases[:, 1, 0] - cases[:, 0, 0], 1e-3)
        return step, np.full(len(cases), self.slack / units.scale)

    def margin(self, demand: Any, values: Any) -> Any:
        return (values[..., 0] - values[..., 1]) / demand[0] - demand[1]

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound:
        bound = MarginBound(boxes, np.ones((1, 1, 1)))
        column = schema.column("x")
        fall = bound.steepness(0, -1.0 / column.scale, "x", drifts=2e3)
        slack = self.slack / units.scale
        return replace(bound, margin=lambda upper: fall(upper) - slack)

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return f"rises up to {self.slack}"


def posterior(spread: float) -> Posterior:
    model = Model.build(schema=SCHEMA, hidden=(5,), activation="tanh", noise=0.3)
    return random_posterior(model, (1, 60), seed=3, spread=spread)


REGION = Box({"x": Interval(-1.0, 2.0), "z": Interval(high=3.0)})


@pytest.mark.parametrize("kind", [NorthAboveSouth(1.0), Rises(0.4)], ids=["contrast", "slope"])
def test_proved_draws_violate_at_no_case_and_the_others_at_one(kind):
    drawn, rule = posterior(0.5), Constraint(REGION, kind)
    proof = prove(drawn, [rule], boxes=500)[0]
    (term,) = as_rule_terms(drawn, [rule])
    violated = (margins_at(drawn, drawn.flat, term, term.fresh(20_000, 5)) > 0).any(axis=1)
    proved = proof.proved.ravel()
    assert not (violated & proved).any()
    assert 5 < proved.sum() < 55
    assert proof.count(REFUTED) > 5
    assert proof.count(UNDECIDED) <= 3


def test_what_inputs_share_cancels_in_their_difference():
    """North and south differ by 0.5 whatever x and z are: one box proves it, however steep y is."""
    model = Model.build(schema=SCHEMA, hidden=(), noise=0.3)
    drawn = random_posterior(model, (1, 4))
    draws = np.zeros_like(drawn.draws)
    draws[..., :5] = [30.0, -20.0, 0.25, 0.0, 0.0]
    steep = replace(drawn, draws=draws)
    proof = prove(steep, [Constraint(REGION, NorthAboveSouth(-0.499))])[0]
    assert proof.status.ravel().tolist() == [PROVED] * 4
    assert proof.boxes == 4
    assert prove(steep, [Constraint(REGION, NorthAboveSouth(-0.501))])[0].count(REFUTED) == 4
