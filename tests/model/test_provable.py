"""The term on bounds: bounds hold, boxes are the region, gradients flow; the rest is refused."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

from ocbnn.errors import ModelError, RuleError
from ocbnn.model.conditional import rule_points
from ocbnn.model.likelihoods import Likelihood
from ocbnn.model.model import Model, default_likelihood
from ocbnn.model.networks import MLP, FunctionNetwork
from ocbnn.model.provable import BOXES, Provable
from ocbnn.model.terms import Distance
from ocbnn.regions import Everywhere
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.margins import by_case, placed
from ocbnn.rules.parse import parse_rule
from ocbnn.rules.requirement import Units
from ocbnn.schema import Schema

RULES = {
    "y": [
        "if a > 0 then y <= 7",
        "always y <= 2 * a + 9",
        "always y = 5 within 2",
        "if a * b > 1 and k in {1, 2} then y >= 1",
        "always y increases with b",
        "always y changes by at most 2 per a",
        "always y with g = x >= y with g = z",
        "always y does not depend on g",
    ],
    "c": [
        "if a > 0.5 then c = u",
        "always P(c in {u, v}) >= 0.2",
        "always P(c = u) <= b / 50",
        "always P(c = u) decreases with b",
        "always P(c = u) with g = x >= P(c = u) with g = z",
    ],
}
CASES = [(target, rule) for target, rules in RULES.items() for rule in rules]


@pytest.fixture(scope="module")
def schemas() -> dict[str, Schema]:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": generator.normal(size=60),
            "b": generator.uniform(1, 50, 60),
            "g": generator.choice(list("xyz"), 60),
            "k": generator.integers(0, 9, 60),
        }
    )
    y, c = generator.normal(5, 2, 60), generator.choice(list("uvw"), 60)
    return {
        "y": Schema.infer(frame.assign(y=y), target="y"),
        "c": Schema.infer(frame.assign(c=c), target="c"),
    }


def made(schema: Schema, rule: str, activation: str = "tanh", **options: Any) -> tuple[Provable, Likelihood]:
    likelihood = default_likelihood(schema)
    network = MLP(schema.width, (6, 5), likelihood.outputs, activation, **options)
    return Provable.of(parse_rule(rule, schema), schema, network, Distance()), likelihood


def margins(
    provable: Provable, likelihood: Likelihood, weights: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Of one network at points, in the units that bounds are in: of log-odds for classes."""
    schema, rule = provable.schema, provable.rule
    assert schema.target is not None
    at = placed(rule, schema, points, Units.of_model(schema.target))
    inputs = schema.to_model(at.inputs)
    values = np.asarray(likelihood.function(provable.network.apply(weights, inputs)), dtype=float)
    if schema.target.classes and not rule.requirement.margin_of_logs:
        values = np.exp(values)
    values = by_case(rule, values, at.cases, bool(schema.target.classes))
    return rule.requirement.violation(at.demand, values)


def drawn(provable: Provable, count: int = 3, size: float = 0.7) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, provable.network.size)) * size


def require_bounds(provable: Provable, likelihood: Likelihood) -> None:
    draws = drawn(provable)
    boxes = provable.partition(draws, 32)
    bounds = np.asarray(jax.jit(jax.vmap(lambda w: provable.margins(w, boxes)))(draws))
    assert np.isfinite(bounds).all()
    points = rule_points(1, provable.rule, provable.schema, None, 300)
    inputs = points[:, None, : len(provable.schema.columns)]
    inside = ((inputs >= boxes.low) & (inputs <= boxes.high)).all(axis=2) & (boxes.weights > 0)
    assert inside.any(axis=1).all()  # the boxes are all of the region
    if not provable.rule.requirement.is_pointwise:  # a case may lead through several boxes
        inside |= boxes.weights > 0
    for weights, bound in zip(draws, bounds, strict=True):
        found = margins(provable, likelihood, weights, points)
        highest = np.where(inside, bound, -np.inf).max(axis=1)
        assert (found <= np.maximum(highest, 0.0) + 1e-4).all()


@pytest.mark.parametrize(("target", "rule"), CASES)
def test_no_margin_in_a_box_is_above_its_bound(schemas: dict[str, Schema], target: str, rule: str) -> None:
    require_bounds(*made(schemas[target], rule, linear=True))


@pytest.mark.parametrize("activation", ["rbf", "relu", "gelu"])
def test_bounds_hold_for_every_activation(schemas: dict[str, Schema], activation: str) -> None:
    require_bounds(*made(schemas["y"], "always y <= 2 * a + 9", activation))
    require_bounds(*made(schemas["y"], "always y changes by at most 2 per a", activation))


def test_bounds_are_as_tight_as_wished_on_boxes_that_are_small_enough(schemas: dict[str, Schema]) -> None:
    """On a point the bound is the margin itself."""
    provable, likelihood = made(schemas["y"], "if a > 0 then y <= 7", linear=True)
    point = rule_points(2, provable.rule, provable.schema, None, 5)
    boxes = provable.at(provable.space.roots.take(np.zeros(5, int))._replace(low=point, high=point), 5)
    weights = drawn(provable, 1)[0]
    bounds = np.asarray(provable.margins(weights, boxes))
    np.testing.assert_allclose(bounds, margins(provable, likelihood, weights, point), atol=1e-5)


@pytest.mark.parametrize(("target", "rule"), CASES)
def test_gradients_lead_to_tighter_bounds(schemas: dict[str, Schema], target: str, rule: str) -> None:
    provable, _ = made(schemas[target], rule)
    weights = drawn(provable, 1)[0].astype(np.float32)
    boxes = provable.at(provable.space.roots, 1)
    slope = jax.jit(jax.value_and_grad(lambda w: provable.log_density(w, boxes, 100.0)))
    value, gradient = slope(weights)
    assert np.isfinite(gradient).all()
    step = 1e-3 / np.linalg.norm(gradient)
    assert slope(weights + step * gradient)[0] > value


def test_boxes_are_as_many_as_asked_for_and_overlap_nowhere(schemas: dict[str, Schema]) -> None:
    provable, _ = made(schemas["y"], "if a > 0 then y <= 7")
    boxes = provable.partition(drawn(provable))
    assert len(boxes.weights) == BOXES
    volumes = provable.space.volumes(boxes.some)
    assert volumes.sum() == pytest.approx(1.0)


def test_boxes_become_no_coarser_where_every_draw_keeps_the_rule(schemas: dict[str, Schema]) -> None:
    provable, _ = made(schemas["y"], "always y <= 10000")
    assert len(provable.partition(drawn(provable)).some.part) == BOXES


def test_a_rule_that_cannot_be_bounded_is_refused_with_the_reason(schemas: dict[str, Schema]) -> None:
    schema = schemas["y"]
    convex = parse_rule("always y = 5 within 2", schema, holds="proved")
    strange = Constraint.from_functions(Everywhere(), lambda x, y: y - 9.0, holds="proved")
    with pytest.raises(ModelError, match="is to be proved, but its kind does not say how"):
        Model.build(schema=schema, rules=[strange])
    own = FunctionNetwork.wrap(lambda w, x: x @ w, np.zeros((schema.width, 1)))
    with pytest.raises(ModelError, match="is to be proved, but bounds are known of an MLP"):
        Model.build(schema=schema, rules=[convex], network=own)
    with pytest.raises(RuleError, match="can hold everywhere, or be proved"):
        parse_rule("always y ~ Normal(5, 1)", schema, holds="proved")


def test_a_term_on_bounds_travels_to_other_processes(schemas: dict[str, Schema]) -> None:
    provable, _ = made(schemas["y"], "always y increases with b")
    boxes, weights = provable.at(provable.space.roots, 4), drawn(provable, 1)[0]
    again = pickle.loads(pickle.dumps(provable))
    assert again.log_density(weights, boxes, 10.0) == provable.log_density(weights, boxes, 10.0)


def test_a_model_scores_bounds_beside_points(schemas: dict[str, Schema]) -> None:
    schema = schemas["y"]
    text = "if a > 0 then y <= 1"
    proved, usual = (
        Model.build(schema=schema, rules=[parse_rule(text, schema, holds=holds)], hidden=(4,), key=3)
        for holds in ("proved", "on average")
    )
    weights = np.random.default_rng(0).normal(size=proved.size)
    (term,) = proved.terms
    assert term.provable is not None
    assert term.points.boxes is not None
    added = term.provable.log_density(weights[: proved.network.size], term.points.boxes, term.points.strength)
    assert added < 0
    assert proved.log_density(weights) == pytest.approx(float(usual.log_density(weights) + added), rel=1e-5)
