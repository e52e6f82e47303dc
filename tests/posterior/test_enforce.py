"""Rejection: what is kept obeys, what is predicted of it obeys, and nothing is ever empty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from ocbnn.checking.check import check_rules
from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.posterior import enforce
from ocbnn.posterior.allowed import EnforcementError, RulesAt
from ocbnn.posterior.calibration import calibration
from ocbnn.posterior.conflict import log_scores
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.enforce import reject, truncate
from ocbnn.posterior.folder import load, save
from ocbnn.posterior.predict import predict, sample_observation
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from ocbnn.seeds import seed_for
from posterior_cases import (
    CLASS_RULES,
    CLASSES,
    GAP,
    GRID,
    NOISE,
    NUMBER_RULES,
    class_constants,
    constants,
    lines,
    number_schema,
    weighted_split,
)

ROWS = np.array([[-1.0], [0.0], [1.5]])


def enforced_rules(posterior: Posterior) -> list[Constraint]:
    return [term.rule for term in posterior.enforced]


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
    firsts, rounds = range(16, bumpy.draws.shape[0] * bumpy.draws.shape[1], 4), range(enforce.ROUNDS)
    late = {seed_for(0, "enforce", first, number) for first in firsts for number in rounds}

    def found_late(posterior, term, draws, key, **settings):
        return np.full((1 if key in late else 0, 6), 2.0)

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


def test_rejection_says_how_many_draws_break_each_rule():
    values = np.random.default_rng(0).normal(2.0, 3.0, size=(1, 200))
    posterior = replace(constants(values, ["always y <= 5", "always y >= 0"]), provenance={"chains": False})
    found = reject(posterior, points=20, ascent=False)
    assert found.by_rule == {"always y <= 5": (values > 5).mean(), "always y >= 0": (values < 0).mean()}
    kept = int(((values >= 0) & (values <= 5)).sum())
    half = t.ppf(0.975, 199) * np.sqrt(kept * (200 - kept) / 200**2 / 199)
    np.testing.assert_allclose(found.acceptance[:3], kept / 200 + np.array([0, -half, half]), rtol=1e-9)
    assert str(found).startswith(f"{kept} of 200 draws kept")


def test_what_is_kept_and_how_many_draws_break_a_rule_do_not_depend_on_the_order_of_rules(bumpy):
    """Every other draw of one chain is low but for a bump that only ascent finds: it breaks either rule."""
    draws = bumpy.draws.copy()
    draws[0, ::2, 7:] = 1.5, -1.0
    posterior, rules = replace(bumpy, draws=draws), ["always y >= 0", "always y <= 1.5"]
    found, other = (reject(posterior, order, points=100) for order in (rules, rules[::-1]))
    assert found.by_rule == other.by_rule == dict.fromkeys(rules, 0.25)
    np.testing.assert_array_equal(found.posterior.kept, draws[..., 7] == 0.0)
    np.testing.assert_array_equal(other.posterior.kept, found.posterior.kept)


def test_a_search_is_unfinished_only_where_draws_that_it_could_not_judge_are_kept(bumpy, monkeypatch):
    monkeypatch.setattr(enforce, "ROUNDS", 1)
    monkeypatch.setattr(enforce, "BATCH", 20)  # a chain each
    draws = bumpy.draws.copy()
    draws[0, :, 8] = -0.1  # away from bumps the first chain is at 0.8, lower than the second rule allows
    posterior, rules = replace(bumpy, draws=draws), ["always y <= 2", "always y >= 0.9"]
    assert reject(posterior, rules[:1], points=200).unfinished == ("always y <= 2",)
    rejected = reject(posterior, rules, points=200)
    assert rejected.empty_chains == (0,)
    assert rejected.unfinished == ()


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


def test_the_point_prediction_of_kept_draws_is_their_mean_where_that_is_allowed():
    values = np.repeat([0.0, 2.4], [51, 49])[None]
    kept = reject(constants(values, ["always y <= 1 or y >= 1.1"]), points=20).posterior
    assert kept.kept.all()
    np.testing.assert_allclose(predict(kept, ROWS).point, 1.176)


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
    posterior = constants(np.array([[0.0, 0.05, 0.2, 3.0, 9.0]]))
    rule = Constraint.from_functions(
        parse_rule("always y >= 0", posterior.schema).region,
        [lambda x, y: (y - 0.1) * (3.0 - y), lambda x, y: y - 5],
    )
    rejected = reject(posterior, [rule], points=20).posterior
    np.testing.assert_array_equal(rejected.kept, [[True, True, False, True, False]])
    np.testing.assert_allclose(predict(rejected, ROWS).point, 0.05)  # the draw nearest to their mean of 1.02
    with pytest.raises(EnforcementError, match="rejecting draws"):
        truncate(posterior, [rule]).predict(ROWS)


def test_a_rule_of_classes_given_as_functions_is_kept_by_rejection_and_by_the_prediction():
    drawn = np.array([[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.3, 0.4, 0.3]]])
    posterior = class_constants(drawn)
    region = parse_rule("always label = blue", posterior.schema).region
    rule = Constraint.from_functions(region, lambda x, p: 0.7 - p.max(axis=-1))  # one class has at least 0.7
    kept = reject(posterior, [rule], points=20, ascent=False).posterior
    np.testing.assert_array_equal(kept.kept, [[True, True, False]])
    found = predict(kept, np.zeros((1, 2))).probabilities[0]  # not their mean, of which no class has 0.7
    assert np.isclose(found, drawn[0, :2], rtol=1e-9).all(axis=1).any()


def test_samples_after_rejection_are_of_the_kept_draws():
    posterior = constants(np.array([[0.0, 50.0, 100.0]]), ["always y <= 60"])
    kept = reject(posterior, points=20, ascent=False).posterior
    drawn = sample_observation(kept, ROWS[:1], 500, key=0)[:, 0]
    assert np.abs(drawn[:, None] - [0.0, 50.0]).min(axis=1).max() < 6 * NOISE
    assert abs((drawn > 25).mean() - 0.5) < 4 * 0.5 / np.sqrt(500)


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
        assert not RulesAt(enforced_rules(kept), kept.schema, GRID).broken(predicted).any()


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
        assert not RulesAt(enforced_rules(each), each.schema, coded).broken(prediction.probabilities).any()
        for rule in enforced_rules(each):
            inside = rule.region.contains(coded, each.schema)
            allowed = rule.requirement.allowed(rule.demand(coded[inside], each.schema))
            if allowed.classes is not None:
                index = [CLASSES.index(label) for label in prediction.point[inside]]
                assert allowed.classes[np.arange(len(index)), index].all()


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


# What is predicted after it -------------------------------------------------------------------------------


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


def test_rejection_after_truncation_binds_predictions_samples_scores_and_calibration_as_before_it():
    posterior = constants(np.tile([0.5, 3.0], (2, 20)), ["always y <= 10", GAP])
    cap, gap = (term.rule for term in posterior.rules)
    first = replace(posterior, truncated=truncate(posterior, [cap]).rules)
    later = reject(first, [gap], points=20).posterior
    earlier = reject(posterior, [gap], points=20).posterior
    earlier = replace(earlier, truncated=truncate(earlier, [cap]).rules)
    assert set(later.rules_in_force) == set(earlier.rules_in_force) == {cap, gap}
    prediction, y = predict(later, ROWS), np.array([0.5, 2.0, 3.0])
    for values in (prediction.point, prediction.observation.median, sample_observation(later, ROWS, 50)):
        assert not RulesAt([gap], posterior.schema, ROWS).broken(values).any()
    np.testing.assert_array_equal(prediction.point, predict(earlier, ROWS).point)
    np.testing.assert_array_equal(log_scores(later, ROWS, y), log_scores(earlier, ROWS, y))
    assert log_scores(later, ROWS, y)[1] < -700  # what is forbidden cannot be
    assert calibration(later, ROWS, y) == calibration(earlier, ROWS, y)
    assert check_rules(later, [gap], points=20)[0].points_violating.value == 0.0


def test_a_rule_given_as_functions_is_not_lost_when_predictions_are_truncated_by_another():
    posterior = constants(np.array([[0.5, 3.0]]), ["always y <= 10"])
    region = parse_rule("if x > 0 then y >= 0", posterior.schema).region
    function = Constraint.from_functions(region, lambda x, y: (y - 1.0) * (2.5 - y))
    first = reject(posterior, [function], points=20).posterior
    later = reject(replace(posterior, truncated=truncate(posterior).rules), [function], points=20).posterior
    for each in (replace(first, truncated=truncate(first).rules), later):
        assert predict(each, ROWS[:2]).point.shape == (2,)  # where it says nothing
        with pytest.raises(
            EnforcementError, match=r"row 2 .*lambda.*cannot be listed.*all rules by rejecting draws"
        ):
            predict(each, ROWS)


@pytest.mark.parametrize("ask", [check_rules, reject])
def test_a_confidence_in_percent_is_refused(ask):
    with pytest.raises(OCBNNError, match=r"confidence lies between 0 and 1, such as 0.95; got 95"):
        ask(constants(np.zeros((1, 5)), ["always y <= 3"]), confidence=95)
