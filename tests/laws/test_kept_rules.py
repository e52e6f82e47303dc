"""A rule that is kept anyway changes nothing, inside its region and outside of it (law 1).

Where every draw without the rule keeps it by three thicknesses of the wall, the rule's log-density is exactly 0 at
all of them: multiplying a density by one changes no posterior. The slow tests show the same of whole fits.
"""  # noqa: E501

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jaxtyping import Array

from law_fits import Answers, answers, difference, unseen
from ocbnn import OCBNNClassifier, OCBNNRegressor
from ocbnn.model.conditional import Scoring, rule_terms
from ocbnn.posterior.draws import Posterior
from ocbnn.rules.parse import parse_rule
from small_estimators import small_classifier, small_regressor

FITS = 8


def pressures() -> tuple[pd.DataFrame, pd.Series]:
    """The table of the review: 90 + 0.5·age − 4·dose, noise 3."""
    generator = np.random.default_rng(0)
    age, dose = generator.uniform(20, 80, 200), generator.uniform(0, 7, 200)
    y = 90 + 0.5 * age - 4 * dose + generator.normal(0, 3, 200)
    return pd.DataFrame({"age": age, "dose": dose}), pd.Series(y, name="pressure")


def gap() -> tuple[pd.DataFrame, pd.Series]:
    """Figure 1's kind of table: a curve of one column with a gap around 0."""
    generator = np.random.default_rng(3)
    x = np.concatenate([generator.uniform(-2, -0.7, 20), generator.uniform(0.7, 2, 20)])
    return pd.DataFrame({"x": x}), pd.Series(np.sin(2 * x) + generator.normal(0, 0.1, 40), name="y")


def outcomes() -> tuple[pd.DataFrame, pd.Series]:
    """Two classes; the second is all but certain where a > 1."""
    generator = np.random.default_rng(1)
    a, b = generator.uniform(-2, 2, 200), generator.normal(size=200)
    y = (generator.random(200) < 1 / (1 + np.exp(-5 * a))).astype(int)
    return pd.DataFrame({"a": a, "b": b}), pd.Series(y, name="y")


def colours() -> tuple[pd.DataFrame, pd.Series]:
    """Three classes; amber is all but certain where a < -1, red where a > 1."""
    frame, _ = outcomes()
    logits = np.column_stack([-6 * frame["a"], 0 * frame["a"], 6 * frame["a"]])
    chosen = (logits + np.random.default_rng(2).gumbel(size=logits.shape)).argmax(axis=1)
    return frame, pd.Series(np.array(["amber", "blue", "red"])[chosen], name="colour")


PRESSURE_PROBES = pd.DataFrame(
    [(age, dose) for age in (30.0, 75.0) for dose in (1.0, 5.0, 5.99, 6.01, 6.9)], columns=["age", "dose"]
)
GAP_PROBES = pd.DataFrame({"x": [-1.9, -1.2, -0.8, -0.3, 0.0, 0.3, 0.8, 1.2, 1.9]})
CLASS_PROBES = pd.DataFrame(
    [(a, b) for a in (-1.8, -1.0, 0.0, 0.9, 1.4, 1.9) for b in (-1.0, 1.0)], columns=["a", "b"]
)

CASES = {
    "the bound of the review": (pressures, PRESSURE_PROBES, "if dose > 6 then pressure >= 60"),
    "a bound that the data keep": (pressures, PRESSURE_PROBES, "if dose > 6 then pressure >= 20"),
    "a bound out of sight": (pressures, PRESSURE_PROBES, "if dose > 6 then pressure >= -100000"),
    "wide bounds in a gap": (gap, GAP_PROBES, "if -0.3 <= x <= 0.3 then -1000 <= y <= 1000"),
    "a certain class": (outcomes, CLASS_PROBES, "if a > 1.5 and -1 < b < 1 then y = 1"),
    "a certain colour of three": (colours, CLASS_PROBES, "if a > 1.5 and -1 < b < 1 then colour != amber"),
}


def scored(posterior: Posterior, text: str, holds: str) -> tuple[float, float]:
    """The largest margin of a rule, in thicknesses of its wall, and the least log-density, over all draws."""
    model = posterior.model
    rule = parse_rule(text, model.schema, holds=holds)
    with jax.enable_x64(True):
        (term,) = rule_terms([rule], model.schema, Scoring(), bounded=True)

        def one(w: Array) -> tuple[Array, Array]:
            values = model.function(w, term.points.inputs)
            return rule.requirement.margin(term.points.demand, values), term.log_density(values, term.points)

        margins, scores = map(np.asarray, jax.lax.map(one, jnp.asarray(posterior.flat, float)))
    thickness = term.term.scale / np.sqrt(float(term.points.strength))
    return float(np.max(margins)) / thickness, float(np.min(scores))


@pytest.mark.parametrize("holds", ["on average", "everywhere"])
@pytest.mark.parametrize("case", CASES)
def test_the_rule_adds_exactly_nothing_where_every_draw_keeps_it(case, holds):
    table, _, text = CASES[case]
    X, y = table()
    make = small_classifier if y.dtype.kind != "f" else small_regressor
    margin, score = scored(make(chains=8).fit(X, y).posterior_, text, holds)
    assert margin < -3.0  # the rows keep the rule by themselves
    assert score == 0.0


@cache
def fitted(case: str, ruled: bool) -> tuple[Answers, tuple[float, ...]]:
    """Answers of whole fits, and of those without the rule the largest margins in thicknesses."""
    table, probes, rule = CASES[case]
    X, y = table()
    estimator = OCBNNClassifier if y.dtype.kind != "f" else OCBNNRegressor
    margins: list[float] = []

    class Watched(estimator):  # type: ignore[valid-type, misc]
        def fit(self, X, y, **run):
            super().fit(X, y, **run)
            if not ruled:
                margins.append(scored(self.posterior_, rule, "on average")[0])
            return self

    seeds = range(100 * ruled, 100 * ruled + FITS)
    made = answers(
        lambda seed: Watched(rules=[rule] if ruled else [], random_state=seed), X, y, probes, seeds
    )
    return made, tuple(margins)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rules_that_are_kept_anyway_change_nothing(case):
    (without, margins), (ruled, _) = fitted(case, False), fitted(case, True)
    assert len(margins) == FITS
    assert max(margins) < -3.0  # the premise, of the very fits that are compared
    found = difference(without, ruled)
    print(case, found, max(margins))
    assert found.precise, str(found)
    assert found.none, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_planted_defect_at_any_probe_is_seen_in_mean_and_band(case):
    assert unseen(fitted(case, False)[0], fitted(case, True)[0]) == []
