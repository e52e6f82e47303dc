"""Where particles start: the settings say it, and it holds under a prior that has learnt rules too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from ocbnn.amortize import AmortizedPrior
from ocbnn.errors import InferenceError
from ocbnn.inference import Settings
from ocbnn.inference.engines.svgd import Svgd
from ocbnn.inference.warmstart import starting_positions
from ocbnn.model import Model
from ocbnn.model.priors import DiagonalGaussian
from reproduce.data import toys
from reproduce.plans import plan
from reproduce.runs import drawn

HIDDEN = (20, 20)
BY_SVGD: list[tuple[str, str | tuple[()]]] = [
    ("fig3b", ()),
    ("fig3c", ()),
    ("fig5", "svgd"),
    ("recidivism", ()),
]


@pytest.fixture(scope="module")
def plain() -> Model:
    return Model.build(frame=toys.figure_1(), target="y", hidden=HIDDEN, noise=0.1)


@pytest.fixture(scope="module")
def learnt(plain: Model) -> Model:
    """A prior that has "learnt" to be near 5 in every weight."""
    size, schema = plain.network.size, plain.schema
    assert schema is not None
    prior = AmortizedPrior(
        DiagonalGaussian(np.full(size, 5.0), np.full(size, 0.01)),
        DiagonalGaussian(np.zeros(size), np.ones(size)),
        (),
        schema,
        plain.network,
        plain.likelihood,
        cast("Any", None),
    )
    return Model.build(frame=toys.figure_1(), target="y", base=prior, noise=0.1)


def test_base_is_the_prior_before_rules_were_learnt(plain: Model, learnt: Model) -> None:
    for model in (plain, learnt):
        positions = starting_positions(model, 50, 0, Svgd(), "base")
        # 24,050 independent numbers: their mean is off by 0.006, their spread by 0.005.
        assert abs(positions.mean()) < 0.03
        assert positions.std() == pytest.approx(1.0, abs=0.03)


def test_prior_is_the_learnt_one_where_there_is_one(plain: Model, learnt: Model) -> None:
    assert starting_positions(plain, 50, 0, Svgd(), "prior").std() == pytest.approx(1.0, abs=0.03)
    assert starting_positions(learnt, 50, 0, Svgd(), "prior").mean() == pytest.approx(5.0, abs=0.01)


def test_particles_start_small_or_at_the_learnt_prior_unless_told(plain: Model, learnt: Model) -> None:
    small = starting_positions(plain, 50, 0, Svgd(), "small")
    assert small.std() < 0.5
    assert np.array_equal(starting_positions(plain, 50, 0, Svgd()), small)
    assert np.array_equal(
        starting_positions(learnt, 50, 0, Svgd()), starting_positions(learnt, 50, 0, Svgd(), "prior")
    )


def test_another_start_is_refused() -> None:
    with pytest.raises(InferenceError, match="start is one of small, prior, base"):
        Settings(start=cast("Any", "nowhere"))


@pytest.mark.parametrize(("setting", "start"), [("paper", "prior"), ("reference", "base"), ("ours", None)])
@pytest.mark.parametrize(("name", "part"), BY_SVGD, ids=[name for name, _ in BY_SVGD])
def test_the_settings_say_where_particles_start(
    name: str, part: str | tuple[()], setting: str, start: str | None
) -> None:
    preparation = plan(name, setting, part=part).preparation
    assert preparation.start == start
    assert (preparation.warm is None) == (start is not None)


def test_a_run_starts_where_its_plan_says(learnt: Model) -> None:
    chosen = plan("recidivism", "reference")
    still = replace(chosen, engine=Svgd(steps=1, learning_rate=1e-9, optimizer="sgd"))
    for start, mean in (("base", 0.0), ("prior", 5.0)):
        preparation = replace(chosen.preparation, start=start)
        result = drawn(learnt, replace(still, preparation=preparation), seed=0, chains=50)
        assert result.draws.mean() == pytest.approx(mean, abs=0.03)
