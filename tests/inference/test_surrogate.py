"""Nodes: few places that integrate as all points do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ocbnn.inference.surrogate import candidate_nodes, gauss_nodes, matching_subset
from ocbnn.model import Model
from small_runs import figure_1b


def table_model(rule: str, **columns: object) -> Model:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": random.normal(size=30), "b": random.normal(size=30), "y": random.normal(size=30), **columns}
    )
    return Model.build(frame=frame, target="y", rules=[rule], hidden=(3,), noise=0.3, points=200)


@pytest.mark.parametrize("count", [1, 4, 8])
def test_gauss_nodes_are_exact_up_to_their_degree_and_no_further(count: int) -> None:
    random = np.random.default_rng(1)
    places, weights = random.uniform(-1, 1, 60), random.uniform(0.5, 1.5, 60)
    nodes, node_weights = gauss_nodes(places, weights, count)
    assert (node_weights > 0).all()
    assert ((nodes > places.min()) & (nodes < places.max())).all()
    for degree in range(2 * count):
        assert node_weights @ nodes**degree == pytest.approx(weights @ places**degree, abs=1e-11)
    beyond = node_weights @ nodes ** (2 * count) - weights @ places ** (2 * count)
    assert abs(beyond) > 1e-6


@pytest.mark.parametrize(("dimensions", "degree"), [(2, 5), (3, 4)])
def test_a_matching_subset_has_the_moments_of_all(dimensions: int, degree: int) -> None:
    random = np.random.default_rng(2)
    places, weights = random.uniform(-1, 3, (150, dimensions)), np.full(150, 1 / 150)
    chosen = matching_subset(places, weights, degree)
    assert chosen is not None
    index, few = chosen
    assert len(index) < 150
    assert (few > 0).all()
    for power in np.ndindex(*(degree + 1,) * dimensions):
        if sum(power) <= degree:
            moment = weights @ np.prod(places**power, axis=1)
            assert few @ np.prod(places[index] ** power, axis=1) == pytest.approx(
                moment, abs=1e-6 * 3**degree
            )


def test_too_few_points_have_no_smaller_subset() -> None:
    assert matching_subset(np.random.default_rng(0).uniform(size=(10, 2)), np.ones(10), 5) is None


def test_a_rule_on_one_column_gets_gauss_nodes_of_its_own_points() -> None:
    (rule,) = figure_1b(points=100).terms
    sets = candidate_nodes(rule, rule.points)
    assert [len(nodes.inputs) for nodes in sets] == [8, 12, 16, 24, 32, 48]
    for nodes in sets:
        assert np.sum(nodes.weights) == pytest.approx(np.sum(rule.points.weights))
        assert rule.rule.region.contains(np.asarray(nodes.coded), rule.schema).all()
        assert nodes.strength == rule.points.strength


def test_a_rule_on_two_columns_gets_a_subset_of_its_points() -> None:
    (rule,) = table_model("if a > 0 and b > 0 then y <= 1").terms
    sets = candidate_nodes(rule, rule.points)
    assert sets
    drawn = {tuple(point) for point in np.asarray(rule.points.coded)}
    assert all({tuple(point) for point in np.asarray(nodes.coded)} <= drawn for nodes in sets)
    assert all(2 * len(nodes.inputs) < 200 for nodes in sets)


def test_a_table_with_a_category_has_no_nodes() -> None:
    kinds = np.tile(["u", "v", "w"], 10)
    (rule,) = table_model("if a > 0 then y <= 1", kind=kinds).terms
    assert candidate_nodes(rule, rule.points) == []
