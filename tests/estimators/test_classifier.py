"""The classifier: probabilities against NumPy, class weights that do not bend them, labels of any kind."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import get_scorer
from sklearn.utils.class_weight import compute_class_weight

from ocbnn import ModelError, OCBNNClassifier, OCBNNWarning, SchemaError
from ocbnn.errors import OCBNNError
from ocbnn.estimators.classifier import _labels, class_weights
from ocbnn.estimators.tables import read_labels
from small_estimators import small_classifier


def blobs(classes: int = 3, rows: int = 60, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    generator = np.random.default_rng(seed)
    label = generator.integers(0, classes, rows)
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])[:classes]
    frame = pd.DataFrame(centers[label] + generator.normal(size=(rows, 2)), columns=["height", "weight"])
    return frame, pd.Series(np.array(["blue", "green", "red"])[label], name="colour")


@pytest.fixture(scope="module")
def fitted() -> OCBNNClassifier:
    return small_classifier().fit(*blobs())


def twin_probabilities(model: OCBNNClassifier, frame: pd.DataFrame, outputs: int) -> np.ndarray:
    """The network and the softmax in NumPy."""
    inputs = np.column_stack(
        [
            (frame[name] - model.schema_.column(name).center) / model.schema_.column(name).scale
            for name in frame.columns
        ]
    )
    result = []
    for w in model.posterior_.flat.astype(float):
        read = np.column_stack([np.tanh(inputs @ w[:8].reshape(2, 4) + w[8:12]), inputs])
        logits = read @ w[12:-outputs].reshape(4 + 2, outputs) + w[-outputs:]
        if outputs == 1:
            logits = np.column_stack([np.zeros(len(inputs)), logits])
        exponent = np.exp(logits - logits.max(axis=1, keepdims=True))
        result.append(exponent / exponent.sum(axis=1, keepdims=True))
    return np.array(result)


def test_probabilities_are_those_of_a_network_in_numpy(fitted):
    frame, _ = blobs(rows=7, seed=3)
    expected = twin_probabilities(fitted, frame, 3)
    np.testing.assert_allclose(fitted.sample_function(frame), expected, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(frame), expected.mean(axis=0), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_log_proba(frame), np.log(expected.mean(axis=0)), rtol=1e-8)


def test_two_classes_are_one_logit_of_a_network_in_numpy_and_weights_move_decisions_alone():
    model = small_classifier(class_weight={"green": 5.0}).fit(*blobs(classes=2))
    frame, _ = blobs(classes=2, rows=50, seed=3)
    expected = twin_probabilities(model, frame, 1)
    mean = expected.mean(axis=0)
    np.testing.assert_allclose(model.sample_function(frame), expected, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(frame), mean, rtol=1e-8, atol=1e-12)
    best = (mean * [1.0, 5.0]).argmax(axis=1)  # a common factor moves no decision
    assert np.array_equal(model.predict(frame), np.array(["blue", "green"])[best])
    assert (best != mean.argmax(axis=1)).any()


def test_predictions_are_the_most_probable_labels(fitted):
    frame, y = blobs(rows=50, seed=3)
    best = np.array(["blue", "green", "red"])[fitted.predict_proba(frame).argmax(axis=1)]
    assert np.array_equal(fitted.predict(frame), best)
    assert fitted.score(frame, y) == (best == y).mean() > 0.9


def test_samples_are_labels_as_often_as_they_are_probable(fitted):
    frame, _ = blobs(rows=2, seed=3)
    samples = fitted.sample_predictive(frame, 20_000, random_state=1)
    shares = np.stack([(samples == label).mean(axis=0) for label in fitted.classes_], axis=1)
    np.testing.assert_allclose(shares, fitted.predict_proba(frame), atol=5 * 0.5 / np.sqrt(20_000))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1]),
        np.array([-1.0, 1.0]),
        np.array([False, True]),
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([10, 20], dtype=np.int8),
    ],
)
def test_labels_come_back_as_they_were_given(labels):
    frame, y = blobs(classes=2)
    given = labels[(y == "green").to_numpy(int)]
    model = small_classifier().fit(frame, given)
    predicted = model.predict(frame)
    assert predicted.dtype == given.dtype
    assert np.array_equal(model.classes_, labels)
    assert (predicted == given).mean() > 0.9


def test_a_class_that_does_not_occur_can_be_declared():
    frame, y = blobs(classes=2)
    model = small_classifier(columns={"colour": {"levels": ["blue", "green", "red"]}}).fit(frame, y)
    assert list(model.classes_) == ["blue", "green", "red"]
    assert model.predict_proba(frame).shape == (60, 3)


def test_classes_are_sorted_however_they_are_declared():
    frame, y = blobs(classes=2)
    model = small_classifier(columns={"colour": {"levels": ["green", "blue"]}}).fit(frame, y)
    assert list(model.classes_) == ["blue", "green"]
    assert get_scorer("roc_auc")(model, frame, y) > 0.9


@pytest.mark.parametrize(
    ("classes", "dtype"),
    [(("a", "b", "bc"), "U1"), ((0, 1, 300), "int8"), ((-1, 0), "uint8"), ((0, 1, 2), "bool")],
)
def test_declared_classes_are_not_squeezed_into_the_type_of_those_that_occur(classes, dtype):
    assert tuple(_labels(classes, np.dtype(dtype)).tolist()) == classes


@pytest.mark.parametrize(("labels", "kind"), [([3, 7], "i"), ([True, False], "b"), ([1.0, 2.0], "f")])
def test_numbers_and_truth_values_in_a_column_of_objects_are_labels(labels, kind):
    y = pd.Series(labels, dtype=object, name="stage")
    target, dtype = read_labels(small_classifier(), y, 2)
    assert (target.tolist(), dtype.kind) == (labels, kind)


def test_labels_that_mix_kinds_are_refused_with_the_remedy():
    with pytest.raises(SchemaError, match=r"mixes kinds of values.*astype\(str\)"):
        read_labels(small_classifier(), pd.Series([1, "a"], dtype=object), 2)


def test_a_rule_that_asks_for_a_percentage_of_probability_is_told():
    frame, y = blobs(classes=2)
    with pytest.warns(OCBNNWarning, match=r"`20 \* height` lies outside of .* Is it a percentage\?"):
        small_classifier(rules="if height > 3 then P(colour = green) = 20 * height").fit(frame, y)


def test_one_class_is_an_error_that_says_how_to_declare_others():
    frame, y = blobs()
    with pytest.raises(ModelError, match=r"only the one class 'blue'.*levels"):
        small_classifier().fit(frame, pd.Series(["blue"] * len(y), name="colour"))


def test_a_missing_label_is_named():
    frame, y = blobs()
    y[4] = None
    with pytest.raises(SchemaError, match="row 4"):
        small_classifier().fit(frame, y)


# Class weights -----------------------------------------------------------------------------------------


def test_balanced_weights_are_inverse_frequencies_that_keep_the_total():
    codes, rows = np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 1.0, 1.0])
    weights = class_weights("balanced", np.array(["a", "b"]), codes, rows)
    np.testing.assert_allclose(weights, [4 / 6, 2.0])
    assert weights[codes] @ rows == pytest.approx(4.0)


@pytest.mark.parametrize("given", ["balanced", {"a": 2.0, "c": 5.0}])
def test_class_weights_are_scikit_learns_up_to_the_total(given):
    y = np.array(["a"] * 6 + ["b"] * 3 + ["c"])
    classes, codes = np.unique(y, return_inverse=True)
    theirs = compute_class_weight(given, classes=classes, y=y)
    ours = class_weights(given, classes, codes, np.ones(10))
    np.testing.assert_allclose(ours / ours[0], theirs / theirs[0])
    assert ours[codes].sum() == pytest.approx(10)


def test_balanced_weights_give_classes_the_same_sum_of_rows_weights_but_for_one_that_does_not_occur():
    codes, rows = np.array([0] * 6 + [1] * 3 + [2]), np.linspace(0.5, 2, 10)
    ours = class_weights("balanced", np.array(["a", "b", "c"]), codes, rows)
    np.testing.assert_allclose(ours * np.bincount(codes, rows), rows.sum() / 3)
    unseen = class_weights("balanced", np.array(["a", "b", "c", "d"]), codes, np.ones(10))
    np.testing.assert_allclose(unseen[:3] * np.bincount(codes), unseen[0] * 6)


def test_class_weights_move_decisions_and_nothing_else():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"x": generator.normal(size=200)})
    y = pd.Series((generator.random(200) < expit(1.5 * frame["x"] - 3.0)).astype(int), name="event")
    plain, weighted = (
        small_classifier(class_weight=weight, hidden=()).fit(frame, y) for weight in (None, "balanced")
    )
    assert np.array_equal(plain.posterior_.flat, weighted.posterior_.flat)
    ratio = (1 - y.mean()) / y.mean()
    decided = weighted.predict_proba(frame)[:, 1] > 1 / (1 + ratio)
    assert np.array_equal(weighted.predict(frame), decided.astype(int))
    assert weighted.predict(frame).sum() > plain.predict(frame).sum()


def test_class_weights_do_not_carry_a_prediction_out_of_a_rule():
    frame, y = blobs(classes=2)
    model = small_classifier(
        rules="if height < 1 then colour = blue",
        class_weight={"green": 1000.0, "blue": 0.001},
        columns={"colour": {"levels": ["blue", "green"]}},
        tolerance=0.9,
    ).fit(frame, y)
    inside = frame["height"] < 1
    obeys = model.predict_proba(frame)[:, 0] > 0.5
    assert (inside & obeys).sum() > 5
    assert (model.predict(frame[inside & obeys]) == "blue").all()
    assert (model.predict(frame[~inside]) == "green").all()


def test_class_weights_do_not_carry_a_prediction_out_of_a_rule_that_was_enforced_later():
    frame, y = blobs(classes=2)
    weights = {"green": 1000.0, "blue": 0.001}
    model = small_classifier(class_weight=weights, chains=5).fit(frame, y)
    rule = "if height < 0 then colour = blue"
    inside = frame["height"] < 0
    assert inside.sum() > 5
    assert (model.predict(frame[inside]) == "green").any()
    for method in ("draws", "truncate"):
        assert (model.enforce(method, rules=[rule]).predict(frame[inside]) == "blue").all()


@pytest.mark.parametrize(
    "weight",
    ["even", {"violet": 2.0}, {"blue": -1.0}, {"blue": np.inf}, {"blue": "a"}, {"blue": None}, [1, 2]],
)
def test_a_wrong_class_weight_is_refused(weight):
    with pytest.raises(OCBNNError, match="class_weight"):
        small_classifier(class_weight=weight).fit(*blobs())


# Rules -------------------------------------------------------------------------------------------------


def test_enforcement_makes_violations_impossible():
    frame, y = blobs()
    rule = "if height > 3 then not colour = green"
    model = small_classifier(rules=rule, tolerance=0.99).fit(frame, y)
    enforced = model.enforce("truncate")
    inside = frame["height"] > 3
    assert (enforced.predict(frame[inside]) != "green").all()
    assert (enforced.predict_proba(frame[inside])[:, 1] == 0).all()
    np.testing.assert_allclose(enforced.predict_proba(frame[~inside]), model.predict_proba(frame[~inside]))
    assert (enforced.sample_predictive(frame[inside], 50) != "green").all()
    assert model.enforcement_ is None


def test_rules_are_checked_on_fresh_points_and_counted_as_by_hand():
    frame, y = blobs()
    model = small_classifier(rules="if height > 3 then colour = green", tolerance=0.99, chains=5).fit(
        frame, y
    )
    found = model.check_rules(points=200, ascent=False, key=7)[0]
    fresh = model.schema_.decode(model.posterior_.rules[0].fresh(200, 7))
    assert (fresh["height"] > 3).all()
    assert not fresh["height"].isin(frame["height"]).any()
    drawn = twin_probabilities(model, fresh, 3)
    violated = drawn.argmax(axis=-1) != 1
    assert found.epsilon_mean.value == pytest.approx(violated.mean())
    assert found.draws_violating.value == pytest.approx(violated.any(axis=1).mean())
    assert found.points_violating.value == pytest.approx((drawn.mean(axis=0).argmax(axis=-1) != 1).mean())
    assert found.mass_outside.value == pytest.approx(1 - drawn[..., 1].mean(), rel=1e-6)


def test_enforcing_by_an_unknown_method_is_refused(fitted):
    with pytest.raises(OCBNNError, match='"truncate", "draws" or "proved"'):
        fitted.enforce("force")
