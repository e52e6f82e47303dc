"""Checks of rules: four figures that differ where they should, worst points found, verdicts not too good."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import entropy, norm, t

from ocbnn.checking import violations
from ocbnn.checking.check import (
    PILOT_POINTS,
    check_rules,
    kept_check,
    most_violated,
    pilot_check,
    pilot_findings,
)
from ocbnn.checking.draws import DrawSet, halves
from ocbnn.errors import OCBNNError
from ocbnn.inference.feed import Feed
from ocbnn.model import Model
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.enforce import reject
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from posterior_cases import CLASSES, GAP, NOISE, class_constants, constants, lines, number_schema
from rule_checks import draws, line


def test_the_four_figures_of_lines_are_those_of_geometry():
    """Lines x·slope with slope 1 or 0: `y <= 0.5` is broken by the first kind where x > 0.5."""
    slope = np.tile([1.0, 1.0, 0.0, 0.0, 0.0], (4, 40))
    posterior = lines(slope, np.zeros_like(slope), ["if 0 <= x <= 1 then y <= 0.5"])
    found = check_rules(posterior, points=500)[0]
    assert found.epsilon_mean.value == pytest.approx(0.4 * 0.5, abs=0.01)
    assert found.epsilon_worst.value == pytest.approx(0.4, abs=1e-9)
    assert found.draws_violating.value == pytest.approx(0.4, abs=1e-9)
    assert found.points_violating.value == 0.0  # the mean line is 0.4 x
    assert 0.5 <= found.worst_point["x"] <= 1.0
    for figure in (found.epsilon_mean, found.epsilon_worst, found.draws_violating):
        assert figure.low < figure.value < figure.high
    assert found.verdict == "unmet"
    assert found.points == 500


def test_a_mean_can_break_a_rule_that_every_draw_obeys():
    posterior = constants(np.tile([0.5, 3.0], (4, 250)), [GAP])
    found = check_rules(posterior, points=50)[0]
    assert found.epsilon_mean.value == found.draws_violating.value == 0.0
    assert found.points_violating.value == 1.0
    assert found.verdict == "met"


def test_fifty_particles_show_nothing_at_one_in_a_hundred_and_two_thousand_draws_do():
    generator = np.random.default_rng(0)
    few = constants(generator.normal(size=(1, 50)), ["always y >= -50"])
    few = replace(few, provenance={"chains": False})
    many = constants(generator.normal(size=(4, 500)), ["always y >= -50"])
    assert check_rules(few, points=20)[0].verdict == "not shown at this tolerance"
    assert check_rules(few, points=20)[0].epsilon_mean.high == pytest.approx(0.0711, abs=1e-3)
    assert check_rules(many, points=20)[0].verdict == "met"


@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_intervals_have_the_confidence_that_was_asked_for(confidence):
    posterior = constants(np.linspace(-1, 1, 50)[None], ["always y >= -50"])
    posterior = replace(posterior, provenance={"chains": False})
    figure = check_rules(posterior, points=10, ascent=False, confidence=confidence)[0].epsilon_mean
    assert figure.high == pytest.approx(1 - (0.5 - confidence / 2) ** (1 / 50))


def test_points_of_which_chains_disagree_have_an_interval_that_says_so():
    """The mean of all chains obeys everywhere; without the lowest one it breaks everywhere."""
    posterior = constants(np.repeat([[0.0], [4.0], [4.0], [4.0]], 30, axis=1), ["always y <= 3"])
    figure = check_rules(posterior, points=200, ascent=False)[0].points_violating
    assert figure.value == 0.0
    assert figure.high > 0.5


def test_fresh_points_are_none_that_a_run_of_the_same_seed_was_scored_at():
    model = constants(np.zeros((1, 2)), ["if x > 0 then y <= 5"]).model
    feed = Feed(model, seed=0, batch=None, dtype=np.float64)
    (term,) = model.terms
    fresh = term.fresh(4 * term.drawn, 0)
    np.testing.assert_array_equal(fresh, term.fresh(4 * term.drawn, 0))
    for number in range(10):
        scored = feed.chunk(number, 4).points[0].coded[:, : term.drawn]
        assert not np.isin(scored, fresh).any()


@pytest.fixture(scope="module")
def bumpy():
    """A function of six inputs that is 0 but for a bump in one corner, for every third draw."""
    schema = number_schema(6)
    model = Model.build(schema=schema, hidden=(1,), activation="rbf", noise=NOISE)
    w = np.zeros((4, 30, model.size))
    w[..., :6], w[..., 6] = 0.4, -0.4 * 12.0  # 1 at the corner (2, …, 2), where Σ x = 12
    w[:, ::3, 7] = 1.0
    w[..., 8] = -0.5
    return Posterior(w, model, {"chains": True})


def test_ascent_finds_a_corner_that_sampling_misses(bumpy):
    rule = ["always y <= 1.5"]  # raw: 2 · (bump − 0.5) + 1 ≤ 1.5 breaks where the bump exceeds 0.75
    sampled = check_rules(bumpy, rule, points=200, ascent=False)[0]
    climbed = check_rules(bumpy, rule, points=200)[0]
    assert sampled.epsilon_worst.value == 0.0
    assert sampled.points_found == 0
    assert climbed.epsilon_worst.value == pytest.approx(1 / 3)
    assert climbed.draws_violating.value == pytest.approx(1 / 3)
    assert sum(climbed.worst_point.values()) > 10.0
    assert climbed.points_found >= 1


def test_the_worst_point_is_not_looked_for_on_the_draws_that_estimate_it(bumpy):
    """Only the other half of the chains has the bump, so the finding half cannot know of it."""
    some = bumpy.draws.copy()
    some[::2, :, 7] = 0.0
    posterior = replace(bumpy, draws=some)
    found = check_rules(posterior, ["always y <= 1.5"], points=200)[0]
    assert not halves(posterior).finding[1::2].any()
    assert found.epsilon_worst.value == 0.0
    assert found.draws_violating.value == pytest.approx(1 / 6)  # which all draws are searched for


def test_class_rules_report_the_probability_outside_too():
    drawn = np.random.default_rng(0).dirichlet([2.0, 2.0, 1.0], size=(4, 100))
    posterior = class_constants(drawn, ["always label in {blue, green}"])
    found = check_rules(posterior, points=30)[0]
    assert found.mass_outside.value == pytest.approx(drawn[..., 2].mean())
    assert found.mass_outside.low < 0.2 < found.mass_outside.high
    assert found.epsilon_mean.value == pytest.approx((drawn.argmax(axis=-1) == 2).mean())


def test_figures_by_group_are_those_of_the_groups_points():
    weights = class_constants(np.full((2, 50, 3), 1 / 3))
    w = weights.draws.copy()
    site_south = 3 * 2  # inputs: x, north, south; three logits each
    w[:, :25, site_south + CLASSES.index("red")] = 5.0
    posterior = Posterior(w, weights.model, {"chains": True})
    found = check_rules(posterior, ["always label in {blue, green}"], points=200, by="site")[0]
    north, south = found.groups
    assert (north.group, south.group) == ("site = north", "site = south")
    assert north.points + south.points == 200
    assert south.epsilon_mean.value == pytest.approx(0.5)
    assert south.points_violating.value == 1.0
    assert south.epsilon_worst.value == south.draws_violating.value == pytest.approx(0.5)
    assert south.epsilon_mean.low < 0.5 < south.epsilon_mean.high
    assert north.epsilon_mean.value == north.draws_violating.value == north.points_violating.value == 0.0
    quarters = check_rules(posterior, ["always label in {blue, green}"], points=200, by="x")[0].groups
    assert [group.points for group in quarters] == [50] * 4
    with pytest.raises(OCBNNError, match="no column"):
        check_rules(posterior, by="nowhere")


def test_groups_of_all_rules_are_groups_of_their_points_together():
    slope = np.tile([1.0, -1.0], (4, 40))
    posterior = lines(slope, np.zeros_like(slope), ["if x > 0 then y <= 0", "if x < 0 then y <= 0"])
    report = check_rules(posterior, points=200, by="x", ascent=False)
    assert [group.points for group in report.overall.groups] == [100] * 4
    # Left of 0 the falling lines are above it, right of 0 the rising ones.
    assert [group.epsilon_mean.value for group in report.overall.groups] == [0.5] * 4
    assert "(100 points): epsilon_mean 0.5" in str(report)


def test_divergences_come_by_group_too():
    drawn = np.tile([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]], (4, 50, 1))
    posterior = class_constants(drawn)
    found = check_rules(posterior, ["always P(label = red) = x / 4 + 0.5"], points=400, by="x")[0]
    # The predictive is 0.5 everywhere, so the gap is |x| / 4: large in the outer quarters of (-2, 2).
    gaps = [group.divergences["total_variation"].value for group in found.groups]
    np.testing.assert_allclose(gaps, [0.375, 0.125, 0.125, 0.375], atol=0.02)
    assert found.groups[0].epsilon_mean is None
    assert set(found.groups[0].divergences) == {"total_variation", "hellinger", "kl", "wasserstein"}


def test_all_rules_together_are_judged_draw_by_draw():
    posterior = constants(np.tile([0.0, 10.0, -10.0, 0.0], (4, 25)), ["always y <= 5", "always y >= -5"])
    report = check_rules(posterior, points=20)
    assert [each.draws_violating.value for each in report] == [0.25, 0.25]
    assert report.overall.draws_violating.value == 0.5
    assert report.overall.epsilon_mean.value == 0.25
    assert report.overall.verdict == "unmet"
    assert not report.met
    assert report["always y <= 5"] is report[0]
    assert "epsilon_worst 0.25" in str(report)
    assert check_rules(constants(np.zeros((1, 4)))).overall is None


def test_the_worst_of_all_rules_is_that_of_the_rule_broken_most():
    values = np.tile([0.0, 10.0, 10.0, -10.0], (4, 25))
    posterior = constants(values, ["always y >= -5", "if x > 1 then y <= 5"])
    overall = check_rules(posterior, points=20).overall
    assert overall.epsilon_worst.value == 0.5
    assert overall.worst_point["x"] > 1
    assert overall.points == 40
    assert overall.worst_how.startswith("if x > 1 then y <= 5")


def test_rejected_draws_do_not_count():
    posterior = constants(np.tile([0.0, 10.0], (4, 100)), ["always y <= 5"])
    kept = posterior.with_kept(np.tile([True, False], (4, 100)))
    found = check_rules(kept, points=20)[0]
    assert found.epsilon_mean.value == found.epsilon_worst.value == 0.0
    assert found.epsilon_mean.effective <= 400


def test_an_output_that_is_not_a_number_breaks_every_rule():
    posterior = constants(np.array([[0.0, np.nan], [0.0, 0.0]]), ["always y <= 5"])
    assert check_rules(posterior, points=10, ascent=False)[0].epsilon_mean.value == 0.25


def test_a_rule_for_probabilities_is_judged_by_divergences_of_the_predictive():
    drawn = np.tile([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]], (4, 50, 1))
    posterior = class_constants(drawn, ["always P(label = red) = 0.5"])
    found = check_rules(posterior, points=40)[0]
    assert found.epsilon_mean is None
    assert found.divergences["total_variation"].mean.value == pytest.approx(0.0, abs=1e-9)
    assert found.verdict == "met"
    off = check_rules(posterior, ["always P(label = red) = x / 4 + 0.5"], points=400)[0]
    assert off.divergences["total_variation"].mean.value == pytest.approx(0.25, abs=0.01)
    assert off.divergences["total_variation"].worst == pytest.approx(0.5, abs=0.01)
    assert abs(off.worst_point["x"]) == pytest.approx(2.0, abs=0.05)
    assert off.verdict == "unmet"
    assert set(off.divergences) == {"total_variation", "hellinger", "kl", "wasserstein"}


def test_all_divergences_of_a_predicted_probability_are_their_closed_forms():
    drawn = np.tile([[0.1, 0.2, 0.7], [0.1, 0.4, 0.5]], (4, 50, 1))  # of red the predictive says 0.6
    found = check_rules(class_constants(drawn), ["always P(label = red) = 0.3"], points=20, ascent=False)[0]
    asked, said = np.array([0.3, 0.7]), np.array([0.6, 0.4])
    expected = {
        "total_variation": 0.3,
        "wasserstein": 0.3,
        "kl": entropy(asked, said),
        "hellinger": np.sqrt(1 - np.sqrt(asked * said).sum()),
    }
    assert set(found.divergences) == set(expected)
    for name, value in expected.items():
        assert found.divergences[name].mean.value == pytest.approx(value, rel=1e-6)
        assert found.divergences[name].worst == pytest.approx(value, rel=1e-6)


def test_the_interval_of_a_divergence_is_the_t_interval_of_its_chains():
    chains = np.array([0.55, 0.6, 0.7, 0.75])  # of red
    red = np.tile(chains[:, None], 10)
    posterior = class_constants(np.stack([np.full_like(red, 0.1), 0.9 - red, red], axis=-1))
    found = check_rules(posterior, ["always P(label = red) = 0.3"], points=5, ascent=False)[0]
    half = t.ppf(0.975, 3) * chains.std(ddof=1) / 2
    figure = found.divergences["total_variation"].mean
    np.testing.assert_allclose(figure[:3], [0.35, 0.35 - half, 0.35 + half], rtol=1e-6)


def test_a_rule_for_the_distribution_of_y_is_about_the_observation():
    generator = np.random.default_rng(0)
    posterior = constants(1.0 + 0.4 * generator.normal(size=(4, 500)))
    exact = np.sqrt(0.4**2 + NOISE**2)
    near, far = check_rules(
        posterior, [f"always y ~ Normal(1, {exact:.6f})", "always y ~ Normal(2, 0.5)"], points=8
    )
    assert near.verdict == "met"
    assert near.divergences["total_variation"].mean.value < 0.04
    assert far.divergences["wasserstein"].mean.value == pytest.approx(1.0, abs=0.05)
    assert far.verdict == "unmet"


@pytest.mark.parametrize("count", [998, 999, 1000])
def test_every_half_of_many_particles_has_its_say_in_divergences(count, monkeypatch):
    """The halves are every other draw, which draws evenly spaced over all of them can miss."""
    values = 1.0 + 0.4 * np.random.default_rng(0).normal(size=(1, count))
    particles = replace(constants(values, ["always y ~ Normal(1, 0.5)"]), provenance={"chains": False})

    def found():
        return check_rules(particles, points=2, ascent=False)[0].divergences["total_variation"]

    few = found()
    monkeypatch.setattr(violations, "INTEGRAL_DRAWS", 10 * count)
    every = found()
    # A distribution function of 250 draws is off by at most 1.63 / sqrt(250) = 0.1 in 99 of 100 cases.
    assert few.worst == pytest.approx(every.worst, abs=0.1)
    assert few.mean.value == pytest.approx(every.mean.value, abs=0.07)
    assert np.isfinite(few.mean.high)


def test_draws_stand_for_as_many_as_their_half_has():
    """Half of the chains has nine times the draws of the other: so much of the predictive is theirs."""
    values = np.tile([[-2.0], [2.0]], (1, 2000))
    kept = np.ones(values.shape, dtype=bool)
    kept[1, 222:] = False
    posterior = constants(values, ["always y ~ Normal(-2, 0.3)"]).with_kept(kept)
    found = check_rules(posterior, points=2, ascent=False)[0].divergences["total_variation"]
    assert found.mean.value == pytest.approx(222 / 2222, abs=1e-6)
    assert np.isnan(found.mean.effective)  # the interval is of groups left out, and counts no draws


@pytest.mark.parametrize("chains", [1, 4])
def test_chains_that_stand_still_show_nothing(chains):
    still = constants(np.ones((chains, 1000)), ["always y >= 0"])
    assert check_rules(still, points=10)[0].verdict == "not shown at this tolerance"
    ensemble = replace(still, provenance={"chains": False})
    assert check_rules(ensemble, points=10)[0].verdict == "met"


def test_ascent_finds_where_a_predictive_is_farthest_from_a_normal(bumpy):
    """Away from the bump y is exactly as asked; in its corner a third of the draws are 2 higher."""
    rule = [f"always y ~ Normal(0, {NOISE})"]
    sampled = check_rules(bumpy, rule, points=64, ascent=False)[0]
    climbed = check_rules(bumpy, rule, points=64)[0]
    assert sampled.divergences["total_variation"].worst < 0.3
    assert climbed.divergences["total_variation"].worst == pytest.approx(1 / 3, abs=0.01)
    assert sum(climbed.worst_point.values()) > 10.0
    assert climbed.points_found >= 1


def test_rules_may_be_given_as_words_constraints_or_functions():
    posterior = constants(np.tile([0.0, 10.0], (2, 50)))
    words = "if x > 0 then y <= 5"
    constraint = parse_rule(words, posterior.schema, name="cap", tolerance=0.6)
    function = Constraint.from_functions(constraint.region, lambda x, y: y - 5.0)
    report = check_rules(posterior, [words, constraint, function], points=30)
    assert [each.epsilon_mean.value for each in report] == [0.5] * 3
    assert report["cap"].verdict == "met"


@pytest.mark.parametrize("ask", [check_rules, reject])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"points": 0}, "points is a whole number, at least one point; got 0"),
        ({"points": 2.5}, "points is a whole number.*got 2.5"),
        ({"points": True}, "points is a whole number.*got True"),
        ({"key": -1}, "key is the seed.*from 0 on; got -1"),
        ({"key": "a"}, "key is the seed.*got 'a'"),
    ],
)
def test_points_and_seeds_that_are_none_are_refused_in_words(ask, given, words):
    with pytest.raises(OCBNNError, match=words):
        ask(constants(np.zeros((1, 4)), ["always y <= 3"]), **given)


def test_one_hopeless_point_does_not_undo_what_is_predicted_at_the_others():
    """Lines far below what is asked where x nears 2, and near it elsewhere: there the prediction obeys."""
    slope = np.tile([-0.2, -0.1], (2, 20))
    posterior = lines(slope, np.full_like(slope, 0.9), ["always y >= 1", "if x > 1.9 then y >= 6"])
    truncated = replace(posterior, truncated=tuple(term.rule for term in posterior.rules))
    found = check_rules(truncated, [posterior.rules[0]], points=400, ascent=False)[0]
    hopeless = (posterior.rules[0].fresh(400, 0)[:, 0] > 1.9).mean()
    assert 0.0 < hopeless < 0.1
    assert found.points_violating.value == pytest.approx(hopeless)
    assert check_rules(posterior, points=400, ascent=False)[0].points_violating.value > 0.5


def test_points_of_classes_without_common_probabilities_are_the_only_ones_not_made_to_obey():
    rules = ["always P(label = red) >= 0.7", "if x > 1 then P(label = blue) >= 0.7"]
    posterior = class_constants(np.full((2, 5, 3), 1 / 3), rules)
    truncated = replace(posterior, truncated=tuple(term.rule for term in posterior.rules))
    found = check_rules(truncated, [posterior.rules[0]], points=100, ascent=False)[0]
    hopeless = (posterior.rules[0].fresh(100, 0)[:, 0] > 1).mean()
    assert 0.0 < hopeless < 0.5
    assert found.points_violating.value == pytest.approx(hopeless)


# For pilots ------------------------------------------------------------------------------------------------


def test_the_violation_is_the_share_of_draws_and_points():
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    found = pilot_check(model, rule, draws((1.0, 0.0)), 0, has_chains=False)  # y = x breaks it on (1, 2]
    assert found.violation.value == pytest.approx(0.5, abs=0.02)
    assert found.error == 0.0
    assert pilot_check(model, rule, draws((0.0, 0.0)), 0, has_chains=False).violation.value == 0.0
    assert pilot_check(model, rule, draws((0.0, 2.0)), 0, has_chains=False).violation.value == 1.0


def test_the_error_is_that_of_the_effective_draws():
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    outcomes = np.random.default_rng(0).random((2, 200)) < 0.3
    weights = np.stack([np.zeros((2, 200)), np.where(outcomes, 2.0, 0.0)], axis=-1)
    found = pilot_check(model, rule, weights, 0, has_chains=True)
    assert found.violation.value == pytest.approx(outcomes.mean())
    assert found.error == pytest.approx(outcomes.std() / np.sqrt(found.violation.effective))
    assert 150 < found.violation.effective <= 400


def test_the_error_of_the_points_is_that_of_shares_at_points():
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    found = pilot_check(model, rule, draws((1.0, 0.0), (0.0, 0.0)), 0, has_chains=False)
    # Half of the draws break it at half of the points: shares of 1/2 and 0, their standard deviation 1/4.
    assert found.error_of_points == pytest.approx(0.25 / np.sqrt(PILOT_POINTS), rel=0.01)


def test_the_most_violated_points_are_those_that_most_draws_violate():
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    found = most_violated(model, rule, draws((1.0, 0.0), (0.6, 0.0), (0.0, 0.0)), 0, 30)
    assert len(found) == 30
    assert found.min() > 1 / 0.6  # where two of the three do
    assert len(most_violated(model, rule, draws((0.0, 0.0)), 0, 30)) == 0


def test_a_network_that_is_not_finite_violates():
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    assert pilot_check(model, rule, draws((np.nan, 0.0)), 0, has_chains=False).violation.value == 1.0


def test_a_distribution_rule_is_judged_by_total_variation_with_the_noise():
    model, rule = line("if 0 <= x <= 2 then y ~ Normal(1, 0.5)")
    same = pilot_check(model, rule, draws((0.0, 1.0)), 0, has_chains=False)
    assert same.violation.value == pytest.approx(0.0, abs=1e-9)
    shifted = pilot_check(model, rule, draws((0.0, 1.5)), 0, has_chains=False)
    assert shifted.violation.value == pytest.approx(2 * norm.cdf(0.5) - 1, abs=1e-4)  # means one sd apart


def test_fifty_particles_without_a_violation_do_not_show_one_percent():
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    few = pilot_check(model, rule, draws((0.0, 0.0), repeat=50), 0, has_chains=False)
    assert few.violation[:2] == (0.0, 0.0)
    assert few.violation.high == pytest.approx(1 - 0.025 ** (1 / 50))  # Clopper and Pearson
    assert few.verdict == "not shown at this tolerance"
    assert pilot_check(model, rule, draws((0.0, 0.0), repeat=1000), 0, has_chains=False).verdict == "met"


def test_draws_that_never_violate_count_by_how_their_margins_depend_on_each_other():
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    level = np.repeat(np.random.default_rng(0).normal(-3.0, 0.1, (4, 25)), 10, axis=1)  # each stays ten draws
    found = pilot_check(model, rule, np.stack([np.zeros_like(level), level], axis=-1), 0, has_chains=True)
    assert found.violation.value == 0.0
    assert 40 < found.violation.effective < 250  # of 1,000
    assert found.verdict == "not shown at this tolerance"


def test_the_verdict_on_a_run_counts_all_of_its_draws_and_that_of_a_pilot_some():
    """20 of 4,000 independent lines are too high: a quarter of the draws cannot show that they are few."""
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    level = np.random.default_rng(0).permutation(np.repeat([5.0, 0.0], [20, 3980])).reshape(4, 1000)
    some = np.stack(
        [np.zeros_like(level), level + 1e-3 * np.random.default_rng(1).random(level.shape)], axis=-1
    )
    few, all_of_them = (check(model, rule, some, 0, has_chains=True) for check in (pilot_check, kept_check))
    assert 500 < few.violation.effective <= 1000
    assert 2000 < all_of_them.violation.effective <= 4000
    assert all_of_them.violation.value == pytest.approx(0.005)
    assert (few.verdict, all_of_them.verdict) == ("not shown at this tolerance", "met")


def test_the_interval_of_a_total_variation_is_that_of_the_draws():
    """P(yes) is 0.5 ± 0.1 in 400 independent draws, and 0.4 is asked for: 0.1 ± 2 · 0.1/√400."""
    frame = pd.DataFrame({"x": [0.0, 1.0], "label": ["no", "yes"]})
    model = Model.build(frame=frame, target="label", rules=["always P(label = yes) = 0.4"], hidden=())
    p = np.clip(np.random.default_rng(0).normal(0.5, 0.1, (4, 100)), 0.05, 0.95)
    weights = np.stack([np.zeros_like(p), np.log(p / (1 - p))], axis=-1)
    found = pilot_check(model, model.terms[0], weights, 0, has_chains=True)
    value, low, high, _ = found.violation
    assert value == pytest.approx(p.mean() - 0.4)
    assert low < value < high
    assert 0.004 < high - value < 0.06  # Student's t of four chains is wide


def test_the_interval_of_the_mean_counts_both_draws_and_points() -> None:
    """Half of 400 independent draws violate at half of the points: errors of 0.25/√400 and 0.25/√points."""
    model, rule = line("if 0 <= x <= 2 then y <= 1")
    both = draws((1.0, 0.0), (0.0, 0.0), repeat=200)
    for points in (50, 800):
        (found,) = check_rules(DrawSet(both, model), [rule], points=points, ascent=False)
        half = norm.ppf(0.975) * np.hypot(0.25 / np.sqrt(400), 0.25 / np.sqrt(points))
        assert found.epsilon_mean.high - found.epsilon_mean.value == pytest.approx(half, rel=0.03)
        assert found.epsilon_mean.value - found.epsilon_mean.low == pytest.approx(half, rel=0.03)


@pytest.mark.parametrize(
    ("holds", "asked", "seen"),
    [("on average", "on average", "met"), ("everywhere", "worst case found", "unmet")],
)
def test_the_verdict_is_at_the_level_that_the_rule_asks_for(holds, asked, seen):
    """Lines x·slope, a tenth of them steep: `y <= 0.5` is violated by a tenth of the draws near the end."""
    slope = np.tile([0.52] + 9 * [0.0], (4, 200))
    rule = parse_rule("if 0 <= x <= 1 then y <= 0.5", number_schema(), tolerance=0.03, holds=holds)
    found = check_rules(lines(slope, np.zeros_like(slope), [rule]), points=500)[0]
    assert (found.asked, found.verdict) == (asked, seen)
    assert found.levels == {"on average": "met", "worst case found": "unmet", "proved": "not attempted"}
    assert found.violation == (found.epsilon_mean if holds == "on average" else found.epsilon_worst)
    assert found.worst.value == pytest.approx(0.1)


@pytest.mark.parametrize("holds", ["on average", "everywhere"])
def test_a_pilot_searches_for_the_worst_case_where_the_tolerance_is_about_it(holds):
    slope = np.tile([0.52] + 9 * [0.0], (4, 200))
    rule = parse_rule("if 0 <= x <= 1 then y <= 0.5", number_schema(), holds=holds)
    posterior = lines(slope, np.zeros_like(slope), [rule])
    found, points = pilot_findings(posterior.model, posterior.rules[0], posterior.draws, 0, has_chains=True)
    assert found.levels["worst case found"] == ("unmet" if holds == "everywhere" else "not attempted")
    assert (points[:, 0] > 0.9).all()
    assert found.worst_how == "found on half of the chains, estimated on the other half"


def test_all_rules_together_are_at_each_level_as_the_least_of_them():
    slope = np.tile([0.52] + 9 * [0.0], (4, 200))
    rules = [
        parse_rule(text, number_schema(), tolerance=0.03)
        for text in ("if 0 <= x <= 1 then y <= 0.5", "if 0 <= x <= 1 then y <= 9")
    ]
    overall = check_rules(lines(slope, np.zeros_like(slope), rules), points=500).overall
    assert overall.levels == {"on average": "met", "worst case found": "unmet", "proved": "not attempted"}
