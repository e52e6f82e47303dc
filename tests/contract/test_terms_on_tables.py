"""Every term with every sampler on a table of eight mixed columns, under two rules whose regions overlap."""

from __future__ import annotations

from functools import cache

import jax
import numpy as np
import pandas as pd
import pytest

from ocbnn.model import Model
from ocbnn.model.terms import TERMS
from ocbnn.regions import SAMPLERS
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema

POINTS = 12
RULES: dict[str, tuple[str, str, str]] = {
    "distance": ("dose", "dose >= 1", "1.5 <= dose <= 2 + 0.001 * age"),
    "negative-exponential": ("dose", "dose >= 1", "not 2 <= dose <= 2.5"),
    "gaussian-mixture": ("dose", "dose = 1 + 0.01 * age within 0.2", "dose = 2 (0.7) or dose = 3 (0.3)"),
    "output-density": ("dose", "dose ~ Normal(2, 0.5)", "dose ~ Normal(1 + 0.01 * age, 0.3)"),
    "dirichlet": ("outcome", "outcome = well", "not outcome = dead"),
    "target-probability": (
        "outcome",
        "P(outcome = dead) = 0.01 * age",
        "outcome ~ Categorical(well: 0.5, ill: 0.3, dead: 0.2)",
    ),
}


@cache
def table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    n = 60
    return pd.DataFrame(
        {
            "age": generator.integers(18, 90, n),
            "lactate": generator.gamma(2.0, 1.0, n),
            "pressure": generator.normal(75.0, 12.0, n),
            "visits": generator.poisson(3, n),
            "smoker": generator.integers(0, 2, n),
            "diabetic": generator.integers(0, 2, n).astype(bool),
            "ward": generator.choice(["ICU", "surgery", "general"], n),
            "region": generator.choice(["north", "south"], n),
            "dose": generator.normal(2.0, 0.7, n),
            "outcome": generator.choice(["well", "ill", "dead"], n),
        }
    )


def conditional(term, sampler):
    target, first, second = RULES[term]
    frame = table().drop(columns="outcome" if target == "dose" else "dose")
    schema = Schema.infer(frame, target=target)
    rules = [
        parse_rule(f"if age > 40 and ward = ICU and smoker = 1 then {first}", schema),
        parse_rule(f"if age <= 70 and ward in {{ICU, general}} and lactate > 1 then {second}", schema),
    ]
    return Model.build(
        frame=frame,
        schema=schema,
        rules=rules,
        term=term,
        sampler=sampler,
        points=POINTS,
        hidden=(3,),
        noise=None if target == "outcome" else 1.0,
    )


@cache
def compiled(term):
    return jax.jit(jax.value_and_grad(conditional(term, None).log_prior))


def test_every_term_has_rules_here():
    assert set(RULES) == set(TERMS)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("term", TERMS)
def test_the_log_prior_and_its_gradient_are_finite(term, sampler):
    prior = conditional(term, sampler)
    w = np.random.default_rng(1).normal(size=prior.size)
    for rule in prior.terms:
        assert rule.points.coded.shape == (POINTS, 8)
        assert np.all(rule.rule.region.contains(rule.points.coded, rule.schema))
    with jax.enable_x64(True):
        value, gradient = (np.asarray(part) for part in compiled(term)(w, prior.points))
    assert np.isfinite(value)
    assert np.all(np.isfinite(gradient))
    assert np.any(np.abs(gradient + w) > 1e-12)  # −w is the gradient of the base prior alone
