"""The search for strength: its brackets alone, and one search from end to end."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ocbnn.checking.draws import DrawSet, margins_at
from ocbnn.checking.search import climb
from ocbnn.errors import InferenceError
from ocbnn.inference import Settings, StrengthSearch, WarmStart, infer
from ocbnn.inference.density import Prepared
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.loop import RunOptions
from ocbnn.inference.prepare import prepare
from ocbnn.inference.strength import _Bracket
from ocbnn.model import Model
from ocbnn.model.outputs import precision
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema
from small_runs import RULE, figure_1b


def searched(enough_at: list[float], search: StrengthSearch | None = None, start: float = 1000.0) -> _Bracket:
    """A search over rules that are met from the given strengths on, with violations that fall to them."""
    search = search or StrengthSearch()
    tolerances = np.full(len(enough_at), 0.01)
    bracket = _Bracket(search, np.full(len(enough_at), start), np.ones(len(enough_at), bool), tolerances)
    for _ in range(search.rounds):
        met = [now >= enough for now, enough in zip(bracket.now, enough_at, strict=True)]
        bracket.learn(
            met, [0.0 if ok else 0.5 / (1.0 + np.log(now)) for ok, now in zip(met, bracket.now, strict=True)]
        )
        if bracket.settled:
            break
    return bracket


@pytest.mark.parametrize("enough", [1001.0, 4e4, 9e5])
def test_the_strength_found_is_enough_and_not_much_more(enough: float) -> None:
    bracket = searched([enough])
    assert bracket.settled
    assert enough <= bracket.found()[0] <= StrengthSearch().ratio * enough


def test_rules_are_searched_for_independently() -> None:
    found, ratio = searched([5e3, 5e5]).found(), StrengthSearch().ratio
    assert 5e3 <= found[0] <= 5e3 * ratio
    assert 5e5 <= found[1] <= 5e5 * ratio


@pytest.mark.parametrize("enough", [0.0, 2.0, 31.0, 999.0])
def test_a_rule_that_is_met_at_once_keeps_its_terms_own_strength(enough: float) -> None:
    """Less would widen its wall, and move what the rule has nothing to say about."""
    bracket = searched([enough, 5e3])
    assert bracket.found()[0] == 1000.0


def test_no_strength_below_the_terms_own_is_ever_tried() -> None:
    generator = np.random.default_rng(0)
    bracket = _Bracket(StrengthSearch(), np.array([1000.0, 1.0, 100.0]), np.ones(3, bool), [0.01] * 3)
    for _ in range(50):
        bracket.learn(list(generator.random(3) < 0.5), list(generator.random(3)))
        assert np.all(bracket.now >= [1000.0, 1.0, 100.0])
        assert np.all(bracket.found() >= [1000.0, 1.0, 100.0])


def test_a_rule_that_is_never_met_gets_the_strength_of_least_violation() -> None:
    bracket = searched([np.inf])
    assert bracket.settled
    assert bracket.found()[0] == pytest.approx(1e6)


def test_strength_is_not_raised_further_where_that_makes_things_worse() -> None:
    bracket = _Bracket(StrengthSearch(), np.array([1000.0]), np.ones(1, bool), [0.01])
    for violation in (0.3, 0.2, 0.9, 1.0):
        bracket.learn([False], [violation])
    assert bracket.settled
    assert bracket.found()[0] == pytest.approx(1e4)


def test_a_bearable_violation_that_more_strength_does_not_lessen_is_left_at_that() -> None:
    bracket = _Bracket(StrengthSearch(), np.array([1000.0]), np.ones(1, bool), [0.01])
    bracket.learn([False], [0.007], bearable=[True])
    assert not bracket.settled
    bracket.learn([False], [0.008], bearable=[True])
    assert bracket.settled
    assert bracket.found()[0] == pytest.approx(1000.0)


def test_a_violation_beyond_the_tolerance_is_never_left_at_that_so_early() -> None:
    bracket = _Bracket(StrengthSearch(), np.array([1000.0]), np.ones(1, bool), [0.01])
    bracket.learn([False], [0.02], bearable=[False])
    bracket.learn([False], [0.03], bearable=[False])
    assert not bracket.settled
    assert bracket.now[0] == pytest.approx(1e5)


@pytest.mark.parametrize(("violation", "step"), [(0.0052, 10**0.5), (0.0125, 6.25), (0.3, 10.0)])
def test_strength_grows_by_what_the_violation_asks_for(violation: float, step: float) -> None:
    bracket = _Bracket(StrengthSearch(), np.array([1000.0]), np.ones(1, bool), [0.01])
    bracket.learn([False], [violation])
    assert bracket.now[0] == pytest.approx(1000.0 * step)


def test_a_rule_that_further_points_mend_grows_by_the_least_step() -> None:
    bracket = _Bracket(StrengthSearch(), np.full(2, 1000.0), np.ones(2, bool), [0.01] * 2)
    bracket.learn([False, False], [0.04, 0.04], mended=frozenset({0}))
    np.testing.assert_allclose(bracket.now, [1000.0 * 10**0.5, 10_000.0])


def test_more_strength_can_be_enough_only_where_it_was_once() -> None:
    bracket = _Bracket(StrengthSearch(ratio=3.2), np.array([1000.0]), np.ones(1, bool), [0.01])
    assert not bracket.can_be_enough(0)
    bracket.learn([False], [0.5])
    bracket.learn([True], [0.0])
    assert bracket.now[0] == pytest.approx(10_000.0 / 10**0.5)
    assert bracket.can_be_enough(0)
    bracket.now[0] = 10_000.0
    assert not bracket.can_be_enough(0)  # it is being tried again


def test_a_search_cut_short_gives_a_strength_that_was_tried() -> None:
    search = StrengthSearch(rounds=2, ratio=3.2)
    bracket = searched([1e4], search)
    assert not bracket.settled
    assert bracket.found()[0] == pytest.approx(1e4)


def test_given_strengths_stay() -> None:
    bracket = _Bracket(StrengthSearch(), np.array([1000.0, 7.0]), np.array([True, False]), [0.01, 0.01])
    bracket.learn([False, False], [0.5, 0.5])
    assert bracket.now[1] == 7.0
    assert bracket.found()[1] == 7.0


def test_a_rule_that_is_held_keeps_its_strength_and_nothing_is_learnt_of_it() -> None:
    bracket = _Bracket(StrengthSearch(), np.array([1000.0, 1000.0]), np.ones(2, bool), [0.01, 0.01])
    bracket.learn([False, False], [0.02, 0.5], frozenset({0}))
    np.testing.assert_allclose(bracket.now, [1000.0, 10_000.0])
    assert np.isinf(bracket.little[0])
    assert not bracket.settled
    bracket.learn([True, True], [0.0, 0.0])
    assert bracket.found()[0] == 1000.0


def test_a_rule_is_held_once_at_each_strength() -> None:
    bracket = _Bracket(StrengthSearch(), np.array([1000.0, 1000.0]), np.ones(2, bool), [0.01, 0.01])
    assert bracket.hold(frozenset({0})) == {0}
    assert bracket.hold(frozenset({0, 1})) == {1}
    bracket.learn([False, False], [0.02, 0.02])
    assert bracket.hold(frozenset({0, 1})) == {0, 1}


@pytest.fixture(scope="module")
def wide() -> tuple[Model, Prepared]:
    """A rule on six columns that the rows contradict, scored at five points, after the search."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.uniform(-1, 1, (40, 6)), columns=list("abcdef"))
    frame["y"] = frame.sum(axis=1)
    model = Model.build(
        frame=frame, target="y", rules=["if a > 0.5 then y <= 0"], hidden=(4,), noise=0.5, points=5
    )
    settings = Settings(
        warm=WarmStart(steps=200, searches=0), strength=StrengthSearch(rounds=3, effective=50, most=100)
    )
    engine = Hmc(warmup=100, max_steps=100)
    with precision("float64"):
        return model, prepare(
            model, RunOptions(engine, "float64", 2, 0, cores=2), settings, None, lambda tick: None
        )


def test_points_where_a_pilot_broke_a_rule_join_its_own(wide: tuple[Model, Prepared]) -> None:
    (rule,) = wide[1].model.terms
    added = np.asarray(rule.points.coded)[5:][np.asarray(rule.points.weights)[5:] > 0]
    assert 0 < len(added) <= StrengthSearch().most_found
    assert rule.rule.region.contains(added, rule.schema).all()
    assert wide[1].context.points[0].coded is rule.points.coded
    assert wide[1].context.nodes[0].inputs.shape == rule.points.inputs.shape


def test_points_that_joined_are_there_after_an_interruption(wide: tuple[Model, Prepared]) -> None:
    model, prepared = wide
    again = Prepared.restored(model, prepared.arrays())
    for old, new in zip(prepared.context.points, again.context.points, strict=True):
        np.testing.assert_array_equal(old.coded, new.coded)
        np.testing.assert_array_equal(old.weights, new.weights)
        assert float(old.strength) == float(new.strength)


@pytest.mark.slow
def test_draws_of_an_optimised_gaussian_show_that_figure_1b_is_met() -> None:
    model = figure_1b(hidden=(10,), strength=None, points=100)
    (rule,) = infer(model, "bbb", seed=0, draws=2000).rules
    assert rule.found_strength
    assert rule.met


@pytest.mark.slow
def test_particles_keep_figure_1b_though_they_are_too_few_to_show_it() -> None:
    model = figure_1b(hidden=(10,), strength=None, points=100)
    (rule,) = infer(model, "svgd", seed=0).rules
    assert rule.found_strength
    assert rule.violation <= rule.tolerance
    assert rule.not_shown  # 50 particles cannot show 0.01


@pytest.mark.slow
def test_the_least_strength_that_meets_the_tolerance_is_frozen_and_measured_again() -> None:
    model = figure_1b(strength=None, prior_only=True, points=40, hidden=(2,))
    search = StrengthSearch(rounds=8, effective=100, most=200)
    settings = Settings(warm=WarmStart(steps=200, searches=1), strength=search)
    result = infer(
        model, Hmc(warmup=100, max_steps=100), chains=2, draws=300, prepare_with=settings, cores=2, seed=2
    )
    (rule,) = result.rules
    assert rule.name == RULE
    assert rule.found_strength
    assert rule.strength == float(result.model.terms[0].points.strength)
    assert rule.strength != 1000.0
    assert rule.violation <= 0.01 + 4 * rule.check.error


def test_frozen_settings_look_for_no_points() -> None:
    frozen = Settings().frozen()
    assert frozen.warm is not None
    assert frozen.strength is not None
    assert (frozen.warm.searches, frozen.strength.found) == (0, 0)
    assert Settings(warm=None, strength=None).frozen() == Settings(warm=None, strength=None)


def test_new_points_restart_the_bracket_of_a_rule() -> None:
    bracket = _Bracket(StrengthSearch(), np.array([1000.0, 1000.0]), np.ones(2, bool), [0.01, 0.01])
    bracket.learn([False, True], [0.5, 0.0])
    bracket.learn([True, True], [0.0, 0.0])
    assert bracket.enough[0] == 10_000.0
    bracket.restart(0)
    assert not bracket.can_be_enough(0)
    assert np.isinf(bracket.little[0])
    bracket.learn([False, True], [0.2, 0.0])
    assert bracket.found()[0] == bracket.least_at[0]


def test_chains_that_take_fresh_points_cannot_hold_a_rule_everywhere() -> None:
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 10), "y": np.linspace(0.1, 0.95, 10)})
    schema = Schema.infer(frame, target="y")
    rule = parse_rule("always y <= 1", schema, holds="everywhere")
    model = Model.build(frame=frame, schema=schema, hidden=(3,), noise=0.1, rules=[rule])
    with pytest.raises(InferenceError, match=r"needs chains .* Give engine=\"mclmc\""):
        infer(model, "sgld")


@pytest.mark.slow
def test_a_rule_that_cannot_hold_everywhere_is_unmet_with_place_and_reason() -> None:
    """Rows fill half of its region, and most of them contradict it."""
    generator = np.random.default_rng(0)
    x = generator.uniform(-2, 1.5, 200)
    frame = pd.DataFrame({"x": x, "y": np.sin(2 * x) + 0.05 * generator.normal(size=200)})
    schema = Schema.infer(frame, target="y", columns={"x": {"bounds": (-2, 3)}})
    rule = parse_rule("if x > 0 then y <= 0", schema, tolerance=0.001, holds="everywhere")
    model = Model.build(frame=frame, schema=schema, hidden=(5,), noise=0.05, rules=[rule])
    (outcome,) = infer(model, "mclmc", chains=4, draws=300, seed=0).rules
    assert outcome.unmet
    assert "at x = " in outcome.reason
    assert "it conflicts with" in outcome.reason
    assert "rows in its region" in outcome.reason


@pytest.mark.slow
def test_a_rule_against_the_data_holds_everywhere_by_another_search_with_ten_times_the_budget() -> None:
    """Data rise to 1.5 where the rule allows 1.2; points that were found are frozen before the kept run."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.uniform(-2, 2, (80, 3)), columns=list("abc"))
    frame["y"] = np.sin(1.5 * frame["a"]) + 0.5 * frame["b"] + 0.2 * generator.normal(size=80)
    schema = Schema.infer(frame, target="y")
    rule = parse_rule("if a > 1.2 then y <= 1.2", schema, tolerance=0.05, holds="everywhere")
    model = Model.build(frame=frame, schema=schema, hidden=(8,), noise=0.2, rules=[rule])
    result = infer(model, "mclmc", chains=4, draws=500, seed=0)
    (outcome,) = result.rules
    (term,) = result.model.terms
    assert outcome.check.asked == "worst case found"
    assert not outcome.unmet
    assert len(term.points.coded) > term.drawn
    drawn = DrawSet(result.draws, result.model, has_chains=True)
    found = [climb(drawn, term, drawn.flat[::2], 1000 + i, starts=4000) for i in range(10)]
    shares = (margins_at(drawn, drawn.flat[1::2], term, np.concatenate(found)) > 0).mean(axis=0)
    assert shares.max() <= 0.05


def test_a_wall_at_the_worst_points_grows_in_smaller_steps_and_stays() -> None:
    bracket = _Bracket(
        StrengthSearch(ratio=3.2), np.full(2, 1000.0), np.ones(2, bool), [0.01] * 2, np.array([True, False])
    )
    bracket.learn([False, False], [0.5, 0.5])
    np.testing.assert_allclose(bracket.now, [1000.0 * 10**0.5, 10_000.0])
    bracket.learn([True, True], [0.0, 0.0])
    np.testing.assert_allclose(bracket.now, [1000.0 * 10**0.5, 1000.0 * 10**0.5])


def test_a_rule_that_holds_everywhere_is_tried_again_while_more_points_help() -> None:
    bracket = _Bracket(StrengthSearch(), np.full(2, 1000.0), np.ones(2, bool), [0.01] * 2)
    both = frozenset({0, 1})
    assert bracket.hold(both, {0: 0.9}) == both
    assert bracket.hold(both, {0: 0.5}) == frozenset({0})
    assert bracket.hold(both, {0: 0.48}) == frozenset()
