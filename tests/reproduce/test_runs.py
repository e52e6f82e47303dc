"""Runs: models that load from their folder, figures as NumPy has them, points that stay or are redrawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ocbnn
from ocbnn.inference.feed import Feed
from posterior_cases import class_constants, constants, lines
from reproduce.data import toys
from reproduce.figures.fig1 import FAR, width_ratio
from reproduce.figures.fig4 import SKILL, threshold
from reproduce.runs import band, build, fit_rmse, mixing_figures, rule_figures, save_all

GRID = pd.DataFrame({"x": np.linspace(-5.0, 5.0, 7)})


def test_draws_of_a_prior_are_a_saved_model_that_samples_functions(small_prior, tmp_path):
    save_all(tmp_path / "fig1", {"prior": small_prior})
    loaded = ocbnn.load(tmp_path / "fig1" / "prior")
    values = loaded.sample_function(GRID)
    assert values.shape == (40, 7)
    w, x = small_prior.flat[3], GRID["x"].to_numpy()[:, None]
    np.testing.assert_allclose(values[3], small_prior.model.network.apply(w, x)[:, 0], rtol=1e-4, atol=1e-4)
    assert [rule.text(loaded.schema_) for rule in loaded.rules_] == [toys.FIGURE_1_RULE]


def test_a_classifiers_posterior_loads_with_its_labels(small_plan, tmp_path):
    plan = replace(small_plan, model={"hidden": (3,), "standardize": False})
    model = build(plan, toys.figure_2(), seed=0)
    draws = np.random.default_rng(0).normal(size=(1, 5, model.size))
    save_all(tmp_path / "fig2", {"baseline": ocbnn.posterior.Posterior(draws, model, {"chains": False})})
    loaded = ocbnn.load(tmp_path / "fig2" / "baseline")
    rows = toys.figure_2()[["x1", "x2"]]
    assert loaded.sample_function(rows).shape == (5, 24, 3)
    assert list(loaded.classes_) == ["blue", "green", "red"]
    assert set(loaded.predict(rows)) <= {"blue", "green", "red"}


def test_figures_are_what_the_draws_say():
    """Constant functions: half of them at 0.5, half at 2; `y <= 1` is broken by the latter."""
    posterior = constants(np.tile([0.5, 2.0], (2, 50)))
    found = rule_figures(posterior, ["if 0 <= x <= 1 then y <= 1"], points=50)
    assert found["epsilon_mean"] == found["draws_violating"] == found["epsilon_worst"] == 0.5
    assert found["points_violating"] == 1.0  # the mean is 1.25
    assert fit_rmse(posterior, pd.DataFrame({"x": [0.0, 1.0], "y": [1.25, 2.25]})) == pytest.approx(0.5**0.5)
    low, high = band(posterior, pd.DataFrame({"x": [0.0]}))
    assert (low[0], high[0]) == (0.5, 2.0)


def test_the_fit_of_classes_is_how_far_their_probabilities_are_from_what_was_observed():
    posterior = class_constants(np.tile([0.6, 0.3, 0.1], (2, 5, 1)))
    frame = pd.DataFrame({"x": [0.0], "site": ["north"], "y": ["green"]})
    assert fit_rmse(posterior, frame) == pytest.approx(((0.6**2 + 0.7**2 + 0.1**2) / 3) ** 0.5, abs=1e-6)


def test_bands_twice_as_wide_have_the_ratio_two():
    noise = np.random.default_rng(0).normal(size=(2, 200))
    narrow, wide = (
        lines(np.zeros((2, 200)), factor * noise, ["if 0 <= x <= 1 then y <= 1"]) for factor in (1, 2)
    )
    assert width_ratio(wide, narrow, FAR) == pytest.approx(2.0)


def test_chains_that_agree_have_r_hat_1_and_particles_have_none():
    noise = np.random.default_rng(0).normal(size=(4, 500))
    posterior = constants(noise)
    found = mixing_figures(posterior, pd.DataFrame({"x": [0.0, 1.0]}))
    assert found["rhat_worst"] < 1.01
    assert 1000 < found["ess_worst"] < 3000
    particles = replace(posterior, provenance={"chains": False})
    assert set(mixing_figures(particles, GRID).values()) == {None}


@pytest.mark.parametrize("fixed", [True, False])
def test_points_stay_where_the_paper_keeps_them_and_the_ends_are_always_among_them(small_plan, fixed):
    plan = replace(small_plan, fixed_points=fixed, model={**small_plan.model, "points": 3, "corners": True})
    model = build(plan, toys.figure_3b(), [toys.FIGURE_3B_RULE], seed=0)
    (points,) = Feed(model, 0, None).chunk(0, 4).points
    x = points.coded[..., 0]
    assert x.shape == (4, 5)
    assert len(np.unique(x[:, :3])) == (3 if fixed else 12)
    np.testing.assert_allclose(x[:, 3:], [[-1.0, 1.0]] * 4, atol=1e-5)


def test_a_threshold_is_where_the_probability_crosses_one_half():
    assert threshold(SKILL) == pytest.approx(0.5)
    assert threshold(np.clip(SKILL + 0.3, 0, 1)) == pytest.approx(0.2)
    assert threshold(np.full(101, 0.4)) is None
    assert threshold(np.full(101, 0.6)) == 0.0
