"""Relations go through the whole library: strength, check, rejection, conflict, saving, report."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from ocbnn import Model, OCBNNClassifier, OCBNNRegressor, Schema, load
from ocbnn.checking.check import check_rules
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.prepare import Settings
from ocbnn.inference.strength import StrengthSearch
from ocbnn.inference.warmstart import WarmStart
from ocbnn.posterior.allowed import EnforcementError
from ocbnn.posterior.conflict import conflict
from ocbnn.posterior.draws import Posterior, function_draws
from ocbnn.report import gather, write
from ocbnn.report.relations import pictures
from ocbnn.report.sentences import rule_sentence

QUICK = Settings(
    warm=WarmStart(steps=200, searches=1),
    strength=StrengthSearch(rounds=8, effective=60.0, most=100, found=0, ratio=20.0),
)
RULES = {
    "trend": "if z > -1 then y decreases with x",
    "levels": "always y decreases with group",
    "limit": "if z > 0 then y changes by at most 1 per x",
    "contrast": "always y with group = b <= y with group = a - 0.5",
    "invariance": "always y does not depend on x by more than 1",
    "shape": "always y is convex in z and y decreases with x",
    "together": "always y decreases with x and y does not depend on group by more than 0.5",
}


def table() -> pd.DataFrame:
    """Y is 2 x, 1 more in group b, and noise: every rule stands against it."""
    generator = np.random.default_rng(0)
    x, group = generator.uniform(-2.0, 2.0, 40), generator.choice(["a", "b"], 40)
    y = 2.0 * x + (group == "b") + generator.normal(0, 0.3, 40)
    return pd.DataFrame({"x": x, "z": generator.normal(size=40), "group": group, "y": y})


ORDERED = {"group": {"levels": ["a", "b"], "ordered": True}}


def fitted(rules: Any, kind: type = OCBNNRegressor, **options: Any) -> Any:
    frame = table()
    y = frame.pop("y")
    options = {
        "hidden": (),
        "columns": ORDERED,
        "engine": Hmc(warmup=150, max_steps=60),
        "draws": 150,
        **options,
    }
    model = kind(rules=rules, chains=4, preparation=QUICK, random_state=0, cores=1, **options)
    return model.fit(frame, (y > 0).astype(int) if kind is OCBNNClassifier else y)


QUICK_KINDS = ("shape",)
"""A rule about triples and a trend of pairs; the other kinds take the same ways, in the slow tests."""


def kinds() -> list[Any]:
    """Every kind of relation, most of them marked slow."""
    return [pytest.param(name, marks=() if name in QUICK_KINDS else pytest.mark.slow) for name in RULES]


@pytest.fixture(scope="module", params=kinds())
def fit(request: pytest.FixtureRequest) -> OCBNNRegressor:
    """A linear model: what is tried is the way of a rule, not what networks can do."""
    return fitted([RULES[request.param]], OCBNNRegressor)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def without() -> Posterior:
    """The same for every kind: a fit without rules."""
    return fitted(None).posterior_  # type: ignore[no-any-return]


def test_a_strength_is_found_at_which_the_rule_is_kept(fit: OCBNNRegressor, without: Posterior) -> None:
    (outcome,) = fit.outcomes_
    assert outcome.found_strength
    assert outcome.violation < 0.05
    assert check_rules(without, fit.rules_, ascent=False)[0].violation.value > 0.3


def test_the_worst_case_shows_all_inputs_that_are_compared(fit: OCBNNRegressor) -> None:
    found = fit.check_rules(points=50)[0]
    assert set(found.worst_point) == {"x", "z", "group"}
    assert found.worst_others
    columns = fit.rules_[0].requirement.columns()
    assert set().union(*found.worst_others) <= columns
    assert ", against " in str(found)


def test_draws_that_violate_are_rejected_and_so_the_mean_keeps_it(fit: OCBNNRegressor) -> None:
    enforced = fit.enforce("draws", points=200)
    kept = enforced.check_rules(points=200, key=5)[0]
    assert kept.epsilon_mean is not None
    assert kept.epsilon_mean.value < 0.01
    assert kept.points_violating is not None
    assert kept.points_violating.value == 0.0


def test_truncation_says_what_can_enforce_it(fit: OCBNNRegressor) -> None:
    with pytest.raises(EnforcementError, match=r"does not speak of each input alone.*rejecting draws"):
        fit.enforce("truncate")


def test_conflict_says_what_it_changes(fit: OCBNNRegressor, without: Posterior) -> None:
    frame = table()
    (found,) = conflict(fit.posterior_, without, held_out=frame, y=frame["y"], points=50)
    assert found.violation_without.value > found.violation_with.value


def test_it_is_saved_and_comes_back_the_same(fit: OCBNNRegressor, tmp_path: Path) -> None:
    fit.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.rules_ == fit.rules_
    rows = table().drop(columns="y")
    assert np.array_equal(again.predict(rows), fit.predict(rows))
    assert (
        again.check_rules(points=50, ascent=False)[0].violation
        == fit.check_rules(points=50, ascent=False)[0].violation
    )


def test_the_report_shows_it(fit: OCBNNRegressor, without: Posterior, tmp_path: Path) -> None:
    evidence = gather(fit.posterior_, without=without, frame=table(), points=100)
    page = write(evidence, fit.posterior_, tmp_path / "report.html").read_text()
    assert html.escape(fit.rules_[0].requirement.text("y")) in page
    assert " against " in page
    assert "What rules compare" in page
    assert len(pictures(evidence)) == len(fit.rules_[0].requirement.along())


@pytest.mark.slow
def test_a_probability_is_related_too() -> None:
    model = fitted(["always P(y = 1) does not depend on group by more than 0.1"], OCBNNClassifier)
    (outcome,) = model.outcomes_
    assert outcome.violation < 0.05


def test_log_y_is_related_in_units_of_y() -> None:
    frame = table()
    frame["y"] = np.exp(frame["y"])
    rules = ["always y changes by at most 0.5 per x"]
    schema = Schema.infer(frame, target="y", columns={"y": {"transform": "log"}})
    model = Model.build(frame=frame, schema=schema, rules=rules, hidden=(), noise=0.3)
    assert np.isfinite(model.log_density(model.initial(0)))


@pytest.mark.slow
def test_groups_have_equal_shares_above_a_number() -> None:
    """Of group b 8 of 10 rows are above -1, of group a 7."""
    rule = "always share y > -1 is equal over group within 0.06"
    model, before = fitted([rule]), fitted(None)
    (outcome,) = model.outcomes_
    assert outcome.violation < 0.05
    rows = table()

    def apart(draws: np.ndarray) -> np.ndarray:
        above = draws > -1.0
        return np.abs(
            above[:, rows["group"] == "a"].mean(axis=1) - above[:, rows["group"] == "b"].mean(axis=1)
        )

    X = rows.drop(columns="y")
    found, free = (apart(function_draws(each.posterior_, X)) for each in (model, before))
    assert (found > 0.06).mean() == pytest.approx(outcome.violation, abs=1e-6)
    assert (free > 0.06).mean() > 0.5
    (picture,) = pictures(gather(model.posterior_, frame=rows, points=50))
    assert "share of y > −1 in each group" in picture.caption


@pytest.mark.slow
def test_one_of_three_classes_rises_with_a_column_of_a_real_table() -> None:
    wine = load_wine(as_frame=True)
    rule = "always P(target = 2) increases with color_intensity"
    model = OCBNNClassifier([rule], random_state=0).fit(wine.data, wine.target)
    check = model.check_rules()[0]
    assert model.score(wine.data, wine.target) > 0.95
    assert check.verdict == "met"


def test_groups_have_equal_means_over_the_rows_of_the_table() -> None:
    rule = "always mean y is equal over group within 0.2"
    model = fitted([rule])
    (outcome,) = model.outcomes_
    assert outcome.violation < 0.05
    check = model.check_rules()[0]
    assert check.points == len(table())
    rows = table()
    predicted = model.predict(rows.drop(columns="y"))
    means = pd.Series(predicted).groupby(rows["group"]).mean()
    assert abs(means["a"] - means["b"]) < 0.2
    evidence = gather(model.posterior_, frame=table(), points=50)
    (picture,) = pictures(evidence)
    assert "group = a" in picture.caption
    assert "95% interval over draws and rows" in rule_sentence(evidence.rules[0], 600)
    before = fitted(None).predict(rows.drop(columns="y"))
    assert abs(pd.Series(before).groupby(rows["group"]).mean().diff().iloc[-1]) > 0.2
