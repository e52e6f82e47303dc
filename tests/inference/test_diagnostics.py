"""Verdicts on runs: no bad run is called good."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from chain_values import correlated, independent
from ocbnn.checking.convergence import bulk_ess
from ocbnn.errors import InferenceError
from ocbnn.inference import Settings, infer
from ocbnn.inference.diagnostics import (
    Criteria,
    Diagnostics,
    diagnose,
    diagnose_objective,
    diagnose_particles,
    diagnose_run,
    hyperparameter_values,
    plateau,
    probe_inputs,
    probe_places,
    scores,
    worst_ess,
)
from ocbnn.inference.engines.base import Bias, Engine
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.engines.svgd import Svgd
from ocbnn.model import Model
from ocbnn.model.likelihoods import Gaussian
from ocbnn.model.networks import MLP
from ocbnn.model.outputs import model_outputs
from ocbnn.model.priors import IsotropicGaussian, LayerScales


class TestVerdictOnChains:
    def test_chains_that_agree_converge_and_the_sentence_says_over_how_many_probes(self) -> None:
        found = diagnose(independent(draws=1000), acceptance=np.full(4, 0.8), divergences=np.zeros(4, int))
        assert found.converged
        assert found.status.startswith("converged: worst R-hat 1.0")
        assert "over 6 probes" in found.status
        assert found.worst_rhat <= 1.01
        assert found.worst_bulk_ess >= 400
        assert found.worst_tail_ess > 0
        assert found.stuck == ()

    @pytest.mark.parametrize("outlier", [0, 2, 3])
    def test_the_chain_that_disagrees_is_named_with_its_probe(self, outlier: int) -> None:
        values = independent(draws=1000)
        values[outlier, :, 4] += 1.0
        found = diagnose(values, place=lambda quantity: f"x = {quantity}.1")
        assert not found.converged
        assert found.status.startswith(f"not converged: chain {outlier + 1} of 4 disagrees at x = 4.1 ")
        assert "run longer or more chains" in found.status
        assert found.where == "x = 4.1"

    def test_a_chain_of_another_scale_is_named_too(self) -> None:
        values = independent(draws=1000)
        values[1, :, 2] *= 3.0
        assert "chain 2 of 4 disagrees at probe 2" in diagnose(values).status

    def test_chains_that_all_disagree_are_not_blamed_on_one_alone(self) -> None:
        values = independent(draws=1000) + 3.0 * np.arange(4)[:, None, None]
        assert "not converged: chains disagree" in diagnose(values).status

    def test_a_trend_that_all_chains_share_is_seen(self) -> None:
        assert not diagnose(independent(draws=1000) + np.linspace(0, 1, 1000)[:, None]).converged

    def test_too_few_effective_draws_are_said_with_their_number(self) -> None:
        found = diagnose(independent(draws=4000, quantities=2), criteria=Criteria(least_ess=50_000))
        assert not found.converged
        assert "50,000 are asked for; run longer" in found.status

    def test_too_few_effective_draws_in_the_tails_are_a_failure_of_their_own(self) -> None:
        """Rare visits to an end, long ones: the centre is known, the end is not."""
        values = independent(draws=1000, quantities=1)
        values[:, 400:435] = 5.0 + 0.01 * values[:, 400:435]
        found = diagnose(values)
        assert found.worst_rhat <= 1.01
        assert found.worst_bulk_ess >= 400 > found.worst_tail_ess
        assert "not converged: in the tails, the draws are worth" in found.status

    def test_many_divergences_are_a_failure_and_few_are_mentioned(self) -> None:
        values = independent(draws=1000)
        many = diagnose(values, divergences=np.array([5, 0, 0, 0]))  # of 4,000 draws
        assert not many.converged
        assert "0.12% of the trajectories diverged" in many.status
        few = diagnose(values, divergences=np.array([2, 1, 0, 0]))
        assert few.converged
        assert few.status.endswith(", 3 divergences")

    def test_chains_of_an_engine_that_is_not_exact_settle_and_never_converge(self) -> None:
        values = independent(draws=1000)
        unknown = diagnose(values, exact=False)
        assert unknown.converged
        assert unknown.status.startswith("settled: worst R-hat 1.0")
        assert unknown.status.endswith("how far they are from the posterior is not known")
        known = diagnose(values, exact=False, bias=Bias("bands are up to 4.2% too wide"))
        assert known.status.startswith("settled: ")
        assert known.status.endswith("draws are approximate: bands are up to 4.2% too wide")
        wide = diagnose(
            values, exact=False, bias=Bias("too wide", "bands are 96% too wide; take smaller steps")
        )
        assert not wide.converged
        assert wide.status == "not settled: bands are 96% too wide; take smaller steps"
        unmixed = diagnose(correlated(0.999, draws=500), exact=False)
        assert unmixed.status.startswith("not settled: ")
        apart = independent(draws=200)
        apart[0] += 0.35  # R-hat between 1.01 and 1.05: within the error of an engine that is not exact
        assert not diagnose(apart).converged
        assert diagnose(apart, exact=False).converged

    def test_one_chain_is_never_called_converged(self) -> None:
        found = diagnose(independent(chains=1, draws=5000))
        assert not found.converged
        assert "run more chains" in found.status
        assert found.worst_rhat < 1.01

    def test_one_chain_that_drifts_is_said_to(self) -> None:
        values = independent(chains=1, draws=500) + np.linspace(0, 3, 500)[:, None]
        assert "halves of the one chain disagree" in diagnose(values).status

    def test_classes_are_quantities_of_their_own(self) -> None:
        values = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 1000, 5))
        values[3, :, 2, :] = values[3, :, 2, ::-1] ** 2
        found = diagnose(values, probes=5)
        assert found.rhat.shape == (15,)
        assert not found.converged


class TestBadRunsAreNeverCalledGood:
    @pytest.mark.parametrize("draws", [0, 1, 2, 3])
    @pytest.mark.parametrize("chains", [1, 4])
    def test_few_draws(self, chains: int, draws: int) -> None:
        found = diagnose(independent(chains, draws))
        assert not found.converged
        assert "too few to judge" in found.status

    def test_no_probes_or_no_chains(self) -> None:
        assert not diagnose(np.zeros((4, 100, 0))).converged
        assert not diagnose(np.zeros((0, 100, 3))).converged

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite_are_named(self, value: float) -> None:
        values = independent(draws=1000)
        values[2, 17, 3] = value
        found = diagnose(values)
        assert not found.converged
        assert "chain 3 of 4 gives a value that is not finite at probe 3, first in draw 18" in found.status
        assert worst_ess(values) == 0.0

    def test_chains_that_never_moved_from_one_place(self) -> None:
        found = diagnose(np.ones((4, 1000, 6)))
        assert not found.converged
        assert "no chain has moved" in found.status
        assert worst_ess(np.ones((4, 1000, 6))) == 0.0

    def test_chains_that_never_moved_from_their_own_places(self) -> None:
        found = diagnose(np.broadcast_to(np.arange(4.0)[:, None, None], (4, 1000, 6)))
        assert not found.converged
        assert found.stuck == (0, 1, 2, 3)

    def test_one_chain_that_never_moved(self) -> None:
        values = independent(draws=1000)
        values[1] = 0.0
        found = diagnose(values)
        assert found.stuck == (1,)
        assert "chain 2 of 4 is stuck" in found.status

    def test_one_chain_that_crawls(self) -> None:
        values = independent(draws=1000)
        values[3] *= 1e-3
        assert diagnose(values).stuck == (3,)

    def test_a_chain_that_moves_once_in_a_hundred_draws(self) -> None:
        values = independent(draws=4000)
        values[0] = np.repeat(values[0, ::100], 100, axis=0)
        assert 0 in diagnose(values).stuck

    def test_low_acceptance(self) -> None:
        found = diagnose(independent(draws=1000), acceptance=np.array([0.8, 0.01, 0.8, 0.7]))
        assert not found.converged
        assert "chain 2 of 4 is stuck (acceptance 0.01)" in found.status

    def test_random_walks(self) -> None:
        assert not diagnose(independent(draws=2000).cumsum(axis=1)).converged

    def test_two_modes_that_each_chain_keeps_to(self) -> None:
        values = 0.1 * independent(draws=2000) + np.array([-1.0, -1.0, 1.0, 1.0])[:, None, None]
        assert not diagnose(values).converged


class TestConstantProbes:
    def test_a_probe_at_which_all_draws_agree_is_no_failure(self) -> None:
        values = independent(draws=1000)
        values[..., 2] = 1.0
        values[..., 3] = 0.25 + 1e-12 * values[..., 3]
        found = diagnose(values)
        assert found.converged
        np.testing.assert_array_equal(found.rhat[2:4], 1.0)
        np.testing.assert_array_equal(found.bulk_ess[2:4], 4000)

    def test_a_probe_that_is_constant_within_chains_only_is_a_failure(self) -> None:
        values = independent(draws=1000)
        values[..., 2] = np.arange(4)[:, None]
        found = diagnose(values)
        assert not found.converged
        assert found.worst_rhat == np.inf

    def test_worst_ess_is_that_of_the_probes_that_vary(self) -> None:
        values = correlated(0.9)
        values[..., 0] = 3.0
        assert worst_ess(values) == bulk_ess(values[..., 1:]).min()

    def test_float32_rounding_is_no_variation(self) -> None:
        values = independent(draws=1000).astype(np.float32)
        values[..., 1] = 1.0 + np.float32(2e-7) * (values[..., 1] > 0)
        assert diagnose(values).rhat[1] == 1.0


class TestPlateau:
    @staticmethod
    def noise(steps: int, coefficient: float, seed: int) -> np.ndarray:
        shocks = np.random.default_rng(seed).normal(size=steps)
        values = shocks.copy()
        for step in range(1, steps):
            values[step] += coefficient * values[step - 1]
        return values

    @pytest.mark.parametrize("coefficient", [0.0, 0.9])
    def test_a_level_trace_has_reached_it_and_a_rising_one_has_not(self, coefficient: float) -> None:
        verdicts = []
        for seed in range(40):
            noise = self.noise(2000, coefficient, seed)
            scale = noise.std() / math.sqrt(2000 / 5 * (1 - coefficient) / (1 + coefficient))
            settled = -50.0 * np.exp(-np.arange(2000) / 100) + noise
            rising = noise + np.linspace(0, 30 * scale, 2000)
            verdicts.append((plateau(settled).reached, plateau(rising).reached))
        level, trend = np.mean(verdicts, axis=0)
        # Two comparisons at three standard errors, which are themselves estimated: a few in a hundred fail.
        assert level >= 0.8
        assert trend <= 0.05

    def test_a_smooth_climb_is_not_excused_by_its_own_spread(self) -> None:
        assert not plateau(np.linspace(0, 5, 1000)).reached
        assert "still rose by" in plateau(np.linspace(0, 5, 1000)).sentence
        assert "still fell by" in plateau(-np.linspace(0, 5, 1000)).sentence

    def test_changes_below_a_tenth_of_a_nat_do_not_matter(self) -> None:
        assert plateau(np.linspace(0, 0.1, 1000)).reached
        assert plateau(np.zeros(1000)).reached

    @pytest.mark.parametrize("steps", [0, 1, 49])
    def test_few_steps_are_too_few(self, steps: int) -> None:
        assert not plateau(np.zeros(steps)).reached

    def test_a_trace_that_is_not_finite_fails(self) -> None:
        trace = np.zeros(1000)
        trace[400] = np.nan
        assert plateau(trace) == (
            False,
            "the objective is not finite at step 401; lower the learning rate",
        )


class TestEnginesWithoutChains:
    @pytest.mark.parametrize(
        "verdict",
        [
            lambda trace: diagnose_objective(trace, "ELBO"),
            lambda trace: diagnose_particles(trace, 0.3, 50),
        ],
    )
    def test_say_what_was_checked_and_never_that_they_converged(self, verdict: Callable) -> None:
        good, bad = verdict(np.zeros(1000)), verdict(np.linspace(0, 100, 1000))
        assert good.converged
        assert good.status.startswith("settled: the ")
        assert not bad.converged
        assert bad.status.startswith("not settled: the ")
        for found in (good, bad):
            assert "R-hat" not in found.status
            assert math.isnan(found.worst_rhat)

    def test_particles_report_their_discrepancy_and_refuse_one_that_is_not_finite(self) -> None:
        assert diagnose_particles(np.zeros(1000), 0.3, 50).status.endswith(
            "kernel Stein discrepancy 0.3 of 50 particles"
        )
        assert not diagnose_particles(np.zeros(1000), math.nan, 50).converged

    def test_outputs_that_are_not_finite_fail(self) -> None:
        assert not diagnose_objective(np.zeros(1000), finite=False).converged


class TestProbes:
    FRAME = pd.DataFrame({"x": np.linspace(-2, 2, 200), "y": np.linspace(-1, 1, 200)})
    RULES = ("if 3 <= x <= 4 then y <= 0", "if -6 <= x <= -5 then y >= 0")

    def test_are_rows_and_points_of_the_regions_half_and_half(self) -> None:
        model = Model.build(frame=self.FRAME, target="y", rules=self.RULES, points=4)
        raw = model.schema.to_raw(probe_inputs(model))[:, 0]
        assert len(raw) == 128
        assert ((raw >= 3) & (raw <= 4)).sum() == 32
        assert ((raw >= -6) & (raw <= -5)).sum() == 32
        rows = raw[np.abs(raw) <= 2]
        assert len(rows) == 64
        assert np.abs(rows[:, None] - self.FRAME["x"].to_numpy()).min(axis=1).max() < 1e-9

    def test_few_rows_are_joined_by_points_between_them(self) -> None:
        model = Model.build(frame=self.FRAME[::40], target="y", rules=self.RULES, points=4)
        raw = model.schema.to_raw(probe_inputs(model))[:, 0]
        assert len(raw) == 128
        assert ((raw > -2.01) & (raw < 2.01)).sum() == 64

    def test_a_prior_alone_is_judged_in_its_regions_and_the_observed_range(self) -> None:
        model = Model.build(frame=self.FRAME, target="y", rules=self.RULES, points=4, prior_only=True)
        assert probe_inputs(model, 10).shape == (10, 1)

    def test_are_the_same_for_the_same_seed(self) -> None:
        model = Model.build(frame=self.FRAME, target="y", rules=self.RULES, points=4)
        np.testing.assert_array_equal(probe_inputs(model, seed=3), probe_inputs(model, seed=3))

    def test_a_model_that_says_nothing_of_inputs_asks_for_probes(self) -> None:
        network = MLP(1, (2,))
        bare = Model(network, Gaussian(1.0), IsotropicGaussian.for_network(network))
        with pytest.raises(InferenceError, match="probes=…"):
            probe_inputs(bare)

    def test_places_are_in_raw_units(self) -> None:
        model = Model.build(frame=self.FRAME, target="y")
        inputs = model.schema.to_model(np.array([[2.125], [-1.0]]))
        place = probe_places(model, inputs, 2)
        assert [place(0), place(1)] == ["x = 2.12", "x = -1"]

    def test_places_of_classes_name_the_class_and_the_labels_of_categories(self) -> None:
        frame = pd.DataFrame(
            {"ward": ["ICU", "ward A"] * 6, "age": range(12), "label": ["red", "green", "blue"] * 4}
        )
        model = Model.build(frame=frame, target="label")
        inputs = model.data.inputs[:2]
        place = probe_places(model, inputs, 6)
        assert place(4) == "ward = ward A, age = 1 for label = green"


class TestRuns:
    FRAME = pd.DataFrame({"x": np.linspace(-2, 2, 9), "y": np.linspace(-1, 1, 9)})

    @pytest.mark.parametrize(
        ("engine", "status"),
        [
            (Hmc(), "converged: worst R-hat 1.0"),
            (Svgd(), "settled: the particles' mean log-density no longer changes"),
            (Bbb(), "settled: the ELBO no longer changes"),
            (Ensemble(), "settled: the objective no longer changes"),
        ],
        ids=lambda each: getattr(each, "name", ""),
    )
    def test_every_engine_is_judged_by_what_it_can_show(self, engine: Engine, status: str) -> None:
        model = Model.build(frame=self.FRAME, target="y", hidden=(2,), noise=0.5)
        chains = 4 if engine.has_chains else 1
        draws = np.random.default_rng(0).normal(size=(chains, 1000 // (5 - chains), model.size))
        draws = draws[:, :40] if chains == 1 else draws
        probes = probe_inputs(model, 8)
        found = diagnose_run(
            model=model,
            engine=engine,
            draws=draws.astype(np.float32),
            values=model_outputs(model, draws, probes),
            probes=probes,
            acceptance=np.full(chains, 0.8),
            divergences=np.zeros(chains, dtype=int),
            trace=np.random.default_rng(1).normal(size=1000),
        )
        assert found.converged
        assert found.status.startswith(status)
        assert (found.discrepancy is not None) == (engine.name == "svgd")

    def test_chains_that_disagree_on_learnt_noise_alone_do_not_converge(self) -> None:
        """Nothing is wrong with the functions here, but every interval rests on the noise."""
        model = Model.build(frame=self.FRAME, target="y", hidden=(2,))
        draws = np.random.default_rng(0).normal(size=(4, 1000, model.size))
        draws[0, :, -1] += 1.0
        probes = probe_inputs(model, 8)
        functions = model_outputs(model, draws.reshape(-1, model.size), probes).reshape(4, 1000, -1)
        values = np.concatenate([functions, hyperparameter_values(model, draws)], axis=2)
        found = self.judged(model, draws, values, probes)
        assert found.status.startswith("not converged: chain 1 of 4 disagrees at log noise")
        agreeing = np.concatenate([functions, draws[1:2, :, -1:].repeat(4, axis=0)], axis=2)
        assert "over 8 probes and log noise" in self.judged(model, draws, agreeing, probes).status

    @staticmethod
    def judged(model: Model, draws: np.ndarray, values: np.ndarray, probes: np.ndarray) -> Diagnostics:
        return diagnose_run(
            model=model,
            engine=Hmc(),
            draws=draws,
            values=values,
            probes=probes,
            acceptance=np.full(4, 0.8),
            divergences=np.zeros(4, dtype=int),
            trace=np.zeros(0),
        )

    def test_learnt_scales_of_layers_are_reported_by_name_and_are_no_part_of_the_verdict(self) -> None:
        network = MLP(1, (2,), 1)
        base = LayerScales((4, 3), 1.0, 4.0)
        model = Model.build(frame=self.FRAME, target="y", network=network, base=base, noise=0.5)
        generator = np.random.default_rng(0)
        draws, values = generator.normal(size=(4, 250, 7)), generator.normal(size=(4, 250, 8))
        draws[0, :, :4] *= 3.0  # one chain has a hidden layer of another scale, and the same functions
        found = self.judged(model, draws, values, np.linspace(-1, 1, 8)[:, None])
        assert found.converged
        assert list(found.rhat_of_scales) == ["hidden layer 1", "output layer"]
        hidden, output = found.rhat_of_scales.values()
        assert hidden > 1.3 > 1.02 > output
        other = Model.build(frame=self.FRAME, target="y", network=network, noise=0.5)
        assert self.judged(other, draws, values, np.linspace(-1, 1, 8)[:, None]).rhat_of_scales == {}

    def test_infer_judges_learnt_noise(self) -> None:
        model = Model.build(frame=self.FRAME, target="y", hidden=(2,))
        w = jnp.arange(float(model.size))
        named = {name: float(value) for name, value in model.hyperparameters(w).items()}
        assert named == {"log noise": float(model.size - 1)}
        result = infer(model, Hmc(warmup=50), chains=2, draws=20, prepare_with=Settings(warm=None), cores=1)
        assert len(result.diagnostics.rhat) == 128 + 1
        assert result.diagnostics.checked.endswith("128 probes and log noise")

    def test_scores_of_particles_are_those_of_all_rows_whatever_the_blocks(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        weighed = np.linspace(0.5, 2.0, 9)
        rules = ["if x > 1 then y >= 0"]
        model = Model.build(
            frame=self.FRAME, target="y", hidden=(2,), noise=0.5, rules=rules, row_weights=weighed
        )
        particles = np.random.default_rng(0).normal(size=(3, model.size))
        with jax.enable_x64(True):
            expected = jax.vmap(jax.grad(model.log_density))(particles)
            for rows in (4, 9, 4096):
                monkeypatch.setattr("ocbnn.inference.diagnostics.SCORED_ROWS", rows)
                np.testing.assert_allclose(scores(model, jnp.asarray(particles)), expected, rtol=1e-9)
