"""A region's form depends on the set of inputs, not on the words that describe it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ocbnn.language.expressions import And, ColumnRef, Comparison, Condition, Membership, Not, Or
from ocbnn.regions import Box, Everywhere, Interval, Predicate, Union, region_of, sample
from random_conditions import SCHEMA, halves, levels, numeric, operators
from region_cases import MIXED, region

SAME = [
    ("creatinine > 2", "not creatinine <= 2", "2 < creatinine", "creatinine > 3 or creatinine > 2"),
    ("2 < creatinine < 3", "creatinine < 3 and creatinine > 2", "not (creatinine <= 2 or creatinine >= 3)"),
    ("2 < creatinine < 4", "2 < creatinine <= 3 or 3 < creatinine < 4", "creatinine > 2 and creatinine < 4"),
    ("age > 30", "age >= 31", "not age <= 30", "age in {31, 32, 33} or age >= 34"),
    ("age in {20, 22}", "age = 22 or age = 20", "20 <= age <= 22 and age != 21"),
    ("ward = ICU", "not ward in {surgery, medical}", "ward = ICU or ward = ICU and age > 3"),
    ("smoker = 1", "smoker > 0.5", "not smoker = 0"),
    ("always", "age > 3 or age <= 3", "ward in {ICU, surgery, medical}", "age <= 5 or age > 2"),
    ("creatinine != 2", "creatinine < 2 or creatinine > 2", "not creatinine = 2"),
    (
        "age > 30 or creatinine > 2",
        "creatinine > 2 or age > 30",
        "age > 30 or age <= 30 and creatinine > 2",
        "creatinine > 2 and age <= 30 or age > 30 and creatinine <= 2 or age > 30 and creatinine > 2",
    ),
    (
        "age > 30 and (creatinine > 2 or ward = ICU)",
        "(ward = ICU or creatinine > 2) and age > 30",
        "not (age <= 30 or creatinine <= 2 and ward != ICU)",
    ),
    (
        "creatinine + lactate < 3 and creatinine < lactate",
        "creatinine < lactate and 3 > lactate + creatinine",
    ),
    ("creatinine * lactate > 1 or age > 30", "age > 30 or creatinine * lactate > 1"),
]


def _region(words: str):
    return Everywhere() if words == "always" else region(words)


@pytest.mark.parametrize("wordings", SAME)
def test_one_set_has_one_form_and_the_same_points(wordings):
    first, *others = (_region(words) for words in wordings)
    points = sample(7, first, MIXED, None, 50)
    for other in others:
        assert other == first
        np.testing.assert_array_equal(sample(7, other, MIXED, None, 50), points)


def test_boxes_that_only_nearly_touch_are_two() -> None:
    assert region("creatinine < 2 or creatinine > 2") == Union(
        (
            Box({"creatinine": Interval(high=2, high_closed=False)}),
            Box({"creatinine": Interval(low=2, low_closed=False)}),
        )
    )
    assert region("creatinine < 2 or creatinine >= 2") == Everywhere()


def test_boxes_that_overlap_are_the_largest_that_fit_into_their_union() -> None:
    stairs = region("creatinine <= 2 and lactate < 1 or creatinine >= 2 and lactate < 3")
    assert stairs == Union(
        (
            Box({"creatinine": Interval(low=2), "lactate": Interval(high=3, high_closed=False)}),
            Box({"lactate": Interval(high=1, high_closed=False)}),
        )
    )


atoms: st.SearchStrategy[Condition] = st.one_of(
    st.builds(lambda c, o, v: Comparison((c, v), (o,)), numeric, operators, halves),
    st.builds(lambda c, o, v: Comparison((v, c), (o,)), numeric, operators, halves),
    st.builds(Membership, st.just("ward"), levels),
)
boxes = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=2).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=2).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=4,
)


@st.composite
def reworded(draw: st.DrawFn, condition: Condition, depth: int = 2) -> Condition:
    """The same condition in other words."""
    match condition:
        case And(items) | Or(items) if depth:
            said = [draw(reworded(item, depth - 1)) for item in draw(st.permutations(items))]
            condition = type(condition)(tuple(said))
            if draw(st.booleans()):  # De Morgan
                other = Or if isinstance(condition, And) else And
                condition = Not(other(tuple(Not(item) for item in said)))
        case Not(item) if depth:
            condition = Not(draw(reworded(item, depth - 1)))
    cut = draw(atoms)
    match draw(st.sampled_from(["same", "not not", "cut in two", "said twice", "narrower too"])):
        case "not not":
            return Not(Not(condition))
        case "cut in two":
            return Or((And((condition, cut)), And((Not(cut), condition))))
        case "said twice":
            return And((condition, condition))
        case "narrower too":
            return Or((And((condition, cut)), condition))
    return condition


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data(), boxes)
def test_a_condition_reworded_has_the_same_region(data: st.DataObject, condition: Condition) -> None:
    first, second = region_of(condition, SCHEMA), region_of(data.draw(reworded(condition)), SCHEMA)
    for found in (first, second):  # what multiplies out to too many boxes stays a predicate
        assume(not any(isinstance(part, Predicate) for part in found.components()))
    if first.components() and first.contains(_grid(), SCHEMA).any():
        assert first == second


def _grid() -> np.ndarray:
    """Points of every cell that half-integers cut the columns into."""
    fine = np.arange(-2.5, 2.75, 0.25)
    axes = np.meshgrid(fine, fine, np.arange(-2.0, 6.0), [0.0, 1.0], [0.0, 1.0, 2.0], indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=-1)


def test_a_union_of_very_many_boxes_is_given_in_time_and_in_one_order() -> None:
    generator = np.random.default_rng(0)
    corners = generator.uniform(-2, 2, (60, 2))

    def condition(order: np.ndarray) -> Condition:
        from ocbnn.language.expressions import Number

        return Or(
            tuple(
                And(
                    tuple(
                        Comparison((Number(end - 0.8), ColumnRef(name), Number(end + 0.8)), ("<", "<"))
                        for name, end in zip(("x", "z"), corners[i], strict=True)
                    )
                )
                for i in order
            )
        )

    first = region_of(condition(np.arange(60)), SCHEMA)
    second = region_of(condition(generator.permutation(60)), SCHEMA)
    assert first == second
