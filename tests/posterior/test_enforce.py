"""Enforcement: what is kept obeys, what is truncated obeys, and nothing is ever empty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy, norm, truncnorm

from ocbnn import violation
from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.posterior import enforce
from ocbnn.posterior.allowed import EnforcementError, allowed_intervals, broken, obeying_probabilities
from ocbnn.posterior.calibration import calibration
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.enforce import reject, truncate
from ocbnn.posterior.files import load, save
from ocbnn.posterior.functions import function_draws
from ocbnn.posterior.predict import predict, sample_observation
from ocbnn.posterior.satisfaction import satisfaction
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from posterior_cases import (
    CLASSES,
    NOISE,
    class_constants,
    class_schema,
    constants,
    lines,
    number_schema,
    random_posterior,
)

GAP = "always not 1 <= y <= 2.5"
ROWS = np.array([[-1.0], [0.0], [1.5]])
GRID = np.linspace(-2.0, 2.0, 400)[:, None]
NUMBER_RULES = {
    "interval": ["if x > 0 then 0 <= y <= 2"],
    "value": ["if x > 0 then y = 1.5 within 0.4"],
    "values": ["always y = 0 (0.3) or y = 3 (0.7)"],
    "gap": [GAP],
    "depends on x": ["always x * y >= 0"],
    "overlapping": [GAP, "if x > 0 then y >= 0.5", "if x > -1 then y = 3 within 0.4 or y = 0.6 within 0.4"],
}
CLASS_RULES = {
    "class": ["if x > 0 then label = green"],
    "classes": ["always label in {blue, red}"],
    "bound": ["if x > 0 then P(label = red) >= 0.8"],
    "bound of two": ["always P(label in {blue, green}) <= 0.25"],
    "between": ["always 0.3 <= P(label = blue) <= 0.4"],
    "overlapping bounds": [
        "always P(label in {blue, green}) >= 0.7",
        "always P(label in {green, red}) >= 0.7",
        "if x > 0 then P(label = green) <= 0.45",
    ],
    "class and bound": ["always label = green", "always P(label = blue) >= 0.3"],
}


def enforced_rules(posterior: Posterior) -> list[Constraint]:
    return [term.rule for term in posterior.enforced]


# Rejection ------------------------------------------------------------------------------------------------


def test_rejection_keeps_exactly_the_lines_that_obey_everywhere():
    generator = np.random.default_rng(0)
    slope, intercept = generator.normal(size=(2, 4, 100))
    rejected = reject(lines(slope, intercept, ["if 0 <= x <= 1 then -1 <= y <= 1.5"]), points=300)
    ends = np.stack([intercept, slope + intercept])
    obeys = ((ends >= -1) & (ends <= 1.5)).all(axis=0)
    np.testing.assert_array_equal(rejected.posterior.kept, obeys)
    assert rejected.acceptance.value == pytest.approx(obeys.mean())
    assert rejected.acceptance.low < obeys.mean() < rejected.acceptance.high
    np.testing.assert_allclose(rejected.by_chain, obeys.mean(axis=1))


@pytest.fixture(scope="module")
def bumpy():
    """Functions of six inputs with a bump in the corner (2, …, 2), in every other draw of one chain."""
    model = Model.build(schema=number_schema(6), hidden=(1,), activation="rbf", noise=NOISE)
    w = np.zeros((2, 20, model.size))
    w[..., :6], w[..., 6] = 0.4, -0.4 * 12.0
    w[0, ::2, 7] = 1.0
    return Posterior(w, model, {"chains": True})


def test_ascent_rejects_draws_that_break_a_rule_only_between_points(bumpy):
    assert reject(bumpy, ["always y <= 2"], points=200, ascent=False).posterior.kept.all()
    found = reject(bumpy, ["always y <= 2"], points=200)
    np.testing.assert_array_equal(found.posterior.kept, bumpy.draws[..., 7] == 0.0)
    assert found.points_found > 0
    assert found.unfinished == ()
    assert "rounds" not in str(found)


def test_points_found_in_a_late_batch_of_draws_are_tried_on_the_earlier_ones(bumpy, monkeypatch):
    def found_late(posterior, term, draws, key, **settings):
        return np.full((1 if key[2] >= 16 else 0, 6), 2.0)  # key[2] is the first draw of the batch

    monkeypatch.setattr(enforce, "climb", found_late)
    monkeypatch.setattr(enforce, "BATCH", 4)
    rejected = reject(bumpy, ["always y <= 2"], points=200)
    np.testing.assert_array_equal(rejected.posterior.kept, bumpy.draws[..., 7] == 0.0)
    assert rejected.points_found == 1


def test_a_search_that_runs_out_of_rounds_while_it_finds_draws_says_so(bumpy, monkeypatch):
    monkeypatch.setattr(enforce, "ROUNDS", 1)
    rejected = reject(bumpy, ["always y <= 2", "always y >= -9"], points=200)
    assert rejected.unfinished == ("always y <= 2",)
    assert "still found draws that break 'always y <= 2' when it stopped after 1 rounds" in str(rejected)


def test_a_chain_of_which_nothing_is_kept_is_named_and_a_second_rejection_adds_to_the_first():
    values = np.array([[0.0, 1.0, 2.0], [9.0, 9.0, 9.0]])
    rejected = reject(constants(values, ["always y <= 5"]), points=20)
    assert rejected.empty_chains == (1,)
    assert "chain 2" in str(rejected)
    again = reject(rejected.posterior, ["always y >= 0.5"], points=20)
    np.testing.assert_array_equal(again.posterior.kept, [[False, True, True], [False] * 3])
    assert again.acceptance.value == pytest.approx(2 / 3)
    assert len(again.posterior.enforced) == 2


def test_if_nothing_survives_the_error_says_so_and_what_to_do():
    posterior = constants(np.full((2, 5), 9.0), ["always y <= 5", "always y >= -99"])
    with pytest.raises(EnforcementError, match=r"None of the 10 draws.*'always y <= 5'.*100%.*truncate"):
        reject(posterior, points=20)
    with pytest.raises(EnforcementError, match="distributed"):
        reject(posterior, ["always y ~ Normal(0, 1)"])
    with pytest.raises(EnforcementError, match="no deterministic rule"):
        reject(constants(np.zeros((1, 2))))


def test_the_point_prediction_of_kept_draws_is_the_mean_of_the_larger_component():
    posterior = constants(np.array([[0.5, 0.7, 3.0, 3.2, 3.4]]), [GAP])
    assert 1.0 < predict(posterior, ROWS).point[0] < 2.5
    prediction = predict(reject(posterior, points=20).posterior, ROWS, levels=(0.4, 0.45))
    np.testing.assert_allclose(prediction.point, 3.2)
    assert not ((prediction.function.quantiles > 1) & (prediction.function.quantiles < 2.5)).any()
    np.testing.assert_allclose(prediction.function.mean, 2.16)


def test_the_label_predicted_by_kept_draws_is_the_best_allowed_one():
    drawn = np.array([[[0.46, 0.10, 0.44], [0.10, 0.46, 0.44]]])
    posterior = class_constants(drawn, ["always label in {blue, green}"])
    assert predict(posterior, np.zeros((1, 2))).point[0] == "red"
    rejected = reject(posterior, points=20)
    assert rejected.posterior.kept.all()
    prediction = predict(rejected.posterior, np.zeros((1, 2)))
    assert prediction.point[0] in ("blue", "green")
    assert prediction.probabilities[0, 2] <= prediction.probabilities[0, :2].max()


def test_rules_given_as_functions_are_enforced_by_rejection_and_not_by_truncation():
    posterior = constants(np.array([[0.0, 0.2, 3.0, 9.0]]))
    rule = Constraint.from_functions(
        parse_rule("always y >= 0", posterior.schema).region,
        [lambda x, y: (y - 0.1) * (3.0 - y), lambda x, y: y - 5],
    )
    rejected = reject(posterior, [rule], points=20).posterior
    np.testing.assert_array_equal(rejected.kept, [[True, False, True, False]])
    assert predict(rejected, ROWS).point[0] == pytest.approx(0.0, abs=1e-9) or predict(rejected, ROWS).point[
        0
    ] == pytest.approx(3.0)
    with pytest.raises(EnforcementError, match="rejecting draws"):
        truncate(posterior, [rule]).predict(ROWS)


@pytest.mark.parametrize("rules", NUMBER_RULES.values(), ids=NUMBER_RULES)
def test_predictions_after_rejection_never_break_a_rule_of_numbers(rules):
    generator = np.random.default_rng(1)
    values = np.concatenate([generator.uniform(-1, 4, size=(2, 150)), [[0.0, 0.6, 3.0] * 50]])
    if rules == NUMBER_RULES["depends on x"]:
        rules = ["if x > 0 then x * y >= 0"]  # no constant but 0 obeys everywhere
    posterior = constants(values, rules)
    kept = reject(posterior, points=50).posterior
    prediction = predict(kept, GRID)
    for predicted in (prediction.point, prediction.function.median, *prediction.function.quantiles.T):
        assert not broken(enforced_rules(kept), kept.schema, GRID, predicted).any()


@pytest.mark.parametrize("rules", CLASS_RULES.values(), ids=CLASS_RULES)
def test_predictions_after_rejection_never_break_a_rule_of_classes(rules):
    """Of probabilities all over the simplex, some obey each of the rules; what is kept of them predicts."""
    drawn = np.random.default_rng(2).dirichlet([1.0, 1.0, 1.0], size=(2, 400))
    posterior = class_constants(drawn, rules)
    rejected = reject(posterior, points=50, ascent=False)
    kept, coded = rejected.posterior, np.column_stack([GRID[:, 0], np.arange(len(GRID)) % 2])
    assert 0.0 < rejected.acceptance.value < 1.0
    for each in (kept, replace(posterior, enforced=posterior.rules)):  # after it, and where it saw nothing
        prediction = predict(each, coded)
        np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1.0, rtol=1e-9)
        assert not broken(enforced_rules(each), each.schema, coded, prediction.probabilities).any()
        for rule in enforced_rules(each):
            inside = rule.region.contains(coded, each.schema)
            located = rule.locate(coded[inside], each.schema)
            if hasattr(located, "allowed"):
                index = [CLASSES.index(label) for label in prediction.point[inside]]
                assert located.allowed[np.arange(len(index)), index].all()


@pytest.mark.parametrize("case", ["numbers", "classes"])
def test_what_rejection_kept_predicts_the_same_after_saving_and_loading(case, tmp_path):
    if case == "numbers":
        posterior, coded = constants(np.array([[0.5, 0.7, 1.5], [3.0, 3.2, 2.0]]), [GAP]), GRID[::40]
    else:
        drawn = np.random.default_rng(3).dirichlet([1.0, 1.0, 1.0], size=(2, 30))
        posterior = class_constants(drawn, CLASS_RULES["class and bound"])
        coded = np.column_stack([GRID[::40, 0], np.arange(10) % 2])
    kept = reject(posterior, points=20, ascent=False).posterior
    assert not kept.kept.all()
    save(tmp_path / "model", kept)
    again = load(tmp_path / "model").posterior
    assert enforced_rules(again) == enforced_rules(kept)
    before, after = predict(kept, coded), predict(again, coded)
    for name in ("point", "probabilities", "epistemic", "aleatoric"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    np.testing.assert_array_equal(after.function.quantiles, before.function.quantiles)
    np.testing.assert_array_equal(sample_observation(again, coded), sample_observation(kept, coded))


# Truncation -----------------------------------------------------------------------------------------------


def test_one_draw_truncated_is_scipys_truncated_normal():
    posterior = constants(np.array([[1.2]]), ["if x > 0 then 1.3 <= y <= 1.9"])
    prediction = truncate(posterior).predict(np.array([[1.0], [-1.0]]), levels=(0.1,))
    exact = truncnorm((1.3 - 1.2) / NOISE, (1.9 - 1.2) / NOISE, 1.2, NOISE)
    assert prediction.point[0] == pytest.approx(exact.mean(), rel=1e-8)
    assert prediction.observation.sd[0] == pytest.approx(exact.std(), rel=1e-7)
    assert prediction.observation.quantiles[0, 0] == pytest.approx(exact.ppf(0.1), rel=1e-8)
    assert prediction.point[1] == pytest.approx(1.2)
    assert prediction.observation.sd[1] == pytest.approx(NOISE)


def test_a_draw_has_the_weight_of_its_mass_in_the_allowed_set():
    values = np.array([0.0, 0.5, 2.0])
    prediction = truncate(constants(values[None], ["always y >= 1"])).predict(ROWS[:1])
    weight = norm.sf(1.0, values, NOISE)
    means = truncnorm.mean((1.0 - values) / NOISE, np.inf, values, NOISE)
    assert prediction.observation.mean[0] == pytest.approx((weight * means).sum() / weight.sum(), rel=1e-7)


def test_the_point_of_a_truncated_mixture_is_the_mean_of_its_heaviest_component():
    posterior = constants(np.array([[0.5, 3.0, 3.0]]), [GAP])
    prediction = truncate(posterior).predict(ROWS[:1], function=True)
    above = truncnorm.mean((2.5 - 3.0) / NOISE, np.inf, 3.0, NOISE)
    assert prediction.point[0] == pytest.approx(above, rel=1e-6)
    np.testing.assert_allclose(prediction.function.mean, 6.5 / 3)


@pytest.mark.parametrize("rules", NUMBER_RULES.values(), ids=NUMBER_RULES)
def test_truncated_numbers_never_break_a_rule(rules):
    model = Model.build(schema=number_schema(), hidden=(4,), noise=1.0, rules=rules)
    posterior = random_posterior(model, (2, 40))
    restricted = truncate(posterior)
    prediction = restricted.predict(GRID, levels=(0.01, 0.25, 0.9))
    samples = restricted.sample_observation(GRID[::40], 200)
    observation = prediction.observation
    shown = [prediction.point, observation.median, *observation.quantiles.T, *observation.hdi.T]
    for predicted in shown:
        assert not broken(restricted.rules, posterior.schema, GRID, predicted).any()
    assert not broken(restricted.rules, posterior.schema, GRID[::40], samples).any()
    assert broken(restricted.rules, posterior.schema, GRID, function_draws(posterior, GRID)).any()


@pytest.mark.parametrize("rules", CLASS_RULES.values(), ids=CLASS_RULES)
def test_truncated_classes_never_break_a_rule(rules):
    model = Model.build(schema=class_schema(), hidden=(4,), rules=rules)
    posterior = random_posterior(model, (2, 20), spread=2.0)
    coded = np.column_stack([GRID[:, 0], np.arange(len(GRID)) % 2])
    restricted = truncate(posterior)
    prediction = restricted.predict(coded)
    np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1.0, rtol=1e-9)
    assert (prediction.probabilities >= 0).all()
    assert not broken(restricted.rules, posterior.schema, coded, prediction.probabilities).any()
    for rule in restricted.rules:
        inside = rule.region.contains(coded, posterior.schema)
        located = rule.locate(coded[inside], posterior.schema)
        if hasattr(located, "allowed"):
            index = [CLASSES.index(label) for label in prediction.point[inside]]
            assert located.allowed[np.arange(len(index)), index].all()
    drawn = restricted.sample_observation(coded[:3], 10)
    assert set(drawn.ravel()) <= set(CLASSES)


def test_forbidden_classes_get_nothing_and_the_others_keep_their_proportions():
    posterior = class_constants(np.array([[[0.2, 0.3, 0.5], [0.4, 0.1, 0.5]]]), ["always not label = red"])
    prediction = truncate(posterior).predict(np.zeros((1, 2)))
    np.testing.assert_allclose(prediction.probabilities[0], [0.6, 0.4, 0.0], rtol=1e-9)
    assert prediction.point[0] == "blue"


def test_a_probability_bound_clips_and_leaves_what_obeys_alone():
    posterior = class_constants(
        np.array([[[0.4, 0.6]]]), ["if x > 0 then P(label = green) >= 0.95"], CLASSES[:2]
    )
    prediction = truncate(posterior).predict(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    np.testing.assert_allclose(prediction.probabilities, [[0.05, 0.95], [0.4, 0.6]], atol=1e-8)


def test_clipping_to_several_bounds_moves_probabilities_no_further_than_the_best_of_a_fine_grid():
    schema = class_schema()
    rules = [parse_rule(text, schema) for text in CLASS_RULES["overlapping bounds"]]
    coded = np.array([[1.0, 0.0]])
    steps = np.linspace(0, 1, 101)
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1 + 1e-12])
    everywhere = np.repeat(coded, len(grid), axis=0)
    feasible = grid[~broken(rules, schema, everywhere, np.clip(grid, 0, 1))]
    assert len(feasible)
    start = np.array([[0.05, 0.05, 0.9]])
    found = obeying_probabilities(rules, schema, coded, start, np.ones((1, 3), bool))
    assert not broken(rules, schema, coded, found).any()
    best = np.abs(feasible - start).sum(axis=1).min()
    assert abs(np.abs(found - start).sum() - best) < 0.04  # twice the grid's step in two coordinates


def test_rules_without_a_common_allowed_set_are_named_with_the_row():
    numbers = constants(np.zeros((1, 3)), ["if x > 0 then y >= 2", "if x > 1 then y <= 1"])
    assert np.isfinite(truncate(numbers).predict(np.array([[-1.0]])).point).all()
    with pytest.raises(EnforcementError, match=r"row 1 \(x = 1\.5\).*`if x > 0.*`if x > 1.*no common"):
        truncate(constants(np.full((1, 3), 2.0), ["if x > 0 then y >= 2", "if x > 1 then y <= 1"])).predict(
            np.array([[0.5], [1.5]])
        )
    classes = class_constants(np.full((1, 2, 3), 1 / 3), ["always label = red", "always label = blue"])
    with pytest.raises(EnforcementError, match="no common allowed class"):
        truncate(classes).predict(np.zeros((1, 2)))
    bounds = class_constants(
        np.full((1, 2, 3), 1 / 3), ["always P(label = red) >= 0.7", "always P(label = blue) >= 0.7"]
    )
    with pytest.raises(EnforcementError, match="no common probabilities"):
        truncate(bounds).predict(np.zeros((1, 2)))


def test_too_little_mass_is_an_error_that_names_the_rule_and_the_row():
    posterior = constants(np.zeros((1, 3)), ["if x > 0 then y >= 2"])
    mass = norm.sf(2.0 / NOISE)
    assert mass < 1e-6
    with pytest.raises(EnforcementError, match=r"row 0 \(x = 1\.0\).*y >= 2.*less than 1e-06"):
        truncate(posterior).predict(np.array([[1.0]]))
    late = np.concatenate([np.full((700, 1), -1.0), [[1.0]]])
    with pytest.raises(EnforcementError, match=r"row 700 \(x = 1\.0\)"):
        truncate(posterior).predict(late)
    certain = class_constants(np.array([[[1.0 - 2e-8, 1e-8, 1e-8]]]), ["always label = red"])
    with pytest.raises(EnforcementError, match="less than 1e-06"):
        truncate(certain).predict(np.zeros((1, 2)))


def test_what_all_rules_allow_is_the_intersection_on_a_fine_grid():
    schema = number_schema()
    rules = [parse_rule(text, schema) for text in NUMBER_RULES["overlapping"]]
    coded = np.linspace(-2, 2, 9)[:, None]
    allowed = allowed_intervals(rules, schema, coded)
    y = np.linspace(-1, 5, 2003)
    inside = ((y[:, None, None] >= allowed.lower) & (y[:, None, None] <= allowed.upper)).any(axis=-1)
    expected = np.ones_like(inside)
    for rule in rules:
        applies = rule.region.contains(coded, schema)
        located = rule.locate(coded, schema)
        values = np.broadcast_to(y[:, None], inside.shape)
        expected &= ~applies | ~(np.asarray(violation.margin(rule.output, located, values)) > 0)
    np.testing.assert_array_equal(inside, expected)


# What a truncated posterior says of itself ----------------------------------------------------------------


def weighted_split(drawn: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Entropy of the weighted mean, and the weighted mean of entropies, by SciPy."""
    weights = weights / weights.sum()
    return entropy(weights @ drawn), weights @ np.array([entropy(each) for each in drawn])


def test_uncertainty_of_truncated_classes_is_that_of_the_restricted_draws_weighted_by_their_mass():
    drawn = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.05, 0.9, 0.05]])
    prediction = truncate(class_constants(drawn[None], ["always not label = red"])).predict(np.zeros((1, 2)))
    mass = drawn[:, :2].sum(axis=1)
    total, expected = weighted_split(drawn[:, :2] / mass[:, None], mass)
    np.testing.assert_allclose(prediction.total, entropy(prediction.probabilities[0]), rtol=1e-9)
    np.testing.assert_allclose([prediction.total[0], prediction.aleatoric[0]], [total, expected], rtol=1e-9)


def test_uncertainty_of_clipped_probabilities_adds_up_to_their_entropy():
    posterior = class_constants(
        np.array([[[0.4, 0.6], [0.5, 0.5]]]), ["always P(label = green) >= 0.95"], CLASSES[:2]
    )
    prediction = truncate(posterior).predict(np.zeros((1, 2)))
    np.testing.assert_allclose(prediction.total, entropy([0.05, 0.95]), rtol=1e-6)
    assert (prediction.epistemic >= 0).all()


def test_uncertainty_after_rejection_is_that_of_the_draws_that_obey_at_the_row():
    """The second draw is rejected nowhere that was tried, and disobeys at the row asked for."""
    drawn = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.2, 0.6, 0.2]])
    posterior = class_constants(drawn[None], ["always label in {blue, green}"])
    prediction = predict(replace(posterior, enforced=posterior.rules), np.zeros((1, 2)))
    obeying = drawn[[0, 2]]
    total, expected = weighted_split(obeying, np.ones(2))
    np.testing.assert_allclose(prediction.probabilities[0], obeying.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(prediction.total, total, rtol=1e-9)
    np.testing.assert_allclose(prediction.aleatoric, expected, rtol=1e-9)


def test_numbers_after_rejection_are_of_the_draws_that_obey_at_the_row():
    """The last draw is rejected nowhere that was tried, and disobeys at rows of x > 0."""
    base = lines([[0.0, 0.0, 4.0]], [[0.5, 1.5, 0.0]], ["if x > 0 then y <= 2"])
    model = Model.build(schema=base.schema, hidden=(), rules=["if x > 0 then y <= 2"])
    noises = np.log([[[0.1], [0.3], [0.8]]])
    posterior = Posterior(np.concatenate([base.draws, noises], axis=-1), model)
    coded = np.array([[-1.0], [1.0], [-0.5]])
    found = predict(replace(posterior, enforced=posterior.rules), coded)
    alone = predict(posterior.with_kept(np.array([[True, True, False]])), coded)
    every = predict(posterior, coded)
    for row, expected in enumerate((every, alone, every)):
        for name in ("point", "epistemic", "aleatoric", "total"):
            np.testing.assert_allclose(getattr(found, name)[row], getattr(expected, name)[row], rtol=1e-9)
        for name in ("mean", "sd", "quantiles", "median", "hdi"):
            both = (getattr(each.observation, name)[row] for each in (found, expected))
            np.testing.assert_allclose(*both, rtol=1e-9)
    np.testing.assert_allclose(found.total, found.observation.sd**2)
    bare = predict(replace(posterior, enforced=posterior.rules), coded, levels=(), coverage=None)
    np.testing.assert_array_equal(bare.total, found.total)


def test_calibration_after_rejection_is_of_the_draws_that_obey_at_the_row():
    posterior = constants(np.array([[1.0, 1.0, 9.0]]), ["always y <= 5"])
    y = norm.ppf((np.arange(200) + 0.5) / 200, 1.0, NOISE)
    found = calibration(replace(posterior, enforced=posterior.rules), np.zeros((200, 1)), y)
    for each in found.bins:
        assert each.observed == pytest.approx(each.predicted, abs=1 / 200)


def test_a_truncated_posterior_predicts_samples_and_is_judged_as_its_truncation():
    posterior = constants(np.linspace(0.0, 2.0, 40).reshape(2, 20), ["always y >= 1"])
    restricted = truncate(posterior)
    truncated = replace(posterior, truncated=restricted.rules)
    np.testing.assert_array_equal(predict(truncated, ROWS).point, restricted.predict(ROWS).point)
    assert (sample_observation(truncated, ROWS, 50) >= 1).all()
    before, after = (satisfaction(each, points=20)[0] for each in (posterior, truncated))
    assert before.points_violating.value == 0.0
    assert after.epsilon_mean.value == before.epsilon_mean.value == pytest.approx(0.5, abs=0.03)
    low = replace(posterior, draws=constants(np.linspace(0.0, 1.5, 40).reshape(2, 20)).draws)
    assert satisfaction(low, points=20)[0].points_violating.value == 1.0
    forced = satisfaction(replace(low, truncated=restricted.rules), points=20)[0].points_violating
    assert forced.value == 0.0
    assert forced.high == pytest.approx(1 - 0.025 ** (1 / 20))  # of points alone


def test_what_was_enforced_before_stays_enforced_under_a_further_truncation():
    posterior = constants(np.array([[0.0, 2.0, 4.0]]), ["always y <= 3"])
    again = truncate(reject(posterior, points=20).posterior, ["always y >= 1"])
    assert [rule.text(posterior.schema) for rule in again.rules] == ["always y >= 1", "always y <= 3"]
    assert (again.sample_observation(ROWS, 100) <= 3).all()


def test_calibration_of_truncated_predictions_is_that_of_truncated_normals():
    posterior = constants(np.array([[1.0]]), ["always y >= 1.2"])
    y = truncnorm.ppf((np.arange(200) + 0.5) / 200, 0.2 / NOISE, np.inf, 1.0, NOISE)
    coded = np.zeros((200, 1))
    found = calibration(replace(posterior, truncated=truncate(posterior).rules), coded, y)
    for each in found.bins:
        assert each.observed == pytest.approx(each.predicted, abs=1 / 200)
    assert calibration(posterior, coded, y).error > 0.1


@pytest.mark.parametrize("ask", [satisfaction, reject])
def test_a_confidence_in_percent_is_refused(ask):
    with pytest.raises(OCBNNError, match=r"confidence lies between 0 and 1, such as 0.95; got 95"):
        ask(constants(np.zeros((1, 5)), ["always y <= 3"]), confidence=95)
