"""The entry point in operation: what it takes, what it gives back, and what it does when things go wrong."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ocbnn.inference import InferenceError, Result, Settings, StrengthSearch, ess, infer
from ocbnn.inference.density import density_of
from ocbnn.inference.engines.base import Info
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.model import Model
from ocbnn.model.networks import MLP, FunctionNetwork
from ocbnn.model.priors import IsotropicGaussian, LayerScales
from ocbnn.progress import Tick
from small_runs import QUICK, SHORT, X, figure_1b

DRAWS = 60


def short(model: Model, name: str, seed: int = 1, **changes: Any) -> Result:
    settings = {"chains": 2, "draws": DRAWS, "seed": seed, "prepare_with": QUICK, "cores": 2, **changes}
    return infer(model, SHORT[name], **settings)


def stopping(after: int) -> Any:
    """A progress function that interrupts, as Ctrl-C does, after so many ticks of drawing or optimising."""
    seen: list[Tick] = []

    def tell(tick: Tick) -> None:
        seen.append(tick)
        if sum(each.phase in ("sample", "optimise") for each in seen) > after:
            raise KeyboardInterrupt

    return tell


@pytest.mark.parametrize("name", ["mclmc", pytest.param("bbb", marks=pytest.mark.slow)])
def test_the_same_seed_gives_the_same_draws_and_another_seed_others(model: Model, name: str) -> None:
    first, again, other = short(model, name), short(model, name), short(model, name, seed=2)
    assert np.array_equal(first.draws, again.draws)
    assert first.rules[0].violation == again.rules[0].violation
    assert not np.array_equal(first.draws, other.draws)


def test_chains_are_float64_and_the_callers_configuration_stays(model: Model) -> None:
    assert not jax.config.jax_enable_x64
    assert short(model, "hmc").draws.dtype == np.float64
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == jnp.float32


def test_engines_of_minibatches_are_float32_where_the_caller_has_float64(model: Model) -> None:
    expected = short(model, "bbb").draws
    with jax.enable_x64(True):
        inside = short(model, "bbb").draws
        assert jnp.ones(1).dtype == jnp.float64
        chains = short(model, "hmc").draws
    assert inside.dtype == np.float32
    assert np.array_equal(inside, expected)
    assert np.array_equal(chains, short(model, "hmc").draws)


def test_a_thread_gets_the_same_draws(model: Model) -> None:
    found: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: found.append(short(model, "hmc").draws))
    thread.start()
    thread.join()
    assert np.array_equal(found[0], short(model, "hmc").draws)


def test_thinning_keeps_every_so_manieth_draw_of_the_same_chains(model: Model) -> None:
    every = short(model, "hmc", draws=100).draws
    thinned = short(model, "hmc", thin=2, draws=50).draws  # 50 steps of warm-up become 100 = one chunk
    assert np.array_equal(thinned[:, : len(every[0]) // 2 - 25], every[:, 51::2])


def test_ticks_have_the_phase_the_rate_and_the_worst_rhat(model: Model) -> None:
    ticks: list[Tick] = []
    short(model, "hmc", draws=200, progress=ticks.append)
    phases = [tick.phase for tick in ticks]
    assert phases == ["warm start", "warm-up", "sample", "sample", "sample", "sample"]
    sampled = ticks[2:]
    assert [tick.done for tick in sampled] == [50, 100, 150, 200]
    assert all(tick.total == 200 for tick in sampled)
    assert all(tick.rate is not None and tick.rate > 0 for tick in sampled)
    assert sampled[-1].remaining == 0.0
    assert ticks[1].worst_rhat is None
    assert all(tick.worst_rhat is not None and tick.worst_rhat >= 0.9 for tick in sampled)
    assert all(tick.acceptance is not None and 0 <= tick.acceptance <= 1 for tick in sampled)


def test_a_bar_says_nothing_where_there_is_no_terminal(model: Model, capfd: pytest.CaptureFixture) -> None:
    short(model, "hmc", progress=True)
    assert capfd.readouterr() == ("", "")


def test_until_ess_stops_when_reached(tmp_path: Path) -> None:
    line = line_model(hidden=())
    result = short(line, "hmc", until=ess(150, most=5000), folder=tmp_path)
    assert 50 <= result.draws.shape[1] < 5000
    assert result.diagnostics.worst_bulk_ess >= 150
    resumed = short(line, "hmc", until=ess(150, most=5000), folder=tmp_path, resume=True)
    assert np.array_equal(resumed.draws, result.draws)
    further = short(line, "hmc", until=ess(300, most=5000), folder=tmp_path, resume=True)
    assert further.diagnostics.worst_bulk_ess >= 300
    assert np.array_equal(further.draws[:, : result.draws.shape[1]], result.draws)


def test_chains_that_disagree_go_on_and_keep_as_many_of_their_latter_half(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # 250 draws of two chains cost 2e9 here: time for two doublings.
    monkeypatch.setattr("ocbnn.inference.run.PATIENCE", 1e10)
    monkeypatch.setattr("ocbnn.inference.run.HOPELESS", 0)
    patient = short(model, "mclmc", draws=None, folder=tmp_path)
    assert not patient.converged
    whole = short(model, "mclmc", draws=1000)
    assert np.array_equal(patient.draws, whole.draws[:, 500::2])
    assert np.array_equal(patient.log_density, whole.log_density[:, 500::2])
    resumed = short(model, "mclmc", draws=None, folder=tmp_path, resume=True)
    assert np.array_equal(patient.draws, resumed.draws)
    monkeypatch.setattr("ocbnn.inference.run.HOPELESS", 1e9)
    stopped = short(model, "mclmc", draws=None, folder=tmp_path, resume=True)
    assert np.array_equal(stopped.draws, whole.draws[:, :250])


def test_until_ess_gives_up_at_most(model: Model) -> None:
    result = short(model, "hmc", until=ess(1e6, most=120))
    assert result.draws.shape == (2, 120, model.size)
    assert result.log_density is not None
    assert result.log_density.shape == (2, 120)
    words = r"; of 1,000,000 effective draws asked for, the 120 draws of each chain allowed gave [\d,]+"
    assert re.search(words, result.status)


def test_divergences_and_acceptance_are_of_the_draws_that_are_kept(model: Model) -> None:
    """A chunk has 50 steps, and 10 were asked for."""
    wild = Hmc(warmup=0, adapt=False, step_size=50.0, trajectory=200.0)
    result = infer(model, wild, chains=2, draws=10, prepare_with=QUICK, cores=2)
    assert result.divergences.tolist() == [10, 10]


def test_an_interrupt_while_rules_are_judged_keeps_the_draws(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    whole = short(model, "hmc")
    monkeypatch.setattr("ocbnn.inference.run.judge", interrupted)
    result = short(model, "hmc")
    assert np.array_equal(result.draws, whole.draws)
    assert not result.complete
    assert result.rules == ()
    assert result.status.startswith("interrupted before the rules were judged; ")


def test_an_interrupt_while_drawing_gives_a_usable_result_that_says_so(model: Model) -> None:
    whole = short(model, "hmc", draws=200)
    result = short(model, "hmc", draws=200, progress=stopping(1))
    assert not result.complete
    assert not result.converged
    assert result.status.startswith("interrupted after 100 draws of each chain; not converged")
    assert np.array_equal(result.draws, whole.draws[:, :100])
    assert "interrupted" in repr(result)


@pytest.mark.parametrize("name", [pytest.param("svgd", marks=pytest.mark.slow), "bbb"])
def test_an_interrupt_while_optimising_gives_the_draws_of_the_state(model: Model, name: str) -> None:
    result = short(model, name, progress=stopping(0))
    assert not result.complete
    assert not result.converged
    assert result.status.startswith("interrupted after 50 of 100 steps; not settled")
    assert np.isfinite(result.draws).all()
    assert not np.array_equal(result.draws, short(model, name).draws)


def test_an_interrupt_in_the_warm_up_goes_on_and_says_what_can_be_resumed(
    model: Model, tmp_path: Path
) -> None:
    def tell(tick: Tick) -> None:
        if tick.phase == "warm-up":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"before the first draw .* give folder=…"):
        short(model, "hmc", progress=tell)
    with pytest.raises(KeyboardInterrupt, match=r"resume=True goes on in .*run"):
        short(model, "hmc", progress=tell, folder=tmp_path / "run")
    resumed = short(model, "hmc", folder=tmp_path / "run", resume=True)
    assert resumed.complete
    assert np.array_equal(resumed.draws, short(model, "hmc").draws)


def test_an_interrupt_while_preparing_goes_on_and_says_so(model: Model) -> None:
    def tell(tick: Tick) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="while preparing"):
        short(model, "hmc", progress=tell)


@dataclass(frozen=True, eq=False)
class Cliff:
    """N(0, 1) inside a ball, and not a number outside of it."""

    inner: IsotropicGaussian
    radius: float

    @property
    def size(self) -> int:
        return self.inner.size

    def log_density(self, w: Any) -> Any:
        return jnp.where(jnp.sum(w * w) < self.radius**2, self.inner.log_density(w), jnp.nan)

    def sample(self, key: Any) -> Any:
        return self.inner.sample(key)


def cliff_network(threshold: float) -> FunctionNetwork:
    """A line through the origin that has no value once its slope passes a threshold."""

    def line(params: Any, x: Any) -> Any:
        return jnp.where(params["slope"] < threshold, params["slope"] * x, jnp.nan)

    return FunctionNetwork.wrap(line, {"slope": jnp.zeros(1)}, outputs=1)


COLD = Settings(warm=None, strength=None)
FAST = Ensemble(steps=100, learning_rate=0.1)


def line_model(**changes: Any) -> Model:
    frame = pd.DataFrame({"x": X, "y": 3.0 * X})
    return Model.build(frame=frame, target="y", noise=0.1, standardize=False, **changes)


def test_a_prior_that_stops_being_finite_is_named() -> None:
    base = Cliff(IsotropicGaussian(1), 2.0)
    model = line_model(network=cliff_network(np.inf), base=base)
    with pytest.raises(InferenceError, match=r"After step 50 .* chain 1 .* the base prior is nan"):
        infer(model, FAST, chains=1, prepare_with=COLD, probes=X[:, None])


def test_a_likelihood_that_stops_being_finite_is_named() -> None:
    with pytest.raises(InferenceError, match="the likelihood is nan"):
        infer(line_model(network=cliff_network(2.0)), FAST, chains=1, prepare_with=COLD, probes=X[:, None])


def test_a_rule_that_stops_being_finite_is_named() -> None:
    rule = "if 0.5 <= x <= 1 then y >= 3"
    model = line_model(network=cliff_network(2.0), rules=[rule], strength=100.0, prior_only=True)
    with pytest.raises(InferenceError, match=r"the rule 'if 0.5 <= x <= 1 then y >= 3' is nan"):
        infer(model, FAST, chains=1, prepare_with=COLD, probes=X[:, None])


def test_a_density_that_is_not_finite_at_the_start_is_refused() -> None:
    with pytest.raises(InferenceError, match=r"at the start of chain 0: the likelihood is nan"):
        infer(line_model(network=cliff_network(-9.0)), FAST, chains=1, prepare_with=COLD)


def test_hmc_never_goes_where_the_density_is_not_finite() -> None:
    model = line_model(network=cliff_network(3.1))
    result = infer(model, Hmc(warmup=50), chains=2, draws=100, prepare_with=COLD, seed=3, probes=X[:, None])
    assert (result.draws < 3.1).all()
    assert result.draws.max() > 3.0
    assert np.isfinite(result.log_density).all()


@pytest.mark.parametrize(
    "name", [name if name in ("hmc", "bbb") else pytest.param(name, marks=pytest.mark.slow) for name in SHORT]
)
def test_every_engine_draws_from_a_prior_with_a_rule_and_no_data(name: str) -> None:
    prior = figure_1b(prior_only=True)
    result = short(prior, name)
    assert result.draws.shape[-1] == prior.size
    assert np.isfinite(result.draws).all()
    assert len(result.rules) == 1
    assert result.engine == name


@pytest.mark.slow
def test_learnt_noise_several_rules_and_searched_strengths_run_together() -> None:
    rules = ["if -0.3 <= x <= 0.3 then 2.5 <= y <= 3", "always y <= 8"]
    search = StrengthSearch(rounds=2, effective=20, most=100)
    result = short(
        figure_1b(noise=None, rules=rules, strength=None),
        "hmc",
        prepare_with=Settings(warm=QUICK.warm, strength=search),
    )
    assert result.draws.shape[-1] == 11
    assert [rule.found_strength for rule in result.rules] == [True, True]
    assert [float(rule.points.strength) for rule in result.model.terms] == [
        rule.strength for rule in result.rules
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hmc", "bbb"])
def test_a_distribution_rule_is_never_searched_for(name: str) -> None:
    search = Settings(warm=QUICK.warm, strength=StrengthSearch(rounds=1))
    result = short(
        figure_1b(rules=["if x > 1 then y ~ Normal(3, 0.5)"], strength=None), name, prepare_with=search
    )
    assert not result.rules[0].found_strength
    assert result.rules[0].strength == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svgd", "hmc"])
def test_classes_are_inferred_with_minibatches_and_without(name: str) -> None:
    random = np.random.default_rng(0)
    a = random.normal(size=40)
    frame = pd.DataFrame({"a": a, "b": random.normal(size=40), "label": np.where(a > 0, "yes", "no")})
    rules = ["if a > 1 then label = yes", "if b > 0 then P(label = yes) >= 0.2"]
    model = Model.build(frame=frame, target="label", rules=rules, hidden=(3,), strength=5.0, points=10)
    result = short(model, name, chains=3, batch=8)
    assert np.isfinite(result.draws).all()
    assert [0 <= rule.violation <= 1 for rule in result.rules] == [True, True]


def test_an_unmet_rule_is_kept_and_labelled_with_the_rows_against_it() -> None:
    rules = ["if 0.5 <= x <= 2.5 then y >= 6"]
    result = short(figure_1b(rules=rules, strength=0.1), "hmc")
    (outcome,) = result.unmet
    assert "conflicts with 3 of the 3 rows in its region:" in outcome.reason
    assert outcome.rows[0] == "x = 1: y = 3"
    assert "rows against it: x = 1: y = 3; x = 1.8: y = " in outcome.explained
    assert "UNMET: 'if 0.5 <= x <= 2.5 then y >= 6'" in result.status
    assert f"UNMET {outcome.name}: {outcome.explained}" in repr(result)


@pytest.mark.slow
def test_an_unmet_rule_of_a_network_that_is_too_small_says_so() -> None:
    rules = ["if -1 <= x <= 1 then y >= 8 * sin(6 * x) + 4 and y <= 8 * sin(6 * x) + 5"]
    model = figure_1b(hidden=(1,), rules=rules, prior_only=True)
    (outcome,) = short(model, "hmc").unmet
    assert "the network is too small" in outcome.reason


@pytest.mark.slow
def test_an_unmet_rule_of_little_given_strength_says_so() -> None:
    (outcome,) = short(figure_1b(strength=1e-3), "hmc").unmet
    assert "at the strength 0.001 that it was given" in outcome.reason


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"chains": 0}, "chains is 0"),
        ({"draws": 0}, "draws is 0"),
        ({"thin": 0}, "thin is 0"),
        ({"batch": -1}, "batch is -1"),
        ({"cores": 0}, "cores is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"draws": 10.5}, "draws is 10.5"),
        ({"until": 2000}, r"until is ess\(…\), such as until=ess\(2000\), not 2000"),
        ({"resume": True}, "needs folder"),
    ],
)
def test_impossible_settings_are_refused(model: Model, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InferenceError, match=words):
        short(model, "hmc", **wrong)


@pytest.mark.parametrize("name", ["svgd", "bbb", "ensemble"])
def test_an_effective_sample_size_is_not_asked_of_an_optimiser(model: Model, name: str) -> None:
    with pytest.raises(InferenceError, match=rf"until=ess\(100\) .* '{name}' optimises.*hmc, nuts, sgld"):
        short(model, name, until=ess(100))


def test_a_seed_of_numpys_is_a_seed_and_can_be_resumed(model: Model, tmp_path: Path) -> None:
    numpys = {"seed": np.int64(3), "draws": np.int64(50), "chains": np.int32(2), "cores": np.int64(2)}
    result = short(model, "hmc", folder=tmp_path, **numpys)
    assert np.array_equal(
        short(model, "hmc", folder=tmp_path, resume=True, seed=3, draws=50).draws, result.draws
    )


@dataclass(frozen=True)
class Counting:
    """An optimiser whose position is the number of its updates, and whose steps see which number they are."""

    name: ClassVar[str] = "counting"
    stochastic: ClassVar[bool] = True
    has_chains: ClassVar[bool] = False
    precision: ClassVar[str] = "float32"
    exact: ClassVar[bool] = False

    steps: int

    @property
    def warmup(self) -> int:
        return self.steps

    def groups(self, chains: int, cores: int) -> tuple[int, ...]:
        return (chains,)

    def init(self, density: Any, key: Any, positions: Any, context: Any) -> Any:
        return jnp.zeros_like(positions)

    def step(self, density: Any, key: Any, state: Any, context: Any) -> tuple[Any, Info]:
        ones = jnp.ones(len(state))
        return state + 1.0, Info(ones, ones, ones < 0, jnp.ones((), jnp.int32))

    def draws(self, key: Any, state: Any, count: int) -> Any:
        return state[None]


@pytest.mark.parametrize("steps", [10, 50, 70])
def test_an_optimiser_makes_exactly_the_updates_that_it_was_told(steps: int, tmp_path: Path) -> None:
    model, ticks = line_model(hidden=()), []
    options = {"chains": 1, "prepare_with": COLD, "thin": 3, "batch": 2, "folder": tmp_path}
    result = infer(model, Counting(steps), progress=ticks.append, **options)
    assert (result.draws == steps).all()
    assert len(result.trace) == steps
    assert (ticks[-1].done, ticks[-1].total) == (steps, steps)
    assert np.array_equal(infer(model, Counting(steps), resume=True, **options).draws, result.draws)


def test_a_model_goes_when_nobody_has_it_any_more() -> None:
    """Neither JAX's tables nor ours keep it, its rows, or what was compiled for it."""
    rules = ["if 0.5 <= x <= 1 then y >= 1"]
    model = line_model(hidden=(), rules=rules, strength=10.0, term="negative-exponential")
    infer(model, SHORT["hmc"], chains=2, draws=10, prepare_with=QUICK, cores=1)
    density = density_of(model)
    kept = [weakref.ref(each) for each in (model, density, density.guide, model.data.inputs)]
    del model, density
    gc.collect()
    assert [each() for each in kept] == [None] * len(kept)


def test_a_target_ess_must_be_positive() -> None:
    with pytest.raises(InferenceError, match="positive"):
        ess(0)


def test_a_model_is_inferred_in_one_precision_and_then_in_another() -> None:
    """JAX keeps the constants of a program as it has first seen them: float32 ones broke runs in float64."""
    model = figure_1b(hidden=(4,), base=LayerScales((8, 5), np.linspace(0.5, 1.0, 13)))
    settings = Settings(warm=None, strength=None)
    infer(model, Bbb(steps=10), draws=10, prepare_with=settings)
    exact = infer(model, Hmc(warmup=10), chains=2, draws=10, prepare_with=settings)
    assert exact.draws.dtype == np.float64


def test_a_model_whose_layers_have_an_order_of_their_own_runs_in_one_precision_after_the_other():
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 12), "y": np.linspace(0, 1, 12)})
    network = MLP(1, (4,), 1)
    base = LayerScales((8, 5), 1.0, 8.0, order=np.arange(13)[::-1])
    model = Model.build(frame=frame, target="y", network=network, base=base, noise=0.3)
    quick = Settings(warm=None, strength=None)
    for engine in (Ensemble(steps=5), Hmc(warmup=5), Ensemble(steps=5)):
        result = infer(model, engine, draws=5, chains=2, prepare_with=quick)
        assert np.isfinite(result.draws).all()
