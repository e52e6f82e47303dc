"""A posterior keeps its draws in place, knows where they come from, and goes to ArviZ."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from types import SimpleNamespace

import arviz_base
import arviz_stats
import jax
import numpy as np
import pandas as pd
import pytest
from scipy.stats import lognorm, norm

from ocbnn.errors import OCBNNError, ResourceError
from ocbnn.inference.result import Result, RuleOutcome
from ocbnn.inference.warmstart import WarmStart, with_found
from ocbnn.model import Data, Model
from ocbnn.posterior.draws import Posterior, data_choices, data_hash, function_draws, rule_provenance
from ocbnn.posterior.enforce import truncate
from ocbnn.regions import SAMPLERS
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema
from posterior_cases import NOISE, SCALE, class_constants, constants, lines, random_posterior
from rule_checks import checked

RULE = "if x > 1 then y >= 0"
FAR = checked(0.5, 0.1, 100.0, 0.4, 0.6, tolerance=0.02)


@pytest.fixture(scope="module")
def frame():
    x = np.linspace(-2.0, 2.0, 12)
    return pd.DataFrame({"x": x, "y": x**2 + 3.0})


@pytest.fixture(scope="module")
def model(frame):
    schema = Schema.infer(frame, target="y")
    rule = parse_rule(RULE, schema, name="floor", source="a book", reason="physics", tolerance=0.02)
    return Model.build(frame=frame, schema=schema, rules=[rule], hidden=(3,), noise=0.5)


@pytest.fixture(scope="module")
def result(model):
    return Result(
        draws=np.random.default_rng(0).normal(size=(2, 20, model.size)),
        model=model,
        engine="hmc",
        settings={"warmup": 10, "array": np.arange(2), "step": np.float64(0.1)},
        seed=7,
        status="converged: yes",
        converged=True,
        diagnostics=None,
        rules=(RuleOutcome(FAR, 3.0, True, "too far"),),
        log_density=np.zeros((2, 20)),
        acceptance=np.array([0.8, np.nan]),
    )


def test_flat_draws_are_the_kept_ones_chain_after_chain():
    posterior = constants(np.arange(6.0).reshape(2, 3))
    kept = np.array([[True, False, True], [False, True, False]])
    masked = posterior.with_kept(kept)
    np.testing.assert_allclose(function_draws(masked, np.zeros((1, 1)))[:, 0], [0.0, 2.0, 4.0], atol=1e-12)
    np.testing.assert_array_equal(masked.draws, posterior.draws)


def test_draws_or_masks_of_a_wrong_shape_are_refused(model):
    with pytest.raises(OCBNNError, match="shape"):
        Posterior(np.zeros((2, 3)), model)
    with pytest.raises(OCBNNError, match="not empty"):
        Posterior(np.zeros((2, 0, model.size)), model)
    with pytest.raises(OCBNNError, match="kept has the shape"):
        Posterior(np.zeros((2, 3, model.size)), model, kept=np.ones((3, 2), bool))
    with pytest.raises(OCBNNError, match="at least one draw"):
        Posterior(np.zeros((2, 3, model.size)), model, kept=np.zeros((2, 3), bool))


def test_provenance_is_plain_json_and_says_what_rules_and_data_were_used(result, model):
    provenance = Posterior.from_result(result).provenance
    assert json.loads(json.dumps(provenance, allow_nan=False)) == provenance
    (rule,) = provenance["rules"]
    assert rule["text"] == RULE
    assert (rule["name"], rule["source"], rule["reason"]) == ("floor", "a book", "physics")
    assert rule["tolerance"] == 0.02
    assert rule["strength"] == float(model.terms[0].points.strength)
    assert rule["term"] == model.terms[0].term.name
    assert Schema.from_json(provenance["schema"]) == model.schema
    assert provenance["versions"]["jax"] == jax.__version__
    assert provenance["seed"] == 7
    assert provenance["settings"]["array"] == [0, 1]
    assert provenance["acceptance"] == [0.8, None]
    assert provenance["unmet"][0]["reason"] == "too far"
    assert "empirical" in provenance["empirical_prior"]
    assert provenance["chains"] is True
    assert "discrepancy" in provenance["diagnostics"]


def test_every_choice_that_depends_on_the_rows_is_told():
    amounts = np.geomspace(1.0, 1e4, 40)
    frame = pd.DataFrame({"dose": amounts, "smoker": [0, 1] * 20, "y": np.log(amounts)})
    rules = ["if dose > 5000 then y >= 8"]
    columns = {"dose": {"transform": "asinh", "offset": 0.25}}
    schema = Schema.infer(frame, target="y", columns=columns)
    model = Model.build(frame=frame, schema=schema, rules=rules, hidden=(), points=10)
    (rule,) = model.terms
    found = with_found(rule, np.asarray(rule.points.coded[:3]))
    outcome = SimpleNamespace(name=rules[0], found_strength=True)
    dose, *others = data_choices(replace(model, terms=(found,)), [outcome])
    column, target = schema.columns[0], schema.target
    assert dose == f"dose enters as (asinh(dose / 0.25) − {column.center:.4g}) / {column.scale:.4g}"
    sd = f"{frame['y'].std(ddof=0):.4g}"
    assert f"y is modelled as (y − {target.center:.4g}) / {sd}: its mean and standard deviation" in others
    assert f"the noise of y is half-normal a priori with the scale {sd}" in others
    strength = float(rule.points.strength)
    points = "10 points drawn by the sampler 'sobol' and 3 found where networks broke it"
    assert others[-1] == f"{rules[0]}: {points}; strength {strength:.4g}, found by pilots"
    raw = Model.build(frame=frame, schema=schema, hidden=(), noise=0.1, standardize=False)
    assert data_choices(raw, ()) == []


@pytest.mark.parametrize("sampler", [None, *SAMPLERS])
def test_points_drawn_from_rows_are_a_choice_that_depends_on_the_data(result, sampler):
    """In two columns the default is not to look at rows; whether points depend on them is tried."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"a": generator.normal(size=60), "b": generator.normal(size=60)})
    frame["y"] = frame["a"]
    schema = Schema.infer(frame, target="y")
    options = {"schema": schema, "rules": ["if a > 0 then y >= -5"], "hidden": (), "points": 10}
    half, whole = (
        Model.build(frame=some, sampler=sampler, strength=100.0, **options) for some in (frame[:30], frame)
    )
    depends = not np.array_equal(half.terms[0].points.coded, whole.terms[0].points.coded)
    assert whole.terms[0].uses_rows == depends
    (said,) = [each for each in data_choices(whole, ()) if each.startswith("if a > 0")]
    name = sampler or "sobol"
    assert f"10 points drawn by the sampler '{name}'{' from rows' * depends} and" in said
    given = replace(result, model=whole, rules=(), draws=np.zeros((1, 5, whole.size)))
    provenance = Posterior.from_result(given).provenance
    assert (provenance["empirical_prior"] is not None) == depends
    assert provenance["rules"][0]["sampler"] == name


def test_a_population_of_rows_is_a_choice_that_depends_on_the_data():
    frame = pd.DataFrame({"group": ["a", "b"] * 20, "x": np.arange(40.0), "y": np.arange(40.0)})
    rules = ["always mean y is equal over group within 0.1"]
    model = Model.build(frame=frame, target="y", rules=rules, hidden=())
    (said,) = [each for each in data_choices(model, ()) if "is equal over" in each]
    assert "40 rows of the table and 0 found" in said
    assert model.terms[0].uses_rows


def test_found_points_are_counted_without_corners_and_without_places_still_free(frame):
    model = Model.build(frame=frame, target="y", rules=[RULE], hidden=(), points=10, corners=True)
    (rule,) = WarmStart(searches=2, found=4).reserved(model).terms
    corners = len(rule.rule.region.vertices(rule.schema))
    assert corners > 0
    assert len(rule.points.coded) == 10 + corners + 8
    told = rule_provenance(rule)
    assert (told["points"], told["points_found"]) == (10 + corners, 0)
    told = rule_provenance(with_found(rule, rule.points.coded[:3]))
    assert (told["points"], told["points_found"]) == (10 + corners + 3, 3)


def test_the_hash_of_the_data_is_that_of_their_bytes_and_changes_with_them(model):
    data = Data(np.array([[1.0, 2.0]]), np.array([3.0]))
    expected = hashlib.sha256(
        b"(1, 2)" + np.array([1.0, 2.0]).tobytes() + b"(1,)" + np.array([3.0]).tobytes()
    ).hexdigest()
    assert data_hash(data) == expected
    assert data_hash(data._replace(y=np.array([3.5]))) != expected
    assert data_hash(None) is None


def test_what_a_posterior_does_not_have_is_an_error_that_says_so():
    posterior = constants(np.zeros((2, 3)))
    unknown = replace(posterior, model=replace(posterior.model, schema=None))
    with pytest.raises(OCBNNError, match="no schema"):
        _ = unknown.target
    with pytest.raises(OCBNNError, match="has no noise"):
        _ = class_constants(np.full((1, 2, 3), 1 / 3)).noise(np.zeros((1, 1)))


def test_draws_are_of_chains_where_the_run_said_so_or_there_are_several():
    posterior = constants(np.zeros((2, 3)))
    unknown = replace(posterior, provenance={})
    alone = replace(unknown, draws=posterior.draws[:1])
    particles = replace(posterior, provenance={"chains": False})
    found = [each.has_chains for each in (posterior, unknown, alone, particles)]
    assert found == [True, True, False, False]


def test_a_posterior_shows_how_many_draws_it_has_and_keeps():
    kept = constants(np.zeros((2, 3))).with_kept(np.array([[True, False, True], [False] * 3]))
    assert repr(kept) == "<posterior: 2 × 3 draws of 2 weights, 2 kept; origin unknown>"


def test_noise_is_in_raw_units_fixed_or_learnt():
    rows = np.zeros((5, 1))
    np.testing.assert_allclose(constants(np.zeros((1, 3))).noise(rows), np.full((3, 1), NOISE))
    posterior = lines(np.zeros((1, 2)), np.zeros((1, 2)))
    learnt = Model.build(schema=posterior.schema, hidden=())
    draws = np.concatenate([posterior.draws, np.log([[[0.5], [2.0]]])], axis=-1)
    np.testing.assert_allclose(Posterior(draws, learnt).noise(rows), [[0.5 * SCALE], [2.0 * SCALE]])


def test_arviz_accepts_the_tree_and_finds_the_functions_in_it(result, frame):
    posterior = Posterior.from_result(result)
    kept = np.ones((2, 20), bool)
    kept[1, 5:] = False
    tree = posterior.with_kept(kept).to_datatree()
    assert set(tree.children) == {
        "posterior",
        "posterior_predictive",
        "log_likelihood",
        "observed_data",
        "sample_stats",
        "constant_data",
    }
    summary = arviz_stats.summary(tree, var_names=["function"])
    assert len(summary) == len(frame)
    effective = arviz_stats.ess(tree, var_names=["function"])["function"]
    assert np.isfinite(effective.values).all()
    expected = function_draws(posterior, frame).reshape(2, 20, -1)
    np.testing.assert_allclose(tree["posterior"]["function"].values, expected, rtol=1e-12)
    np.testing.assert_allclose(tree["observed_data"]["y"].values, frame["y"], rtol=1e-12)
    np.testing.assert_allclose(tree["constant_data"]["x"].values[:, 0], frame["x"], atol=1e-12)
    np.testing.assert_array_equal(tree["sample_stats"]["kept"].values, kept)
    assert json.loads(tree.attrs["provenance"])["seed"] == 7
    noise = tree["posterior_predictive"]["y"].values - expected
    assert abs(noise.std() - 0.5) < 5 * 0.5 / np.sqrt(2 * noise.size)


def test_a_tree_of_classes_has_their_names_and_a_prior_has_no_rows(frame):
    labelled = frame.assign(label=np.where(frame["x"] > 0, "b", "a"))[["x", "label"]]
    model = Model.build(frame=labelled, target="label", hidden=(2,))
    tree = random_posterior(model, (2, 4)).to_datatree(rows=5)
    assert tree["posterior"]["function"].dims == ("chain", "draw", "row", "class")
    assert list(tree["posterior"]["class"].values) == ["a", "b"]
    assert len(tree["posterior"]["row"]) == 5
    prior = class_constants(np.full((1, 4, 3), 1 / 3)).to_datatree()
    assert set(prior.children) == {"posterior", "sample_stats"}


def test_a_tree_of_classes_holds_indices_as_often_as_they_are_predicted():
    labelled = pd.DataFrame({"x": np.arange(9.0), "label": ["a", "b", "c"] * 3})
    model = Model.build(frame=labelled, target="label", hidden=())
    draws = np.zeros((2, 1000, model.size))
    draws[..., -3:] = np.log([0.2, 0.5, 0.3])
    densities = np.arange(2000.0).reshape(2, 1000)
    tree = Posterior(draws, model, {}, log_density=densities).to_datatree(rows=4, seed=1)
    np.testing.assert_array_equal(tree["posterior"]["row"], [0, 2, 5, 8])
    np.testing.assert_array_equal(tree["observed_data"]["y"], [0, 2, 2, 2])
    drawn = tree["posterior_predictive"]["y"].values
    for index, share in enumerate((0.2, 0.5, 0.3)):
        assert abs((drawn == index).mean() - share) < 4 * np.sqrt(share * (1 - share) / drawn.size)
    said = np.broadcast_to([0.2, 0.5, 0.3], (2, 1000, 4, 3))
    np.testing.assert_allclose(tree["posterior"]["function"].values, said, rtol=1e-6)
    np.testing.assert_array_equal(tree["posterior"]["w"].values, draws)
    np.testing.assert_array_equal(tree["sample_stats"]["lp"].values, densities)


def test_a_tree_of_a_truncated_posterior_holds_only_what_is_allowed(frame):
    model = Model.build(frame=frame[["x", "y"]], target="y", hidden=(2,), rules=["always not 4 <= y <= 5"])
    posterior = random_posterior(model, (2, 50))
    tree = replace(posterior, truncated=truncate(posterior).rules).to_datatree(rows=5)
    drawn, plain = (
        each["posterior_predictive"]["y"].values for each in (tree, posterior.to_datatree(rows=5))
    )
    assert drawn.shape == plain.shape == (2, 50, 5)
    assert ((plain > 4) & (plain < 5)).any()
    assert not ((drawn > 4) & (drawn < 5)).any()
    functions = tree["posterior"]["function"].values
    np.testing.assert_array_equal(functions, posterior.to_datatree(rows=5)["posterior"]["function"].values)


def test_a_tree_of_truncated_classes_holds_indices_of_allowed_ones(frame):
    labelled = frame.assign(label=np.resize(["a", "b", "c"], len(frame)))[["x", "label"]]
    model = Model.build(frame=labelled, target="label", hidden=(2,), rules=["always not label = b"])
    posterior = random_posterior(model, (2, 50))
    tree = replace(posterior, truncated=truncate(posterior).rules).to_datatree(rows=5)
    assert set(np.unique(tree["posterior_predictive"]["y"].values)) == {0, 2}


def loo_by_hand(pointwise):
    tree = arviz_base.from_dict({"posterior": {"w": pointwise[..., 0]}, "log_likelihood": {"y": pointwise}})
    return arviz_stats.loo(tree, pointwise=True)


@pytest.mark.parametrize("transform", ["none", "log"])
def test_the_log_likelihood_of_numbers_is_that_of_normals_in_raw_units_and_loo_runs(frame, transform):
    schema = Schema.infer(frame, target="y", columns={"y": {"transform": transform}})
    model = Model.build(frame=frame, target="y", schema=schema, hidden=(2,))
    posterior = random_posterior(model, (2, 200), spread=0.02)
    tree = posterior.to_datatree(rows=5)
    noise = posterior.noise(schema.encode(frame))
    y, functions = frame["y"].to_numpy(), function_draws(posterior, frame)
    law = norm(functions, noise) if transform == "none" else lognorm(noise, scale=functions)
    by_hand = law.logpdf(y).reshape(2, 200, -1)
    found = tree["log_likelihood"]["y"]
    assert found.dims == ("chain", "draw", "data_row")
    np.testing.assert_allclose(found.values, by_hand, rtol=1e-9)
    loo, expected = arviz_stats.loo(tree, pointwise=True), loo_by_hand(by_hand)
    assert loo.n_data_points == len(frame)
    assert loo.elpd == pytest.approx(expected.elpd, rel=1e-9)
    np.testing.assert_allclose(loo.elpd_i.values, expected.elpd_i.values, rtol=1e-9)


def test_the_log_likelihood_of_classes_is_that_of_their_probabilities(frame):
    labelled = frame.assign(label=np.resize(["a", "b", "c"], len(frame)))[["x", "label"]]
    weights = np.resize([1.0, 2.0, 0.5], len(frame))
    model = Model.build(frame=labelled, target="label", hidden=(2,), row_weights=weights)
    posterior = random_posterior(model, (2, 30))
    tree = posterior.to_datatree()
    codes = np.resize([0, 1, 2], len(frame))
    said = function_draws(posterior, labelled)[:, np.arange(len(frame)), codes]
    found = tree["log_likelihood"]["y"]
    assert found.dims == ("chain", "draw", "row")
    np.testing.assert_allclose(found.values, (weights * np.log(said)).reshape(2, 30, -1), rtol=1e-9)
    total = [float(model.log_likelihood(w)) for w in posterior.flat[:3]]
    np.testing.assert_allclose(found.values.reshape(60, -1)[:3].sum(axis=1), total, rtol=1e-5)


def test_the_log_likelihood_can_be_left_out_and_is_refused_beyond_memory(result, monkeypatch):
    posterior = Posterior.from_result(result)
    assert "log_likelihood" not in posterior.to_datatree(log_likelihood=False).children
    monkeypatch.setattr("ocbnn.resources.SMALL", 0)
    monkeypatch.setattr("ocbnn.resources.free_memory", lambda: 100)
    with pytest.raises(ResourceError, match="Say log_likelihood=False"):
        posterior.to_datatree()
