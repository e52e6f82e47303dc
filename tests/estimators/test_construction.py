"""Rules that hold by construction, from estimators: fits, checks, proofs, twins, saved folders."""

from __future__ import annotations

import numpy as np
import pytest

import ocbnn
from ocbnn.checking.check import check_rules
from ocbnn.errors import FileError, ModelError
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.inference.engines.mclmc import Mclmc
from ocbnn.proof import verify_proof
from ocbnn.storage.documents import json_bytes
from small_estimators import blood_pressures, small_classifier, small_regressor

RISES, FALLS = "always pressure increases with age", "always pressure decreases with dose"
BY_PRIOR = "if age > 60 then pressure >= 60"


@pytest.fixture(scope="module")
def table():
    return blood_pressures()


@pytest.fixture(scope="module")
def fitted(table):
    return small_regressor(activation="tanh", rules=[RISES, FALLS, BY_PRIOR]).fit(*table)


def along(model, frame, column, values):
    """What every draw says at the first rows with these values of a column, (draws, rows, values)."""
    rows = frame.iloc[np.repeat(np.arange(10), len(values))].reset_index(drop=True)
    rows[column] = np.tile(values, 10)
    found = model.sample_function(rows)
    return found.reshape(len(found), 10, len(values), *found.shape[2:])


def test_every_draw_obeys_everywhere_and_the_outcome_says_why(fitted, table):
    assert (np.diff(along(fitted, table[0], "age", np.linspace(-50, 200, 40))) >= 0).all()
    assert (np.diff(along(fitted, table[0], "dose", np.linspace(-5, 500, 40))) <= 0).all()
    outcomes = {outcome.name: outcome for outcome in fitted.outcomes_}
    assert [outcomes[each].by_construction for each in (RISES, FALLS, BY_PRIOR)] == [True, True, False]
    assert outcomes[RISES].met
    assert np.isnan(outcomes[RISES].strength)
    known = {each["text"]: each for each in fitted.posterior_.provenance["rules"]}
    assert known[RISES]["by_construction"]
    assert known[RISES]["strength"] is None
    assert not known[BY_PRIOR]["by_construction"]


def test_a_check_is_certain_of_what_holds_by_construction(fitted):
    checks = fitted.check_rules(points=50)
    check = checks[RISES]
    assert check.verdict == "met"
    assert check.by_construction
    assert set(check.levels.values()) == {"met"}
    for figure in (check.violation, check.draws_violating, check.draws_unproved, check.worst):
        assert (figure.value, figure.low, figure.high) == (0.0, 0.0, 0.0)
    assert "met, holds by construction" in str(check)
    assert not checks[BY_PRIOR].by_construction
    # The weights decide, not who asks: the same rule in words is certain, another direction is not.
    asked = check_rules(fitted.posterior_, [RISES, "always pressure decreases with age"], points=50)
    assert [each.by_construction for each in asked] == [True, False]
    assert asked[1].verdict != "met"


def test_proofs_take_no_boxes_and_are_verified_by_the_signs(fitted, tmp_path):
    proofs = fitted.prove(boxes=50, seconds=30)
    for name in (RISES, FALLS):
        proof = proofs[name]
        assert (proof.counts["proved"], proof.boxes) == (len(fitted.posterior_.flat), 0)
        assert "by construction" in proof.over
        assert verify_proof(fitted.posterior_, proof).holds
    fitted.save(tmp_path / "model")
    loaded = ocbnn.load(tmp_path / "model")
    assert verify_proof(loaded.posterior_, loaded.proof_[RISES]).holds


def test_a_saved_model_comes_back_with_its_form(fitted, table, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = ocbnn.load(tmp_path / "model")
    assert loaded.posterior_.model.network == fitted.posterior_.model.network
    assert loaded.rules_ == fitted.rules_
    assert [term.rule for term in loaded.posterior_.model.formed] == [
        term.rule for term in fitted.posterior_.model.formed
    ]
    np.testing.assert_array_equal(loaded.predict(table[0]), fitted.predict(table[0]))
    assert loaded.check_rules(points=50)[FALLS].by_construction


def test_a_folder_that_claims_a_form_its_network_does_not_have_is_refused(fitted):
    from ocbnn.posterior.folder import KIND, MODEL, pack_posterior, unpack_posterior
    from ocbnn.storage.folders import Folder

    files = pack_posterior(fitted.posterior_)
    stored = Folder.in_memory(KIND, files).json(MODEL)
    for changed in ({"formed": 3}, {"formed": 9}, {"network": {**stored["network"], "signs": []}}):
        with pytest.raises(FileError, match="keeps by its form"):
            unpack_posterior(Folder.in_memory(KIND, {**files, MODEL: json_bytes({**stored, **changed})}))


def test_twins_without_a_rule_are_free_along_its_column(fitted):
    model = fitted.posterior_.model
    without = fitted.without_rules().model
    assert not without.network.signs
    assert not without.rules
    rising, falling = model.formed
    one = fitted._twin((*model.terms, falling)).model
    assert [term.rule.text(fitted.schema_) for term in one.formed] == [FALLS]
    assert one.network.signs == tuple(-1 if place == 1 else 0 for place in range(4))
    assert one.terms[0].rule == model.terms[0].rule
    assert rising not in one.rules
    names = [each.name for each in fitted.conflict(points=20)]
    assert sorted(names) == sorted([RISES, FALLS, BY_PRIOR])


def test_by_prior_is_the_papers_way(table):
    from ocbnn.rules import parse_rule

    rule = parse_rule(RISES, small_regressor().fit(*table).schema_, by="prior")
    model = small_regressor(activation="tanh", rules=rule).fit(*table)
    assert not model.posterior_.model.network.signs
    assert not model.outcomes_[0].by_construction
    assert [term.rule for term in model.posterior_.model.terms] == [rule]


def test_a_turning_activation_goes_by_the_prior_unless_construction_is_asked_for(table, tmp_path):
    model = small_regressor(activation="rbf", rules=RISES).fit(*table)
    assert [term.rule.text(model.schema_) for term in model.posterior_.model.terms] == [RISES]
    path = tmp_path / "rules.yaml"
    path.write_text(f"- {{rule: {RISES}, by: construction}}\n")
    with pytest.raises(ModelError, match="needs an activation that is increasing"):
        small_regressor(activation="rbf", rules=path).fit(*table)


def test_a_probability_falls_in_every_draw_of_a_classifier(table):
    frame, y = table
    high = (y > y.median()).map({True: "high", False: "low"}).rename("pressure")
    rules = ["always P(pressure = high) increases with age", "always P(pressure = low) increases with dose"]
    model = small_classifier(activation="tanh", rules=rules).fit(frame, high)
    assert all(outcome.by_construction for outcome in model.outcomes_)
    low = list(model.classes_).index("low")
    assert (np.diff(along(model, frame, "age", np.linspace(0, 120, 30))[..., low]) <= 0).all()
    assert (np.diff(along(model, frame, "dose", np.linspace(0, 90, 30))[..., low]) >= 0).all()


def test_noise_that_varies_may_turn_where_the_mean_may_not():
    frame, y = blood_pressures(300)
    spread = np.where(np.abs(frame["age"] - 55) < 12, 1.0, 60.0)
    y = (y + spread * np.random.default_rng(0).normal(size=len(y))).rename("pressure")
    engine = Ensemble(steps=2000, learning_rate=0.03)
    model = small_regressor(
        activation="tanh", noise="varying", rules=RISES, engine=engine, hidden=(8,), batch=300
    ).fit(frame, y)
    ages = np.linspace(20, 90, 31)
    assert (np.diff(along(model, frame, "age", ages)) >= 0).all()
    rows = frame.iloc[np.zeros(31, dtype=int)].reset_index(drop=True).assign(age=ages)
    noise = model.posterior_.noise(model.schema_.encode(rows)).mean(axis=0)
    assert noise[15] < 0.7 * noise[3]
    assert noise[15] < 0.7 * noise[27]


def test_a_column_with_missing_values_is_monotone_among_those_that_are_known(table):
    frame, y = table
    frame = frame.assign(age=frame["age"].where(frame.index % 7 > 0))
    model = small_regressor(activation="tanh", rules=RISES, missing="indicator").fit(frame, y)
    assert model.outcomes_[0].by_construction
    assert (np.diff(along(model, frame, "age", np.linspace(0, 120, 30))) >= 0).all()
    assert np.isfinite(model.predict(frame)).all()


def test_chains_of_an_exact_engine_keep_the_form(table):
    model = small_regressor(
        activation="tanh", rules=[RISES, FALLS], engine=Mclmc(warmup=100), draws=50, batch=None
    ).fit(*table)
    assert all(outcome.by_construction for outcome in model.outcomes_)
    assert (np.diff(along(model, table[0], "age", np.linspace(0, 120, 30))) >= 0).all()
