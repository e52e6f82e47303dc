"""Networks that are monotone by their form, and which rules they keep so."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ocbnn import Schema
from ocbnn.errors import ModelError, RuleError
from ocbnn.estimators import defaults
from ocbnn.model import Model, networks
from ocbnn.model.forms import kept_by_form, signs_for
from ocbnn.model.networks import MLP, FunctionNetwork
from ocbnn.model.outputs import shown_by_form
from ocbnn.rules import parse_rule

SHAPES = [
    ("tanh", (), (1, -1, 0)),
    ("relu", (1,), (1, -1, 0)),
    ("tanh", (6,), (1, -1, 1)),
    ("relu", (6, 5), (0, -1, 0)),
    ("tanh", (5, 1, 4), (1, -1, 0)),
]
FRAME = pd.DataFrame(
    {
        "dose": [0.5, 1.0, 20.0, np.nan],
        "ward": ["a", "b", "c", "a"],
        "visits": [1, 2, 3, 5],
        "sex": [0, 1, 0, 1],
        "y": [1.0, 2.0, 4.0, 8.0],
    }
)
LOGS = {"dose": {"transform": "log", "bounds": (0, None)}, "visits": {"transform": "asinh"}}
NUMBER = Schema.infer(FRAME, target="y", columns=LOGS, missing="indicator")
CLASSES = Schema.infer(FRAME.assign(y=[0, 1, 0, 1]), target="y", missing="indicator")
COLOURS = Schema.infer(FRAME.assign(y=["red", "green", "blue", "red"]), target="y", missing="indicator")


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def rules(*texts, schema=NUMBER, **options):
    return [parse_rule(text, schema, **options) for text in texts]


def directions(signs, hidden, outputs):
    """What each unit does along the ruled inputs: rise, fall, or nothing; further outputs may do anything."""
    units, free = [list(signs)], 0 in signs
    for count in hidden:
        ruled = (count + 1) // 2 if free else count
        units.append([1 if unit % 2 == 0 else -1 for unit in range(ruled)] + [0] * (count - ruled))
        free = 0 in units[-1]
    return [*units, [1] + [None] * (outputs - 1)]


def twin(w, x, signs, hidden, outputs, activation):
    """The naive twin: every weight by itself."""
    units = directions(signs, hidden, outputs)
    start, values = 0, list(np.atleast_2d(x).T)
    for layer, (before, after) in enumerate(itertools.pairwise(units)):
        n, m = len(before), sum(each != 0 for each in before)
        sums = []
        for j, b in enumerate(after):
            total = w[start + n * len(after) + j]
            for i, a in enumerate(before):
                weight = w[start + i * len(after) + j]
                if b is not None and a != 0:
                    size = min(1 / np.sqrt(n), 2 / m)
                    weight = a * b * np.log1p(np.exp(np.sqrt(n) * weight)) * size
                total = total + weight * values[i]
            sums.append(total)
        start += (n + 1) * len(after)
        last = layer == len(units) - 2
        values = sums if last else [np.tanh(z) if activation == "tanh" else np.maximum(z, 0) for z in sums]
    assert start == len(w)
    return np.stack(values, axis=1)


@pytest.mark.parametrize(("activation", "hidden", "signs"), SHAPES, ids=str)
def test_a_network_with_signs_is_its_weights_one_by_one(activation, hidden, signs):
    network = MLP(3, hidden, 2, activation, signs)
    generator = np.random.default_rng(0)
    w, x = generator.normal(size=network.size), generator.normal(size=(7, 3))
    expected = twin(w, x, signs, hidden, 2, activation)
    np.testing.assert_allclose(network.apply(w, x), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("activation", "hidden", "signs"), SHAPES, ids=str)
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_no_weights_of_any_size_break_the_signs(activation, hidden, signs, size):
    """100,000 pairs of inputs, each further along all ruled inputs, and the gradients at as many."""
    network, generator = MLP(3, hidden, 2, activation, signs, linear=True), np.random.default_rng(1)
    ws = size * generator.normal(size=(100, network.size))
    first = 2 * generator.normal(size=(100, 1000, 3))
    second = first + np.asarray(signs) * generator.exponential(size=first.shape)
    apply = jax.jit(jax.vmap(network.apply))
    here, there = (np.asarray(apply(ws, x))[..., 0] for x in (first, second))
    assert (there - here >= -1e-12 * (1 + np.abs(here))).all()
    slope = jax.grad(lambda x, w: network.apply(w, x[None])[0, 0])
    slopes = jax.jit(jax.vmap(jax.vmap(slope, (0, None))))
    ruled = np.asarray(slopes(first[:, :50], ws)) * np.asarray(signs)
    assert (ruled >= 0).all()
    assert bool(jnp.all(jax.vmap(network.keeps_signs)(ws)))


def test_what_is_free_turns_the_second_output_and_inputs_of_sign_0():
    network, generator = MLP(3, (6, 6), 2, "tanh", (1, -1, 0)), np.random.default_rng(2)
    slope = jax.jit(jax.jacobian(lambda x, w: network.apply(w, x[None])[0]))
    xs, ws = generator.normal(size=(60, 3)), 2 * generator.normal(size=(60, network.size))
    slopes = np.stack([slope(x, w) for x, w in zip(xs, ws, strict=True)])
    assert (slopes[:, 0, 0] > 0).any()
    assert (slopes[:, 0, 1] < 0).any()
    for turning in (slopes[:, 0, 2], slopes[:, 1, 0], slopes[:, 1, 1], slopes[:, 1, 2]):
        assert (turning > 0).any()
        assert (turning < 0).any()


def test_the_sign_check_reads_the_weights_that_count(monkeypatch):
    network = MLP(2, (4,), 1, "tanh", (1, 0))
    w = np.random.default_rng(0).normal(size=network.size)
    assert network.keeps_signs(w)
    assert not network.keeps_signs(np.where(np.arange(network.size) == 3, np.nan, w))
    monkeypatch.setattr(networks, "_of_sign", lambda weights, free, signs: weights)
    assert not network.keeps_signs(w)
    positive = np.abs(w)
    assert not network.keeps_signs(positive)  # free units must not see the ruled input at all


def test_fan_in_counts_the_units_that_are_read():
    network = MLP(3, (4,), 2, "tanh", (1, 0, 0))
    first = [3.0, 3.0, 2.0, 2.0] * 3 + [1.0] * 4
    np.testing.assert_array_equal(network.fan_in(), first + [4.0] * 8 + [1.0] * 2)
    assert network.layer_sizes == MLP(3, (4,), 2, "tanh").layer_sizes


@pytest.mark.parametrize("hidden", [(16, 16), (50, 50)], ids=str)
@pytest.mark.parametrize("signs", [(1, 0, 0, 0, 0), (1, -1, 1, 0, 0), (1, 1, 1, 1, 1)], ids=str)
def test_draws_of_the_default_prior_rise_about_as_far_as_those_of_a_free_network_move(hidden, signs):
    x = np.random.default_rng(0).normal(size=(50, 5))
    low, high = (np.concatenate([np.full((50, 1), end), x[:, 1:]], axis=1) for end in (-1.5, 1.5))

    def reach(network):
        base = defaults.base_prior(None, network, classification=False)
        ws = jax.vmap(base.sample)(jax.random.split(jax.random.key(0), 300))
        change = jax.jit(jax.vmap(lambda w: network.apply(w, high)[:, 0] - network.apply(w, low)[:, 0]))(ws)
        return float(np.median(np.abs(change).mean(axis=1)))

    free = reach(MLP(5, hidden, 1, "tanh", linear=True))
    assert free / 2.5 < reach(MLP(5, hidden, 1, "tanh", signs, linear=True)) < 2.5 * free


def test_wrong_signs_are_refused():
    with pytest.raises(ModelError, match="1, -1 or 0 for each of the 2 inputs"):
        MLP(2, (3,), 1, "tanh", (1,))
    with pytest.raises(ModelError, match="1, -1 or 0"):
        MLP(2, (3,), 1, "tanh", (2, 0))
    with pytest.raises(ModelError, match=r"'rbf' rises and falls\. Choose one of tanh, relu"):
        MLP(2, (3,), 1, "rbf", (1, 0))
    assert MLP(2, (), 1, "rbf", (1, 0)).signs == (1, 0)
    assert MLP(2, (3,), 1, "rbf", (0, 0)) == MLP(2, (3,), 1, "rbf")


# Which rules ------------------------------------------------------------------------------------------------

RISES, FALLS = "always y increases with dose", "always y decreases with visits"


@pytest.mark.parametrize(
    ("texts", "signs"),
    [
        ([], ()),
        ([RISES], (1, 0, 0, 0, 0, 0, 0)),  # dose and its indicator, three wards, visits, sex
        ([RISES, FALLS], (1, 0, 0, 0, 0, -1, 0)),
        (["always y increases with dose and y decreases with visits"], (1, 0, 0, 0, 0, -1, 0)),
        (["always y increases with sex"], (0, 0, 0, 0, 0, 0, 1)),
        ([RISES, "always y decreases with dose"], ()),
        ([RISES, "always y decreases with dose", FALLS], (0, 0, 0, 0, 0, -1, 0)),
        (["if visits > 2 then y increases with dose"], ()),
        (["always y changes by at most 2 per dose", "always y >= 0"], ()),
        (["always y increases with dose and y does not depend on ward"], ()),
    ],
)
def test_signs_are_those_of_global_trends_that_nothing_contradicts(texts, signs):
    assert signs_for(rules(*texts), NUMBER, "tanh", (4,)) == signs


def test_of_two_classes_the_logit_is_that_of_the_second():
    def of(text):
        return signs_for(rules(text, schema=CLASSES), CLASSES, "tanh", (4,))

    assert of("always P(y = 1) increases with dose")[0] == 1
    assert of("always P(y = 0) increases with dose")[0] == -1
    (of_three,) = rules("always P(y = red) increases with dose", schema=COLOURS)
    assert signs_for([of_three], COLOURS, "tanh", (4,)) == ()


def test_by_prior_and_turning_activations_leave_the_network_free():
    assert signs_for(rules(RISES, by="prior"), NUMBER, "tanh", (4,)) == ()
    assert signs_for(rules(RISES), NUMBER, "rbf", (4,)) == ()
    asked = rules("always y decreases with dose", by="construction")
    assert signs_for([*rules(RISES), *asked], NUMBER, "tanh", (4,))[0] == -1


def test_what_is_asked_for_and_cannot_be_built_is_an_error_with_a_remedy():
    asked = rules(RISES, "always y decreases with dose", by="construction")
    with pytest.raises(ModelError, match="opposite directions"):
        signs_for(asked, NUMBER, "tanh", (4,))
    with pytest.raises(ModelError, match=r"increasing \(tanh, relu\), not 'rbf'"):
        signs_for(asked[:1], NUMBER, "rbf", (4,))
    with pytest.raises(ModelError, match="the network that was given does not keep it"):
        Model.build(schema=NUMBER, rules=asked[:1], network=MLP(NUMBER.width))
    for text, why in [
        ("if visits > 2 then y increases with dose", "has a condition"),
        ("always y changes by at most 2 per dose", "increases or decreases"),
    ]:
        with pytest.raises(RuleError, match=why) as caught:
            parse_rule(text, NUMBER, by="construction")
        assert "by: prior" in str(caught.value)
    with pytest.raises(RuleError, match="increases or decreases"):
        parse_rule("always P(y = red) increases with dose", COLOURS, by="construction")
    with pytest.raises(RuleError, match="by construction or by prior, or left out; got 'magic'"):
        parse_rule(RISES, NUMBER, by="magic")


def test_a_rule_that_the_network_keeps_adds_nothing_to_the_density():
    texts = [RISES, "if visits > 2 then y >= 0"]
    model = Model.build(schema=NUMBER, rules=texts, activation="tanh")
    assert model.network.signs[0] == 1
    assert [term.rule.text(NUMBER) for term in model.formed] == texts[:1]
    assert [term.rule.text(NUMBER) for term in model.terms] == texts[1:]
    assert [term.rule.text(NUMBER) for term in model.rules] == texts[::-1]
    alone = Model.build(schema=NUMBER, rules=texts[1:], network=model.network)
    w = model.initial(0)
    assert float(model.log_density(w)) == float(alone.log_density(w))
    by_prior = Model.build(schema=NUMBER, rules=rules(RISES, by="prior"), activation="tanh")
    assert not by_prior.formed
    assert not by_prior.network.signs


@pytest.mark.parametrize("schema", [NUMBER, CLASSES], ids=["number", "classes"])
def test_the_function_in_raw_units_is_monotone(schema):
    text = "always y decreases with dose" if schema is NUMBER else "always P(y = 1) decreases with dose"
    model = Model.build(schema=schema, rules=[text], activation="tanh")
    coded = np.tile(schema.encode(FRAME.drop(columns="y"))[:1], (60, 1))
    coded[:, 0] = np.linspace(0.01, 40, 60)
    w = 2 * np.random.default_rng(0).normal(size=model.size)
    values = np.asarray(model.function(w, schema.to_model(coded)))
    values = values if schema is NUMBER else values[:, 1]
    assert (np.diff(values) <= 0).all()
    assert np.ptp(values) > 0


def test_whether_a_network_keeps_a_rule_is_a_question_of_its_signs():
    (rising,) = rules(RISES)
    signs = signs_for([rising], NUMBER, "tanh", (4,))
    keeping = MLP(NUMBER.width, (4,), 1, "tanh", signs)
    assert kept_by_form(keeping, rising, NUMBER)
    falling, other = rules("always y decreases with dose", FALLS)
    assert not kept_by_form(keeping, falling, NUMBER)
    assert not kept_by_form(keeping, other, NUMBER)
    assert not kept_by_form(MLP(NUMBER.width, (4,), 1, "tanh"), rising, NUMBER)
    own = FunctionNetwork.wrap(lambda w, x: x @ w, np.ones((NUMBER.width, 1)))
    assert not kept_by_form(own, rising, NUMBER)
    model = Model.build(schema=NUMBER, rules=[rising], network=keeping, noise=1.0)
    draws = np.random.default_rng(0).normal(size=(300, model.size))
    draws[7, 2] = np.nan
    assert np.flatnonzero(~shown_by_form(model, rising, draws)).tolist() == [7]
    assert shown_by_form(model, other, draws) is None
