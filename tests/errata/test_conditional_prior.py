"""Errata C1–C7: where the reference code's conditional prior departs from the paper, and what we do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ocbnn.model import Model
from ocbnn.model.terms import Dirichlet, GaussianMixture, NegativeExponential
from ocbnn.regions import Everywhere, sample
from ocbnn.rules.kinds.bounds import Ends
from ocbnn.rules.kinds.classes import AllowedClasses
from ocbnn.rules.parse import parse_rule
from ocbnn.rules.requirement import Peaks
from ocbnn.schema import Schema
from term_cases import BOUNDS, CASES

CLASSES, VALUES = CASES["one class"].requirement, CASES["values"].requirement


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def frame():
    x = np.array([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
    return pd.DataFrame({"x": x, "y": -(x**4) + 3 * x**2 + 1})


@pytest.mark.parametrize(
    ("term", "mode"),
    [(Dirichlet(), 0.90), (Dirichlet(reference=True), 0.375)],
    ids=["paper", "reference"],
)
def test_c1_forbidden_classes_get_the_papers_alpha_and_the_reference_codes_only_where_asked(term, mode):
    demand = AllowedClasses(np.array([[False, True, False]]))
    probabilities = np.array([[(1 - mode) / 2, mode, (1 - mode) / 2]])

    def score(logits):
        return term.log_density(CLASSES, demand, jax.nn.log_softmax(logits), 10.0)[0]

    gradient = jax.grad(score)(jnp.log(jnp.asarray(probabilities)))
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)


def test_c2_points_and_rules_are_multiplied_and_averaging_is_a_setting(frame):
    rules = ["if -0.3 <= x <= 0.3 then 2.5 <= y <= 3", "if x > 1 then y <= 2"]
    settings = {"frame": frame, "target": "y", "rules": rules, "noise": 1.0, "points": 8}
    settings |= {"term": "negative-exponential"}
    w = np.random.default_rng(0).normal(size=32)
    summed, averaged = (Model.build(reduction=reduction, **settings) for reduction in ("sum", "mean"))
    total = jax.jit(summed.log_prior)(w[:31]) - summed.base.log_density(w[:31])
    by_point = 0.0
    for rule in summed.terms:
        y = summed.network.apply(w[:31], rule.points.inputs)[:, 0]
        by_point += float(jnp.sum(rule.term.log_density(rule.rule.requirement, rule.points.demand, y, 1e4)))
    assert float(total) == pytest.approx(by_point, rel=1e-10)
    parts = [jax.jit(prior.rule_log_densities)(w[:31]) for prior in (summed, averaged)]
    np.testing.assert_allclose(parts[0], 8 * parts[1], rtol=1e-10)


def test_c3_sigma_is_a_standard_deviation():
    demand = Peaks(np.array([[2.0]]), np.array([[1.0]]), np.array([1.0]))
    term = GaussianMixture(sigma=1.25)
    at_value, one_sigma_off = (term.log_density(VALUES, demand, jnp.asarray([y]), 1.0) for y in (2.0, 3.25))
    assert float(at_value[0] - one_sigma_off[0]) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("sigma", [None, 0.2])
def test_c4_several_values_are_a_mixture_with_a_mode_at_each(sigma):
    demand = Peaks(np.array([[2.0, 3.0]]), np.array([[0.7, 0.3]]), np.array([0.4]))
    term = GaussianMixture(sigma=sigma)

    def score(y):
        return term.log_density(VALUES, demand, y[None], 1.0)[0]

    values, slopes = jax.vmap(jax.value_and_grad(score))(jnp.asarray([2.0, 2.5, 3.0]))
    assert values[0] > values[2] > values[1]
    assert abs(float(slopes[0])) < 1e-3
    assert abs(float(slopes[2])) < 1e-3
    if sigma is not None:  # of one width, densities at the values relate as the weights; ours as the masses
        assert float(values[0] - values[2]) == pytest.approx(np.log(7 / 3), abs=1e-4)


def test_c5_an_interval_that_is_empty_at_one_x_still_counts_at_the_others():
    infinity = np.inf
    # Forbidden: (−1, 1) at the first point, nothing at the second.
    demand = Ends(
        np.array([[-infinity, 1.0], [-infinity, infinity]]),
        np.array([[-1.0, infinity], [infinity, -infinity]]),
    )
    scores = NegativeExponential().log_density(BOUNDS, demand, jnp.zeros(2), 1.0)
    assert float(scores[0]) == pytest.approx(-0.964, abs=1e-3)  # σ(−1)², σ(−1) = logistic(30)·logistic(4)
    assert float(scores[1]) == 0.0


def test_c6_disjoint_forbidden_intervals_add():
    infinity = np.inf
    both = Ends(np.array([[-infinity, 1.0, 3.0]]), np.array([[0.0, 2.0, infinity]]))
    first = Ends(np.array([[-infinity, 1.0]]), np.array([[0.0, infinity]]))
    second = Ends(np.array([[-infinity, 3.0]]), np.array([[2.0, infinity]]))
    for y in (0.5, 1.5, 2.4, 7.0):
        total, *parts = (
            float(NegativeExponential().log_density(BOUNDS, demand, jnp.asarray([y]), 1.0)[0])
            for demand in (both, first, second)
        )
        assert total == pytest.approx(sum(parts), rel=1e-12)


def test_c7_brownian_points_of_an_unbounded_region_leave_the_range_of_the_data(frame):
    schema = Schema.infer(frame, target="y")
    data = schema.encode(frame)
    points = sample(0, Everywhere(), schema, data, 500, "brownian")[:, 0]
    assert points.min() < data.min()
    assert points.max() > data.max()
    model = Model.build(
        frame=frame, schema=schema, rules=[parse_rule("always x * y >= 0", schema)], sampler="brownian"
    )
    used = model.points[0].coded[:, 0]
    assert used.min() < data.min() or used.max() > data.max()
