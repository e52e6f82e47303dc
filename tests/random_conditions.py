"""Conditions at random over every kind of column, and the points at which to compare what they mean."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from ocbnn.language.expressions import (
    Always,
    And,
    Arithmetic,
    Call,
    ColumnRef,
    Comparison,
    Condition,
    Expression,
    Membership,
    Negate,
    Not,
    Number,
    Or,
)
from ocbnn.schema import Column, Schema

SCHEMA = Schema(
    (
        Column("x", "continuous", (-2.0, 2.0)),
        Column("z", "continuous", (-2.0, 2.0)),
        Column("count", "integer", (0.0, 3.0)),
        Column("flag", "binary", (0.0, 1.0)),
        Column("ward", "category", (0.0, 2.0), levels=("a", "b", "c")),
    )
)
# Halves keep affine arithmetic exact, so that boundaries must agree to the last point.
GRID = np.array(
    list(
        itertools.product(
            np.arange(-2.0, 2.5, 0.5),
            np.arange(-2.0, 2.5, 0.5),
            [0.0, 1.0, 2.0, 3.0],
            [0.0, 1.0],
            [0.0, 1.0, 2.0],
        )
    )
)
halves = st.integers(-4, 4).map(lambda k: Number(k / 2))
numeric = st.sampled_from(["x", "z", "count", "flag"]).map(ColumnRef)


def larger_expressions(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(Negate, inner),
        st.builds(Arithmetic, st.sampled_from("+-"), inner, inner),
        st.builds(Arithmetic, st.just("*"), halves, inner),
        st.builds(Arithmetic, st.sampled_from("*/"), inner, inner),
        st.builds(lambda f, a: Call(f, (a,)), st.sampled_from(["abs", "sqrt", "log"]), inner),
    )


def larger_conditions(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    items = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(And, items), st.builds(Or, items), st.builds(Not, inner))


expressions = st.recursive(halves | numeric, larger_expressions, max_leaves=4)
operators = st.sampled_from(["<", "<=", ">", ">=", "=", "!="])
levels = st.lists(st.sampled_from("abc"), min_size=1, unique=True).map(tuple)
conditions = st.recursive(
    st.one_of(
        st.builds(lambda c, o, v: Comparison((c, v), (o,)), numeric, operators, halves),
        st.builds(Comparison, st.tuples(expressions, expressions), st.tuples(operators)),
        st.builds(
            Comparison, st.tuples(expressions, expressions, expressions), st.tuples(operators, operators)
        ),
        st.builds(Membership, st.just("ward"), levels),
        st.just(Always()),
    ),
    larger_conditions,
    max_leaves=8,
)
