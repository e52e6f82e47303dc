"""Intervals of expressions hold every value on a box; conditions are decided only where they are."""

from __future__ import annotations

import numpy as np
import pytest

from ocbnn.language.enclosures import decided, enclose
from ocbnn.language.expressions import (
    Arithmetic,
    Call,
    ColumnRef,
    Comparison,
    Membership,
    Not,
    Number,
    evaluate,
)
from ocbnn.schema import Column, Schema

X, Z = ColumnRef("x"), ColumnRef("z")
FUNCTIONS = ("sin", "cos", "tan", "exp", "log", "sqrt", "abs")
SCHEMA = Schema(
    (
        Column("x", "continuous", (-2.0, 2.0)),
        Column("z", "continuous", (-2.0, 2.0)),
        Column("site", "category", (0.0, 2.0), levels=("a", "b", "c")),
    )
)


def random_expression(generator, depth=3):
    if depth == 0 or generator.random() < 0.15:
        choices = [X, Z, Number(round(float(generator.normal(0, 2)), 2))]
        return choices[generator.integers(3)]
    kind = generator.integers(4)
    if kind == 0:
        return Call(str(generator.choice(FUNCTIONS)), (random_expression(generator, depth - 1),))
    if kind == 1:
        sides = tuple(random_expression(generator, depth - 1) for _ in range(2))
        return Call(str(generator.choice(["min", "max"])), sides)
    if kind == 2:
        return Arithmetic(
            "^", random_expression(generator, depth - 1), Number(float(generator.integers(-2, 4)))
        )
    operator = str(generator.choice(["+", "-", "*", "/"]))
    return Arithmetic(operator, *(random_expression(generator, depth - 1) for _ in range(2)))


def random_boxes(generator, count=40):
    center = generator.normal(0, 3, size=(count, 2))
    radius = 10.0 ** generator.uniform(-13, 1, size=(count, 1)) * generator.random((count, 2))
    return center - radius, center + radius


@pytest.mark.parametrize("seed", range(40))
def test_every_value_lies_in_the_interval(seed):
    generator = np.random.default_rng(seed)
    node = random_expression(generator)
    low, high = random_boxes(generator)
    ends = enclose(node, {"x": (low[:, 0], high[:, 0]), "z": (low[:, 1], high[:, 1])})
    share = generator.random((50, *low.shape))
    share = np.where(generator.random((50, len(low), 1)) < 0.3, np.round(share), share)
    points = np.clip(low + share * (high - low), low, high)
    value = evaluate(node, {"x": points[..., 0], "z": points[..., 1]}, None)
    least, most = (np.broadcast_to(end, (len(low),)) for end in ends)
    known = ~np.isnan(value)
    assert (np.where(known, value, least) >= least).all()
    assert (np.where(known, value, most) <= most).all()


@pytest.mark.parametrize(
    ("node", "ends", "expected"),
    [
        (Arithmetic("*", X, X), (-1.0, 2.0), (-2.0, 4.0)),
        (Arithmetic("^", X, Number(2.0)), (-1.0, 2.0), (0.0, 4.0)),
        (Call("cos", (X,)), (-1.0, 1.0), (np.cos(1.0), 1.0)),
        (Call("sin", (X,)), (1.0, 5.0), (-1.0, 1.0)),
        (Call("abs", (X,)), (-3.0, 2.0), (0.0, 3.0)),
        (Arithmetic("/", Number(1.0), X), (-1.0, 1.0), (-np.inf, np.inf)),
        (Call("log", (X,)), (-1.0, 1.0), (-np.inf, np.inf)),
        (Call("exp", (X,)), (0.0, 1.0), (1.0, np.e)),
    ],
)
def test_intervals_are_as_tight_as_intervals_can_be(node, ends, expected):
    found = enclose(node, {"x": tuple(np.array([end]) for end in ends)})
    assert np.ravel(found) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "=", "!="])
@pytest.mark.parametrize("negated", [False, True])
def test_a_decided_comparison_is_so_at_every_point(sign, negated):
    generator = np.random.default_rng(0)
    condition = Comparison((Arithmetic("*", X, X), Arithmetic("+", Z, Number(1.0))), (sign,))
    condition = Not(condition) if negated else condition
    low, high = random_boxes(generator, 200)
    columns = {"x": (low[:, 0], high[:, 0]), "z": (low[:, 1], high[:, 1])}
    surely, never = decided(condition, columns, SCHEMA)
    points = low + generator.random((100, *low.shape)) * (high - low)
    holds = evaluate(condition, {"x": points[..., 0], "z": points[..., 1]}, None)
    assert holds[:, surely].all()
    assert not holds[:, never].any()
    assert (surely | never).any() or sign in ("=", "!=")


def test_levels_of_a_category_are_decided_by_the_codes_between_the_ends():
    low, high = np.array([0.0, 0.0, 2.0]), np.array([0.0, 1.0, 2.0])
    surely, never = decided(Membership("site", ("a", "b")), {"site": (low, high)}, SCHEMA)
    assert surely.tolist() == [True, True, False]
    assert never.tolist() == [False, False, True]
