"""A condition's region holds exactly the points at which the condition is true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from ocbnn.language.expressions import (
    Always,
    Arithmetic,
    ColumnRef,
    Comparison,
    Condition,
    Not,
    Number,
    evaluate,
)
from ocbnn.regions import Box, Everywhere, HalfSpace, HalfSpaces, Interval, Predicate, Union, region_of
from ocbnn.regions.build import MOST_DISJUNCTS
from random_conditions import GRID, SCHEMA, conditions
from region_cases import MIXED, region


@settings(max_examples=400, deadline=None, derandomize=True)
@given(conditions)
def test_a_region_holds_exactly_the_points_where_its_condition_is_true(condition: Condition) -> None:
    found = region_of(condition, SCHEMA)
    expected = evaluate(condition, SCHEMA.values(GRID), SCHEMA)
    assert np.array_equal(found.contains(GRID, SCHEMA), expected)
    assert hash(found) == hash(region_of(condition, SCHEMA))
    assert found == region_of(condition, SCHEMA)


def test_comparisons_of_one_column_make_a_box() -> None:
    found = region("2 < creatinine <= 3 and age >= 18 and not age >= 35 and ward != ICU")
    assert found == Box(
        {"creatinine": Interval(2, 3, False, True), "age": Interval(18, 34)},
        {"ward": frozenset({"surgery", "medical"})},
    )


def test_affine_comparisons_of_one_column_make_a_box() -> None:
    assert region("2 * creatinine + 1 < 5 - creatinine / 2") == Box(
        {"creatinine": Interval(high=1.6, high_closed=False)}
    )
    assert region("-creatinine < -2") == region("creatinine > 2")


def test_affine_comparisons_of_several_columns_make_half_spaces() -> None:
    found = region("age > 30 and creatinine + 2 * lactate < 3")
    assert found == HalfSpaces(
        Box({"age": Interval(low=30, low_closed=False)}),
        (HalfSpace({"creatinine": 1.0, "lactate": 2.0}, 3.0, strict=True),),
    )


def test_an_equality_of_columns_is_a_half_space_and_its_reverse() -> None:
    found = region("creatinine = lactate")
    assert isinstance(found, HalfSpaces)
    assert found.faces[0].reversed() == found.faces[1]


def test_the_rest_is_a_predicate_beside_what_is_not() -> None:
    found = region("age > 30 and creatinine * lactate > 3")
    assert isinstance(found, Predicate)
    assert found.box == Box({"age": Interval(low=30, low_closed=False)})
    assert found.columns() == {"age", "creatinine", "lactate"}


def test_or_makes_a_union() -> None:
    assert region("age > 30 or lactate > 4") == Union((region("age > 30"), region("lactate > 4")))


def test_not_equal_to_0_or_1_leaves_one_box_on_a_binary_column() -> None:
    assert region("smoker != 1") == region("smoker = 0") == Box({"smoker": Interval(0, 0)})


def test_a_condition_that_always_holds_is_everywhere() -> None:
    assert region_of(Always(), MIXED) == Everywhere()
    assert region_of(Comparison((Number(1), Number(2)), ("<",)), MIXED) == Everywhere()
    assert region("age > 30 or age - age < 1") == Everywhere()


def test_a_condition_that_never_holds_is_the_empty_union() -> None:
    never = region_of(Comparison((Number(1), Number(2)), (">",)), MIXED)
    assert never == Union(())
    assert not never.contains(np.zeros((3, 8)), MIXED).any()
    assert region_of(Not(Always()), MIXED) == never


def test_a_contradiction_keeps_its_conditions() -> None:
    found = region("lactate > 3 and lactate < 2")
    assert found == Box({"lactate": Interval(3, 2, False, False)})
    assert found.text() == "lactate > 3 and lactate < 2"


@pytest.mark.parametrize("alternatives", [6, 7])
def test_a_condition_that_multiplies_out_too_far_stays_a_predicate(alternatives: int) -> None:
    names = ["creatinine", "lactate", "urine", "age", "visits", "lactate * 1", "urine * 1"]
    condition = " and ".join(
        f"({name} < {i} or {name} > {i + 1})" for i, name in enumerate(names[:alternatives])
    )
    found = region(condition)
    assert isinstance(found, Union if 2**alternatives <= MOST_DISJUNCTS else Predicate)


def test_the_negation_of_a_comparison_with_nan_is_true_as_it_is_in_the_condition() -> None:
    condition = Not(Comparison((Arithmetic("/", ColumnRef("x"), ColumnRef("z")), Number(1)), (">",)))
    nowhere = np.zeros((1, 5))
    assert evaluate(condition, SCHEMA.values(nowhere), SCHEMA).all()
    assert region_of(condition, SCHEMA).contains(nowhere, SCHEMA).all()
