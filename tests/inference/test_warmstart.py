"""The warm start: annealed optimisation, held noise, and points found where rules are still broken."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from ocbnn.inference.density import density_of, fixed_context
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.warmstart import ROOM, WarmStart, starting_positions, with_found, with_room
from ocbnn.model import Model
from ocbnn.model.outputs import model_outputs, precision
from small_runs import figure_1b

WARM = WarmStart(steps=300, searches=1, found=4)


@pytest.fixture(scope="module")
def noisy() -> Model:
    return figure_1b(noise=None, hidden=(6,))


@pytest.fixture(scope="module")
def warmed(noisy: Model) -> tuple[np.ndarray, np.ndarray]:
    with precision("float64"):
        start = starting_positions(noisy, 3, 0, Hmc())
        return start, WARM.optimise(density_of(noisy), start, fixed_context(noisy))


def test_every_member_climbs(noisy: Model, warmed: tuple[np.ndarray, np.ndarray]) -> None:
    start, after = warmed
    start = np.concatenate([start[:, :-1], after[:, -1:]], axis=1)  # where noise is held
    with precision("float64"):
        before, after = (np.asarray(jax.vmap(noisy.log_density)(positions)) for positions in (start, after))
    assert (after > before).all()


def test_learnt_noise_is_held_at_a_tenth_of_the_targets_spread(
    noisy: Model, warmed: tuple[np.ndarray, np.ndarray]
) -> None:
    start, after = warmed
    assert noisy.likelihood.size == 1
    assert np.exp(after[:, -1]) == pytest.approx(0.1 * noisy.likelihood.noise_prior)
    assert (start[:, :-1] != after[:, :-1]).all()


def test_chains_start_at_draws_of_the_prior_and_optimisers_where_networks_do(noisy: Model) -> None:
    chains, members = (starting_positions(noisy, 400, 0, engine) for engine in (Hmc(), Ensemble()))
    assert chains[:, :-1].std() == pytest.approx(1.0, abs=0.05)
    assert members[:, :-1].std() < chains[:, :-1].std()
    assert np.array_equal(chains, starting_positions(noisy, 400, 0, Hmc()))


def test_a_member_whose_start_is_hopeless_begins_where_a_better_one_does(
    noisy: Model, warmed: tuple[np.ndarray, np.ndarray]
) -> None:
    good = warmed[1][:2]
    positions = np.concatenate([np.full((5, noisy.size), 1e3), good])
    with precision("float64"):
        found = WarmStart(retries=1).without_stragglers(
            density_of(noisy), positions, fixed_context(noisy), again=lambda attempt: positions
        )
    assert all(any(np.array_equal(each, one) for one in good) for each in found)


def test_room_changes_nothing_until_points_are_found(model: Model) -> None:
    (rule,) = model.terms
    roomy = with_room(rule, 3)
    values = np.linspace(0.0, 5.0, 20)
    assert roomy.points.inputs.shape == (23, 1)
    assert float(roomy.log_density(np.append(values, [9.0] * 3), roomy.points)) == pytest.approx(
        float(rule.log_density(values, rule.points)), rel=1e-6
    )
    found = with_found(roomy, np.array([[0.1], [0.2]]))
    np.testing.assert_allclose(found.points.coded[20:22, 0], [0.1, 0.2])
    np.testing.assert_allclose(found.points.weights, [0.5 / 20] * 20 + [0.5 / 2] * 2 + [0.0])


def test_where_no_place_is_free_a_rule_is_given_more(model: Model) -> None:
    (rule,) = model.terms
    more = np.linspace(-0.3, 0.3, ROOM + 6)[:, None]
    found = with_found(with_found(rule, more[:5]), more[5:])
    weights = np.asarray(found.points.weights)
    np.testing.assert_allclose(np.asarray(found.points.coded)[20:][weights[20:] > 0], more)
    np.testing.assert_allclose(weights[weights > 0], [0.5 / 20] * 20 + [0.5 / len(more)] * len(more))
    assert len(weights) == 20 + 2 * ROOM


@pytest.mark.parametrize("corners", [False, True])
def test_found_points_share_half_of_a_rules_weight_however_many_they_are(corners: bool) -> None:
    """S12: each counted as much as one that was drawn, so that a rule could weigh 2.4 times."""
    (rule,) = figure_1b(points=20, corners=corners).terms
    own, y = 20 + rule.corners, 7.0
    for count in (1, 3, 70):
        rule = with_found(rule, np.linspace(-0.3, 0.3, count)[:, None])
        weights = np.asarray(rule.points.weights)
        assert weights.sum() == pytest.approx(1.0, rel=1e-12)
        assert weights[own:].sum() == pytest.approx(0.5, rel=1e-12)
        assert len(np.unique(weights[own:][weights[own:] > 0])) == len(np.unique(weights[:own])) == 1
    # A function that is equally wrong everywhere scores what it scored before anything was found.
    (before,) = figure_1b(points=20, corners=corners).terms
    expected = float(before.log_density(np.full(len(before.points.weights), y), before.points))
    actual = float(rule.log_density(np.full(len(rule.points.weights), y), rule.points))
    assert actual == pytest.approx(expected, rel=1e-6)


def test_in_a_sum_each_found_point_counts_one_as_every_other() -> None:
    (rule,) = figure_1b(points=20, reduction="sum").terms
    found = with_found(with_found(rule, np.array([[0.1]])), np.array([[0.2], [0.25]]))
    weights = np.asarray(found.points.weights)
    np.testing.assert_array_equal(weights[weights > 0], np.ones(23))


def test_points_are_found_where_networks_break_the_rule_and_nowhere_else(model: Model) -> None:
    roomy = WARM.reserved(model)
    breaking = np.zeros((1, model.size))  # y = 0 everywhere
    extended = WARM.add_found_points(0, roomy, breaking)
    (rule,) = extended.terms
    added = np.asarray(rule.points.coded)[20:][np.asarray(rule.points.weights)[20:] > 0]
    assert len(added)
    assert rule.rule.region.contains(added, rule.schema).all()
    obeying = breaking.copy()
    obeying[:, -1] = 2.75
    assert (model_outputs(model, obeying, np.zeros((1, 1))) == 2.75).all()
    assert WARM.add_found_points(0, roomy, obeying) is roomy


def test_many_members_of_many_weights_warm_up_on_fewer_rows() -> None:
    warm = WarmStart(steps=1500)
    assert warm.affordable_rows(1_000) == warm.rows
    # 50 particles of 11,201 weights: 1,500 steps over 595 rows.
    assert warm.affordable_rows(50 * 11_201) == 595
