"""Every random choice of a run has a seed of its own: no two purposes, rounds or users' seeds share one."""

import sys
from collections import defaultdict
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd
import pytest

from ocbnn import seeds
from ocbnn.amortize.learning import Learning
from ocbnn.amortize.prior import AmortizedPrior
from ocbnn.inference import Settings, infer
from ocbnn.inference.engines import mclmc
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.engines.mclmc import Mclmc
from ocbnn.inference.engines.sgld import Sgld
from ocbnn.inference.strength import StrengthSearch
from ocbnn.inference.warmstart import WarmStart
from ocbnn.model import Model
from ocbnn.schema import Schema

SEED_OF_START = 4980467774835738216
FRAME = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 12), "y": np.linspace(-0.5, 0.8, 12)})


def line(hidden: tuple[int, ...] = ()) -> Model:
    return Model.build(frame=FRAME, target="y", rules=["always y <= 0.6"], hidden=hidden, noise=0.3)


def test_draws_of_a_pilot_and_kept_draws_do_not_correlate(monkeypatch):
    pilots = []
    pilot = StrengthSearch._pilot

    def recorded(self, *args, **options):
        found = pilot(self, *args, **options)
        pilots.append(found[0])
        return found

    monkeypatch.setattr(StrengthSearch, "_pilot", recorded)
    settings = Settings(WarmStart(steps=100), StrengthSearch(rounds=1, effective=1e9, most=200))
    kept = infer(
        line(), Hmc(warmup=100, max_steps=40), chains=4, draws=200, seed=0, cores=2, prepare_with=settings
    ).draws
    (first,) = pilots
    for weight in range(2):
        beside = kept[:, : first.shape[1], weight]  # a pilot ends as soon as its verdict is clear
        together = np.corrcoef(first[..., weight].ravel(), beside.ravel())[0, 1]
        assert abs(together) < 4 / np.sqrt(first[..., weight].size)


class Consumed(NamedTuple):
    """What was asked of the one function that derives seeds, and all seeds that generators were given."""

    derived: dict[tuple, int]
    askers: dict[tuple, set]
    given: list


@pytest.fixture
def consumed(monkeypatch):
    record = Consumed({}, defaultdict(set), [])
    derive = seeds.seed_for

    def derived(seed, purpose, *numbers):
        asked, caller = (seed, purpose, *numbers), sys._getframe(1)
        record.derived[asked] = derive(seed, purpose, *numbers)
        record.askers[asked].add((caller.f_code.co_filename, caller.f_lineno))
        return record.derived[asked]

    def recorded(make):
        def made(seed, *args, **options):
            record.given.append(seed)
            return make(seed, *args, **options)

        return made

    for name, module in list(sys.modules.items()):
        if name.startswith("ocbnn.") and hasattr(module, "seed_for"):
            monkeypatch.setattr(module, "seed_for", derived)
    monkeypatch.setattr(jax.random, "key", recorded(jax.random.key))
    monkeypatch.setattr(np.random, "default_rng", recorded(np.random.default_rng))
    return record


def assert_distinct(consumed: Consumed, users_seeds: tuple[int, ...]) -> None:
    derived = list(consumed.derived.values())
    assert len(set(derived)) == len(derived)
    # JAX sees 32 bits of a seed where it computes in single precision.
    assert len({seed % 2**32 for seed in derived}) == len(derived)
    # Two places in the code that ask for the same seed are two purposes of one name.
    assert {asked: places for asked, places in consumed.askers.items() if len(places) > 1} == {}
    # No generator starts from a user's seed itself, or from one with a number beside it.
    numbers = [seed for given in consumed.given for seed in (given if isinstance(given, tuple) else [given])]
    assert not {int(n) for n in numbers if isinstance(n, int | np.integer)} & set(users_seeds)


@pytest.mark.parametrize(
    ("engine", "pilots"),
    [
        (Hmc(warmup=30, max_steps=20), 2),
        (Mclmc(steps=2, warmup=30), 1),
        pytest.param(Sgld(warmup=50), 2, marks=pytest.mark.slow),
    ],
)
def test_all_seeds_that_runs_of_neighbouring_seeds_consume_are_distinct(consumed, engine, pilots):
    settings = Settings(WarmStart(steps=30), StrengthSearch(rounds=3, effective=1.0, most=50))
    users = (1000, 1001)  # constants of the code are smaller
    model = line((3,))
    for seed in users:
        infer(model, engine, chains=2, draws=60, seed=seed, cores=2, prepare_with=settings)
    assert_distinct(consumed, users)
    purposes = {purpose for seed, purpose, *_ in consumed.derived if seed == 1000}
    assert {"start", "found points", "pilot", "pilot check", "steps", "probes", "verdict"} <= purposes
    assert (1000, "pilot", pilots - 1) in consumed.derived


def test_no_two_steps_of_any_chain_or_pilot_of_mclmc_have_the_same_key(monkeypatch):
    """Of the noise of every step, and of the choice of careful draws."""
    seen: list[tuple[int, ...]] = []
    integrator, bernoulli = mclmc.integrators.with_isokinetic_maruyama, jax.random.bernoulli

    def note(key):
        jax.debug.callback(lambda data: seen.append(tuple(np.ravel(data).tolist())), jax.random.key_data(key))

    def noted_integrator(integrate):
        step = integrator(integrate)

        def noted(chain, step_size, length, key):
            note(key)
            return step(chain, step_size, length, key)

        return noted

    def noted_bernoulli(key, *args, **options):
        note(key)
        return bernoulli(key, *args, **options)

    monkeypatch.setattr(mclmc.integrators, "with_isokinetic_maruyama", noted_integrator)
    monkeypatch.setattr(jax.random, "bernoulli", noted_bernoulli)
    settings = Settings(WarmStart(steps=30), StrengthSearch(rounds=1, effective=1.0, most=50))
    engine = Mclmc(steps=2, warmup=40)
    infer(line((3,)), engine, chains=4, draws=50, seed=0, cores=2, prepare_with=settings)
    jax.effects_barrier()
    # Two groups of two chains: pilot and kept run, each at least a chunk of warm-up and one of draws.
    assert len(seen) >= 4 * 50 * (4 * engine.steps + 2)
    assert len(set(seen)) == len(seen)


@pytest.mark.slow
def test_all_seeds_that_learning_a_prior_consumes_are_distinct(consumed):
    schema = Schema.infer(FRAME, target="y")
    learning = Learning(steps=20, starts=2, points=8, samples=4)
    rules = ["always y <= 0.6"]
    AmortizedPrior.learn(rules, schema, hidden=(3,), noise=0.3, learning=learning, seed=1000)
    assert_distinct(consumed, (1000,))


def test_a_derived_seed_is_the_same_in_every_process_and_differs_in_all_it_is_made_of():
    assert seeds.seed_for(0, "start") == SEED_OF_START
    others = [(1, "start"), (0, "state"), (0, "start", 0), (0, "start", 1), (0, "start", 0, 0)]
    assert len({SEED_OF_START, *(seeds.seed_for(*each) for each in others)}) == 1 + len(others)
    assert all(0 <= seeds.seed_for(*each) < 2**63 for each in others)
