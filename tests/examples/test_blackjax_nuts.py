"""The example that hands a model to BlackJAX runs, and its draws obey far more than its starts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "blackjax_nuts.py"


@pytest.fixture(scope="module")
def example():
    specification = importlib.util.spec_from_file_location("blackjax_nuts", EXAMPLE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_short_chain_obeys_more_than_starts_do(example):
    with jax.enable_x64(True):
        model = example.build()
        draws = example.sample(model, draws=20)
        starts = jax.vmap(model.initial)(jax.random.split(jax.random.key(1), 200))
        obeying, by_chance = (example.share_obeying(model, each) for each in (draws, starts))
    assert draws.shape == (20, model.size)
    assert np.all(np.isfinite(draws))
    assert len(np.unique(draws[:, 0])) == 20
    assert obeying > 0.5 > 5 * by_chance
