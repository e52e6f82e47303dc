"""Noise that depends on the inputs, in everything a posterior says: lines with log-linear noise, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import kstest, lognorm, norm

from ocbnn.checking.check import check_rule, check_rules
from ocbnn.checking.draws import CheckOptions
from ocbnn.inference.probes import probe_places
from ocbnn.model import Data, Model
from ocbnn.model.likelihoods import BOUND
from ocbnn.model.outputs import noise_values
from ocbnn.posterior import Posterior
from ocbnn.posterior.calibration import judged
from ocbnn.posterior.conflict import log_scores
from ocbnn.posterior.draws import function_draws
from ocbnn.posterior.enforce import reject, truncate
from ocbnn.posterior.folder import load, save
from ocbnn.posterior.predict import predict, sample_observation
from ocbnn.report.facts import noise_facts
from posterior_cases import CENTER, SCALE, constants, number_schema

ROWS = np.array([[-1.5], [0.0], [0.5], [2.0]])
Y = np.array([-1.0, 1.5, 3.0, 2.0])
DRAWS = 40


def lines_with_noise(rules=(), transform: str = "none", **options) -> Posterior:
    """Φ = a x + b and u = c x + d, in model units."""
    schema = number_schema()
    schema = replace(schema, target=replace(schema.target, transform=transform))
    model = Model.build(schema=schema, hidden=(), noise="varying", rules=rules, **options)
    draws = np.random.default_rng(0).normal([0.4, 0.6, 0.2, -1.0], 0.2, (2, DRAWS // 2, 4))
    return Posterior(draws, model, {"chains": True})


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return lines_with_noise()


def by_hand(posterior: Posterior, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and noise of all draws at x, raw (of log y where that is modelled)."""
    a, c, b, d = posterior.flat.T[..., None]
    u = c * x + d
    return SCALE * (a * x + b) + CENTER, 0.5 * SCALE * np.exp(BOUND * np.tanh(u / BOUND))


def test_the_noise_is_that_of_each_draw_at_each_input(posterior):
    _, noise = by_hand(posterior, ROWS[:, 0])
    np.testing.assert_allclose(posterior.noise(ROWS), noise, rtol=1e-12)
    np.testing.assert_allclose(posterior.noise(ROWS, posterior.flat[3:5]), noise[3:5], rtol=1e-12)
    assert posterior.noise(ROWS[:0]).shape == (DRAWS, 0)
    assert constants(np.zeros((1, 3))).noise(ROWS).shape == (3, 1)


def test_more_inputs_than_a_block_has_rows_give_the_same_noise(posterior):
    many = np.linspace(-2.0, 2.0, 1500)[:, None]
    np.testing.assert_allclose(posterior.noise(many), by_hand(posterior, many[:, 0])[1], rtol=1e-12)


def test_rules_and_checks_see_the_mean_alone():
    """The same functions with constant noise, and with any noise, have the same margins."""
    rules = ["if x > 0 then 0 <= y <= 2", "always not 2 <= y <= 2.2"]
    varying = lines_with_noise(rules, points=20)
    a, _, b, _ = varying.flat.T
    plain_model = Model.build(schema=number_schema(), hidden=(), noise=0.3, rules=rules, points=20)
    plain = Posterior(np.stack([a, b], axis=-1).reshape(2, -1, 2), plain_model, {"chains": True})
    other = varying.draws.copy()
    other[..., [1, 3]] = 7.0
    louder = replace(varying, draws=other)
    for one in (varying, louder):
        np.testing.assert_allclose(function_draws(one, ROWS), function_draws(plain, ROWS), rtol=1e-12)
        for found, expected in zip(check_rules(one), check_rules(plain), strict=True):
            assert found.epsilon_mean.value == expected.epsilon_mean.value
            assert found.worst_point == expected.worst_point
        assert np.array_equal(
            reject(one, [rules[1]]).posterior.mask, reject(plain, [rules[1]]).posterior.mask
        )
        for w, v in zip(one.flat[:5], plain.flat[:5], strict=True):
            np.testing.assert_allclose(
                one.model.rule_log_densities(w), plain.model.rule_log_densities(v), rtol=1e-5
            )


def test_predictions_are_of_the_mixture_of_each_rows_normals(posterior):
    mean, noise = by_hand(posterior, ROWS[:, 0])
    found = predict(posterior, ROWS, levels=(0.05, 0.5, 0.95))
    np.testing.assert_allclose(found.point, mean.mean(axis=0))
    np.testing.assert_allclose(found.epistemic, mean.var(axis=0))
    np.testing.assert_allclose(found.aleatoric, (noise**2).mean(axis=0))
    np.testing.assert_allclose(found.observation.sd**2, found.epistemic + found.aleatoric)
    for at, level in enumerate((0.05, 0.5, 0.95)):
        below = norm.cdf(found.observation.quantiles[:, at], mean, noise).mean(axis=0)
        np.testing.assert_allclose(below, level, atol=1e-8)
    low, high = found.observation.hdi.T
    covered = (norm.cdf(high, mean, noise) - norm.cdf(low, mean, noise)).mean(axis=0)
    np.testing.assert_allclose(covered, 0.9, atol=1e-8)


def test_quantiles_are_those_of_samples(posterior):
    samples = sample_observation(posterior, ROWS, 40_000, key=1)
    levels = np.array([0.05, 0.3, 0.9])
    found = predict(posterior, ROWS, levels=tuple(levels)).observation.quantiles
    shares = (samples[..., None] <= found).mean(axis=0)
    assert np.abs(shares - levels).max() < 4 * 0.5 / np.sqrt(40_000)


def test_scores_and_calibration_are_those_of_the_mixture(posterior):
    mean, noise = by_hand(posterior, ROWS[:, 0])
    expected = logsumexp(norm.logpdf(Y, mean, noise), axis=0) - np.log(DRAWS)
    np.testing.assert_allclose(log_scores(posterior, ROWS, Y), expected, rtol=1e-10)
    below = norm.cdf(Y, mean, noise).mean(axis=0)
    np.testing.assert_allclose(judged(posterior, ROWS, Y).needed, np.abs(2 * below - 1), rtol=1e-10)


def test_on_a_log_scale_the_noise_is_that_of_the_log():
    posterior = lines_with_noise(transform="log")
    (mean, noise), y = by_hand(posterior, ROWS[:, 0]), np.exp(Y)
    laws = lognorm(noise, scale=np.exp(mean))
    found = predict(posterior, ROWS, levels=(0.1,))
    np.testing.assert_allclose(laws.cdf(found.observation.quantiles[:, 0]).mean(axis=0), 0.1, atol=1e-8)
    np.testing.assert_allclose(found.observation.mean, laws.mean().mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.aleatoric, laws.var().mean(axis=0), rtol=1e-7)
    expected = logsumexp(laws.logpdf(y), axis=0) - np.log(DRAWS)
    np.testing.assert_allclose(log_scores(posterior, ROWS, y), expected, rtol=1e-9)


def test_truncation_is_of_each_rows_mixture(posterior):
    mean, noise = by_hand(posterior, ROWS[:, 0])
    truncated = truncate(posterior, ["always 0 <= y <= 2"])
    mass = norm.cdf(2.0, mean, noise) - norm.cdf(0.0, mean, noise)
    below = (norm.cdf(1.0, mean, noise) - norm.cdf(0.0, mean, noise)).sum(axis=0) / mass.sum(axis=0)
    np.testing.assert_allclose(truncated.probability_below(ROWS, np.ones(4)), below, rtol=1e-9)
    samples = truncated.sample_observation(ROWS, 10_000)
    assert ((samples >= 0) & (samples <= 2)).all()
    assert np.abs((samples <= 1.0).mean(axis=0) - below).max() < 4 * 0.5 / np.sqrt(10_000)


def test_one_draw_is_sampled_with_its_own_noise(posterior):
    alone = replace(posterior, draws=posterior.draws[:1, :1])
    (mean,), (noise,) = by_hand(alone, ROWS[:, 0])
    samples = sample_observation(alone, ROWS, 2000)
    for row in range(4):
        assert kstest(samples[:, row], norm(mean[row], noise[row]).cdf).pvalue > 1e-3


def test_a_rule_about_observations_is_held_against_the_noise_at_its_cases():
    """The predictive at each case is the mixture of its own normals; distances are integrals over y."""
    posterior = lines_with_noise(["if 0 <= x <= 1 then y ~ Normal(2, 1.2)"], points=10)
    (term,) = posterior.rules
    found = check_rule(posterior, term, CheckOptions(40, ascent=False)).divergences["total_variation"]
    points = term.fresh(40, 0)[:, 0]
    y = np.linspace(-15.0, 20.0, 20_001)
    gaps = []
    for x in points:
        mean, noise = by_hand(posterior, np.array([x]))
        density = norm.pdf(y, mean, noise).mean(axis=0)
        gaps.append(0.5 * np.trapezoid(np.abs(density - norm.pdf(y, 2.0, 1.2)), y))
    assert found.mean.value == pytest.approx(np.mean(gaps), rel=0.02)


def test_the_log_likelihood_in_the_tree_is_that_of_normals_in_raw_units(posterior):
    y = (Y - CENTER) / SCALE
    held = replace(posterior, model=replace(posterior.model, data=Data(ROWS, y)))
    tree = held.to_datatree()
    expected = norm.logpdf(Y, *by_hand(posterior, ROWS[:, 0])).reshape(2, -1, 4)
    np.testing.assert_allclose(tree["log_likelihood"]["y"].values, expected, rtol=1e-9)


def test_what_is_saved_predicts_the_same(posterior, tmp_path):
    save(tmp_path / "model", posterior)
    again = load(tmp_path / "model").posterior
    assert again.model.likelihood == posterior.model.likelihood
    assert np.array_equal(again.noise(ROWS), posterior.noise(ROWS))
    one, other = predict(again, ROWS).observation, predict(posterior, ROWS).observation
    assert np.array_equal(one.quantiles, other.quantiles)
    assert np.array_equal(one.hdi, other.hdi)


def test_the_report_says_the_noise_at_the_quietest_and_the_loudest_case(posterior):
    mean = by_hand(posterior, ROWS[:, 0])[1].mean(axis=0)
    facts = noise_facts(posterior, ROWS)
    assert facts.varies
    assert (facts.quietest[0], facts.loudest[0]) == pytest.approx((mean.min(), mean.max()))
    assert facts.quietest[1] < facts.quietest[0] < facts.quietest[2]
    constant = noise_facts(constants(np.zeros((1, 3))), ROWS)
    assert not constant.varies
    assert constant.quietest == constant.loudest


def test_chains_are_judged_by_their_noise_at_the_probes_too(posterior):
    """The words for a quantity name the noise where that is where chains disagree."""
    place = probe_places(posterior.model, ROWS, 2 * len(ROWS))
    assert place(2) == "x = 0"
    assert place(3) == "x = 0 for the noise of y"
    np.testing.assert_allclose(
        noise_values(posterior.model, posterior.flat, ROWS) * SCALE, by_hand(posterior, ROWS[:, 0])[1]
    )
