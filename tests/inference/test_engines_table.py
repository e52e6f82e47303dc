"""The table of engines: which one a name, a model's size or a mistake gets."""

from __future__ import annotations

import numpy as np
import pytest

from ocbnn.errors import InferenceError, OCBNNWarning
from ocbnn.inference import Settings, engines, ess, infer
from ocbnn.inference.engines import CHAINS, ENGINES, choose, default_chains, default_draws
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.engines.mclmc import Mclmc
from ocbnn.model import Data, Model
from ocbnn.model.likelihoods import Gaussian
from ocbnn.model.networks import MLP
from ocbnn.model.priors import IsotropicGaussian


def sized(rows: int, hidden: tuple[int, ...]) -> Model:
    network = MLP(8, hidden)
    data = Data(np.zeros((rows, 8)), np.zeros(rows)) if rows else None
    return Model(network, Gaussian(0.1), IsotropicGaussian(network.size), data=data)


def test_auto_takes_chains_for_a_small_model_and_says_why() -> None:
    engine, why = choose("auto", sized(100, (10,)))
    assert engine == Mclmc()
    assert why.startswith("mclmc: 100 rows and 101 weights are few enough")
    assert default_draws(engine) == 250


def test_auto_takes_exact_chains_where_draws_are_asked_for_until_there_are_enough() -> None:
    engine, why = choose("auto", sized(100, (10,)), along=True)
    assert engine == Hmc()
    assert why.startswith("hmc: 100 rows and 101 weights are few enough")


@pytest.mark.parametrize(("rows", "hidden"), [(405_000, (10,)), (100, (150, 150))])
def test_auto_takes_minibatches_for_many_rows_or_weights_and_says_why(
    rows: int, hidden: tuple[int, ...]
) -> None:
    engine, why = choose("auto", sized(rows, hidden))
    assert engine.name == "bbb"
    assert f"{rows} rows" in why


def test_auto_takes_chains_of_minibatches_where_draws_are_asked_for_until_there_are_enough() -> None:
    engine, why = choose("auto", sized(405_000, (10,)), along=True)
    assert engine.has_chains
    assert why.startswith("sgld: 405000 rows × 101 weights are too much for chains that see all rows")


def test_a_prior_alone_counts_no_rows() -> None:
    assert choose("auto", sized(0, (10,)))[1].startswith("mclmc: 0 rows")


def test_an_engine_with_settings_is_taken_as_it_is() -> None:
    engine = Hmc(warmup=7)
    assert choose(engine, sized(0, (3,))) == (engine, "given")


def test_a_misspelt_name_is_refused_with_the_close_one() -> None:
    with pytest.raises(InferenceError, match=r"no engine 'hcm'; choose one of hmc, .* Did you mean 'hmc'\?"):
        choose("hcm", sized(0, (3,)))


def test_a_class_in_place_of_an_engine_is_refused() -> None:
    with pytest.raises(InferenceError, match=r"give one with its settings: Hmc\(\)"):
        choose(Hmc, sized(0, (3,)))  # type: ignore[arg-type]


def test_every_engine_has_a_number_of_members() -> None:
    assert set(CHAINS) == set(ENGINES)
    assert all(default_chains(ENGINES[name]()) == count for name, count in CHAINS.items())


def test_approximate_chains_are_not_taken_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "MOST_WORK", 0)
    settings = Settings(warm=None)
    probes = np.zeros((1, 8))
    with pytest.warns(OCBNNWarning, match="sgld: 20 rows .* approximate. Give engine= to choose yourself"):
        infer(sized(20, ()), until=ess(1.0, most=50), chains=1, cores=1, prepare_with=settings, probes=probes)


def test_only_exact_engines_say_that_they_are() -> None:
    assert {name for name, engine in ENGINES.items() if engine.exact} == {"hmc", "nuts"}
