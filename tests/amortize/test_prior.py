"""A learnt prior in use: in models, posteriors, estimators and files; refused where it does not belong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ocbnn
from amortized_cases import FRAME, LINE, SIGN_RULE
from ocbnn.amortize import AmortizedPrior
from ocbnn.amortize.prior import pack_amortized
from ocbnn.checking.check import check_rules
from ocbnn.errors import FileError, ModelError
from ocbnn.inference.run import infer
from ocbnn.model import Model
from ocbnn.model.networks import MLP
from ocbnn.model.priors import LearntPrior, Prior
from ocbnn.posterior import Posterior
from ocbnn.posterior import folder as files
from ocbnn.posterior.enforce import reject, truncate
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema
from small_estimators import UNPREPARED, small_classifier, small_regressor
from small_runs import SHORT

FURTHER = "if x > 2.2 then y <= 5"


@pytest.fixture(scope="module")
def posterior(sign_prior) -> Posterior:
    """Draws of a model with the learnt prior and a further rule; of the prior, to need no engine."""
    model = Model.build(frame=FRAME, target="y", base=sign_prior, rules=[FURTHER], noise=0.1, strength=10.0)
    return Posterior(sign_prior.draws(400).reshape(2, 200, -1), model, {"chains": False})


def test_it_is_a_prior_like_any_other(sign_prior):
    assert isinstance(sign_prior, Prior)
    assert isinstance(sign_prior, LearntPrior)
    assert ocbnn.AmortizedPrior is AmortizedPrior
    mean = sign_prior.gaussian.mean
    model = Model.build(frame=FRAME, target="y", base=sign_prior, noise=0.1)
    assert float(model.log_prior(mean)) == pytest.approx(float(sign_prior.log_density(mean)))
    assert model.network is sign_prior.network
    assert model.schema is sign_prior.schema


def test_further_rules_become_terms_and_none_is_dropped(posterior, sign_prior):
    (term,) = posterior.model.terms
    assert term.rule.text(LINE) == FURTHER
    assert [each.rule.name for each in posterior.rules] == [None, "sign"]
    w = sign_prior.gaussian.mean
    model = posterior.model
    added = model.log_prior(w) - model.base.log_density(w)
    assert float(added) == pytest.approx(float(model.rule_log_densities(w)[0]), abs=1e-4)


def test_a_rule_that_is_both_learnt_and_a_term_is_one_rule(sign_prior):
    model = Model.build(frame=FRAME, target="y", base=sign_prior, rules=sign_prior.rules, noise=0.1)
    draws = sign_prior.draws(4)[None]
    assert len(Posterior(draws, model).rules) == 1


def test_checks_and_enforcement_speak_of_learnt_rules(posterior):
    report = check_rules(posterior, points=200, ascent=False)
    finding = posterior.model.base.findings.rules[0]
    assert report["sign"].epsilon_mean.value == pytest.approx(finding.check.violation.value, abs=0.02)
    rejection = reject(posterior, points=50, ascent=False)
    assert set(rejection.by_rule) == {FURTHER, "sign"}
    assert 0.0 < rejection.by_rule["sign"] < 1.0
    x = pd.DataFrame({"x": [-2.0, 2.0]})
    point = truncate(posterior).predict(x, levels=(0.01, 0.99), coverage=None)
    assert (np.sign(point.observation.quantiles) == [[-1, -1], [1, 1]]).all()


def test_a_run_judges_learnt_rules(sign_prior):
    against = pd.DataFrame({"x": [-2.0, -1.0, 1.0, 2.0], "y": [3.0, 3.0, -3.0, -3.0]})
    model = Model.build(frame=against, target="y", base=sign_prior, noise=0.05)
    result = infer(model, SHORT["ensemble"], chains=4, draws=4, prepare_with=UNPREPARED, cores=1)
    (outcome,) = result.rules
    assert outcome.learnt
    assert not outcome.met
    assert "conflicts with 4 of the 4 rows" in outcome.reason
    assert "sign" in result.status
    assert Posterior.from_result(result).provenance["rules"][0]["learnt"]


def test_variational_inference_starts_from_the_learnt_prior(sign_prior):
    model = Model.build(schema=LINE, base=sign_prior, noise=0.1)
    result = infer(model, SHORT["bbb"], draws=500, prepare_with=UNPREPARED, cores=1)
    # Without data the posterior is the prior, and q can be it exactly.
    spread = sign_prior.gaussian.sd
    np.testing.assert_allclose(
        (result.draws[0].mean(axis=0) - sign_prior.gaussian.mean) / spread, 0.0, atol=3.0
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"network": MLP(1, (5,), 1, "rbf")}, "learnt for MLP"),
        ({"network": MLP(1, (4,), 1, "tanh")}, "learnt for MLP"),
        ({"schema": Schema.infer(FRAME, target="y")}, "schema=prior.schema"),
    ],
)
def test_another_network_or_table_is_refused(sign_prior, change, said):
    with pytest.raises(ModelError, match=said):
        Model.build(frame=FRAME, target="y", base=sign_prior, **change)


def test_ranges_and_bounds_may_differ_but_units_may_not(sign_prior):
    column = LINE.columns[0]
    wider = replace(LINE, columns=(replace(column, observed=(-9.0, 9.0), bounds=(-10.0, 10.0)),))
    sign_prior.check(sign_prior.network, wider)
    scaled = replace(LINE, columns=(replace(column, scale=2.0),))
    with pytest.raises(ModelError, match=r"scale 1\.0"):
        sign_prior.check(sign_prior.network, scaled)


def test_a_saved_prior_comes_back_as_it_was(sign_prior, tmp_path):
    sign_prior.save(tmp_path / "prior")
    again = AmortizedPrior.load(tmp_path / "prior")
    for own, other in ((sign_prior.gaussian, again.gaussian), (sign_prior.base, again.base)):
        np.testing.assert_array_equal(own.mean, other.mean)
        np.testing.assert_array_equal(own.sd, other.sd)
    assert pack_amortized(again)[0] == pack_amortized(sign_prior)[0]
    assert str(again.findings) == str(sign_prior.findings)
    assert again.rules == sign_prior.rules
    assert again.network == sign_prior.network
    assert again.schema == sign_prior.schema


@pytest.mark.parametrize("name", ["prior.json", "rules.yaml", "prior.safetensors"])
def test_a_damaged_prior_is_refused(sign_prior, tmp_path, name):
    sign_prior.save(tmp_path / "prior")
    file = tmp_path / "prior" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(FileError):
        AmortizedPrior.load(tmp_path / "prior")


def test_a_saved_model_has_its_learnt_prior_and_its_rules(posterior, tmp_path):
    files.save(tmp_path / "model", posterior)
    again = files.load(tmp_path / "model").posterior
    base = again.model.base
    assert isinstance(base, AmortizedPrior)
    np.testing.assert_array_equal(base.gaussian.sd, posterior.model.base.gaussian.sd)
    assert pack_amortized(base)[0] == pack_amortized(posterior.model.base)[0]
    assert [each.rule for each in again.rules] == [each.rule for each in posterior.rules]
    w = posterior.flat[0]
    assert float(again.model.log_prior(w)) == pytest.approx(float(posterior.model.log_prior(w)))


def test_a_named_rule_that_is_learnt_and_a_term_can_be_saved(sign_prior, tmp_path):
    model = Model.build(frame=FRAME, target="y", base=sign_prior, rules=sign_prior.rules, noise=0.1)
    files.save(tmp_path / "model", Posterior(sign_prior.draws(4)[None], model))
    again = files.load(tmp_path / "model").posterior
    assert [term.rule.name for term in again.model.learnt] == ["sign"]


@pytest.mark.filterwarnings("ignore:UNMET")
def test_an_estimator_takes_the_priors_table_network_and_rules(sign_prior, tmp_path):
    estimator = small_regressor(prior=sign_prior, hidden=None, rules=[FURTHER], noise=0.1)
    estimator.fit(FRAME[["x"]], FRAME["y"])
    assert estimator.schema_ is sign_prior.schema
    assert estimator.posterior_.model.network is sign_prior.network
    assert [rule.name for rule in estimator.rules_] == [None, "sign"]
    assert len(estimator.posterior_.model.terms) == 1
    assert "sign" in str(estimator.check_rules(points=50, ascent=False))
    estimator.save(tmp_path / "estimator")
    again = ocbnn.load(tmp_path / "estimator")
    np.testing.assert_array_equal(again.predict(FRAME[["x"]]), estimator.predict(FRAME[["x"]]))
    assert isinstance(again.prior, AmortizedPrior)
    assert again.rules_ == estimator.rules_


@pytest.mark.parametrize(
    ("options", "frame", "said"),
    [
        ({"hidden": (7,)}, FRAME, "hidden layers"),
        ({"hidden": None, "activation": "relu"}, FRAME, "activation"),
        ({"hidden": None, "columns": {"x": {"unit": "m"}}}, FRAME, "columns="),
        ({"hidden": None, "missing": "indicator"}, FRAME, "leave missing out"),
        ({"hidden": None, "unseen": "other"}, FRAME, "leave unseen out"),
        ({"hidden": None, "target_transform": "log"}, FRAME, "leave target_transform out"),
        ({"hidden": None, "noise": "varying"}, FRAME, "a prior that has learnt rules brings one"),
        ({"hidden": None}, FRAME.rename(columns={"x": "z"}), "columns x"),
        ({"hidden": None}, FRAME.rename(columns={"y": "mass"}), "'mass'"),
    ],
)
def test_an_estimator_refuses_what_the_prior_was_not_learnt_for(sign_prior, options, frame, said):
    estimator = small_regressor(prior=sign_prior, **options)
    with pytest.raises(ModelError, match=said):
        estimator.fit(frame.iloc[:, :1], frame.iloc[:, 1])


def test_a_classifier_refuses_a_prior_for_numbers(sign_prior):
    with pytest.raises(ModelError, match="regression"):
        small_classifier(prior=sign_prior, hidden=None).fit(FRAME[["x"]], ["a", "b", "a", "b"])


def test_rules_keep_their_words(sign_prior):
    assert sign_prior.rules == (replace(parse_rule(SIGN_RULE, LINE, name="sign"), tolerance=0.1),)


def test_rules_are_not_learnt_on_a_log_scale() -> None:
    logged = replace(LINE, target=replace(LINE.target, transform="log"))
    with pytest.raises(ModelError, match="on the scale of 'y' itself, not of its log"):
        AmortizedPrior.learn([SIGN_RULE], logged, noise=0.1)
    with pytest.raises(ModelError, match="which no rule teaches"):
        AmortizedPrior.learn([SIGN_RULE], LINE, noise="varying")


def test_a_rule_by_construction_is_not_learnt():
    schema = Schema.infer(pd.DataFrame({"x": [0.0, 1.5], "y": [0.0, 2.5]}), target="y")
    rule = parse_rule("always y increases with x", schema, by="construction")
    with pytest.raises(ModelError, match="an amortized prior learns its rules"):
        AmortizedPrior.learn(schema=schema, rules=[rule], noise=0.1)
