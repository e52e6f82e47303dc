"""Expressions: what they are worth at points, how they print, and how they come apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from language_schemas import COLOURS, LINE
from ocbnn.language.expressions import (
    Affine,
    Always,
    And,
    Arithmetic,
    Call,
    ColumnRef,
    Comparison,
    Membership,
    Negate,
    Not,
    Number,
    Or,
    Output,
    Probability,
    affine,
    affine_in_output,
    columns,
    constant,
    evaluate,
    label_text,
    name_text,
    number_text,
    quantities,
    text,
    undefined,
)
from ocbnn.language.reading import read_expression
from ocbnn.language.syntax import Sentence, parse

x, y = ColumnRef("x"), Output()
VALUES = {"x": np.array([-2.0, 0.0, 0.5, 3.0])}


def times(a, b):
    return Arithmetic("*", a, b)


def plus(a, b):
    return Arithmetic("+", a, b)


# Evaluate


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Number(2.0), [2, 2, 2, 2]),
        (x, [-2, 0, 0.5, 3]),
        (Negate(x), [2, 0, -0.5, -3]),
        (Arithmetic("/", Number(1.0), x), [-0.5, np.inf, 2, 1 / 3]),
        (Arithmetic("/", x, x), [1, np.nan, 1, 1]),
        (Arithmetic("^", x, Number(2.0)), [4, 0, 0.25, 9]),
        (Arithmetic("^", x, Number(0.5)), [np.nan, 0, 0.5**0.5, 3**0.5]),
        (Call("log", (x,)), [np.nan, -np.inf, math.log(0.5), math.log(3)]),
        (Call("max", (x, Number(0.0), Number(-1.0))), [0, 0, 0.5, 3]),
        (Call("min", (x, Number(1.0))), [-2, 0, 0.5, 1]),
        (Call("exp", (times(Number(1000.0), x),)), [0, 1, math.exp(500), np.inf]),
    ],
)
def test_arithmetic_follows_ieee_without_warnings(node, expected):
    np.testing.assert_allclose(evaluate(node, VALUES, LINE), np.array(expected, float), rtol=1e-15)


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "=", "!="])
def test_a_comparison_with_nan_is_false_whatever_the_operator(operator):
    undefined = Call("log", (x,))
    held = evaluate(Comparison((undefined, undefined), (operator,)), VALUES, LINE)
    assert not held[0]
    assert held[3] == (operator in ("<=", ">=", "="))


def test_a_chain_holds_where_every_neighbouring_pair_does():
    chain = Comparison((Number(-1.0), x, Number(1.0)), ("<", "<="))
    assert evaluate(chain, VALUES, LINE).tolist() == [False, True, True, False]


def test_connectives_are_those_of_logic():
    low, high = Comparison((x, Number(0.0)), ("<",)), Comparison((x, Number(1.0)), (">",))
    assert evaluate(And((Not(low), Not(high))), VALUES, LINE).tolist() == [False, True, True, False]
    assert evaluate(Or((low, high)), VALUES, LINE).tolist() == [True, False, False, True]
    assert evaluate(Always(), VALUES, LINE).tolist() == [True] * 4


def test_membership_compares_coded_indices_of_levels():
    ward = np.array([0.0, 1.0, 2.0, np.nan])
    held = evaluate(Membership("ward", ("long stay", "ICU")), {"ward": ward}, COLOURS)
    assert held.tolist() == [True, False, True, False]


def test_a_constant_fills_the_shape_of_the_points():
    assert evaluate(Number(1.0), {"x": np.zeros((3, 1))}, LINE, output=np.zeros((3, 4))).shape == (3, 4)


def test_the_target_needs_its_values():
    assert evaluate(plus(y, x), {"x": np.ones(2)}, LINE, output=np.array([1.0, 2.0])).tolist() == [2, 3]
    with pytest.raises(ValueError, match="output"):
        evaluate(y, VALUES, LINE)


# Print


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Arithmetic("-", x, plus(x, Number(1.0))), "x - (x + 1)"),
        (plus(Arithmetic("-", x, x), Number(1.0)), "x - x + 1"),
        (times(plus(x, Number(1.0)), x), "(x + 1) * x"),
        (Arithmetic("/", x, times(x, x)), "x / (x * x)"),
        (Arithmetic("^", Number(-2.0), Number(2.0)), "(-2) ^ 2"),
        (Negate(Arithmetic("^", Number(2.0), Number(2.0))), "-2 ^ 2"),
        (Arithmetic("^", Arithmetic("^", x, x), x), "(x ^ x) ^ x"),
        (Arithmetic("^", x, Arithmetic("^", x, Negate(x))), "x ^ x ^ -x"),
        (Call("min", (x, Number(0.1))), "min(x, 0.1)"),
        (Not(Comparison((Number(1.0), y, Number(2.5)), ("<=", "<="))), "not 1 <= wage <= 2.5"),
        (Not(Not(Comparison((x, y), ("<",)))), "not not x < wage"),
        (And((Or((Always(), Always())), Always())), "(always or always) and always"),
        (Or((And((Always(), Always())), Always())), "always and always or always"),
        (Probability((0, 1)), "P(wage in {0, 1})"),
        (Membership("ward", ("ICU",)), "ward = ICU"),
    ],
)
def test_text_is_canonical_with_no_more_parentheses_than_needed(node, expected):
    assert text(node, "wage") == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BUN", "BUN"),
        ("größe.cm", "größe.cm"),
        ("a b", "`a b`"),
        ("then", "`then`"),
        ("Log", "`Log`"),
        ("2nd", "`2nd`"),
        ("a`b", "`a``b`"),
    ],
)
def test_odd_names_go_in_backticks(name, expected):
    assert name_text(name) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("ICU", "ICU"),
        ("long stay", "'long stay'"),
        ("it's", r"'it\'s'"),
        ("1", "'1'"),
        (1, "1"),
        (True, "True"),
        ("True", "'True'"),
        ("red", "'red'"),
        (0.5, "0.5"),
    ],
)
def test_labels_are_quoted_where_they_could_be_something_else(label, expected):
    assert label_text(label, names=("red",)) == expected


@pytest.mark.parametrize(
    "value", [0.1, 1e-300, 1e22, -3.0, 123456789.0, 2.0**60, 5e-324, 1.7976931348623157e308]
)
def test_numbers_read_back_to_the_last_bit(value):
    assert float(number_text(value)) == value


# Trees in, text out, trees in: negative numbers are folded, as the parser does.
leaves = st.one_of(
    st.floats(-1e6, 1e6).map(lambda value: Number(value + 0.0)),
    st.just(x),
    st.just(y),
)


def _branch(children):
    return st.one_of(
        st.tuples(st.sampled_from("+-*/^"), children, children).map(lambda t: Arithmetic(*t)),
        children.filter(lambda node: not isinstance(node, Number | Negate)).map(Negate),
        st.tuples(st.sampled_from(["sin", "sqrt"]), children).map(lambda t: Call(t[0], (t[1],))),
        st.lists(children, min_size=2, max_size=3).map(lambda items: Call("max", tuple(items))),
    )


@given(st.recursive(leaves, _branch, max_leaves=12))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_arithmetic_prints_and_parses_to_the_same_tree(node):
    assume(undefined(node) is None)
    sentence = Sentence(f"always {text(node)} > 0", LINE)
    comparison = parse(sentence).children[0]
    assert read_expression(sentence, comparison.children[0], "output") == node


# Take apart


def test_columns_and_quantities_are_found_at_any_depth():
    node = And((Not(Comparison((Call("sin", (x,)), y), ("<",))), Membership("ward", ("ICU",))))
    assert columns(node) == {"x", "ward"}
    assert quantities(node) == {Output()}
    assert constant(Call("cos", (Number(0.0),))) == 1.0
    assert constant(x) is None


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (plus(times(Number(2.0), x), Number(1.0)), Affine({"x": 2.0}, 1.0)),
        (
            Negate(Arithmetic("/", plus(x, ColumnRef("z")), Number(4.0))),
            Affine({"x": -0.25, "z": -0.25}, 0.0),
        ),
        (Arithmetic("-", x, x), Affine({}, 0.0)),
        (times(Call("cos", (Number(0.0),)), x), Affine({"x": 1.0}, 0.0)),
        (Arithmetic("^", x, Number(1.0)), Affine({"x": 1.0}, 0.0)),
        (times(x, x), None),
        (Arithmetic("^", x, Number(2.0)), None),
        (Arithmetic("/", Number(1.0), x), None),
        (Arithmetic("/", x, Number(0.0)), None),
        (Call("sin", (x,)), None),
        (times(Number(1e308), times(Number(10.0), x)), None),
        (y, None),
    ],
)
def test_affine_forms_are_exact_or_none(node, expected):
    form = affine(node)
    assert form == expected


@pytest.mark.parametrize(
    "node",
    [
        plus(times(x, y), Number(2.0)),
        Negate(Arithmetic("/", Arithmetic("-", y, x), Number(4.0))),
        Arithmetic("-", times(plus(y, x), Number(3.0)), times(y, x)),
        Arithmetic("/", y, x),
        Arithmetic("^", y, Number(1.0)),
    ],
)
def test_affine_in_output_gives_slope_and_intercept(node):
    slope, intercept = affine_in_output(node)
    values, output = {"x": np.array([0.5, 2.0, -3.0])}, np.array([1.5, -2.0, 7.0])
    rebuilt = evaluate(slope, values, LINE) * output + evaluate(intercept, values, LINE)
    np.testing.assert_allclose(rebuilt, evaluate(node, values, LINE, output), rtol=1e-14)


@pytest.mark.parametrize(
    "node",
    [
        times(y, y),
        Call("abs", (y,)),
        Arithmetic("/", Number(1.0), y),
        Arithmetic("^", y, Number(2.0)),
        Arithmetic("^", Number(2.0), y),
    ],
)
def test_what_is_not_affine_in_the_target_is_none(node):
    assert affine_in_output(node) is None
