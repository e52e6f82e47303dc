"""Every term in `TERMS`, on every kind of demand it accepts, through the protocol alone."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ocbnn.model.terms import TERMS, Calibration
from ocbnn.rules.requirement import Requirement
from ocbnn.schema import Target
from term_cases import CASES, PAIRS, POINTS, log_softmax, outputs_for, read_by, term_of

DRAWS = 3000
COMPILE_QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
ONE_CASE_PER_TERM = list(dict(reversed(PAIRS)).items())
EVERY_PAIR = pytest.mark.parametrize(("term_name", "case_name"), PAIRS)
DRAW_BY_DRAW = [
    (term_name, case_name)
    for term_name, case_name in PAIRS
    if CASES[case_name].requirement.judged == "draw"
    and term_name in (CASES[case_name].requirement.default_term, "distance")
]


def calibrated(term_name, case):
    term = term_of(term_name)
    target = Target("y", "regression")
    return term.calibrated(
        Calibration(case.requirement, case.demand, target, bounded=True, strength=term.default_strength)
    )


@cache
def compiled(term_name, case_name):
    """Scores and their gradient in a network's outputs (y or logits), compiled once per pair and dtype."""
    case = CASES[case_name]
    term = calibrated(term_name, case)

    def total(outputs, demand, strength):
        value = read_by(term, case, jax.nn.log_softmax(outputs) if case.classes else outputs)
        scores = term.log_density(case.requirement, demand, value, strength)
        return jnp.sum(scores), scores

    gradient = jax.jit(jax.value_and_grad(total, has_aux=True), compiler_options=COMPILE_QUICKLY)

    def scores_and_gradient(outputs, strength):
        (_, scores), slopes = gradient(outputs, case.demand, strength)
        return np.asarray(scores), np.asarray(slopes)

    return scores_and_gradient


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def test_every_term_is_tried_and_every_kind_of_rule_has_a_default_that_scores_it():
    assert {name for name, _ in PAIRS} == set(TERMS)
    for case in CASES.values():
        assert TERMS[case.requirement.default_term].scores(case.requirement, case.demand)


def test_every_rule_that_is_judged_draw_by_draw_is_scored_by_the_wall_on_its_margin():
    walled = {name for term, name in PAIRS if term == "distance"}
    assert walled == {name for name, case in CASES.items() if case.requirement.judged == "draw"}


@EVERY_PAIR
def test_scores_have_one_number_per_draw_and_point_with_points_and_strength_traced(term_name, case_name):
    scores, _ = compiled(term_name, case_name)(outputs_for(CASES[case_name], DRAWS), 3.0)
    assert scores.shape == (DRAWS, POINTS)
    assert scores.dtype == np.float64


@pytest.mark.parametrize("case_name", ["interval", "half-line", "gap", "intervals that vary"])
def test_points_that_are_constants_score_like_traced_ones(case_name):
    case, value = CASES[case_name], outputs_for(CASES[case_name], DRAWS)
    term = calibrated(
        "negative-exponential", case
    )  # it leaves out gaps that are empty at all constant points
    constant = term.log_density(case.requirement, case.demand, jnp.asarray(value), 3.0)
    traced, _ = compiled("negative-exponential", case_name)(value, 3.0)
    np.testing.assert_allclose(traced, constant, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("term_name", "case_name", "exact"),
    [(*pair, True) for pair in PAIRS] + [(*pair, False) for pair in ONE_CASE_PER_TERM],
)
def test_nothing_is_nan_for_outputs_of_a_million(term_name, case_name, exact):
    case = CASES[case_name]
    shape = (DRAWS, POINTS, case.classes) if case.classes else (DRAWS, POINTS)
    outputs = np.random.default_rng(1).choice([-1e6, -1.0, 0.0, 1e6], size=shape)
    with jax.enable_x64(exact):
        scores, gradient = compiled(term_name, case_name)(outputs, term_of(term_name).default_strength)
    assert scores.dtype == (np.float64 if exact else np.float32)
    assert np.all(np.isfinite(scores))
    assert np.all(np.isfinite(gradient))


@EVERY_PAIR
def test_gradients_agree_with_finite_differences(term_name, case_name):
    case = CASES[case_name]
    outputs = outputs_for(case, DRAWS, seed=3)
    step = 1e-6 * np.random.default_rng(4).normal(size=outputs.shape)
    scores, gradient = compiled(term_name, case_name)(outputs, 3.0)
    difference = compiled(term_name, case_name)(outputs + step, 3.0)[0]
    difference = (difference - compiled(term_name, case_name)(outputs - step, 3.0)[0]) / 2
    predicted = gradient * step if not case.classes else np.sum(gradient * step, axis=-1)
    # A step across a kink is off by a share of the step; rounding by a share of the score.
    error = np.abs(predicted - difference) - 1e-15 * np.abs(scores)
    assert np.quantile(error, 0.995) < 1e-11
    assert np.mean(np.abs(predicted)) > 1e-9 or case_name == "all classes"


@pytest.mark.parametrize("strength", [0.3, 1.0, 1e4])
@pytest.mark.parametrize(("term_name", "case_name"), DRAW_BY_DRAW)
def test_no_obeying_output_scores_below_a_breaking_one(term_name, case_name, strength):
    case = CASES[case_name]
    value = np.concatenate([outputs_for(case, DRAWS // 3, spread=s) for s in (0.1, 1.0, 4.0)])
    outputs = np.exp(value) if case.classes else value
    breaks = np.asarray(case.requirement.margin(case.demand, outputs)) > 0
    scores, _ = compiled(term_name, case_name)(value, strength)
    for point in range(POINTS):
        obeying, breaking = scores[~breaks[:, point], point], scores[breaks[:, point], point]
        if len(obeying) and len(breaking):
            assert obeying.min() >= breaking.max() - 1e-12 * max(1.0, abs(breaking.max()))
    assert breaks.any() or case_name == "all classes"
    assert not breaks.all()


@pytest.mark.parametrize("case_name", ["probability target", "class probabilities"])
def test_what_is_asked_scores_highest_among_distributions(case_name):
    case = CASES[case_name]
    asked = case.demand.probability
    if case_name == "probability target":
        asked = np.stack([1 - asked, asked], axis=-1)
    with np.errstate(divide="ignore"):
        value = np.tile(np.log(asked), (DRAWS, 1, 1))
    best, _ = compiled("target-probability", case_name)(value, 3.0)
    others, _ = compiled("target-probability", case_name)(outputs_for(case, DRAWS), 3.0)
    np.testing.assert_allclose(best, 0.0, atol=1e-12)
    assert np.all(others < 0)


def test_log_softmax_of_the_cases_is_that_of_jax():
    logits = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(log_softmax(logits), jax.nn.log_softmax(logits), rtol=1e-12)


def test_a_kind_that_says_what_is_forbidden_declares_it():
    kinds = {type(case.requirement) for case in CASES.values()}
    declared = {kind for kind in kinds if kind.lists_forbidden}
    assert declared == {kind for kind in kinds if kind.forbidden is not Requirement.forbidden} != set()
