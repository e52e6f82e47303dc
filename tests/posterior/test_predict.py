"""Predictions against closed forms, loops by hand, and the libraries that define them."""

from __future__ import annotations

from dataclasses import replace

import arviz_stats
import numpy as np
import pytest
from scipy.stats import entropy as scipy_entropy
from scipy.stats import norm

from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.posterior.draws import function_draws
from ocbnn.posterior.enforce import truncate
from ocbnn.posterior.predict import predict, sample_function, sample_observation
from posterior_cases import CLASSES, NOISE, class_constants, constants, lines, number_schema, random_posterior

ROWS = np.array([[-1.0], [0.0], [0.5], [2.0]])
DRAWS = 20_000
MEAN = np.array([1.5, 0.5])
COVARIANCE = np.array([[0.3, 0.1], [0.1, 0.2]])


@pytest.fixture(scope="module")
def linear():
    """Draws of the exact posterior of a line: slope and intercept are jointly normal."""
    drawn = np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, size=(4, DRAWS // 4))
    return lines(drawn[..., 0], drawn[..., 1])


@pytest.fixture(scope="module")
def exact():
    features = np.column_stack([ROWS[:, 0], np.ones(len(ROWS))])
    return features @ MEAN, np.sqrt(np.einsum("ni,ij,nj->n", features, COVARIANCE, features))


def quantile_error(level, sd):
    z = norm.ppf(level)
    return 5 * sd * np.sqrt(level * (1 - level) / DRAWS) / norm.pdf(z)


def test_the_functions_predictive_is_the_closed_form_of_a_linear_gaussian_model(linear, exact):
    mean, sd = exact
    function = predict(linear, ROWS, levels=(0.05, 0.95)).function
    np.testing.assert_array_less(np.abs(function.mean - mean), 5 * sd / np.sqrt(DRAWS))
    np.testing.assert_array_less(np.abs(function.sd - sd), 5 * sd / np.sqrt(2 * DRAWS))
    np.testing.assert_array_less(np.abs(function.median - mean), quantile_error(0.5, sd))
    for at, level in enumerate((0.05, 0.95)):
        gap = np.abs(function.quantiles[:, at] - norm.ppf(level, mean, sd))
        np.testing.assert_array_less(gap, quantile_error(level, sd))


def test_the_observations_predictive_adds_the_noise_and_the_functions_does_not(linear, exact):
    mean, sd = exact
    total = np.sqrt(sd**2 + NOISE**2)
    prediction = predict(linear, ROWS, levels=(0.05, 0.95))
    np.testing.assert_allclose(prediction.observation.sd, total, rtol=0.03)
    for at, level in enumerate((0.05, 0.95)):
        gap = np.abs(prediction.observation.quantiles[:, at] - norm.ppf(level, mean, total))
        np.testing.assert_array_less(gap, quantile_error(level, total))
    np.testing.assert_allclose(prediction.epistemic, prediction.function.sd**2)
    np.testing.assert_allclose(prediction.aleatoric, NOISE**2)
    np.testing.assert_allclose(prediction.total, prediction.observation.sd**2)


def test_aleatoric_variance_is_the_mean_square_of_learnt_noise():
    model = Model.build(schema=number_schema(), hidden=(2,))
    posterior = random_posterior(model, (2, 30))
    prediction = predict(posterior, ROWS)
    noise = posterior.noise(ROWS)[:, 0]
    np.testing.assert_allclose(prediction.aleatoric, np.mean(noise**2))
    samples = function_draws(posterior, ROWS)
    by_hand = [
        norm.cdf(q, samples[:, row], noise).mean() for row, q in enumerate(prediction.observation.median)
    ]
    np.testing.assert_allclose(by_hand, 0.5, atol=1e-9)


def test_intervals_of_highest_density_are_those_of_arviz(linear):
    hdi = predict(linear, ROWS, coverage=0.8).function.hdi
    for row, values in enumerate(function_draws(linear, ROWS).T):
        np.testing.assert_allclose(hdi[row], arviz_stats.hdi(values, prob=0.8), rtol=1e-12)


def test_the_functions_predictive_of_classes_is_that_of_the_draws_probabilities():
    drawn = np.random.default_rng(1).dirichlet([1.0, 2.0, 0.5], size=(2, 40))
    flat = drawn.reshape(-1, 3)
    function = predict(class_constants(drawn), np.zeros((1, 2)), levels=(0.1, 0.7), coverage=0.8).function
    np.testing.assert_allclose(function.mean[0], flat.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(function.sd[0], flat.std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(function.quantiles[0], np.quantile(flat, (0.1, 0.7), axis=0).T, rtol=1e-9)
    np.testing.assert_allclose(function.median[0], np.median(flat, axis=0), rtol=1e-9)
    for index, values in enumerate(flat.T):
        np.testing.assert_allclose(function.hdi[0, index], arviz_stats.hdi(values, prob=0.8), rtol=1e-9)


def test_the_shortest_interval_of_an_observation_covers_exactly_and_leaves_out_what_is_far():
    values = np.array([0.0, 0.1, 0.2, 0.1, 0.0, 4.0])
    found = predict(constants(values[None]), ROWS[:1], levels=(0.1, 0.9), coverage=0.8).observation
    low, high = found.hdi[0]
    inside = (norm.cdf(high, values, NOISE) - norm.cdf(low, values, NOISE)).mean()
    assert inside == pytest.approx(0.8, abs=1e-9)
    assert high - low < 2.0 < np.diff(found.quantiles[0])[0]
    assert found.mean[0] == pytest.approx(values.mean())


@pytest.mark.parametrize("values", [[1.5], [3.0, 0.5]])
def test_one_or_two_draws_are_their_own_interval(values):
    found = predict(constants(np.array([values])), ROWS[:1]).function
    np.testing.assert_allclose(found.hdi[0], [min(values), max(values)])


def test_uncertainty_of_classes_is_split_into_mutual_information_and_expected_entropy():
    drawn = np.random.default_rng(1).dirichlet([1.0, 2.0, 0.5], size=(2, 40))
    prediction = predict(class_constants(drawn), np.zeros((2, 2)))
    flat = drawn.reshape(-1, 3)
    expected = np.mean([scipy_entropy(p) for p in flat])
    total = scipy_entropy(flat.mean(axis=0))
    np.testing.assert_allclose(prediction.aleatoric, expected, rtol=1e-9)
    np.testing.assert_allclose(prediction.epistemic, total - expected, rtol=1e-8)
    np.testing.assert_allclose(prediction.probabilities, np.tile(flat.mean(axis=0), (2, 1)), rtol=1e-9)
    assert list(prediction.point) == [CLASSES[int(np.argmax(flat.mean(axis=0)))]] * 2
    assert prediction.observation is None
    assert prediction.function.hdi.shape == (2, 3, 2)


def test_samples_of_functions_are_draws_and_samples_of_observations_have_noise(linear):
    few = constants(np.arange(5.0)[None])
    assert set(np.round(sample_function(few, ROWS, 3, key=1)[:, 0], 9)) <= set(range(5))
    assert len(set(np.round(sample_function(few, ROWS, 5)[:, 0]))) == 5
    assert sample_function(few, ROWS, 8).shape == (8, 4)
    noise = sample_observation(linear, ROWS) - function_draws(linear, ROWS)
    assert abs(noise.std() - NOISE) < 5 * NOISE / np.sqrt(2 * noise.size)
    assert abs(np.corrcoef(noise[:, 0], noise[:, 1])[0, 1]) < 5 / np.sqrt(DRAWS)


def test_samples_of_functions_are_lines_of_the_draws_each_at_most_once_and_repeat_with_the_key():
    slope, intercept = np.random.default_rng(0).normal(size=(2, 2, 6))
    posterior = lines(slope, intercept)
    expected = slope.ravel()[:, None] * ROWS[:, 0] + intercept.ravel()[:, None]
    np.testing.assert_allclose(sample_function(posterior, ROWS), expected, rtol=1e-9)
    some = sample_function(posterior, ROWS, 4, key=3)
    np.testing.assert_array_equal(some, sample_function(posterior, ROWS, 4, key=3))
    same = np.isclose(some[:, None], expected, rtol=1e-9).all(axis=-1)
    np.testing.assert_array_equal(same.sum(axis=1), 1)
    assert same.sum(axis=0).max() == 1


def test_samples_of_classes_occur_as_often_as_predicted():
    probabilities = np.tile([0.2, 0.5, 0.3], (1, 4000, 1))
    drawn = sample_observation(class_constants(probabilities), np.zeros((1, 2)))[:, 0]
    for label, share in zip(CLASSES, (0.2, 0.5, 0.3), strict=True):
        assert abs((drawn == label).mean() - share) < 4 * np.sqrt(share * (1 - share) / 4000)


def test_predictions_of_a_row_do_not_depend_on_its_batch():
    posterior = random_posterior(Model.build(schema=number_schema(), hidden=(5,)), (2, 40))
    rows = np.random.default_rng(0).normal(size=(600, 1))
    together = predict(posterior, rows)
    for row in (0, 511, 512, 599):
        alone = predict(posterior, rows[row : row + 1])
        for name in ("mean", "sd", "quantiles", "median"):
            for part in ("function", "observation"):
                one, many = (getattr(getattr(p, part), name) for p in (alone, together))
                np.testing.assert_allclose(one[0], many[row], rtol=1e-10)
        np.testing.assert_allclose(alone.function.hdi[0], together.function.hdi[row], rtol=1e-10)


def test_nothing_is_summarised_that_was_not_asked_for_and_wrong_levels_are_refused():
    posterior = constants(np.zeros((1, 4)))
    bare = predict(posterior, ROWS, levels=(), coverage=None)
    assert bare.function.quantiles is None
    assert bare.function.hdi is None
    assert bare.observation.median is None
    with pytest.raises(OCBNNError, match="between 0 and 1"):
        predict(posterior, ROWS, levels=(5, 95))
    with pytest.raises(OCBNNError, match="no rows"):
        predict(posterior, ROWS[:0])


@pytest.mark.parametrize("count", [0, -1, 2.5, "a", True])
def test_a_number_of_samples_that_is_none_is_refused_also_where_predictions_are_truncated(count):
    posterior = constants(np.zeros((1, 4)), ["always y >= -1"])
    truncated = replace(posterior, truncated=truncate(posterior).rules)
    for sample in (sample_function, sample_observation):
        for each in (posterior, truncated):
            with pytest.raises(OCBNNError, match=f"whole number, at least 1; got {count!r}"):
                sample(each, ROWS, count)
    assert sample_observation(truncated, ROWS, np.int64(3)).shape == (3, 4)


def test_an_empty_table_has_no_samples_also_where_predictions_are_truncated():
    posterior = constants(np.zeros((1, 4)), ["always y >= -1"])
    for each in (posterior, replace(posterior, truncated=truncate(posterior).rules)):
        assert sample_observation(each, ROWS[:0], 3).shape == (3, 0)
        for count in (3, 8):  # fewer and more than there are draws
            assert sample_function(each, ROWS[:0], count).shape == (count, 0)
    thirds = class_constants(np.full((1, 4, 3), 1 / 3), ["always not label = red"])
    assert sample_function(thirds, np.zeros((0, 2)), 8).shape == (8, 0, 3)
    for each in (thirds, replace(thirds, truncated=truncate(thirds).rules)):
        none, some = (sample_observation(each, np.zeros((rows, 2)), 3) for rows in (0, 1))
        assert (none.shape, none.dtype.kind) == ((3, 0), some.dtype.kind)
