"""Rules that are to hold everywhere: points come before strength, and their number is bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ocbnn.inference import Settings, StrengthSearch, WarmStart, infer
from ocbnn.inference import everywhere as module
from ocbnn.inference.density import Prepared
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.engines.mclmc import Mclmc
from ocbnn.inference.loop import RunOptions
from ocbnn.inference.prepare import prepare
from ocbnn.inference.warmstart import found_points
from ocbnn.model import Model
from ocbnn.model.outputs import precision
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema

MOST = 12


def model_of(rule: str, **options: Any) -> Model:
    """Rows rise along three columns, up to 2 where a is large."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.uniform(-1, 1, (40, 3)), columns=list("abc"))
    frame["y"] = frame.sum(axis=1)
    schema = Schema.infer(frame, target="y")
    parsed = parse_rule(rule, schema, tolerance=0.05, holds="everywhere")
    return Model.build(
        frame=frame, schema=schema, rules=[parsed], hidden=(4,), noise=0.3, points=5, **options
    )


def prepared_of(model: Model, engine: Any = None, bursts: int = 9) -> Prepared:
    engine = engine or Mclmc(steps=10, warmup=50)
    settings = Settings(
        warm=WarmStart(steps=200, searches=0), strength=StrengthSearch(bursts=bursts, most_everywhere=MOST)
    )
    run = RunOptions(engine, engine.precision, 2 if engine.has_chains else 1, 0, cores=1)
    with precision(engine.precision):
        return prepare(model, run, settings, None, lambda tick: None)


@pytest.fixture(scope="module")
def against() -> Prepared:
    """A rule that a fifth of the rows contradict."""
    return prepared_of(model_of("if a > 0.5 then y <= 0.5"))


def test_points_where_chains_violate_the_rule_join_it_up_to_a_number(against: Prepared) -> None:
    (term,) = against.model.terms
    found = found_points(term)
    assert 0 < len(found) <= MOST
    assert term.rule.region.contains(found, term.schema).all()
    np.testing.assert_allclose(np.asarray(term.points.weights).sum(), 1.0)
    assert against.context.points[0].coded is term.points.coded


def test_found_points_are_no_near_doubles(against: Prepared) -> None:
    found = found_points(against.model.terms[0])
    apart = np.abs(found[:, None] - found[None]).max(axis=2) + 9.0 * np.eye(len(found))
    assert apart.min() > 0.01


def test_the_strength_found_is_moderate_and_said_to_be_searched(against: Prepared) -> None:
    (strength,) = against.strengths.values
    assert 1000.0 <= strength <= module.HIGHEST * 1000.0
    assert against.strengths.searched.all()
    assert float(against.model.terms[0].points.strength) == strength


def test_a_rule_that_is_kept_anyway_gets_neither_points_nor_strength() -> None:
    prepared = prepared_of(model_of("always y <= 50"))
    assert len(found_points(prepared.model.terms[0])) == 0
    np.testing.assert_array_equal(prepared.strengths.values, [1000.0])


def test_a_strength_that_was_given_stays_and_points_are_found_all_the_same() -> None:
    prepared = prepared_of(model_of("if a > 0.5 then y <= 0.5", strength=7.0))
    np.testing.assert_array_equal(prepared.strengths.values, [7.0])
    assert not prepared.strengths.searched.any()
    assert len(found_points(prepared.model.terms[0])) > 0


def test_strength_waits_for_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws violate the rule at new points alone, so that strength would not help."""
    calls = []

    def searched(model: Model, term: Any, draws: Any, *rest: Any) -> tuple[np.ndarray, float, float]:
        calls.append(float(term.points.strength))
        return np.array([[0.9, 0.0, 0.0]]), 0.0, 1.0

    monkeypatch.setattr(module, "_searched", searched)
    prepared = prepared_of(model_of("if a > 0.5 then y <= 0.5"), bursts=5)
    assert calls == [1000.0] * 5
    np.testing.assert_array_equal(prepared.strengths.values, [1000.0])


def test_an_engine_that_optimises_is_given_points_between_short_runs() -> None:
    model = model_of("if a > 0.5 then y <= 0.5")
    prepared = prepared_of(model, Bbb(steps=300), bursts=3)
    assert 0 < len(found_points(prepared.model.terms[0])) <= MOST
    assert prepared.tunings == ()


@pytest.mark.slow
def test_mean_field_keeps_a_rule_in_the_worst_case_found() -> None:
    """Points between short runs; the last run is on those alone."""
    model = model_of("if a > 0.5 then y <= 0.5")
    (outcome,) = infer(model, "bbb", seed=0).rules
    assert outcome.check.asked == "worst case found"
    assert outcome.check.worst.value <= outcome.tolerance
