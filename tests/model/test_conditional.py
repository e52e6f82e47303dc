"""The conditional prior: points, reductions, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ocbnn.errors import ModelError
from ocbnn.inference.warmstart import with_found
from ocbnn.language.expressions import Number
from ocbnn.model.conditional import Scoring, _joined, rule_terms
from ocbnn.model.likelihoods import Bernoulli, Gaussian
from ocbnn.model.model import Model
from ocbnn.model.networks import MLP
from ocbnn.model.priors import IsotropicGaussian
from ocbnn.model.terms import Dirichlet, Distance, GaussianMixture
from ocbnn.regions import Everywhere
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.kinds.values import Values
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema

NETWORK = MLP(1, (3,), activation="tanh")
BAND = "if -0.3 <= x <= 0.3 then 2.5 <= y <= 3"
SIGN = "always x * y >= 0"


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def schema(toy):
    return Schema.infer(toy, target="y")


@pytest.fixture(scope="module")
def choices():
    frame = pd.DataFrame({"x": np.linspace(0.0, 1.0, 20), "label": ["no", "yes"] * 10})
    return Schema.infer(frame, target="label")


def prior_of(schema, *rules, likelihood=None, network=NETWORK, **settings):
    parsed = [parse_rule(rule, schema, name=f"rule {i}") for i, rule in enumerate(rules)]
    return prior_of_constraints(parsed, schema, likelihood or Gaussian(0.1), network, **settings)


def prior_of_constraints(rules, schema, likelihood, network=NETWORK, *, base=None, data=None, **scoring):
    terms = rule_terms(rules, schema, Scoring(**scoring), bounded=network.bounded, data=data)
    base = IsotropicGaussian.for_network(network) if base is None else base
    return Model(network, likelihood, base, terms, schema)


def rule_scores(prior, w):
    return np.asarray(jax.jit(prior.rule_log_densities)(jnp.asarray(w)))


def constant(value):
    """The weights of a network that is this constant."""
    return np.r_[np.zeros(NETWORK.size - 1), value]


def test_it_is_the_base_prior_plus_the_weighted_scores_at_the_points(schema):
    prior = prior_of(schema, BAND, SIGN, points=20)
    w = jnp.asarray(np.random.default_rng(0).normal(size=NETWORK.size))
    base = expected = float(IsotropicGaussian(NETWORK.size).log_density(w))
    for rule in prior.terms:
        y = np.asarray(jax.jit(NETWORK.apply)(w, rule.points.inputs)[:, 0])
        lower, upper = rule.points.demand
        distance = np.max([lower[:, 0] - y, y - upper[:, 0]], axis=0) / rule.term.scale
        u = np.maximum(distance + rule.term.lead / np.sqrt(1000.0), 0)
        expected += np.mean(-1000.0 * (np.sqrt(1 + u**2) - 1))
    assert float(jax.jit(prior.log_density)(w)) == pytest.approx(expected, rel=1e-10)
    parts = jax.jit(prior.rule_log_densities)(w)
    assert parts.shape == (2,)
    assert base + float(parts.sum()) == pytest.approx(expected, rel=1e-10)


def test_without_rules_it_is_the_base_prior(schema):
    prior = prior_of(schema)
    w = jnp.ones(NETWORK.size)
    assert prior.log_density(w) == prior.base.log_density(w)
    assert prior.rule_log_densities(w).shape == (0,)


def test_the_points_of_a_rule_do_not_change_when_another_is_added(schema):
    alone, together = prior_of(schema, BAND), prior_of(schema, SIGN, BAND)
    np.testing.assert_array_equal(alone.points[0].coded, together.points[1].coded)
    assert not np.array_equal(alone.points[0].coded, prior_of(schema, BAND, key=1).points[0].coded)


def test_the_points_of_a_rule_do_not_change_with_its_name(schema):
    terms = rule_terms(
        [parse_rule(BAND, schema), parse_rule(BAND, schema, name="band")],
        schema,
        Scoring(key=3),
        bounded=True,
    )
    np.testing.assert_array_equal(terms[0].points.coded, terms[1].points.coded)


REWORDED = [
    ("if x > 0.2 then y >= 1", "if not x <= 0.2 then y >= 1", "if 0.2 < x then not y < 1"),
    (
        "if x > 0.2 and x < 0.9 then 1 <= y <= 2",
        "if x < 0.9 and x > 0.2 then y <= 2 and y >= 1",
        "if 0.2 < x <= 0.5 or 0.5 < x < 0.9 then not (y < 1 or y > 2)",
        "if 0.4 < x < 0.9 or 0.2 < x < 0.6 then 1 <= y <= 2",
    ),
    ("if x < -0.2 or x > 0.3 then y = 1 or y = 2", "if not (-0.2 <= x <= 0.3) then y = 2 or y = 1"),
    ("always y >= 1", "if x > 0 or x <= 0 then y >= 1"),
]


@pytest.mark.parametrize("wordings", REWORDED)
@pytest.mark.parametrize("settings", [{}, {"sampler": "uniform", "corners": True}], ids=str)
def test_a_rule_said_otherwise_has_the_same_points_and_the_same_log_density(schema, wordings, settings):
    weights = 2.0 * np.random.default_rng(0).normal(size=(5, NETWORK.size))
    priors = [prior_of(schema, wording, points=30, **settings) for wording in wordings]
    expected = jax.vmap(priors[0].log_prior)(weights)
    for prior in priors[1:]:
        np.testing.assert_array_equal(prior.points[0].coded, priors[0].points[0].coded)
        np.testing.assert_array_equal(prior.terms[0].fresh(20, 5), priors[0].terms[0].fresh(20, 5))
        np.testing.assert_array_equal(jax.vmap(prior.log_prior)(weights), expected)


def test_points_and_strength_are_arguments_that_compile_nothing_anew(schema):
    prior = prior_of(schema, BAND, points=10)
    traces = []

    @jax.jit
    def log_density(w, points):
        traces.append(1)
        return prior.log_prior(w, points)

    w = jnp.ones(NETWORK.size)
    first = log_density(w, prior.points)
    fresh = prior_of(schema, BAND, points=10, key=1).points
    second = log_density(w, fresh)
    stronger = log_density(w, tuple(each._replace(strength=1e5) for each in fresh))
    assert len(traces) == 1
    assert float(first) == pytest.approx(float(jax.jit(prior.log_density)(w)), rel=1e-12)
    assert len({float(first), float(second), float(stronger)}) == 3


def test_corners_are_points_only_where_asked_for(schema):
    assert len(prior_of(schema, BAND, points=10).points[0].coded) == 10
    cornered = prior_of(schema, BAND, points=10, corners=True).points[0]
    np.testing.assert_allclose(np.sort(cornered.coded[10:, 0]), [-0.3, 0.3], atol=1e-5)
    np.testing.assert_allclose(cornered.weights, 1 / 12)


def test_mean_does_not_depend_on_the_number_of_points_and_sum_is_the_papers_equation(schema):
    w = jnp.zeros(NETWORK.size)  # the constant 0: the same score everywhere
    parts = {
        (reduction, n): float(rule_scores(prior_of(schema, BAND, points=n, reduction=reduction), w)[0])
        for reduction in ("mean", "sum")
        for n in (5, 20)
    }
    assert parts["mean", 5] == pytest.approx(parts["mean", 20], rel=1e-12)
    assert parts["sum", 20] == pytest.approx(20 * parts["mean", 20], rel=1e-12)
    assert parts["sum", 20] == pytest.approx(4 * parts["sum", 5], rel=1e-12)


def test_terms_and_strengths_can_be_given_by_name_of_rule(schema):
    prior = prior_of(schema, BAND, SIGN, term={"rule 1": "negative-exponential"}, strength={"rule 0": 5.0})
    assert [rule.term.name for rule in prior.terms] == ["distance", "negative-exponential"]
    assert [rule.points.strength for rule in prior.terms] == [5.0, 1e4]


def test_a_rule_from_functions_sees_raw_units_of_columns_and_target(schema, toy):
    seen = {}

    def between(x, y):
        seen["x"] = np.asarray(x["x"])
        return y - 3.0

    rule = Constraint.from_functions(Everywhere(), between)
    prior = prior_of_constraints([rule], schema, Gaussian(0.1), points=8)
    raw = 3.5
    model = (raw - schema.target.center) / schema.target.scale
    # u = max g = 0.5 in the function's own unit, and the wall's lead.
    expected = -1000.0 * (np.sqrt(1 + (0.5 + 1.5 / np.sqrt(1000.0)) ** 2) - 1)
    assert float(rule_scores(prior, constant(model))[0]) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_array_equal(seen["x"], prior.points[0].coded[:, 0])


def test_functions_of_class_probabilities(choices):
    rule = Constraint.from_functions(Everywhere(), lambda x, p: p[..., 1] - 0.25)
    prior = prior_of_constraints([rule], choices, Bernoulli(), points=8)
    excess = 0.25 + 1.5 / np.sqrt(1000.0)  # a logit of 0 is a probability of one half; and the wall's lead
    expected = -1000.0 * (np.sqrt(1 + excess**2) - 1)
    assert float(rule_scores(prior, jnp.zeros(NETWORK.size))[0]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"term": "exponential"}, "no term 'exponential'.*negative-exponential"),
        ({"term": "dirichlet"}, "'dirichlet' cannot score rule 'rule 0'.*'distance', 'negative-exponential'"),
        ({"term": {"band": "distance"}}, "'band', but no rule has that name"),
        ({"strength": -1.0}, "strength of rule 'rule 0'.*positive"),
        ({"strength": {"band": 1.0}}, "'band', but no rule has that name"),
        ({"reduction": "product"}, '"sum" or "mean"'),
        ({"points": 0}, "at least one point"),
        ({"base": IsotropicGaussian(3)}, "over 3 weights"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_settings_that_make_no_sense_are_refused(schema, settings, cause):
    with pytest.raises(ModelError, match=cause):
        prior_of(schema, BAND, **settings)


def test_a_rule_that_allows_nothing_somewhere_is_refused_with_a_witness(schema):
    with pytest.raises(ModelError, match=r"allows no output at all where x = -0\.\d+"):
        prior_of(schema, "if -1 <= x <= -0.1 then 2 <= y <= 2 + x")


def test_a_margin_of_zero_is_refused(schema):
    rule = Constraint(Everywhere(), Values(((Number(2.0), 1.0),), 0.0))
    with pytest.raises(ModelError, match="allows no output"):
        prior_of_constraints([rule], schema, Gaussian(0.1))


def test_the_networks_bound_decides_on_alpha_below_one(choices):
    settings = {"likelihood": Bernoulli(), "term": Dirichlet(alpha=(10.0, 0.05)), "strength": 1.0}
    with pytest.raises(ModelError, match=r"α = 0\.05"):
        prior_of(choices, "always label = no", network=MLP(1, (3,), activation="relu"), **settings)
    with pytest.warns(UserWarning, match="floored"):
        prior = prior_of(choices, "always label = no", **settings)
    assert prior.terms[0].term.floored


def test_the_scale_of_a_rule_does_not_depend_on_key_points_or_data(schema, toy):
    rule = "if x > 0 then 0 <= y <= x"
    coded = schema.encode(toy)
    scales = {
        prior_of(schema, rule, key=key, points=n, data=data).terms[0].term.scale
        for key, n, data in ((0, 5, None), (1, 50, coded), (2, 7, None))
    }
    assert len(scales) == 1


def test_margin_and_sigma_are_given_in_raw_units(schema):
    scale = schema.target.scale
    margin = prior_of(schema, "always y = 2 within 0.5").points[0].demand.margin
    np.testing.assert_allclose(margin, 0.5 / scale)
    prior = prior_of(schema, "always y = 2 within 0.5", term=GaussianMixture(sigma=1.25))
    at_value = constant((2.0 - schema.target.center) / scale)
    away = constant((2.0 + 1.25 - schema.target.center) / scale)
    difference = rule_scores(prior, at_value)[0] - rule_scores(prior, away)[0]
    assert float(difference) == pytest.approx(0.5, rel=1e-9)
    assert isinstance(prior_of(schema, BAND).terms[0].term, Distance)


class TestFoundPointsOfARuleThatHoldsEverywhere:
    WALLS = np.array([0.0, 1e-3, 0.7, 30.0, 900.0])

    def test_they_are_joined_by_the_closed_form(self):
        for walls in (self.WALLS[:1], self.WALLS[:3], self.WALLS[1:4]):
            expected = -np.log1p(np.expm1(walls).sum())
            joined = float(_joined(jnp.asarray(-walls), jnp.ones(len(walls), bool)))
            assert joined == pytest.approx(expected, rel=1e-12, abs=1e-300)

    def test_one_violated_point_counts_as_if_it_were_alone(self):
        one = np.r_[-900.0, np.zeros(99)]
        assert float(_joined(jnp.asarray(one), jnp.ones(100, bool))) == pytest.approx(-900.0)
        assert float(_joined(jnp.asarray(one), jnp.zeros(100, bool))) == 0.0

    def test_slopes_are_finite_and_those_of_the_worst_point(self):
        slopes = jax.grad(lambda s: _joined(s, jnp.ones(len(self.WALLS), bool)))(jnp.asarray(-self.WALLS))
        np.testing.assert_allclose(slopes, [0.0, 0.0, 0.0, 0.0, 1.0], atol=1e-12)
        small = jax.grad(lambda s: _joined(s, jnp.ones(3, bool)))(jnp.zeros(3))
        np.testing.assert_allclose(small, 1.0)  # of a sum, where nothing is violated yet

    @pytest.mark.parametrize("holds", ["on average", "everywhere"])
    def test_a_rule_that_is_kept_by_three_thicknesses_adds_exactly_nothing(self, schema, holds):
        rule = parse_rule("always y <= 2", schema, holds=holds)
        prior = prior_of_constraints([rule], schema, Gaussian(0.1), points=10)
        (term,) = prior.terms
        thickness = term.term.scale / np.sqrt(term.points.strength)
        (limit,) = set(np.ravel(term.points.demand[1]))
        inside = limit - 3.0001 * thickness
        assert float(term.log_density(jnp.full(10, inside), term.points)) == 0.0
        assert float(term.log_density(jnp.full(10, limit), term.points)) < 0.0

    @pytest.mark.parametrize("holds", ["on average", "everywhere"])
    def test_they_share_half_of_the_weight_and_the_worst_has_all_of_it(self, schema, holds):
        rule = parse_rule("always y <= 2", schema, holds=holds)
        prior = prior_of_constraints([rule], schema, Gaussian(0.1), points=10)
        (term,) = prior.terms
        joined = with_found(term, np.linspace(-0.5, 0.5, 4)[:, None])
        assert joined.joins_found is (holds == "everywhere")
        values = jnp.full(len(joined.points.weights), 50.0)
        at = term.term.log_density(rule.requirement, term.points.demand, values[:1], term.points.strength)
        total = float(joined.log_density(values, joined.points))
        extra = 0.5 * np.log(4) if holds == "everywhere" else 0.0
        assert total == pytest.approx(float(at[0]) - extra, rel=1e-6)
