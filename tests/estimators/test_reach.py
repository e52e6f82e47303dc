"""How far a rule moves predictions beside its region."""

import math

import numpy as np
import pandas as pd
import pytest

from ocbnn import OCBNNRegressor
from ocbnn.errors import ModelError
from ocbnn.model.priors import IsotropicGaussian
from small_estimators import blood_pressures, small_classifier, small_regressor

RULES = ["if age > 80 then pressure <= 280", "if dose > 20 and ward = ICU then pressure <= 290"]


def gates(model):
    return model.posterior_.model.network.gates


@pytest.fixture(scope="module")
def stepping():
    return small_regressor(rules=RULES).fit(*blood_pressures())


def test_every_rules_region_has_a_gate(stepping):
    assert len(gates(stepping)) == 2
    assert all(gate.reach == stepping.reach for gate in gates(stepping))


def test_a_rule_that_is_left_out_takes_its_gate_with_it(stepping):
    terms = stepping.posterior_.model.prior.rules
    assert stepping.without_rules().model.network.gates == ()
    assert stepping._twin(terms[1:]).model.network.gates == gates(stepping)[1:]
    assert stepping.without_data().model.network.gates == gates(stepping)


@pytest.mark.parametrize(
    "options",
    [
        {"reach": math.inf},
        {"prior": IsotropicGaussian(25)},
        {"rules": "always pressure <= 500"},
        {"rules": "if age >= 0 then pressure <= 500"},
    ],
    ids=["infinite reach", "a prior of one's own", "a rule on everything", "a rule on all rows"],
)
def test_there_are_no_gates_where_none_are_wanted(options):
    model = small_regressor(**{"rules": RULES, **options}).fit(*blood_pressures())
    assert gates(model) == ()
    assert model.posterior_.flat.shape[1] == 26  # with the noise


def test_classes_have_gates_to_every_logit():
    frame, y = blood_pressures()
    grades = pd.cut(y, 3, labels=["low", "middle", "high"]).astype(str).rename("grade")
    network = (
        small_classifier(rules="if age > 80 then grade = high").fit(frame, grades).posterior_.model.network
    )
    assert network.gate_sizes == (4, 3)


@pytest.mark.parametrize("reach", [1e-9, -1.0, math.nan, "far", True, None])
def test_a_reach_is_nothing_or_a_number(reach):
    with pytest.raises(ModelError, match="reach is 0, a number of standard deviations"):
        small_regressor(rules=RULES, reach=reach).fit(*blood_pressures())


@pytest.mark.slow
def test_a_rule_beside_rows_that_contradict_it_leaves_them_to_the_data():
    """Rows up to 1 rise to 2; from 1.1 on, where there are none, the rule wants −2."""
    x = np.linspace(0, 1, 40)
    frame, y = pd.DataFrame({"x": x}), pd.Series(2 * x, name="y")
    moved = {}
    for reach in (0.0, math.inf):
        model = OCBNNRegressor(
            rules="if 1.1 < x < 1.5 then y <= -2",
            engine="hmc",
            hidden=(5,),
            noise=0.2,
            members=4,
            draws=100,
            reach=reach,
            random_state=0,
        ).fit(frame, y)
        assert model.check_rules(ascent=False)[0].epsilon_mean.value < 0.02
        moved[reach] = abs(model.predict(frame) - y).max()
    assert moved[0.0] < 0.2 < moved[math.inf]
