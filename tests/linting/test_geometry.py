import itertools

import numpy as np
import pytest

from lint_cases import CLINIC, LINE, rules_of
from ocbnn.linting.geometry import (
    Space,
    bounded,
    covered,
    deepest,
    interior_point,
    intersection,
    is_empty,
    is_flat,
    largest,
    opposite_faces_exclude,
    simplest,
)
from ocbnn.linting.subjects import cells_of


def cells(condition, schema=LINE):
    output = (
        "y > 0"
        if schema.target.task == "regression"
        else f"{schema.target.name} = {schema.target.classes[0]}"
    )
    (rule,) = rules_of((f"if {condition} then {output}",), schema)
    space = Space(schema)
    return [cell for part in rule.region.components() for cell in cells_of(part, space)], space


def one_cell(condition, schema=LINE):
    (cell,), space = cells(condition, schema)
    return cell, space


EMPTY = [
    "x > 3 and x < 2",
    "x < 2 and x > 2",
    "x < 2 and x >= 2",
    "x + z < 2 and x + z > 2",
    "x + z < 2 and 2 * x + 2 * z >= 4",
    "x > 0 and z > 0 and x + z < 0",
    "x > 0 and z > 0 and x + z <= 0",
    "x - z > 1e-7 and x - z < 1e-7",
]
FILLED = [
    "x <= 2 and x >= 2",
    "x > 2 and x < 2.0000001",
    "x + z <= 2 and x + z >= 2",
    "x >= 0 and z >= 0 and x + z <= 0",
    "x + z > 2 and x + z < 2.000001",
    "x > 1000 and x + z < -1000",
]


@pytest.mark.parametrize("condition", EMPTY)
def test_contradicting_conditions_are_empty(condition):
    assert is_empty(*one_cell(condition))


@pytest.mark.parametrize("condition", FILLED)
def test_conditions_that_meet_are_not_empty(condition):
    assert not is_empty(*one_cell(condition))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("2 < age < 3", True),
        ("2 <= age < 3", False),
        ("2 < age <= 2.5", True),
        ("1 < 2 * age - 2 * visits < 2", True),
        ("1 < 2 * age - 3 * visits < 3 and age < 30 and visits < 30", False),
        ("3 * age + 6 * visits = 4", True),
        ("0 < ventilated < 1", True),
        ("ventilated > 1", True),
        ("ward = ICU and ward = surgery", True),
        ("not ward in {ICU, surgery}", False),
        ("not ward in {ICU, surgery, medicine}", True),
    ],
)
def test_whole_numbers_and_labels_are_respected(condition, expected):
    found, space = cells(condition, CLINIC)
    assert all(is_empty(cell, space) for cell in found) is expected


def test_flat_cells_are_those_without_volume():
    assert is_flat(*one_cell("x = 2"))
    assert is_flat(*one_cell("x + z = 2"))
    assert not is_flat(*one_cell("x >= 2"))
    assert not is_flat(*one_cell("x + z >= 2"))
    assert not is_flat(*one_cell("age = 2", CLINIC))


def test_the_deepest_point_of_a_triangle_is_its_incentre():
    cell, space = one_cell("x >= 0 and z >= 0 and 3 * x + 4 * z <= 12")
    found = deepest(bounded(cell, np.zeros(2), np.full(2, 6.0), space), space, everywhere=True)
    np.testing.assert_allclose(found.point, [1.0, 1.0], atol=1e-9)
    assert found.slack == pytest.approx(1 / 6)


def test_points_where_affine_functions_are_positive_are_found_exactly():
    cell, space = one_cell("0 <= x <= 1 and 0 <= z <= 1")
    above = np.array([1.0, 1.0, -1.999999])
    found = deepest(cell, space, [above])
    assert found.is_inside
    assert found.point @ above[:-1] + above[-1] > 0
    assert deepest(cell, space, [np.array([1.0, 1.0, -2.0])]) is None
    assert deepest(cell, space, nonnegative=[np.array([1.0, 1.0, -2.0])]).point == pytest.approx([1.0, 1.0])
    assert deepest(cell, space, [np.array([1.0, 0.0, -0.5]), np.array([-1.0, 0.0, 0.4])]) is None


def test_a_cell_no_point_of_which_meets_the_closed_inequalities_has_no_depth():
    cell, space = one_cell("x + z >= 3 and x + z <= 2")
    assert deepest(cell, space) is None
    touching, _ = one_cell("x + z >= 2 and x + z <= 2")
    assert deepest(touching, space, everywhere=True).slack == pytest.approx(0, abs=1e-9)


def test_parallel_faces_are_seen_to_exclude_each_other_without_a_program():
    assert opposite_faces_exclude(one_cell("x + z > 2 and 2 * x + 2 * z < 3")[0])
    assert not opposite_faces_exclude(one_cell("x + z > 2 and 2 * x + 2 * z < 5")[0])
    assert not opposite_faces_exclude(one_cell("x + z > 2 and x + 1.01 * z < 1")[0])


def test_the_largest_value_over_a_box_bounds_the_function():
    cell, _ = one_cell("-1 < x < 2 and z > 0")
    assert largest(cell, np.array([2.0, 0.0, 1.0])) == 5.0
    assert largest(cell, np.array([-2.0, -1.0, 1.0])) == 3.0
    assert largest(cell, np.array([0.0, 1.0, 1.0])) == np.inf
    assert largest(cell, np.array([0.0, 0.0, -7.0])) == -7.0


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        ("1 < x < 2", "x > 1", True),
        ("1 <= x < 2", "x > 1", False),
        ("x > 0 and z > 0", "x + z > 0", True),
        ("x >= 0 and z >= 0", "x + z > 0", False),
        ("x + z > 1", "2 * x + 2 * z > 2", True),
        ("x + z >= 1", "2 * x + 2 * z > 2", False),
        ("-1 < x < 1", "x < 0 or x > 0", False),
        ("-1 < x < 1", "x < 0 or x >= 0", True),
        ("-1 < x < 1 and -1 < z < 1", "x + z < 0.5 or x - z > -1 or x > 0.9", False),
        ("-1 < x < 1 and -1 < z < 1", "x + z < 0.5 or x + z > 0.25", True),
        ("sin(x) > 0 and z > 1", "sin(x) > 0", True),
        ("z > 1", "sin(x) > 0", False),
        ("sin(x) > 0 and z > 1", "z > 0", True),
    ],
)
def test_cover_is_decided_with_open_and_closed_ends(inner, outer, expected):
    (cell,), space = cells(inner)
    covers, _ = cells(outer)
    assert covered(cell, covers, space, [512]) is expected


def test_cover_knows_whole_numbers_and_labels():
    space = Space(CLINIC)
    (narrow,), _ = cells("2 < age < 5 and ward = ICU", CLINIC)
    assert covered(narrow, cells("3 <= age <= 4", CLINIC)[0], space, [512])
    assert covered(narrow, cells("age <= 3 or age >= 4", CLINIC)[0], space, [512])
    assert covered(narrow, cells("ward in {ICU, surgery}", CLINIC)[0], space, [512])
    assert not covered(narrow, cells("age <= 3 or age >= 5", CLINIC)[0], space, [512])
    (every_ward,), _ = cells("age > 5", CLINIC)
    assert covered(every_ward, cells("ward = ICU or not ward = ICU", CLINIC)[0], space, [512])
    assert not covered(every_ward, cells("ward = ICU or ward = surgery", CLINIC)[0], space, [512])
    assert covered(every_ward, cells("ventilated = 0 or ventilated = 1", CLINIC)[0], space, [512])


def test_a_cover_that_takes_too_many_steps_is_not_claimed():
    (cell,), space = cells("-1 < x < 1")
    assert not covered(cell, [*cells("x < 0")[0], *cells("x >= 0")[0]], space, [0])


def test_intersections_keep_the_stricter_end():
    one, space = one_cell("0 <= x < 2")
    other, _ = one_cell("0 < x <= 2")
    both = intersection(one, other)
    assert both.low_open[0]
    assert both.high_open[0]
    again = intersection(other, one)
    assert (again.low_open[0], again.high_open[0]) == (True, True)
    assert not is_empty(both, space)


def test_interior_points_lie_inside_for_every_filled_condition():
    for condition in FILLED:
        (rule,) = rules_of((f"if {condition} then y > 0",), LINE)
        point = interior_point(*one_cell(condition))
        found = simplest(
            point, Space(LINE), lambda p, rule=rule: bool(rule.region.contains(p[None], LINE)[0])
        )
        assert found is not None, condition


def test_the_simplest_point_has_few_digits_and_whole_columns_stay_whole():
    space = Space(CLINIC)
    point = np.array([40.0, 3.14159, 0.123456, 55.5555, 3.0, 1.0, 2.0, 0.0])
    assert simplest(point, space, lambda p: True)[[0, 4, 5, 6]].tolist() == [40.0, 3.0, 1.0, 2.0]
    assert simplest(point, space, lambda p: abs(p[1] - 3.14159) < 0.02)[1] == 3.14
    assert simplest(point, space, lambda p: False) is None
    exact = np.array([40.0, 1 / 3, 1 / 7, 1.0, 3.0, 1.0, 2.0, 0.0])
    assert simplest(exact, space, lambda p: bool(np.all(p == exact))) is not None


def test_emptiness_agrees_with_enumeration_of_a_small_whole_number_table():
    rng = np.random.default_rng(5)
    grid = np.array(list(itertools.product(range(0, 8), range(0, 8))), dtype=float)
    disagreements = 0
    seen = set()
    for _ in range(120):
        a, b, c, d = rng.integers(-4, 5, size=4)
        low, high = np.sort(rng.integers(-12, 12, size=2))
        inside = (a * grid[:, 0] + b * grid[:, 1] > low) & (a * grid[:, 0] + b * grid[:, 1] < high)
        inside &= c * grid[:, 0] + d * grid[:, 1] <= low
        condition = (
            f"{low} < {a} * age + {b} * visits < {high} and {c} * age + {d} * visits <= {low} "
            "and 0 <= age <= 7 and 0 <= visits <= 7"
        )
        found, space = cells(condition, CLINIC)
        empty = all(is_empty(cell, space) for cell in found)
        seen.add(empty)
        disagreements += empty != (not inside.any())
    assert disagreements == 0
    assert seen == {True, False}
